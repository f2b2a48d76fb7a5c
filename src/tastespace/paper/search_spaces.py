"""What is searched for each method of the paper: the ranges of this library, and the paper's own grids."""

from __future__ import annotations

from tastespace.errors import ParameterError
from tastespace.paper.methods import SELECTION, Method
from tastespace.paper.stored_parameters import PRETRAINED
from tastespace.tuning import spaces
from tastespace.tuning.spaces import Space

# The grids of the paper's "Implementation Details".
_PAPER: Space = {"margin": (1.0, 1.5, 2.0), "learning_rate": (3e-4, 5e-4, 1e-3, 3e-3, 1e-2)}
_PAPER_SEVERAL: Space = {
    "spread_weight": (10.0, 20.0, 30.0),
    "spread": tuple(
        (low, high) for low in (0.0, 0.05, 0.1, 0.2, 0.5) for high in (0.1, 0.25, 0.35, 0.5, 0.8) if low <= high
    ),
}
_PAPER_BY_SAMPLER: dict[str, Space] = {
    "hard": {"n_negatives": (10,)},
    "uniform": {"n_negatives": (10,)},
    "popularity": {"n_negatives": (10,)},
    "two-stage": {"n_negatives": (10,)},
    "hard-sorted": {
        "n_negatives": (10, 20, 30, 50, 100, 120, 200),
        "beta": (1e-5, 5e-5, 1e-4, 3e-4, 5e-4, 1e-3, 1.5e-3),
    },
}
_PAPER_BY_SAMPLER["hard-differentiable"] = _PAPER_BY_SAMPLER["hard-sorted"]
_PAPER_APA: Space = {"min_interests": (1, 2, 3, 4, 5), "log_base": (2.0, 3.0, 5.0, 10.0)}
_PAPER_BPA: Space = {"n_interests": (2, 3, 4, 5)}

_SELECTION: Space = {name: (value,) for name, value in SELECTION.items()}
_M2F_DCRS: Space = {**spaces.M2F, **_PAPER_SEVERAL}


def _space_of_other(name: str) -> Space:
    """The space of a competitor; where it trains by epochs, the epoch is chosen as in the paper."""
    found = _M2F_DCRS if name == "m2f+dcrs" else spaces.OTHERS.get(name, {})
    return {**found, **_SELECTION} if "validate_every" in found else found


def space_of(method: Method, grid: str = "ours") -> Space:
    """What is searched for a method: name -> values. ``grid`` is ``"ours"`` or ``"paper"``.

    >>> from tastespace.paper.methods import find_method
    >>> space_of(find_method("bpa+hars"), "paper")["n_interests"]
    (2, 3, 4, 5)
    """
    if grid not in ("ours", "paper"):
        raise ParameterError(f"grid={grid!r}: expected 'ours' or 'paper'.")
    if method.second_stage is not None:
        return {"weight": tuple(round(0.1 * tenth, 1) for tenth in range(1, 10))}  # the paper's omega
    if method.model not in ("cml", "dpcml"):
        found = _space_of_other(method.name.removesuffix(PRETRAINED))
        if not method.name.endswith(PRETRAINED):
            return found
        return {name: values for name, values in found.items() if name != "training"} | {"epochs": (16, 40)}
    ours = grid == "ours"
    sampler = method.fixed.get("sampler", method.defaults.get("sampler", "hard"))
    space = {**(spaces.COMMON if ours else _PAPER), **(spaces.BY_SAMPLER if ours else _PAPER_BY_SAMPLER)[sampler]}
    if method.model == "dpcml":
        space |= (
            (spaces.APA if ours else _PAPER_APA)
            if "n_interests" in method.fixed
            else (spaces.BPA if ours else _PAPER_BPA)
        )
        if method.fixed.get("dcrs", "mean") is not None:
            space |= spaces.SEVERAL if ours else _PAPER_SEVERAL
        if ours and method.fixed.get("geometry") == "sphere":
            space |= spaces.ON_THE_SPHERE | (spaces.SEVERAL_ON_THE_SPHERE if "spread" in space else {})
    return space
