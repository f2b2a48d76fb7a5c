"""Defaults of DPCML and CML that follow the size of the data."""

from __future__ import annotations

from tastespace.training.samplers import find_sampler

_ITEMS = ((2_000, 5), (5_000, 10))  # hard negatives of catalogs with at most so many items
_NEGATIVES_OF_LARGE = 20


def default_negatives(sampler: str, n_items: int) -> int:
    """Negatives drawn for each positive where ``n_negatives`` is None.

    >>> [default_negatives("hard", n) for n in (500, 3_000, 20_000)], default_negatives("hard-differentiable", 500)
    ([5, 10, 20], 100)
    """
    kind = find_sampler(sampler)
    if kind.name != "hard":
        return kind.n_negatives
    return next((n for most, n in _ITEMS if n_items <= most), _NEGATIVES_OF_LARGE)


def default_epochs(n_interactions: int) -> int:
    """Epochs where ``epochs`` is None."""
    return 50
