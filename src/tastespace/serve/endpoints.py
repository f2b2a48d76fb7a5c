"""The endpoints of the API."""

from __future__ import annotations

import gzip
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
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
    Item,
    Map,
    Recommendations,
    Stored,
)
from tastespace.data.interactions import Interactions
from tastespace.data.reading.options import EVENTS
from tastespace.errors import TastespaceError
from tastespace.recommend.fold_in import fold_in
from tastespace.serve import shop_lists
from tastespace.serve.deletion import (
    DeletedUserAnswer,
    ItemAnswer,
    ItemBody,
    UserDataAnswer,
    delete_item,
    delete_user,
    put_item,
    user_data,
)
from tastespace.serve.endpoint_table import Answer, Endpoint, RequestContext
from tastespace.serve.errors import SEND_AGAIN, HttpError, StoreError
from tastespace.serve.exploration import can_explore, explored_list
from tastespace.serve.feedback.store import UNDO, FeedbackEvent, StoredProfile, event_time
from tastespace.serve.impressions import shown_list, shown_shelves
from tastespace.serve.lists import NO_ID
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
        return _with_ids(call, [call.slot], [await page(call)])[0]
    slot, user, options = call.slot, call.slot.served.user_id(call.path["user"]), options_of_query(call)
    log, share, counts = call.state.impressions, call.state.settings.explore, call.state.counts
    counts.count("tastespace_lists_total")
    if share and log is not None and can_explore(options):
        explored, shown = await call.state.compute(explored_list, slot.lists, user, options, share)
        explored.recommendation = log.new_id(shown)
        slot.shown.add_items([one.item for one in explored.items])
        return explored
    listed = slot.lists.kept_answer(user, options)
    if listed is not None:
        counts.count("tastespace_kept_lists_total")
    if listed is None and slot.lists.is_quick(options):
        listed = await call.state.batches.quick_text(slot.lists, user, options)
    if listed is None:
        listed = await call.state.in_time(call.state.batches.text(slot.lists, user, options))
    text = listed[0] + NO_ID if log is None else log.signed(*listed)
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
    if body.users is None:
        _draw_session(call)
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
        slots = [_slot_of(call, user) for user in users]
        lists = await call.state.compute(_lists_of_users, slots, users, options)
        return BatchAnswer(_with_ids(call, slots, lists))
    if body.histories is not None:
        histories = [history_rows(call, one) for one in body.histories]
        if body.after is None:
            lists = await call.state.compute(slot.lists.for_histories, histories, options)
        else:
            lists = await call.state.compute(page_of_histories, slot, histories, options, body.after)
        for one, items in zip(lists, body.histories, strict=True):
            one.unknown_items = slot.served.unknown_items(items)
        return BatchAnswer(_with_ids(call, [slot] * len(lists), lists))
    lists = await call.state.compute(_with_features, slot, body.features or [], options)
    return BatchAnswer(_with_ids(call, [slot] * len(lists), lists))


def _slot_of(call: RequestContext, user: Any) -> Slot:
    """The model of one of several users, who may be in different arms of an experiment."""
    if not call.state.has_experiment or call.query.session is not None:
        return call.slot
    return call.state.slot(call.query.model, str(json_id(user)))


def _with_ids(call: RequestContext, slots: Sequence[Slot], lists: list[Recommendations]) -> list[Recommendations]:
    """The same lists, each with an id of its own."""
    log = call.state.impressions
    for one, slot in zip(lists, slots, strict=True):
        if log is not None:
            one.recommendation = log.new_id(shown_list(slot.lists.source, one))
    return lists


def _lists_of_users(slots: Sequence[Slot], users: Sequence[Any], options: AnswerOptions) -> list[Recommendations]:
    found: dict[int, Recommendations] = {}
    for slot in dict.fromkeys(slots):
        places = [at for at, one in enumerate(slots) if one is slot]
        for at, one in zip(places, slot.lists.for_users([users[at] for at in places], options), strict=True):
            if isinstance(one, AnswerError):
                raise one
            found[at] = one
    return [found[at] for at in range(len(users))]


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
    found = await call.state.compute(_shelves, call.slot, _user_of(call), options_of_query(call, 8))
    return _with_id(call, found)


