"""Verdicts on the paper's claims, the tests behind them, and deviations from the published values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.evaluation.significance import hierarchical_bootstrap, holm, paired_t_test
from tastespace.paper.claims import Claim
from tastespace.paper.data import load_parts
from tastespace.paper.experiments import TableRow
from tastespace.paper.rows import QUICK, ReportArchive, trials_of
from tastespace.paper.runner import RunResult, RunStatus, run_all
from tastespace.paper.statistics import minority_categories

_ALPHA = 0.05


@dataclass(frozen=True)
class Difference:
    """One method against another."""

    mean: float
    """Mean advantage of the first."""
    p_value: float
    n: int
    """Users, seeds or genres that it is the mean over."""


@dataclass(frozen=True)
class Verdict:
    """Result of the measurements for a claim."""

    claim: Claim
    dataset: str
    differences: dict[tuple[str, str, str], Difference]
    """(better, worse, metric) -> the difference."""
    runs: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """(better, worse, metric) -> number of seeds that both were run with."""
    archived: list[dict[str, Any]] = field(default_factory=list)
    """Rows of an archive from which the verdict was read."""

    @property
    def word(self) -> str:
        """One of four words, from the differences that are significant after Holm.

        It *holds* if more than half are as claimed and none is the other way round, it is *reversed* if more than half
        are the other way round and none as claimed. There is *no difference* if none is significant. All else is
        *mixed*.
        """
        if not self.differences:
            return "not measured"
        signs = self._signs()
        ours, against = signs.count(1), signs.count(-1)
        if not ours and not against:
            return "no difference"
        if not against and 2 * ours > len(signs):
            return "holds"
        return "reversed" if not ours and 2 * against > len(signs) else "mixed"

    @property
    def tally(self) -> str:
        """Count the differences that are significantly for the claim, and those against it.

        >>> from tastespace.paper.claims import find_claim
        >>> judge(find_claim("joint"), "town", []).tally
        'nothing measured'
        """
        if not self.differences:
            return "nothing measured"
        signs = self._signs()
        counts = f"{signs.count(1)} of {len(signs)} differences significantly for it, {signs.count(-1)} against it"
        tested = "" if self.claim.over == "users" else f" tested over {self.claim.over},"
        return f"{counts};{tested} {_range(self.runs.values())}"

    @property
    def measured(self) -> int:
        """Number of the claim's pairs that were measured."""
        return len({(better, worse) for better, worse, _ in self.differences})

    @property
    def pairs(self) -> str:
        """Number of the claim's pairs that the verdict is about.

        >>> from tastespace.paper.claims import find_claim
        >>> judge(find_claim("joint"), "town", []).pairs
        '0 of 1 pairs'
        """
        return f"{self.measured} of {len(self.claim.pairs)} pairs"

    def rows(self) -> list[dict[str, Any]]:
        """One row per difference, for programs; none where nothing was measured."""
        if self.archived:
            return [{**row, "verdict": self.word} for row in self.archived]
        specs = {spec.label: spec for pair in self.claim.pairs for spec in pair}
        trials = {label: trials_of(self.dataset, spec) for label, spec in specs.items()}
        return [
            {
                "claim": self.claim.name,
                "verdict": self.word,
                "pairs": self.pairs,
                "dataset": self.dataset,
                "better": better,
                "worse": worse,
                "metric": metric,
                "difference": found.mean,
                "p": found.p_value,
                "p after Holm": corrected,
                "over": self.claim.over,
                "n": found.n,
                "seeds": self.runs[better, worse, metric],
                "trials": trials[better],
                "trials of the worse": trials[worse],
            }
            for ((better, worse, metric), found), corrected in zip(
                self.differences.items(), self._corrected(), strict=True
            )
        ]

    def _corrected(self) -> list[float]:
        """Holm's step-down over all differences of the claim."""
        return holm([found.p_value for found in self.differences.values()])

    def _signs(self) -> list[int]:
        """1 for a significant difference as claimed, -1 for one the other way round, else 0."""
        gaps = [found.mean for found in self.differences.values()]
        sure = [p <= _ALPHA for p in self._corrected()]
        return [(gap > 0) - (gap < 0) if certain else 0 for gap, certain in zip(gaps, sure, strict=True)]


