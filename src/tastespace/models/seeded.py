"""Models by name with a seed and a number of threads, wherever they or their members have these parameters."""

from __future__ import annotations

from typing import Any

from tastespace.models import Recommender, create


def create_seeded(name: str, seed: int = 0, threads: int = 0, /, **parameters: Any) -> Recommender:
    """As `tastespace.models.create`, with ``seed`` and ``threads`` for the model and the members of a blend.

    ``parameters`` come before both.

    >>> create_seeded("blend:cml+ease", 7, cml__dim=8).members
    [CML(seed=7, dim=8), EASE()]
    """
    common = {
        known: value
        for known in create(name).get_params()
        for end, value in (("seed", seed), ("threads", threads))
        if known == end or known.endswith(f"__{end}")
    }
    return create(name, **{**common, **parameters})
