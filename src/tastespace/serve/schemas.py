"""The JSON of the API as types: queries and bodies are checked against them, the OpenAPI document is made from them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from tastespace._util.limits import EVENT_ID, EVENT_WEIGHT, FEATURE_NAME, RECOMMENDATION_ID
from tastespace.answers.requests import ListFields, field_types
from tastespace.answers.types import (
    AudienceUser,
    CountedItem,
    FoundItem,
    FoundUser,
    HistoryItem,
    Id,
    Interest,
    Item,
    Recommendations,
    ShelfAnswer,
    Stored,
)

Positive = Annotated[int, Meta(ge=1, le=1_000_000)]
Share = Annotated[float, Meta(ge=0, le=1)]
Factor = Annotated[float, Meta(gt=0, le=1e6)]
Days = Annotated[float, Meta(gt=0, le=1e6)]
InterestNumber = Annotated[int, Meta(ge=0, le=100_000)]
FeatureName = Annotated[str, Meta(max_length=FEATURE_NAME)]
Feature = bool | int | float | str | list[bool | int | float | str | None] | None


def struct_of(kind: type) -> Any:
    """Return a dataclass of `tastespace.answers.requests` as a type of msgspec: the same names, types and bounds."""
    types = field_types(kind)
    made = []
    for one in fields(kind):
        hint = types[one.name]
        if get_origin(hint) is Annotated:
            base, bounds = get_args(hint)
            hint = Annotated[base, Meta(ge=bounds.lowest, le=bounds.highest)]
        made.append((one.name, hint | None if one.default is None else hint, one.default))
    namespace = {"__doc__": kind.__doc__}
    return msgspec.defstruct(kind.__name__, made, kw_only=True, forbid_unknown_fields=True, namespace=namespace)


if TYPE_CHECKING:

    class _ListFields(Struct, kw_only=True, forbid_unknown_fields=True):
        """Fields of `ListFields`."""

else:
    _ListFields = struct_of(ListFields)


class RulesBody(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Rules for the lists of one request, see `tastespace.Rules`; they add to those of the server."""

    max_per: dict[str, Positive] | None = None
    exclude: list[Id] | None = None
    include: list[Id] | None = None
    in_stock: str | list[Id] | None = None
    pinned: list[Id] | dict[str, Id] | None = None
    min_new_share: Share | None = None
    new: str | list[Id] | None = None
    new_days: Days | None = None
    max_age_days: Days | None = None
    time: str | None = None
    now: str | float | None = None


class ListBody(_ListFields, kw_only=True, forbid_unknown_fields=True):
    """Options of lists in the body of a request."""

    exclude: list[Id] = msgspec.field(default_factory=list)
    include: list[Id] = msgspec.field(default_factory=list)
    mute: list[InterestNumber] | None = None
    boost: dict[str, Factor] | None = None
    rules: RulesBody | None = None


class BatchBody(ListBody, kw_only=True, forbid_unknown_fields=True):
    """Lists of several people: known users, histories of others, or features."""

    users: list[Id] | None = None
    histories: list[list[Id]] | None = None
    features: list[dict[FeatureName, Feature]] | None = None
    after: str | None = None


class SessionBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Items of a session, from the oldest to the last."""

    session: Annotated[list[Id], Meta(min_length=1)]
    k: Positive | None = None
    filter: str | None = None
    include_seen: bool = False
    exclude: list[Id] = msgspec.field(default_factory=list)


class HistoryBody(ListBody, kw_only=True, forbid_unknown_fields=True):
    """Past items of a user who is not in the model."""

    history: Annotated[list[Id], Meta(min_length=1)]


class ExplanationBody(HistoryBody, kw_only=True, forbid_unknown_fields=True):
    """Request to explain an item to a user with these past items."""

    item: Id


class EventBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """One interaction."""

    user: Id
    item: Id
    weight: Annotated[float, Meta(gt=0, le=EVENT_WEIGHT)] = 1.0
    time: Annotated[str, Meta(max_length=40)] | None = None
    event_id: Annotated[str, Meta(min_length=1, max_length=EVENT_ID)] | None = None
    kind: Annotated[str, Meta(min_length=1, max_length=EVENT_ID)] | None = None
    recommendation: Annotated[str, Meta(max_length=RECOMMENDATION_ID)] | None = None
    """Id of the answer that the event comes of."""


class ProfileBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Muted interests, and factors of interests."""

    mute: list[InterestNumber] = []
    boost: dict[str, Factor] = {}


class UserProfileBody(ProfileBody, kw_only=True, forbid_unknown_fields=True):
    """Muted interests and factors of one user."""

    user: Id


class FeedbackBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """New interactions, a profile, or both."""

    events: list[EventBody] = []
    profile: UserProfileBody | None = None


class ReloadBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Model to serve from now on; by default the one at the path that is served, read again."""

    path: (
        Annotated[str, Meta(description="Name of a model in the folder of the served one, or its full path.")] | None
    ) = None


# ---- answers ---------------------------------------------------------------------------------------------------


class BatchAnswer(Struct):
    """Lists in the order in which they were asked for."""

    lists: list[Recommendations]


class ShelvesAnswer(Struct):
    """The shelves of one user."""

    user: Id | None
    model: int
    shelves: list[ShelfAnswer]
    unknown_items: list[Id] = []
    """Items of the history that the model does not know and that were left out."""
    recommendation: str | None = None
    """Id of the answer, for events that come of it."""


class InterestsAnswer(Struct):
    """The interests of one user, and the history."""

    user: Id | None
    model: int
    interests: list[Interest]
    history: list[HistoryItem]
    unknown_items: list[Id] = []
    """Items of the history that the model does not know and that were left out."""


class PopularAnswer(Struct):
    """Popular items: how many people took them, in the window where one was asked for."""

    model: int
    items: list[CountedItem]


class TogetherAnswer(Struct):
    """Items that people take with an item; ``score`` is the lift, ``users`` the people with both."""

    item: Id
    title: str | None
    items: list[CountedItem]


class NextAnswer(Struct):
    """Items that come next in a session."""

    model: int
    items: list[Item]
    unknown_items: list[Id] = []
    """Items of the session that the model does not know and that were left out."""


class SimilarAnswer(Struct):
    """Items like an item."""

    item: Id
    title: str | None
    items: list[Item]


class AudienceAnswer(Struct):
    """Users whose interests are nearest to an item."""

    item: Id
    n_users: int
    users: list[AudienceUser]


class FoundItems(Struct):
    """Items of a search."""

    items: list[FoundItem]


class FoundUsers(Struct):
    """Users of a search."""

    users: list[FoundUser]


class ProfileAnswer(Struct):
    """Interests that a user has muted and boosted."""

    user: Id
    mute: list[int]
    boost: dict[str, float]
    dropped: list[int] = []


class Can(Struct):
    """Abilities of a model."""

    fold_in: bool
    features: bool
    explain: bool
    shelves: bool
    mix: list[str]


class ModelAnswer(Struct):
    """Description of the served model."""

    name: str
    class_: str = msgspec.field(name="class")
    parameters: dict[str, Any]
    version: str
    fitted: str | None
    generation: int
    diversity: float
    """Of lists whose request gives neither mix nor diversity."""
    n_users: int
    n_items: int
    n_interactions: int
    has_interests: bool
    n_interests: int | None
    id_types: dict[str, str]
    item_columns: list[str]
    category_column: str | None
    image_column: str | None
    """Item attribute with the addresses of pictures that the page shows."""
    dislike: str | None
    """Kind of event for an item that a person does not want; null where no kind stands for that."""
    metrics: dict[str, Any]
    can: Can
    compare: ModelAnswer | None = None


class Health(Struct):
    """State of the server."""

    status: str
    generation: int | None = None
    problems: list[str] = []


class MinuteCounts(Struct):
    """Answers of one minute."""

    time: int
    """Its beginning, in seconds since 1970."""
    requests: int
    refused: int
    """With a status from 400 to 499."""
    failed: int
    """With a status from 500."""
    seconds: float
    """Spent on all answers together."""
    feedback: int
    """Events stored."""


class RouteCounts(Struct):
    """Answers of one route since the start."""

    method: str
    route: str
    requests: int
    refused: int
    failed: int
    mean: float
    """Seconds to answer; of all methods of the route, as are the next two."""
    median: float
    """Estimated within the buckets of `/metrics`."""
    p95: float


class WorkerState(Struct):
    """One worker process."""

    process: int
    memory: int
    """Bytes."""
    generation: int
    in_flight: int


class ListCounts(Struct):
    """Lists since the start, and how many of them were answered from the cache."""

    lists: int
    kept: int


class Generation(Struct):
    """A model that was served."""

    generation: int
    model: str
    time: str
    """When it was opened first; empty where that was not noted."""
    metrics: dict[str, Any]
    """Stored with the model by its evaluation."""


class ShownItem(Struct):
    """An item, and its share of all places of lists."""

    item: Id
    title: str | None
    share: float


class Recommended(Struct):
    """Contents of the answered lists of the model that is served now."""

    places: int
    """Places of all lists together; of catalogs above 100,000 items those of a part of the items."""
    items: int
    """Of the catalog."""
    coverage: float = 0.0
    """Share of the items that were in a list."""
    top_share: float = 0.0
    """Share of the places that the 1 % of items shown most have."""
    gini: float = 0.0
    """0: all items have as many places; near 1: few have all."""
    most: list[ShownItem] = []


class NamedShare(Struct):
    """A name and its share."""

    name: str
    share: float


class Population(Struct):
    """Tastes of a sample of people of the model that is served now."""

    people: int
    """In the sample."""
    tastes: list[NamedShare] = []
    """Number of tastes, and the share of people with it."""
    names: list[NamedShare] = []
    """Names of tastes after categories, and their share of the histories; the largest."""


class ExperimentArm(Struct):
    """One arm of the experiment, with intervals of its rates."""

    arm: str
    share: float
    """Of the people."""
    lists: int
    """Times that a list was shown."""
    users: int
    click_rate: float | None = None
    click_low: float | None = None
    click_high: float | None = None
    conversion_rate: float | None = None
    conversion_low: float | None = None
    conversion_high: float | None = None


class ArmComparison(Struct):
    """Two arms of the experiment, compared by a test that may be looked at every day."""

    first: str
    second: str
    metric: str
    """ctr or conversion."""
    difference: float
    """Second minus first."""
    low: float
    high: float
    verdict: str


class Experiment(Struct):
    """The arms of the experiment of this server; none without one."""

    arms: list[ExperimentArm] = []
    comparisons: list[ArmComparison] = []


class OperationsAnswer(Struct):
    """State of the server for those who run it."""

    model: str
    generation: int
    started: float
    """When the first worker that lives was started, in seconds since 1970."""
    problems: list[str]
    minutes: list[MinuteCounts]
    """The last hour, oldest first; minutes without any are left out."""
    routes: list[RouteCounts]
    workers: list[WorkerState]
    cache: ListCounts
    feedback: Stored
    """Since the start."""
    generations: list[Generation]
    """The latest first."""
    recommended: Recommended
    population: Population
    experiment: Experiment


class ErrorDetail(Struct):
    """Cause of an error, and advice."""

    code: str
    message: str
    advice: str


class ErrorAnswer(Struct):
    """The body of every error."""

    error: ErrorDetail
