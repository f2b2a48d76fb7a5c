"""Filters: the items that a request allows, by a condition on item attributes or by a Python expression.

The condition is one language for Python, the command line and HTTP, parsed here and never handed to an SQL engine::

    year >= 1990 and genres contains "Drama" and not (title like 'The %' or price is null)

* ``= != < <= > >=``, ``[not] in (...)``, ``[not] between ... and ...``, ``[not] like`` and ``ilike`` (% and _),
  ``[not] contains``, ``is [not] null``; joined by ``and``, ``or``, ``not`` and parentheses. Case does not matter.
* On the left stands a column; one with spaces is quoted: ```sold out` = true``. A column of true and false is a
  condition by itself.
* On the right stands a number, a text in quotes, true, false, a date (``"2024-01-31"``) or another column. Quotes
  inside a text are doubled or follow a backslash.
* A column of lists satisfies ``=``, ``in`` and ``contains`` if one of its values does.
* A missing value (also NaN) satisfies no comparison; ``not`` is true wherever the condition is not.

In Python a filter may also be a polars expression, a function of the attribute frame, or a mask.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any, NamedTuple, NoReturn

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.limits import FILTER_CHARACTERS, FILTER_NESTED, FILTER_TERMS
from tastespace._util.threads import require_polars
from tastespace.data.reading.tables import from_polars
from tastespace.errors import Argument, DataError, ParameterError, Verbatim, nearest, shortened

# Each alternative is matched in one pass: a token that turns out to be no number is refused afterwards.
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<column>`[^`]+`)
    |(?P<number>[-+]?\.?[0-9](?:[eE][-+]|[\w.])*)
    |(?P<name>[^\W\d]\w*)
    |(?P<sign><=|>=|!=|<>|==|=|<|>|\(|\)|,)
    |(?P<end>\Z))""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SAME = {"==": "=", "<>": "!="}
_OPERATORS = "= != < <= > >= in between like ilike contains is"
_WORDS = ("and", "or", "not", "in", "between", "like", "ilike", "contains", "is", "null", "true", "false")
_DATE_WORDS = ("date", "datetime", "timestamp")

_Mask = NDArray[np.bool_]


def allowed_items(filter: Any, attributes: pl.DataFrame, backend: str = "polars") -> _Mask:
    """Return the mask of the items that a filter of any kind allows, shape ``(n_items,)``.

    Args:
        filter: A condition (see above), a polars expression, a function from the frame of attributes to one true or
            false per item or to an expression, or these values themselves.
        attributes: Item attributes in the order of the items.
        backend: The library of the frame that a function is given.

    >>> items = pl.DataFrame({"item": [1, 2, 3], "year": [1980, 1999, None]})
    >>> allowed_items("year >= 1990", items).tolist(), allowed_items(pl.col("year") < 1990, items).tolist()
    ([False, True, False], [True, False, False])
    """
    if isinstance(filter, np.ndarray) and filter.dtype == np.bool_ and filter.shape == (len(attributes),):
        return filter
    require_polars("filter=")
    if isinstance(filter, str):
        return item_mask(filter, attributes)
    known = _columns(attributes)
    shown = Argument("filter", Verbatim(f"<{getattr(filter, '__name__', type(filter).__name__)}>"))
    try:
        if not isinstance(filter, (pl.Expr, pl.Series, np.ndarray)):
            if not callable(filter):
                raise ParameterError(
                    Argument("filter", filter),
                    ': expected a condition such as "year >= 1990", a polars expression, a function from the frame of '
                    f"item attributes to one true or false per item, or an array of these; {known}.",
                )
            filter = filter(from_polars(attributes, backend))
        if isinstance(filter, pl.Expr):
            filter = attributes.select(filter.alias("kept")).to_series()
        kept = filter if isinstance(filter, pl.Series) else pl.Series("kept", np.asarray(filter))
    except (KeyError, AttributeError, TypeError, IndexError) as problem:
        raise DataError(shown, f" failed on the items: {problem!r}; {known}.") from problem
    except pl.exceptions.ColumnNotFoundError as problem:
        named = re.search(r'"(.+?)"', str(problem))
        missing = named.group(1) if named else str(problem)
        raise DataError(shown, f": no column {missing!r}; {known}.{nearest(missing, attributes.columns)}") from problem
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeError, RecursionError) as problem:
        reason = next(iter(str(problem).splitlines()), type(problem).__name__)
        raise DataError(shown, f" cannot be read: {reason}; {known}.") from problem
    if kept.dtype != pl.Boolean or len(kept) != len(attributes):
        raise DataError(
            shown,
            f" gave {len(kept):,} values of type {kept.dtype}, expected true or false for each of the "
            f"{len(attributes):,} items.",
        )
    return kept.fill_null(False).to_numpy()


def item_mask(text: str, attributes: pl.DataFrame) -> _Mask:
    """Return the mask of the items that a condition allows, shape ``(n_items,)``.

    Raises:
        DataError: The condition cannot be read, with the position and what was expected there.

    >>> items = pl.DataFrame({"item": [1, 2, 3], "year": [1980, 1999, None], "genres": [["Drama"], ["Jazz"], []]})
    >>> item_mask('year >= 1990 or genres contains "Drama"', items).tolist()
    [True, True, False]
    >>> item_mask('not year between 1980 and 1989', items).tolist()
    [False, True, True]
    >>> item_mask("yaer >= 1990", items)
    Traceback (most recent call last):
    tastespace.errors.DataError: filter='yaer >= 1990' cannot be read at character 1: no column 'yaer'; the columns of
    the items are 'item', 'year', 'genres'. Did you mean year?
    """
    return _Parser(text, attributes).parsed()


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    """Position in the filter, from 0."""

    @property
    def shown(self) -> str:
        return "the end" if self.kind == "end" else shortened(self.text, 40)

    @property
    def word(self) -> str:
        """A word of the language in lower case, or a sign; empty for names in quotes and values."""
        return self.text.lower() if self.kind in ("name", "sign") else ""


class _Parser:
    """Recursive descent over the tokens of one filter; every rule returns a mask."""

    def __init__(self, text: str, attributes: pl.DataFrame) -> None:
        self._text, self._frame = text, attributes
        if len(text) > FILTER_CHARACTERS:
            raise DataError(
                f"the filter has {len(text):,} characters, at most {FILTER_CHARACTERS:,} are allowed. Name the items "
                "themselves instead."
            )
        try:
            text.encode()
        except UnicodeEncodeError as problem:
            self._fail("this character is no text", problem.start)
        self._tokens = self._tokenized()
        self._at = self._terms = self._depth = 0

    def parsed(self) -> _Mask:
        if self._now.kind == "end":
            self._fail('it is empty; expected a condition such as year >= 1990 and genre = "Drama"')
        mask = self._either()
        if self._now.kind != "end":
            self._fail(f"expected and, or, or the end, given {self._now.shown}")
        return mask

    def _tokenized(self) -> list[_Token]:
        found: list[_Token] = []
        while not found or found[-1].kind != "end":
            at = found[-1].at + len(found[-1].text) if found else 0
            token = _TOKEN.match(self._text, at)
            if token is None:
                rest = self._text[at:].lstrip()
                at = len(self._text) - len(rest)
                reason = f"{rest[0]!r} has no meaning here"
                if rest[0] in "'\"`":
                    reason = f"the quote {rest[0]} is never closed"
                elif rest[0] in "+-*/%|":
                    reason = f"{rest[0]!r}: a filter compares and does not calculate"
                self._fail(reason, at)
            kind = str(token.lastgroup)
            found.append(_Token(kind, token.group(kind), token.start(kind)))
        return found

    def _fail(self, reason: str, at: int | None = None, advice: str = "") -> NoReturn:
        at = self._now.at if at is None else at
        raise DataError(Argument("filter", self._text), f" cannot be read at character {at + 1}: {reason}.{advice}")

    @property
    def _now(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *words: str) -> bool:
        if self._now.word in words:
            self._at += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._take(word):
            self._fail(f"expected {word}, given {self._now.shown}")

    def _either(self) -> _Mask:
        mask = self._both()
        while self._take("or"):
            mask = mask | self._both()
        return mask

    def _both(self) -> _Mask:
        mask = self._one()
        while self._take("and"):
            mask = mask & self._one()
        return mask

    def _one(self) -> _Mask:
        self._terms += 1
        if self._terms > FILTER_TERMS or self._depth > FILTER_NESTED:
            raise DataError(
                f"the filter has more than {FILTER_TERMS} terms or {FILTER_NESTED} parentheses inside each other. "
                "Write it with in (...), or name the items themselves."
            )
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

    def _comparison(self) -> _Mask:
        column = self._column()
        if column.dtype == pl.Boolean and (self._now.kind == "end" or self._now.word in ("and", "or", ")")):
            return _filled(column)
        sign = _SAME.get(self._now.word, self._now.word)
        if sign in _COMPARE:
            self._at += 1
            return self._compared(column, sign)
        if self._take("is"):
            negated = self._take("not")
            self._expect("null")
            return _plain(column).is_null().to_numpy() ^ negated
        negated = self._take("not")
        if self._take("contains"):
            mask = self._contains(column)
        elif self._take("like", "ilike"):
            mask = self._like(column, self._tokens[self._at - 1].word == "ilike")
        elif self._take("between"):
            mask = self._compared(column, ">=")
            self._expect("and")
            mask = mask & self._compared(column, "<=")
        elif self._take("in"):
            mask = self._in(column)
        else:
            self._fail(f"expected one of {_OPERATORS} after {column.name!r}, given {self._now.shown}")
        return mask ^ negated

    def _compared(self, column: pl.Series, sign: str) -> _Mask:
        """Compare a column with the value that comes next; false where either is missing."""
        if isinstance(column.dtype, (pl.List, pl.Array)):
            if sign not in ("=", "!="):
                self._fail(f"it compares {column.name!r}, which holds lists, by {sign}: use contains")
            mask = self._contains(column)
            return mask if sign == "=" else ~mask & column.is_not_null().to_numpy()
        value, start = self._placed_value(columns=True)
        if isinstance(value, pl.Series):
            return self._compared_columns(column, sign, value, start)
        return _compared_with(_plain(column), sign, self._typed(column, value, start))

    def _compared_columns(self, column: pl.Series, sign: str, other: pl.Series, start: int) -> _Mask:
        mine, others = _plain(column), _plain(other)
        if _family(mine.dtype) != _family(others.dtype) or _family(mine.dtype) == "other":
            self._fail(
                f"it compares {column.name!r}, which holds {_kind_words(column.dtype)}, with {other.name!r}, which "
                f"holds {_kind_words(other.dtype)}",
                start,
            )
        if _family(mine.dtype) == "date":
            mine, others = mine.cast(pl.Datetime("us")), others.cast(pl.Datetime("us"))
        return _filled(_COMPARE[sign](mine, others))

    def _in(self, column: pl.Series) -> _Mask:
        self._expect("(")
        inner = _values_of(column)[0].clear()
        values = [self._typed(inner, *self._placed_value())]
        while self._take(","):
            values.append(self._typed(inner, *self._placed_value()))
        self._expect(")")
        return _has_one_of(column, values)

    def _contains(self, column: pl.Series) -> _Mask:
        value, start = self._placed_value()
        if isinstance(column.dtype, (pl.List, pl.Array)):
            return _has_one_of(column, [self._typed(_values_of(column)[0], value, start)])
        if _family(column.dtype) != "text":
            self._fail(f"it uses contains with {column.name!r}, which holds {_kind_words(column.dtype)}: use =", start)
        if not isinstance(value, str):
            self._fail(f"it looks for {_shown(value)} in {column.name!r}, which holds text: put it in quotes", start)
        return _filled(_plain(column).str.contains(value, literal=True))

    def _like(self, column: pl.Series, any_case: bool) -> _Mask:
        value, start = self._placed_value()
        if _family(column.dtype) != "text":
            what = "contains" if _family(column.dtype) == "list" else "="
            self._fail(f"it uses like with {column.name!r}, which holds {_kind_words(column.dtype)}: use {what}", start)
        if not isinstance(value, str):
            self._fail(f"it uses like with {_shown(value)}: expected a text in quotes, such as 'The %'", start)
        wild = {"%": ".*", "_": "."}
        pattern = "".join(wild.get(character) or re.escape(character) for character in value)
        try:
            return _filled(_plain(column).str.contains(rf"(?s{'i' * any_case})\A{pattern}\z"))
        except pl.exceptions.ComputeError:
            self._fail("the pattern is too long", start)

    def _column(self) -> pl.Series:
        token = self._now
        is_name = token.kind in ("name", "column") or token.text.startswith('"')
        if not is_name or (token.word in _WORDS and token.text not in self._frame.columns):
            self._fail(f"expected a column, given {token.shown}; {_columns(self._frame)}")
        return self._named()

    def _named(self, advice: str = "") -> pl.Series:
        """Take the next token, the name of a column."""
        name, known = _unquoted(self._now.text), self._frame.columns
        if self._tokens[self._at + 1].word == "(":
            self._fail(f"a filter cannot call {name!r} or other functions; it has {_OPERATORS}")
        if name not in known:
            self._fail(f"no column {shortened(name)}; {_columns(self._frame)}", advice=advice + nearest(name, known))
        self._at += 1
        return self._frame[name]

    def _placed_value(self, columns: bool = False) -> tuple[Any, int]:
        """Return the value that comes next and its position."""
        start = self._now.at
        return self._value(columns), start

    def _value(self, columns: bool = False) -> Any:
        """Take the next token as a number, a text, true or false; with ``columns`` also as a column."""
        token = self._now
        if token.word in _DATE_WORDS and self._tokens[self._at + 1].kind == "text":  # DATE '2024-01-31'
            self._at += 1
            token = self._now
        if token.word == "null":
            self._fail("nothing equals null: use is null")
        if columns and (token.kind == "column" or (token.kind == "name" and token.word not in _WORDS)):
            return self._named(" Put a text in quotes.")
        if token.kind not in ("text", "number") and token.word not in ("true", "false"):
            expected = "a number, a text in quotes, true or false"
            if columns:
                expected = f"{expected}, or a column ({_columns(self._frame)})"
            self._fail(f"expected {expected}, given {token.shown}")
        self._at += 1
        if token.kind == "text":
            return _unquoted(token.text)
        if token.kind == "name":
            return token.word == "true"
        if _NUMBER.fullmatch(token.text) is None:
            self._fail(f"{token.shown} is no number; put a text in quotes", token.at)
        number = float(token.text)
        if not math.isfinite(number):
            self._fail(f"the number {token.shown} is too large", token.at)
        return int(token.text) if re.fullmatch(r"[-+]?[0-9]{1,30}", token.text) else number

    def _typed(self, column: pl.Series, value: Any, start: int) -> Any:
        """Return a value as one of the column's type, or fail with the type that the column has."""
        kind, family = column.dtype, _family(column.dtype)
        if family == "boolean" and isinstance(value, bool):
            return value
        if family == "number" and isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
        if family == "text" and isinstance(value, str):
            return value
        if family == "date" and isinstance(value, str):
            try:
                moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
                if moment.tzinfo is not None and kind != pl.Date:
                    moment = moment.astimezone(timezone.utc).replace(tzinfo=None)
                return moment.date() if kind == pl.Date else moment
            except (ValueError, OverflowError):
                pass
        held = f"it compares {column.name!r}, which holds {_kind_words(kind)}"
        example = {"boolean": "true", "number": "1990", "text": '"Drama"', "date": '"1990-01-31"'}.get(family)
        if example is None:
            return self._fail(f"{held}: expected numbers, texts or dates", start)
        return self._fail(f"{held}, with {_shown(value)}: expected a value such as {example}", start)


