"""Cosine matrix factorization with a softmax over shared negatives, trained by native matrix products."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import require_number, require_whole
from tastespace._util.interrupts import interruptible
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.models.linear.spectral import normalized_matrix, singular_vectors_of
from tastespace.models.stored_values import Declared, Numbers
from tastespace.models.trained import TrainedRecommender
from tastespace.models.vector_space import VectorSpace
from tastespace.training.loop import Arrays, Callback
from tastespace.training.native_trainer import LearningRateSchedule

_SMALL = 10_000  # users, below which batches and steps are smaller
_NOISE = 0.3  # length of the random part of a vector at the start
_SVD_ITERATIONS = 4  # as `Spectral` has it, so that both use the same vectors
_BATCHES_PER_CALL = 32  # of the kernel, which notices Ctrl-C itself: progress is shown in between
_FOLD_IN_NEGATIVES = 4096
_FOLD_IN_STEPS = 8  # more change no figure
_FOLD_IN_PARALLEL = 2_000  # interactions from which a second thread pays
_POOLS, _FOLD_IN_POOL = 1, 2  # next to the seeds of other random numbers


@dataclass(kw_only=True, eq=False, repr=False)
class SoftmaxMF(TrainedRecommender):
    """Matrix factorization by cosines, trained with a softmax over negatives that many users share: for large sparse
    catalogs.

    With unit vectors a of users and c of items, a temperature t and a pool J of items, drawn uniformly for each batch
    of users, the loss of a user with the items P is ``|P| log sum over j in J of exp(a . c_j / t) - sum over i in P of
    a . c_i / t``: the sampled softmax of Wu et al., "On the Effectiveness of Sampled Softmax Loss for Item
    Recommendation" (TOIS 2024), with one pool for a batch of users and all positives of a user at once. An epoch then
    is three products of matrices for each batch, about ``6 n_users n_negatives dim`` floating-point operations, however
    many interactions there are. The pool may hold positives.

    Training starts at a truncated singular value decomposition of ``D_u^-1/2 X D_i^-1/2`` with some noise. The
    optimizer is Adam with one second moment per row, on the rows of a batch, and a learning rate that falls linearly.

    Lists are ranked by the cosine. `score_block` gives ``exp((cosine - the user's largest) / score_temperature)``, in
    the same order: in a blend, where the scores of members are standardized for each user, differences at the top of a
    list must count for more than those among the many items that nobody would recommend.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> model = SoftmaxMF(dim=8, epochs=5).fit(town)
    >>> model.user_vectors_.shape, model.item_vectors_.shape
    ((60, 8), (50, 8))
    >>> bool(np.allclose(np.linalg.norm(model.item_vectors_, axis=1), 1, atol=1e-6))
    True
    """

    epochs: int = 36
    dim: int = 256
    """Dimension of the vectors."""
    temperature: float = 0.1
    """t; on small data, such as MovieLens-1M and CiteULike-A, 0.15 is better."""
    score_temperature: float | None = None
    """Of the scores that `score_block` gives; None: twice the temperature. It does not change lists of the model."""
    n_negatives: int = 1024
    """Items in the pool of a batch; all items where there are no more."""
    users_per_batch: int | None = None
    """None: 64 where fewer than 10,000 users have interactions, else 256."""
    learning_rate: float | None = None
    """Of the first epoch. None: 0.02 where fewer than 10,000 users have interactions, else 0.03."""
    validate_every: int = 4

    def _fit(
        self,
        train: Interactions,
        valid: Interactions | None,
        progress: bool | None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        users, items = interruptible(lambda: self._start(train))
        trainer = _Training(train, users, items, self)
        result = self._run_loop(
            trainer,
            train,
            valid,
            validate=self._validator(
                train,
                valid,
                lambda now: self._snapshot(train, user_vectors_=now["users"], item_vectors_=now["items"]),
            ),
            initial=(users, items),
            n_positives=train.n_interactions,
            progress=progress,
            callbacks=callbacks,
        )
        self.user_vectors_, self.item_vectors_ = result["users"], result["items"]

    def _start(self, train: Interactions) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Unit vectors of users and items from singular vectors with noise."""
        normalized = normalized_matrix(train.without_weights().matrix).astype(np.float32)
        right = singular_vectors_of(train, self.dim, _SVD_ITERATIONS, self.seed, resolve_threads(self.threads))
        left = normalized @ right
        right = unit_rows(right * np.linalg.norm(left, axis=0))
        unit_rows(left)
        right[train.item_counts == 0] = -unit_rows(left.mean(axis=0, keepdims=True))  # far from all users
        random = np.random.default_rng(self.seed)
        sides = []
        for vectors in (left, right):
            start = random.standard_normal((len(vectors), self.dim), dtype=np.float32)
            start *= _NOISE / np.sqrt(self.dim)
            start[:, : vectors.shape[1]] += vectors
            sides.append(unit_rows(start))
        return sides[0], sides[1]

    def _check(self) -> None:
        super()._check()
        for name in ("dim", "n_negatives"):
            require_whole(name, getattr(self, name))
        require_number("temperature", self.temperature, above=0.0)
        for name in ("score_temperature", "learning_rate"):
            if getattr(self, name) is not None:
                require_number(name, getattr(self, name), above=0.0)
        if self.users_per_batch is not None:
            require_whole("users_per_batch", self.users_per_batch)

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        return {
            **super()._stored(learned),
            "user_vectors_": Numbers("float32", ("users", "dim")),
            "item_vectors_": Numbers("float32", ("items", "dim")),
        }

    def vectors(self) -> VectorSpace:
        """The learned unit vectors, compared by inner products."""
        if not hasattr(self, "item_vectors_"):
            self.require_fitted()
        return VectorSpace.single(self.user_vectors_, self.item_vectors_, "dot")

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Exponentials of cosines below each user's largest one, so at most 1; lists are ranked by the cosines."""
        scores = self.vectors().scores(users, self.threads)
        scores -= scores.max(axis=1, keepdims=True)
        scores /= self._score_temperature
        return np.exp(scores, out=scores)

    def vector_scores(self) -> tuple[VectorSpace, float]:
        """The vectors, and the temperature of the exponentials."""
        return self.vectors(), self._score_temperature

    @property
    def _score_temperature(self) -> float:
        return 2.0 * self.temperature if self.score_temperature is None else self.score_temperature

    def evidence(self, user: int, items: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The items' scores in `score_block`, each shared out among the past items.

        At the least loss a user's vector is a multiple of the sum of the vectors of past items, less one that is common
        to all of them, so that a past item adds to the cosine in proportion to its own cosine with the item. The score
        is shared in this proportion; a past item with a negative one gets nothing.
        """
        past = self.train_.indices[self.train_.offsets[user] : self.train_.offsets[user + 1]]
        scores = self.score_block(np.array([user]))[0, items]
        wanted = np.ascontiguousarray(items, dtype=np.int32)
        return _native.shared_scores(self.item_vectors_, past, wanted, np.ascontiguousarray(scores))

    def _fold_in(self, histories: Interactions) -> SoftmaxMF:
        """Vectors of new users: the least loss with the items and a pool of negatives fixed."""
        sums = histories.without_weights().matrix @ self.item_vectors_
        model = copy.copy(self)
        model.user_vectors_ = unit_rows(np.ascontiguousarray(sums, dtype=np.float32))
        n_items = len(self.item_vectors_)
        pool = np.arange(n_items)
        if n_items > _FOLD_IN_NEGATIVES:
            pool = np.random.default_rng([self.seed, _FOLD_IN_POOL]).integers(0, n_items, _FOLD_IN_NEGATIVES)
        _native.fold_in_softmax_mf(
            offsets=histories.offsets,
            positives=histories.indices,
            vectors=model.user_vectors_,
            item_vectors=self.item_vectors_,
            pool=pool.astype(np.int32),
            temperature=self.temperature,
            n_steps=_FOLD_IN_STEPS,
            threads=resolve_threads(self.threads) if histories.n_interactions > _FOLD_IN_PARALLEL else 1,
        )
        return model


class _Training:
    """A training run: parameters of users and items, whose directions are the vectors, and Adam's moments."""

    def __init__(
        self, train: Interactions, users: NDArray[np.float32], items: NDArray[np.float32], model: SoftmaxMF
    ) -> None:
        self._active = np.flatnonzero(train.user_counts).astype(np.int32)
        self._n_items = train.n_items
        small = len(self._active) < _SMALL
        rate = model.learning_rate or (0.02 if small else 0.03)
        self._rates = LearningRateSchedule(rate, "linear", model.epochs)
        self._batch = model.users_per_batch or (64 if small else 256)
        self._n_batches = -(-len(self._active) // self._batch)
        self._seed, self._n_negatives = model.seed, model.n_negatives
        self._state: Arrays = {
            f"{side}_{part}": array
            for side, rows in (("user", users), ("item", items))
            for part, array in (
                ("rows", rows.copy()),
                ("first", np.zeros_like(rows)),
                ("second", np.zeros(len(rows), dtype=np.float32)),
            )
        }
        self._given: dict[str, Any] = {
            "offsets": train.offsets,
            "positives": train.indices,
            "batch_size": self._batch,
            "temperature": model.temperature,
            "threads": resolve_threads(model.threads),
            **self._state,
        }

    def train_epoch(self, epoch: int, tick: Callable[[int, float], None]) -> dict[str, float]:
        """One pass over all users; ``tick(done, loss)`` is called after each call of the kernel."""
        order = np.random.default_rng([self._seed, epoch]).permutation(self._active)
        random = np.random.default_rng([self._seed, epoch, _POOLS])
        loss, n_positives = 0.0, 0
        for first in range(0, self._n_batches, _BATCHES_PER_CALL):
            users = order[first * self._batch : (first + _BATCHES_PER_CALL) * self._batch]
            of_call, n = _native.train_softmax_mf(
                **self._given,
                users=users,
                pools=self._pools(random, -(-len(users) // self._batch)),
                learning_rate=self._rates.at(epoch),
                first_step=epoch * self._n_batches + first,
            )
            loss, n_positives = loss + of_call, n_positives + n
            tick(n, loss / n_positives)
        return {"loss": loss / n_positives}

    def _pools(self, random: np.random.Generator, n: int) -> NDArray[np.int32]:
        """A pool of items for each of n batches."""
        if self._n_items <= self._n_negatives:
            return np.tile(np.arange(self._n_items, dtype=np.int32), (n, 1))
        return random.integers(0, self._n_items, (n, self._n_negatives), dtype=np.int32)

    def result(self) -> Arrays:
        """The vectors as the model would use them now: new arrays."""
        return {f"{side}s": unit_rows(self._state[f"{side}_rows"].copy()) for side in ("user", "item")}

    def state(self) -> Arrays:
        """Everything that another epoch depends on (views, not copies)."""
        return dict(self._state)

    def load_state(self, state: Arrays) -> None:
        """Continue from what `state` gave."""
        for name, own in self._state.items():
            np.copyto(own, state[name])


def unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows divided by their lengths, in place; rows of zeros stay.

    >>> unit_rows(np.array([[3, 4], [0, 0]], dtype=np.float32)).round(1).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, norms, out=rows, where=norms > 0)
