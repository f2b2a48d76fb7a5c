"""One run of one method on one data set: load, split, train, select on validation, evaluate on test.

All accuracy in a run's result is in percent, as in the paper's tables: test and validation metrics and the monitored
metric in the training history. MaxDiv, ILS and Coverage are in their own units.
"""

from __future__ import annotations

import datetime
import logging
import os
import platform
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import tastespace
from tastespace import _native
from tastespace.data import Interactions, split
from tastespace.data.cold_start import ColdStart
from tastespace.errors import Argument, ParameterError
from tastespace.evaluation import Report, evaluate
from tastespace.evaluation.cold_start import evaluate_cold
from tastespace.evaluation.metrics import METRICS
from tastespace.models import Recommender, registry
from tastespace.models.dpcml.model import CML, DPCML
from tastespace.paper.data import (
    Parts,
    content_arguments,
    content_settings,
    dataset_for,
    load_parts,
)
from tastespace.paper.methods import Method, find_method, stored_parameters

log = logging.getLogger(__name__)

ACCURACY = ("P", "R", "NDCG", "MAP", "MRR")
VALIDATION = ("P@3", "MAP", "MRR")
COLD_START_METRICS = ("P@3", "R@3", "NDCG@3")
"""Metrics of each situation in the paper's table."""
COLD_START_FIGURES = tuple(
    f"{situation} {metric}"
    for situation in ("cold user", "cold item", "cold item (all)")
    for metric in COLD_START_METRICS
)
"""Cold-start items are ranked among the new ones, and (all) among the whole catalog."""
_TIMED_K = 20  # items in each list whose computation is timed
_REPEATS, _MAX_SECONDS = 10, 3.0  # as often as the paper, but no longer than so many seconds
_PACKAGES = ("numpy", "scipy", "polars", "torch", "matplotlib")


@dataclass(frozen=True)
class RunSpec:
    """Declaration of a run; see `run`."""

    dataset: str
    method: str
    seed: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the stored parameters."""
    preset: str | None = None
    split_seed: int = 0
    protocol: str = "paper"
    metrics: tuple[str, ...] = ACCURACY


def run(
    dataset: str,
    method: str,
    *,
    parameters: dict[str, Any] | None = None,
    preset: str | None = None,
    seed: int = 0,
    split_seed: int = 0,
    protocol: str = "paper",
    metrics: tuple[str, ...] = ACCURACY,
    threads: int = 0,
    progress: bool | None = None,
    parts: Parts | None = None,
) -> dict[str, Any]:
    """Run a method of the paper and return its test metrics in percent.

    Args:
        dataset: A name of `tastespace.datasets`, or ``"town"``.
        method: A name of `method_names`, such as ``"apa+dihars"``.
        parameters: Changes to the stored parameters; they may not turn the method into another one.
        preset: None takes the parameters stored for this data set, ``"paper"`` the plain published setting,
            ``"default"`` the library's defaults.
        seed: Of the training only.
        split_seed: Of the split, where the data set has no published one.
        parts: The data itself, split; ``dataset`` is then its name alone. See `parts_of_table`.

    Returns:
        ``dataset, method, parameters, unit, metrics, valid_metrics, seconds_per_epoch, epochs, history, seconds,
        train_seconds, inference_seconds, peak_mb, version`` and the seeds. ``unit`` is ``"%"``: that of accuracy.
    """
    spec = RunSpec(dataset, method, seed, parameters or {}, preset, split_seed, protocol, metrics)
    return execute(spec, threads, progress, parts)[0]


def parts_of_table(name: str, data: Interactions, split_seed: int = 0) -> Parts:
    """A table of one's own as an experiment: 60 % training, 20 % validation, 20 % test.

    Of each history, as in the paper; by time where the data has timestamps, for users with an earlier history.
    """
    ratios = (0.6, 0.2, 0.2)
    by_time = data.timestamps is not None
    parts = split.by_time(data, ratios, min_history=1) if by_time else split.per_user(data, ratios, seed=split_seed)
    train, valid, test = parts
    return Parts(name, train, valid, test)


def execute(
    spec: RunSpec, threads: int = 0, progress: bool | None = None, parts: Parts | None = None
) -> tuple[dict[str, Any], Report]:
    """As `run`, with the report behind the metrics."""
    start = time.perf_counter()
    method = find_method(spec.method)
    parts = parts or load_parts(dataset_for(spec.dataset, method.model), spec.split_seed)
    if spec.preset is None and not stored_parameters(spec.dataset, method.name):
        log.warning("no parameters are stored for %s on %s: the defaults are used", method.name, spec.dataset)
    chosen = chosen_parameters(method, spec.dataset, spec.preset, dict(spec.parameters))
    model = method.build({**chosen, **known_parameters(method, {"threads": threads})}, spec.seed)
    trained = fit(model, parts, progress)
    metrics = possible_metrics(model, parts.train, spec.metrics)
    report = measure(model, parts, spec.protocol, metrics, threads)
    seconds = time.perf_counter() - start
    result = {
        "dataset": spec.dataset,
        "method": method.name,
        "parameters": plain_parameters(model),
        "unit": "%",
        "metrics": report.metrics,
        **trained,
        "valid_metrics": _validation_metrics(model, parts.train, parts.valid, threads),
        "inference_seconds": _inference_seconds(model, threads),
        "seconds": seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "version": tastespace.__version__,
        "made": environment(),
        "interests": _interests(model),
        "seed": spec.seed,
        "split_seed": spec.split_seed,
        "protocol": spec.protocol,
    }
    return result, report


def chosen_parameters(method: Method, dataset: str, preset: str | None, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the changes to a model's defaults: the preset or the stored parameters, and the caller's own changes."""
    return {**_base_parameters(method, dataset, preset), **parameters}


