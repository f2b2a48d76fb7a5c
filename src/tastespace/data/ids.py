"""External ids and the dense indices 0 ... n-1 that the kernels work with."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.computed_once import computed_once
from tastespace._util.limits import ID_BYTES
from tastespace._util.threads import has_polars
from tastespace.errors import (
    DataError,
    ParameterError,
    UnknownIdError,
    nearest,
)

_MAX_IDS = 2**31 - 1
_FEW = 64  # so many ids are looked up one by one
_FITS_INT64 = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)
_OF_KERNELS = (*_FITS_INT64, pl.UInt64, pl.Float32, pl.Float64)  # NumPy has half precision, too, the kernels have not


class IdMap:
    """The ids of users or items in ascending order; a position in that order is the internal index.

    Ascending order makes the index of an id independent of the order of the rows it was read from.

    >>> ids = IdMap(pl.Series(["b", "a"]).sort())
    >>> ids.index_of(["b", "a"]).tolist(), ids[0], len(ids)
    ([1, 0], 'a', 2)
    """

    __slots__ = ("__weakref__", "_ids", "_kind", "_numbers", "_plain_type")

    def __init__(self, ids: pl.Series, kind: str = "id") -> None:
        self._ids = ids.rechunk()
        self._kind = kind
        own = self._ids.dtype
        self._plain_type = str if own == pl.String else int if own.is_integer() else None
        # The same memory: polars takes many times longer to look at a few values.
        self._numbers = self._ids.to_numpy() if own in _OF_KERNELS and not self._ids.null_count() else None

    @property
    def series(self) -> pl.Series:
        """All ids, ascending, in their own type."""
        return self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> Any:
        return self._ids[index]

    def __contains__(self, external: object) -> bool:
        return bool(self.find([external])[0] >= 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdMap) and (
            self is other or (self._ids.dtype == other._ids.dtype and self._ids.equals(other._ids))
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return IdMap, (self._ids, self._kind)

    def __repr__(self) -> str:
        return f"IdMap({len(self):,} {self._kind}s, {self._ids.dtype})"

    def take(self, indices: NDArray[np.integer[Any]]) -> pl.Series:
        """The ids at ``indices``, shape ``(n,)``."""
        return rows_at(self._ids, indices)

    def column(self, indices: NDArray[np.integer[Any]]) -> NDArray[Any] | pl.Series:
        """`take` for `frame_of`: ids that are numbers as an array."""
        return self.take(indices) if self._numbers is None else self._numbers[indices]

    def find(self, externals: Iterable[Any] | pl.Series) -> NDArray[np.int64]:
        """Index of each id, -1 where it is unknown. Shape ``(n,)``."""
        given = externals if isinstance(externals, (pl.Series, np.ndarray)) else list(externals)
        if isinstance(given, list) and len(given) == 1 and self.is_plain(given[0]):
            return np.array([self.find_one(given[0])], dtype=np.int64)
        wanted = self._as_own_type(given)
        if not len(self) or wanted is None:
            return np.full(len(given), -1, dtype=np.int64)
        if not has_polars() or (len(given) <= _FEW and not wanted.dtype.is_temporal()):
            return self._find_few(wanted)  # Python's times have no nanoseconds
        at = self._ids.search_sorted(wanted.fill_null(self._ids[0])).to_numpy().astype(np.int64)
        at[at == len(self)] = 0
        same = (rows_at(self._ids, at) == wanted).fill_null(False)
        return np.where(same.to_numpy(), at, -1)

    def is_plain(self, external: Any) -> bool:
        """Return True if this is text or a whole number, as all ids are: then one is found without a column of it."""
        return type(external) is self._plain_type

    @property
    def is_simple(self) -> bool:
        """True if ids are numbers that the kernels take, or text."""
        return self._numbers is not None or self._plain_type is str

    @property
    def numbers(self) -> NDArray[Any] | None:
        """All ids, ascending, where they are numbers that the kernels take; else None."""
        return self._numbers

    def utf8(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """All ids that are text, as offsets and bytes; computed once."""
        return computed_once(self, "utf8", self._utf8)

    def _utf8(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        encoded = [one.encode() for one in self._ids.to_list()]
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(one) for one in encoded], out=offsets[1:])
        return offsets, np.frombuffer(b"".join(encoded), dtype=np.uint8)

    def find_one(self, external: str | int) -> int:
        """Index of one id that `is_plain`, -1 where it is unknown."""
        if self._numbers is not None:
            if not len(self) or not int(self._numbers[0]) <= external <= int(self._numbers[-1]):  # type: ignore[operator]
                return -1  # also what no number of this type can be
            at = int(self._numbers.searchsorted(self._numbers.dtype.type(external)))
            return at if self._numbers[at] == external else -1
        at = bisect_left(self._ids, external)  # text in the order of its characters, as in polars
        return at if at < len(self) and self._ids[at] == external else -1

    def _find_few(self, wanted: pl.Series) -> NDArray[np.int64]:
        """Index of each id, -1 where it is unknown, without the threads of polars."""
        if fits_numpy(self._ids.dtype) and not wanted.null_count():
            own, sought = self._ids.to_numpy(), wanted.to_numpy()
            at = np.searchsorted(own, sought)
            at[at == len(own)] = 0
            return np.where(own[at] == sought, at, -1).astype(np.int64)
        return np.array(
            [self._find_value(wanted, at, value) for at, value in enumerate(wanted.to_list())], dtype=np.int64
        )

    def _find_value(self, wanted: pl.Series, place: int, value: Any) -> int:
        if value is None:
            return -1
        at = bisect_left(self._ids, value)
        here = slice(at, at + 1)
        return at if at < len(self) and self._ids[here].equals(wanted[place : place + 1]) else -1

    def index_of(self, externals: Iterable[Any] | pl.Series) -> NDArray[np.int64]:
        """Index of each id; an unknown one is an error that offers the nearest known ids."""
        given = externals if isinstance(externals, (pl.Series, np.ndarray)) else list(externals)
        found = self.find(given)
        if (found < 0).any():
            unknown = [given[int(i)] for i in np.flatnonzero(found < 0)]
            raise UnknownIdError(
                f"{len(unknown)} of {len(given)} {self._kind} ids are unknown, the first is "
                f"{unknown[0]!r} ({type(unknown[0]).__name__}); known are {len(self):,} ids"
                f"{f' such as {self._ids[0]!r}' if len(self) else ''}."
                + nearest(unknown[0], self._ids.head(100_000).to_list())
            )
        return found

    def _as_own_type(self, externals: Iterable[Any] | pl.Series) -> pl.Series | None:
        """The given ids in the type of the known ids; None where no value can be one of them."""
        own = self._ids.dtype
        try:
            given = externals if isinstance(externals, pl.Series) else plain_series("id", externals)
        except (TypeError, DataError, pl.exceptions.PolarsError):
            # A list of mixed types: each id is looked up as what it is.
            return pl.Series([self._one(e) for e in externals], dtype=own)
        if given.dtype == own:
            return given
        if (given.dtype.is_numeric() and own.is_numeric()) or given.dtype == pl.Null:
            cast = given.cast(own, strict=False)
            # 3.5 must not become 3: an id that changes by the round trip is unknown.
            none = pl.Series("", [None], dtype=own).new_from_index(0, len(cast))
            return cast.zip_with(cast.cast(given.dtype, strict=False) == given, none) if len(cast) else cast
        if given.dtype.is_temporal() and own.is_temporal():
            return given.cast(own, strict=False)
        if given.dtype in (pl.Categorical, pl.Enum) and own == pl.String:
            return given.cast(pl.String)
        return None

    def _one(self, external: Any) -> Any:
        if isinstance(external, str) and not is_valid_text(external):
            return None
        try:
            own = self._as_own_type(pl.Series([_plain(external)]))
        except (TypeError, OverflowError, pl.exceptions.PolarsError):  # no value that a column could hold
            return None
        return None if own is None else own[0]


def rows_at(values: pl.Series, indices: NDArray[np.integer[Any]]) -> pl.Series:
    """The values at ``indices``, shape ``(n,)``; for few of them many times faster than `gather`, which plans a query.

    >>> rows_at(pl.Series(["a", "b", "c"]), np.array([2, 0])).to_list()
    ['c', 'a']
    """
    return values[pl.Series(np.ascontiguousarray(indices), dtype=pl.UInt32)]


def encode(column: pl.Series, kind: str) -> tuple[IdMap, NDArray[np.int32]]:
    """Distinct values of an id column (no nulls) and each row's index among them.

    Returns ``(ids, codes)`` with ``codes`` of shape ``(n_rows,)``.

    >>> ids, codes = encode(pl.Series(["x", "a", "x"]), "user")
    >>> ids.series.to_list(), codes.tolist()
    (['a', 'x'], [1, 0, 1])
    """
    if column.dtype in _FITS_INT64:
        found, codes = _native.encode_ids(column.cast(pl.Int64).to_numpy())
        return IdMap(pl.Series(found).cast(column.dtype), kind), codes
    if not has_polars() or (len(column) <= _FEW and not column.dtype.is_temporal()):
        values = column.to_list()
        known = {value: code for code, value in enumerate(sorted(set(values)))}
        try:
            ids = IdMap(pl.Series(column.name, list(known), dtype=column.dtype), kind)
        except pl.exceptions.PolarsError as problem:  # a damaged file may hold values that are not of its own type
            raise DataError(f"the {kind} ids are not all {column.dtype}: {str(problem)[:200]}.") from problem
        return ids, np.array([known[value] for value in values], dtype=np.int32)
    distinct = column.unique().sort()
    if len(distinct) > _MAX_IDS:
        raise DataError(f"{len(distinct):,} distinct {kind} ids: at most {_MAX_IDS:,} fit.")
    index = pl.DataFrame({"id": distinct, "code": np.arange(len(distinct), dtype=np.int32)})
    joined = pl.DataFrame({"id": column}).join(index, on="id", how="left", maintain_order="left")
    return IdMap(distinct, kind), joined["code"].to_numpy()


def id_series(values: Any, name: str) -> pl.Series:
    """An id column as a polars Series of one sortable type without nulls, or an error that says why not."""
    series = values if isinstance(values, pl.Series) else plain_series(name, values)
    if series.null_count():
        first = int(series.is_null().arg_true()[0])
        raise DataError(
            f"column {name!r}: {series.null_count():,} of {len(series):,} ids are null, the first in row "
            f"{first}. Drop those rows or give them an id."
        )
    if series.dtype.is_float():
        if not series.is_finite().all():
            first = int((~series.is_finite()).arg_true()[0])
            raise DataError(f"column {name!r}: the id in row {first} is {series[first]}; ids must be finite.")
        return series
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype == pl.String:
        require_short(series, name)
    if series.dtype.is_nested() or series.dtype in (pl.Object, pl.Null):
        raise DataError(
            f"column {name!r} has type {series.dtype}: ids must be whole numbers, strings, dates or another "
            "plain type. Turn them into strings first."
        )
    return series


def require_short(series: pl.Series, name: str) -> None:
    """Raise if a text is longer than an id may be; checked where ids come in, so that what follows can rely on it."""
    if len(series) and has_polars():
        longest = int(series.str.len_bytes().to_numpy().max())
    else:
        longest = max((len(one.encode()) for one in series.to_list()), default=0)
    if longest > ID_BYTES:
        raise DataError(
            f"column {name!r}: the longest id has {longest:,} bytes, at most {ID_BYTES:,} are possible. Give a column "
            "of ids; long texts can be replaced by a hash."
        )


_PLAIN_TYPES = {int, str}


def plain_series(name: str, values: Iterable[Any]) -> pl.Series:
    """A polars Series from Python or NumPy values; mixed types are an error with an example of each."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return pl.Series(name, np.ascontiguousarray(values))
    listed: Sequence[Any] = values if isinstance(values, list) else list(values)
    kinds: dict[type, Any] = {}
    if len(set(map(type, listed)) - _PLAIN_TYPES) or len(set(map(type, listed))) > 1:  # else all are of one plain type
        listed = [_plain(value) for value in listed]
        for value in listed:
            if value is not None and type(value) not in kinds:
                kinds[type(value)] = value
    if len(kinds) > 1 and not all(issubclass(kind, int) and kind is not bool for kind in kinds):
        examples = ", ".join(f"{value!r} ({kind.__name__})" for kind, value in list(kinds.items())[:3])
        raise DataError(f"column {name!r} mixes types: {examples}. Turn them into one type first.")
    try:
        return pl.Series(name, listed)
    except UnicodeError as problem:
        broken = next(value for value in listed if isinstance(value, str) and not is_valid_text(value))
        raise DataError(
            f"column {name!r} holds {broken!r}, which is no valid text (a lone surrogate, as from bytes that are not "
            "UTF-8). Decode the text in its own encoding."
        ) from problem
    except (TypeError, OverflowError, pl.exceptions.PolarsError) as problem:
        raise DataError(f"column {name!r} cannot be read: {problem}. Turn it into text or plain numbers.") from problem


