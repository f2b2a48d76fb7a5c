"""Types of answers: the server sends them, the client returns them, and the page shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tastespace.errors import TastespaceError, UnknownIdError

Id: TypeAlias = int | float | str | bool
"""An id as JSON has it: a number, text, true or false; dates and ids of other types are text."""


class AnswerError(TastespaceError):
    """A question that has no answer: a code for programs, a message and advice for people.

    >>> problem = AnswerError("all_muted", "all 3 interests are muted.", "Leave one of them.")
    >>> problem.code, str(problem)
    ('all_muted', 'all 3 interests are muted.')
    """

    def __init__(self, code: str, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.advice = code, message, advice


class UnknownAnswerError(AnswerError, UnknownIdError):
    """A question about a user or an item that the model does not have."""


@dataclass(slots=True)
class PastItem:
    """A past item behind a recommendation, and its weight."""

    item: Id
    title: str | None
    weight: float


@dataclass(slots=True)
class NamedItem:
    """An item and its title."""

    item: Id
    title: str | None


@dataclass(slots=True)
class HistoryItem:
    """A past item and the interest that it belongs to."""

    item: Id
    title: str | None
    interest: int | None


@dataclass(slots=True)
class FoundItem:
    """An item of the catalog."""

    item: Id
    title: str | None
    category: str | None
    popularity: int


@dataclass(slots=True)
class Item:
    """One item of a list."""

    item: Id
    title: str | None
    category: str | None
    rank: int
    score: float | None
    interest: int | None
    distance: float | None
    because: list[PastItem] | None = None
    """None where it was not asked for."""


@dataclass(slots=True)
class Recommendations:
    """The list of one user."""

    user: Id | None
    model: int
    """Generation of the model that gave it."""
    items: list[Item]
    fallback: Literal["popular"] | None = None
    """``"popular"`` where nothing is known of the user."""
    unknown_items: list[Id] = field(default_factory=list)
    """Items of a history that the model does not know and that were left out."""
    next: str | None = None
    """Token of the next page, where a page was asked for and there are more."""
    recommendation: str | None = None
    """Id of the answer, for events that come of it; None where a server does not log its lists."""


@dataclass(slots=True)
class CountedItem:
    """An item of a list that counts people."""

    item: Id
    title: str | None
    category: str | None
    rank: int
    score: float
    users: int


@dataclass(slots=True)
class ShelfAnswer:
    """The list of one interest."""

    interest: int
    interests: list[int]
    name: str
    share: float
    weight: float
    muted: bool
    boost: float
    reasons: list[NamedItem]
    items: list[Item]


@dataclass(slots=True)
class Interest:
    """One interest of a user, with its place on the map."""

    interest: int
    name: str
    share: float
    muted: bool
    boost: float
    x: float
    y: float
    items: list[NamedItem]


@dataclass(slots=True)
class AudienceUser:
    """A user whose interest is near an item."""

    user: Id
    interest: int
    distance: float


@dataclass(slots=True)
class FoundUser:
    """A user of the model."""

    user: Id
    name: str | None
    n_items: int


@dataclass(slots=True)
class Map:
    """All items in the plane, in columns of the same length."""

    items: list[Id]
    titles: list[str | None]
    x: list[float]
    y: list[float]
    category: list[int]
    """Place in `categories`; -1: none."""
    categories: list[str]
    popularity: list[int]
    images: list[str | None] = field(default_factory=list)
    """Address of a picture of each item; empty where pictures are not shown."""


@dataclass(slots=True)
class TasteShare:
    """A taste that speaks for an item, and its share of the score."""

    interest: int
    name: str
    share: float


@dataclass(slots=True)
class ExplanationAnswer:
    """Reasons for the rank of an item."""

    user: Id | None
    item: Id
    title: str | None
    text: str
    interest: int | None
    interest_name: str | None
    because: list[PastItem]
    """Past items that matter most; of models with tastes those of the item's own, each with its share of the score."""
    tastes: list[TasteShare]
    """The tastes that speak for the item, the strongest first, with the sum 1; empty for models without tastes."""
    distance: float | None
    rank: int | None
    """Among the items that the user does not have, with what is muted and boosted; None: its interest is muted."""
    score: float
    seen: bool


@dataclass(slots=True)
class Stored:
    """Receipt for feedback."""

    stored: int
    duplicates: int
    unknown_items: int = 0
    """Events on items that are not in the model's catalog."""
