"""One column of content as it was in training, and the features it gives.

The rules are described in `tastespace.data.features`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.attributes import (
    as_text,
    category_rows,
    holds_several,
    values_repeat,
)
from tastespace.errors import DataError

Kind = Literal["number", "category", "tags", "text"]
KINDS: tuple[Kind, ...] = ("number", "category", "tags", "text")
_WORD = r"[\p{L}\p{N}]{2,}"
_NOTHING = "nothing but nulls"
_MAX_DEVIATIONS = 1e6  # deviations from the mean: beyond, float32 would soon be infinite
_CONSTANT = 1e-12  # deviation relative to the largest number, below which it is rounding


@dataclass(frozen=True)
class Column:
    """One column as it was in training."""

    name: str
    kind: Kind
    holds: str
    """Type of values, in words: a change of it is an error."""
    mean: float = 0.0
    scale: float = 1.0
    """Standard deviation; 0 for a column that was constant and so has no information."""
    vocabulary: list[str] = field(default_factory=list)
    """Values, tags or words, ascending."""

    def require_plain(self) -> None:
        """Raise unless all fields have the types that they had when the column was learned."""
        numbers = all(isinstance(one, (int, float)) and abs(one) < np.inf for one in (self.mean, self.scale))
        words = isinstance(self.vocabulary, list) and all(isinstance(one, str) for one in self.vocabulary)
        texts = isinstance(self.name, str) and isinstance(self.holds, str) and self.kind in KINDS
        if not (numbers and words and texts):
            raise DataError(f"the column {str(self.name)[:40]!r} is not one that an encoder has learned.")

    @property
    def width(self) -> int:
        """Number of features."""
        return 1 if self.kind == "number" else len(self.vocabulary)

    @property
    def names(self) -> list[str]:
        """One name per feature."""
        return [self.name] if self.kind == "number" else [f"{self.name}={value}" for value in self.vocabulary]

    @classmethod
    def learn(cls, series: pl.Series, kind: Kind, min_count: int, max_vocabulary: int) -> Column:
        """The vocabulary, or mean and deviation, of a column of the training data."""
        if series.null_count() == len(series):
            return cls(series.name, kind, _NOTHING, scale=0.0)
        holds = _holds(series, kind)
        if holds not in _ALLOWED[kind]:
            raise DataError(
                f"column {series.name!r} holds {holds} ({series.dtype}), which cannot be used as {kind!r}; that needs "
                f"{' or '.join(_ALLOWED[kind])}."
            )
        if kind == "number":
            values = _numbers(series)
            known = values[~np.isnan(values)]
            largest = float(np.abs(known).max()) or 1.0
            parts = known / largest  # so that no sum overflows
            deviation = float(parts.std())
            scale = deviation * largest if deviation > _CONSTANT else 0.0
            return cls(series.name, kind, holds, float(parts.mean()) * largest, scale)
        rows = _tokens(series, kind).group_by("token").agg(pl.col("row").n_unique().alias("n"))
        kept = rows.filter(pl.col("n") >= min_count).sort("n", "token", descending=[True, False]).head(max_vocabulary)
        return cls(series.name, kind, holds, vocabulary=kept["token"].sort().to_list())

    def encode(self, series: pl.Series) -> tuple[sp.csr_array, int, NDArray[np.bool_]]:
        """Features of the column, how many of its values have none, and which rows have a known value."""
        not_null = series.is_not_null().to_numpy()
        if not not_null.any() or self.holds == _NOTHING:  # of any type
            empty = sp.csr_array((len(series), self.width), dtype=np.float32)
            return empty, int(not_null.sum()), np.zeros(len(series), dtype=bool)
        holds = _holds(series, self.kind)
        if holds != self.holds:
            raise DataError(
                f"column {self.name!r} held {self.holds} in training and holds {holds} ({series.dtype}) now. Give it "
                "the type it had."
            )
        n = len(series)
        if self.kind == "number":
            values = np.zeros(n) if not self.scale else self._standardized(_numbers(series))
            return sp.csr_array(values.astype(np.float32)[:, None]), 0, not_null
        tokens = _tokens(series, self.kind)
        codes = pl.DataFrame(
            {"token": self.vocabulary, "code": np.arange(len(self.vocabulary))},
            schema={"token": pl.String, "code": pl.Int64},
        )
        found = tokens.join(codes, on="token", how="left")
        n_unseen = found["code"].null_count()
        counted = found.drop_nulls("code").group_by("row", "code").len("times").sort("row", "code")
        values = np.ones(len(counted))
        if self.kind == "text":
            values = 1.0 + np.log(counted["times"].to_numpy())
        cells = (counted["row"].to_numpy(), counted["code"].to_numpy())
        block = sp.csr_array((values.astype(np.float32), cells), shape=(n, len(self.vocabulary)))
        if self.kind == "text":
            lengths = np.sqrt(np.asarray(block.power(2).sum(axis=1)).ravel())
            block = sp.csr_array(sp.diags_array(1.0 / np.where(lengths > 0, lengths, 1.0)) @ block, dtype=np.float32)
        return block, n_unseen, np.diff(block.indptr) > 0

    def _standardized(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Deviations from the mean, 0 where the number is not known."""
        with np.errstate(over="ignore"):  # of what is cut off anyway
            found = (values / 2 - self.mean / 2) / self.scale * 2  # halves, whose difference never overflows
        return np.nan_to_num(np.clip(found, -_MAX_DEVIATIONS, _MAX_DEVIATIONS), nan=0.0)


