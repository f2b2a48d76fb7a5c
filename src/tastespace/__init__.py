"""Recommendations for people with more than one taste.

A user is a small set of points, an item is one point, and a smaller distance means a stronger preference.

Data is imported at once, everything else when it is first used: `import tastespace` takes little longer than the import
of NumPy, SciPy's sparse matrices and polars, which ``benchmarks/startup.py`` measures.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tastespace.data import Interactions, split, synthetic

if TYPE_CHECKING:  # the names of _LAZY, for type checkers and editors
    from tastespace.data import datasets
    from tastespace.evaluation import (
        compare,
        cross_validate,
        evaluate,
        over_seeds,
    )
    from tastespace.models.blend.model import Blend
    from tastespace.models.dpcml.model import CML, DPCML
    from tastespace.models.linear.ease import EASE
    from tastespace.models.popular import MostPopular
    from tastespace.models.profiles import Profile, Profiles
    from tastespace.models.updating import update
    from tastespace.recipe import fit
    from tastespace.recommend.rerank.reranked import Reranked, rerank
    from tastespace.recommend.rerank.tradeoff import tradeoff
    from tastespace.recommend.rerank.two_stage import Mixed
    from tastespace.recommend.rules.rules import Rules
    from tastespace.recommend.wording import Wording
    from tastespace.store import load
    from tastespace.tuning import tune

    __version__: str

__all__ = [
    "CML",
    "DPCML",
    "EASE",
    "Blend",
    "Interactions",
    "Mixed",
    "MostPopular",
    "Profile",
    "Profiles",
    "Reranked",
    "Rules",
    "Wording",
    "__version__",
    "compare",
    "cross_validate",
    "datasets",
    "evaluate",
    "fit",
    "load",
    "over_seeds",
    "rerank",
    "split",
    "synthetic",
    "tradeoff",
    "tune",
    "update",
]

_LAZY = {
    "Blend": "tastespace.models.blend",
    "fit": "tastespace.recipe",
    "CML": "tastespace.models.dpcml",
    "DPCML": "tastespace.models.dpcml",
    "EASE": "tastespace.models.linear.ease",
    "Mixed": "tastespace.recommend.rerank.two_stage",
    "MostPopular": "tastespace.models.popular",
    "Profile": "tastespace.models.profiles",
    "Profiles": "tastespace.models.profiles",
    "Reranked": "tastespace.recommend.rerank.reranked",
    "Rules": "tastespace.recommend.rules",
    "Wording": "tastespace.recommend.wording",
    "compare": "tastespace.evaluation",
    "cross_validate": "tastespace.evaluation",
    "evaluate": "tastespace.evaluation",
    "load": "tastespace.store",
    "over_seeds": "tastespace.evaluation",
    "rerank": "tastespace.recommend.rerank.reranked",
    "tradeoff": "tastespace.recommend.rerank.tradeoff",
    "tune": "tastespace.tuning",
    "update": "tastespace.models.updating",
}
_PACKAGES = {"datasets": "tastespace.data.datasets"} | {
    name: f"tastespace.{name}"
    for name in (
        "adapters",
        "cluster",
        "evaluation",
        "models",
        "plots",
        "recipe",
        "recommend",
        "store",
        "training",
        "tuning",
    )
}

if not TYPE_CHECKING:  # with it, type checkers would accept every name

    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            found = getattr(import_module(_LAZY[name]), name)
        elif name in _PACKAGES:
            found = import_module(_PACKAGES[name])
        elif name == "__version__":
            from importlib.metadata import version

            found = version("tastespace")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_PACKAGES})
