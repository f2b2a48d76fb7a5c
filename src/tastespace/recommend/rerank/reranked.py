"""Two-stage recommendation: a model finds a pool of good items per user, an algorithm picks a diverse list from it.

The algorithms themselves, on plain arrays, are in `tastespace.recommend.rerank._algorithms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.checks import is_whole, require_k, require_whole
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.data.reading.tables import FrameTable
from tastespace.errors import Argument, DataError, ParameterError, UnknownIdError, nearest
from tastespace.models.base import Recommender
from tastespace.models.list_options import ListOptions
from tastespace.ranking.blocks import Block
from tastespace.recommend.lists import TopKLists
from tastespace.recommend.rerank.pools import PoolReranker, category_shares, check_method
from tastespace.recommend.rerank.two_stage import TwoStage

_COLUMNS = ("user", "item", "rank", "score")

Own = TypeVar("Own", bound="Reranked")


def rerank(
    recommendations: Any, model: Recommender, how: str = "mmr", k: int = 10, weight: float = 0.5, **options: Any
) -> Any:
    """Choose k of each user's recommendations for diversity.

    ``recommendations`` is what `Recommender.recommend` returns for a k much larger than the one wanted here (a pool),
    or any frame with the columns user, item, rank and score. Returns a frame of the same library, up to k rows per
    user: ``rank`` is new, all other columns are kept. ``rank`` gives the order at the start, ``score`` the distance
    between neighbors; a score above that of a better rank counts as equal to it.

    ``weight`` in [0, 1] is the share of diversity: 0 keeps the given order, 1 ignores relevance.

    ============== ======================================================================= =====================
    how            what is weighed against relevance                                       published by
    ============== ======================================================================= =====================
    ``dd``         mean Euclidean distance to the items chosen so far                      Bridge and Kelly 2006
    ``pd``         mean gap in popularity to them (users per item / most users of an item) the same
    ``mmr``        similarity to the most similar one, 1 - distance / largest in the pool  Carbonell et al. 1998
    ``dpp``        volume that they span, similarity exp(-distance^2 / mean of the pool's) Chen et al. 2018
    ``calibrated`` divergence of the list's categories from those of the user's history    Steck 2018
    ============== ======================================================================= =====================

    Distance: between item vectors, as they are for metric models (l2) and of unit length for inner products, where
    length mostly is popularity; for models without vectors, between items as unit vectors over users (who took them).

    Relevance: scores, per pool, from 0 for the worst to 1 for the best, so that ``weight`` means the same for all
    models. ``dd`` and ``pd`` follow the paper (its omega is ``weight``) where the model is a metric one and scores are
    minus squared distances: there relevance is 1 / distance, and distances are not scaled; elsewhere ``dd`` divides
    distances by the largest of the pool. The paper does not say how popularity is scaled.

    Args:
        recommendations: The pools; they may differ in length. Pools below k are returned whole, in a new order.
        model: The fitted model that made them; for new users, what `Recommender.fold_in` gave.
        how: One of the names above.
        k: Items per user.
        weight: Share of diversity.
        **options: For ``calibrated``: ``column``, the item attribute that holds categories (default: the one
            that looks like categories), and ``smoothing`` (0.01, Steck's alpha).

    >>> from tastespace import EASE, synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=60, n_interactions=700, seed=1).interactions
    >>> model = EASE().fit(town)
    >>> lists = rerank(model.recommend([7], k=30), model, how="calibrated", k=3, weight=0.9)
    >>> lists["rank"].to_list(), lists["item"].to_list() == model.recommend([7], k=3)["item"].to_list()
    ([1, 2, 3], False)
    """
    if not isinstance(model, Recommender):
        raise ParameterError(Argument("model", model), ": expected the fitted model that made the recommendations.")
    model.require_fitted()
    k = require_k(k)
    reranker = PoolReranker(model, how, weight, options)
    frame = _frame(recommendations)
    users, offsets, items, scores, order = _pools(frame, model.train_)
    rows = reranker.choose(users, offsets, items, scores, k)
    kept = np.minimum(np.diff(offsets), k)
    ranks = np.arange(1, len(rows) + 1) - np.repeat(np.cumsum(kept) - kept, kept)
    taken = nw.maybe_reset_index(frame[order[rows]])
    new = nw.new_series("rank", ranks, taken.schema["rank"], backend=taken.implementation)
    return taken.with_columns(new).to_native()


def _frame(recommendations: Any) -> nw.DataFrame[Any]:
    try:
        frame = nw.from_native(recommendations)
    except TypeError as problem:
        raise DataError(
            f"recommendations: expected a frame such as model.recommend returns, given "
            f"{type(recommendations).__name__}."
        ) from problem
    whole: nw.DataFrame[Any] = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    for name in _COLUMNS:
        if name not in whole.columns:
            raise DataError(
                f"recommendations has no column {name!r}; its columns are {', '.join(map(repr, whole.columns))}, "
                f"expected {', '.join(_COLUMNS)} as model.recommend returns them.{nearest(name, whole.columns)}"
            )
    return whole


def _pools(frame: nw.DataFrame[Any], train: Interactions) -> tuple[NDArray[Any], ...]:
    """Users as they first appear, offsets, and the items and scores of each by rank; last their rows in the frame."""
    if not len(frame):
        nothing = np.empty(0, dtype=np.int64)
        return nothing, np.zeros(1, dtype=np.int64), nothing, nothing, nothing
    table = FrameTable(frame.to_native())
    user, item = (_indices(getattr(train, f"{kind}s"), table.read(kind), kind) for kind in ("user", "item"))
    rank, score = (_numbers(table.read(name)) for name in ("rank", "score"))
    order = np.lexsort((item, user))
    twice = np.flatnonzero((np.diff(user[order]) == 0) & (np.diff(item[order]) == 0))
    if len(twice):
        row = int(order[twice[0]])
        raise DataError(
            f"recommendations has item {train.items[int(item[row])]!r} for user {train.users[int(user[row])]!r} more "
            "than once. Ask for each user once, or drop the repeated rows."
        )
    _, first, code = np.unique(user, return_index=True, return_inverse=True)
    appearance = np.argsort(np.argsort(first))[code]
    order = np.lexsort((rank, appearance))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(appearance))])
    return user[np.sort(first)], offsets, item[order], score[order], order


def _indices(ids: IdMap, column: pl.Series, kind: str) -> NDArray[np.int64]:
    try:
        return ids.index_of(column)
    except UnknownIdError as problem:
        raise UnknownIdError(
            f"recommendations holds {kind}s that are not in the model: {problem} Give the model that made the list, "
            "or leave these rows out."
        ) from None


def _numbers(column: pl.Series) -> NDArray[np.float64]:
    if not column.dtype.is_numeric():
        raise DataError(f"column {column.name!r} of the recommendations has type {column.dtype}, expected numbers.")
    values = column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    bad = np.flatnonzero(np.isnan(values))
    if len(bad):
        raise DataError(
            f"column {column.name!r} of the recommendations: {len(bad):,} of {len(values):,} values are missing, the "
            f"first in row {bad[0]}. Leave these rows out."
        )
    return values


class Reranked(TwoStage):
    """Two stages as one recommender: another model's best items, re-ordered by an algorithm of `rerank`.

    It can be fitted, evaluated and used like every model. The ranking of a user is: the first model's best ``pool``
    items that the user did not have in training, re-ordered; then all other items as the first model orders them. A
    score says no more than that order: whole numbers for the pool, above the first model's scores for the rest.

    Args:
        model: The first stage, any recommender. `fit` fits a clone of it, ``model_``.
        how: Algorithm, see `rerank`.
        weight: Share of diversity in [0, 1]; 0 leaves the first model's ranking as it is.
        pool: Number of items that are re-ordered.
        column: For ``how="calibrated"``, the item attribute that holds the categories.

    >>> from tastespace import EASE, evaluate, split, synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> train, valid, test = split.per_user(town, seed=0)
    >>> model = Reranked(model=EASE(), how="calibrated", weight=0.5, pool=20).fit(train)
    >>> list(evaluate(model, test, k=5, metrics=["NDCG", "CategoryILD"]).metrics)
    ['NDCG@5', 'CategoryILD@5']
    """

    def __init__(
        self, model: Recommender, how: str = "mmr", weight: float = 0.5, pool: int = 100, column: str | None = None
    ) -> None:
        self.model = model
        self.how = how
        self.weight = weight
        self.pool = pool
        self.column = column

    @classmethod
    def around(cls: type[Own], fitted: Recommender, **parameters: Any) -> Own:
        """Wrap a fitted model, which is used as it is; for example to try many weights.

        >>> from tastespace import EASE, synthetic
        >>> first = EASE().fit(synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions)
        >>> [len(Reranked.around(first, weight=w, pool=20).recommend([7], k=5)) for w in (0.1, 0.5)]
        [5, 5]
        """
        return super().around(fitted, **parameters)

    def _check(self) -> None:
        super()._check()
        if not is_whole(self.pool):
            raise ParameterError(Argument("pool", self.pool), ": expected a number of items to re-order, 1 or more.")
        require_whole("pool", self.pool)
        check_method(self.how, self.weight, self._options())

    def _check_with(self, train: Interactions) -> None:
        if self.how == "calibrated":
            category_shares(train, self.column)

    def _options(self) -> dict[str, Any]:
        return {} if self.column is None else {"column": self.column}

    def _put(self, fitted: Recommender) -> None:
        super()._put(fitted)
        self._reranker = PoolReranker(fitted, self.how, self.weight, self._options())

    def _attributes_changed(self) -> None:
        self._put(self.model_)

    def _lists(self, users: NDArray[np.int32]) -> Iterator[tuple[Block, NDArray[np.int64], NDArray[np.int32]]]:
        for block, pools in TopKLists(self.model_, ListOptions(k=self.pool, profile=False)).blocks(users):
            sizes = np.bincount(pools.query, minlength=len(block.users))
            offsets = np.concatenate([[0], np.cumsum(sizes)])
            rows = self._reranker.choose(block.users, offsets, pools.rows, pools.scores, self.pool)
            yield block, pools.query, pools.rows[rows]

    def save(self, path: Any, metrics: Any = None, index: Any = None, card: Any = None) -> None:
        """Raise: two stages are not saved as one file. Save the first and wrap it again after loading."""
        self.require_fitted()
        raise ParameterError(
            "a re-ranked model is not saved as one. Save its first stage, model.model_.save(path), and open it with "
            f"Reranked.around(tastespace.load(path), how={self.how!r}, weight={self.weight!r})."
        )
