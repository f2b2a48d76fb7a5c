"""Autoencoders of user histories with a multinomial likelihood: Mult-VAE and Mult-DAE."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tastespace._util.checks import require_nonnegative_weights, require_number, require_whole
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.neural.base import Batch, NeuralRecommender, Tensors
from tastespace.training.loop import Arrays

Self = TypeVar("Self", bound="_Autoencoder")

_SMALL = 1e-30  # keeps the scale of a history finite whose weights are all 0
_GROUP = 16  # users are scored in multiples of this


@dataclass(frozen=True)
class Histories(Batch):
    """Whole histories of some users: `items` holds them one after the other, there are no negatives."""

    offsets: Any
    """The history of the r-th user is ``items[offsets[r]:offsets[r + 1]]``. Shape ``(n + 1,)``."""
    progress: float
    """Epochs done so far, the part of this one included."""
    values: Any = None
    """Weights of the interactions, in the order of `items`; None: all 1."""

    def sums(self, power: int) -> Any:
        """Sum of the values of each history to this power, shape ``(n,)``."""
        import torch

        if self.values is None:
            return self.offsets.diff().float()
        return torch.segment_reduce(self.values**power, "sum", offsets=self.offsets)


@dataclass(kw_only=True, eq=False, repr=False)
class _Autoencoder(NeuralRecommender):
    """Base of both: histories in, logits of a multinomial over all items out."""

    uses_weights = True

    dim: int = 200
    """Dimension of the code."""
    n_hidden: int = 600
    """Units of the layer between items and code, on both sides; 0 leaves it out."""
    dropout: float = 0.5
    """Share of a history that is dropped from the encoder's input, drawn again in every epoch."""
    batch_size: int = 128
    """Users per step."""
    n_negatives: int = field(default=1, init=False)

    def _check(self) -> None:
        super()._check()
        require_whole("n_hidden", self.n_hidden, least=0)
        require_number("dropout", self.dropout, least=0.0)
        if self.dropout >= 1:
            raise ParameterError(f"dropout={self.dropout!r}: expected the share of a history to drop, below 1.")

    def _codes(self) -> int:
        """Number of outputs of the encoder."""
        return self.dim

    def _initial_weights(self, train: Interactions, random: np.random.Generator) -> Arrays:
        found: Arrays = {}
        for name, shape in self._tables(train).items():
            limit = (6.0 / sum(shape)) ** 0.5
            found[name] = random.uniform(-limit, limit, shape).astype(np.float32)
            found[f"{name}_bias"] = np.zeros(self._n_biases(name, shape), dtype=np.float32)
        return found

    def _weight_shapes(self, train: Interactions) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for name, shape in self._tables(train).items():
            found |= {name: shape, f"{name}_bias": (self._n_biases(name, shape),)}
        return found

    def _n_biases(self, name: str, shape: tuple[int, int]) -> int:
        return shape[1] if name == "in" else shape[0]

    def _tables(self, train: Interactions) -> dict[str, tuple[int, int]]:
        """Shapes of the layers; rows of the tables "in" and "out" belong to items."""
        shapes = {
            "in": (train.n_items, self.n_hidden or self._codes()),
            "out": (train.n_items, self.n_hidden or self.dim),
        }
        if self.n_hidden:
            shapes |= {"encode": (self._codes(), self.n_hidden), "decode": (self.n_hidden, self.dim)}
        return shapes

    def _prepare(self, train: Interactions, torch: Any) -> Tensors:
        require_nonnegative_weights(type(self).__name__, train.weights)
        return {}

    # ---- batches of users ----------------------------------------------------------------------------------

    def _n_batched(self, train: Interactions) -> int:
        return int(np.count_nonzero(train.user_counts))

    def _batches(self, train: Interactions, epoch: int, torch: Any) -> Iterator[Batch]:
        order = np.random.default_rng([self.seed, epoch]).permutation(np.flatnonzero(train.user_counts))
        for first in range(0, len(order), self.batch_size):
            random, progress = self._random(torch, epoch, first), epoch + first / len(order)
            yield self._histories(torch, train, order[first : first + self.batch_size], random, progress)

    def _histories(
        self,
        torch: Any,
        train: Interactions,
        users: NDArray[np.integer[Any]],
        random: Any = None,
        progress: float = 0.0,
    ) -> Histories:
        offsets, items = train.rows_of(users)
        return Histories(
            users=self._tensor(torch, users),
            items=self._tensor(torch, items),
            negatives=None,
            random=random,
            offsets=self._tensor(torch, offsets),
            progress=progress,
            values=None if train.weights is None else self._tensor(torch, train.matrix[users].data),
        )

    # ---- the network ---------------------------------------------------------------------------------------

    def _first_layer(self, weights: Tensors, items: Any, offsets: Any, values: Any, scale: Any) -> Any:
        """W x + b for the histories x, whose entries are ``values`` times the ``scale`` of the user: sums of rows."""
        from torch.nn.functional import embedding_bag

        sums = embedding_bag(
            items, weights["in"], offsets, mode="sum", per_sample_weights=values, include_last_offset=True
        )
        return sums * scale[:, None] + weights["in_bias"]

    def _encode(self, weights: Tensors, items: Any, offsets: Any, values: Any, scale: Any) -> Any:
        from torch.nn.functional import linear

        first = self._first_layer(weights, items, offsets, values, scale)
        return linear(first.tanh(), weights["encode"], weights["encode_bias"]) if self.n_hidden else first

    def _decode(self, weights: Tensors, code: Any) -> Any:
        """Logits of all items."""
        from torch.nn.functional import linear

        if self.n_hidden:
            code = linear(code, weights["decode"], weights["decode_bias"]).tanh()
        return linear(code, weights["out"], weights["out_bias"])

    @abstractmethod
    def _code(self, encoded: Any, batch: Histories | None) -> tuple[Any, Any]:
        """The code that is decoded, and its loss term; without a batch, the code for scoring."""

    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        import torch

        assert isinstance(batch, Histories)
        items, offsets, values = batch.items, batch.offsets, batch.values
        counts = offsets.diff()
        scale = batch.sums(2).clamp_min(_SMALL).rsqrt()
        if self.dropout:
            # A dropped item is left out of the sum of the first layer.
            kept = torch.rand(len(items), generator=batch.random, device=items.device) >= self.dropout
            before = torch.cat([kept.new_zeros(1, dtype=torch.int64), kept.cumsum(0)])
            items, offsets, scale = items[kept], before[offsets], scale / (1 - self.dropout)
            values = None if values is None else values[kept]
        code, cost = self._code(self._encode(weights, items, offsets, values, scale), batch)
        logits = self._decode(weights, code)
        owner = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
        own = logits[owner, batch.items]
        own = own if batch.values is None else own * batch.values
        return ((logits.logsumexp(dim=1) * batch.sums(1)).sum() - own.sum()) / len(counts) + cost

    def _scores(self, weights: Tensors, fixed: Tensors, users: Any) -> Any:
        import torch

        # BLAS multiplies a matrix of one row in another way than one of several, and the last bits differ; in whole
        # groups, the scores of a user do not depend on the other users of the block.
        padded = np.pad(users.cpu().numpy(), (0, -len(users) % _GROUP), mode="edge")
        batch = self._histories(torch, self.train_, padded)
        scale = batch.sums(2).clamp_min(1.0 if batch.values is None else _SMALL).rsqrt()
        code, _ = self._code(self._encode(weights, batch.items, batch.offsets, batch.values, scale), None)
        return self._decode(weights, code)[: len(users)]

    def _fold_in(self: Self, histories: Interactions) -> Self:
        return copy.copy(self)  # scores come from the histories and the weights alone


