"""Pages of the API, from docstrings: which objects each page has; `tests/test_site.py` looks for what is missing."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from tastespace import models

# The file that a page of the repository links to for each page of the API.
SOURCES = {
    "top": "__init__.py",
    "data": "data/__init__.py",
    "recommender": "models/base.py",
    "models": "models/__init__.py",
    "evaluation": "evaluation/__init__.py",
    "tuning": "tuning/__init__.py",
    "plots": "plots/__init__.py",
    "store": "store/__init__.py",
    "vector_stores": "recommend/stores/__init__.py",
    "adapters": "adapters/__init__.py",
    "client": "client.py",
    "cluster": "cluster/__init__.py",
    "testing": "testing.py",
    "errors": "errors.py",
}

# A page: its title, a sentence, and sections of objects. A class is shown with its methods.
_PAGES: dict[str, tuple[str, str, dict[str, list[str]]]] = {
    "top": (
        "tastespace",
        "What most programs need, after `import tastespace as ts`. All but the data is imported when it is first used.",
        {
            "Fit, update, tune": ["tastespace.fit", "tastespace.update", "tastespace.tune", "tastespace.load"],
            "Evaluate and compare": [
                "tastespace.evaluate",
                "tastespace.compare",
                "tastespace.cross_validate",
                "tastespace.over_seeds",
                "tastespace.tradeoff",
            ],
            "Lists of any model": ["tastespace.rerank", "tastespace.Reranked", "tastespace.Mixed"],
        },
    ),
    "data": (
        "Data",
        "From a table to `Interactions`, splits, named and synthetic data sets.",
        {
            "Interactions": ["tastespace.Interactions", "tastespace.data.Cleaning", "tastespace.data.IdMap"],
            "Splits": [
                f"tastespace.split.{name}"
                for name in (
                    "per_user", "hold_out", "HeldOut", "inner", "by_time", "rolling", "folds", "leave_k_out",
                    "by_column", "cold_users", "cold_items",
                )
            ],
            "Synthetic data": [
                f"tastespace.synthetic.{name}" for name in ("multi_interest", "shop", "SyntheticData", "ShopData")
            ],
            "Named data sets": [
                f"tastespace.datasets.{name}"
                for name in (
                    "load", "load_split", "load_content", "names", "describe", "describe_all", "DatasetInfo",
                )
            ],
            "Cold-start data": [
                f"tastespace.data.cold_start.{name}"
                for name in ("load", "names", "hold_out", "inner_split", "ColdStart")
            ],
        },
    ),
    "recommender": (
        "A fitted model",
        "The methods that every model has, and what they give back.",
        {
            "Recommender": ["tastespace.models.Recommender"],
            "Shelves and explanations": [
                "tastespace.recommend.shelves.Shelves",
                "tastespace.recommend.shelves.Shelf",
                "tastespace.recommend.explanations.Explanation",
                "tastespace.Wording",
            ],
            "Rules and profiles": ["tastespace.Rules", "tastespace.Profiles", "tastespace.Profile"],
            "Vectors": ["tastespace.models.VectorSpace"],
        },
    ),
    "models": (
        "Models",
        "Every model by its class. [The table](/reference/models.md) says what each supports.",
        {
            "By name": [f"tastespace.models.{name}" for name in ("create", "registry", "table", "ModelInfo")],
            "Classes": [f"tastespace.models.{one.class_name}" for one in models.table()],
        },
    ),
    "evaluation": (
        "Evaluation",
        "Reports, protocols, tests of differences, and the paper's theory as functions.",
        {
            "Reports": [
                f"tastespace.evaluation.{name}" for name in ("Report", "Comparison", "CrossValidation", "Protocol")
            ],
            "For several interests": [
                f"tastespace.evaluation.{name}"
                for name in ("interest_coverage", "taste_recovery", "preference_diversity")
            ],
            "Cold start": ["tastespace.evaluation.cold_start.evaluate_cold"],
            "Theory": [
                f"tastespace.evaluation.theory.{name}" for name in import_module("tastespace.evaluation.theory").__all__
            ],
        },
    ),
    "tuning": (
        "Recipe and tuning",
        "What `tastespace.fit` and `tastespace.tune` give back.",
        {
            "Recipe": ["tastespace.recipe.RecipeReport"],
            "Tuning": [
                f"tastespace.tuning.{name}"
                for name in ("TuneResult", "space_of_model", "read_params", "write_params")
            ],
        },
    ),
    "plots": (
        "Pictures",
        "They need matplotlib, the `plots` extra.",
        {"Functions": [f"tastespace.plots.{name}" for name in ("draw_shelves", "taste_map", "draw_tradeoff")]},
    ),
    "store": (
        "Model files",
        "Saving, opening and looking at models. [The format](/model-format.md) is documented apart.",
        {"Functions": [f"tastespace.store.{name}" for name in ("save", "load", "inspect")]},
    ),
    "vector_stores": (
        "Vector databases",
        "What `Recommender.export_to` gives, and what opens it later. [How to](/how-to/vector-database.md) use them.",
        {"Stores": [f"tastespace.recommend.stores.{name}" for name in ("open_vector_store", "VectorStore")]},
    ),
    "adapters": (
        "Adapters",
        "To and from other libraries. [How to](/how-to/other-libraries.md) use them, and LensKit and RecTools.",
        {
            "Data of implicit": [
                f"tastespace.adapters.implicit.{name}" for name in ("from_implicit", "to_implicit")
            ],
            "Data of surprise": [
                f"tastespace.adapters.surprise.{name}" for name in ("from_surprise", "to_surprise")
            ],
            "Searches of scikit-learn": [
                f"tastespace.adapters.sklearn.{name}" for name in ("search_data", "cv_splits", "metric_scorer")
            ],
            "MLflow": [
                f"tastespace.adapters.mlflow.{name}" for name in ("save_model", "log_model", "load_model")
            ],
        },
    ),
    "client": (
        "Client of the server",
        "Needs the `serve` extra.",
        {
            "Client": [f"tastespace.client.{name}" for name in ("Client", "ServerError", "ServedProfile", "Event")],
            "Answers": [
                f"tastespace.answers.types.{name}"
                for name in (
                    "Recommendations", "Item", "NamedItem", "PastItem", "HistoryItem", "FoundItem", "ShelfAnswer",
                    "Interest", "ExplanationAnswer", "AudienceUser", "FoundUser", "Map", "Stored",
                )
            ],
        },
    ),
    "cluster": (
        "Cluster",
        "Training on partitions of the users, and lists in Dask, Spark and Ray.",
        {
            "Functions and classes": [
                f"tastespace.cluster.{name}"
                for name in ("ClusterOptions", "BatchAnswers", "fit_on_cluster", "fit_files", "lists_on_cluster")
            ]
        },
    ),
    "testing": (
        "Tests for your own model",
        "One suite that every model of the library passes.",
        {"Suite": ["tastespace.testing.RecommenderConformance"]},
    ),
    "errors": (
        "Errors",
        "Every error of the library is a `TastespaceError` and says what was given, what was expected and what to do.",
        {
            "Classes": [
                f"tastespace.errors.{name}"
                for name in (
                    "TastespaceError", "DataError", "ParameterError", "UnknownIdError", "DatasetError", "TrainingError",
                    "ClusterError", "ModelFileError", "ForkError", "NotFittedError",
                )
            ]
        },
    ),
}  # fmt: skip


def pages() -> dict[str, str]:
    """The text of each page, by name."""
    return {f"api/{name}": _page(*page) for name, page in _PAGES.items()}


def _page(title: str, about: str, sections: dict[str, list[str]]) -> str:
    parts = [f"# {title}", about]
    for section, objects in sections.items():
        parts.append(f"## {section}")
        parts += [f"```{{eval-rst}}\n{_directive(one)}\n```" for one in objects]
    return "\n\n".join(parts) + "\n"


def _directive(path: str) -> str:
    found = _found(path)
    if not inspect.isclass(found):
        return f".. autofunction:: {path}"
    if issubclass(found, BaseException):
        return f".. autoexception:: {path}\n   :show-inheritance:"
    lines = [f".. autoclass:: {path}", "   :members:"]
    if issubclass(found, models.Recommender):
        lines.append("   :show-inheritance:")
        if found is models.Recommender:
            lines.append("   :inherited-members: ABC")
        else:
            # What all models have is described once, in `Recommender`.
            lines.append(f"   :exclude-members: {', '.join(sorted(_shared_members(found)))}")
    return "\n".join(lines)


def _shared_members(model: type) -> set[str]:
    """What a model has as every other one does, and the hooks that its base class calls."""
    return {name for name in vars(model) if hasattr(models.Recommender, name) and name not in ("partial_fit", "fit")}


def _found(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError:  # tastespace.split is an attribute, no module
        return getattr(_found(module), name)