def run_claims(
    claims: Sequence[Claim],
    dataset: str,
    cache: str | Path,
    *,
    seeds: int | None = None,
    workers: int = 0,
    minutes: float | None = None,
) -> list[Verdict]:
    """Run what is missing to judge these claims on a data set; a run that several of them need is run once."""
    if any(claim.over == "genres" for claim in claims):
        minority_categories(load_parts(dataset).train)  # refuses data without genres before anything is run
    wanted = {claim.name: claim.planned_runs(dataset, claim.seeds if seeds is None else seeds) for claim in claims}
    once = {planned.key(): planned for runs in wanted.values() for planned in runs}
    done = dict(zip(once, run_all(list(once.values()), cache, workers=workers, minutes=minutes), strict=True))
    rows = {name: [replace(done[planned.key()], planned=planned) for planned in runs] for name, runs in wanted.items()}
    return [judge(claim, dataset, rows[claim.name]) for claim in claims]


def judge(claim: Claim, dataset: str, rows: Sequence[RunStatus]) -> Verdict:
    """The verdict on a claim from finished runs on one data set."""
    by_label: dict[str, dict[int, RunResult]] = {}
    for row in rows:
        if row.planned.dataset == dataset and row.found is not None:
            by_label.setdefault(row.planned.title, {})[row.planned.seed] = row.found
    found, runs = {}, {}
    for better, worse in claim.pairs:
        first, second = by_label.get(better.label, {}), by_label.get(worse.label, {})
        common = sorted(set(first) & set(second))
        for metric in claim.metrics if common else ():
            ones, others = [first[seed] for seed in common], [second[seed] for seed in common]
            difference = _compare(claim, dataset, metric, ones, others)
            if difference is not None and difference.n > 1:  # a single seed or genre cannot be tested
                found[better.label, worse.label, metric] = difference
                runs[better.label, worse.label, metric] = len(common)
    return Verdict(claim, dataset, found, runs)


def archived_verdict(claim: Claim, dataset: str, archive: ReportArchive) -> Verdict:
    """The verdict on a claim from the differences that an archive holds; none where it lacks one of the metrics."""
    rows = archive.claim_rows(claim.name, dataset)
    if not {row["metric"] for row in rows} >= set(claim.metrics):
        rows = []
    keys = [(row["better"], row["worse"], row["metric"]) for row in rows]
    found = [Difference(row["difference"], row["p"], row["n"]) for row in rows]
    seeds = [row["seeds"] for row in rows]
    return Verdict(claim, dataset, dict(zip(keys, found, strict=True)), dict(zip(keys, seeds, strict=True)), rows)


def _compare(
    claim: Claim, dataset: str, metric: str, better: Sequence[RunResult], worse: Sequence[RunResult]
) -> Difference | None:
    """Compare two methods by a metric; None where runs were not measured by it."""
    if claim.over == "seeds":
        return paired_over_seeds(better, worse, metric)
    if claim.over == "genres":
        names, _, small = minority_categories(load_parts(dataset).train)
        return paired_over_genres(better, worse, names[small].tolist())
    if any(metric not in run.per_user for run in (*better, *worse)):
        return None
    return paired_over_users(better, worse, metric)


def _range(seeds: Iterable[int]) -> str:
    """Return numbers of seeds in words.

    >>> _range([3, 1, 3]), _range([1])
    ('1 to 3 seeds', '1 seed')
    """
    found = sorted(seeds)
    least, most = found[0], found[-1]
    return f"{least} to {most} seeds" if least < most else f"{least} seed{'s' * (least != 1)}"


def paired_over_users(first: Sequence[RunResult], second: Sequence[RunResult], metric: str) -> Difference:
    """Bootstrap over seeds and users of what the first has more; users without a value do not count."""
    a, b = (np.array([run.per_user[metric] for run in runs], dtype=np.float64) for runs in (first, second))
    gaps = a - b
    counted = ~np.isnan(gaps)
    if not counted.any():
        return Difference(0.0, 1.0, 0)
    return Difference(float(np.nanmean(gaps)), hierarchical_bootstrap(gaps), int(counted.any(axis=0).sum()))


