"""Ids between JSON and the types that a model has them in."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.limits import ID_BYTES
from tastespace.answers.types import AnswerError
from tastespace.data.ids import IdMap, is_valid_text, parse_ids

_WORDS = {str: "text", bool: "true or false", int: "integer", float: "number"}
_MOST_DIGITS = 20
_NARROW = (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32)


def json_id(given: Any) -> Any:
    """An id as JSON has it: numbers, text, true and false as they are; dates and others as text.

    >>> import datetime
    >>> json_id(7), json_id(1.5), json_id(datetime.date(2024, 5, 1))
    (7, 1.5, '2024-05-01')
    """
    return given if given is None or isinstance(given, (str, int, float, bool)) else str(given)


def json_ids(ids: IdMap, rows: NDArray[np.integer[Any]]) -> list[Any]:
    """Ids at these rows as JSON has them, see `json_id`."""
    found, kind = ids.take(rows).to_list(), ids.series.dtype
    if kind.is_numeric() or kind == pl.String or kind == pl.Boolean:
        return found
    return [json_id(one) for one in found]


def type_name(ids: IdMap) -> str:
    """The type of ids in a word.

    >>> type_name(IdMap(pl.Series([3, 5]), "item")), type_name(IdMap(pl.Series(["a"]), "item"))
    ('integer', 'text')
    """
    kind = ids.series.dtype
    return "integer" if kind.is_integer() else "text" if kind == pl.String else str(kind).lower()


def id_in_type(ids: IdMap, given: Any, kind: str) -> Any:
    """An id of a JSON body in the model's type; an error where it is of another one."""
    own, is_number = ids.series.dtype, isinstance(given, (int, float)) and not isinstance(given, bool)
    if own.is_temporal() and isinstance(given, str):
        return id_from_text(ids, given, kind)
    fits = (
        (own == pl.String and isinstance(given, str) and is_valid_text(given))
        or (own == pl.Boolean and isinstance(given, bool))
        or (own.is_integer() and is_number and isinstance(given, int) and _is_held(own, given))
        or (own.is_float() and is_number and _is_held(own, given))
    )
    if not fits:
        raise _wrong_type(ids, given, kind)
    if isinstance(given, str):
        _require_short(given, kind)
    return _rounded(own, given) if own.is_float() else given


def new_id_in_type(ids: IdMap, given: Any, kind: str) -> Any:
    """An id that may become a new user or item, see `id_in_type`; an error where it has no visible character."""
    found = id_in_type(ids, given, kind)
    if isinstance(found, str) and not any(one.isprintable() and not one.isspace() for one in found):
        raise AnswerError(
            "blank_id",
            f"the {kind} id {found[:40]!r} is blank: expected at least one visible character.",
            f"Leave out events without a {kind}.",
        )
    return found


def ids_in_type(ids: IdMap, given: Sequence[Any], kind: str) -> list[Any]:
    """Several ids, see `id_in_type`."""
    return [id_in_type(ids, one, kind) for one in given]


def id_from_text(ids: IdMap, text: str, kind: str) -> Any:
    """An id of a path or query in the model's type; an error where it cannot be one."""
    own = ids.series.dtype
    if not is_valid_text(text):
        raise _wrong_type(ids, text, kind)
    if own == pl.String:
        _require_short(text, kind)
        return text
    if own.is_integer():
        digits = text.removeprefix("-")
        is_whole = digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS
        if not is_whole or not _is_held(own, int(text)):
            raise _wrong_type(ids, text, kind)
        return int(text)
    (found,) = parse_ids(ids, [text])
    if isinstance(found, str) or found is None or (own.is_float() and not np.isfinite(found)):
        raise _wrong_type(ids, text, kind)
    return found


def type_with_new(ids: IdMap) -> Any:
    """Type of a column of these ids and new ones: whole numbers have 64 bits at least.

    A data frame may have held the ids that it knew in eight bits; the next id does not care.

    >>> type_with_new(IdMap(pl.Series([3, 5], dtype=pl.UInt8), "user"))
    Int64
    """
    own = ids.series.dtype
    return pl.Int64() if own in _NARROW else own


def _require_short(text: str, kind: str) -> None:
    if len(text) * 6 <= ID_BYTES:  # a character has at most six bytes in JSON
        return
    n_bytes = len(json.dumps(text, ensure_ascii=False).encode())
    if n_bytes > ID_BYTES:
        raise AnswerError(
            "id_too_long", f"the {kind} id {text[:40]!r}... has {n_bytes:,} bytes as JSON: at most {ID_BYTES:,}.",
            f"Give the {kind} a shorter id.",
        )  # fmt: skip


def _is_held(own: Any, number: float) -> bool:
    """Return whether a number can be an id beside those of this type, see `type_with_new`."""
    if own.is_float():
        return math.isfinite(_rounded(own, number))
    if own in _NARROW:
        own = pl.Int64()
    bits, is_signed = int(str(own).lower().lstrip("uint")), str(own).startswith("Int")
    return -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) if is_signed else 0 <= number < 2**bits


def _rounded(own: Any, number: float) -> float:
    """A number as a type of floats has it; infinite where it is too large."""
    try:
        with np.errstate(over="ignore"):
            return float(np.float32(number)) if own == pl.Float32 else float(number)
    except OverflowError:
        return math.inf


def shown_id(given: Any) -> str:
    """An id as messages have it: as in JSON.

    >>> print(shown_id(7), shown_id("ann"), shown_id(True))
    7 "ann" true
    """
    return json.dumps(json_id(given), ensure_ascii=False)[:80]


def _wrong_type(ids: IdMap, given: Any, kind: str) -> AnswerError:
    own, given_type = type_name(ids), _WORDS.get(type(given), "another type")
    expected = {"integer": "an integer", "text": "text"}.get(own, f"a {own}")
    return AnswerError(
        "wrong_id_type",
        f"the {kind} id {shown_id(given)} ({given_type}) is not of the type of the model's {kind} ids.",
        f"Give {expected} such as {shown_id(ids[0])}." if len(ids) else "",
    )
