"""Shelves and explanations as HTML for notebooks, in the notebook's own colors; all text is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_CARD = (
    "flex:0 0 150px;min-height:64px;padding:8px 10px;border:1px solid rgba(128,128,128,.35);border-radius:8px;"
    "white-space:normal;overflow-wrap:anywhere"
)
_SOFT = "opacity:.65;font-size:.9em"


_UNSEEN = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]")
"""Control characters, and those that turn the direction of what follows."""


_BREAKS = re.compile("[\\t-\\r\\x85\\u2028\\u2029]+")
"""Tabs and ends of lines: the words beside them stay apart."""


def _plain(text: str) -> str:
    return escape(_UNSEEN.sub("", _BREAKS.sub(" ", text)))


def _isolated(text: str) -> str:
    """A title: whatever way it is written, what is beside it stays where it is."""
    return f"<bdi>{_plain(text)}</bdi>"


def shelf_html(name: str, weight: float, because: Sequence[str], titles: Iterable[str]) -> str:
    """One shelf: its name, its share of the history, past items it comes from, and a row of cards.

    >>> "<b>" in shelf_html("Jazz", 0.5, [], ["<b>Kind of Blue</b>"])
    False
    """
    cards = "".join(
        f'<div style="{_CARD}"><span style="{_SOFT}">{rank}</span> {_isolated(title)}</div>'
        for rank, title in enumerate(titles, 1)
    )
    reason = f'<div style="{_SOFT}">because of {", ".join(map(_isolated, because))}</div>' if because else ""
    return (
        f'<div style="margin:0 0 14px"><strong>{_isolated(name)}</strong> '
        f'<span style="{_SOFT}">{100 * weight:.0f} %</span>{reason}'
        f'<div style="display:flex;gap:8px;overflow-x:auto;padding:6px 0">{cards}</div></div>'
    )


def shelves_html(user: Any, shelves: Iterable[str]) -> str:
    """All shelves of a user, below the id."""
    return (
        f'<div><div style="{_SOFT};margin-bottom:8px">shelves of {_isolated(str(user))}</div>{"".join(shelves)}</div>'
    )


def text_html(text: str) -> str:
    r"""Lines of text.

    >>> text_html("a < b\nc")
    '<div>a &lt; b<br>c</div>'
    """
    return "<div>" + "<br>".join(map(_plain, text.splitlines())) + "</div>"
