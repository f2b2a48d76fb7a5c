"""Content of users and items as sparse features: numbers, categories, lists of tags, words of a text.

| kind     | features                 | value                                                    |
| -------- | ------------------------ | -------------------------------------------------------- |
| number   | one                      | (x - mean) / deviation of the rows it was fitted on      |
| category | one per value            | 1                                                        |
| tags     | one per tag              | 1 for each tag of the list, or of a text like "a|b"      |
| text     | one per word             | 1 + ln(how often), the words of a row scaled to length 1 |
| matrix   | its columns              | divided by the column's largest absolute value           |

Words are runs of two or more letters or digits in lower case; nothing is stemmed and no word is left out for its
meaning. What fewer than ``min_count`` rows have gets no feature, and of more than ``max_vocabulary`` values, tags or
words of a column the most frequent stay (of equally frequent ones the first in the alphabet).

A null gives no category, no tags, no words, and the average for a number. NaN and infinity among numbers are
errors, because they are mostly accidents; make them null where a number is not known. NaN among categories and tags is
a null, because pandas writes a gap among whole numbers so. Values that were not in the training data, and those of a
column without any value there, give no feature; `Encoded.unseen` counts them. A number that was the same for all in
training gives 0. Numbers beyond a million deviations count as a million.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace._util.checks import require_whole
from tastespace.data.attributes import title_column
from tastespace.data.feature_columns import (
    KINDS,
    Column,
    Kind,
    default_kind,
)
from tastespace.data.ids import IdMap, id_series
from tastespace.data.interactions import Interactions
from tastespace.data.reading.tables import to_polars
from tastespace.errors import Argument, DataError, ParameterError, nearest

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

log = logging.getLogger(__name__)

_EXAMPLES = 3

IntoFeatures: TypeAlias = "IntoFrame | Mapping[str, Any] | NDArray[Any] | sp.sparray | sp.spmatrix"
"""Content of users or items: a frame or dict of columns with their ids, or a matrix with a row for each."""


@dataclass(frozen=True)
class Encoded:
    """Features, and which values have none."""

    matrix: sp.csr_array
    """Shape ``(n_rows, n_features)``, float32."""
    unseen: dict[str, int] = field(default_factory=dict)
    """Per column, how many values, tags or words have no feature."""
    has_value: NDArray[np.bool_] | None = None
    """Rows with a known value, even one that gives the feature 0; None: those with a feature other than 0."""

    @property
    def n_empty(self) -> int:
        """Rows without any known value."""
        has_value = np.diff(self.matrix.indptr) > 0 if self.has_value is None else self.has_value
        return int((~has_value).sum())


class FeatureEncoder:
    """Turns frames (or sparse matrices) into sparse features, always the same ones.

    Args:
        columns: Name of each column to use and its kind; None takes all but ids and titles, by type: numbers, lists as
            tags, text as tags where it is like ``Action|Comedy`` (bars in a tenth of the values or more, and tags
            that come again), as categories where values repeat, else as words. Whole numbers that are codes must be
            declared: ``{"occupation": "category"}``.
        min_count: Rows that must have a value, tag or word for it to become a feature.
        max_vocabulary: Most features of one column.

    >>> frame = pl.DataFrame({"item": [1, 2, 3], "year": [1990, 2000, 2010], "genres": [["a"], ["a", "b"], []]})
    >>> encoder = FeatureEncoder().fit(frame, "item")
    >>> encoder.names
    ['year', 'genres=a', 'genres=b']
    >>> encoder.encode(pl.DataFrame({"item": [9], "year": [2000], "genres": [["b", "new"]]})).unseen
    {'genres': 1}
    """

    def __init__(
        self, columns: Mapping[str, Kind] | None = None, *, min_count: int = 1, max_vocabulary: int = 20_000
    ) -> None:
        require_whole("min_count", min_count)
        require_whole("max_vocabulary", max_vocabulary)
        if columns is not None and not isinstance(columns, Mapping):
            raise ParameterError(
                Argument("columns", columns),
                ": expected a dict from the name of each column to its kind, such as "
                "{'genres': 'tags', 'year': 'number'}; kinds are " + f"{', '.join(KINDS)}.",
            )
        for column, kind in (columns or {}).items():
            if not isinstance(column, str):
                raise ParameterError(
                    Argument("columns", columns), f": {column!r} is not the name of a column, expected text."
                )
            if kind not in KINDS:
                raise ParameterError(
                    f"column {column!r} is to be used as {kind!r}: expected one of {', '.join(KINDS)}."
                    + nearest(kind, KINDS)
                )
        self.columns = None if columns is None else dict(columns)
        self.min_count, self.max_vocabulary = min_count, max_vocabulary
        self._columns: list[Column] = []
        self._sizes: list[float] | None = None  # largest absolute value of each column of a matrix; None for a frame

    # ---- learning the vocabulary ---------------------------------------------------------------------------

    def fit(self, content: IntoFeatures, kind: str = "item") -> FeatureEncoder:
        """Learn the vocabulary of a frame's columns or the width of a matrix; ``kind`` names the column of ids."""
        if is_matrix(content):
            matrix = _finite(content)
            sizes = np.abs(sp.csc_array(matrix)).max(axis=0).toarray() if min(content.shape) else np.ones(0)
            self._columns, self._sizes = [], np.where(sizes > 0, sizes, 1.0).astype(float).ravel().tolist()
            self._sizes += [1.0] * (content.shape[1] - len(self._sizes))
            return self
        frame = content_frame(content)[0]
        self._sizes = None
        chosen = self._default_kinds(frame, kind) if self.columns is None else self.columns
        for name in chosen:
            _require_column(frame, name, "named as a feature")
        self._columns = [Column.learn(frame[n], k, self.min_count, self.max_vocabulary) for n, k in chosen.items()]
        return self

    def _default_kinds(self, frame: pl.DataFrame, kind: str) -> dict[str, Kind]:
        rest = frame.drop([name for name in (kind, title_column(frame)) if name in frame.columns])
        return {column.name: default_kind(column) for column in rest.get_columns()}

    # ---- encoding ------------------------------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """Number of features."""
        return sum(column.width for column in self._columns) if self._sizes is None else len(self._sizes)

    @property
    def has_content(self) -> bool:
        """True if the training data had any column, even one without values."""
        return bool(self._columns or self._sizes)

    @property
    def names(self) -> list[str]:
        """One name per feature; those of a matrix are numbers."""
        if self._sizes is not None:
            return [str(number) for number in range(len(self._sizes))]
        return [name for column in self._columns for name in column.names]

    def encode(self, content: IntoFeatures) -> Encoded:
        """The features of a frame or matrix of the kind that was fitted, row by row."""
        if self._sizes is not None:
            return Encoded(self._scaled(content, np.array(self._sizes)))
        if is_matrix(content):
            raise DataError(
                f"given a matrix of {content.shape[1]:,} features, but the model was fitted with the columns "
                f"{', '.join(repr(column.name) for column in self._columns)}. Give a frame with these columns."
            )
        frame = content_frame(content)[0]
        blocks, unseen = [sp.csr_array((len(frame), 0), dtype=np.float32)], {}
        has_value = np.zeros(len(frame), dtype=bool)
        for column in self._columns:
            _require_column(frame, column.name, "which was a feature in training")
            block, n_unseen, known_rows = column.encode(frame[column.name])
            blocks.append(block)
            has_value |= known_rows
            if n_unseen:
                unseen[column.name] = n_unseen
        matrix = sp.csr_array(sp.hstack(blocks, format="csr", dtype=np.float32))
        matrix.sort_indices()
        return Encoded(matrix, unseen, has_value)

    def _scaled(self, content: IntoFeatures, sizes: NDArray[np.float64]) -> sp.csr_array:
        if not is_matrix(content):
            raise DataError(
                f"given a {type(content).__name__}, but the model was fitted with a matrix of {len(sizes):,} features. "
                "Give a matrix with as many columns."
            )
        if content.shape[1] != len(sizes):
            raise DataError(f"the matrix has {content.shape[1]:,} features, in training there were {len(sizes):,}.")
        matrix = _finite(content)
        matrix.data = (matrix.data / sizes[matrix.indices]).astype(np.float32)
        return matrix

    # ---- the model file ------------------------------------------------------------------------------------

    def to_plain(self) -> dict[str, Any]:
        """Everything that `from_plain` needs, as plain values."""
        settings = {"columns": self.columns, "min_count": self.min_count, "max_vocabulary": self.max_vocabulary}
        return {"settings": settings, "sizes": self._sizes, "parts": [vars(column) for column in self._columns]}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> FeatureEncoder:
        """The encoder that `to_plain` wrote down."""
        encoder = cls(**plain["settings"])
        sizes = plain["sizes"]
        if sizes is not None and not (isinstance(sizes, list) and all(type(size) is float for size in sizes)):
            raise DataError(f"the sizes of the features are {str(sizes)[:40]!r}, expected numbers.")
        encoder._sizes = sizes
        encoder._columns = [Column(**column) for column in plain["parts"]]
        for column in encoder._columns:
            column.require_plain()
        return encoder