def _base_parameters(method: Method, dataset: str, preset: str | None) -> dict[str, Any]:
    if preset is None:
        found = stored_parameters(dataset, method.name)
        if method.second_stage is not None:
            found = {**stored_parameters(dataset, method.first_stage), **found}
        return found
    if preset == "default":
        return {}
    if preset != "paper":
        raise ParameterError(
            Argument("preset", preset), ": expected 'paper' or 'default', or none for the stored parameters."
        )
    return published_parameters(method)


def published_parameters(method: Method) -> dict[str, Any]:
    """The plain published setting of a method of the paper; empty for a competitor."""
    if method.model not in ("cml", "dpcml"):
        return {}
    model = CML if method.model == "cml" else DPCML
    return {name: value for name, value in model.published().items() if name not in method.fixed}


def known_parameters(method: Method, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return those parameters that the method's model has."""
    known = registry()[method.model]._parameter_names()
    return {name: value for name, value in parameters.items() if name in known}


def plain_parameters(model: Recommender) -> dict[str, Any]:
    """Parameters as plain values; those of a first stage together with those of the second."""
    found: dict[str, Any] = {}
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, Recommender):
            found |= plain_parameters(value)
        elif name not in ("threads", "seed"):
            found[name] = value
    return found


def fit(model: Recommender, parts: Parts, progress: bool | None = None) -> dict[str, Any]:
    """Fit with validation; return the epochs trained, the seconds each took and the training history."""
    start = time.perf_counter()
    model.set_params(**content_settings(model, parts.cold_start))
    model.fit(parts.train, parts.valid, progress, **content_arguments(model, parts.cold_start))
    seconds = time.perf_counter() - start
    trained = getattr(model, "model_", model)  # a re-ranker trains its first stage
    rows = _history(trained)
    return {
        "epochs": len(rows),
        "best_epoch": getattr(trained, "best_epoch_", 0),
        "seconds_per_epoch": sum(row["seconds"] for row in rows) / len(rows) if rows else seconds,
        "train_seconds": seconds,
        "history": rows,
    }


def _history(model: Recommender) -> list[dict[str, Any]]:
    """Loss, seconds and validation, in percent, of each epoch; empty for a model that does not learn by epochs."""
    rows: list[dict[str, Any]] = getattr(model, "history_", [])
    return [{name: 100 * value if _is_fraction(name) else value for name, value in row.items()} for row in rows]


def _is_fraction(name: str) -> bool:
    metric = METRICS.get(name.partition("@")[0])
    return metric is not None and metric.unit == "fraction"


