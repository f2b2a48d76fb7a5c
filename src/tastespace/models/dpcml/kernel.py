"""Arguments of DPCML's native kernels: vectors per user, initial vectors and state, data, settings."""

from __future__ import annotations

from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import require_whole
from tastespace._util.computed_once import computed_once
from tastespace.data.interactions import Interactions
from tastespace.data.out_of_core.mapped_arrays import new_zeros, row_blocks
from tastespace.errors import ParameterError
from tastespace.models.dpcml._clusters import new_anchors
from tastespace.models.dpcml.growing import repeated
from tastespace.training.native_trainer import OPTIMIZERS, optimizer_state, project
from tastespace.training.samplers import UNIFORM, alias_table, n_beta, popularity_weights
from tastespace.training.visits import filled

if TYPE_CHECKING:
    from tastespace.models.dpcml.model import DPCML

_BALL, _SPHERE = _native.Region.BALL, _native.Region.SPHERE
REGIONS = {"sphere-ball": (_SPHERE, _BALL), "ball": (_BALL, _BALL), "sphere": (_SPHERE, _SPHERE)}  # users, items
DCRS_FORMS = {None: _native.DcrsForm.OFF, "mean": _native.DcrsForm.MEAN, "pairs": _native.DcrsForm.PAIRS}
# With few dimensions the vectors of a user lie far apart: all of them must learn at first, and a bound of their spread
# costs accuracy. With many they would come to fit single items: a bound of their spread is better than smoothing.
_MANY_DIMENSIONS = 48
_TEMPERATURE = 0.6
DPCML_OPTIMIZERS = {**OPTIMIZERS, "dense-adam": _native.Optimizer.ADAM}
GAMMA_RULES = {
    "statistic": _native.GammaRule.GRADIENT,
    "random": _native.GammaRule.GRADIENT,
    "average": _native.GammaRule.AVERAGE,
}

_MOST_INTERESTS = 4096  # a larger number is taken for a mistake