def _require_column(frame: pl.DataFrame, name: str, why: str) -> None:
    if name not in frame.columns:
        raise DataError(
            f"the content has no column {name!r}, {why}; its columns are {', '.join(map(repr, frame.columns))}."
            + nearest(name, frame.columns)
        )


def _finite(content: Any) -> sp.csr_array:
    """A copy as CSR of float32 without explicit zeros; NaN, infinity and what is no number are refused."""
    if content.dtype.kind not in "biuf":
        raise DataError(
            f"the matrix of features has the type {content.dtype}, expected real numbers. Turn it into float32, or "
            "give a frame with named columns."
        )
    with np.errstate(over="ignore"):  # refused below
        matrix = sp.csr_array(content, dtype=np.float32, copy=True)
    matrix.sum_duplicates()
    bad = ~np.isfinite(matrix.data)
    if bad.any():
        row = int(np.searchsorted(matrix.indptr, np.flatnonzero(bad)[0], side="right")) - 1
        raise DataError(
            f"{int(bad.sum()):,} features are NaN or infinite, the first in row {row}. Fill them, or leave them out; "
            "float32 holds numbers up to 3e38."
        )
    matrix.eliminate_zeros()
    return matrix


def is_matrix(content: object) -> TypeGuard[Any]:
    """Return True if content is a two-dimensional array, sparse or dense, rather than a frame."""
    return sp.issparse(content) or (isinstance(content, np.ndarray) and content.ndim == 2)


