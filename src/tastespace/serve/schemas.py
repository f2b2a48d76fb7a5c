"""The JSON of the API as types: queries and bodies are checked against them, the OpenAPI document is made from them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Id: TypeAlias = int | float | str | bool
"""An id as JSON has it: of the type of the model's ids."""
Positive = Annotated[int, Meta(ge=1, le=1_000_000)]
Share = Annotated[float, Meta(ge=0, le=1)]
MixName = Literal["nearest", "scaled", "proportional", "calibrated"]
OnUnknown = Literal["error", "popular"]
Factor = Annotated[float, Meta(gt=0, le=1e6)]
Interest = Annotated[int, Meta(ge=0, le=100_000)]


class ModelQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which of two models is asked."""

    model: Literal["main", "compare"] = "main"


class ListQuery(ModelQuery, kw_only=True, forbid_unknown_fields=True):
    """What may stand behind the question mark of lists, shelves, interests and explanations of a user."""

    k: Positive | None = None
    mix: MixName | None = None
    diversity: Share | None = None
    filter: str | None = None
    exclude: list[str] = []
    include: list[str] = []
    mute: str | None = None
    boost: str | None = None
    unknown: OnUnknown = "error"
    because: bool = True


class LimitQuery(ModelQuery, kw_only=True, forbid_unknown_fields=True):
    """A search."""

    q: str = ""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 20


class NeighborQuery(ModelQuery, kw_only=True, forbid_unknown_fields=True):
    """How many neighbors."""

    k: Positive | None = None


class ListBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Options of lists in the body of a request."""

    k: Positive | None = None
    mix: MixName | None = None
    diversity: Share | None = None
    filter: str | None = None
    exclude: list[Id] = []
    include: list[Id] = []
    mute: list[Interest] | None = None
    boost: dict[str, Factor] | None = None
    unknown: OnUnknown = "error"
    because: bool = True
    rules: dict[str, Any] | None = None


class BatchBody(ListBody, kw_only=True, forbid_unknown_fields=True):
    """Lists of several people: known users, histories of others, or features."""

    users: list[Id] | None = None
    histories: list[list[Id]] | None = None
    features: list[dict[str, Any]] | None = None


class HistoryBody(ListBody, kw_only=True, forbid_unknown_fields=True):
    """Somebody who is not in the model: past items."""

    history: Annotated[list[Id], Meta(min_length=1)]


class ExplanationBody(HistoryBody, kw_only=True, forbid_unknown_fields=True):
    """Why an item, for somebody with these past items."""

    item: Id


class EventBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """One interaction."""

    user: Id
    item: Id
    weight: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    time: Annotated[str, Meta(max_length=40)] | None = None
    event_id: Annotated[str, Meta(min_length=1, max_length=200)] | None = None


class ProfileBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Muted interests, and factors of interests."""

    mute: list[Interest] = []
    boost: dict[str, Factor] = {}


class UserProfileBody(ProfileBody, kw_only=True, forbid_unknown_fields=True):
    """The same with the user."""

    user: Id


class FeedbackBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """New interactions, a profile, or both."""

    events: list[EventBody] = []
    profile: UserProfileBody | None = None


class ReloadBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which model to serve from now on; by default the one at the path that is served, read again."""

    path: (
        Annotated[str, Meta(description="Name of a model in the folder of the served one, or its full path.")] | None
    ) = None


# ---- answers ---------------------------------------------------------------------------------------------------


class PastItem(Struct):
    """A past item, and how much it matters."""

    item: Id
    title: str | None
    weight: float


class NamedItem(Struct):
    """An item and its title."""

    item: Id
    title: str | None


class HistoryItem(Struct):
    """A past item and the interest that it belongs to."""

    item: Id
    title: str | None
    interest: int | None


class Item(Struct):
    """One item of a list."""

    item: Id
    title: str | None
    category: str | None
    rank: int
    score: float | None
    interest: int | None
    distance: float | None
    because: list[PastItem] | UnsetType = UNSET


class Listing(Struct):
    """The list of one user."""

    user: Id | None
    model: int
    items: list[Item]
    fallback: Literal["popular"] | None = None


class Batch(Struct):
    """Lists in the order in which they were asked for."""

    lists: list[Listing]


class ShelfAnswer(Struct):
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


class ShelvesAnswer(Struct):
    """The shelves of one user."""

    user: Id | None
    model: int
    shelves: list[ShelfAnswer]


class InterestAnswer(Struct):
    """One interest, with its place on the map."""

    interest: int
    name: str
    share: float
    muted: bool
    boost: float
    x: float
    y: float
    items: list[NamedItem]


class InterestsAnswer(Struct):
    """The interests of one user, and the history."""

    user: Id | None
    model: int
    interests: list[InterestAnswer]
    history: list[HistoryItem]


class ExplanationAnswer(Struct):
    """Why an item."""

    user: Id | None
    item: Id
    title: str | None
    text: str
    interest: int | None
    interest_name: str | None
    because: list[PastItem]
    distance: float | None
    rank: int
    score: float
    seen: bool


class SimilarAnswer(Struct):
    """Items like an item."""

    item: Id
    title: str | None
    items: list[Item]


class AudienceUser(Struct):
    """A user whose interest is near an item."""

    user: Id
    interest: int
    distance: float


class AudienceAnswer(Struct):
    """Users whose interests are nearest to an item."""

    item: Id
    n_users: int
    users: list[AudienceUser]


class FoundItem(Struct):
    """An item of the catalog."""

    item: Id
    title: str | None
    category: str | None
    popularity: int


class FoundItems(Struct):
    """Items of a search."""

    items: list[FoundItem]


class FoundUser(Struct):
    """A user of the model."""

    user: Id
    name: str | None
    n_items: int


class FoundUsers(Struct):
    """Users of a search."""

    users: list[FoundUser]


class MapAnswer(Struct):
    """All items in the plane, in columns."""

    items: list[Id]
    titles: list[str | None]
    x: list[float]
    y: list[float]
    category: list[int]
    categories: list[str]
    popularity: list[int]


class FeedbackAnswer(Struct):
    """What was stored."""

    stored: int
    duplicates: int
    unknown_items: int = 0


class ProfileAnswer(Struct):
    """What a user has muted and boosted."""

    user: Id
    mute: list[int]
    boost: dict[str, float]
    dropped: list[int] = []


class Can(Struct):
    """What a model supports."""

    fold_in: bool
    features: bool
    explain: bool
    shelves: bool
    mix: list[str]


class ModelAnswer(Struct):
    """What is served."""

    name: str
    class_: str = msgspec.field(name="class")
    parameters: dict[str, Any]
    version: str
    fitted: str | None
    generation: int
    n_users: int
    n_items: int
    n_interactions: int
    has_interests: bool
    n_interests: int | None
    id_types: dict[str, str]
    item_columns: list[str]
    category_column: str | None
    metrics: dict[str, Any]
    can: Can
    compare: ModelAnswer | None = None


class Health(Struct):
    """Whether the server can answer."""

    status: str
    generation: int | None = None
    problems: list[str] = []


class ErrorDetail(Struct):
    """What went wrong, and what to do."""

    code: str
    message: str
    advice: str


class ErrorAnswer(Struct):
    """The body of every error."""

    error: ErrorDetail
