"""Planned runs and the result cache: the folder in which finished runs are kept.

A finished run is found again by a key of everything that decides its metrics: the method's effective parameters, the
data's fingerprints, the seeds, the protocol and metrics, and explicit version numbers of the code (`VERSIONS`). A
rename or a comment leaves the key as it is; whoever changes metrics raises a number, and only those runs are lost.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.atomic import atomic_write
from tastespace.errors import ParameterError
from tastespace.paper.experiment_data import dataset_for, load_parts
from tastespace.paper.methods import Method, find_method
from tastespace.paper.runs import ACCURACY, RunSpec, chosen_parameters, plain_parameters
from tastespace.training.samplers import find_sampler

log = logging.getLogger(__name__)

LIST_DIVERSITY = tuple(f"{name}@{k}" for name in ("MaxDiv", "ILS", "Coverage") for k in (3, 5, 10, 20))
ALL_METRICS = (*ACCURACY, *(f"{name}?" for name in LIST_DIVERSITY), "CategoryMAP?")
"""What a run of a table measures, as far as model and data can give it: training takes the time, so one run serves all
tables."""

VERSIONS: dict[str, int] = {"kernels": 2, "evaluation": 1, "reranking": 1, "cold start": 1, "result": 1}
"""Raise a number where a change of the code changes metrics: ``kernels`` (native code, of all models), ``evaluation``
(metrics, protocols, splits), ``reranking`` (second stages), ``cold start`` (content, cold-start metrics), ``result``
(what a result holds)."""
MODEL_VERSIONS: dict[str, int] = {"als": 2, "sparse-ease": 2}
"""Name in the registry -> version, where it is not 1. Raise it where a change of the model or of its training changes
the metrics that it reaches."""
RENAMED_PARAMETERS: dict[str, str] = {}
"""Present name of a parameter -> its name in the keys of results that were kept before it was renamed."""
_ADDED_PARAMETERS: dict[str, Any] = {"anchor": 0.0, "side": "auto", "deterministic": True}
"""Parameter that a model got later -> the value that changes nothing: with it, results from before keep their keys."""
_WITHOUT_EFFECT = ("checkpoint", "checkpoint_epochs", "checkpoint_minutes", "log_file")
"""Parameters that do not change what is learned."""


@dataclass(frozen=True)
class PlannedRun(RunSpec):
    """One run of one method on one data set with one seed, and the name of its row."""

    metrics: tuple[str, ...] = ALL_METRICS
    label: str | None = None
    """Name of the row, where it is not the method's."""
    quick: bool = False
    """Whether this is a run of few epochs, only to see that it works; its row is marked."""

    @property
    def title(self) -> str:
        """Name of the row."""
        return self.label or find_method(self.method).name

    def key(self) -> str:
        """A hash of everything that decides the metrics, 20 hexadecimal digits."""
        method = find_method(self.method)
        parts = load_parts(dataset_for(self.dataset, method.model), self.split_seed)
        chosen = chosen_parameters(method, self.dataset, self.preset, dict(self.parameters))
        decisive = {
            "method": method.name,
            "parameters": _effective_parameters(method, chosen, self.seed),
            "data": parts.fingerprints,
            "seed": self.seed,
            "protocol": self.protocol,
            "metrics": list(self.metrics),
            "versions": code_versions(method, parts.cold_start is not None),
        }
        return hashlib.sha256(json.dumps(decisive, sort_keys=True, default=str).encode()).hexdigest()[:20]


def code_versions(method: Method, cold_start: bool = False) -> dict[str, int]:
    """The version numbers that concern a method's metrics; a change to another model leaves them as they are.

    >>> code_versions(find_method("cml+hars"))
    {'model': 1, 'kernels': 2, 'evaluation': 1, 'result': 1}
    """
    optional = {"reranking": method.second_stage is not None, "cold start": cold_start}
    found = {name: version for name, version in VERSIONS.items() if optional.get(name, True)}
    return {"model": MODEL_VERSIONS.get(method.model, 1), **found}


def _effective_parameters(method: Method, chosen: dict[str, Any], seed: int) -> dict[str, Any]:
    """Every parameter of the model, whether it was chosen or is a default of the method or the model."""
    try:
        found = plain_parameters(method.build(chosen, seed))
    except ParameterError:
        return chosen  # such a run fails and says why; there will be no metrics
    if "sampler" in found:
        found["sampler"] = _sampler_name(found["sampler"])
    if "seed" in chosen:
        found["seed"] = chosen["seed"]
    return {
        RENAMED_PARAMETERS.get(name, name): value
        for name, value in found.items()
        if name not in _WITHOUT_EFFECT and not (name in _ADDED_PARAMETERS and value == _ADDED_PARAMETERS[name])
    }


def _sampler_name(sampler: Any) -> Any:
    """One name for a sampler, however it was written: ``hars`` and ``hard`` are the same run."""
    try:
        return find_sampler(sampler).name
    except ParameterError:
        return sampler


@dataclass(frozen=True, eq=False)
class RunResult:
    """What a run found."""

    result: dict[str, Any]
    """As `runs.run` gives it."""
    per_user: dict[str, NDArray[np.float64]]
    """Metrics of each user, for paired tests."""


class ResultCache:
    """The folder of finished runs. Files are whole or absent; a damaged one counts as absent."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser()

    def get(self, planned: PlannedRun) -> RunResult | None:
        """The result of a run, or None where it has not been run."""
        path = self.folder / f"{planned.key()}.npz"
        try:
            with np.load(path, allow_pickle=False) as stored:
                text = str(stored["result"])
                per_user = {name.removeprefix("user."): stored[name] for name in stored.files if name != "result"}
                result = json.loads(text)
                whole = isinstance(result, dict) and {"metrics", "seconds"} <= set(result)
        except FileNotFoundError:
            return None
        except Exception as problem:  # a damaged file can raise anything in its reader
            log.warning("%s is damaged (%r) and counts as absent", path, problem)
            return None
        if not whole:
            log.warning("%s is not the result of a run and counts as absent", path)
            return None
        day = datetime.datetime.fromtimestamp(path.stat().st_mtime, tz=datetime.timezone.utc).strftime("%Y-%m-%d")
        result.setdefault("made", {"date": day})
        return RunResult(result, per_user)

    def put(self, planned: PlannedRun, found: RunResult) -> Path:
        """Keep the result of a run."""
        path = self.folder / f"{planned.key()}.npz"
        content = {f"user.{name}": values.astype(np.float32) for name, values in found.per_user.items()}
        stored = {**found.result, "planned": {**asdict(planned), "parameters": dict(planned.parameters)}}
        everything: dict[str, Any] = {"result": np.array(json.dumps(stored, default=str)), **content}
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **everything)
        return path

    def problem_of(self, planned: PlannedRun) -> str:
        """Why an earlier attempt gave no result; empty where there was none."""
        path = self._problem_file(planned)
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def keep_problem(self, planned: PlannedRun, text: str) -> None:
        """Say why a run gave no result; an empty text removes what was said before."""
        path = self._problem_file(planned)
        if text:
            with atomic_write(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        else:
            path.unlink(missing_ok=True)

    def _problem_file(self, planned: PlannedRun) -> Path:
        return self.folder / f"{planned.key()}.problem.txt"