def content_frame(content: IntoFeatures) -> tuple[pl.DataFrame, str]:
    """Content as a polars frame, with the name of the library it came from; a dict of columns is a frame, too."""
    try:
        frame: Any = pl.DataFrame(dict(content), strict=False) if isinstance(content, Mapping) else content
        return to_polars(frame)
    except (DataError, TypeError, ValueError, pl.exceptions.PolarsError) as problem:
        import narwhals as nw

        if isinstance(content, Mapping):
            raise DataError(
                f"the dict of features is not a table ({problem}): expected columns of one length."
            ) from None
        if nw.dependencies.is_into_dataframe(content):
            raise
        shape = f" of shape {content.shape}" if isinstance(content, np.ndarray) else ""
        raise DataError(
            f"features are a {type(content).__name__}{shape}, expected a data frame (polars, pandas, pyarrow, ...), a "
            "dict of columns, or a two-dimensional matrix, sparse or dense."
        ) from problem


def encoder_for(
    content: IntoFeatures, side: str, columns: Mapping[str, Kind] | None, min_count: int, max_vocabulary: int
) -> FeatureEncoder:
    """An encoder for the content of a model's users or items; columns that are named need a frame."""
    if columns is not None and not isinstance(columns, Mapping):
        raise ParameterError(
            f"{side}_columns={columns!r}: expected a dict from the name of each column to its kind, such as "
            "{'genres': 'tags', 'year': 'number'}; kinds are " + f"{', '.join(KINDS)}."
        )
    if columns is not None and is_matrix(content):
        raise ParameterError(
            f"{side}_columns={columns!r}, but the {side} content has no named columns: give fit {side}_features as "
            f"a frame, or build the data with {side}_attributes."
        )
    return FeatureEncoder(columns, min_count=min_count, max_vocabulary=max_vocabulary)


