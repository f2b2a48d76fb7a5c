"""A model on the users of one partition: its training run, its shared arrays, and its fitted form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import _native
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.errors import Argument, ParameterError
from tastespace.models import registry
from tastespace.models.bpr import BPR
from tastespace.models.dpcml.growing import GrowingTrainer
from tastespace.models.dpcml.kernel import (
    initial_vectors,
    interests_per_user,
    kernel_data,
    kernel_settings,
    kernel_state,
    random_vectors,
)
from tastespace.models.dpcml.kernel import vector_offsets as rows_of_vectors
from tastespace.models.dpcml.model import DPCML
from tastespace.training.loop import Arrays
from tastespace.training.native_trainer import (
    BprTrainer,
    DpcmlTrainer,
    LearningRateSchedule,
    TrainingSettings,
    optimizer_arrays,
    optimizer_state,
    project,
)
from tastespace.training.samplers import UNIFORM, alias_table, popularity_weights

if TYPE_CHECKING:
    from collections.abc import Mapping

SHARED = ("items", "bias")
"""Arrays that all partitions learn together; names that begin with item_ or bias_ are its optimizer's state."""


@dataclass(frozen=True, eq=False)
class Whole:
    """Facts about the data of all partitions that each partition needs."""

    n_users: int
    n_interactions: int
    item_counts: NDArray[np.int64]


def supported(model: Any) -> DPCML | BPR:
    """The model, if it can be trained on partitions; raises otherwise."""
    if not isinstance(model, (DPCML, BPR)):
        raise ParameterError(f"{type(model).__name__} cannot be trained on a cluster; DPCML, CML and BPR can.")
    refused: dict[str, Any] = {"checkpoint": model.checkpoint, "spill": model.spill}
    if isinstance(model, DPCML):
        refused["anchor"] = model.anchor
        if model.n_interests in ("auto", "cross-validated"):
            refused["n_interests"] = model.n_interests
    for name, value in refused.items():
        if value:
            raise ParameterError(
                Argument(name, value),
                " is for training in one process; leave it out with a cluster, whose partitions write "
                "their state in each round.",
            )
    return model


def named_model(name: str, parameters: Mapping[str, Any]) -> DPCML | BPR:
    """A model by the name of its class."""
    return cast("DPCML | BPR", next(cls for cls in registry().values() if cls.__name__ == name)(**parameters))


