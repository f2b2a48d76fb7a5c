"""A flavor of MLflow: models of this library are logged, registered, loaded and served as any other.

The artifact is the model directory of `Recommender.save`, so nothing is pickled. As a ``pyfunc`` model it takes a frame
with a column ``user`` and returns the frame of `Recommender.recommend`; ``params`` are ``k``, ``mix``, ``diversity``,
``exclude_seen`` and ``on_unknown``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tastespace._util.extras import missing
from tastespace.errors import DataError, ParameterError
from tastespace.evaluation.report import Report
from tastespace.models import Recommender
from tastespace.store import load

FLAVOR = "tastespace"
_FOLDER = "model.tastespace"


def save_model(
    model: Recommender,
    path: str | Path,
    metrics: Mapping[str, float] | Report | None = None,
    *,
    mlflow_model: Any = None,
) -> None:
    """Save a fitted model as an MLflow model directory; ``metrics`` are kept with it, as in `Recommender.save`.

    >>> import tempfile
    >>> from tastespace import EASE, synthetic
    >>> model = EASE().fit(synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions)
    >>> folder = f"{tempfile.mkdtemp()}/shop"
    >>> save_model(model, folder)
    >>> load_model(folder).recommend(7, k=3).equals(model.recommend(7, k=3))
    True
    """
    mlflow = _import_mlflow()
    if not isinstance(model, Recommender):
        raise DataError(f"save_model expects a model of tastespace, given {type(model).__name__}.")
    model.require_fitted()
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file, expected a new folder. Give a new name.")
    if folder.exists() and any(folder.iterdir()):
        raise DataError(f"{folder} is not empty. Give a new name.")
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / _FOLDER, metrics=metrics)
    about = mlflow.models.Model() if mlflow_model is None else mlflow_model
    if about.signature is None:
        about.signature = _signature(mlflow, model)
    requirements = [f"tastespace=={version('tastespace')}", f"mlflow-skinny=={mlflow.__version__}", "pandas"]
    environment = mlflow.utils.environment
    conda = environment._mlflow_conda_env(additional_pip_deps=requirements)
    mlflow.pyfunc.add_to_model(
        about,
        loader_module="tastespace.adapters.mlflow",
        data=_FOLDER,
        conda_env="conda.yaml",
        python_env="python_env.yaml",
    )
    about.add_flavor(FLAVOR, tastespace_version=version("tastespace"), data=_FOLDER, model_class=type(model).__name__)
    import yaml

    (folder / "conda.yaml").write_text(yaml.safe_dump(conda), encoding="utf-8")
    (folder / "requirements.txt").write_text("\n".join(requirements) + "\n", encoding="utf-8")
    environment._PythonEnv.current().to_yaml(str(folder / "python_env.yaml"))
    about.save(str(folder / "MLmodel"))


def log_model(
    model: Recommender,
    name: str = "model",
    metrics: Mapping[str, float] | Report | None = None,
    *,
    registered_model_name: str | None = None,
) -> Any:
    """Log a fitted model to the active run, or to a new one; returns MLflow's ``ModelInfo``, with its ``model_uri``.

    Parameters of the model and ``metrics`` are logged with the run.
    """
    mlflow = _import_mlflow()
    import sys

    info = mlflow.models.Model.log(
        artifact_path=None,
        name=name,
        flavor=sys.modules[__name__],
        model=model,
        metrics=metrics,
        registered_model_name=registered_model_name,
    )
    figures = metrics.metrics if isinstance(metrics, Report) else dict(metrics or {})
    run = mlflow.active_run()
    if run is not None:
        mlflow.log_params({key: str(value) for key, value in model.get_params().items()})
        mlflow.log_metrics({_metric_name(key): float(value) for key, value in figures.items()})
    return info


def load_model(model_uri: str) -> Recommender:
    """The model of a run, of the registry or of a folder, with all of its methods."""
    mlflow = _import_mlflow()
    try:
        folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=str(model_uri)))
        flavors = mlflow.models.Model.load(str(folder)).flavors
    except (mlflow.exceptions.MlflowException, OSError) as problem:
        raise DataError(
            f"{model_uri} cannot be opened as a model of MLflow: {problem}. Expected a folder of save_model, or the "
            "model_uri of log_model or of the registry."
        ) from problem
    if FLAVOR not in flavors:
        raise DataError(f"{model_uri} has the flavors {', '.join(flavors)}, expected {FLAVOR}.")
    return load(folder / flavors[FLAVOR]["data"])


def _load_pyfunc(path: str) -> _PyfuncModel:
    """Load a model for `mlflow.pyfunc.load_model`."""
    return _PyfuncModel(load(path))


class _PyfuncModel:
    """A model behind ``predict``."""

    def __init__(self, model: Recommender) -> None:
        self._model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Lists for the users of a frame, as a pandas frame."""
        import pandas as pd

        if "user" not in getattr(model_input, "columns", ()):
            given = list(getattr(model_input, "columns", [])) or type(model_input).__name__
            raise ParameterError(f"expected a frame with a column 'user', given {given}.")
        options = dict(params or {})
        known = ("k", "mix", "diversity", "exclude_seen", "on_unknown")
        unknown = sorted(options.keys() - set(known))
        if unknown:
            raise ParameterError(f"params {', '.join(unknown)}: expected some of {', '.join(known)}.")
        found = self._model.recommend(list(model_input["user"]), **options)
        return found if isinstance(found, pd.DataFrame) else pd.DataFrame({c: list(found[c]) for c in found.columns})


def _signature(mlflow: Any, model: Recommender) -> Any:
    types = mlflow.types
    whole = {kind: ids.series.dtype.is_integer() for kind, ids in _ids(model).items()}
    kinds = {kind: "long" if is_whole else "string" for kind, is_whole in whole.items()}
    columns = {"user": kinds["user"], "item": kinds["item"], "rank": "integer", "score": "float"}
    spec = types.ParamSpec
    return mlflow.models.ModelSignature(
        inputs=types.Schema([types.ColSpec(kinds["user"], "user")]),
        outputs=types.Schema([types.ColSpec(kind, name) for name, kind in columns.items()]),
        params=types.ParamSchema(
            [
                spec("k", "long", 10),
                spec("mix", "string", None),
                spec("diversity", "double", None),
                spec("exclude_seen", "boolean", True),
                spec("on_unknown", "string", "error"),
            ]
        ),
    )


def _ids(model: Recommender) -> dict[str, Any]:
    return {"user": model.train_.users, "item": model.train_.items}


def _metric_name(name: str) -> str:
    """MLflow allows no @ and no parentheses in names of metrics."""
    return name.replace("@", "_at_").replace("(", "_").replace(")", "")


def _import_mlflow() -> Any:
    try:
        import mlflow
        import mlflow.artifacts
        import mlflow.exceptions
        import mlflow.models
        import mlflow.pyfunc
        import mlflow.types
        import mlflow.utils.environment
    except ImportError as problem:
        raise missing("mlflow", "tastespace.adapters.mlflow needs MLflow") from problem
    return mlflow