def learn_content(encoder: FeatureEncoder, content: IntoFeatures, side: str) -> sp.csr_array:
    """Fit an encoder to the content of training; returns the features."""
    encoded = encoder.fit(content, side).encode(content)
    if encoded.n_empty and encoder.n_features:
        log.warning("%d of %d %ss have no feature at all", encoded.n_empty, encoded.matrix.shape[0], side)
    return encoded.matrix


def encode_new(encoder: FeatureEncoder, content: IntoFeatures, side: str) -> sp.csr_array:
    """Features of cold-start users or items; values that training did not have are logged as warnings."""
    if not (encoder.has_content or (is_matrix(content) and not content.shape[1])):
        raise ParameterError(
            f"the model has no {side} content: it was fitted without features of {side}s, so features of new ones "
            f"cannot be used. Fit it with {side}_features=" + (", or give histories." if side == "user" else ".")
        )
    encoded = encoder.encode(content)
    for column, count in encoded.unseen.items():
        log.warning("%d values of %s column %r were not there in training and count as nothing", count, side, column)
    if encoded.n_empty and encoder.n_features:
        log.warning("%d of %d new %ss have no feature at all", encoded.n_empty, encoded.matrix.shape[0], side)
    return encoded.matrix


def content_for(data: Interactions, side: str, given: IntoFeatures | None) -> Any:
    """Content of the users or items of ``data``, a row for each: what was given, else the attributes of ``data``.

    Without either it is a matrix without columns.
    """
    ids, attributes = (data.users, data.user_attributes) if side == "user" else (data.items, data.item_attributes)
    if given is not None:
        return rows_for(given, ids, side)
    return sp.csr_array((len(ids), 0), dtype=np.float32) if attributes is None else attributes


def rows_for(content: IntoFeatures, ids: IdMap, kind: str) -> Any:
    """Content with one row per id, in the order of ``ids``: a matrix as it is, a frame joined by its column of ids."""
    if is_matrix(content):
        if content.shape[0] != len(ids):
            raise DataError(
                f"the {kind} features have {content.shape[0]:,} rows, expected one for each of the {len(ids):,} "
                f"{kind}s in the order of their ids."
            )
        return content
    frame, _ = content_frame(content)
    given = content_ids(frame, kind)
    place = ids.find(given)
    missing = np.setdiff1d(np.arange(len(ids)), place)
    if len(missing):
        others = given.filter(pl.Series(place < 0)).head(_EXAMPLES).to_list()
        other = f"; {int((place < 0).sum()):,} rows are of others, such as {_shown(others)}" if others else ""
        raise DataError(
            f"{len(missing):,} of {len(ids):,} {kind}s have no row of features, such as "
            f"{_shown(ids.take(missing[:_EXAMPLES]).to_list())}{other}. Give every {kind} a row, with nulls where "
            "nothing is known."
        )
    order = np.empty(len(ids), dtype=np.int64)
    order[place[place >= 0]] = np.flatnonzero(place >= 0)
    return frame[order]


def content_ids(frame: pl.DataFrame, kind: str) -> pl.Series:
    """The ids of a frame of content: its column ``user`` or ``item``, each id once."""
    _require_column(frame, kind, "the column of ids")
    ids = id_series(frame[kind], kind)
    repeated = ids.is_duplicated()
    if repeated.any():
        examples = ids.filter(repeated).unique(maintain_order=True)
        raise DataError(
            f"{len(examples):,} {kind}s have several rows of features, such as "
            f"{_shown(examples.head(_EXAMPLES).to_list())}. Keep one row of each."
        )
    return ids


def _shown(examples: list[Any]) -> str:
    return ", ".join(map(repr, examples))
