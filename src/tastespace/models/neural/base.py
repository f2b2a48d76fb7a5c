"""Base of the models that learn with torch: tensors, batches, optimizer steps, and the common epoch loop.

A model defines its initial weights (`_initial_weights`), the loss of a batch (`_loss`), and its scores: as vectors
(`_space`) where that is possible, because ranking is then native, else by `_scores`. torch is imported when a model is
fitted or scores, so that the library works without it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace._util.checks import (
    require_choice,
    require_number,
    require_whole,
)
from tastespace._util.extras import missing
from tastespace._util.threads import resolve_threads
from tastespace.data.interactions import Interactions
from tastespace.errors import Argument, ParameterError, TrainingError
from tastespace.models.stored_values import (
    Declared,
    Named,
    Unchecked,
    weights_of,
)
from tastespace.models.trained import TrainedRecommender
from tastespace.models.vector_space import VectorSpace
from tastespace.training.loop import Arrays, Callback
from tastespace.training.samplers import NegativeDrawer

Tensors = dict[str, Any]


def require_torch(what: str) -> Any:
    """The torch module, or an error that names the extra."""
    try:
        import torch
    except ImportError as problem:
        raise missing("neural", f"{what} learns with torch") from problem
    return torch


@dataclass(frozen=True)
class Batch:
    """Some positives and their negatives, as tensors on the model's device."""

    users: Any
    """Shape ``(n,)``."""
    items: Any
    """Shape ``(n,)``."""
    negatives: Any
    """Shape ``(n, n_negatives)``."""
    random: Any
    """Random number generator, seeded by the model's seed, the epoch and the batch."""

    @property
    def scored_items(self) -> Any:
        """The positive and then the negatives of each row, shape ``(n, 1 + n_negatives)``."""
        import torch

        return torch.cat([self.items[:, None], self.negatives], dim=1)


class _Weights(TrainedRecommender):
    """State of a fitted neural model; no dataclass, because annotations of those are parameters."""

    extra: ClassVar[str | None] = "neural"
    weights_: dict[str, NDArray[Any]]
    """All learned arrays."""
    _scoring_tensors: tuple[Any, Any] = (None, None)
    """Weights and fixed tensors for scoring, created when first needed."""
    _cached_space: tuple[Any, Any] = (None, None)
    """Weights and the vector space computed from them, for models in which that takes time."""


