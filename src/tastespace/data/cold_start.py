"""Data for cold start: warm data to train on, and users and items whose content alone the model is given.

`hold_out` makes cold-start users and items of any data. `load` returns named data sets:

* ``xing-2017`` in place of the paper's RecSys subsets, which are not public: warm are the 3,135 users with 25 or more
  pairs on warm jobs; cold-start users are the other 7,553, with their pairs on warm jobs; cold-start items are the
  1,712 new jobs that warm users have (15,241 pairs). 831 features of users, 2,738 of jobs.
* ``ml-1m``: a tenth of the users (gender, age, occupation) and of the movies (genres) are held out.
* ``citeulike-a``: the published new articles of the test part, with their tags; no content of users.
* ``town``: the synthetic town, with the categories of items and the interests of users as content; needs no files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data import datasets, split, synthetic
from tastespace.data.features import content_frame, is_matrix
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.data.merge import concat
from tastespace.data.reading.tables import from_polars
from tastespace.errors import DataError, ParameterError, nearest

SUFFIX = "-cold"
"""Suffix of the name of a data set: with cold-start users and items."""
_RATIOS = (0.6, 0.2, 0.2)
_INNER_SHARE = 0.2


@dataclass(frozen=True)
class ColdStart:
    """Warm data in three parts, and cold-start users and items with their interactions, for evaluation."""

    name: str
    train: Interactions
    valid: Interactions
    test: Interactions
    """Warm users and items."""
    user_features: Any
    item_features: Any
    """Content of the warm users and items, a row for each, or None."""
    new_users: Interactions | None = None
    """Cold-start users and their interactions with warm items."""
    new_user_features: Any = None
    new_items: Interactions | None = None
    """Warm users and their interactions with cold-start items."""
    new_item_features: Any = None
    settings: dict[str, Any] = field(default_factory=dict)
    """Parameters of models for this content, such as kinds of columns."""


def hold_out(
    name: str,
    data: Interactions,
    user_features: Any,
    item_features: Any,
    *,
    users: float = 0.1,
    items: float = 0.1,
    seed: int = 0,
    settings: dict[str, Any] | None = None,
) -> ColdStart:
    """Hold out a share of the users and items with interactions, and split the remaining data per user.

    Features are frames of any library, matrices or None, a row for each user (item) of ``data`` in order. Pairs of a
    held-out user with a held-out item are left out: neither side has a history.

    >>> town = synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1500, seed=1).interactions
    >>> parts = hold_out("town", town, None, None, users=0.25, items=0.1)
    >>> parts.train.n_users, parts.train.n_items, parts.new_users.n_users, parts.new_items.n_items
    (60, 54, 20, 6)
    """
    for side, share in (("users", users), ("items", items)):
        _require_share(side, share)
    user_features = _fitting(user_features, "user", data.n_users)
    item_features = _fitting(item_features, "item", data.n_items)
    random = np.random.default_rng([seed, 7])
    new_users = _drawn(np.flatnonzero(data.user_counts), users, data.n_users, random)
    new_items = _drawn(np.flatnonzero(data.item_counts), items, data.n_items, random)
    train, valid, test = split.per_user(part(data, ~new_users, ~new_items), _RATIOS, seed=seed)
    return ColdStart(
        name, train, valid, test,
        _rows(user_features, ~new_users), _rows(item_features, ~new_items),
        part(data, new_users, ~new_items) if users else None, _rows(user_features, new_users),
        part(data, ~new_users, new_items) if items else None, _rows(item_features, new_items),
        settings or {},
    )  # fmt: skip


def inner_split(parts: ColdStart, seed: int = 0) -> ColdStart:
    """A cold-start split inside the training and validation data, for choosing parameters without the test data.

    A fifth of the warm users (items) become cold-start users (items), where ``parts`` has cold-start users (items).

    >>> inner = inner_split(load("town"))
    >>> inner.train.n_users, inner.new_users.n_users, inner.test.users == inner.train.users
    (432, 108, True)
    """
    data = concat(parts.train, parts.valid)
    sides = {"users": parts.new_users, "items": parts.new_items}
    shares = {side: _INNER_SHARE * (held is not None) for side, held in sides.items()}
    content = parts.user_features, parts.item_features
    return hold_out(parts.name, data, *content, **shares, seed=seed, settings=parts.settings)


def names() -> tuple[str, ...]:
    """Names that `load` accepts."""
    return tuple(_LOADERS)


def load(name: str, seed: int = 0) -> ColdStart:
    """A named data set for cold start; ``seed`` decides its splits.

    >>> load("town").new_items.n_items
    40
    """
    if name not in _LOADERS:
        raise ParameterError(
            f"no cold-start data set {name!r}; there are {', '.join(_LOADERS)}.{nearest(name, _LOADERS)}"
        )
    return _LOADERS[name](seed)


def _xing(seed: int) -> ColdStart:
    everything = datasets.load("xing-2017", "raw").without_weights()
    content = datasets.load_content("xing-2017", everything)
    warm = datasets.load("xing-2017")
    users = everything.users.find(warm.users.series)
    items = everything.items.find(warm.items.series)
    is_new_job = everything.item_attributes["cold_item"].to_numpy()  # type: ignore[index]
    is_warm_user = _mask(everything.n_users, users)
    new_users = part(everything, ~is_warm_user, _mask(everything.n_items, items))
    taken = part(everything, is_warm_user, is_new_job)
    new_jobs = part(taken, np.ones(taken.n_users, dtype=bool), taken.item_counts > 0)
    new_rows = everything.items.find(new_jobs.items.series)
    matrix = content["user"], content["item"]
    assert matrix[0] is not None
    assert matrix[1] is not None
    train, valid, test = split.per_user(replace(warm, item_attributes=None), _RATIOS, seed=seed)
    return ColdStart(
        "xing-2017", train, valid, test, matrix[0][users], matrix[1][items], new_users, matrix[0][~is_warm_user],
        new_jobs, matrix[1][new_rows],
    )  # fmt: skip


def _movielens(seed: int) -> ColdStart:
    data = datasets.load("ml-1m")
    columns = {"gender": "category", "age": "category", "occupation": "category"}
    settings = {"user_columns": columns, "item_columns": {"genres": "tags"}}
    return hold_out("ml-1m", data, data.user_attributes, data.item_attributes, seed=seed, settings=settings)


def _articles(seed: int) -> ColdStart:
    known, _, later = datasets.load_split("citeulike-a")
    warm = known.item_counts > 0
    all_users = np.ones(known.n_users, dtype=bool)
    train, valid, test = split.per_user(part(known, all_users, warm), _RATIOS, seed=seed)
    new = later.item_counts > 0
    tags = known.item_attributes
    return ColdStart(
        "citeulike-a", train, valid, test, None, _rows(tags, warm), None, None, part(later, all_users, new),
        _rows(tags, new), {"item_columns": {"tags": "tags"}, "min_count": 5},
    )  # fmt: skip


def _town(seed: int) -> ColdStart:
    town = synthetic.multi_interest(n_users=600, n_items=400, n_interactions=20_000, seed=0)
    data = town.interactions
    likes = [[str(c) for c in town.interests_of(user)] for user in range(data.n_users)]
    categories = [str(town.categories[c]) for c in town.item_category]  # the names that `likes` has, too
    users = pl.DataFrame([data.users.series.alias("user"), pl.Series("likes", likes)])
    items = pl.DataFrame([data.items.series.alias("item"), pl.Series("category", categories)])
    return hold_out("town", data, users, items, seed=seed)


_LOADERS: dict[str, Callable[[int], ColdStart]] = {
    "xing-2017": _xing,
    "ml-1m": _movielens,
    "citeulike-a": _articles,
    "town": _town,
}


def _mask(n: int, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    mask = np.zeros(n, dtype=bool)
    mask[rows] = True
    return mask


def _require_share(side: str, share: Any) -> None:
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= float(share) < 1:
        raise ParameterError(f"{side}={share!r} are to be held out: expected a share in [0, 1).")


def _fitting(features: Any, side: str, n: int) -> Any:
    """Features in a form whose rows can be selected: a matrix or a frame with ``n`` rows."""
    if features is None:
        return None
    found = sp.csr_array(features) if sp.issparse(features) else features if is_matrix(features) else None
    found = _Frame(*content_frame(features)) if found is None else found
    rows = len(found.frame) if isinstance(found, _Frame) else found.shape[0]
    if rows != n:
        raise DataError(
            f"the {side} features have {rows:,} rows, expected one for each of the {n:,} {side}s in the order of their "
            "ids."
        )
    return found


@dataclass(frozen=True)
class _Frame:
    """A frame of any library."""

    frame: pl.DataFrame
    backend: str


def _drawn(among: NDArray[np.int64], share: float, n: int, random: np.random.Generator) -> NDArray[np.bool_]:
    return _mask(n, random.permutation(among)[: round(share * len(among))])


def part(data: Interactions, users: NDArray[np.bool_], items: NDArray[np.bool_]) -> Interactions:
    """The interactions between these users and these items; ids and attributes of all others are dropped."""
    keep = users[data.row_of_each()] & items[data.indices]
    counts = np.bincount(data.row_of_each()[keep], minlength=data.n_users)[users]
    new_index = np.cumsum(items) - 1
    return Interactions(
        IdMap(data.users.take(np.flatnonzero(users)), "user"),
        IdMap(data.items.take(np.flatnonzero(items)), "item"),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        new_index[data.indices[keep]].astype(np.int32),
        None if data.weights is None else data.weights[keep],
        None if data.timestamps is None else data.timestamps[keep],
        user_attributes=_rows(data.user_attributes, users),
        item_attributes=_rows(data.item_attributes, items),
        dislikes=data.dislikes,
        events=data.events,
        backend=data.backend,
    )


def _rows(content: Any, which: NDArray[np.bool_]) -> Any:
    if content is None:
        return None
    if isinstance(content, _Frame):
        return from_polars(content.frame.filter(pl.Series(which)), content.backend)
    return content.filter(pl.Series(which)) if isinstance(content, pl.DataFrame) else content[which]