def _draw_session(call: RequestContext) -> None:
    """Somebody without an id or a session is in any arm of an experiment."""
    if call.state.has_experiment and call.query.session is None:
        call.query = replace(call.query, session=uuid.uuid4().hex)


def _with_id(call: RequestContext, found: ShelvesAnswer) -> ShelvesAnswer:
    log, slot = call.state.impressions, call.slot
    if log is not None:
        found.recommendation = log.new_id(shown_shelves(slot.lists.source, found.user, found.shelves))
    return found


async def shelves_for(call: RequestContext) -> Any:
    """The same for a cold-start user with a history."""
    _draw_session(call)
    found = await call.state.compute(_shelves, call.slot, lambda: newcomer(call), options_of_body(call, 8))
    found.unknown_items = call.slot.served.unknown_items(call.body.history)
    return _with_id(call, found)


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
    people, limit = call.slot.people, call.query.limit
    people.refresh()
    found = await call.state.compute(call.slot.served.search_users, call.query.q, limit + len(people.hidden))
    hidden = {json_id(one) for one in people.hidden}
    return FoundUsers([one for one in found if one.user not in hidden][:limit])


async def search(call: RequestContext) -> Any:
    """Items by words of their titles, or by id."""
    gone, limit = _gone(call.slot), call.query.limit
    found = await call.state.compute(call.slot.served.search_items, call.query.q, limit + len(gone))
    return FoundItems([one for one in found if one.item not in gone][:limit])


async def similar(call: RequestContext) -> Any:
    """Items like an item."""
    served, k = call.slot.served, limited_k(call, call.query.k)
    row = served.item_row(served.item_id(call.path["item"]))
    (named,) = served.named(np.array([row]))
    gone = _gone(call.slot)
    found = await call.state.compute(served.similar, row, k + len(gone))
    return SimilarAnswer(named.item, named.title, ranked([one for one in found if one.item not in gone][:k]))


def _gone(slot: Slot) -> set[Any]:
    """Ids, as JSON has them, of the items that are not available."""
    slot.people.refresh()
    return set(slot.served.ids_at(slot.people.items.gone))


def ranked(items: list[Item]) -> list[Item]:
    """The same items with ranks from 1."""
    for at, one in enumerate(items):
        one.rank = at + 1
    return items


async def audience(call: RequestContext) -> Any:
    """Users whose interests are nearest to an item."""
    served, k = call.slot.served, limited_k(call, call.query.k, 20)
    row = served.item_row(served.item_id(call.path["item"]))
    hidden = {json_id(one) for one in call.slot.people.hidden}
    n, found = await call.state.compute(served.audience, row, k + len(hidden))
    return AudienceAnswer(served.ids_at(np.array([row]))[0], n, [one for one in found if one.user not in hidden][:k])


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
            one.recommendation or "",
        )
        for one in body.events
    ]
    for event in events:
        for name, text in (("event_id", event.event_id), ("recommendation", event.recommendation)):
            if "\x00" in text or not text.isprintable():
                raise HttpError(422, "invalid_request", f"{name}: expected printable characters.")
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
    Endpoint("DELETE", _USER, delete_user, DeletedUserAnswer, "admin"),
    Endpoint("GET", f"{_USER}/data", user_data, UserDataAnswer, "admin"),
    Endpoint("GET", "/v1/users", users, FoundUsers, query=LimitQuery),
    Endpoint("GET", "/v1/items/search", search, FoundItems, query=LimitQuery),
    Endpoint("PUT", _ITEM, put_item, ItemAnswer, "admin", body=ItemBody, errors=(413,)),
    Endpoint("DELETE", _ITEM, delete_item, ItemAnswer, "admin", errors=(404,)),
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
