"""Item-to-item linear model for catalogs of any size: EASE restricted to each item's nearest neighbors."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import require_number, require_whole
from tastespace._util.memory import available_gb
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError
from tastespace.models.base import Recommender
from tastespace.models.linear._exponents import count_powers, require_dropout, require_power
from tastespace.models.past_rows import past_entries, sparse_rows
from tastespace.models.stored_values import Declared, Sparse

_BYTES_PER_ENTRY = 8  # of a row of the Gram matrix: an item and a number
_BYTES_PER_COEFFICIENT = 16  # while they are fitted and transposed
_MAX_ROW_LENGTH = 4096  # more has not changed a figure


class SparseEASE(Recommender):
    """Linear item-item model with few coefficients per item.

    Each item j is predicted by ridge regression from its `n_neighbors` nearest items by cosine, in closed form: with
    G = X'X and N the neighbors of j, the coefficients are ``(G_NN + D)^-1 G_Nj``, where D is diagonal with
    ``regularization + dropout / (1 - dropout) G_ii``. With all other items as neighbors and no dropout this is EASE
    (Steck, WWW 2019). The second term of D is what training with dropout of the inputs gives (Steck, "Autoencoders
    that don't overfit towards the Identity", NeurIPS 2020); the choice of neighbors is that of fsSLIM (Ning and
    Karypis, ICDM 2011), whose regression has an L1 penalty besides. The score of item j is the sum of its coefficients
    over the user's items. The two powers are those of `EASE`.

    Args:
        n_neighbors: Items from which an item is predicted, at most.
        regularization: lambda > 0; larger means smoother.
        dropout: Share of the inputs that training leaves out, in [0, 1).
        user_power: Interactions of a user with n of them have the weight ``(n / mean n) ** user_power`` in training,
            from -2 to 2: negative values give users with long histories less influence. It applies to both factors
            of X'X, so ``user_power=-b/2`` weights users by ``(n / mean n) ** -b``.
        item_power: Multiply the coefficient of past item i for item j by ``(n_i / n_j) ** item_power``, with n their
            numbers of interactions, from -2 to 2: positive values favor rare items.
        weight_power: A weight w of the data counts as ``w ** weight_power``: 0 ignores weights.
        memory_limit_gb: Limit for what is held while learning, above the data itself; by default three quarters of the
            memory that is available. Where the Gram matrix does not fit, its smallest entries are left out.
        threads: 0 means all cores; the result is the same for every number.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> model = SparseEASE(n_neighbors=10).fit(town)
    >>> model.coefficients_.shape, model.coefficients_.nnz <= 50 * 10
    ((50, 50), True)
    """

    uses_weights = True
    _fits_in_one_call = True
    coefficients_: sp.csr_array
    """Row i holds what an interaction with item i adds to the scores of others, float32, ``(n_items, n_items)``."""

    def __init__(
        self,
        n_neighbors: int = 100,
        regularization: float = 30.0,
        dropout: float = 0.5,
        user_power: float = 0.0,
        item_power: float = 0.0,
        weight_power: float = 1.0,
        memory_limit_gb: float | None = None,
        threads: int = 0,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.regularization = regularization
        self.dropout = dropout
        self.user_power = user_power
        self.item_power = item_power
        self.weight_power = weight_power
        self.memory_limit_gb = memory_limit_gb
        self.threads = threads

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        self._check()
        train = train.powered(self.weight_power)
        by_user = sp.csr_array(train.matrix, dtype=np.float32)
        if self.user_power:
            scale = count_powers(train.user_counts, self.user_power)
            by_user = sp.csr_array(sp.diags_array(scale) @ by_user, dtype=np.float32)
        by_item = by_user.tocsc()
        try:
            offsets, sources, values = _native.fit_item_regression(
                user_offsets=by_user.indptr.astype(np.int64),
                items=by_user.indices.astype(np.int32),
                user_values=by_user.data,
                item_offsets=by_item.indptr.astype(np.int64),
                users=by_item.indices.astype(np.int32),
                item_values=by_item.data,
                n_neighbors=self.n_neighbors,
                row_length=self._row_length(train.n_items),
                regularization=self.regularization,
                self_weight=self.dropout / (1.0 - self.dropout),
                threads=resolve_threads(self.threads),
            )
        except ValueError as problem:  # weights whose products are beyond the numbers of 32 bits
            raise DataError(f"SparseEASE cannot learn from {train!r}: {problem}") from problem
        if self.item_power:
            item_scale = count_powers(train.item_counts, self.item_power)
            targets = np.repeat(np.arange(train.n_items), np.diff(offsets))
            values = (values * (item_scale[sources] / item_scale[targets])).astype(np.float32)
        by_target = sp.csc_array((values, sources, offsets), shape=(train.n_items, train.n_items))
        self.coefficients_ = by_target.tocsr()

    def _check(self) -> None:
        super()._check()
        require_whole("n_neighbors", self.n_neighbors)
        require_number("regularization", self.regularization, above=0.0)
        require_dropout(self.dropout)
        require_power("user_power", self.user_power, -0.25)
        require_power("item_power", self.item_power, 0.2)
        require_number("weight_power", self.weight_power, least=0.0)
        if self.memory_limit_gb is not None:
            require_number("memory_limit_gb", self.memory_limit_gb, above=0.0)

    def _row_length(self, n_items: int) -> int:
        """Entries of the Gram matrix that are kept for each item within the memory limit."""
        limit = 0.75 * available_gb() if self.memory_limit_gb is None else self.memory_limit_gb
        n_neighbors = min(self.n_neighbors, n_items)
        for_rows = limit * 1e9 / n_items - _BYTES_PER_COEFFICIENT * n_neighbors
        length = int(for_rows / _BYTES_PER_ENTRY)
        if length < n_neighbors:
            needed = n_items * n_neighbors * (_BYTES_PER_ENTRY + _BYTES_PER_COEFFICIENT) / 1e9
            raise DataError(
                f"SparseEASE with n_neighbors={self.n_neighbors} on {n_items:,} items needs at least {needed:.2g} GB "
                f"of memory, the limit is {limit:.2g} GB. Lower n_neighbors, keep fewer items (min_item=), or raise "
                "memory_limit_gb."
            )
        return min(length, n_items, max(_MAX_ROW_LENGTH, n_neighbors))

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        return {"coefficients_": Sparse("items", "items")}

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """X B for the rows of these users."""
        self.require_fitted()
        return self.history_scores(self.weighted_train.matrix[users])

    def history_scores(self, histories: sp.csr_array) -> NDArray[np.float32]:
        """X B for these rows."""
        return np.ascontiguousarray((histories @ self.coefficients_).toarray(), dtype=np.float32)

    def past_rows(self) -> _native.PastRows:
        """The coefficients."""
        return sparse_rows(self.coefficients_)

    def item_scores(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Weights by which each item raises the scores of the items at these rows, ``(len(rows), n_items)``."""
        self.require_fitted()
        return np.ascontiguousarray(self.coefficients_[:, np.asarray(rows)].toarray().T, dtype=np.float32)

    def evidence(self, user: int, items: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The coefficient of each past item in the score of each item, times the weight of the interaction."""
        self.require_fitted()
        return past_entries(self, sparse_rows(self.coefficients_), user, items)

    def _fold_in(self, histories: Interactions) -> SparseEASE:
        return copy.copy(self)  # scores come from the histories and the coefficients alone
