"""DropoutNet: models that know users and items by preference and by content, and strangers by content alone.

Volkovs et al., "DropoutNet: Addressing Cold Start in Recommender Systems" (NeurIPS 2017), as Section 7.5 and Appendix
C.8 of the DPCML paper use it. The preference input of half the users and items of a batch is replaced by zeros, so that
the fusion networks learn to do without. After training the networks are run once: the model is then an ordinary model
of vectors, and the networks stay to place newcomers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tastespace.data.features import FeatureEncoder, content_for, encoder_for, learn_content
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.base import Recommender, TrainingData
from tastespace.models.extractors import find_extractor
from tastespace.models.fusion_parameters import PairBatch, Places
from tastespace.models.inference import load_if_path
from tastespace.models.networks import SIDES, FusionNetworks
from tastespace.models.torch_base import Batch, Tensors, require_torch
from tastespace.training.batches import SharedNegatives, in_runs
from tastespace.training.loop import Arrays, Callback

Self = TypeVar("Self", bound="DropoutNet")
_METRICS = {"l2": "distances", "dot": "inner products"}
_RUN = 4  # positives of a user that stand together in a batch: its networks run once for them


@dataclass(kw_only=True, eq=False, repr=False)
class DropoutNet(FusionNetworks):
    """Base of the models with fusion networks."""

    # ---- what a model writes -------------------------------------------------------------------------------

    @abstractmethod
    def _latent_model(self) -> Recommender:
        """The model that PT trains first, with the parameters in `latent`."""

    @abstractmethod
    def _pair_loss(self, weights: Tensors, fixed: Tensors, batch: PairBatch, users: Any, items: Any) -> Any:
        """Loss of a batch from vectors ``(n_people, C, dim)`` and ``(n_things, dim)``."""

    def _pool_power(self) -> float | None:
        """Power of popularity by which negatives are drawn; None: uniformly."""
        return None

    @property
    def _apart(self) -> float:
        """Share of the variance that a user's C preference inputs do not have in common before training."""
        return 1.0

    # ---- learning ------------------------------------------------------------------------------------------

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
    ) -> Self:
        """Learn from ``train`` and from content.

        Args:
            train, valid, progress, callbacks: As for every trained model. The best epoch is that of the best mean over
                three figures on ``valid``: of all that is known, with users known by content alone, and with items
                known by content alone.
            user_features, item_features: A frame with the ids in column ``user`` (``item``) and a row for everybody,
                or a matrix with a row for each user or item in the order of ``train.users`` and ``train.items``. By
                default the attributes that ``train`` carries.
            latent: For ``training="pretrained"``: a fitted model with as many vectors per user and the same dimension,
                or the path of a saved one. By default one is trained first.
        """
        self._given = (user_features, item_features, latent)
        try:
            return super().fit(train, valid, progress, callbacks)
        finally:
            self._given = (None, None, None)

    def _check(self) -> None:
        super()._check()
        self._check_fusion()

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        require_torch(type(self).__name__)
        self._check()
        for name in ("user_vectors_", "item_vectors_"):
            vars(self).pop(name, None)  # of an earlier fit
        users, items, latent = self._given
        self.encoders_, self._content = {}, {}
        for side, given in (("user", users), ("item", items)):
            self._encode(side, content_for(train, side, given))
        if self.training == "pretrained" and self.known == "anchored" and not self._strangers():
            raise ParameterError(
                "training='pretrained' with known='anchored' learns where strangers stand and nothing else: it needs "
                "dropout above 0, and content of users or of items."
            )
        self._latent = None
        self.units_ = dict.fromkeys(SIDES, float(self.dim**-0.5))
        if self.training == "pretrained":
            self._latent = self._preferences(train, valid, progress, latent)
            sizes = (max(1e-6, float(np.sqrt(np.square(part).mean()))) for part in self._latent)
            self.units_ = dict(zip(SIDES, sizes, strict=True))
        elif latent is not None:
            raise ParameterError("a latent model was given, but training='joint' learns its own: set 'pretrained'.")
        super()._fit(train, valid, progress)
        self._settle(train)

    def _encode(self, side: str, content: Any) -> None:
        columns = getattr(self, f"{side}_columns")
        encoder = encoder_for(content, side, columns, self.min_count, self.max_vocabulary)
        self.encoders_[side], self._content[side] = encoder, learn_content(encoder, content, side)

    def _preferences(
        self, train: Interactions, valid: Interactions | None, progress: bool | None, latent: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Vectors of the pre-trained model."""
        model = self._latent_model().fit(train, valid, progress) if latent is None else load_if_path(latent)
        if not isinstance(model, Recommender):
            raise ParameterError(
                f"fit(latent=...) was given a {type(model).__name__}, expected a fitted model or the path of a saved "
                "one. Parameters of the model to train first belong to the constructor: "
                f"{type(self).__name__}(latent={{...}})."
            )
        model.require_fitted()
        space = model.vectors()
        wanted = f"{self._copies} vectors of dimension {self.dim} for every user"
        if space is None:
            raise ParameterError(f"{type(model).__name__} has no vectors; expected a model with {wanted}.")
        if space.metric != self._metric:
            raise ParameterError(
                f"{type(model).__name__} scores by {_METRICS[space.metric]}, {type(self).__name__} by "
                f"{_METRICS[self._metric]}: expected a latent model that scores alike, such as "
                f"{type(self._latent_model()).__name__}."
            )
        if space.item_vectors.shape[1] != self.dim or (np.diff(space.user_offsets) != self._copies).any():
            raise ParameterError(
                f"the latent model has {len(space.user_vectors):,} vectors of dimension {space.item_vectors.shape[1]} "
                f"for {len(space.user_offsets) - 1:,} users; expected {wanted}. Train it so, or change dim and "
                "interests."
            )
        if model.train_.users != train.users or model.train_.items != train.items:
            raise ParameterError(
                f"the latent model was fitted on {model.train_!r}, whose users or items are not those of {train!r}."
            )
        return space.user_vectors, space.item_vectors

    def _start(self, train: Interactions, random: np.random.Generator) -> Arrays:
        found: Arrays = {}
        for side in SIDES:
            content = self._content[side]
            name, pyramid = getattr(self, f"{side}_extractor"), self._pyramid(side)
            learned = find_extractor(name).start(content.shape[1], random)
            found |= {f"{side}_extract_{part}": array for part, array in learned.items()}
            lengths = float(content.power(2).sum()) / max(1, content.shape[0])
            usual = lengths if name == "identity" else pyramid.n_features  # extracted numbers are of the order of 1
            found |= pyramid.start(random, max(1e-6, usual))
        if self.training == "joint":
            for side, n in (("user", train.n_users), ("item", train.n_items)):
                own = random.standard_normal((n, self._pyramid(side).copies, self.dim))
                common = random.standard_normal((n, 1, self.dim)) if self._apart < 1 else 0.0
                table = self._apart**0.5 * own + (1 - self._apart) ** 0.5 * common
                found[f"{side}s"] = (self.units_[side] * table).reshape(n, -1).astype(np.float32)
        return found

    def _prepare(self, train: Interactions, torch: Any) -> Tensors:
        share = train.n_interactions / (train.n_users * np.maximum(train.user_counts, 1))
        fixed = {"share": self._tensor(torch, share.astype(np.float32))}
        if self._latent is not None:
            for side, vectors in zip(SIDES, self._latent, strict=True):
                fixed[f"{side}s"] = self._tensor(torch, vectors).view(-1, self._pyramid(side).copies * self.dim)
        return fixed

    def _order(self, train: Interactions, epoch: int) -> NDArray[np.int64]:
        return in_runs(train.offsets, _RUN, np.random.default_rng([self.seed, epoch]))

    def _batches(self, train: Interactions, epoch: int, torch: Any) -> Iterator[Batch]:
        order, users = self._order(train, epoch), train.row_of_each()
        source = SharedNegatives(train, self.pool, self.n_negatives, self.seed, self._pool_power())
        for first in range(0, len(order), self.batch_size):
            part = order[first : first + self.batch_size]
            drawn, usable = source.draw(users[part], epoch, first)
            known = usable.any(axis=1)  # whoever has everything teaches nothing
            if known.any():
                part, drawn, usable = part[known], drawn[known], usable[known]
                places = Places.of(users[part], train.indices[part], drawn)
                yield self._pair_batch(torch, places, usable, part, self._random(torch, epoch, first))

    def _pair_batch(
        self, torch: Any, places: Places, usable: NDArray[np.bool_], positives: NDArray[np.int64], random: Any
    ) -> PairBatch:
        users, items, negatives = (self._tensor(torch, at) for at in (places.users, places.items, places.negatives))
        return PairBatch(
            users, items, negatives, random, places.people, places.things, self._tensor(torch, usable),
            self._tensor(torch, positives),
        )  # fmt: skip

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        import torch

        assert isinstance(batch, PairBatch)
        fused, standing = [], []
        for side, rows in (("user", batch.people), ("item", batch.things)):
            preference = self._preference(weights, fixed, side, rows)
            hidden = torch.rand(len(rows), generator=batch.random, device=self.device) < self.dropout
            fused.append(self._finish(side, self._vectors_of(weights, side, rows, preference, hidden)))
            standing.append(self._finish(side, self.units_[side] * preference))
        shown = [(fused[0], fused[1])]
        if self.known == "anchored" and not self.both_hidden:
            ways = {"user": (fused[0], standing[1]), "item": (standing[0], fused[1])}
            shown = [ways[side] for side in self._strangers()] or [(standing[0], standing[1])]
        elif self.known == "anchored" and self.training == "joint" and self.dropout:
            # Of the pairs above only a quarter has both sides known, too few for those who are to learn from.
            shown.append((standing[0], standing[1]))
        loss = sum(self._pair_loss(weights, fixed, batch, users, items[:, 0]) for users, items in shown)
        if not self.network_decay and loss.requires_grad:  # it does not where nobody of a batch was hidden
            return loss
        return loss + self.network_decay * sum(self._pyramid(side).penalty(weights) for side in SIDES)

    def _strangers(self) -> tuple[str, ...]:
        """Sides whose preference is hidden at times and whose content then says something."""
        return tuple(side for side in SIDES if self.dropout and self._content[side].shape[1])

    def _newcomers_loss(self, histories: Interactions, users: Any, rows: NDArray[np.int64], step: int) -> Any:
        import torch

        part = np.flatnonzero(np.isin(histories.row_of_each(), rows))
        owner = histories.row_of_each()[part]
        # Everybody sees the same negatives, so that nobody's vectors depend on who else is new.
        drawn = np.random.default_rng([self.seed, step]).permutation(histories.n_items)[: self.n_negatives]
        own = histories.matrix[owner][:, drawn].toarray() > 0
        places = Places.of(owner, histories.indices[part], np.tile(drawn, (len(part), 1)))
        batch = self._pair_batch(torch, places, ~own, part, None)
        items = self._tensor(torch, self.item_vectors_[places.things])
        return self._pair_loss({}, self._prepare(histories, torch), batch, users, items)

    def _validator(
        self, train: Interactions, valid: Interactions | None, candidate: Callable[[Arrays], Any]
    ) -> Callable[[Arrays], float] | None:
        """The mean over what the model is for: known users and items, users by content alone, items by content alone.

        Else training would stop when those who are known are served well, and strangers are not yet.
        """
        ways = ((), *((side,) for side in self._strangers()))

        def judge(hidden: tuple[str, ...]) -> Callable[[Arrays], float] | None:
            return super(DropoutNet, self)._validator(train, valid, lambda result: candidate(result)._hiding(hidden))

        judges = [judge for judge in map(judge, ways) if judge is not None]
        return (lambda result: sum(judge(result) for judge in judges) / len(judges)) if judges else None

    # ---- the model file ------------------------------------------------------------------------------------

    def _learned(self) -> dict[str, Any]:
        names = ("weights_", "units_", "user_vectors_", "item_vectors_", "history_", "best_epoch_", "stopped_")
        encoders = {side: encoder.to_plain() for side, encoder in self.encoders_.items()}
        return {name: getattr(self, name) for name in names} | {"encoders_": encoders}

    def _restore(self, learned: dict[str, Any]) -> None:
        for name, value in learned.items():
            setattr(self, name, value)
        self.encoders_ = {side: FeatureEncoder.from_plain(plain) for side, plain in learned["encoders_"].items()}
