"""The orderings that the paper claims, each with the verdict that the measurements give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tastespace.errors import ParameterError, nearest
from tastespace.paper.cells import Cell, Finished
from tastespace.paper.cold import TRAININGS, fused_line
from tastespace.paper.experiment import Line
from tastespace.paper.minorities import large_enough
from tastespace.paper.pairs import Difference, holm, over_genres, over_seeds, paired
from tastespace.paper.runner import Row, run_cells
from tastespace.paper.runs import load_parts
from tastespace.paper.tables import EXPERIMENTS

METRICS = ("P@3", "MAP", "MRR")
_ALPHA = 0.05


@dataclass(frozen=True)
class Claim:
    """One thing is better than another, for each of these pairs."""

    name: str
    text: str
    pairs: tuple[tuple[Line, Line], ...]
    """Better, worse."""
    metrics: tuple[str, ...] = METRICS
    """In which it is better."""
    asked: bool = True
    """Whether it is judged unless others are asked for; those with many slow methods are not."""
    datasets: tuple[str, ...] = ("steam-200k", "ml-1m")
    """Where a report judges it."""
    over: Literal["users", "seeds", "genres"] = "users"
    """What a difference is the mean over, and is tested over."""
    seeds: int = 3
    """Runs of each method, unless more or fewer are asked for."""

    def cells(self, dataset: str, seeds: int) -> list[Cell]:
        """What must be run to judge it."""
        lines = {line.label: line for pair in self.pairs for line in pair}.values()
        return [
            Cell(dataset, line.method, seed, line.parameters(dataset), label=line.label)
            for line in lines
            for seed in range(seeds)
        ]


@dataclass(frozen=True)
class Verdict:
    """What the measurements say of a claim."""

    claim: Claim
    dataset: str
    differences: dict[tuple[str, str, str], Difference]
    """(better, worse, metric) -> the difference."""

    @property
    def word(self) -> str:
        """Holds, holds in part, or does not hold here; a difference counts if it is significant after Holm."""
        if not self.differences:
            return "not measured"
        right = [d.mean > 0 for d in self.differences.values()]
        sure = self._significant()
        if all(right) and all(sure):
            return "holds"
        if any(good and certain for good, certain in zip(right, sure, strict=True)):
            return "holds in part"
        return "does not hold here"

    @property
    def measured(self) -> int:
        """How many of the claim's pairs were measured."""
        return len({(better, worse) for better, worse, _ in self.differences})

    @property
    def pairs(self) -> str:
        """How many of the claim's pairs the verdict is about.

        >>> judge(find_claim("joint"), "town", []).pairs
        '0 of 1 pairs'
        """
        return f"{self.measured} of {len(self.claim.pairs)} pairs"

    def rows(self) -> list[dict[str, Any]]:
        """One row per difference, for programs; none where nothing was measured."""
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
                "over": self.claim.over,
                "n": found.n,
            }
            for (better, worse, metric), found in self.differences.items()
        ]

    def _significant(self) -> list[bool]:
        """Holm's step-down over all differences of the claim."""
        return [p <= _ALPHA for p in holm([d.p_value for d in self.differences.values()])]


def _line(method: str) -> Line:
    return Line(method, method)


def _without_dcrs(method: str) -> Line:
    return Line(f"{method} w/o DCRS", method, {"dcrs": None})


def _sorting(count: str) -> Line:
    """With the parameters of DiHarS, as in the paper."""
    return Line(f"{count}+ndihars", f"{count}+ndihars", like=f"{count}+dihars")


def _vector_pairs() -> tuple[tuple[Line, Line], ...]:
    """Every number of vectors against one, all else alike."""
    lines = {line.label: line for line in EXPERIMENTS["vectors"].lines}
    samplers = {label.split(",")[0] for label in lines}
    ones = {sampler: lines[f"{sampler}, C = 1"] for sampler in sorted(samplers)}
    return tuple(
        (line, ones[label.split(",")[0]]) for label, line in lines.items() if line not in ones.values()
    )  # fmt: skip


_DIVERSITY = ("MaxDiv@3", "MaxDiv@5", "MaxDiv@10", "MaxDiv@20")
_COMPETITORS = tuple(
    line.method
    for line in EXPERIMENTS["results1"].lines
    if not line.note and not line.method.startswith(("bpa+", "apa+"))
)
_DIVERSITY_COMPETITORS = tuple(
    line.method for line in EXPERIMENTS["competitors"].lines if line.method != "apa+dihars"
)  # fmt: skip
_STRANGERS = tuple(f"{who} {figure}" for who in ("cold user", "cold item") for figure in ("P@3", "R@3", "NDCG@3"))
_OVERALL = ("steam-200k", "ml-1m", "citeulike-t", "xing-2017")
"""Data sets with an overall table, less MovieLens-10M, on which nothing was ever run."""
_SAMPLERS = ("unis", "hars", "dihars")
_COUNTS = ("cml", "bpa", "apa")

