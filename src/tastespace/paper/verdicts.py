"""What the measurements say of the paper's claims: differences, tests, and a word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tastespace.paper.cells import Finished
from tastespace.paper.claims import Claim
from tastespace.paper.entries import trials_of
from tastespace.paper.minorities import large_enough
from tastespace.paper.pairs import Difference, holm, over_genres, over_seeds, paired
from tastespace.paper.runner import Row, run_cells
from tastespace.paper.runs import load_parts

_ALPHA = 0.05


@dataclass(frozen=True)
class Verdict:
    """What the measurements say of a claim."""

    claim: Claim
    dataset: str
    differences: dict[tuple[str, str, str], Difference]
    """(better, worse, metric) -> the difference."""
    runs: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """(better, worse, metric) -> how many seeds both were run with."""

    @property
    def word(self) -> str:
        """Holds, holds in part, or does not hold here; a difference counts if it is significant after Holm."""
        if not self.differences:
            return "not measured"
        signs = self._signs()
        if all(sign > 0 for sign in signs):
            return "holds"
        return "holds in part" if any(sign > 0 for sign in signs) else "does not hold here"

    @property
    def tally(self) -> str:
        """How many of the differences are for the claim, and how many against it, significantly.

        >>> from tastespace.paper.claims import find_claim
        >>> judge(find_claim("joint"), "town", []).tally
        'nothing measured'
        """
        if not self.differences:
            return "nothing measured"
        signs = self._signs()
        told = f"{signs.count(1)} of {len(signs)} differences significantly for it, {signs.count(-1)} against it"
        tested = "" if self.claim.over == "users" else f" tested over {self.claim.over},"
        return f"{told};{tested} {_range(self.runs.values())}"

    @property
    def measured(self) -> int:
        """How many of the claim's pairs were measured."""
        return len({(better, worse) for better, worse, _ in self.differences})

    @property
    def pairs(self) -> str:
        """How many of the claim's pairs the verdict is about.

        >>> from tastespace.paper.claims import find_claim
        >>> judge(find_claim("joint"), "town", []).pairs
        '0 of 1 pairs'
        """
        return f"{self.measured} of {len(self.claim.pairs)} pairs"

    def rows(self) -> list[dict[str, Any]]:
        """One row per difference, for programs; none where nothing was measured."""
        lines = {line.label: line for pair in self.claim.pairs for line in pair}
        trials = {label: trials_of(self.dataset, line) for label, line in lines.items()}
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
    results: str | Path,
    *,
    seeds: int | None = None,
    workers: int = 0,
    minutes: float | None = None,
) -> list[Verdict]:
    """Run what is missing to judge these claims on a data set; a run that several of them need is run once."""
    if any(claim.over == "genres" for claim in claims):
        large_enough(load_parts(dataset).train)  # refuses data without genres before anything is run
    wanted = {claim.name: claim.cells(dataset, claim.seeds if seeds is None else seeds) for claim in claims}
    once = {cell.key(): cell for cells in wanted.values() for cell in cells}
    done = dict(zip(once, run_cells(list(once.values()), results, workers=workers, minutes=minutes), strict=True))
    rows = {name: [replace(done[cell.key()], cell=cell) for cell in cells] for name, cells in wanted.items()}
    return [judge(claim, dataset, rows[claim.name]) for claim in claims]


def judge(claim: Claim, dataset: str, rows: Sequence[Row]) -> Verdict:
    """The verdict on a claim from finished cells of one data set."""
    by_label: dict[str, dict[int, Finished]] = {}
    for row in rows:
        if row.cell.dataset == dataset and row.finished is not None:
            by_label.setdefault(row.cell.title, {})[row.cell.seed] = row.finished
    found, runs = {}, {}
    for better, worse in claim.pairs:
        first, second = by_label.get(better.label, {}), by_label.get(worse.label, {})
        common = sorted(set(first) & set(second))
        for metric in claim.metrics if common else ():
            ones, others = [first[seed] for seed in common], [second[seed] for seed in common]
            difference = _compare(claim, dataset, metric, ones, others)
            if difference is not None and difference.n > 1:  # one seed, or one genre, measures nothing
                found[better.label, worse.label, metric] = difference
                runs[better.label, worse.label, metric] = len(common)
    return Verdict(claim, dataset, found, runs)


def _compare(
    claim: Claim, dataset: str, metric: str, better: Sequence[Finished], worse: Sequence[Finished]
) -> Difference | None:
    """None where runs were not measured by this metric."""
    if claim.over == "seeds":
        return over_seeds(better, worse, metric)
    if claim.over == "genres":
        names, _, small = large_enough(load_parts(dataset).train)
        return over_genres(better, worse, names[small].tolist())
    if any(metric not in run.per_user for run in (*better, *worse)):
        return None
    return paired(better, worse, metric)


def _range(seeds: Iterable[int]) -> str:
    """How many seeds in words.

    >>> _range([3, 1, 3]), _range([1])
    ('1 to 3 seeds', '1 seed')
    """
    found = sorted(seeds)
    least, most = found[0], found[-1]
    return f"{least} to {most} seeds" if least < most else f"{least} seed{'s' * (least != 1)}"
