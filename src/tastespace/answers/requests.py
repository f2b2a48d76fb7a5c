"""Requests for answers, read once for the server and the widget: fields of queries and bodies, and their errors.

The dataclasses declare names, types and bounds; `tastespace.serve.schemas` derives the HTTP schema from them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from tastespace.answers.ids import id_from_text
from tastespace.answers.types import AnswerError
from tastespace.data.ids import IdMap
from tastespace.errors import Argument, Call, nearest
from tastespace.models.base import Recommender
from tastespace.recommend.interests import MOST_BOOST

Query = TypeVar("Query", bound="ModelQuery")
_MOST_SHOWN = 60
_MOST_SHOWN_IN_MESSAGES = 80
_NUMBER = {
    int: re.compile(r"[-+]?[0-9]{1,18}"),
    float: re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[-+]?[0-9]+)?", re.IGNORECASE),
}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_MEANT_WHEN_BLANK = ("mute", "boost", "after")
"""Fields that say something when they are blank: nothing is muted or boosted, whatever the profile says; page one."""


@dataclass(frozen=True)
class Range:
    """Bounds of a number, both of them allowed."""

    lowest: float
    highest: float


InterestNumber = Annotated[int, Range(0, 100_000)]
Length = Annotated[int, Range(1, 1_000_000)]


@dataclass(frozen=True, kw_only=True)
class ListFields:
    """Options of lists that queries and bodies write in the same way, named as in `AnswerOptions`."""

    k: Length | None = None
    mix: Literal["nearest", "scaled", "proportional", "calibrated"] | None = None
    diversity: Annotated[float, Range(0, 1)] | None = None
    column: str | None = None
    filter: str | None = None
    on_unknown: Literal["error", "popular"] = "error"
    because: bool = True
    include_seen: bool = False


@dataclass(frozen=True, kw_only=True)
class ModelQuery:
    """Choice between two models, and whom an experiment counts somebody without an id as."""

    model: Literal["main", "compare"] = "main"
    session: str | None = None


@dataclass(frozen=True, kw_only=True)
class ListQuery(ModelQuery, ListFields):
    """Query of lists, shelves, interests and explanations of a user."""

    exclude: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    mute: str | None = None
    boost: str | None = None


@dataclass(frozen=True, kw_only=True)
class PageQuery(ListQuery):
    """Query of a list that may be one page of several."""

    after: str | None = None


@dataclass(frozen=True, kw_only=True)
class PopularQuery(ModelQuery):
    """Query of popular items: in a window of time such as 7d, or by the rise in it."""

    k: Length | None = None
    since: str | None = None
    trending: bool = False
    filter: str | None = None
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TogetherQuery(ModelQuery):
    """Query of items taken together with one, within a time such as 1d."""

    k: Length | None = None
    within: str | None = None
    filter: str | None = None


@dataclass(frozen=True, kw_only=True)
class LimitQuery(ModelQuery):
    """Query of a search."""

    q: str = ""
    limit: Annotated[int, Range(1, 1_000)] = 20


@dataclass(frozen=True, kw_only=True)
class NeighborQuery(ModelQuery):
    """Number of neighbors."""

    k: Length | None = None


# ---- queries and bodies ------------------------------------------------------------------------------------------


def read_query(kind: type[Query], pairs: Iterable[tuple[str, str]]) -> Query:
    """Return the names and texts of a query as a value of this type.

    >>> read_query(NeighborQuery, [("k", "5")])
    NeighborQuery(model='main', session=None, k=5)
    >>> read_query(NeighborQuery, [("k", "many")])
    Traceback (most recent call last):
    tastespace.answers.types.AnswerError: k=many: expected an integer from 1 to 1,000,000.
    """
    declared: type = kind
    hints, found = field_types(declared), dict[str, Any]()
    for name, text in pairs:
        if not text and name not in _MEANT_WHEN_BLANK:
            continue
        if name not in hints:
            raise _unknown_field(name, "query", hints)
        if hints[name] == tuple[str, ...]:
            found[name] = (*found.get(name, ()), *(one for one in text.split(",") if one))
        elif name in found:
            raise AnswerError("invalid_request", f"{name!r} is given more than once in the query.", "Give it once.")
        else:
            found[name] = _checked(name, hints[name], text, _from_text)
    return kind(**found)


def read_body(body: Mapping[str, Any], others: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a body, checked; ``others`` are the names that it may have besides `ListFields`.

    The server decodes bodies with types derived from the same declarations, which is faster.
    """
    hints, found = field_types(ListFields), dict[str, Any]()
    for name, value in body.items():
        if name not in hints and name not in others:
            raise _unknown_field(name, "body", [*hints, *others])
        if value is None or name in ("item", "after"):
            found[name] = value
        elif name in hints:
            found[name] = _checked(name, hints[name], value, _from_json)
        elif name == "boost":
            found[name] = _factors(value)
        elif not isinstance(value, list):
            raise _invalid(name, value, "a list")
        elif name == "mute":
            found[name] = [_checked(f"mute[{at}]", InterestNumber, x, _from_json) for at, x in enumerate(value)]
        else:
            found[name] = value
    return found


