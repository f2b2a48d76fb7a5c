r"""Text from data on a terminal: titles and ids may hold escape sequences, which must not reach it.

Everything that the library prints goes through `Console` or `neutralized`. Styles of rich are added after that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import rich.console
from rich.segment import Segment

# C0 without tab and line feed, DEL, C1, and the characters that change the direction of the text around them.
_CODES = [*range(9), 11, 12, *range(13, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_VISIBLE = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in _CODES}


def neutralized(text: str) -> str:
    r"""The text with control characters, escape sequences and changes of direction in visible form.

    >>> neutralized("jam\x1b]0;title\x07\tand \u202ebread")
    'jam\\x1b]0;title\\x07\tand \\u202ebread'
    """
    return text if text.isascii() and text.isprintable() else text.translate(_VISIBLE)


def write_text(text: str) -> None:
    """Write to standard output; neutralized where that is a terminal, as it is where a program reads it."""
    sys.stdout.write(neutralized(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


class Console(rich.console.Console):
    """A console of rich that neutralizes the text of what it prints; its own styles and movements stay."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """The segments of something that can be printed."""
        return self._neutralized(super().render(renderable, options))

    def _neutralized(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        for segment in segments:
            yield segment if segment.control else Segment(neutralized(segment.text), segment.style)