def measure(model: Recommender, parts: Parts, protocol: str, metrics: tuple[str, ...], threads: int) -> Report:
    """The metrics on the test part, in percent."""
    seen = [parts.train, parts.valid]
    report = evaluate(model, parts.test, seen=seen, protocol=protocol, metrics=metrics, threads=threads).in_percent()
    return report if parts.cold_start is None else _with_cold_start(report, model, parts.cold_start, threads)


def _with_cold_start(report: Report, model: Recommender, parts: ColdStart, threads: int) -> Report:
    """The report of warm users with the metrics of cold-start users and items added, where the model has any."""
    reports: dict[str, Report] = {}
    for candidates, situation in (("new", "cold item"), ("all", "cold item (all)")):
        found = evaluate_cold(
            model, parts, candidates="new" if candidates == "new" else "all", warm=False, threads=threads
        )
        reports |= {situation if name == "cold item" else name: one.in_percent() for name, one in found.items()}
    metrics, per_user, n_users = dict(report.metrics), dict(report.per_user), dict(report.n_users)
    units = dict(report.units)
    for situation, one in reports.items():
        for metric in COLD_START_METRICS:
            metrics[f"{situation} {metric}"] = one.metrics[metric]
            per_user[f"{situation} {metric}"] = one.per_user[metric]
            n_users[f"{situation} {metric}"] = one.n_users[metric]
            units[f"{situation} {metric}"] = one.units[metric]
    return replace(report, metrics=metrics, per_user=per_user, n_users=n_users, units=units)


def _interests(model: Recommender) -> dict[str, int]:
    """Users by their number of vectors; empty for a model without several."""
    offsets = getattr(model, "user_offsets_", None)
    if offsets is None:
        return {}
    numbers, users = np.unique(np.diff(offsets), return_counts=True)
    return {str(number): int(n) for number, n in zip(numbers.tolist(), users.tolist(), strict=True)}


def possible_metrics(model: Recommender, data: Interactions, wanted: Sequence[str]) -> tuple[str, ...]:
    """The metrics to measure; one with a question mark is left out where the model or the data cannot give it.

    >>> from tastespace import synthetic
    >>> from tastespace.models import create
    >>> town = synthetic.multi_interest(n_users=40, n_items=60, n_interactions=500, seed=3).interactions
    >>> possible_metrics(create("popular").fit(town), town, ["P", "MaxDiv@3?", "CategoryMAP?"])
    ('P', 'CategoryMAP')
    """
    has_genres = data.item_attributes is not None and "genres" in data.item_attributes.columns
    available = {"": True, "vectors": model.item_space() is not None, "categories": has_genres}
    found = []
    for name in wanted:
        plain = name.removesuffix("?")
        if plain == name or available[METRICS[plain.partition("@")[0]].needs]:
            found.append(plain)
    return tuple(found)


def _validation_metrics(
    model: Recommender, train: Interactions, valid: Interactions, threads: int
) -> dict[str, float]:  # fmt: skip
    """Return the metrics on validation data by the paper's protocol, in percent."""
    if not valid.n_interactions:
        return {}
    report = evaluate(model, valid, seen=train, protocol="paper", metrics=VALIDATION, threads=threads).in_percent()
    return report.metrics


def _inference_seconds(model: Recommender, threads: int) -> float:
    """Seconds for the lists of all users, the mean of up to ten repeats."""
    taken: list[float] = []
    while len(taken) < _REPEATS and sum(taken) < _MAX_SECONDS:
        start = time.perf_counter()
        model.recommend_indices(k=min(_TIMED_K, model.train_.n_items), threads=threads)
        taken.append(time.perf_counter() - start)
    return sum(taken) / len(taken)


def environment() -> dict[str, str]:
    """Date, processor, memory and versions, each in a few words."""
    return {
        "date": datetime.datetime.now(tz=datetime.timezone.utc).strftime("%Y-%m-%d"),
        "tastespace": tastespace.__version__,
        "kernels": f"{_native.SIMD}, sources {_native.SOURCES[:12]}",
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        **{name: version for name in _PACKAGES if (version := _version(name))},
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown"
    return next(
        (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")), "unknown"
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
