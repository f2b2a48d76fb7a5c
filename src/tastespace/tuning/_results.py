"""Results of a search: the best parameters, the table of trials, and files of parameters (TOML)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import tomli_w
from rich.markup import escape
from rich.table import Table

from tastespace._util.atomic import atomic_write
from tastespace.data.reading.tables import from_polars
from tastespace.errors import ParameterError
from tastespace.models import Recommender, create
from tastespace.tuning.journal import Trial

# ---------------------------------------------------------------------------------------------------------------------
# Files of parameters, which `tastespace tune --out` writes and `tastespace fit --params` reads (TOML).

if sys.version_info >= (3, 11):
    import tomllib
else:  # the same library, before it became part of Python
    import tomli as tomllib

_NONE = "none"  # TOML has no null; no parameter has this text as a value


class Params(NamedTuple):
    """A model and its parameters."""

    model: str
    params: dict[str, Any]


def write_params(path: str | Path, model: str, params: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Write the parameters of a model, and under ``found`` how they were found, for people to read."""
    tables = {"model": model, "params": _plain(params), "found": _plain(found)}
    target = Path(path).expanduser()
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target.resolve()) as temporary:
        temporary.write_text(tomli_w.dumps(tables), encoding="utf-8")


def read_params(path: str | Path, model: str | None = None) -> Params:
    """Model and parameters of a file; an error for those of another model than ``model``, or unknown parameters.

    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "params.toml")
    ...     write_params(file, "ease", {"regularization": 200.0}, {"metric": "NDCG@10"})
    ...     read_params(file)
    Params(model='ease', params={'regularization': 200.0})
    """
    file = Path(path).expanduser()
    expected = 'expected a file that tastespace tune --out has written, with model = "NAME" and a table [params]'
    try:
        with file.open("rb") as opened:
            tables = tomllib.load(opened)
    except OSError as problem:
        raise ParameterError(f"{path}: cannot be read ({problem.strerror}); {expected}.") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ParameterError(f"{path} is not TOML ({problem}); {expected}.") from problem
    name, params = tables.get("model"), tables.get("params")
    if not isinstance(name, str) or not isinstance(params, dict):
        raise ParameterError(f"{path}: {expected}.")
    if model is not None and model != name:
        raise ParameterError(f"{path} holds parameters of {name}, not of {model}. Leave the model out, or take {name}.")
    values = {key: _value(value) for key, value in params.items()}
    try:
        create(name, **values)
    except ParameterError as problem:
        raise ParameterError(f"{path}: ", *problem.args) from problem
    return Params(name, values)


def _plain(value: Any) -> Any:
    """A value as one of TOML's types."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None:
        return _NONE
    return value if isinstance(value, (bool, int, float)) else str(value)


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(one) for one in value]
    if isinstance(value, dict):
        return {key: _value(one) for key, one in value.items()}
    return None if value == _NONE else value


# ---------------------------------------------------------------------------------------------------------------------
# The result of a search: the best parameters, their score, and a table of all trials.

_SHOWN = 10  # best trials in a printed table


@dataclass(frozen=True, eq=False)
class TuneResult:
    """The result of `tastespace.tune`.

    `params` goes to ``create(result.name, **result.params)``, and `save` to a file for ``tastespace fit --params``.
    """

    name: str
    """Name of the model, as in `tastespace.models.create`; of a class outside the registry, the name of the class."""
    params: dict[str, Any]
    """Parameters that differ from the model's defaults, the best number of epochs included."""
    metric: str
    value: float
    """Value of the metric on the held-out part."""
    given_value: float
    """Value of the model as it was given, which is the first trial."""
    trials: list[Trial]
    """Trials in the order in which they were made: number, parameters, validation, score, seconds, best_epoch, cut."""
    seconds: float
    held_out: str
    """Description of the held-out part that trials were measured on."""
    n_users: int
    """Users in the mean."""
    notes: list[str]
    """Remarks for the user: a budget that was too small, trials that failed, ..."""
    best: Recommender
    """The model with the best parameters, not fitted."""
    backend: str = "polars"

    def model(self) -> Recommender:
        """A new model with the best parameters, not fitted: ``result.model().fit(data)``."""
        return self.best.clone()

    def to_frame(self) -> Any:
        """One row per trial: number, the metrics, seconds, best_epoch, and the parameters as JSON."""
        rows = [
            {
                "trial": trial["number"],
                **trial["validation"],
                "seconds": trial["seconds"],
                "best_epoch": trial.get("best_epoch"),
                "parameters": json.dumps(trial["parameters"]),
            }
            for trial in self.trials
        ]
        return from_polars(pl.DataFrame(rows, infer_schema_length=None), self.backend)

    def save(self, path: str | Path) -> None:
        """Write the parameters to a TOML file that ``tastespace fit --params`` takes."""
        found = {
            "metric": self.metric,
            "value": self.value,
            "as_given": self.given_value,
            "held_out": self.held_out,
            "trials": len(self.trials),
            "seconds": round(self.seconds, 1),
        }
        write_params(path, self.name, self.params, found)

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        chosen = short_parameters(self.params) or "the defaults"
        return (
            f"{self.name}: {self.metric} {self.value:.4f} with {chosen}; as given {self.given_value:.4f} "
            f"({self.n_users:,} users, {self.held_out})."
        )

    def __str__(self) -> str:
        rows = [f"{trial['number']:5d}  {_figure(trial, self.metric)}  {trial['seconds']:6.1f} s  "
                f"{short_parameters(trial['parameters'])}" for trial in self._best_first()]  # fmt: skip
        return "\n".join([f"trial  {self.metric}", *rows, "", self.summary, *self.notes])

    def __rich__(self) -> Table:
        title = f"{len(self.trials)} trials of {self.name}, the best {min(_SHOWN, len(self.trials))}"
        table = Table(title=title, title_justify="left", title_style="bold")
        for name in ("trial", self.metric, "seconds"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("parameters", overflow="fold")
        for at, trial in enumerate(self._best_first()):
            cut = " (cut)" if trial.get("cut") else ""
            cells = f"{trial['number']}", _figure(trial, self.metric), f"{trial['seconds']:.1f}{cut}"
            table.add_row(*cells, escape(short_parameters(trial["parameters"])), style="bold" if at == 0 else "")
        return table

    def _best_first(self) -> list[Trial]:
        return sorted(self.trials, key=lambda trial: -trial["score"])[:_SHOWN]


def short_parameters(parameters: Mapping[str, Any]) -> str:
    """``{"dim": 8, "alpha": 0.1}`` as ``dim=8, alpha=0.1``.

    >>> short_parameters({"dim": 8, "sampler": "hard"})
    'dim=8, sampler=hard'
    """
    return ", ".join(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
                     for name, value in parameters.items())  # fmt: skip


def _figure(trial: Trial, metric: str) -> str:
    value = trial["validation"][metric]
    return "failed" if value is None else f"{value:.4f}"