def interests_per_user(
    n_positives: NDArray[np.integer[Any]], n_interests: int | str, least: int = 1, log_base: float = 3.0
) -> NDArray[np.int64]:
    """Number of vectors of each user, shape ``(n_users,)``.

    Args:
        n_positives: Train interactions of each user, n_i.
        n_interests: A whole number C >= 1 gives all users C (BPA); ``"adaptive"`` gives
            ``max(least, floor(log_a n_i))`` (APA).
        least: C_1, minimum number of vectors per user.
        log_base: a > 1; the larger, the fewer.

    The logarithm is exact: its floor is found by comparing whole powers of the base, not by dividing logarithms.

    >>> interests_per_user(np.array([1, 9, 242, 243]), "adaptive", least=1, log_base=3).tolist()
    [1, 2, 4, 5]
    >>> interests_per_user(np.array([1, 9]), 4).tolist()
    [4, 4]
    """
    if isinstance(n_interests, (int, np.integer)) and not isinstance(n_interests, bool):
        if n_interests < 1:
            raise ParameterError(f"n_interests={n_interests}: expected at least 1 vector per user, or 'adaptive'.")
        return np.full(len(n_positives), n_interests, dtype=np.int64)
    if n_interests != "adaptive":
        raise ParameterError(f"n_interests={n_interests!r}: expected a whole number or 'adaptive'.")
    require_whole("min_interests", least)
    if not isinstance(log_base, Real) or not log_base > 1 or not np.isfinite(log_base):
        raise ParameterError(f"log_base={log_base!r}: expected a number larger than 1.")
    base = Fraction(repr(float(log_base)))  # the decimal that was typed
    powers = []
    power = base
    largest = int(n_positives.max(initial=1))
    while power <= largest:
        powers.append(-(-power.numerator // power.denominator))  # n >= power means n >= its ceiling
        power *= base
        if len(powers) > _MOST_INTERESTS:
            raise ParameterError(
                f"log_base={log_base!r} is so close to 1 that a user would get more than {_MOST_INTERESTS} vectors."
            )
    floor_log = np.searchsorted(np.array(powers, dtype=np.int64), n_positives, side="right")
    return np.maximum(least, floor_log).astype(np.int64)


def _regions(model: DPCML) -> tuple[_native.Region, _native.Region]:
    """The regions of user and item vectors."""
    if model.geometry is None:
        return REGIONS["sphere-ball" if model.anchor > 0 else "ball"]
    return REGIONS[model.geometry]


def user_region(model: DPCML) -> _native.Region:
    """The region of user vectors."""
    return _regions(model)[0]


def vector_offsets(n_vectors: NDArray[np.int64]) -> NDArray[np.int64]:
    """Offsets of users with these numbers of vectors: user ``u`` has the rows ``offsets[u]:offsets[u + 1]``.

    >>> vector_offsets(np.array([2, 1, 3])).tolist()
    [0, 2, 3, 6]
    """
    return np.concatenate([[0], np.cumsum(n_vectors)]).astype(np.int64)


def random_vectors(
    model: DPCML, n_user_vectors: int, n_items: int, spill: str | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Initial vectors: the paper's N(0, 0.01^2) for users and N(0, 1/d) for items, projected to their regions.

    On the sphere that is a uniform direction.
    """
    rng = np.random.default_rng(model.seed)
    scale = np.sqrt(model.dim)
    users = filled(spill, (n_user_vectors, model.dim), lambda shape: 0.01 * rng.standard_normal(shape))
    items = filled(None, (n_items, model.dim), lambda shape: rng.standard_normal(shape) * model.radius / scale)
    of_users, of_items = _regions(model)
    return project(users, of_users, model.radius), project(items, of_items, model.radius)


def initial_vectors(
    model: DPCML, offsets: NDArray[np.int64], n_items: int, spill: str | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Vectors that a fit starts from; ``offsets`` are the rows of each user's vectors.

    With ``start="one-vector"`` those of a user are equal, and those of CML.
    """
    if model._phases().one_vector_epochs == 0:
        return random_vectors(model, int(offsets[-1]), n_items, spill)
    users, items = random_vectors(model, len(offsets) - 1, n_items, spill)
    return repeated(offsets, users, lambda shape: new_zeros(spill, shape, np.float32)), items


def initial_gamma(model: DPCML, train: Interactions, spill: str | None = None) -> NDArray[np.float32]:
    """Thresholds of DiHarS, one per positive; -1: set by the first step. Empty for other samplers."""
    differentiable = model._sampler().rule is _native.Sampler.DIFFERENTIABLE
    gamma: NDArray[np.float32] = new_zeros(spill, train.n_interactions if differentiable else 0, np.float32)
    # The paper starts gamma at random without saying how; a violation's size is of the order of the margin.
    rng = np.random.default_rng([model.seed, 1])
    for rows in row_blocks(gamma):
        n = rows.stop - rows.start
        gamma[rows] = rng.uniform(0, model.margin, n) if model.gamma == "random" else -1.0
    return gamma


def kernel_state(
    model: DPCML,
    train: Interactions,
    users: NDArray[np.float32],
    items: NDArray[np.float32],
    spill: str | None = None,
) -> _native.DpcmlState:
    """The state of a run that starts at these vectors; ``spill`` is where arrays of the users' size are kept."""
    return _native.DpcmlState(
        user_vectors=users,
        item_vectors=items,
        gamma=initial_gamma(model, train, spill),
        user_optimizer=optimizer_state(model.optimizer, users, spill),
        item_optimizer=optimizer_state(model.optimizer, items),
        anchors=new_anchors(train.n_interactions, len(users), items) if model.anchor > 0 else None,
    )


def kernel_data(
    model: DPCML, train: Interactions, offsets: NDArray[np.int64], reference: Interactions | None = None
) -> _native.DpcmlData:
    """The interactions to learn from; ``offsets`` are the rows of each user's vectors.

    Item popularity and the mean history length are those of ``reference``, if given.
    """
    kind = model._sampler()
    counts = train.user_counts
    reference = reference or train
    # N / (|U| n_u): with this weight per step, an epoch has the same total weight for all users.
    user_weight = (reference.n_interactions / (reference.n_users * np.maximum(counts, 1))).astype(np.float32)
    keep, other = UNIFORM
    if kind.by_popularity:
        power = model.popularity_power
        keep, other = computed_once(
            reference, ("alias table", power), lambda: alias_table(popularity_weights(reference, power))
        )
    n_hard = np.empty(0, dtype=np.int64)
    if kind.uses_beta:
        n_hard = n_beta(np.maximum(1, train.n_items - counts), model.beta)
    dcrs_weight = user_weight
    if model.optimizer == "dense-adam":  # of a batch's mean over its users
        dcrs_weight = np.full(train.n_users, 1 / model.block_size, dtype=np.float32)
    return _native.DpcmlData(
        offsets=train.offsets,
        positives=train.indices,
        alias_keep=keep,
        alias_other=other,
        vector_offsets=offsets,
        loss_weight=user_weight if model.weighting == "user" else np.ones(train.n_users, dtype=np.float32),
        dcrs_weight=dcrs_weight,
        n_beta=n_hard.astype(np.int32),
    )


def initial_temperature(dim: int) -> float:
    """Temperature of the smooth minimum that a model of this dimension starts with, as a share of the margin.

    >>> initial_temperature(16), initial_temperature(100)
    (0.6, 0.0)
    """
    return _TEMPERATURE if dim < _MANY_DIMENSIONS else 0.0


def dcrs_form(model: DPCML) -> _native.DcrsForm:
    """The form of DCRS that the model's parameters give."""
    unbounded = model.min_spread is None and model.max_spread is None
    if model.spread_weight == 0 or unbounded or (model.dcrs == "auto" and model.dim < _MANY_DIMENSIONS):
        return _native.DcrsForm.OFF
    return DCRS_FORMS["mean" if model.dcrs == "auto" else model.dcrs]


def kernel_settings(model: DPCML) -> _native.DpcmlSettings:
    """The model's parameters as the kernels take them."""
    kind = model._sampler()
    of_users, of_items = _regions(model)
    return _native.DpcmlSettings(
        sampler=kind.rule,
        n_negatives=model._current_negatives(),
        n_hardest=0 if kind.uses_beta or not kind.takes_hardest else model.n_hardest,
        margin=model.margin,
        distance_scale=0.5 / model.radius**2 if model.geometry == "sphere" else 1.0,
        gamma_rule=GAMMA_RULES[model.gamma],
        gamma_rate=model.gamma_rate,
        dcrs=dcrs_form(model),
        spread_weight=model.spread_weight,
        min_spread=-np.inf if model.min_spread is None else model.min_spread,
        max_spread=np.inf if model.max_spread is None else model.max_spread,
        user_region=of_users,
        item_region=of_items,
        radius=model.radius,
        optimizer=_native.OptimizerSettings(
            optimizer=DPCML_OPTIMIZERS[model.optimizer], learning_rate=model.learning_rate
        ),
        block_size=model.block_size,
        anchor=model.anchor,
        batches=model.optimizer == "dense-adam",
    )
