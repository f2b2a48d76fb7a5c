"""Which names a model's parameters have, and which they had in earlier versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tastespace.errors import ParameterError, nearest

RENAMED = {
    "batch": "batch_size",
    "bias_regularisation": "bias_regularization",
    "block": "block_size",
    "both_hidden": "drop_both",
    "candidates": "n_negatives",
    "diversity_weight": "spread_weight",
    "far": "far_nodes",
    "far_neighbours": "n_far_neighbors",
    "hardest": "n_hardest",
    "hidden": "n_hidden",
    "history": "max_history",
    "interests": "n_interests",
    "known": "warm_vectors",
    "layers": "n_layers",
    "max_diversity": "max_spread",
    "min_diversity": "min_spread",
    "near": "near_nodes",
    "near_neighbours": "n_near_neighbors",
    "negatives": "n_negatives",
    "neighbour_weight": "neighbor_weight",
    "neighbours": "n_neighbors",
    "normalise": "normalize",
    "optimiser": "optimizer",
    "pool": "negative_pool_size",
    "regularisation": "regularization",
    "slots": "n_slots",
}
"""Old name -> new name. An entry counts for the models that have the new name and not the old one."""


def require_known(
    model: str, given: Iterable[str], known: Sequence[str], fixed: Mapping[str, str] | None = None
) -> None:
    """Raise unless every given name is one of the parameters ``known`` of the class called ``model``.

    ``fixed`` says of parameters that the model does not have what to do instead.

    >>> require_known("CML", ["candidates"], ["dim", "n_negatives"])
    Traceback (most recent call last):
    tastespace.errors.ParameterError: CML has no parameter candidates: now n_negatives.
    """
    for name in given:
        if name in known:
            continue
        new = RENAMED.get(name)
        if new in known:
            raise ParameterError(f"{model} has no parameter {name}: now {new}.")
        instead = (fixed or {}).get(new or name)
        if instead:
            raise ParameterError(f"{model} has no parameter {name!r}: {instead}")
        raise ParameterError(
            f"{model} has no parameter {name!r}; it has {', '.join(known) or 'none'}.{nearest(name, known)}"
        )