def _factors(given: Any) -> dict[str, float]:
    if not isinstance(given, dict):
        raise _invalid("boost", given, "an object")
    for one in given.values():
        if isinstance(one, bool) or not isinstance(one, (int, float)) or not 0 < one <= MOST_BOOST:
            message = f"boost[...]: expected a number above 0 up to {MOST_BOOST:,.0f}."
            raise AnswerError("invalid_request", message, "Change boost[...].")
    return given


def query_options(query: ListQuery, items: IdMap) -> dict[str, Any]:
    """Return the options of a query by the names of `AnswerOptions`; ``k`` only where it is given."""
    found = {**same_options(query), "mute": None if query.mute is None else interest_numbers(query.mute)}
    found["boost"] = None if query.boost is None else interest_factors(query.boost)
    for name, texts in (("items", query.include), ("exclude", query.exclude)):
        found[name] = tuple(id_from_text(items, one, "item") for one in texts)
    return found


def same_options(given: Any) -> dict[str, Any]:
    """Return `ListFields` of a query or a body as options; ``k`` only where it is given."""
    found = {one.name: getattr(given, one.name) for one in fields(ListFields)}
    found["filter"] = found["filter"] or None
    found["exclude_seen"] = not found.pop("include_seen")
    if found["k"] is None:
        del found["k"]
    return found


def with_served_diversity(given: Mapping[str, Any], model: Recommender) -> dict[str, Any]:
    """Return options with the diversity that a model is served with, where they give neither mix nor diversity."""
    if not model.served_diversity or given.get("mix") is not None or given.get("diversity") is not None:
        return dict(given)
    return {**given, "diversity": model.served_diversity}


def interest_numbers(text: str) -> tuple[int, ...]:
    """Return ``"1,3"`` as numbers of interests."""
    try:
        return tuple(int(one) for one in text.split(",") if one.strip())
    except ValueError:
        raise AnswerError("invalid_request", f"mute={text[:80]!r}: expected numbers such as 1,3.") from None


def interest_factors(text: str) -> dict[int, float]:
    """Return ``"2:1.5"`` as factors of interests."""
    try:
        pairs = [one.split(":") for one in text.split(",") if one.strip()]
        found = {int(number): float(factor) for number, factor in pairs}
    except ValueError:
        raise AnswerError("invalid_request", f"boost={text[:80]!r}: expected factors such as 2:1.5.") from None
    if not all(0 < factor <= MOST_BOOST for factor in found.values()):  # NaN neither
        raise AnswerError(
            "invalid_request", f"boost={text[:80]!r}: expected factors above 0 and at most {MOST_BOOST:,.0f}.",
            "mute leaves an interest out.",
        )  # fmt: skip
    return found