@dataclass(kw_only=True, eq=False, repr=False)
class NeuralRecommender(_Weights):
    """Base of the models that learn with torch."""

    dim: int = 64
    """Dimension of the vectors."""
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    """L2 penalty of the optimizer on all weights."""
    optimizer: Literal["adam", "adagrad", "sgd"] = "adam"
    batch_size: int = 2048
    """Positives (for autoencoders: users) per step."""
    n_negatives: int = 1
    """Negatives drawn uniformly for each positive, again in every epoch."""
    device: str = "cpu"
    """``"cpu"``, ``"cuda"`` or another device of torch."""
    deterministic: bool = True
    """The same seed gives the same bits for every number of ``threads``: torch computes with one thread, because its
    sums depend on how they are divided among several. False takes all threads, and last bits differ from run to run."""

    # ---- what a model writes -------------------------------------------------------------------------------

    @abstractmethod
    def _initial_weights(self, train: Interactions, random: np.random.Generator) -> Arrays:
        """Weights before training, float32."""

    def _weight_shapes(self, train: Interactions) -> dict[str, tuple[int, ...]] | None:
        """Shapes of `weights_`, for the check of model files; None: any."""
        return None

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        shapes = self._weight_shapes(self.train_)
        any_weights = Named(Unchecked())
        return {**super()._stored(learned), "weights_": any_weights if shapes is None else weights_of(shapes)}

    def _prepare(self, train: Interactions, torch: Any) -> Tensors:
        """Fixed tensors that the loss or the scores need, such as a graph; not saved, created again after loading."""
        return {}

    @abstractmethod
    def _loss(self, weights: Tensors, fixed: Tensors, batch: Batch) -> Any:
        """Loss of a batch, a scalar tensor."""

    def _after_step(self, weights: Tensors) -> None:
        """Called without gradients after each step, to project weights to their region."""

    def _after_epoch(self, weights: Tensors, epoch: int) -> None:
        """Called without gradients after each epoch, for settings that follow a schedule."""

    def _space(self, weights: Arrays) -> VectorSpace | None:
        """The model as vectors, where its score is an inner product or a distance; else None."""
        return None

    def _scores(self, weights: Tensors, fixed: Tensors, users: Any) -> Any:
        """Scores of all items for the users of this tensor of indices, for models without vectors."""
        raise TypeError(f"{type(self).__name__} defines neither _space nor _scores")

    def _n_batched(self, train: Interactions) -> int:
        """Number of training examples of an epoch: positives, unless a model says users."""
        return train.n_interactions

    def _order(self, train: Interactions, epoch: int) -> NDArray[np.int64]:
        """Indices of the positives in the order of an epoch: random, unless a model says otherwise."""
        return np.random.default_rng([self.seed, epoch]).permutation(train.n_interactions)

    def _batches(self, train: Interactions, epoch: int, torch: Any) -> Iterator[Batch]:
        """The batches of an epoch: positives with true negatives."""
        order = self._order(train, epoch)
        users, items = train.row_of_each(), train.indices
        source = NegativeDrawer(train, seed=self.seed, n_threads=self.threads)
        for first in range(0, len(order), self.batch_size):
            part = order[first : first + self.batch_size]
            mine = users[part]
            drawn = source.draw(mine, self.n_negatives, epoch, first)
            # Users with nearly all items have too few negatives: the first is repeated. Without any there is no loss.
            keep = drawn[:, 0] >= 0
            drawn = np.where(drawn >= 0, drawn, drawn[:, :1])[keep]
            if not len(drawn):
                continue
            tensors = [self._tensor(torch, array) for array in (mine[keep], items[part][keep], drawn)]
            yield Batch(tensors[0], tensors[1], tensors[2], self._random(torch, epoch, first))

    @property
    def deterministic_threads(self) -> bool:  # type: ignore[override]
        """True if the number of threads changes no bit."""
        return self.deterministic

    # ---- learning ------------------------------------------------------------------------------------------

    def _check(self) -> None:
        super()._check()
        for name in ("dim", "batch_size", "n_negatives"):
            require_whole(name, getattr(self, name))
        require_number("learning_rate", self.learning_rate, above=0.0)
        require_number("weight_decay", self.weight_decay, least=0.0)
        require_choice("optimizer", self.optimizer, ("adam", "adagrad", "sgd"))
        if not isinstance(self.device, str):
            raise ParameterError(f"device={self.device!r}: expected the name of a device, such as 'cpu'.")
        if not isinstance(self.deterministic, bool):
            raise ParameterError(Argument("deterministic", self.deterministic), ": expected True or False.")

    def _fit(
        self,
        train: Interactions,
        valid: Interactions | None,
        progress: bool | None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        torch = require_torch(type(self).__name__)
        self._check_device(torch)
        with self._on_threads(torch):
            initial = self._initial_weights(train, np.random.default_rng(self.seed))
            trainable = _TorchTrainable(self, train, initial, torch)

            def candidate(result: Arrays) -> NeuralRecommender:
                tensors = (None, trainable._fixed)  # same data, same tensors
                return self._snapshot(train, weights_=result, _scoring_tensors=tensors)

            self.weights_ = self._run_loop(
                trainable,
                train,
                valid,
                validate=self._validator(train, valid, candidate),
                initial=list(initial.values()),
                n_positives=self._n_batched(train),
                progress=progress,
                callbacks=callbacks,
            )
        self._scoring_tensors = (None, None)

    def _check_device(self, torch: Any) -> None:
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as problem:
            raise ParameterError(
                f"device={self.device!r} cannot be used here: {str(problem).splitlines()[0]} Take device='cpu'."
            ) from problem

    @contextmanager
    def _on_threads(self, torch: Any) -> Iterator[None]:
        """The threads of torch, and on other devices its deterministic algorithms where it has them."""
        before = torch.get_num_threads()
        choice = (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled())
        n_threads = resolve_threads(self.threads)
        torch.set_num_threads(1 if self.deterministic else n_threads)
        if self.deterministic and self.device != "cpu":
            torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.set_num_threads(before)
            torch.use_deterministic_algorithms(choice[0], warn_only=choice[1])

    def _tensor(self, torch: Any, array: NDArray[Any]) -> Any:
        """An array on the model's device; indices become 64 bits wide."""
        whole = np.issubdtype(array.dtype, np.integer)
        return torch.as_tensor(array.astype(np.int64) if whole else np.array(array), device=self.device)

    def _random(self, torch: Any, epoch: int, first: int) -> Any:
        words = np.random.SeedSequence([self.seed, epoch, first]).generate_state(1, np.uint64)
        return torch.Generator(device=self.device).manual_seed(int(words[0] >> np.uint64(1)))

    # ---- scoring -------------------------------------------------------------------------------------------

    def vectors(self) -> VectorSpace | None:
        """The learned vectors; None for models whose score is no function of vectors alone."""
        if not hasattr(self, "weights_"):
            self.require_fitted()
        return self._space(self.weights_)

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """Scores of all items, shape ``(len(users), n_items)``."""
        self.require_fitted()
        space = self.vectors()
        if space is not None:
            return space.scores(users)
        torch = require_torch(type(self).__name__)
        with self._on_threads(torch), torch.no_grad():
            weights, fixed = self._scoring_tensors
            if weights is None:
                weights = {name: self._tensor(torch, array) for name, array in self.weights_.items()}
                fixed = self._prepare(self.train_, torch) if fixed is None else fixed
                self._scoring_tensors = (weights, fixed)
            scores = self._scores(weights, fixed, self._tensor(torch, np.asarray(users)))
            return np.ascontiguousarray(scores.cpu().numpy(), dtype=np.float32)


class _TorchTrainable:
    """A neural model as the epoch loop sees it."""

    def __init__(self, model: NeuralRecommender, train: Interactions, initial: Arrays, torch: Any) -> None:
        self._model, self._train, self._torch = model, train, torch
        self._fixed = model._prepare(train, torch)
        self._weights = {
            name: torch.tensor(array, device=model.device).requires_grad_() for name, array in initial.items()
        }
        makers = {"adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad, "sgd": torch.optim.SGD}
        maker, weights = makers[model.optimizer], list(self._weights.values())
        settings = {"lr": model.learning_rate, "weight_decay": model.weight_decay}
        try:
            self._optimizer = maker(weights, fused=True, **settings)  # one pass over the weights, three times as fast
        except (RuntimeError, TypeError):  # an older torch, or a device without it
            self._optimizer = maker(weights, **settings)

    def train_epoch(self, epoch: int, tick: Callable[[int, float], None]) -> dict[str, float]:
        """One pass over all batches."""
        torch, total, seen = self._torch, 0.0, 0
        for batch in self._model._batches(self._train, epoch, torch):
            loss = self._model._loss(self._weights, self._fixed, batch)
            self._optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self._optimizer.step()
            with torch.no_grad():
                self._model._after_step(self._weights)
            n = len(batch.users)
            total, seen = total + float(loss.detach()) * n, seen + n
            tick(n, total / seen)
        with torch.no_grad():
            self._model._after_epoch(self._weights, epoch)
        return {"loss": total / max(1, seen)}

    def state(self) -> Arrays:
        """Weights and optimizer state."""
        found = {name: weight.detach().cpu().numpy() for name, weight in self._weights.items()}
        for name, weight in self._weights.items():
            for key, value in self._optimizer.state.get(weight, {}).items():
                found[f"optimizer.{name}.{key}"] = np.asarray(value.detach().cpu().numpy())
        return found

    def load_state(self, state: Arrays) -> None:
        """Continue from what `state` gave."""
        torch = self._torch
        with torch.no_grad():
            for name, weight in self._weights.items():
                weight.copy_(torch.as_tensor(np.array(state[name])))
        for name, weight in self._weights.items():
            prefix = f"optimizer.{name}."
            kept = {key.removeprefix(prefix): array for key, array in state.items() if key.startswith(prefix)}
            if any(array.size != 1 and array.shape != tuple(weight.shape) for array in kept.values()):
                raise TrainingError(
                    f"the checkpoint does not fit this run: the optimizer's state of {name!r} has another shape."
                )
            self._optimizer.state[weight] = {k: torch.tensor(a, device=weight.device) for k, a in kept.items()}

    def result(self) -> Arrays:
        """The weights as new arrays."""
        return {name: weight.detach().cpu().numpy().copy() for name, weight in self._weights.items()}
