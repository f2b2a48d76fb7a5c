"""The orderings that the paper claims as small pieces of data; `verdicts` judges them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tastespace.errors import ParameterError, nearest
from tastespace.paper.ablations import BOTH, NEGATIVES, STEAM
from tastespace.paper.cells import Cell
from tastespace.paper.cold import TRAININGS, fused_line
from tastespace.paper.experiment import Line
from tastespace.paper.tables import EXPERIMENTS

METRICS = ("P@3", "MAP", "MRR")


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
    return Line(f"bpa+{sampler}, eta = {weight:g}", f"bpa+{sampler}", {"spread_weight": weight})


def _drawing(method: str, candidates: int) -> Line:
    return Line(f"{method}, {candidates} negatives", method, {"n_negatives": candidates})


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
_AGAINST_ONE = tuple((f"{c}+{s}", f"cml+{s}") for s in ("unis", "hars") for c in ("bpa", "apa"))
"""Several vectors and one, with the same sampler."""

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
                for bound, other in (("δ₁", "max_spread"), ("δ₂", "min_spread"))
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
            tuple((_drawing(several, n), _drawing(one, n)) for several, one in _AGAINST_ONE for n in NEGATIVES),
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
            tuple((_line(several), _line(one)) for several, one in _AGAINST_ONE),
            _DIVERSITY,
            datasets=_OVERALL,
        ),
        Claim(
            "dd",
            "Several vectors give more diverse lists than one with lists re-ranked by distance (DD).",
            tuple((_line(several), _line(f"{one}+dd")) for several, one in _AGAINST_ONE),
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
            tuple((_without_dcrs(several), _line(one)) for several, one in _AGAINST_ONE),
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
            tuple((_line(several), _line(one)) for several, one in _AGAINST_ONE),
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
