"""Tables of the effect of lists: by arm, model, rank and taste; arms compared; values of other policies."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tastespace.online.attribution import Attributed, attribute, successes
from tastespace.online.estimators import ips, snips
from tastespace.online.statistics import compare, rate

if TYPE_CHECKING:
    from tastespace.serve.feedback.store import FeedbackStore

CONVERSIONS = ("purchase",)
"""Kinds of events that are conversions."""
_RANKS = 20


@dataclass(frozen=True, eq=False)
class Report:
    """Tables of one report. Rates are shares from 0 to 1 with the ends of their intervals; units are users."""

    rates: pl.DataFrame
    """``by`` (all, arm, model, kind, rank, taste), ``value`` (of which arm, ...), ``lists`` (times shown; of ranks and
    tastes: places shown), ``users``, ``clicks``, ``ctr``, ``ctr_low``, ``ctr_high``, ``conversions``,
    ``conversion``, ``conversion_low``, ``conversion_high``. Of lists, the rates are shares of lists with a click, or
    with a conversion; of ranks and tastes, shares of places. Tastes are numbered for each user by how much of the
    lists they fill: 1 is the largest."""
    comparisons: pl.DataFrame
    """``first``, ``second`` (arms), ``metric`` (ctr, conversion), ``difference`` (second minus first), ``low``,
    ``high``, ``p_value``, ``verdict``. Valid at all times, see `tastespace.online.statistics`."""
    policies: pl.DataFrame
    """``policy`` (as shown, as ranked, candidates), ``estimator`` (mean, ips, snips), ``clicks_per_place`` with ``low``
    and ``high``, ``n`` and ``n_effective``: of the places where exploration might draw. Empty without exploration."""
    counts: dict[str, int]
    """Events that name a list by what became of them, see `Attributed.counts`."""

    def to_dict(self) -> dict[str, Any]:
        """All tables as JSON has them."""
        tables = {name: getattr(self, name).to_dicts() for name in ("rates", "comparisons", "policies")}
        return {**tables, "events": self.counts}


def report(
    store: FeedbackStore,
    *,
    since: int = 0,
    conversions: tuple[str, ...] = CONVERSIONS,
    alpha: float = 0.05,
    planned: int = 2_000,
) -> Report:
    """Return what the lists in a feedback store have brought in.

    Args:
        store: An open feedback store, such as `tastespace.serve.feedback.store.open_feedback_store` returns.
        since: Lists shown before this time are left out, in microseconds since 1970.
        conversions: Kinds of events that are conversions.
        alpha: Probability with which an interval of a comparison may ever miss; rates have intervals of 1 - alpha.
        planned: Users near whom comparisons are sharpest, see `tastespace.online.statistics.compare`.

    >>> import tempfile
    >>> from tastespace.serve.feedback.store import open_feedback_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = report(open_feedback_store(f"{folder}/feedback.sqlite"))
    >>> found.rates["lists"].to_list(), found.counts["attributed"]
    ([0], 0)
    """
    return tables_of(attribute(store, since), conversions=conversions, alpha=alpha, planned=planned)


def tables_of(
    found: Attributed, *, conversions: tuple[str, ...] = CONVERSIONS, alpha: float = 0.05, planned: int = 2_000
) -> Report:
    """Return the tables of what was joined; arguments as in `report`."""
    clicked = successes(found.events).select("number").unique().with_columns(clicked=pl.lit(1))
    bought = successes(found.events, conversions).select("number").unique().with_columns(bought=pl.lit(1))
    lists = found.shown.join(clicked, on="number", how="left").join(bought, on="number", how="left")
    lists = lists.with_columns(pl.col("clicked", "bought").fill_null(0))
    rows = [_rates("all", "all", lists, alpha)]
    for by in ("arm", "model", "kind"):
        rows += [_rates(by, str(name), part, alpha) for (name,), part in _parts(lists, by)]
    rows += _by_place(found, conversions, alpha)
    return Report(
        pl.DataFrame(rows),
        _comparisons(lists, alpha, planned),
        _policies(found, alpha),
        found.counts,
    )


def _parts(frame: pl.DataFrame, by: str) -> list[Any]:
    return sorted(frame.partition_by(by, as_dict=True).items())


def _rates(by: str, value: str, frame: pl.DataFrame, alpha: float) -> dict[str, Any]:
    units = frame.group_by("unit").agg(pl.len().alias("n"), pl.col("clicked", "bought").sum())
    row: dict[str, Any] = {"by": by, "value": value, "lists": len(frame), "users": len(units)}
    for column, name, count in (("clicked", "ctr", "clicks"), ("bought", "conversion", "conversions")):
        one = rate(units[column].to_numpy(), units["n"].to_numpy(), 1 - alpha)
        row |= {count: one.successes, name: _known(one.value), f"{name}_low": one.low, f"{name}_high": one.high}
    return row


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _by_place(found: Attributed, conversions: tuple[str, ...], alpha: float) -> list[dict[str, Any]]:
    """Rates of ranks, and of tastes by their size: of places, of which a list has several."""
    counted = [found.shown.group_by("list", "unit").agg(pl.len().alias("times"))]
    for name, kinds in (("clicked", None), ("bought", conversions)):
        some = successes(found.events, kinds).unique(["number", "rank"])
        counted.append(some.group_by("list", "rank").agg(pl.len().alias(name)))
    places = found.places.join(counted[0], on="list")
    for one in counted[1:]:
        places = places.join(one, on=["list", "rank"], how="left")
    places = places.with_columns(pl.col("clicked", "bought").fill_null(0))
    sizes = (
        places.filter(pl.col("taste").is_not_null()).group_by("unit", "taste").agg(pl.col("times").sum().alias("size"))
        .sort("unit", "size", "taste", descending=[False, True, False])
        .with_columns(order=pl.int_range(1, pl.len() + 1).over("unit")).drop("size")
    )  # fmt: skip
    ordered = places.join(sizes, on=["unit", "taste"])
    rows = [_place_rates("rank", rank, part, alpha) for (rank,), part in _parts(places, "rank") if rank <= _RANKS]
    return rows + [_place_rates("taste", order, part, alpha) for (order,), part in _parts(ordered, "order")]


def _place_rates(by: str, value: int, frame: pl.DataFrame, alpha: float) -> dict[str, Any]:
    units = frame.group_by("unit").agg(pl.col("times", "clicked", "bought").sum())
    row: dict[str, Any] = {"by": by, "value": str(value), "lists": int(units["times"].sum()), "users": len(units)}
    for column, name, count in (("clicked", "ctr", "clicks"), ("bought", "conversion", "conversions")):
        one = rate(units[column].to_numpy(), units["times"].to_numpy(), 1 - alpha)
        row |= {count: one.successes, name: _known(one.value), f"{name}_low": one.low, f"{name}_high": one.high}
    return row


_COMPARED = {"first": pl.String, "second": pl.String, "metric": pl.String, "difference": pl.Float64, "low": pl.Float64,
             "high": pl.Float64, "p_value": pl.Float64, "verdict": pl.String}  # fmt: skip


def _comparisons(lists: pl.DataFrame, alpha: float, planned: int) -> pl.DataFrame:
    units = lists.group_by("arm", "unit").agg(pl.len().alias("n"), pl.col("clicked", "bought").sum())
    arms = {name: part for (name,), part in _parts(units, "arm")}
    pairs = list(combinations(arms, 2))
    rows = []
    for first, second in pairs:
        for column, metric in (("clicked", "ctr"), ("bought", "conversion")):
            one, other = arms[first], arms[second]
            found = compare(
                (one[column].to_numpy(), other[column].to_numpy()),
                (one["n"].to_numpy(), other["n"].to_numpy()),
                alpha / len(pairs),  # several arms are several chances to be wrong
                planned,
            )
            better = second if found.difference > 0 else first
            verdict = f"{better} is better" if found.is_different else "no difference shown"
            verdict = verdict if found.is_enough else "too few users or events"
            p_value = min(1.0, found.p_value * len(pairs))
            rows.append((first, second, metric, found.difference, found.low, found.high, p_value, verdict))
    return pl.DataFrame(rows, schema=_COMPARED, orient="row")


_VALUED = {"policy": pl.String, "estimator": pl.String, "clicks_per_place": pl.Float64, "low": pl.Float64,
           "high": pl.Float64, "n": pl.Int64, "n_effective": pl.Float64}  # fmt: skip


def _policies(found: Attributed, alpha: float) -> pl.DataFrame:
    """Values of the list as ranked, and of candidates drawn uniformly, from the places where exploration might draw."""
    open_places = found.places.filter((pl.col("candidates") > 0) & (pl.col("propensity") < 1))
    clicks = successes(found.events).unique(["number", "rank"]).select("number", "rank", clicked=pl.lit(1.0))
    places = (
        found.shown.select("number", "list", "unit").join(open_places, on="list")
        .join(clicks, on=["number", "rank"], how="left").with_columns(pl.col("clicked").fill_null(0.0))
    )  # fmt: skip
    if not len(places):
        return pl.DataFrame(schema=_VALUED)
    reward, propensity, unit = (places[name].to_numpy() for name in ("clicked", "propensity", "unit"))
    is_drawn = places["explored"].to_numpy()
    targets = {
        "as shown": propensity,
        "as ranked": (~is_drawn).astype(np.float64),
        "candidates": np.where(is_drawn, 1.0 / places["candidates"].to_numpy(), 0.0),
    }
    rows = []
    for policy, target in targets.items():
        for name, estimator in (("mean", ips),) if policy == "as shown" else (("ips", ips), ("snips", snips)):
            one = estimator(reward, propensity, target, unit, 1 - alpha)
            rows.append((policy, name, one.value, one.low, one.high, one.n, one.n_effective))
    return pl.DataFrame(rows, schema=_VALUED, orient="row")
