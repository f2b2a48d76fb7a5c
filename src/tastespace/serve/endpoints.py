"""The endpoints of the API."""

from __future__ import annotations

import gzip
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl

from tastespace._util.limits import EVENT_YEARS, FEATURE_CELLS, LIST_ITEMS
from tastespace.answers.ids import id_in_type, ids_in_type, json_id, new_id_in_type
from tastespace.answers.lists import AnswerOptions
from tastespace.answers.people import Person
from tastespace.answers.requests import LimitQuery, ListQuery, NeighborQuery, PageQuery, factors_by_number
from tastespace.answers.types import (
    AnswerError,
    ExplanationAnswer,
    Map,
    Recommendations,
    Stored,
)
from tastespace.data.interactions import Interactions
from tastespace.data.reading.options import EVENTS
from tastespace.errors import TastespaceError
from tastespace.recommend.fold_in import fold_in
from tastespace.serve import shop_lists
from tastespace.serve.endpoint_table import Answer, Endpoint, RequestContext
from tastespace.serve.errors import SEND_AGAIN, HttpError, StoreError
from tastespace.serve.feedback.store import UNDO, FeedbackEvent, StoredProfile, event_time
from tastespace.serve.operations import metrics, operations
from tastespace.serve.options import (
    history_rows,
    limited_k,
    newcomer,
    options_of_body,
    options_of_query,
    require_few,
)
from tastespace.serve.people import checked_profile
from tastespace.serve.schemas import (
    AudienceAnswer,
    BatchAnswer,
    BatchBody,
    ExplanationBody,
    FeedbackBody,
    FoundItems,
    FoundUsers,
    Health,
    HistoryBody,
    InterestsAnswer,
    ModelAnswer,
    OperationsAnswer,
    ProfileAnswer,
    ProfileBody,
    ReloadBody,
    ShelvesAnswer,
    SimilarAnswer,
)
from tastespace.serve.shop_lists import page, page_of_histories
from tastespace.serve.state import Slot

JSON = msgspec.json.Encoder()

# ---- lists -------------------------------------------------------------------------------------------------------


async def recommendations(call: RequestContext) -> Any:
    """The best items for one user; with `after`, page by page."""
    if call.query.after is not None:
        return await page(call)
    slot, user, options = call.slot, call.slot.served.user_id(call.path["user"]), options_of_query(call)
    counts, text = call.state.counts, slot.lists.kept_answer(user, options)
    if text is not None:
        counts.count("tastespace_kept_lists_total")
    if text is None and slot.lists.is_quick(options):
        text = await call.state.batches.quick_text(slot.lists, user, options)
    if text is None:
        text = await call.state.in_time(call.state.batches.text(slot.lists, user, options))
    counts.count("tastespace_lists_total")
    slot.shown.add(text)
    return Answer(text)


async def batch(call: RequestContext) -> Any:
    """The best items for several users, histories or rows of features."""
    found = await _batch(call)
    for one in found.lists:
        call.slot.shown.add_items([item.item for item in one.items])
    return found


async def _batch(call: RequestContext) -> BatchAnswer:
    body: BatchBody = call.body
    given = [one for one in (body.users, body.histories, body.features) if one is not None]
    if len(given) != 1:
        raise HttpError(422, "invalid_request", "expected one of users, histories and features.", "Give one of them.")
    require_few(call, len(given[0]), call.state.settings.limits.batch, "lists")
    if body.after is not None and (body.histories is None or len(body.histories) != 1):
        raise HttpError(
            422, "invalid_request", "after is for one history.",
            "Give one of histories, or ask GET /v1/users/{user}/recommendations.",
        )  # fmt: skip
    slot, options = call.slot, options_of_body(call)
    if len(given[0]) * min(options.k, slot.served.train.n_items) > LIST_ITEMS:
        raise HttpError(
            413, "batch_too_large",
            f"{len(given[0]):,} lists of {options.k:,} items: at most {LIST_ITEMS:,} items in one answer.",
            "Ask for shorter lists, or send several requests.",
        )  # fmt: skip
    if body.users is not None:
        users = ids_in_type(slot.served.train.users, body.users, "user")
        return BatchAnswer(await call.state.compute(_lists_of_users, slot, users, options))
    if body.histories is not None:
        histories = [history_rows(call, one) for one in body.histories]
        if body.after is None:
            lists = await call.state.compute(slot.lists.for_histories, histories, options)
        else:
            lists = await call.state.compute(page_of_histories, slot, histories, options, body.after)
        for one, items in zip(lists, body.histories, strict=True):
            one.unknown_items = slot.served.unknown_items(items)
        return BatchAnswer(lists)
    return BatchAnswer(await call.state.compute(_with_features, slot, body.features or [], options))