@dataclass(kw_only=True, eq=False, repr=False)
class MultVAE(_Autoencoder):
    """Variational autoencoder with a multinomial likelihood (Liang et al., "Variational Autoencoders for
    Collaborative Filtering", WWW 2018).

    The history x of a user (ones, or the weights of the interactions), divided by its norm and with dropout, becomes a
    Gaussian code
    ``z ~ N(mu(x), diag(sigma(x)^2))``, which becomes logits f(z) of all items. With pi = softmax(f(z)), the loss is
    ``- sum_i x_i log pi_i + beta KL(N(mu, sigma^2) || N(0, I))``. Items are scored by f(mu(x)).

    The publication raises beta by gradient steps and stops where validation is best; here it rises from 0 to `beta` in
    a straight line over `anneal_epochs` epochs. Scores are a function of the history, so that fold-in needs no
    training.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> model = MultVAE(dim=8, n_hidden=16, epochs=2).fit(town)
    >>> model.recommend_for([town.items_of(7)], k=3)["rank"].to_list()
    [1, 2, 3]
    """

    beta: float = 0.2
    """Largest weight of the KL term."""
    anneal_epochs: int = 20
    """Epochs over which the weight rises to `beta`."""

    def _check(self) -> None:
        super()._check()
        require_number("beta", self.beta, least=0.0)
        require_whole("anneal_epochs", self.anneal_epochs, least=0)

    def _codes(self) -> int:
        return 2 * self.dim  # means and logarithms of variances

    def _code(self, encoded: Any, batch: Histories | None) -> tuple[Any, Any]:
        import torch

        mean, log_variance = encoded.chunk(2, dim=1)
        if batch is None:
            return mean, 0.0
        noise = torch.randn(mean.shape, generator=batch.random, device=mean.device)
        divergence = 0.5 * (log_variance.exp() + mean.square() - 1 - log_variance).sum(dim=1).mean()
        weight = self.beta * min(1.0, batch.progress / self.anneal_epochs) if self.anneal_epochs else self.beta
        return mean + (0.5 * log_variance).exp() * noise, weight * divergence


@dataclass(kw_only=True, eq=False, repr=False)
class MultDAE(_Autoencoder):
    """Denoising autoencoder with a multinomial likelihood (Liang et al., WWW 2018): `MultVAE` without its Gaussian.

    The history x of a user (ones, or the weights of the interactions), divided by its norm and with dropout, becomes a
    code
    ``z = tanh(g(x))`` and logits f(z) of all items; with pi = softmax(f(z)), the loss is ``- sum_i x_i log pi_i``.

    The publication found no hidden layer to be best: then g and f are linear. Its L2 penalty is `weight_decay`.

    >>> from tastespace import synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> MultDAE(dim=8, epochs=2).fit(town).recommend([7], k=3)["rank"].to_list()
    [1, 2, 3]
    """

    n_hidden: int = 0

    def _code(self, encoded: Any, batch: Histories | None) -> tuple[Any, Any]:
        return encoded.tanh(), 0.0
