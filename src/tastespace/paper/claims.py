"""The orderings that the paper claims, each with the verdict that the measurements give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tastespace.errors import ParameterError, nearest
from tastespace.paper.ablations import BOTH, NEGATIVES, STEAM
from tastespace.paper.cells import Cell, Finished
from tastespace.paper.cold import TRAININGS, fused_line
from tastespace.paper.entries import trials_of
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
    datasets: tuple[str, ...] = BOTH
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


def _range(seeds: Iterable[int]) -> str:
    """How many seeds in words.

    >>> _range([3, 1, 3]), _range([1])
    ('1 to 3 seeds', '1 seed')
    """
    found = sorted(seeds)
    least, most = found[0], found[-1]
    return f"{least} to {most} seeds" if least < most else f"{least} seed{'s' * (least != 1)}"


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


def _half(sampler: str, bound: str, other: str) -> Line:
    """DCRS with one of its bounds only."""
    return Line(f"bpa+{sampler}, only {bound}", f"bpa+{sampler}", {other: None})


def _weighted(sampler: str, weight: float) -> Line:
    return Line(f"bpa+{sampler}, eta = {weight:g}", f"bpa+{sampler}", {"diversity_weight": weight})


def _drawing(method: str, candidates: int) -> Line:
    return Line(f"{method}, {candidates} negatives", method, {"candidates": candidates})


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
"""Data sets with an overall table, less MovieLens-10M."""
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
            "halves",
            "Each half of DCRS alone does better than none.",
            tuple(
                (_half(s, bound, other), _without_dcrs(f"bpa+{s}"))
                for s in ("unis", "hars")
                for bound, other in (("δ₁", "max_diversity"), ("δ₂", "min_diversity"))
            ),
            asked=False,
            datasets=STEAM,
        ),
        Claim(
            "eta",
            "A weight of DCRS of about 10 does better than none.",
            tuple((_weighted(s, 10.0), _weighted(s, 0.0)) for s in ("unis", "hars")),
            asked=False,
            datasets=STEAM,
        ),
        Claim(
            "sizes",
            "Several vectors do better than one for every number of negatives.",
            tuple(
                (_drawing(f"{c}+{s}", n), _drawing(f"cml+{s}", n))
                for s in ("unis", "hars")
                for c in ("bpa", "apa")
                for n in NEGATIVES
            ),
            asked=False,
            datasets=STEAM,
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
            "dd",
            "Several vectors give more diverse lists than one with lists re-ranked by distance (DD).",
            tuple((_line(f"{c}+{s}"), _line(f"cml+{s}+dd")) for s in ("unis", "hars") for c in ("bpa", "apa")),
            _DIVERSITY,
            asked=False,
        ),
        Claim(
            "dihars-diverse",
            "Differentiable hard sampling (DiHarS) gives more diverse lists than hard sampling (HarS).",
            tuple((_line(f"{c}+dihars"), _line(f"{c}+hars")) for c in ("bpa", "apa")),
            _DIVERSITY,
        ),
        Claim(
            "plain-diverse",
            "Several vectors without diversity control still give more diverse lists than one.",
            tuple((_without_dcrs(f"{c}+{s}"), _line(f"cml+{s}")) for s in ("unis", "hars") for c in ("bpa", "apa")),
            _DIVERSITY,
            asked=False,
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
            "mf",
            "With inner products diversity control (DCRS) does harm: M2F does better without.",
            ((_line("m2f"), _line("m2f+dcrs")),),
            asked=False,
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
            datasets=STEAM,
            over="seeds",
            seeds=5,
        ),
        Claim(
            "competitors",
            "APA with DiHarS does better than every competitor that the paper has in its overall table.",
            tuple((_line("apa+dihars"), _line(method)) for method in _COMPETITORS),
            asked=False,
            datasets=_OVERALL,
        ),
        Claim(
            "ease",
            "Not in the paper: APA with DiHarS does better than EASE, a linear model.",
            ((_line("apa+dihars"), _line("ease")),),
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
