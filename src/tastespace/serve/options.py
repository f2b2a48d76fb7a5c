"""Options of lists, ids and histories in requests, read and checked within the limits of the server."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tastespace.answers.ids import ids_in_type
from tastespace.answers.lists import AnswerOptions
from tastespace.answers.people import Person
from tastespace.recommend.interests import MOST_BOOST
from tastespace.serve.endpoint_table import Call
from tastespace.serve.errors import HttpError
from tastespace.serve.schemas import ListBody, ListFields, ListQuery

_MOST_KEPT_QUERY = 100


def limited_k(call: Call, given: int | None, default: int = 10) -> int:
    """Return the length of a list, within the limit."""
    most = call.state.settings.limits.k
    k = min(default, most) if given is None else given
    if k > most:
        raise HttpError(422, "k_too_large", f"k={k:,}: at most {most:,} items are given.", "Ask for fewer.")
    return k


def options_of_query(call: Call, default_k: int = 10) -> AnswerOptions:
    """Return the options of lists in a query. Queries repeat: the options of short ones are read once."""
    key = call.query_text, default_k, call.state.rules_version
    known = call.slot.lists.known_options
    found = known.get(key)
    if found is None:
        found = _options_of_query(call, default_k)
        if len(call.query_text) <= _MOST_KEPT_QUERY:
            known.put(key, found)
    return found


def _options_of_query(call: Call, default_k: int) -> AnswerOptions:
    query, served = call.query, call.slot.served
    return _options(
        call,
        default_k,
        query,
        items=tuple(served.item_id(one) for one in query.include),
        exclude=tuple(served.item_id(one) for one in query.exclude),
        mute=None if query.mute is None else tuple(_numbers(query.mute)),
        boost=None if query.boost is None else dict(_factors(query.boost)),
    )


def options_of_body(call: Call, default_k: int = 10) -> AnswerOptions:
    """Return the options of lists in a body."""
    body: ListBody = call.body
    items = call.slot.served.train.items
    return _options(
        call,
        default_k,
        body,
        None if body.rules is None else msgspec.to_builtins(body.rules),
        items=tuple(ids_in_type(items, body.include, "item")),
        exclude=tuple(ids_in_type(items, body.exclude, "item")),
        mute=None if body.mute is None else tuple(body.mute),
        boost=None if body.boost is None else boosts_by_number(body.boost),
    )


def _options(
    call: Call, default_k: int, given: ListQuery | ListBody, rules: dict[str, Any] | None = None, **read: Any
) -> AnswerOptions:
    """Return the options of a query or a body; ``read`` are the fields that are written in their own way in each."""
    key, all_rules = call.state.rules_for(call.slot, rules)
    same = {one: getattr(given, one) for one in ListFields.__struct_fields__ if one not in ("k", "filter")}
    return AnswerOptions(
        k=limited_k(call, given.k, default_k),
        filter=given.filter or None,
        rules_key=key,
        rules=all_rules,
        **same,
        **read,
    )


def _numbers(text: str) -> list[int]:
    """Return ``"1,3"`` as numbers of interests."""
    try:
        return [int(one) for one in text.split(",") if one.strip()]
    except ValueError:
        raise HttpError(422, "invalid_request", f"mute={text[:80]!r}: expected numbers such as 1,3.") from None


def _factors(text: str) -> list[tuple[int, float]]:
    """Return ``"2:1.5"`` as factors of interests."""
    try:
        pairs = [one.split(":") for one in text.split(",") if one.strip()]
        found = [(int(number), float(factor)) for number, factor in pairs]
    except ValueError:
        raise HttpError(422, "invalid_request", f"boost={text[:80]!r}: expected factors such as 2:1.5.") from None
    if not all(0 < factor <= MOST_BOOST for _, factor in found):  # NaN neither
        raise HttpError(
            422, "invalid_request", f"boost={text[:80]!r}: expected factors above 0 and at most {MOST_BOOST:,.0f}.",
            "mute leaves an interest out.",
        )  # fmt: skip
    return found


def boosts_by_number(given: dict[str, float]) -> dict[int, float]:
    """Return factors by the number of the interest, which is text in JSON."""
    if not all(x.isascii() and x.isdecimal() and len(x) < 8 for x in given):
        raise HttpError(422, "invalid_request", 'boost: expected numbers of interests as names, such as {"2": 1.5}.')
    return {int(x): factor for x, factor in given.items()}


def require_few(call: Call, n: int, most: int, what: str) -> None:
    """Refuse a request that holds too much."""
    if n > most:
        raise HttpError(413, "batch_too_large", f"{n:,} {what}: at most {most:,} in one request.", "Send several.")


def history_rows(call: Call, items: list[Any]) -> NDArray[np.int32]:
    """Ids of past items as ascending rows; unknown items are an error unless popular ones may stand in."""
    require_few(call, len(items), call.state.settings.limits.history, "items in a history")
    return call.slot.served.history_rows(items, getattr(call.body, "on_unknown", "error") != "error")


def newcomer(call: Call) -> Person:
    """Somebody who is not in the model, with the history of the body."""
    require_few(call, len(call.body.history), call.state.settings.limits.history, "items in a history")
    return call.slot.people.with_history(call.body.history, call.body.on_unknown != "error")