def _lists_of_users(slot: Slot, users: Sequence[Any], options: AnswerOptions) -> list[Recommendations]:
    lists: list[Recommendations] = []
    for one in slot.lists.for_users(users, options):
        if isinstance(one, AnswerError):
            raise one
        lists.append(one)
    return lists


def _with_features(slot: Slot, features: list[dict[str, Any]], options: AnswerOptions) -> list[Recommendations]:
    if not features:
        return []
    if not slot.served.model.supports_cold_start:
        raise HttpError(422, "invalid_request", "this model does not learn from features.", "Give users or histories.")
    n_names = len(set().union(*features))
    if n_names * len(features) > FEATURE_CELLS:
        raise HttpError(
            413,
            "batch_too_large",
            f"{len(features):,} rows with {n_names:,} names: at most {FEATURE_CELLS:,} values in one request.",
            "Give the features that the model learned from, and send several requests.",
        )
    try:
        frame = pl.DataFrame(features, infer_schema_length=None, strict=False)
        model = fold_in(slot.served.model, None, "error", frame.drop("user", strict=False))
    except TastespaceError:
        raise
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError) as problem:
        raise HttpError(
            422,
            "invalid_request",
            "the features do not form a table: expected objects whose values of one name are all numbers or all text.",
            'Give features such as [{"age": 31, "country": "de"}], a row for each person.',
        ) from problem
    lists = slot.lists.for_people([Person(model, row, None, True) for row in range(len(frame))], options)
    return [Recommendations(None, slot.served.generation, one) for one in lists]


# ---- tastes of one person ----------------------------------------------------------------------------------------


async def shelves(call: RequestContext) -> Any:
    """A row of items for each interest of a user."""
    return await call.state.compute(_shelves, call.slot, _user_of(call), options_of_query(call, 8))


async def shelves_for(call: RequestContext) -> Any:
    """The same for a cold-start user with a history."""
    found = await call.state.compute(_shelves, call.slot, lambda: newcomer(call), options_of_body(call, 8))
    found.unknown_items = call.slot.served.unknown_items(call.body.history)
    return found


def _shelves(slot: Slot, person_of: Callable[[], Person], options: AnswerOptions) -> ShelvesAnswer:
    person = person_of()
    found = slot.tastes.shelves(person, options)
    for shelf in found:
        slot.shown.add_items([one.item for one in shelf.items])
    return ShelvesAnswer(json_id(person.user), slot.served.generation, found)


async def interests(call: RequestContext) -> Any:
    """The interests of a user, with their places on the map, and the history."""
    return await call.state.compute(_interests, call.slot, _user_of(call), options_of_query(call))


async def interests_for(call: RequestContext) -> Any:
    """The same for a cold-start user with a history."""
    found = await call.state.compute(_interests, call.slot, lambda: newcomer(call), options_of_body(call))
    found.unknown_items = call.slot.served.unknown_items(call.body.history)
    return found


def _interests(slot: Slot, person_of: Callable[[], Person], options: AnswerOptions) -> InterestsAnswer:
    person = person_of()
    return InterestsAnswer(json_id(person.user), slot.served.generation, *slot.tastes.interests(person, options))


async def explanation(call: RequestContext) -> Any:
    """Reasons for the rank of an item for a user."""
    item = call.slot.served.item_id(call.path["item"])
    return await call.state.compute(_explanation, call.slot, _user_of(call), item, options_of_query(call))


async def explanation_for(call: RequestContext) -> Any:
    """The same for a cold-start user with a history."""
    item, options = id_in_type(call.slot.served.train.items, call.body.item, "item"), options_of_body(call)
    return await call.state.compute(_explanation, call.slot, lambda: newcomer(call), item, options)


def _explanation(slot: Slot, person_of: Callable[[], Person], item: Any, options: AnswerOptions) -> ExplanationAnswer:
    person = person_of()
    return slot.tastes.explanation(person, slot.served.item_row(item), options)


def _user_of(call: RequestContext) -> Callable[[], Person]:
    """Return a function that looks up the user of the path with the latest feedback; it runs in a worker thread."""
    slot, user = call.slot, call.slot.served.user_id(call.path["user"])
    return lambda: slot.people.require(user)


# ---- catalog -----------------------------------------------------------------------------------------------------


async def users(call: RequestContext) -> Any:
    """Users by id or name."""
    return FoundUsers(await call.state.compute(call.slot.served.search_users, call.query.q, call.query.limit))


async def search(call: RequestContext) -> Any:
    """Items by words of their titles, or by id."""
    return FoundItems(await call.state.compute(call.slot.served.search_items, call.query.q, call.query.limit))


async def similar(call: RequestContext) -> Any:
    """Items like an item."""
    served, k = call.slot.served, limited_k(call, call.query.k)
    row = served.item_row(served.item_id(call.path["item"]))
    (named,) = served.named(np.array([row]))
    return SimilarAnswer(named.item, named.title, await call.state.compute(served.similar, row, k))