def factors_by_number(given: Mapping[str, float]) -> dict[int, float]:
    """Return factors by the number of the interest, which is text in JSON."""
    if not all(x.isascii() and x.isdecimal() and len(x) < 8 for x in map(str, given)):
        raise AnswerError("invalid_request", 'boost: expected numbers of interests as names, such as {"2": 1.5}.')
    return {int(x): float(factor) for x, factor in given.items()}


@cache
def field_types(kind: type) -> dict[str, Any]:
    """Return the types of the fields of a dataclass, with their bounds and without None."""
    hints = get_type_hints(kind, include_extras=True)
    return {one.name: _without_none(hints[one.name]) for one in fields(kind)}


def _without_none(hint: Any) -> Any:
    others = [one for one in get_args(hint) if one is not type(None)]
    return others[0] if type(None) in get_args(hint) else hint


def _checked(name: str, hint: Any, given: Any, read: Any) -> Any:
    """Return a value in the type of its field; an error where it has another type or is out of bounds."""
    kind, *bounds = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    found = read(str if choices else kind, given)
    is_allowed = not choices or found in choices
    if found is not None and is_allowed and all(one.lowest <= found <= one.highest for one in bounds):
        return found
    raise _invalid(name, given, _expected(kind, choices, bounds))


def _invalid(name: str, given: Any, expected: str) -> AnswerError:
    shown = given if isinstance(given, str) else json.dumps(given, default=str)
    shown = shown if len(shown) < _MOST_SHOWN else shown[: _MOST_SHOWN - 5] + " ..."
    return AnswerError("invalid_request", f"{name}={shown}: expected {expected}.", f"Change {name}, or leave it out.")


def _from_text(kind: type, text: str) -> Any:
    if kind is bool:
        return _BOOLEANS.get(text.lower())
    if kind in _NUMBER:
        return kind(text) if _NUMBER[kind].fullmatch(text) else None
    return text


def _from_json(kind: type, value: Any) -> Any:
    if isinstance(value, bool) is not (kind is bool):
        return None
    return value if isinstance(value, (int, float) if kind is float else kind) else None


def _expected(kind: type, choices: Sequence[str], bounds: Sequence[Range]) -> str:
    if choices:
        return f"one of {', '.join(sorted(choices))}"
    words = {bool: "true or false", int: "an integer", float: "a number"}.get(kind, "text")
    return " ".join([words, *(f"from {one.lowest:,} to {one.highest:,}" for one in bounds)])


def _unknown_field(name: str, where: str, known: Iterable[str]) -> AnswerError:
    message = f"the {where} has no field {name[:_MOST_SHOWN]!r}; expected some of {', '.join(known)}."
    return AnswerError("invalid_request", message, nearest(name, list(known)).strip() or "Leave it out.")


# ---- messages ----------------------------------------------------------------------------------------------------

FIELD_NAMES = {"items": "include"}
"""Options of lists that have another name in queries and bodies than in Python."""
_REQUESTS = {
    "model.interests(user)": "GET /v1/users/{user}/interests",
    "model.unmute": "PUT /v1/users/{user}/profile",
    "recommend(on_unknown='popular')": "on_unknown=popular",
    "recommend_for": "POST /v1/recommendations",
}


def as_field(part: Argument | Call) -> str:
    """Return an argument or a call of a message as a user of the HTTP interface knows it.

    >>> as_field(Argument("mix", "scaled")), as_field(Argument("items")), as_field(Argument("boost", {2: 1.5}))
    ('mix=scaled', 'include', 'boost={"2": 1.5}')
    """
    if isinstance(part, Call):
        return _REQUESTS.get(part, part)
    name = FIELD_NAMES.get(part.name, part.name)
    if not part.is_given:
        return name
    text = part.value if isinstance(part.value, str) else json.dumps(part.value, default=str)
    most = _MOST_SHOWN_IN_MESSAGES
    return f"{name}={text if len(text) <= most else text[: most - 4] + ' ...'}"
