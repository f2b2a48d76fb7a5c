"""Errors that tastespace raises on purpose.

Each message says what was given, what was expected and what to do. A message is made of parts: text, the `Argument`s
that it is about, and `Call`s that it advises. In Python an argument reads ``on_unknown='skip'``; the command line words
the same error with ``--on-unknown skip``, the server with ``on_unknown=skip`` (see `TastespaceError.worded`).
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class Verbatim(str):
    """Text that messages show as it is, without quotes: stands for a value that is too long or has no short form."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Call(str):
    """A call of the library in a message, such as ``model.interests(user)``; other interfaces name their own."""

    __slots__ = ()


NOT_GIVEN = Verbatim("")
"""Value of an `Argument` of which a message gives the name alone."""


@dataclass(frozen=True)
class Argument:
    """An argument in a message: its name in Python and, where the message shows it, its value.

    >>> str(Argument("on_unknown", "skip")), str(Argument("items"))
    ("on_unknown='skip'", 'items=')
    """

    name: str
    value: Any = NOT_GIVEN

    @property
    def is_given(self) -> bool:
        """True where the message shows a value."""
        return self.value is not NOT_GIVEN

    def __str__(self) -> str:
        return f"{self.name}={shortened(self.value)}"

    def __reduce__(self) -> Any:
        # An error may travel to another process, and a value may be a function or a large table: its text goes along.
        if not self.is_given:
            return Argument, (self.name,)
        plain = isinstance(self.value, (str, int, float, type(None)))
        return Argument, (self.name, self.value if plain else Verbatim(shortened(self.value)))


class TastespaceError(Exception):
    """Base of every error that the library raises on purpose.

    >>> problem = ParameterError(Argument("k", 0), ": expected a whole number, 1 or more.")
    >>> str(problem), problem.arguments[0].name, problem.arguments[0].value
    ('k=0: expected a whole number, 1 or more.', 'k', 0)
    >>> problem.worded(lambda part: f"--{part.name} {part.value}" if isinstance(part, Argument) else str(part))
    '--k 0: expected a whole number, 1 or more.'
    """

    def __init__(self, *parts: str | Argument) -> None:
        super().__init__(*parts)

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments that the message is about, in its order."""
        return tuple(part for part in self.args if isinstance(part, Argument))

    def worded(self, word: Callable[[Argument | Call], str]) -> str:
        """Return the message with arguments and calls in the words of an interface."""
        return "".join(word(part) if isinstance(part, (Argument, Call)) else str(part) for part in self.args)

    def __str__(self) -> str:
        return self.worded(str)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class DataError(TastespaceError, ValueError):
    """The data given cannot be used as it is."""


class ParameterError(TastespaceError, ValueError):
    """A parameter is unknown or has a value that is not allowed, or a model does not support what was asked for."""


class UnknownIdError(TastespaceError, KeyError):
    """A user or item that the data or the model does not have."""


class DatasetError(TastespaceError):
    """A named data set is unknown, or none of its sources could deliver it."""


class TrainingError(TastespaceError, RuntimeError):
    """Training cannot continue: it diverged, or its checkpoint does not fit."""


class TimeLimitError(TastespaceError, TimeoutError):
    """A computation was stopped because its limit of time was over."""


class BusyError(TastespaceError, RuntimeError):
    """Another process is doing the same work."""


class ClusterError(TastespaceError, RuntimeError):
    """A cluster cannot be reached or used, or a run on it cannot continue."""


class InterruptedRunError(ClusterError):
    """A cluster or its storage failed, not the run: when they work again, the same call resumes the run."""


class ModelFileError(TastespaceError):
    """A saved model cannot be written or read: missing, foreign, damaged, of a newer format, or a full disk."""


class ModelChangedError(ModelFileError):
    """A file of a loaded model was changed by another program while the model was in use."""


class ForkError(TastespaceError, RuntimeError):
    """Something that needs threads of the parent process was called in a forked child, where it would never return."""


class NotFittedError(TastespaceError, AttributeError):
    """A method that needs a fitted model was called before `fit`."""


def shortened(value: Any, most: int = 80) -> str:
    """Return a value as messages show it; of a long one the beginning.

    >>> shortened([1, 2])
    '[1, 2]'
    """
    if isinstance(value, int) and value.bit_length() > 1_000:  # Python refuses to write out much longer ones
        return f"{'-' * (value < 0)}2**{value.bit_length() - 1} or more"
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def require_path(path: Any, name: str | None = None) -> Path:
    """Return the name of a file or folder as a path, with ``~`` resolved; anything else is an error.

    ``name`` is that of the parameter, for the message.

    >>> require_path("models/shop").name
    'shop'
    """
    given = "" if name is None else f"{name}: "
    if not isinstance(path, (str, os.PathLike)):
        raise ParameterError(f"{given}expected the name of a file or folder, given {path!r}.")
    address = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", str(path))  # a Path has one slash of the two
    if address is not None:
        raise ParameterError(
            f"{given}expected the name of a file or folder on this machine, given an address ({address[1]}://...)."
        )
    try:
        found = Path(path).expanduser()
        found.exists()
    except (OSError, ValueError, TypeError, RuntimeError) as problem:  # too long, a zero byte, ~nobody, bytes
        raise ParameterError(
            f"{given}{str(path)[:100]!r} cannot be the name of a file: {str(problem).rstrip('.')}."
        ) from problem
    return found


def nearest(name: object, known: Iterable[object], n: int = 3) -> str:
    """Return a sentence with the known names nearest to ``name``, or an empty string.

    >>> nearest("ml-1n", ["ml-1m", "anime"])
    ' Did you mean ml-1m?'
    """
    by_lower = {str(k).lower(): str(k) for k in known}
    matches = [by_lower[m] for m in difflib.get_close_matches(str(name).lower(), list(by_lower), n=n)]
    return f" Did you mean {' or '.join(matches)}?" if matches else ""