def _compared_with(column: pl.Series, sign: str, value: Any) -> _Mask:
    """Compare a plain column with a value of its family."""
    if column.dtype.is_integer():  # exact, also for numbers that the column's type cannot hold
        if value != (whole := math.floor(value)) and sign not in ("=", "!="):
            sign, whole = ("<=", whole) if sign in ("<", "<=") else (">=", whole + 1)
        least, most = _limits(column)
        if (whole != value and sign in ("=", "!=")) or not least <= whole <= most:
            holds = {"=": False, "!=": True}.get(sign, (whole > 0) == (sign in ("<", "<=")))
            return column.is_not_null().to_numpy() & holds
        value = whole
    return _filled(_COMPARE[sign](column, pl.Series([value], dtype=column.dtype)))


def _has_one_of(column: pl.Series, values: list[Any]) -> _Mask:
    """Find the items whose value, or one of whose list of values, is among these of the column's family."""
    inner, rows = _values_of(column)
    inner = _plain(inner)
    if inner.dtype.is_integer():
        least, most = _limits(inner)
        values = [int(value) for value in values if value == math.floor(value) and least <= value <= most]
    wanted = pl.DataFrame({"value": pl.Series(values, dtype=inner.dtype)})
    found = inner.to_frame("value").with_row_index("row").join(wanted, on="value", how="semi")["row"]
    mask = np.zeros(len(column), dtype=bool)
    mask[rows[found.to_numpy()]] = True
    return mask


