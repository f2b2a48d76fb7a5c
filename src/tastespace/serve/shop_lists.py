"""Endpoints of lists that shops show beside a person's own: pages, popular items, taken together, the next item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.answers.ids import ids_in_type
from tastespace.answers.lists import AnswerOptions
from tastespace.answers.pages import lists_after
from tastespace.answers.requests import PageQuery, PopularQuery, TogetherQuery
from tastespace.answers.types import AnswerError, CountedItem, Recommendations
from tastespace.recommend.popular import popularity
from tastespace.recommend.request import candidate_rows
from tastespace.recommend.rules.tables import rule_tables
from tastespace.recommend.together import best_next, companions, known_session
from tastespace.serve.endpoint_table import Endpoint, RequestContext
from tastespace.serve.options import limited_k, options_of_query, require_few
from tastespace.serve.schemas import NextAnswer, PopularAnswer, SessionBody, TogetherAnswer
from tastespace.serve.state import Slot


async def page(call: RequestContext) -> Recommendations:
    """One page of a user's list, with the token of the next one."""
    query: PageQuery = call.query
    user, options = call.slot.served.user_id(call.path["user"]), options_of_query(call)
    found: Recommendations = await call.state.compute(_page, call.slot, user, options, query.after or "")
    return found


def _page(slot: Slot, user: Any, options: AnswerOptions, after: str) -> Recommendations:
    items = slot.served.train.items
    (found,) = lists_after(lambda asked: slot.lists.for_users([user], asked), items, user, options, after)
    if isinstance(found, AnswerError):
        raise found
    return found


def page_of_histories(
    slot: Slot, histories: Sequence[NDArray[np.int32]], options: AnswerOptions, after: str
) -> list[Recommendations]:
    """One page of the list of a session; its token is for nobody in particular."""
    items = slot.served.train.items
    return list(lists_after(lambda asked: slot.lists.for_histories(histories, asked), items, None, options, after))


async def popular(call: RequestContext) -> Any:
    """The most popular items, of all time, of a window of time, or by their rise."""
    query: PopularQuery = call.query
    slot, k = call.slot, limited_k(call, query.k)
    rules = call.state.rules_for(slot, None)[1]

    def make() -> PopularAnswer:
        slot.people.refresh()
        options = AnswerOptions(filter=query.filter or None, exclude=_ids(slot, list(query.exclude)))
        found = popularity(
            slot.served.train, k, since=query.since, trending=query.trending,
            candidates=_candidates(slot, options, rules, k), recent=slot.people.recent(),
        )  # fmt: skip
        return PopularAnswer(slot.served.generation, _counted(slot, found.rows, found.scores, found.users))

    return await call.state.compute(make)


async def together(call: RequestContext) -> Any:
    """Items that the same people take as an item."""
    query: TogetherQuery = call.query
    slot, k = call.slot, limited_k(call, query.k)
    row = slot.served.item_row(slot.served.item_id(call.path["item"]))
    rules = call.state.rules_for(slot, None)[1]

    def make() -> TogetherAnswer:
        candidates = _candidates(slot, AnswerOptions(filter=query.filter or None), rules, k)
        found = companions(slot.served.train, row, k, within=query.within, candidates=candidates)
        (named,) = slot.served.named(np.array([row]))
        return TogetherAnswer(named.item, named.title, _counted(slot, found.rows, found.lifts, found.users))

    return await call.state.compute(make)


async def next_item(call: RequestContext) -> Any:
    """Items that come next in a session."""
    body: SessionBody = call.body
    require_few(call, len(body.session), call.state.settings.limits.history, "items in a session")
    slot, k = call.slot, limited_k(call, body.k)
    session = ids_in_type(slot.served.train.items, body.session, "item")
    exclude = tuple(ids_in_type(slot.served.train.items, body.exclude, "item"))
    rules = call.state.rules_for(slot, None)[1]

    def make() -> NextAnswer:
        served = slot.served
        candidates = _candidates(slot, AnswerOptions(filter=body.filter or None, exclude=exclude), rules, k)
        rows = known_session(served.train, session)
        found = best_next(served.model, rows, k, candidates, body.include_seen)
        items = served.listed(found.rows, found.scores.tolist())
        return NextAnswer(served.generation, items, served.unknown_items(body.session))

    return await call.state.compute(make)


def _ids(slot: Slot, texts: list[str]) -> tuple[Any, ...]:
    return tuple(slot.served.item_id(one) for one in texts)


def _candidates(slot: Slot, options: AnswerOptions, rules: Any, k: int) -> NDArray[np.int32] | None:
    """Rows of the items that the request and the rules of the server leave."""
    train = slot.served.train
    allowed = slot.lists.allowed(options)
    if allowed is not None and not allowed.any():
        return np.empty(0, dtype=np.int32)
    return candidate_rows(train, None, allowed, rule_tables(train, rules, k))


def _counted(
    slot: Slot, rows: NDArray[np.int32], scores: NDArray[np.float32], users: NDArray[np.int64]
) -> list[CountedItem]:
    listed = slot.served.listed(rows, scores.tolist())
    return [
        CountedItem(one.item, one.title, one.category, one.rank, one.score or 0.0, n)
        for one, n in zip(listed, users.tolist(), strict=True)
    ]


ENDPOINTS = [
    Endpoint("GET", "/v1/popular", popular, PopularAnswer, query=PopularQuery),
    Endpoint("GET", "/v1/items/{item}/together", together, TogetherAnswer, query=TogetherQuery, errors=(404,)),
    Endpoint("POST", "/v1/next", next_item, NextAnswer, body=SessionBody, errors=(404, 413)),
]