def fits_numpy(dtype: pl.DataType) -> bool:
    """Return True if NumPy has numbers of this type: not decimals, nor whole numbers beyond 64 bits.

    >>> fits_numpy(pl.Int64()), fits_numpy(pl.Int128()), fits_numpy(pl.String())
    (True, False, False)
    """
    return dtype in _FITS_INT64 or dtype == pl.UInt64 or dtype.is_float()


def is_valid_text(text: str) -> bool:
    """Return True if a text can be stored: every character has a form in UTF-8.

    >>> is_valid_text("jam"), is_valid_text(chr(0xDCFF))
    (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python value; times to microseconds, because finer ones would become numbers."""
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]").item()
    return value.item() if isinstance(value, np.generic) else value


def parse_ids(ids: IdMap, texts: list[str]) -> list[Any]:
    """Ids given as text in the type of the model's, which may be numbers or dates."""
    for one in texts:
        if not is_valid_text(one):
            raise ParameterError(f"the id {one!r} is no valid text: its bytes are not UTF-8.")
    typed = parsed(pl.Series("id", texts, dtype=pl.String), ids.series.dtype)
    # What cannot be converted stays text, so that the error names it as it was given.
    return [text if value is None else value for text, value in zip(texts, typed.to_list(), strict=True)]


def parsed(texts: pl.Series, kind: Any) -> pl.Series:
    """Texts as values of this type, null where that is impossible."""
    if kind == pl.Boolean:
        return texts.replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)
    if isinstance(kind, (pl.Date, pl.Datetime, pl.Time)):
        return texts.str.strptime(kind, strict=False)
    return texts.cast(kind, strict=False)
