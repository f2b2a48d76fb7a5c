"""The paper's own numbers, cell by cell, for tables that set ours beside theirs (`published/*.csv`)."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

_FOLDER = Path(__file__).with_name("published")
_DATASETS = {
    "ml-1m": ("MovieLens-1M",),
    "ml-10m": ("MovieLens-10M",),
    "steam-200k": ("Steam-200k",),
    "citeulike-t": ("CiteULike", "CiteULike-T"),
    "xing-2017": ("RecSys-1",),  # another sample of the same data, of about that size
}
# What the tables call a method that has another name here.
_METHODS = {
    "cml+unis": "UniS",
    "cml+pops": "PopS",
    "cml+2sts": "2st",
    "cml+hars": "HarS",
    "mult-vae": "Multi-VAE",
    "gcn-accdiv": "GraphDiv",
    "cml+unis+dd": "UniS+DD",
    "cml+unis+pd": "UniS+PD",
    "cml+hars+dd": "HarS+DD",
    "cml+hars+pd": "HarS+PD",
}


@lru_cache
def table(name: str) -> pl.DataFrame:
    """One of the files: accuracy, diversity, ablation, efficiency, cold_start, datasets or cold_datasets.

    >>> table("datasets").columns[:3]
    ['dataset', 'domain', 'users']
    """
    return pl.read_csv(_FOLDER / f"{name}.csv")


def published(dataset: str, method: str) -> dict[str, float]:
    """The accuracy that the paper reports for a method, in percent; empty where it reports none.

    >>> published("steam-200k", "apa+dihars")["P@3"]
    32.58
    """
    wanted = [name.lower() for name in (method, _METHODS.get(method, method))]  # the tables do not agree on all names
    found = table("accuracy").filter(
        pl.col("dataset").is_in(_DATASETS.get(dataset, ())) & pl.col("method").str.to_lowercase().is_in(wanted)
    )
    if found.is_empty():
        return {}
    return {name: float(value) for name, value in found.row(0, named=True).items() if _is_metric(name)}


def ablation(name: str, dataset: str) -> dict[str, dict[str, float]]:
    """One of the ablation tables: variant -> figures."""
    rows = table("ablation").filter((pl.col("table") == name) & pl.col("dataset").is_in(_DATASETS.get(dataset, ())))
    found: dict[str, dict[str, float]] = {}
    for row in rows.iter_rows(named=True):
        figures: dict[str, Any] = {key: float(value) for key, value in row.items() if _is_metric(key)}
        found[str(row["variant"])] = figures
    return found


def diversity(dataset: str, label: str) -> dict[str, float]:
    """MaxDiv, ILS and Coverage of one row, called "method, sampler".

    >>> diversity("steam-200k", "CML+DD, HarS")["MaxDiv@3"]
    2.214
    """
    method, _, sampler = label.partition(", ")
    rows = table("diversity").filter(
        pl.col("dataset").is_in(_DATASETS.get(dataset, ()))
        & (pl.col("method") == method)
        & (pl.col("sampler") == sampler)
    )
    return {str(name): float(value) for name, value in rows.select("metric", "value").iter_rows()}


def efficiency(quantity: str, dataset: str) -> dict[str, float]:
    """Inference seconds or parameter size in MiB: method -> value.

    >>> efficiency("inference_seconds", "steam-200k")["DPCML+BPA"]
    0.13
    """
    rows = table("efficiency").filter(
        (pl.col("quantity") == quantity) & pl.col("dataset").is_in(_DATASETS.get(dataset, ()))
    )
    return {str(name): float(value) for name, value in rows.select("method", "value").iter_rows()}


def statistics(dataset: str) -> dict[str, float]:
    """Users, items, ratings and density in percent of a data set, as the paper counts them.

    >>> statistics("steam-200k")["users"]
    3757.0
    """
    rows = table("datasets").filter(pl.col("dataset").is_in(_DATASETS.get(dataset, ()))).drop("dataset", "domain")
    return {name: float(value) for row in rows.iter_rows(named=True) for name, value in row.items()}


def _is_metric(name: str) -> bool:
    return "@" in name or name in ("MAP", "MRR")
