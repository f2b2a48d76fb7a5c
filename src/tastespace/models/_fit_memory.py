"""Memory that a model takes while it is fitted, estimated from its parameters before anything is allocated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tastespace._util.checks import is_whole
from tastespace._util.memory import require_memory

if TYPE_CHECKING:
    from tastespace.data.interactions import Interactions
    from tastespace.models.base import Recommender

_PER_WEIGHT = 28  # bytes: float64 when drawn, float32, optimizer, running mean, best epoch
_PER_PAIR = 16  # bytes that a pair gradient takes
_SIZES = (
    "dim",
    "n_interests",
    "min_interests",
    "n_negatives",
    "block_size",
    "batch_size",
    "n_hidden",
    "n_slots",
    "layers",
    "n_layers",
)


def require_memory_to_fit(model: Recommender, train: Interactions) -> None:
    """Raise `ParameterError` where the parameters ask for far more memory than there is; the error says both."""
    known = model.get_params(deep=False)
    named = [f"{name}={known[name]!r}" for name in _SIZES if known.get(name) is not None]
    require_memory(
        f"{type(model).__name__} with {', '.join(named)} on {train!r}", estimated_bytes(model, train), "Lower them."
    )


def estimated_bytes(model: Recommender, train: Interactions) -> float:
    """Memory of vectors, layers and one batch or block, in bytes; models without such parameters: 0.

    >>> from tastespace import DPCML, synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900).interactions
    >>> estimated_bytes(DPCML(dim=1000, n_interests=2), town) > 170 * 1000 * 4
    True
    """

    def size(name: str, default: int = 0) -> float:
        value = getattr(model, name, default)
        return float(value) if is_whole(value, 0) else float(default)

    dim, n_interests = size("dim"), max(1.0, size("n_interests", 1))
    if getattr(model, "n_interests", None) in ("adaptive", "auto", "cross-validated"):  # the last has 3 on average
        n_interests = max(4.0, size("min_interests"))
    n_users = train.n_users if getattr(model, "spill", None) is None else 0  # else user vectors are in files
    weights = (n_users * n_interests + train.n_items) * dim
    weights += (train.n_items + dim) * size("n_hidden") + size("n_slots") * dim
    if hasattr(model, "iterations"):  # least squares: a dim x dim system
        weights += dim * dim
    before = dim
    layers = getattr(model, "layers", None)
    for width in layers if isinstance(layers, (tuple, list)) else ():
        weights += before * float(width) * n_interests
        before = float(width)
    n_drawn = 1 + max(size("n_negatives"), size("negative_pool_size"))
    # A block of the kernels is allocated whole, a batch of torch has at most as many rows as there are.
    batch = max(size("block_size"), min(size("batch_size"), train.n_interactions))
    per_drawn = _PER_PAIR if hasattr(model, "block_size") else 16 * dim
    return _PER_WEIGHT * weights + batch * n_drawn * per_drawn
