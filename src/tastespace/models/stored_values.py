"""Declarations of what a model has learned: the values, arrays and matrices that its file holds, and their check.

A model returns a dict from the names of what it has learned to kinds (`Recommender._stored`). `require_stored` compares
what a file holds with it, before any of it becomes part of a model: kernels and SciPy trust shapes, offsets and
indices, and one damaged number would make them read outside of an array.

Sizes are numbers or names. ``"users"``, ``"items"`` and ``"interactions"`` are those of the training data; any other
name, such as ``"dim"``, is the same number wherever it stands in one declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions
from tastespace.errors import ModelFileError, nearest

Size: TypeAlias = "int | str"
Declared: TypeAlias = "Mapping[str, Kind]"
_LARGEST = 1e300  # of plain numbers; whole ones may be of any length in JSON
_PART = 1 << 17  # numbers looked at together: they stay in the cache


class Wrong(Exception):  # noqa: N818 (part of a message)
    """Description of what is wrong with a value."""


class Sizes(dict[str, int]):
    """The sizes that are known so far."""

    @classmethod
    def of(cls, train: Interactions) -> Sizes:
        """Those of the training data."""
        return cls(users=train.n_users, items=train.n_items, interactions=train.n_interactions)

    def number(self, size: Size) -> int | None:
        """A size as a number; None for a name that is not known yet."""
        return size if isinstance(size, int) else self.get(size)

    def require(self, size: Size, found: int) -> bool:
        """Return whether a size is the one found; a name that is not known yet becomes known."""
        return (size if isinstance(size, int) else self.setdefault(size, found)) == found


class Kind(Protocol):
    """One kind of value."""

    @property
    def optional(self) -> bool:
        """True if a model may be stored without it."""

    def check(self, value: Any, sizes: Sizes, deep: bool) -> None:
        """Raise `Wrong` unless the value is of this kind; ``deep`` looks at every number that is no index, too."""


@dataclass(frozen=True)
class Plain:
    """A value of JSON: of these types, and within these numbers."""

    types: tuple[type, ...]
    least: float | None = None
    optional: bool = False

    def check(self, value: Any, sizes: Sizes, deep: bool) -> None:
        """Raise `Wrong` unless the value is of this kind."""
        kinds = " or ".join(one.__name__ for one in self.types)
        if not isinstance(value, self.types) or (isinstance(value, bool) and bool not in self.types):
            raise Wrong(f"it is {_described(value)}, expected {kinds}")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return
        if not abs(value) < _LARGEST or (self.least is not None and value < self.least):
            least = "" if self.least is None else f" from {self.least:g} on"
            raise Wrong(f"it is {str(value)[:40]}, expected a number{least}")


@dataclass(frozen=True)
class Listed:
    """A list of values of one kind."""

    each: Kind
    size: Size | None = None
    optional: bool = False

    def check(self, value: Any, sizes: Sizes, deep: bool) -> None:
        """Raise `Wrong` unless the value is a list of this kind."""
        if not isinstance(value, (list, tuple)):
            raise Wrong(f"it is {_described(value)}, expected a list")
        if self.size is not None and not sizes.require(self.size, len(value)):
            raise Wrong(f"it has {len(value):,} values, expected {sizes.number(self.size):,}")
        for at, one in enumerate(value):
            _check_part(f"[{at}]", self.each, one, sizes, deep)


@dataclass(frozen=True)
class Named:
    """A dict with these names; any names where ``parts`` is one kind."""

    parts: Declared | Kind
    optional: bool = False

    def check(self, value: Any, sizes: Sizes, deep: bool) -> None:
        """Raise `Wrong` unless the value is a dict with these parts."""
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise Wrong(f"it is {_described(value)}, expected named parts")
        if not isinstance(self.parts, Mapping):
            for name, one in value.items():
                _check_part(f"[{name!r}]", self.parts, one, sizes, deep)
            return
        for name, kind in self.parts.items():
            if name in value:
                _check_part(f"[{name!r}]", kind, value[name], sizes, deep)
            elif not kind.optional:
                raise Wrong(f"its part {name!r} is missing")
        unknown = sorted(value.keys() - self.parts.keys())
        if unknown:
            raise Wrong(f"it has a part {unknown[0]!r}, expected {', '.join(self.parts) or 'none'}")


@dataclass(frozen=True)
class Numbers:
    """An array of numbers of one type (or of several that are as good), finite and within a range."""

    dtype: str | tuple[str, ...]
    shape: tuple[Size, ...]
    least: int | float | Size | None = None
    below: Size | None = None
    optional: bool = False

    def check(self, value: Any, sizes: Sizes, deep: bool) -> None:
        """Raise `Wrong` unless the value is an array of this kind."""
        dtypes = (self.dtype,) if isinstance(self.dtype, str) else self.dtype
        if type(value) is not np.ndarray or value.dtype.name not in dtypes or value.ndim != len(self.shape):
            raise Wrong(f"it is {_described(value)}, expected {' or '.join(dtypes)} {self._expected(sizes)}")
        if not all(sizes.require(size, n) for size, n in zip(self.shape, value.shape, strict=True)):
            raise Wrong(f"it is {_described(value)}, expected {self._expected(sizes)}")
        if value.dtype.kind in "iu":
            self._check_range(value, sizes)
        elif deep and value.dtype.kind == "f":
            _require_finite(value)
            if self.least is not None:
                self._check_range(value, sizes)

    def _check_range(self, value: NDArray[Any], sizes: Sizes) -> None:
        if not value.size:
            return
        low, below = (
            sizes.number(self.least) if isinstance(self.least, str) else self.least,
            sizes.number(self.below or ""),
        )
        smallest, largest = value.min(), value.max()
        if (low is not None and smallest < low) or (below is not None and largest >= below):
            end = "on" if below is None else f"to {below - 1:,}"
            raise Wrong(f"its numbers lie in {smallest:,} ... {largest:,}, expected {low:,} {end}")

    def _expected(self, sizes: Sizes) -> str:
        parts = [str(size) if sizes.number(size) is None else f"{sizes.number(size)}" for size in self.shape]
        return f"of shape ({', '.join(parts)}{',' if len(parts) == 1 else ''})"


@dataclass(frozen=True)
class Offsets:
    """Offsets of the rows of an array: from 0 to its length, never falling; one more than there are rows."""

    rows: Size
    values: Size
    optional: bool = False

    def check(self, value: Any, sizes: Sizes, deep: bool) -> None:
        """Raise `Wrong` unless the value holds offsets."""
        if type(value) is not np.ndarray or value.dtype != np.int64 or value.ndim != 1 or not len(value):
            raise Wrong(f"it is {_described(value)}, expected int64 offsets")
        if not sizes.require(self.rows, len(value) - 1):
            raise Wrong(f"it is {_described(value)}, expected shape ({(sizes.number(self.rows) or 0) + 1},)")
        last = int(value[-1])
        if value[0] != 0 or not sizes.require(self.values, last) or (value[1:] < value[:-1]).any():
            end = sizes.number(self.values)
            raise Wrong(
                f"its numbers go from {value[0]:,} to {last:,}, expected ascending ones from 0"
                + ("" if end is None else f" to {end:,}")
            )


@dataclass(frozen=True)
class Sparse:
    """A SciPy CSR array of finite float32 or float64."""

    rows: Size
    columns: Size
    optional: bool = False

    def check(self, value: Any, sizes: Sizes, deep: bool) -> None:
        """Raise `Wrong` unless the value is a sparse matrix of this shape; its parts were checked when it was made."""
        if not sp.issparse(value) or value.format != "csr" or value.ndim != 2:
            raise Wrong(f"it is {_described(value)}, expected a CSR array")
        if not (sizes.require(self.rows, value.shape[0]) and sizes.require(self.columns, value.shape[1])):
            expected = f"({sizes.number(self.rows)}, {sizes.number(self.columns)})"
            raise Wrong(f"it is a CSR array of shape {value.shape}, expected {expected}")
        if value.data.dtype.name not in ("float32", "float64"):
            raise Wrong(f"it is a CSR array of {value.data.dtype}, expected float32")
        if deep:
            _require_finite(value.data)


@dataclass(frozen=True)
class Models:
    """One model inside another, or a list of them; each was checked when it was made."""

    size: Size | None = None
    optional: bool = False

    def check(self, value: Any, sizes: Sizes, deep: bool) -> None:
        """Raise `Wrong` unless the value is a fitted model, or a list of ``size``."""
        found = value if self.size is not None else [value]
        if not isinstance(found, list) or not all(getattr(one, "is_fitted", False) for one in found):
            raise Wrong(
                f"it is {_described(value)}, expected {'a fitted model' if self.size is None else 'fitted models'}"
            )
        if self.size is not None and not sizes.require(self.size, len(found)):
            raise Wrong(f"it has {len(found)} models, expected {sizes.number(self.size)}")


WHOLE = Plain((int,), least=0)
REAL = Plain((int, float))
TEXT = Plain((str,))
TRUTH = Plain((bool,))


@dataclass(frozen=True)
class Unchecked:
    """Something that the model checks itself when it takes it back."""

    optional: bool = False

    def check(self, value: Any, sizes: Sizes, deep: bool) -> None:
        """Everything is allowed."""


HISTORY = Listed(Named(Unchecked()))
"""One row per epoch."""
DIAGNOSTICS = Listed(Named(Unchecked()))
"""Problems found in training."""


def optimizer_means_of(user_rows: Size) -> Named:
    """`tastespace.models.updating.optimizer_means`: a number for each row of users, items and biases."""
    rows = {"user": user_rows, "item": "items", "bias": "items"}
    kinds = {"first": "float32", "second": "float32", "steps": "int32"}
    return Named(
        {
            f"{side}_{part}": Numbers(dtype, (size,), least=0 if part == "steps" else None, optional=True)
            for side, size in rows.items()
            for part, dtype in kinds.items()
        },
        optional=True,
    )


def weights_of(shapes: Mapping[str, tuple[int, ...]]) -> Named:
    """Arrays of float32 with these names and shapes."""
    return Named({name: Numbers("float32", shape) for name, shape in shapes.items()})


def require_csr_parts(data: Any, indices: Any, indptr: Any, shape: tuple[int, ...]) -> None:
    """Raise `Wrong` unless the three arrays of a CSR matrix hold together: SciPy looks at their lengths only."""
    if not all(type(part) is np.ndarray and part.ndim == 1 for part in (data, indices, indptr)):
        raise Wrong("the parts of a CSR array are not of one dimension")
    if indices.dtype.name not in ("int32", "int64") or indptr.dtype.name not in ("int32", "int64"):
        raise Wrong(f"the indices of a CSR array are {indices.dtype} and {indptr.dtype}, expected int32 or int64")
    if len(indptr) != shape[0] + 1 or len(indices) != len(data):
        raise Wrong(
            f"a CSR array of {shape[0]:,} rows has {len(indptr):,} offsets, {len(indices):,} indices and "
            f"{len(data):,} values"
        )
    if indptr[0] != 0 or indptr[-1] != len(data) or (indptr[1:] < indptr[:-1]).any():
        raise Wrong(f"the offsets of a CSR array do not ascend from 0 to {len(data):,}")
    if len(indices) and (indices.min() < 0 or indices.max() >= shape[1]):
        raise Wrong(
            f"the indices of a CSR array lie in {indices.min():,} ... {indices.max():,}, expected 0 ... "
            f"{shape[1] - 1:,}"
        )


def require_stored(
    owner: str, declared: Declared, found: Mapping[str, Any], train: Interactions, deep: bool, more: bool = False
) -> None:
    """Raise `ModelFileError` unless what was found is what a model declares.

    ``owner`` names the model, ``more`` allows names that are not declared, and ``deep`` looks for NaN as well.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> declared = {"scores_": Numbers("float32", ("items",))}
    >>> require_stored("Mine", declared, {"scores_": np.ones(3)}, town, True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tastespace.errors.ModelFileError: Mine: scores_ does not fit: it is float64 of shape (3,), expected float32 of ...
    """
    sizes = Sizes.of(train)
    for name, kind in declared.items():
        if name not in found:
            if kind.optional:
                continue
            raise ModelFileError(
                f"{owner}: {name} is missing, it has {', '.join(found) or 'nothing'}. Save the model again, or restore "
                "a copy."
            )
        try:
            kind.check(found[name], sizes, deep)
        except Wrong as problem:
            raise ModelFileError(
                f"{owner}: {name} does not fit: {problem}. Save the model again, or restore a copy."
            ) from None
    unknown = sorted(found.keys() - declared.keys())
    if unknown and not more:
        raise ModelFileError(
            f"{owner} has no {unknown[0]!r}; it has {', '.join(declared)}.{nearest(unknown[0], declared)} Was it saved "
            "by a newer version?"
        )


def _check_part(where: str, kind: Kind, value: Any, sizes: Sizes, deep: bool) -> None:
    try:
        kind.check(value, sizes, deep)
    except Wrong as problem:
        raise Wrong(f"{where}: {problem}") from None


def _require_finite(array: NDArray[Any]) -> None:
    flat = array.reshape(-1)
    for first in range(0, len(flat), _PART):
        if not np.isfinite(flat[first : first + _PART]).all():
            raise Wrong("it holds NaN or infinite numbers, expected finite ones")


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    kind = type(value).__name__
    return f"{kind} {str(value)[:40]}" if isinstance(value, (bool, int, float, str)) else kind