def paired_over_seeds(first: Sequence[RunResult], second: Sequence[RunResult], metric: str) -> Difference:
    """Paired t-test over seeds of what a whole run has, see `value_of_run`; a loss is better the smaller it is."""
    a, b = (np.array([value_of_run(run, metric) for run in runs]) for runs in (first, second))
    return _paired_test(b, a) if metric.endswith("loss") else _paired_test(a, b)


def paired_over_genres(first: Sequence[RunResult], second: Sequence[RunResult], genres: Sequence[str]) -> Difference:
    """Paired t-test over genres of the MAP in each, which is a mean over seeds; genres without test items are left out.

    >>> one, other = (RunResult({"metrics": {"MAP[a]": x, "MAP[b]": x + 1}}, {}) for x in (3.0, 2.5))
    >>> paired_over_genres([one], [other], ["a", "b", "c"]).mean
    0.5
    """
    metrics = ([run.result["metrics"] for run in runs] for runs in (first, second))
    a, b = (
        np.array([np.mean([of.get(f"MAP[{genre}]", np.nan) for of in found]) for genre in genres]) for found in metrics
    )
    return _paired_test(a, b)


def value_of_run(run: RunResult, name: str) -> float:
    """``"train loss"`` of the epoch that was kept, or ``"validation X"`` or ``"test X"`` of what was kept.

    The loss is the hinge alone: the penalty of DCRS, which one vector does not have, is no part of the fit.
    """
    result = run.result
    if name == "train loss":
        epoch = result["history"][max(result["best_epoch"], 1) - 1]
        return float(epoch.get("hinge", epoch["loss"]))
    part, metric = name.split(" ", 1)
    return float(result[{"validation": "valid_metrics", "test": "metrics"}[part]][metric])


def _paired_test(a: NDArray[np.float64], b: NDArray[np.float64]) -> Difference:
    """Paired t-test of two samples without their NaN pairs."""
    gap = (a - b)[~(np.isnan(a) | np.isnan(b))]
    if not len(gap):
        return Difference(0.0, 1.0, 0)
    return Difference(float(gap.mean()), paired_t_test(gap), len(gap))


_COMPARED_TABLES = ("results1", "citeulike", "competitors")
_COMPARED_METRICS = ("P@3", "MRR")
_TOLERANCE = 10.0  # percent of the paper's value

DEVIATIONS_HEADING = (
    "More than 10 % from the paper. It searched a grid for every method, with Adam, batches of 256 and 100 epochs; "
    "what is known to differ here, and may be the reason, is named, with the number of trials that chose our "
    "parameters:"
)

_NEGATIVES = "several fresh negatives for every positive in each epoch, larger batches"
_RATES = "Adagrad at rates far above the paper's grid (0.0003 to 0.01)"
_REASONS = {
    "itemknn": "neighborhood and shrinkage, which the paper does not give",
    **dict.fromkeys(("gmf", "mlp", "neumf", "m2f", "mgmf", "m2f+dcrs"), _NEGATIVES),
    **dict.fromkeys(("lrml", "transcf", "adacml", "hlr"), _RATES),
    **dict.fromkeys(("cml", "bpa", "apa"), f"{_RATES}, averaged vectors"),
    **dict.fromkeys(
        ("+dd", "+pd"), "another first stage (CML in the overall table), and a share of diversity chosen for accuracy"
    ),
}


def deviations(table: str, rows: Sequence[TableRow]) -> list[str]:
    """A line on every method that deviates from the paper by more than a tenth in P@3 or MRR."""
    if table not in _COMPARED_TABLES or any(QUICK in row.note for row in rows):
        return []
    return [text for row in rows if (text := _deviation(row))]


def _deviation(row: TableRow) -> str:
    known = [name for name in _COMPARED_METRICS if name in row.ours and row.published.get(name)]
    percent = {name: 100 * (row.ours[name] / row.published[name] - 1) for name in known}
    large = {name: value for name, value in percent.items() if abs(value) > _TOLERANCE}
    if not large:
        return ""
    values = " and ".join(f"{name} {abs(v):.0f} % {'above' if v > 0 else 'below'}" for name, v in large.items())
    second = _REASONS.get(f"+{row.method.rpartition('+')[2]}")
    reason = second or _REASONS.get(row.method) or _REASONS.get(row.method.partition("+")[0], "nothing known")
    return f"{row.label}: {values}; {reason} ({row.trials} trial{'s' * (row.trials != 1)})."
