"""The filter language of requests: comparisons of item attributes, parsed here and never handed to an SQL engine.

``year >= 1990 and genre = "Drama" and not title contains "II"``: comparisons ``= != < <= > >=``, ``in (...)`` and
``contains``, joined by ``and``, ``or``, ``not`` and parentheses. Values are numbers, texts in quotes, true and false. A
name is a column of the item attributes; one with spaces stands in backquotes. A missing value satisfies no comparison.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable
from datetime import date, datetime, timezone
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.errors import DataError, nearest

MOST_CHARACTERS = 4_000
MOST_TERMS = 100
MOST_NESTED = 20

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    |(?P<name>`[^`]+`|[^\W\d]\w*)
    |(?P<sign><=|>=|!=|<>|==|=|<|>|\(|\)|,))""",
    re.VERBOSE,
)
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SAME = {"==": "=", "<>": "!="}
_WORDS = ("and", "or", "not", "in", "contains", "true", "false")


def item_mask(text: str, attributes: pl.DataFrame) -> NDArray[np.bool_]:
    """Which items a filter allows, shape ``(n_items,)``; raises `DataError` where it cannot be read.

    >>> items = pl.DataFrame({"item": [1, 2, 3], "year": [1980, 1999, None], "genres": [["Drama"], ["Jazz"], []]})
    >>> item_mask('year >= 1990 or genres contains "Drama"', items).tolist()
    [True, True, False]
    >>> item_mask('not year in (1980, 1981)', items).tolist()
    [False, True, True]
    """
    return _Parser(text, attributes).parsed()


class _Parser:
    """Recursive descent over the tokens of one filter; every rule gives a mask."""

    def __init__(self, text: str, attributes: pl.DataFrame) -> None:
        if len(text) > MOST_CHARACTERS:
            raise DataError(f"the filter has {len(text):,} characters, at most {MOST_CHARACTERS:,} are allowed.")
        self._frame = attributes
        self._tokens = _tokens(text)
        self._at = self._terms = self._depth = 0

    def parsed(self) -> NDArray[np.bool_]:
        if self._kind == "end":
            raise DataError('the filter is empty: expected a condition such as year >= 1990 and genre = "Drama".')
        mask = self._either()
        if self._kind != "end":
            raise DataError(f"the filter goes on after its end, at {self._shown}: expected and, or, or nothing more.")
        return mask

    @property
    def _kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def _shown(self) -> str:
        return repr(self._tokens[self._at][1]) if self._kind != "end" else "its end"

    def _word(self) -> str:
        kind, token = self._tokens[self._at]
        return str(token).lower() if kind == "name" else str(token) if kind == "sign" else ""

    def _take(self, *words: str) -> bool:
        if self._word() in words:
            self._at += 1
            return True
        return False

    def _either(self) -> NDArray[np.bool_]:
        mask = self._both()
        while self._take("or"):
            mask = mask | self._both()
        return mask

    def _both(self) -> NDArray[np.bool_]:
        mask = self._one()
        while self._take("and"):
            mask = mask & self._one()
        return mask

    def _one(self) -> NDArray[np.bool_]:
        self._terms += 1
        if self._terms > MOST_TERMS or self._depth > MOST_NESTED:
            raise DataError(f"the filter has more than {MOST_TERMS} terms, or {MOST_NESTED} inside each other.")
        if self._take("not"):
            self._depth += 1
            mask = ~self._one()
            self._depth -= 1
            return mask
        if self._take("("):
            self._depth += 1
            mask = self._either()
            self._depth -= 1
            self._expect(")")
            return mask
        return self._comparison()

    def _comparison(self) -> NDArray[np.bool_]:
        column = self._column()
        word = _SAME.get(self._word(), self._word())
        if word in _COMPARE:
            self._at += 1
            return _compared(column, word, [self._value()])
        if self._take("contains"):
            return _contains(column, self._value())
        negated = self._take("not")
        if self._take("in"):
            self._expect("(")
            values = [self._value()]
            while self._take(","):
                values.append(self._value())
            self._expect(")")
            mask = _compared(column, "=", values)
            return ~mask if negated else mask
        raise DataError(
            f"the filter has {self._shown} after {column.name!r}: expected one of = != < <= > >= in contains."
        )

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise DataError(f"the filter has {self._shown} where {sign!r} was expected.")

    def _column(self) -> pl.Series:
        kind, token = self._tokens[self._at]
        if kind != "name" or (token.lower() in _WORDS and not token.startswith("`")):
            raise DataError(f"the filter has {self._shown} where a column of the items was expected.")
        name, known = token.strip("`"), self._frame.columns
        if name not in known:
            raise DataError(
                f"the filter names {name!r}, which is no column of the items; they have "
                f"{', '.join(map(repr, known))}.{nearest(name, known)}"
            )
        self._at += 1
        return self._frame[name]

    def _value(self) -> Any:
        kind, token = self._tokens[self._at]
        if kind == "name" and token.lower() in ("true", "false"):
            self._at += 1
            return token.lower() == "true"
        if kind not in ("text", "number"):
            raise DataError(f"the filter has {self._shown} where a value was expected: a number, a text in quotes.")
        self._at += 1
        if kind == "number":
            number = float(token)
            if not math.isfinite(number):
                raise DataError(f"the filter has the number {token}, which is too large.")
            return int(token) if re.fullmatch(r"[-+]?\d{1,18}", token) else number
        return re.sub(r"\\(.)", r"\1", token[1:-1])


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    end = len(text.rstrip())
    while at < end:
        token = _TOKEN.match(text, at)
        if token is None:
            raise DataError(f"the filter cannot be read at {text[at : at + 20]!r}.")
        found.append((str(token.lastgroup), token.group(str(token.lastgroup))))
        at = token.end()
    return [*found, ("end", "")]


