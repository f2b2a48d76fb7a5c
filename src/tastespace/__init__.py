"""Recommendations for people with more than one taste.

A user is a small set of points, an item is one point, and a smaller distance means a stronger preference.
"""

from importlib.metadata import version

from tastespace.data import Interactions, datasets, split, synthetic
from tastespace.evaluation import compare, evaluate, over_seeds
from tastespace.models.baselines import EASE, MostPopular
from tastespace.models.dpcml import CML, DPCML
from tastespace.recommend.rerank import rerank
from tastespace.store import load

__version__ = version("tastespace")
__all__ = [
    "CML",
    "DPCML",
    "EASE",
    "Interactions",
    "MostPopular",
    "__version__",
    "compare",
    "datasets",
    "evaluate",
    "load",
    "over_seeds",
    "rerank",
    "split",
    "synthetic",
]
