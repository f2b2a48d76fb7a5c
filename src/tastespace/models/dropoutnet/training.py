"""Training of models with fusion networks: batches, dropout of preference inputs, losses, validation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tastespace._util.interrupts import interrupts_end_task
from tastespace.data.features import (
    FeatureEncoder,
    content_for,
    encoder_for,
    learn_content,
)
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.base import Recommender, TrainingData
from tastespace.models.dropoutnet.fusion import SIDES, FusionRecommender
from tastespace.models.dropoutnet.networks import find_extractor
from tastespace.models.inference import load_if_path
from tastespace.models.neural.base import Batch, Tensors, require_torch
from tastespace.models.stored_values import (
    DIAGNOSTICS,
    HISTORY,
    REAL,
    TEXT,
    WHOLE,
    Declared,
    Named,
    Numbers,
    Unchecked,
    require_stored,
    weights_of,
)
from tastespace.training.loop import Arrays, Callback
from tastespace.training.samplers import SharedNegatives, in_runs

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tastespace.data.reading.options import TableArguments

Self = TypeVar("Self", bound="DropoutNet")
_METRICS = {"l2": "distances", "dot": "inner products"}
_RUN = 4  # consecutive positives of a user in a batch: the user's networks run once for them


@dataclass(frozen=True)
class PairBatch(Batch):
    """Positives as positions in the batch's own lists of distinct users and items: networks run once for each.

    ``users``, ``items`` and ``negatives`` are positions in ``user_rows`` and ``item_rows``.
    """

    user_rows: NDArray[np.int64]
    """Distinct users of the batch, ascending."""
    item_rows: NDArray[np.int64]
    """Distinct items of the batch, negatives included, ascending."""
    usable: Any
    """True for negatives that are not items of the user, shape ``(n, n_negatives)``."""
    positives: Any
    """Indices of the positives in the training data, shape ``(n,)``."""


@dataclass(kw_only=True, eq=False, repr=False)
class DropoutNet(FusionRecommender):
    """Base of the models with fusion networks."""

    # ---- what a model writes -------------------------------------------------------------------------------

    @abstractmethod
    def _latent_model(self) -> Recommender:
        """The model that PT trains first, with the parameters in `latent`."""

    @abstractmethod
    def _pair_loss(self, weights: Tensors, fixed: Tensors, batch: PairBatch, users: Any, items: Any) -> Any:
        """Loss of a batch from vectors ``(len(user_rows), C, dim)`` and ``(len(item_rows), dim)``."""

    def _pool_power(self) -> float | None:
        """Power of popularity by which negatives are drawn; None: uniformly."""
        return None

    @property
    def _initial_spread(self) -> float:
        """Share of the variance of a user's C preference inputs that is not common to them before training."""
        return 1.0

    # ---- fit -----------------------------------------------------------------------------------------------

    def fit(
        self: Self,
        train: TrainingData,
        valid: TrainingData | None = None,
        progress: bool | None = None,
        callbacks: Sequence[Callback] = (),
        *,
        user_features: Any = None,
        item_features: Any = None,
        latent: Recommender | str | Path | None = None,
        **columns: Unpack[TableArguments],
    ) -> Self:
        """Learn from ``train`` and from content.

        Args:
            train, valid, progress, callbacks, **columns: As for every trained model. The best epoch has the largest
                mean of the monitored metric on ``valid`` in three situations: with all preference inputs, with those of
                all users dropped, and with those of all items dropped.
            user_features, item_features: A frame with the ids in column ``user`` (``item``) and a row for each of them,
                or a matrix with a row for each user or item in the order of ``train.users`` and ``train.items``. By
                default the attributes that ``train`` carries.
            latent: For ``training="pretrained"``: a fitted model with as many vectors per user and the same dimension,
                or the path of a saved one. By default one is trained first.
        """
        features = {"user": user_features, "item": item_features}
        return self._fit_to(train, valid, progress, columns, callbacks=callbacks, features=features, latent=latent)

    def _check(self) -> None:
        super()._check()
        self._check_fusion()

    def _fit(
        self,
        train: Interactions,
        valid: Interactions | None,
        progress: bool | None,
        callbacks: Sequence[Callback] = (),
        features: Mapping[str, Any] | None = None,
        latent: Any = None,
    ) -> None:
        require_torch(type(self).__name__)
        for name in ("user_vectors_", "item_vectors_"):
            vars(self).pop(name, None)  # of an earlier fit
        self.encoders_, self._content = {}, {}
        for side in SIDES:
            self._encode(side, content_for(train, side, (features or {}).get(side)))
        if self.training == "pretrained" and self.warm_vectors == "preference" and not self._dropped_sides():
            raise ParameterError(
                "training='pretrained' with warm_vectors='preference' trains the networks for cold start only: it "
                "needs dropout above 0, and content of users or of items."
            )
        self._latent = None
        self.preference_scales_ = dict.fromkeys(SIDES, float(self.dim**-0.5))
        if self.training == "pretrained":
            self._latent = self._latent_vectors(train, valid, progress, latent)
            sizes = (max(1e-6, float(np.sqrt(np.square(part).mean()))) for part in self._latent)
            self.preference_scales_ = dict(zip(SIDES, sizes, strict=True))
        elif latent is not None:
            raise ParameterError("a latent model was given, but training='joint' learns its own: set 'pretrained'.")
        super()._fit(train, valid, progress, callbacks)
        self._finalize(train)

    def _encode(self, side: str, content: Any) -> None:
        columns = getattr(self, f"{side}_columns")
        encoder = encoder_for(content, side, columns, self.min_count, self.max_vocabulary)
        self.encoders_[side], self._content[side] = encoder, learn_content(encoder, content, side)

    def _latent_vectors(
        self, train: Interactions, valid: Interactions | None, progress: bool | None, latent: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Vectors of the pre-trained model."""
        with interrupts_end_task():  # a network on top of half a model is no model
            model = self._latent_model().fit(train, valid, progress) if latent is None else load_if_path(latent)
        if not isinstance(model, Recommender):
            raise ParameterError(
                f"fit(latent=...) was given a {type(model).__name__}, expected a fitted model or the path of a saved "
                "one. Parameters of the model to train first belong to the constructor: "
                f"{type(self).__name__}(latent={{...}})."
            )
        model.require_fitted()
        space = model.vectors()
        wanted = f"{self._n_vectors} vectors of dimension {self.dim} for every user"
        if space is None:
            raise ParameterError(f"{type(model).__name__} has no vectors; expected a model with {wanted}.")
        if space.metric != self._metric:
            raise ParameterError(
                f"{type(model).__name__} scores by {_METRICS[space.metric]}, {type(self).__name__} by "
                f"{_METRICS[self._metric]}: expected a latent model with the same kind of score, such as "
                f"{type(self._latent_model()).__name__}."
            )
        if space.item_vectors.shape[1] != self.dim or (np.diff(space.user_offsets) != self._n_vectors).any():
            raise ParameterError(
                f"the latent model has {len(space.user_vectors):,} vectors of dimension {space.item_vectors.shape[1]} "
                f"for {len(space.user_offsets) - 1:,} users; expected {wanted}. Train it so, or change dim and "
                "n_interests."
            )
        if model.train_.users != train.users or model.train_.items != train.items:
            raise ParameterError(
                f"the latent model was fitted on {model.train_!r}, whose users or items are not those of {train!r}."
            )
        return space.user_vectors, space.item_vectors

    # ---- methods that the torch base calls -----------------------------------------------------------------

    def _initial_weights(self, train: Interactions, random: np.random.Generator) -> Arrays:
        weights: Arrays = {}
        for side in SIDES:
            content = self._content[side]
            name, network = getattr(self, f"{side}_extractor"), self._fusion_network(side)
            extractor = find_extractor(name).initial_weights(content.shape[1], random)
            weights |= {f"{side}_extract_{part}": array for part, array in extractor.items()}
            raw = float(content.power(2).sum()) / max(1, content.shape[0])
            mean_square = raw if name == "identity" else network.n_features  # extracted numbers are of order 1
            weights |= network.initial_weights(random, max(1e-6, mean_square))
        if self.training == "joint":
            spread = self._initial_spread
            for side, n in (("user", train.n_users), ("item", train.n_items)):
                own = random.standard_normal((n, self._fusion_network(side).n_vectors, self.dim))
                common = random.standard_normal((n, 1, self.dim)) if spread < 1 else 0.0
                table = spread**0.5 * own + (1 - spread) ** 0.5 * common
                weights[f"{side}s"] = (self.preference_scales_[side] * table).reshape(n, -1).astype(np.float32)
        return weights

    def _prepare(self, train: Interactions, torch: Any) -> Tensors:
        user_weight = train.n_interactions / (train.n_users * np.maximum(train.user_counts, 1))
        fixed = {"user_weight": self._tensor(torch, user_weight.astype(np.float32))}
        if self._latent is not None:
            for side, vectors in zip(SIDES, self._latent, strict=True):
                width = self._fusion_network(side).n_vectors * self.dim
                fixed[f"{side}s"] = self._tensor(torch, vectors).view(-1, width)
        return fixed

    def _order(self, train: Interactions, epoch: int) -> NDArray[np.int64]:
        return in_runs(train.offsets, _RUN, np.random.default_rng([self.seed, epoch]))

    def _batches(self, train: Interactions, epoch: int, torch: Any) -> Iterator[Batch]:
        order, users = self._order(train, epoch), train.row_of_each()
        pool = SharedNegatives(train, self.negative_pool_size, self.n_negatives, self.seed, self._pool_power())
        for first in range(0, len(order), self.batch_size):
            part = order[first : first + self.batch_size]
            drawn, usable = pool.draw(users[part], epoch, first)
            keep = usable.any(axis=1)  # a positive without a negative has no loss
            if keep.any():
                part, drawn, usable = part[keep], drawn[keep], usable[keep]
                random = self._random(torch, epoch, first)
                yield self._pair_batch(torch, users[part], train.indices[part], drawn, usable, part, random)

    def _pair_batch(
        self,
        torch: Any,
        users: NDArray[Any],
        items: NDArray[Any],
        negatives: NDArray[Any],
        usable: NDArray[np.bool_],
        positives: NDArray[np.int64],
        random: Any,
    ) -> PairBatch:
        """A batch from row indices of users ``(n,)``, items ``(n,)`` and negatives ``(n, n_negatives)``."""
        n = len(items)
        user_rows, user_at = np.unique(users, return_inverse=True)
        item_rows, item_at = np.unique(np.concatenate([items, negatives.ravel()]), return_inverse=True)
        return PairBatch(
            users=self._tensor(torch, user_at),
            items=self._tensor(torch, item_at[:n]),
            negatives=self._tensor(torch, item_at[n:].reshape(n, -1)),
            random=random,
            user_rows=user_rows.astype(np.int64),
            item_rows=item_rows.astype(np.int64),
            usable=self._tensor(torch, usable),
            positives=self._tensor(torch, positives),
        )

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        import torch

        assert isinstance(batch, PairBatch)
        trained, preferred = {}, {}  # vectors with dropout, and preference inputs as vectors
        for side, rows in (("user", batch.user_rows), ("item", batch.item_rows)):
            preference = self._preference(weights, fixed, side, rows)
            dropped = torch.rand(len(rows), generator=batch.random, device=self.device) < self.dropout
            trained[side] = self._project(side, self._train_vectors(weights, side, rows, preference, dropped))
            preferred[side] = self._project(side, self.preference_scales_[side] * preference)
        pairs = [(trained["user"], trained["item"])]
        if self.warm_vectors == "preference" and not self.drop_both:
            one_side = {"user": (trained["user"], preferred["item"]), "item": (preferred["user"], trained["item"])}
            pairs = [one_side[side] for side in self._dropped_sides()] or [(preferred["user"], preferred["item"])]
        elif self.warm_vectors == "preference" and self.training == "joint" and self.dropout:
            # Only a quarter of the pairs above has both preferences, too few to learn the preference inputs from.
            pairs.append((preferred["user"], preferred["item"]))
        loss = sum(self._pair_loss(weights, fixed, batch, users, items[:, 0]) for users, items in pairs)
        if not self.network_decay and loss.requires_grad:  # it does not where nothing of the batch was dropped
            return loss
        return loss + self.network_decay * sum(self._fusion_network(side).l2_penalty(weights) for side in SIDES)

    def _dropped_sides(self) -> tuple[str, ...]:
        """Sides whose preference is subject to dropout and that have content."""
        return tuple(side for side in SIDES if self.dropout and self._content[side].shape[1])

    def _fold_in_loss(self, histories: Interactions, users: Any, rows: NDArray[np.int64], step: int) -> Any:
        import torch

        part = np.flatnonzero(np.isin(histories.row_of_each(), rows))
        owner = histories.row_of_each()[part]
        # The same negatives for all, so that the vectors of a user do not depend on the other new users.
        drawn = np.random.default_rng([self.seed, step]).permutation(histories.n_items)[: self.n_negatives]
        own = histories.matrix[owner][:, drawn].toarray() > 0
        negatives = np.tile(drawn, (len(part), 1))
        batch = self._pair_batch(torch, owner, histories.indices[part], negatives, ~own, part, None)
        items = self._tensor(torch, self.item_vectors_[batch.item_rows])
        return self._pair_loss({}, self._prepare(histories, torch), batch, users, items)

    def _validator(
        self, train: Interactions, valid: Interactions | None, candidate: Callable[[Arrays], Any]
    ) -> Callable[[Arrays], float] | None:
        """The mean metric over warm users and items, users by content alone, and items by content alone.

        With the warm metric alone, training would stop before the networks have learned to do without preference.
        """
        situations = ((), *((side,) for side in self._dropped_sides()))

        def metric_with(dropped: tuple[str, ...]) -> Callable[[Arrays], float] | None:
            def model(result: Arrays) -> Any:
                found = candidate(result)
                found._compute_vectors(found.train_, dropped)
                return found

            return super(DropoutNet, self)._validator(train, valid, model)

        metrics = [metric for metric in map(metric_with, situations) if metric is not None]
        return (lambda result: sum(metric(result) for metric in metrics) / len(metrics)) if metrics else None

    # ---- the model file ------------------------------------------------------------------------------------

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        return {
            "weights_": Unchecked(),  # their shapes follow from the encoders, see _restore
            "preference_scales_": Named(dict.fromkeys(SIDES, REAL)),
            "user_vectors_": Numbers("float32", (self.train_.n_users * self._n_vectors, self.dim)),
            "item_vectors_": Numbers("float32", ("items", self.dim)),
            "fit_epochs_": WHOLE,
            "n_epochs_": WHOLE,
            "history_": HISTORY,
            "best_epoch_": WHOLE,
            "stopped_": TEXT,
            "diagnostics_": DIAGNOSTICS,
            "encoders_": Unchecked(),
        }

    def _learned(self) -> dict[str, Any]:
        arrays = ("weights_", "preference_scales_", "user_vectors_", "item_vectors_")
        training = ("history_", "best_epoch_", "stopped_", "fit_epochs_", "n_epochs_", "diagnostics_")
        encoders = {side: encoder.to_plain() for side, encoder in self.encoders_.items()}
        return {name: getattr(self, name) for name in (*arrays, *training)} | {"encoders_": encoders}

    def _restore(self, learned: dict[str, Any]) -> None:
        for name, value in learned.items():
            setattr(self, name, value)
        self.encoders_ = {side: FeatureEncoder.from_plain(learned["encoders_"][side]) for side in SIDES}
        shapes: dict[str, tuple[int, ...]] = {}
        for side in SIDES:
            shapes |= self._fusion_network(side).weight_shapes()
            extractor, n_features = find_extractor(getattr(self, f"{side}_extractor")), self.encoders_[side].n_features
            for name, array in extractor.initial_weights(n_features, np.random.default_rng(0)).items():
                shapes[f"{side}_extract_{name}"] = array.shape
        found = {"weights_": learned["weights_"]}
        require_stored(type(self).__name__, {"weights_": weights_of(shapes)}, found, self.train_, deep=True)