def _compared(column: pl.Series, sign: str, values: list[Any]) -> NDArray[np.bool_]:
    """Whether a comparison with one of the values holds, false where a value is missing."""
    if isinstance(column.dtype, (pl.List, pl.Array)):
        if sign not in ("=", "!="):
            raise DataError(f"the filter compares {column.name!r}, which holds lists, by {sign}: use contains.")
        mask = np.logical_or.reduce([_contains(column, value) for value in values])
        return mask if sign == "=" else ~mask & column.is_not_null().to_numpy()
    mask = np.zeros(len(column), dtype=bool)
    comparable = _comparable(column)
    for value in values:
        found: pl.Series = _COMPARE[sign](comparable, _as_type(comparable, value))
        mask |= found.fill_null(False).to_numpy()
    return mask


def _contains(column: pl.Series, value: Any) -> NDArray[np.bool_]:
    if isinstance(column.dtype, (pl.List, pl.Array)):
        lists = column.arr.to_list() if isinstance(column.dtype, pl.Array) else column
        inner = lists.list.explode() if len(lists) else pl.Series(column.name, [], dtype=column.dtype.inner)
        typed = _as_type(inner.alias(column.name), value)
        if inner.dtype.is_integer():  # narrow types cannot be compared with what they do not hold
            lists = lists.cast(pl.List(pl.Int64), strict=False)
        return lists.list.contains(typed).fill_null(False).to_numpy()
    if column.dtype in (pl.String, pl.Categorical, pl.Enum):
        if not isinstance(value, str):
            raise DataError(
                f"the filter looks for {_shown(value)} in {column.name!r}, which holds text: put it in quotes."
            )
        return column.cast(pl.String).str.contains(value, literal=True).fill_null(False).to_numpy()
    raise DataError(f"the filter uses contains with {column.name!r}, which holds {_kind_words(column.dtype)}: use =.")


def _comparable(column: pl.Series) -> pl.Series:
    """A column in a type that can be compared with any value: wide whole numbers, times of UTC, nothing for NaN."""
    kind = column.dtype
    if kind.is_integer() and kind != pl.Int64:
        return column.cast(pl.Float64 if kind == pl.UInt64 else pl.Int64)
    if kind.is_float():
        return column.fill_nan(None)
    if isinstance(kind, pl.Datetime) and kind.time_zone is not None:
        return column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return column


def _as_type(column: pl.Series, value: Any) -> Any:
    """A value as one of the column's type, or an error that says which type the column has."""
    kind = column.dtype
    if kind == pl.Boolean and isinstance(value, bool):
        return value
    if kind.is_numeric() and isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if kind in (pl.String, pl.Categorical, pl.Enum) and isinstance(value, str):
        return value
    is_date = kind == pl.Date or isinstance(kind, pl.Datetime)
    if is_date and isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            pass
        else:
            if kind == pl.Date:
                return moment.date()
            return moment if moment.tzinfo is None else moment.astimezone(timezone.utc).replace(tzinfo=None)
    if kind.is_temporal() and not is_date:
        raise DataError(
            f"the filter compares {column.name!r}, which holds {_kind_words(kind)}: expected numbers, texts or dates."
        )
    example = {True: "1990", False: '"Drama"'}[kind.is_numeric()]
    if is_date:
        example = f'"{date(1990, 1, 31)}"'
    raise DataError(
        f"the filter compares {column.name!r}, which holds {_kind_words(kind)}, with {_shown(value)}: expected a value "
        f"such as {'true' if kind == pl.Boolean else example}."
    )


def _kind_words(kind: Any) -> str:
    """What a column holds, in words.

    >>> _kind_words(pl.Int16()), _kind_words(pl.String()), _kind_words(pl.Duration())
    ('whole numbers', 'text', 'durations')
    """
    if kind.is_integer():
        return "whole numbers"
    if kind.is_numeric():
        return "numbers"
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    words: dict[Any, str] = {
        pl.Boolean: "true or false",
        pl.Date: "dates",
        pl.Datetime: "times",
        pl.Time: "times of the day",
        pl.Duration: "durations",
        pl.List: "lists",
        pl.Array: "lists",
        pl.Struct: "objects",
    }
    return words.get(kind.base_type(), "other values")


def _shown(value: Any) -> str:
    """A value as filters have it."""
    return json.dumps(value, ensure_ascii=False)