def _values_of(column: pl.Series) -> tuple[pl.Series, NDArray[np.intp]]:
    """Return the values in the lists of a column, or its own values, and the row of each."""
    if isinstance(column.dtype, pl.Array):
        column = column.arr.to_list()
    if not isinstance(column.dtype, pl.List):
        return column, np.arange(len(column))
    lengths = column.list.len().fill_null(0).to_numpy()
    some = column.filter(pl.Series(lengths > 0))
    inner = some.list.explode() if len(some) else pl.Series(column.name, [], dtype=column.dtype.inner)
    return inner.alias(column.name), np.repeat(np.arange(len(column)), lengths)


def _plain(column: pl.Series) -> pl.Series:
    """Return a column in a type that can be compared: text, machine numbers, times of UTC, null for NaN."""
    kind = column.dtype
    if kind.is_integer() and kind in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64):
        return column
    if kind.is_numeric():
        return (column if kind == pl.Float32 else column.cast(pl.Float64)).fill_nan(None)
    if kind in (pl.Categorical, pl.Enum):
        return column.cast(pl.String)
    if isinstance(kind, pl.Datetime):
        naive = column if kind.time_zone is None else column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return naive.cast(pl.Datetime("us"))
    return column


def _limits(column: pl.Series) -> tuple[int, int]:
    """Return the smallest and the largest whole number that a column's type can hold."""
    limits = np.iinfo(column.clear().to_numpy().dtype)
    return int(limits.min), int(limits.max)


