"""The paper's figures and five of our own: each is declared next to the function that draws it."""

from tastespace.errors import ParameterError, nearest
from tastespace.paper.figures.ablation import ABLATION_FIGURES
from tastespace.paper.figures.base import FigureData, FigureSpec, NothingToDrawError
from tastespace.paper.figures.comparison import COMPARISON_FIGURES
from tastespace.paper.figures.data import DATA_FIGURES
from tastespace.paper.figures.rules import RULE_FIGURES

__all__ = ["FIGURES", "FigureData", "FigureSpec", "NothingToDrawError", "find_figure"]

_ORDER = (
    "motivation", "preferences", "history", "diversity-accuracy", "sampling", "hard-sampling", "genres", "vectors",
    "delta-unis", "delta-hars", "eta", "dcrs", "training-time", "inference-time", "cold", "taste-map", "accuracy-time",
    "rules", "rules-epochs", "rules-vectors",
)  # fmt: skip
_DECLARED = {spec.name: spec for spec in (*DATA_FIGURES, *ABLATION_FIGURES, *COMPARISON_FIGURES, *RULE_FIGURES)}
FIGURES = {name: _DECLARED[name] for name in _ORDER}
"""All figures, in the order of the paper."""


def find_figure(name: str) -> FigureSpec:
    """A figure by name.

    >>> find_figure("vectors").datasets
    ('steam-200k',)
    """
    if name not in FIGURES:
        raise ParameterError(f"no figure {name!r}; there are {', '.join(FIGURES)}.{nearest(name, FIGURES)}")
    return FIGURES[name]
