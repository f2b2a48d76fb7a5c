"""Declarations of the experiments in which one method is varied: what the paper's ablations and figures show."""

from __future__ import annotations

from typing import Any

from tastespace.paper.experiment import Experiment, Line
from tastespace.paper.numbers import ablation

STEAM = ("steam-200k",)
BOTH = ("steam-200k", "ml-1m")
SAMPLERS = {"unis": "UniS", "hars": "HarS", "dihars": "DiHarS"}
FAMILIES = {"cml": "CML", "bpa": "BPA", "apa": "APA"}

WEIGHTS = (0.0, 1.0, 3.0, 5.0, 10.0, 20.0, 30.0)
NEGATIVES = (10, 20, 30, 40, 50, 100, 150, 200)
"""U of UniS and S of HarS."""
HARDEST = (1, 5, 10, 15, 20, 25)
"""U of HarS, at the S of `POOLS`."""
POOLS = (40, 50)
VECTORS = (1, 2, 3, 4, 5)
"""C."""
LOW = (0.0, 0.05, 0.1, 0.2, 0.5)
"""delta_1."""
HIGH = (0.0, 0.1, 0.25, 0.35, 0.5, 0.8)
"""delta_2."""
NO_DCRS, SINGLE = "no DCRS", "one vector"

FORMS = ("w/o DCRS", "DCRS, only δ₁", "DCRS, only δ₂", "DCRS")
"""Labels of the forms of DCRS."""
_FORMS: dict[str, dict[str, Any]] = dict(
    zip(FORMS, ({"dcrs": None}, {"max_spread": None}, {"min_spread": None}, {}), strict=True)
)
_PUBLISHED = dict(zip(FORMS, ("w/o DCRS", "DCRS-\\delta_1", "DCRS-\\delta_2", "DCRS"), strict=True))
# As the paper selects epochs; a registry's model by its own name does not.
_SELECTION: dict[str, Any] = {"monitor": "P@3", "monitor_protocol": "paper"}


def bounds(low: float, high: float) -> str:
    """Label of the run with these two bounds of DCRS.

    >>> bounds(0.05, 0.25), bounds(0.0, 0.0), bounds(0.5, 0.1)
    ('0.05 to 0.25', 'one vector', 'no DCRS')
    """
    if low > high:
        return NO_DCRS
    return SINGLE if low == high == 0 else f"{low:g} to {high:g}"


def _weights(sampler: str, table: str) -> Experiment:
    return Experiment(
        f"eta-{sampler}",
        f"Weight of DCRS, BPA+{SAMPLERS[sampler]}",
        tuple(Line(f"eta = {w:g}", f"bpa+{sampler}", {"spread_weight": w}, quick=w in (0.0, 10.0)) for w in WEIGHTS),
        STEAM,
        theirs=lambda dataset, line: ablation(table, dataset).get(f"{line.changes['spread_weight']:g}", {}),
    )


def _forms(sampler: str, table: str) -> Experiment:
    return Experiment(
        f"dcrs-{sampler}",
        f"Sides of DCRS, BPA+{SAMPLERS[sampler]}",
        tuple(Line(name, f"bpa+{sampler}", changes) for name, changes in _FORMS.items()),
        STEAM,
        theirs=lambda dataset, line: ablation(table, dataset).get(_PUBLISHED[line.label], {}),
        shown=("P@3", "R@3", "NDCG@3", "MAP", "MRR"),
    )


def _surface(sampler: str) -> Experiment:
    method = f"bpa+{sampler}"
    lines = {
        NO_DCRS: Line(NO_DCRS, method, {"dcrs": None, "n_interests": 5}),
        SINGLE: Line(SINGLE, f"cml+{sampler}", like=method),
    }
    for low in LOW:
        for high in HIGH:
            name = bounds(low, high)
            both = {"min_spread": low, "max_spread": high, "spread_weight": 10.0, "n_interests": 5}
            lines.setdefault(name, Line(name, method, both, quick=low in (0.0, 0.1) and high in (0.1, 0.35)))
    return Experiment(
        f"delta-{sampler}", f"Bounds of DCRS, BPA+{SAMPLERS[sampler]}", tuple(lines.values()), STEAM, _not_published
    )


def _negatives(sampler: str, letter: str) -> Experiment:
    lines = (
        Line(f"{title}, {letter} = {n}", f"{family}+{sampler}", {"n_negatives": n}, quick=n in (10, 50))
        for family, title in FAMILIES.items()
        for n in NEGATIVES
    )
    title = f"Negatives per positive, {SAMPLERS[sampler]}"
    return Experiment(f"{letter.lower()}-{sampler}", title, tuple(lines), STEAM, _not_published)


def _hardest() -> Experiment:
    # "+hars" means the one hardest candidate; with more of them it is the model with that sampler.
    models: dict[str, tuple[str, dict[str, Any]]] = {
        "cml": ("cml", {}),
        "bpa": ("dpcml", {"n_interests": 5}),
        "apa": ("dpcml", {"n_interests": "adaptive"}),
    }
    lines = []
    for family, (model, fixed) in models.items():
        for pool in POOLS:
            for used in HARDEST:
                name = f"{FAMILIES[family]}, S = {pool}, U = {used}"
                sampling = {"sampler": "hars", "n_negatives": pool, "n_hardest": used}
                quick = pool == POOLS[0] and used in (1, 10)
                changes = {**fixed, **sampling, **_SELECTION}
                lines.append(Line(name, model, changes, like=f"{family}+hars", quick=quick))
    return Experiment("u-hars", "Hardest candidates used, HarS", tuple(lines), STEAM, _not_published)


def _hard_sampling() -> Experiment:
    """The paper: "the hyper-parameter setups stay the same as DiHarS"."""
    lines = []
    for family, title in (("cml", "CML"), ("bpa", "DPCML")):
        lines += [
            Line(f"{title}+HarS", f"{family}+hars"),
            Line(f"{title}+NDiHarS", f"{family}+ndihars", like=f"{family}+dihars"),
            Line(f"{title}+DiHarS", f"{family}+dihars"),
        ]
    datasets = ("steam-200k", "citeulike-t", "ml-1m")
    return Experiment("hard-sampling", "Forms of hard sampling", tuple(lines), datasets, _not_published)


def _vectors() -> Experiment:
    """C from 1 to 5; only C changes, so one vector has the parameters of several."""
    lines = []
    for sampler, title in SAMPLERS.items():
        for count in VECTORS:
            quick = count in (1, 5) and sampler != "dihars"
            name = f"{title}, C = {count}"
            if count == 1:
                lines.append(Line(name, f"cml+{sampler}", like=f"bpa+{sampler}", quick=quick))
            else:
                lines.append(Line(name, f"bpa+{sampler}", {"n_interests": count}, quick=quick))
    return Experiment("vectors", "Number of vectors (Corollary 1)", tuple(lines), STEAM, _not_published, seeds=5)


def _not_published(dataset: str, line: Line) -> dict[str, float]:
    """The paper draws these and gives no numbers."""
    return {}


ABLATIONS = (
    _weights("unis", "tab:sen_dpcml1"),
    _weights("hars", "tab:sen_dpcml2"),
    _forms("unis", "tab:DPCML1"),
    _forms("hars", "tab:DPCML2"),
    _negatives("unis", "U"),
    _negatives("hars", "S"),
    _hardest(),
    _hard_sampling(),
    _vectors(),
    _surface("unis"),
    _surface("hars"),
)
