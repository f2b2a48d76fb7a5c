"""One run of one method on one data set: load, split, train, select on validation, evaluate on test."""

from __future__ import annotations

import hashlib
import logging
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import tastespace
from tastespace.data import Interactions, datasets, split, synthetic
from tastespace.data.cold_start import ColdStart
from tastespace.errors import ParameterError
from tastespace.evaluation import Report, evaluate
from tastespace.models import Recommender
from tastespace.models.dpcml import DPCML
from tastespace.paper.machine import surroundings
from tastespace.paper.methods import Method, find_method
from tastespace.paper.recorded import history, inference_seconds, possible_metrics, validation_figures
from tastespace.paper.stored import stored_parameters
from tastespace.paper.strangers import (
    content_arguments,
    content_settings,
    dataset_for,
    fingerprints_of,
    load_strangers,
    with_strangers,
)

log = logging.getLogger(__name__)

TOWN = "town"
"""Name of the synthetic town, which needs no data."""
ACCURACY = ("P", "R", "NDCG", "MAP", "MRR")


@dataclass(frozen=True)
class Setting:
    """What a run does; see `run`."""

    dataset: str
    method: str
    seed: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the stored parameters."""
    preset: str | None = None
    split_seed: int = 0
    protocol: str = "paper"
    metrics: tuple[str, ...] = ACCURACY


@dataclass(frozen=True)
class Parts:
    """A data set split for an experiment."""

    name: str
    train: Interactions
    valid: Interactions
    test: Interactions
    strangers: ColdStart | None = None
    """Users and items to be met by content alone, where the data set has any."""

    @cached_property
    def fingerprints(self) -> list[str]:
        """Of everything that decides figures; what is known of the items decides those by category."""
        own = [part.fingerprint() for part in (self.train, self.valid, self.test)]
        known = self.train.item_attributes
        if known is not None:
            own.append(hashlib.sha256(known.write_json().encode()).hexdigest())
        return own if self.strangers is None else [*own, *fingerprints_of(self.strangers)]


@lru_cache(maxsize=6)
def load_parts(dataset: str, split_seed: int = 0) -> Parts:
    """The authors' split where they published one (Steam-200k, ML-100K), else the paper's rule with this seed."""
    strangers = load_strangers(dataset, split_seed)
    if strangers is not None:
        return Parts(dataset, strangers.train, strangers.valid, strangers.test, strangers)
    if dataset == TOWN:
        world = synthetic.multi_interest(n_users=600, n_items=400, n_interactions=20_000, seed=0)
        parts = split.per_user(world.interactions, (0.6, 0.2, 0.2), seed=split_seed)
    elif dataset in ("steam-200k", "ml-100k"):
        parts = list(datasets.load_split(dataset))
    else:
        parts = split.per_user(datasets.load(dataset), (0.6, 0.2, 0.2), seed=split_seed)
    train, valid, test = parts
    return Parts(dataset, train, valid, test)


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
) -> dict[str, Any]:
    """Run a method of the paper and report its test figures in percent.

    Args:
        dataset: A name of `tastespace.datasets`, or ``"town"``.
        method: A name of `method_names`, such as ``"apa+dihars"``.
        parameters: Changes to the stored parameters; they may not turn the method into another one.
        preset: None takes the parameters stored for this data set, ``"paper"`` the plain published setting,
            ``"default"`` the library's defaults.
        seed: Of the training only.
        split_seed: Of the split, where the data set has no published one.

    Returns:
        ``dataset, method, parameters, metrics, valid_metrics, seconds_per_epoch, epochs, history, seconds,
        train_seconds, inference_seconds, peak_mb, version`` and the seeds.
    """
    setting = Setting(dataset, method, seed, parameters or {}, preset, split_seed, protocol, metrics)
    return execute(setting, threads, progress)[0]


def execute(setting: Setting, threads: int = 0, progress: bool | None = None) -> tuple[dict[str, Any], Report]:
    """As `run`, with the report behind the figures."""
    start = time.perf_counter()
    found = find_method(setting.method)
    parts = load_parts(dataset_for(setting.dataset, found.model), setting.split_seed)
    if setting.preset is None and not stored_parameters(setting.dataset, found.name):
        log.warning("no parameters are stored for %s on %s: the defaults are used", found.name, setting.dataset)
    chosen = chosen_parameters(found, setting.dataset, setting.preset, dict(setting.parameters))
    model = found.build({**chosen, **understood(found, {"threads": threads})}, setting.seed)
    trained = fit(model, parts, progress)
    metrics = possible_metrics(model, parts.train, setting.metrics)
    report = measure(model, parts, setting.protocol, metrics, threads)
    seconds = time.perf_counter() - start
    result = {
        "dataset": setting.dataset,
        "method": found.name,
        "parameters": plain_parameters(model),
        "metrics": report.metrics,
        **trained,
        "valid_metrics": validation_figures(model, parts.train, parts.valid, threads),
        "inference_seconds": inference_seconds(model, threads),
        "seconds": seconds,
        "peak_mb": peak_mb(),
        "version": tastespace.__version__,
        "made": surroundings(),
        "seed": setting.seed,
        "split_seed": setting.split_seed,
        "protocol": setting.protocol,
    }
    return result, report


def chosen_parameters(method: Method, dataset: str, preset: str | None, parameters: dict[str, Any]) -> dict[str, Any]:
    """What a run changes of a model's defaults: the preset, or what is stored, and the caller's own changes."""
    return {**_base(method, dataset, preset), **parameters}


def plain_parameters(model: Recommender) -> dict[str, Any]:
    """Parameters as plain values; those of a first stage stand beside those of the second."""
    found: dict[str, Any] = {}
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, Recommender):
            found |= plain_parameters(value)
        elif name not in ("threads", "seed"):
            found[name] = value
    return found


def fit(model: Recommender, parts: Parts, progress: bool | None = None) -> dict[str, Any]:
    """Fit with validation; gives the epochs trained, the seconds each took and the best validation figure."""
    start = time.perf_counter()
    model.set_params(**content_settings(model, parts.strangers))
    model.fit(parts.train, parts.valid, progress, **content_arguments(model, parts.strangers))
    seconds = time.perf_counter() - start
    learned = getattr(model, "model_", model)  # of two stages the first one learns
    rows = history(learned)
    return {
        "epochs": len(rows),
        "best_epoch": getattr(learned, "best_epoch_", 0),
        "seconds_per_epoch": sum(row["seconds"] for row in rows) / len(rows) if rows else seconds,
        "train_seconds": seconds,
        "history": rows,
    }


def measure(model: Recommender, parts: Parts, protocol: str, metrics: tuple[str, ...], threads: int) -> Report:
    """The figures on the test part."""
    seen = [parts.train, parts.valid]
    report = evaluate(model, parts.test, seen=seen, protocol=protocol, metrics=metrics, threads=threads).in_percent()
    return report if parts.strangers is None else with_strangers(report, model, parts.strangers, threads)


def peak_mb() -> float:
    """Largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _base(method: Method, dataset: str, preset: str | None) -> dict[str, Any]:
    if preset is None:
        found = stored_parameters(dataset, method.name)
        if method.second_stage is not None:
            found = {**stored_parameters(dataset, method.first_stage), **found}
        return found
    if preset == "default":
        return {}
    if preset != "paper":
        raise ParameterError(f"preset={preset!r}: expected 'paper' or 'default', or none for the stored parameters.")
    if method.model not in ("cml", "dpcml"):
        return {}
    return {k: v for k, v in DPCML.published().items() if k not in method.fixed}


def understood(method: Method, parameters: dict[str, Any]) -> dict[str, Any]:
    """Those of the parameters that the method's model has."""
    from tastespace.models import registry

    known = registry()[method.model]._parameter_names()
    return {name: value for name, value in parameters.items() if name in known}