async def audience(call: RequestContext) -> Any:
    """Users whose interests are nearest to an item."""
    served, k = call.slot.served, limited_k(call, call.query.k, 20)
    row = served.item_row(served.item_id(call.path["item"]))
    found = await call.state.compute(served.audience, row, k)
    return AudienceAnswer(served.ids_at(np.array([row]))[0], *found)


async def catalog_map(call: RequestContext) -> Answer:
    """All items in the plane, in columns; compressed if the client accepts it, and cached until the model changes."""
    slot = call.slot
    tag = f'"{slot.served.generation}-{slot.served.checksum}"'.encode()
    headers = ((b"etag", tag), (b"vary", b"Accept-Encoding"), (b"cache-control", b"private, no-cache"))
    if call.headers.get(b"if-none-match") == tag:
        return Answer(b"", 304, headers=headers)
    text = await call.state.finish(lambda: slot.served.kept.get_or_make("map", lambda: JSON.encode(slot.served.map())))
    if b"gzip" not in call.headers.get(b"accept-encoding", b""):
        return Answer(text, headers=headers)
    packed = await call.state.finish(
        lambda: slot.served.kept.get_or_make("map gzip", lambda: gzip.compress(text, 5, mtime=0))
    )
    return Answer(packed, headers=(*headers, (b"content-encoding", b"gzip")))


# ---- feedback ----------------------------------------------------------------------------------------------------


async def feedback(call: RequestContext) -> Any:
    """Store new interactions and a profile durably; they count for the next list."""
    body: FeedbackBody = call.body
    require_few(call, len(body.events), call.state.settings.limits.batch, "events")
    train = call.slot.served.train
    events = [
        FeedbackEvent(
            new_id_in_type(train.users, one.user, "user"),
            new_id_in_type(train.items, one.item, "item"),
            one.event_id or uuid.uuid4().hex,
            one.weight,
            _time(one.time),
            _kind(train, one.kind),
        )
        for one in body.events
    ]
    for event in events:
        if "\x00" in event.event_id or not event.event_id.isprintable():
            raise HttpError(422, "invalid_request", "event_id: expected printable characters.")
    profiles = []
    if body.profile is not None:
        user = id_in_type(train.users, body.profile.user, "user")
        profiles.append(await _checked(call, user, body.profile))
    if not events and not profiles:
        raise HttpError(422, "invalid_request", "there is nothing to store.", "Give events, a profile, or both.")
    is_new = await _written(call, events, profiles)
    unknown = int((train.items.find([one.item for one in events]) < 0).sum()) if events else 0
    answer = Stored(sum(is_new), len(is_new) - sum(is_new), unknown)
    call.state.counts.count_feedback(answer.stored)
    call.state.counts.count("tastespace_feedback_duplicates_total", answer.duplicates)
    return answer


async def _written(
    call: RequestContext, events: Sequence[FeedbackEvent], profiles: Sequence[StoredProfile]
) -> list[bool]:
    """Store durably; after the time limit answer 503, while the write goes on and may still succeed."""
    try:
        return await call.state.in_time(call.state.writer.write(events, profiles))
    except TimeoutError:
        seconds = call.state.settings.limits.seconds
        raise HttpError(
            503, "timeout", f"it was not stored within {seconds:g} seconds, and may be stored later.",
            SEND_AGAIN, {"Retry-After": "1"},
        ) from None  # fmt: skip


def _kind(train: Interactions, given: str | None) -> str:
    known = train.events or EVENTS
    if given is None or given in known or given == UNDO:
        return given or ""
    raise HttpError(
        422, "unknown_kind", f"kind={given[:40]!r} is unknown.", f"The kinds are {', '.join((*known, UNDO))}."
    )


def _time(given: str | None) -> str:
    if given is None:
        return ""
    try:
        return event_time(given).isoformat()
    except ValueError:
        raise HttpError(
            422,
            "invalid_request",
            f"time={given[:40]!r}: expected a time in ISO form, from {EVENT_YEARS[0]} to {EVENT_YEARS[1]}.",
            "2024-05-01T12:00:00Z is one.",
        ) from None


async def _checked(call: RequestContext, user: Any, body: ProfileBody) -> StoredProfile:
    boost = factors_by_number(body.boost)

    def check() -> StoredProfile:
        return checked_profile(call.slot.people.require(user), body.mute, boost, call.slot.served.checksum)

    return await call.state.compute(check)


async def get_profile(call: RequestContext) -> Any:
    """Interests that a user has muted and boosted."""
    user = call.slot.served.user_id(call.path["user"])
    found = await call.state.compute(call.slot.people.choice_of, user)
    mute, boost = found.profile.muted, found.profile.boosts
    return ProfileAnswer(
        json_id(user), sorted(mute), {str(x): factor for x, factor in boost.items()}, list(found.dropped)
    )