def part_seed(seed: int, partition: int) -> int:
    """The seed of a partition: numbers of positives begin at 0 in each, and must not draw the same negatives."""
    return int(np.random.SeedSequence([seed, 5, partition]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def part_trainer(
    model: DPCML | BPR, train: Interactions, whole: Whole, partition: int, threads: int
) -> DpcmlTrainer | BprTrainer:
    """The training run of a partition at its start; the arrays that are shared are to be loaded."""
    seed = part_seed(model.seed, partition)
    run = TrainingSettings(
        LearningRateSchedule(model.learning_rate, model.schedule, model.epochs),
        model.average,
        seed,
        threads,
        without_mean=SHARED,  # those of the items are taken of the combined ones
    )
    if isinstance(model, BPR):
        own = model.clone().set_params(seed=seed)
        users = own._random_vectors(np.random.default_rng(seed), train.n_users)
        items, bias = np.zeros((train.n_items, model.dim), np.float32), np.zeros(train.n_items, np.float32)
        kernel = _native.BprData(offsets=train.offsets, positives=train.indices)
        return BprTrainer(train, kernel, own._kernel_state(users, items, bias), own._kernel_settings(), run)
    other = model.clone().set_params(seed=seed)
    other.n_negatives_ = other._negatives_for(train.n_items)
    offsets = vector_offsets(model, train)
    assert offsets is not None
    vectors, _ = initial_vectors(other, offsets, 0)
    state = kernel_state(other, train, vectors, np.zeros((train.n_items, model.dim), np.float32))
    data = kernel_data(other, train, offsets, cast(Interactions, whole))
    return GrowingTrainer(train, data, state, kernel_settings(other), run, model._phases(), offsets)


def epochs_averaged(model: DPCML | BPR, epoch: int) -> int:
    """Number of epochs up to this one that running means may be taken over."""
    return epoch + 1 if isinstance(model, BPR) else model._phases().number_within(epoch)


def splits_before(model: DPCML | BPR, epoch: int) -> bool:
    """Return True if users get their several vectors before this epoch."""
    return isinstance(model, DPCML) and model._phases().splits_before(epoch)


def least_epochs(model: DPCML | BPR) -> int:
    """Epochs whose validations do not count for ``patience``."""
    return 0 if isinstance(model, BPR) else model._phases().least_epochs


def touched_rows(
    model: DPCML | BPR,
    train: Interactions,
    whole: Whole,
    partition: int,
    epoch: int,
    places: tuple[int, int],
    threads: int,
) -> NDArray[np.int64]:
    """Items that a partition needs in a share of an epoch: positives and negatives, both known before training."""
    (keep, other), n_negatives = UNIFORM, 1
    if isinstance(model, DPCML):
        n_negatives = model._negatives_for(train.n_items)
        if model._sampler().by_popularity:
            keep, other = alias_table(popularity_weights(cast(Interactions, whole), model.popularity_power))
    found = _native.touched_items(
        train.offsets,
        train.indices,
        train.n_items,
        keep,
        other,
        n_negatives,
        part_seed(model.seed, partition),
        epoch,
        *places,
        threads,
    )
    return np.flatnonzero(found)


def shared_start(model: DPCML | BPR, n_items: int) -> Arrays:
    """The shared arrays before the first round."""
    values: Arrays
    if isinstance(model, BPR):
        values = {
            "items": model._random_vectors(np.random.default_rng(model.seed), n_items),
            "bias": np.zeros(n_items, np.float32),
        }
    else:
        values = {"items": random_vectors(model, 0, n_items)[1]}
    found = dict(values)
    for name, prefix in (("items", "item"), ("bias", "bias")):
        if name in values:
            state = optimizer_arrays(optimizer_state(model.optimizer, values[name]))
            found |= {f"{prefix}_{part}": array for part, array in state.items()}
    if model.average > 1:
        found |= {f"mean_{name}": array.copy() for name, array in values.items()}
    return found


def is_shared(name: str) -> bool:
    """Return True if an array of a training run's state is shared by all partitions.

    >>> [name for name in ("users", "items", "user_first", "item_first", "mean_bias") if is_shared(name)]
    ['items', 'item_first', 'mean_bias']
    """
    plain = name.removeprefix("mean_")
    return plain in SHARED or plain.startswith(("item_", "bias_"))


def vector_offsets(model: DPCML | BPR, train: Interactions) -> NDArray[np.int64] | None:
    """Offsets of each user's rows among the user vectors; None: one each."""
    if isinstance(model, BPR):
        return None
    return rows_of_vectors(interests_per_user(train.user_counts, *model._interest_rule()))


def projected(model: DPCML | BPR, side: str, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors of a side, "users" or "items", where the model's vectors must lie; changed in place."""
    if isinstance(model, BPR):
        return rows
    settings = kernel_settings(model)
    return project(rows, settings.user_region if side == "users" else settings.item_region, model.radius)


def shared_result(model: DPCML | BPR, shared: Arrays) -> Arrays:
    """The shared arrays as the model uses them: running means, where they must lie."""
    found = {name: shared.get(f"mean_{name}", shared[name]).copy() for name in SHARED if name in shared}
    found["items"] = projected(model, "items", found["items"])
    return found


def users_result(model: DPCML | BPR, state: Arrays) -> NDArray[np.float32]:
    """The user vectors of a partition as the model uses them."""
    return projected(model, "users", state.get("mean_users", state["users"]).copy())


def fitted(model: DPCML | BPR, train: Interactions, users: NDArray[np.float32], shared: Arrays) -> DPCML | BPR:
    """The model with these vectors, which are those of its result."""
    found = model.clone()
    found.user_vectors_, found.item_vectors_ = users, shared["items"]
    if isinstance(found, BPR):
        found.item_bias_ = shared["bias"]
    else:
        offsets = vector_offsets(found, train)
        assert offsets is not None
        found.user_offsets_ = offsets
        found.n_negatives_ = found._negatives_for(train.n_items)
        found.n_interests_ = found._interest_rule()[0]
    found.train_, found.valid_ = train, None
    return found


def rows_only(offsets: NDArray[np.int64], indices: NDArray[np.int32], n_items: int) -> Interactions:
    """Interactions of a partition with numbers in place of ids: training needs no ids."""
    n_users = len(offsets) - 1
    return Interactions(IdMap(pl.int_range(n_users, eager=True), "user"), _numbers(n_items), offsets, indices)


@lru_cache(maxsize=1)
def _numbers(n_items: int) -> IdMap:
    return IdMap(pl.int_range(n_items, eager=True), "item")
