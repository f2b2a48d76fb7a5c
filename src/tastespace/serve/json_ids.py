"""Ids between JSON and the types that a model has them in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.data.ids import IdMap, is_valid_text, parse_ids
from tastespace.serve.http_errors import HttpError

_INT64 = 2**63


def json_ids(ids: IdMap, rows: NDArray[np.integer[Any]]) -> list[Any]:
    """Ids at these rows as JSON has them: numbers, text, true and false; dates and others as text."""
    found = ids.take(rows).to_list()
    kind = ids.series.dtype
    if kind.is_integer() or kind == pl.String or kind.is_float() or kind == pl.Boolean:
        return found
    return [str(one) for one in found]


def id_in_type(ids: IdMap, given: Any, kind: str) -> Any:
    """An id of a JSON body in the model's type; 422 where it is of another one."""
    own, is_number = ids.series.dtype, isinstance(given, (int, float)) and not isinstance(given, bool)
    if own.is_temporal() and isinstance(given, str):
        return id_from_text(ids, given, kind)
    fits = (
        (own == pl.String and isinstance(given, str) and is_valid_text(given))
        or (own == pl.Boolean and isinstance(given, bool))
        or (own.is_integer() and is_number and isinstance(given, int) and abs(given) < _INT64)
        or (own.is_float() and is_number)
    )
    if not fits:
        raise _wrong_type(ids, given, kind)
    return float(given) if own.is_float() else given


def new_id_in_type(ids: IdMap, given: Any, kind: str) -> Any:
    """An id that may become a new user or item, see `id_in_type`; 422 where it has no visible character."""
    found = id_in_type(ids, given, kind)
    if isinstance(found, str) and not any(one.isprintable() and not one.isspace() for one in found):
        raise HttpError(
            422,
            "blank_id",
            f"the {kind} id {found[:40]!r} is blank: expected at least one visible character.",
            f"Leave out events without a {kind}.",
        )
    return found


def ids_in_type(ids: IdMap, given: Sequence[Any], kind: str) -> list[Any]:
    """Several ids, see `id_in_type`."""
    return [id_in_type(ids, one, kind) for one in given]


def id_from_text(ids: IdMap, text: str, kind: str) -> Any:
    """An id of a path or query in the model's type; 422 where it cannot be one."""
    own = ids.series.dtype
    if not is_valid_text(text):
        raise _wrong_type(ids, text, kind)
    if own == pl.String:
        return text
    if own.is_integer():
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
            raise _wrong_type(ids, text, kind)
        return int(text)
    (found,) = parse_ids(ids, [text])
    if isinstance(found, str) or found is None or found != found:
        raise _wrong_type(ids, text, kind)
    return found


def _wrong_type(ids: IdMap, given: Any, kind: str) -> HttpError:
    shown, own = repr(given)[:80], type_name(ids)
    expected = {"integer": "an integer", "text": "text"}.get(own, f"a {own}")
    return HttpError(
        422,
        "wrong_id_type",
        f"the {kind} id {shown} ({type(given).__name__}) is not of the type of the model's {kind} ids.",
        f"Give {expected} such as {ids[0]!r}." if len(ids) else "",
    )


def type_name(ids: IdMap) -> str:
    """The type of ids in a word."""
    kind = ids.series.dtype
    return "integer" if kind.is_integer() else "text" if kind == pl.String else str(kind).lower()
