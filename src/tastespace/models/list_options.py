"""Options of a request for lists, the same for Python, the command line and HTTP.

`ListOptions` holds the values of one request. `ListKeywords` are the same options as keywords: `recommend` and its
relatives take ``**options: Unpack[ListKeywords]``, which editors complete. `Recommender.recommend` documents each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypedDict, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.errors import ParameterError, nearest

Ids: TypeAlias = Hashable | Iterable[Hashable]
"""One id, or several in a list, array or series."""
Filter: TypeAlias = str | pl.Expr | pl.Series | NDArray[np.bool_] | Callable[[Any], Any]
"""Items that may be recommended, see `Recommender.recommend`."""
Mute: TypeAlias = int | Iterable[int] | Mapping[Any, int | Iterable[int]]
"""Numbers of interests to leave out, of the one user requested or by user id."""
Boost: TypeAlias = Mapping[int, float] | Mapping[Any, Mapping[int, float]]
"""Factors of interests, of the one user requested or by user id."""
Titles: TypeAlias = bool | str
"""True: lists have the titles of items; or the item attribute that holds them."""
Rules: TypeAlias = Any
"""`tastespace.Rules`, of a package above this one."""


class Frame(Protocol):
    """A frame in the library that the training data came from: polars, pandas, pyarrow, ...

    Type checkers cannot know which, so they see what all of these have; everything else is taken as it comes. Where one
    library is meant, say so: ``cast(pl.DataFrame, model.recommend())``, or `narwhals.from_native` for any of them.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""

    @property
    def columns(self) -> Any:
        """Names of the columns; in pyarrow the columns themselves, whose names are ``column_names``."""

    def __getitem__(self, name: str, /) -> Any:
        """The column of this name."""

    def __len__(self) -> int:
        """Number of rows."""

    def join(self, *args: Any, **kwargs: Any) -> Any:
        """Join with another frame."""

    def drop(self, *args: Any, **kwargs: Any) -> Any:
        """Leave out columns."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for another library, see the Arrow PyCapsule interface."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Methods that frames of one library have and those of another have not."""


class IndexKeywords(TypedDict, total=False):
    """Options of `Recommender.recommend_indices`: all but those that concern ids and columns of frames."""

    exclude_seen: bool
    items: Ids | None
    filter: Filter | None
    mix: str | None
    diversity: float | None
    column: str | None
    mute: Mute | None
    boost: Boost | None
    rules: Rules | None
    profile: bool
    threads: int
    index: str


class ListKeywords(IndexKeywords, total=False):
    """Options of `Recommender.recommend`, `recommend_to` and `recommend_for`."""

    on_unknown: str
    titles: Titles


@dataclass(frozen=True)
class ListOptions:
    """Options of one request for lists, by default those of `Recommender.recommend`.

    >>> ListOptions(k=5, mix="proportional").diversity is None
    True
    """

    k: int = 10
    exclude_seen: bool = True
    items: Ids | None = None
    filter: Filter | None = None
    on_unknown: str = "error"
    mix: str | None = None
    diversity: float | None = None
    column: str | None = None
    mute: Mute | None = None
    boost: Boost | None = None
    rules: Rules | None = None
    profile: bool = True
    titles: Titles = False
    threads: int = 0
    index: str = "exact"

    @classmethod
    def from_keywords(cls, method: str, k: int, given: Mapping[str, Any]) -> ListOptions:
        """Return the options of a call of `Recommender.recommend` or a relative; unknown names are an error.

        >>> ListOptions.from_keywords("recommend", 10, {"divercity": 0.3})
        Traceback (most recent call last):
        tastespace.errors.ParameterError: recommend has no option 'divercity'. Did you mean diversity?
        """
        known = _KNOWN[method]
        for name in given:
            if name not in known:
                others = nearest(name, known) or f" Its options are k, {', '.join(known)}."
                raise ParameterError(f"{method} has no option {name!r}.{others}")
        found = object.__new__(cls)
        found.__dict__.update(_DEFAULTS, k=k, **given)  # four times as fast as __init__, for lists of one user
        return found

    @cached_property
    def is_plain(self) -> bool:
        """True where only the number of items, seen items, profile, threads and index matter.

        Requests of this kind with equal options give the same lists.
        """
        return (
            self.items is None
            and self.filter is None
            and self.mix is None
            and self.diversity is None
            and self.column is None
            and self.mute is None
            and self.boost is None
            and self.rules is None
            and self.titles is False
            and type(self.k) is int
            and type(self.threads) is int
        )


_DEFAULTS = {one.name: one.default for one in fields(ListOptions)}
_FOR_LISTS = tuple(name for name in _DEFAULTS if name in ListKeywords.__annotations__)
_FOR_INDICES = tuple(name for name in _DEFAULTS if name in IndexKeywords.__annotations__)
_KNOWN = {
    "recommend": _FOR_LISTS,
    "recommend_to": _FOR_LISTS,
    "recommend_page": _FOR_LISTS,
    "recommend_for": _FOR_LISTS,
    "recommend_indices": _FOR_INDICES,
}
Method = TypeVar("Method", bound=Callable[..., Any])


def takes_list_options(method: Method) -> Method:
    """Let `inspect.signature`, `help` and notebooks show each option instead of ``**options``.

    >>> @takes_list_options
    ... def recommend_indices(rows=None, **options): ...
    >>> list(inspect.signature(recommend_indices).parameters)[:3]
    ['rows', 'exclude_seen', 'items']
    """
    signature = inspect.signature(method)
    types = {one.name: one.type for one in fields(ListOptions)}
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS[name], annotation=types[name])
        for name in _KNOWN[method.__name__]
    ]
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    method.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return method