async def put_profile(call: RequestContext) -> Any:
    """Replace the interests that a user has muted and boosted."""
    user = call.slot.served.user_id(call.path["user"])
    profile = await _checked(call, user, call.body)
    await _written(call, [], [profile])
    return ProfileAnswer(json_id(user), list(profile.mute), {str(x): factor for x, factor in profile.boost.items()})


# ---- the server itself -------------------------------------------------------------------------------------------


async def model(call: RequestContext) -> Any:
    """The model that is served: class, parameters, sizes, abilities."""
    state = call.state
    other = None if state.compare is None else state.compare.slot.served.info
    return msgspec.structs.replace(call.slot.served.info, compare=other if call.query.model == "main" else None)


async def reload(call: RequestContext) -> Any:
    """Serve another model, or the same path read again; the old model serves until the new one is ready."""
    state = call.state
    call.state.slot(call.query.model)  # 404 where there is no second model
    holder = state.main if call.query.model == "main" or state.compare is None else state.compare
    try:
        await state.compute(holder.reload, call.body.path)
    except OSError as problem:
        raise HttpError(422, "model_refused", f"the model cannot be opened: {problem.strerror}.") from problem
    except StoreError:
        raise  # 503: nothing is wrong with the model
    except TastespaceError as problem:
        raise HttpError(
            422, "model_refused", f"the model is refused: {problem}", "The model that is served stays as it is."
        ) from problem
    call.forget_slot()
    return await model(call)


async def live(call: RequestContext) -> Any:
    """Say that the process answers."""
    return Health("ok")


async def ready(call: RequestContext) -> Any:
    """Say that the server accepts requests: ok, or degraded by the problems listed; 503 while it stops."""
    state = call.state
    problems = state.all_problems()
    status = "stopping" if state.is_closing else "degraded" if problems else "ok"
    answer = Health(status, state.main.slot.served.generation, problems)
    return Answer(JSON.encode(answer), 503 if state.is_closing else 200)


_USER = "/v1/users/{user}"
_ITEM = "/v1/items/{item}"
ENDPOINTS = [
    Endpoint("GET", f"{_USER}/recommendations", recommendations, Recommendations, query=PageQuery, errors=(404,)),
    Endpoint("POST", "/v1/recommendations", batch, BatchAnswer, body=BatchBody, errors=(404, 413)),
    Endpoint("GET", f"{_USER}/shelves", shelves, ShelvesAnswer, query=ListQuery, errors=(404,)),
    Endpoint("POST", "/v1/shelves", shelves_for, ShelvesAnswer, body=HistoryBody, errors=(404, 413)),
    Endpoint("GET", f"{_USER}/interests", interests, InterestsAnswer, query=ListQuery, errors=(404,)),
    Endpoint("POST", "/v1/interests", interests_for, InterestsAnswer, body=HistoryBody, errors=(404, 413)),
    Endpoint("GET", f"{_USER}/explanations/{{item}}", explanation, ExplanationAnswer, query=ListQuery, errors=(404,)),
    Endpoint("POST", "/v1/explanations", explanation_for, ExplanationAnswer, body=ExplanationBody, errors=(404, 413)),
    Endpoint("GET", f"{_USER}/profile", get_profile, ProfileAnswer),
    Endpoint("PUT", f"{_USER}/profile", put_profile, ProfileAnswer, "feedback", body=ProfileBody, errors=(404,)),
    Endpoint("GET", "/v1/users", users, FoundUsers, query=LimitQuery),
    Endpoint("GET", "/v1/items/search", search, FoundItems, query=LimitQuery),
    Endpoint("GET", f"{_ITEM}/similar", similar, SimilarAnswer, query=NeighborQuery, errors=(404,)),
    Endpoint("GET", f"{_ITEM}/audience", audience, AudienceAnswer, query=NeighborQuery, errors=(404,)),
    *shop_lists.ENDPOINTS,
    Endpoint("GET", "/v1/map", catalog_map, Map),
    Endpoint("POST", "/v1/feedback", feedback, Stored, "feedback", body=FeedbackBody, errors=(404, 413)),
    Endpoint("GET", "/v1/model", model, ModelAnswer),
    Endpoint(
        "POST", "/v1/model/reload", reload, ModelAnswer, "admin", body=ReloadBody, errors=(409,), is_body_optional=True
    ),
    Endpoint("GET", "/v1/operations", operations, OperationsAnswer, "admin"),
    Endpoint("GET", "/health/live", live, Health, None),
    Endpoint("GET", "/health/ready", ready, Health, None),
    Endpoint("GET", "/metrics", metrics, str),
]
"""All endpoints; the summary of each is the docstring of its function."""
