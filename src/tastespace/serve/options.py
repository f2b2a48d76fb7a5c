"""Options of lists, ids and histories in requests, read and checked within the limits of the server."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tastespace.answers.ids import ids_in_type
from tastespace.answers.lists import AnswerOptions
from tastespace.answers.people import Person
from tastespace.answers.requests import factors_by_number, query_options, same_options, with_served_diversity
from tastespace.serve.endpoint_table import RequestContext
from tastespace.serve.errors import HttpError
from tastespace.serve.schemas import ListBody

_MOST_KEPT_QUERY = 100


def limited_k(call: RequestContext, given: int | None, default: int = 10) -> int:
    """Return the length of a list, within the limit."""
    most = call.state.settings.limits.k
    k = min(default, most) if given is None else given
    if k > most:
        raise HttpError(422, "k_too_large", f"k={k:,}: at most {most:,} items are returned.", "Ask for fewer.")
    return k


def options_of_query(call: RequestContext, default_k: int = 10) -> AnswerOptions:
    """Return the options of lists in a query. Queries repeat: the options of short ones are read once."""
    key = call.query_text, default_k, call.state.rules_version
    known = call.slot.lists.known_options
    found = known.get(key)
    if found is None:
        found = _options_of_query(call, default_k)
        if len(call.query_text) <= _MOST_KEPT_QUERY:
            known.put(key, found)
    return found


def _options_of_query(call: RequestContext, default_k: int) -> AnswerOptions:
    return _options(call, default_k, query_options(call.query, call.slot.served.train.items))


def options_of_body(call: RequestContext, default_k: int = 10) -> AnswerOptions:
    """Return the options of lists in a body."""
    body: ListBody = call.body
    items = call.slot.served.train.items
    given = {
        **same_options(body),
        "items": tuple(ids_in_type(items, body.include, "item")),
        "exclude": tuple(ids_in_type(items, body.exclude, "item")),
        "mute": None if body.mute is None else tuple(body.mute),
        "boost": None if body.boost is None else factors_by_number(body.boost),
    }
    return _options(call, default_k, given, None if body.rules is None else msgspec.to_builtins(body.rules))


def _options(
    call: RequestContext, default_k: int, given: dict[str, Any], rules: dict[str, Any] | None = None
) -> AnswerOptions:
    """Return the given options with the rules of server and request, and with a length within the limit."""
    key, all_rules = call.state.rules_for(call.slot, rules)
    k = limited_k(call, given.get("k"), default_k)
    asked = with_served_diversity(given, call.slot.served.model)
    return AnswerOptions(**{**asked, "k": k, "rules_key": key, "rules": all_rules})


def require_few(call: RequestContext, n: int, most: int, what: str) -> None:
    """Refuse a request that holds too much."""
    if n > most:
        raise HttpError(413, "batch_too_large", f"{n:,} {what}: at most {most:,} in one request.", "Send several.")


def history_rows(call: RequestContext, items: list[Any]) -> NDArray[np.int32]:
    """Ids of past items as ascending rows; unknown items are an error unless `on_unknown` is popular."""
    require_few(call, len(items), call.state.settings.limits.history, "items in a history")
    return call.slot.served.history_rows(items, getattr(call.body, "on_unknown", "error") != "error")


def newcomer(call: RequestContext) -> Person:
    """A user outside the model, built from the history in the request body."""
    require_few(call, len(call.body.history), call.state.settings.limits.history, "items in a history")
    return call.slot.people.with_history(call.body.history, call.body.on_unknown != "error")