CLAIMS = {
    claim.name: claim
    for claim in (
        Claim(
            "apa-bpa",
            "Adaptive numbers of vectors (APA) do better than the same number for all (BPA).",
            tuple((_line(f"apa+{s}"), _line(f"bpa+{s}")) for s in _SAMPLERS),
            datasets=_OVERALL,
        ),
        Claim(
            "bpa-cml",
            "Several vectors (BPA) do better than one (CML).",
            tuple((_line(f"bpa+{s}"), _line(f"cml+{s}")) for s in _SAMPLERS),
            datasets=_OVERALL,
        ),
        Claim(
            "dihars-hars",
            "Differentiable hard sampling (DiHarS) does better than hard sampling (HarS).",
            tuple((_line(f"{c}+dihars"), _line(f"{c}+hars")) for c in _COUNTS),
            datasets=_OVERALL,
        ),
        Claim(
            "hars-unis",
            "Hard sampling (HarS) does better than uniform sampling (UniS).",
            tuple((_line(f"{c}+hars"), _line(f"{c}+unis")) for c in _COUNTS),
            datasets=_OVERALL,
        ),
        Claim(
            "dcrs",
            "Several vectors with diversity control (DCRS) do better than without.",
            tuple((_line(m), _without_dcrs(m)) for m in ("bpa+unis", "bpa+hars", "apa+dihars")),
        ),
        Claim(
            "ndihars",
            "Differentiable hard sampling (DiHarS) does better than sorting (NDiHarS).",
            tuple((_line(f"{c}+dihars"), _sorting(c)) for c in ("cml", "bpa")),
            datasets=("steam-200k", "ml-1m", "citeulike-t"),
        ),
        Claim(
            "diverse",
            "Several vectors give more diverse lists than one.",
            tuple((_line(f"{c}+{s}"), _line(f"cml+{s}")) for s in ("unis", "hars") for c in ("bpa", "apa")),
            _DIVERSITY,
            datasets=_OVERALL,
        ),
        Claim(
            "dcrs-diverse",
            "Diversity control (DCRS) gives more diverse lists.",
            tuple((_line(f"{c}+{s}"), _without_dcrs(f"{c}+{s}")) for s in _SAMPLERS for c in ("bpa", "apa")),
            _DIVERSITY,
            asked=False,
        ),
        Claim(
            "joint",
            "Joint accessibility (GFJA) does better with diversity control (DCRS).",
            ((_line("gfja+dcrs"), _line("gfja")),),
        ),
        Claim(
            "minorities",
            "Several vectors serve minority genres better than one.",
            tuple((_line(f"{c}+{s}"), _line(f"cml+{s}")) for s in ("unis", "hars") for c in ("bpa", "apa")),
            ("MAP of minority genres",),
            asked=False,
            datasets=("ml-1m",),
            over="genres",
        ),
        Claim(
            "vectors",
            "With several vectors, C = 2 ... 5, training fits better than with one, and so does what is new "
            "(Corollary 1).",
            _vector_pairs(),
            ("train loss", "validation MRR", "test MRR"),
            asked=False,
            datasets=("steam-200k",),
            over="seeds",
            seeds=5,
        ),
        Claim(
            "competitors",
            "APA with DiHarS does better than every competitor of the overall table.",
            tuple((_line("apa+dihars"), _line(method)) for method in _COMPETITORS),
            asked=False,
            datasets=_OVERALL,
        ),
        Claim(
            "diversity-competitors",
            "APA with DiHarS does better than every diversity-promoting competitor.",
            tuple((_line("apa+dihars"), _line(method)) for method in _DIVERSITY_COMPETITORS),
            asked=False,
        ),
        Claim(
            "cold",
            "Several vectors with DropoutNet meet strangers better than one, and than MGMF.",
            tuple(
                (fused_line("DPCML+DN", training), fused_line(other, training))
                for training in TRAININGS
                for other in ("CML+DN", "MGMF+DN")
            ),
            _STRANGERS,
            asked=False,
            datasets=("xing-2017-cold",),
        ),
    )
}


def find_claim(name: str) -> Claim:
    """A claim by name.

    >>> find_claim("dcrs").text
    'Several vectors with diversity control (DCRS) do better than without.'
    """
    if name not in CLAIMS:
        raise ParameterError(f"no claim {name!r}; there are {', '.join(CLAIMS)}.{nearest(name, CLAIMS)}")
    return CLAIMS[name]


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
    found = {}
    for better, worse in claim.pairs:
        first, second = by_label.get(better.label, {}), by_label.get(worse.label, {})
        common = sorted(set(first) & set(second))
        for metric in claim.metrics if common else ():
            ones, others = [first[seed] for seed in common], [second[seed] for seed in common]
            difference = _compare(claim, dataset, metric, ones, others)
            if difference.n > 1:  # one seed, or one genre, measures nothing
                found[better.label, worse.label, metric] = difference
    return Verdict(claim, dataset, found)


def _compare(
    claim: Claim, dataset: str, metric: str, better: Sequence[Finished], worse: Sequence[Finished]
) -> Difference:
    if claim.over == "seeds":
        return over_seeds(better, worse, metric)
    if claim.over == "genres":
        names, _, small = large_enough(load_parts(dataset).train)
        return over_genres(better, worse, names[small].tolist())
    return paired(better, worse, metric)