def _filled(found: pl.Series) -> _Mask:
    return found.fill_null(False).to_numpy()


def _family(kind: Any) -> str:
    if kind.is_numeric():
        return "number"
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    names = {pl.Boolean: "boolean", pl.Date: "date", pl.Datetime: "date", pl.List: "list", pl.Array: "list"}
    return names.get(kind.base_type(), "other")


def _kind_words(kind: Any) -> str:
    """Return what a column holds, in words.

    >>> _kind_words(pl.Int16()), _kind_words(pl.String()), _kind_words(pl.Duration())
    ('whole numbers', 'text', 'durations')
    """
    if kind.is_integer():
        return "whole numbers"
    words: dict[Any, str] = {
        pl.Boolean: "true or false",
        pl.Date: "dates",
        pl.Datetime: "times",
        pl.Time: "times of the day",
        pl.Duration: "durations",
        pl.Struct: "objects",
    }
    by_family = {"number": "numbers", "text": "text", "list": "lists"}
    return words.get(kind.base_type()) or by_family.get(_family(kind), "other values")


def _columns(attributes: pl.DataFrame) -> str:
    return f"the columns of the items are {', '.join(map(repr, attributes.columns))}"


def _unquoted(text: str) -> str:
    r"""Return what stands in quotes; a name without quotes as it is.

    >>> [_unquoted(one) for one in ("'it''s'", r'"a \"b\""', r"'C:\new'", "`sold out`", "year")]
    ["it's", 'a "b"', 'C:\\new', 'sold out', 'year']
    """
    quote = text[0]
    if quote not in "'\"`":
        return text
    return re.sub(rf"\\(['\"\\])|{quote}{quote}", lambda found: found.group(1) or quote, text[1:-1])


def _shown(value: Any) -> str:
    """Return a value as filters write it."""
    return json.dumps(value, ensure_ascii=False)
