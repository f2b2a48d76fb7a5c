"""The numbers that the paper published, for tables that show them beside ours (`published/*.csv`)."""

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
    "xing-2017": ("RecSys-1",),  # another sample of the same data, of similar size
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
def published_table(name: str) -> pl.DataFrame:
    """One of the files: accuracy, diversity, ablation, efficiency, cold_start, datasets or cold_datasets.

    >>> published_table("datasets").columns[:3]
    ['dataset', 'domain', 'users']
    """
    return pl.read_csv(_FOLDER / f"{name}.csv", glob=False)


def published_accuracy(dataset: str, method: str) -> dict[str, float]:
    """The accuracy that the paper reports for a method, in percent; empty where it reports none.

    >>> published_accuracy("steam-200k", "apa+dihars")["P@3"]
    32.58
    """
    wanted = [name.lower() for name in (method, _METHODS.get(method, method))]  # the tables do not agree on all names
    found = published_table("accuracy").filter(
        pl.col("dataset").is_in(_DATASETS.get(dataset, ())) & pl.col("method").str.to_lowercase().is_in(wanted)
    )
    if found.is_empty():
        return {}
    return {name: float(value) for name, value in found.row(0, named=True).items() if _is_metric(name)}


def published_ablation(name: str, dataset: str) -> dict[str, dict[str, float]]:
    """One of the ablation tables: variant -> values."""
    rows = published_table("ablation").filter(
        (pl.col("table") == name) & pl.col("dataset").is_in(_DATASETS.get(dataset, ()))
    )
    found: dict[str, dict[str, float]] = {}
    for row in rows.iter_rows(named=True):
        values: dict[str, Any] = {key: float(value) for key, value in row.items() if _is_metric(key)}
        found[str(row["variant"])] = values
    return found


def published_diversity(dataset: str, label: str) -> dict[str, float]:
    """MaxDiv, ILS and Coverage of one row, called "method, sampler".

    >>> published_diversity("steam-200k", "CML+DD, HarS")["MaxDiv@3"]
    2.214
    """
    method, _, sampler = label.partition(", ")
    rows = published_table("diversity").filter(
        pl.col("dataset").is_in(_DATASETS.get(dataset, ()))
        & (pl.col("method") == method)
        & (pl.col("sampler") == sampler)
    )
    return {str(name): float(value) for name, value in rows.select("metric", "value").iter_rows()}


def published_efficiency(quantity: str, dataset: str) -> dict[str, float]:
    """Inference seconds or parameter size in MiB: method -> value.

    >>> published_efficiency("inference_seconds", "steam-200k")["DPCML+BPA"]
    0.13
    """
    rows = published_table("efficiency").filter(
        (pl.col("quantity") == quantity) & pl.col("dataset").is_in(_DATASETS.get(dataset, ()))
    )
    return {str(name): float(value) for name, value in rows.select("method", "value").iter_rows()}


def published_statistics(dataset: str) -> dict[str, float]:
    """Users, items, ratings and density in percent of a data set, as the paper counts them.

    >>> published_statistics("steam-200k")["users"]
    3757.0
    """
    rows = (
        published_table("datasets")
        .filter(pl.col("dataset").is_in(_DATASETS.get(dataset, ())))
        .drop("dataset", "domain")
    )
    return {name: float(value) for row in rows.iter_rows(named=True) for name, value in row.items()}


def _is_metric(name: str) -> bool:
    return "@" in name or name in ("MAP", "MRR")