_ALLOWED: dict[Kind, tuple[str, ...]] = {
    "number": ("numbers", "true or false"),
    "category": ("text", "numbers", "true or false"),
    "tags": ("lists",),  # or texts with bars
    "text": ("text",),
}


def _holds(series: pl.Series, kind: Kind | None = None) -> str:
    """Type of values, in words; a text that is read as tags is a list of them."""
    dtype = series.dtype
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "lists" if kind == "tags" else "text"
    if dtype == pl.Boolean:
        return "true or false"
    if dtype.is_numeric():
        return "numbers"
    if isinstance(dtype, (pl.List, pl.Array)):
        return "lists of lists or records" if dtype.inner.is_nested() else "lists"
    return _NOTHING if dtype == pl.Null else "dates or times" if dtype.is_temporal() else "other values"


def default_kind(column: pl.Series) -> Kind:
    """Return the kind of a column that is not declared, by its type."""
    holds = _holds(column)
    if holds == "numbers":
        return "number"
    if holds == "lists":
        return "tags"
    if holds in ("true or false", _NOTHING):
        return "category"
    if holds == "text":
        if holds_several(column):
            return "tags"
        without_words = not column.cast(pl.String).str.contains(_WORD).any()
        return "category" if values_repeat(column) or without_words else "text"
    raise DataError(
        f"column {column.name!r} holds {holds} ({column.dtype}), which cannot be used as features. Turn it into "
        "numbers or text, or name the columns to use."
    )


def _numbers(series: pl.Series) -> NDArray[np.float64]:
    """Float64 with NaN for null; NaN and infinity themselves are refused."""
    values = series.cast(pl.Float64)
    bad = (~values.is_finite()).fill_null(False)
    if bad.any():
        raise DataError(
            f"column {series.name!r}: {bad.sum():,} of {len(series):,} numbers are NaN or infinite, the first in row "
            f"{bad.arg_true()[0]}. Fill them, or make them null where the number is not known (in pandas: "
            "frame.convert_dtypes())."
        )
    return values.to_numpy()


def _tokens(series: pl.Series, kind: Kind) -> pl.DataFrame:
    """Columns row and token: every value, tag or word, nulls left out."""
    if series.dtype == pl.Null:
        return pl.DataFrame(schema={"row": pl.UInt32, "token": pl.String})
    if kind == "tags":
        return category_rows(series).rename({"name": "token"})
    if kind == "text":
        tokens = series.cast(pl.String).str.to_lowercase().str.extract_all(_WORD)
    else:
        tokens = series.to_frame("value").select(as_text(series.dtype, pl.col("value"))).to_series()
    frame = tokens.alias("token").to_frame().with_row_index("row")
    if isinstance(tokens.dtype, pl.List):
        frame = frame.explode("token")
    return frame.drop_nulls("token").with_columns(pl.col("token").cast(pl.String))
