"""The orderings that the paper claims, as data; `claim_tests` tests them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tastespace.errors import ParameterError, nearest
from tastespace.paper.experiments import RowSpec
from tastespace.paper.methods import BATCHES
from tastespace.paper.runner import PlannedRun
from tastespace.paper.runs import COLD_START_METRICS
from tastespace.paper.tables import (
    BOTH,
    EXPERIMENTS,
    NEGATIVES,
    STEAM,
    TRAININGS,
    content_row,
)

METRICS = ("P@3", "MAP", "MRR")


@dataclass(frozen=True)
class Claim:
    """The first method of each of these pairs is better than the second."""

    name: str
    text: str
    pairs: tuple[tuple[RowSpec, RowSpec], ...]
    """Better, worse."""
    metrics: tuple[str, ...] = METRICS
    """Metrics in which it is better."""
    default: bool = True
    """True if `tastespace paper claims` judges it without ``--claim``; those with many slow methods are not."""
    datasets: tuple[str, ...] = BOTH
    """Data sets on which a report judges it."""
    over: Literal["users", "seeds", "genres"] = "users"
    """Unit of the means and of the tests."""
    seeds: int = 3
    """Seeds per method, unless another number is given."""

    def planned_runs(self, dataset: str, seeds: int) -> list[PlannedRun]:
        """Return the runs that are needed to judge it."""
        specs = {spec.label: spec for pair in self.pairs for spec in pair}.values()
        return [
            PlannedRun(dataset, spec.method, seed, spec.parameters(dataset), label=spec.label)
            for spec in specs
            for seed in range(seeds)
        ]


def _row(method: str) -> RowSpec:
    return RowSpec(method, method)


def _without_dcrs(method: str) -> RowSpec:
    return RowSpec(f"{method} w/o DCRS", method, {"dcrs": None})


def _sorting(count: str) -> RowSpec:
    """With the parameters of DiHarS, as in the paper."""
    return RowSpec(f"{count}+ndihars", f"{count}+ndihars", like=f"{count}+dihars")


def _vector_pairs() -> tuple[tuple[RowSpec, RowSpec], ...]:
    """Every number of vectors against one, all else alike."""
    specs = {spec.label: spec for spec in EXPERIMENTS["vectors"].row_specs}
    samplers = {label.split(",")[0] for label in specs}
    ones = {sampler: specs[f"{sampler}, C = 1"] for sampler in sorted(samplers)}
    return tuple(
        (spec, ones[label.split(",")[0]]) for label, spec in specs.items() if spec not in ones.values()
    )  # fmt: skip


def _half(sampler: str, bound: str, other: str) -> RowSpec:
    """DCRS with one of its bounds only."""
    return RowSpec(f"bpa+{sampler}, only {bound}", f"bpa+{sampler}", {other: None})


def _weighted(sampler: str, weight: float) -> RowSpec:
    return RowSpec(f"bpa+{sampler}, eta = {weight:g}", f"bpa+{sampler}", {"spread_weight": weight})


def _drawing(method: str, n_negatives: int) -> RowSpec:
    return RowSpec(f"{method}, {n_negatives} negatives", method, {"n_negatives": n_negatives})


_DIVERSITY = tuple(f"{name}@{k}" for name in ("MaxDiv", "RelativeMaxDiv") for k in (3, 5, 10, 20))
"""Raw, in the scale of each space, and without a scale: no claim rests on the raw one alone."""
_COMPETITORS = tuple(
    spec.method
    for spec in EXPERIMENTS["results1"].row_specs
    if not spec.note and not spec.method.startswith(("bpa+", "apa+"))
)
_DIVERSITY_COMPETITORS = tuple(
    spec.method for spec in EXPERIMENTS["competitors"].row_specs if spec.method != "apa+dihars"
)  # fmt: skip
_COLD_START = tuple(f"{who} {metric}" for who in ("cold user", "cold item") for metric in COLD_START_METRICS)
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
            tuple((_row(f"apa+{s}"), _row(f"bpa+{s}")) for s in _SAMPLERS),
            datasets=_OVERALL,
        ),
        Claim(
            "bpa-cml",
            "Several vectors (BPA) do better than one (CML).",
            tuple((_row(f"bpa+{s}"), _row(f"cml+{s}")) for s in _SAMPLERS),
            datasets=_OVERALL,
        ),
        Claim(
            "apa-bpa-batches",
            "By the authors' rule, adaptive numbers of vectors (APA) do better than the same number for all (BPA).",
            tuple((_row(f"apa+{s}{BATCHES}"), _row(f"bpa+{s}{BATCHES}")) for s in _SAMPLERS),
            datasets=_OVERALL,
            default=False,
        ),
        Claim(
            "bpa-cml-batches",
            "By the authors' rule, several vectors (BPA) do better than one (CML).",
            tuple((_row(f"bpa+{s}{BATCHES}"), _row(f"cml+{s}{BATCHES}")) for s in _SAMPLERS),
            datasets=_OVERALL,
            default=False,
        ),
        Claim(
            "dihars-hars",
            "Differentiable hard sampling (DiHarS) does better than hard sampling (HarS).",
            tuple((_row(f"{c}+dihars"), _row(f"{c}+hars")) for c in _COUNTS),
            datasets=_OVERALL,
        ),
        Claim(
            "hars-unis",
            "Hard sampling (HarS) does better than uniform sampling (UniS).",
            tuple((_row(f"{c}+hars"), _row(f"{c}+unis")) for c in _COUNTS),
            datasets=_OVERALL,
        ),
        Claim(
            "dcrs",
            "Several vectors with spread control (DCRS) do better than without.",
            tuple((_row(m), _without_dcrs(m)) for m in ("bpa+unis", "bpa+hars", "apa+dihars")),
        ),
        Claim(
            "halves",
            "Each half of DCRS alone does better than none.",
            tuple(
                (_half(s, bound, other), _without_dcrs(f"bpa+{s}"))
                for s in ("unis", "hars")
                for bound, other in (("δ₁", "max_spread"), ("δ₂", "min_spread"))
            ),
            default=False,
            datasets=STEAM,
        ),
        Claim(
            "eta",
            "A weight of DCRS of about 10 does better than none.",
            tuple((_weighted(s, 10.0), _weighted(s, 0.0)) for s in ("unis", "hars")),
            default=False,
            datasets=STEAM,
        ),
        Claim(
            "sizes",
            "Several vectors do better than one for every number of negatives.",
            tuple((_drawing(several, n), _drawing(one, n)) for several, one in _AGAINST_ONE for n in NEGATIVES),
            default=False,
            datasets=STEAM,
        ),
        Claim(
            "ndihars",
            "Differentiable hard sampling (DiHarS) does better than sorting (NDiHarS).",
            tuple((_row(f"{c}+dihars"), _sorting(c)) for c in _COUNTS),
            datasets=("steam-200k", "ml-1m", "citeulike-t"),
        ),
        Claim(
            "diverse",
            "Several vectors give more diverse lists than one.",
            tuple((_row(several), _row(one)) for several, one in _AGAINST_ONE),
            _DIVERSITY,
            datasets=_OVERALL,
        ),
        Claim(
            "dd",
            "Several vectors give more diverse lists than one with lists re-ranked by distance (DD).",
            tuple((_row(several), _row(f"{one}+dd")) for several, one in _AGAINST_ONE),
            _DIVERSITY,
            default=False,
        ),
        Claim(
            "dihars-diverse",
            "Differentiable hard sampling (DiHarS) gives more diverse lists than hard sampling (HarS).",
            tuple((_row(f"{c}+dihars"), _row(f"{c}+hars")) for c in ("bpa", "apa")),
            _DIVERSITY,
        ),
        Claim(
            "plain-diverse",
            "Several vectors without spread control (DCRS) still give more diverse lists than one.",
            tuple((_without_dcrs(several), _row(one)) for several, one in _AGAINST_ONE),
            _DIVERSITY,
            default=False,
        ),
        Claim(
            "dcrs-diverse",
            "Spread control (DCRS) gives more diverse lists.",
            tuple((_row(f"{c}+{s}"), _without_dcrs(f"{c}+{s}")) for s in _SAMPLERS for c in ("bpa", "apa")),
            _DIVERSITY,
            default=False,
        ),
        Claim(
            "joint",
            "Joint accessibility (GFJA) does better with spread control (DCRS).",
            ((_row("gfja+dcrs"), _row("gfja")),),
        ),
        Claim(
            "mf",
            "With inner products spread control (DCRS) does harm: M2F does better without.",
            ((_row("m2f"), _row("m2f+dcrs")),),
            default=False,
        ),
        Claim(
            "minorities",
            "Several vectors serve minority genres better than one.",
            tuple((_row(several), _row(one)) for several, one in _AGAINST_ONE),
            ("MAP of minority genres",),
            default=False,
            datasets=("ml-1m",),
            over="genres",
        ),
        Claim(
            "vectors",
            "With several vectors, C = 2 ... 5, the training loss is lower than with one, and validation and test MRR "
            "are higher (Corollary 1).",
            _vector_pairs(),
            ("train loss", "validation MRR", "test MRR"),
            default=False,
            datasets=STEAM,
            over="seeds",
            seeds=5,
        ),
        Claim(
            "competitors",
            "APA with DiHarS does better than every competitor that the paper has in its overall table.",
            tuple((_row("apa+dihars"), _row(method)) for method in _COMPETITORS),
            default=False,
            datasets=_OVERALL,
        ),
        Claim(
            "ease",
            "Not in the paper: APA with DiHarS does better than EASE, a linear model.",
            ((_row("apa+dihars"), _row("ease")),),
            default=False,
            datasets=_OVERALL,
        ),
        Claim(
            "diversity-competitors",
            "APA with DiHarS does better than every diversity-promoting competitor.",
            tuple((_row("apa+dihars"), _row(method)) for method in _DIVERSITY_COMPETITORS),
            default=False,
        ),
        Claim(
            "cold",
            "With DropoutNet, several vectors do better for cold-start users and items than one, and than MGMF.",
            tuple(
                (content_row("DPCML+DN", training), content_row(other, training))
                for training in TRAININGS
                for other in ("CML+DN", "MGMF+DN")
            ),
            _COLD_START,
            default=False,
            datasets=("xing-2017-cold",),
        ),
    )
}


def find_claim(name: str) -> Claim:
    """A claim by name.

    >>> find_claim("dcrs").text
    'Several vectors with spread control (DCRS) do better than without.'
    """
    if name not in CLAIMS:
        raise ParameterError(f"no claim {name!r}; there are {', '.join(CLAIMS)}.{nearest(name, CLAIMS)}")
    return CLAIMS[name]
