"""The paper's tables as data: methods, changes to their parameters, data sets.

First the ablations, in which one method is varied; then cold start; then the overall tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from tastespace.data.cold_start import SUFFIX
from tastespace.errors import ParameterError, nearest
from tastespace.paper.data import TOWN
from tastespace.paper.experiments import (
    Experiment,
    Metrics,
    RowSpec,
    published_ablation,
    published_diversity,
    published_efficiency,
    published_table,
)
from tastespace.paper.methods import BATCHES, PRETRAINED, SELECTION
from tastespace.paper.runner import LIST_DIVERSITY
from tastespace.paper.runs import COLD_START_METRICS
from tastespace.paper.statistics import PAPER_SUBSET, STATISTICS_TABLES, StatisticsTable

STEAM = ("steam-200k",)
BOTH = ("steam-200k", "ml-1m")
SAMPLERS = {"unis": "UniS", "hars": "HarS", "dihars": "DiHarS"}
FAMILIES = {"cml": "CML", "bpa": "BPA", "apa": "APA"}

RULES = {BATCHES: "their rule", "": "our trainer"}
FAMILY_METHODS = tuple(
    f"{family}+{sampler}{rule}" for rule in (BATCHES, "") for sampler in SAMPLERS for family in FAMILIES
)
"""CML, BPA and APA with each sampler, by the authors' rule and by our trainer."""

WEIGHTS = (0.0, 1.0, 3.0, 5.0, 10.0, 20.0, 30.0)
NEGATIVES = (10, 20, 30, 40, 50, 100, 150, 200)
"""U of UniS and S of HarS."""
HARDEST = (1, 5, 10, 15, 20, 25)
"""U of HarS, at the S of `N_DRAWN`."""
N_DRAWN = (40, 50)
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
_PUBLISHED_FORMS = dict(zip(FORMS, ("w/o DCRS", "DCRS-\\delta_1", "DCRS-\\delta_2", "DCRS"), strict=True))


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
        tuple(RowSpec(f"eta = {w:g}", f"bpa+{sampler}", {"spread_weight": w}, quick=w in (0.0, 10.0)) for w in WEIGHTS),
        STEAM,
        published=lambda dataset, spec: published_ablation(table, dataset).get(
            f"{spec.changes['spread_weight']:g}", {}
        ),
    )


def _forms(sampler: str, table: str) -> Experiment:
    return Experiment(
        f"dcrs-{sampler}",
        f"Sides of DCRS, BPA+{SAMPLERS[sampler]}",
        tuple(RowSpec(name, f"bpa+{sampler}", changes) for name, changes in _FORMS.items()),
        STEAM,
        published=lambda dataset, spec: published_ablation(table, dataset).get(_PUBLISHED_FORMS[spec.label], {}),
        shown=("P@3", "R@3", "NDCG@3", "MAP", "MRR"),
    )


def _surface(sampler: str) -> Experiment:
    method = f"bpa+{sampler}"
    specs = {
        NO_DCRS: RowSpec(NO_DCRS, method, {"dcrs": None, "n_interests": 5}),
        SINGLE: RowSpec(SINGLE, f"cml+{sampler}", like=method),
    }
    for low in LOW:
        for high in HIGH:
            name = bounds(low, high)
            both = {"min_spread": low, "max_spread": high, "spread_weight": 10.0, "n_interests": 5}
            specs.setdefault(name, RowSpec(name, method, both, quick=low in (0.0, 0.1) and high in (0.1, 0.35)))
    return Experiment(
        f"delta-{sampler}", f"Bounds of DCRS, BPA+{SAMPLERS[sampler]}", tuple(specs.values()), STEAM, _not_published
    )


def _negatives(sampler: str, letter: str) -> Experiment:
    specs = (
        RowSpec(f"{title}, {letter} = {n}", f"{family}+{sampler}", {"n_negatives": n}, quick=n in (10, 50))
        for family, title in FAMILIES.items()
        for n in NEGATIVES
    )
    title = f"Negatives per positive, {SAMPLERS[sampler]}"
    return Experiment(f"{letter.lower()}-{sampler}", title, tuple(specs), STEAM, _not_published)


def _hardest() -> Experiment:
    # "+hars" means the one hardest negative; with more of them it is the model with that sampler.
    models: dict[str, tuple[str, dict[str, Any]]] = {
        "cml": ("cml", {}),
        "bpa": ("dpcml", {"n_interests": 5}),
        "apa": ("dpcml", {"n_interests": "adaptive"}),
    }
    specs = []
    for family, (model, fixed) in models.items():
        for drawn in N_DRAWN:
            for used in HARDEST:
                name = f"{FAMILIES[family]}, S = {drawn}, U = {used}"
                sampling = {"sampler": "hars", "n_negatives": drawn, "n_hardest": used}
                quick = drawn == N_DRAWN[0] and used in (1, 10)
                changes = {**fixed, **sampling, **SELECTION}
                specs.append(RowSpec(name, model, changes, like=f"{family}+hars", quick=quick))
    return Experiment("u-hars", "Hardest negatives used, HarS", tuple(specs), STEAM, _not_published)


def _hard_sampling() -> Experiment:
    """The paper: "the hyper-parameter setups stay the same as DiHarS"."""
    specs = []
    for family, title in (("cml", "CML"), ("bpa", "DPCML"), ("apa", "DPCML+APA")):
        specs += [
            RowSpec(f"{title}+HarS", f"{family}+hars"),
            RowSpec(f"{title}+NDiHarS", f"{family}+ndihars", like=f"{family}+dihars"),
            RowSpec(f"{title}+DiHarS", f"{family}+dihars"),
        ]
    datasets = ("steam-200k", "citeulike-t", "ml-1m")
    return Experiment("hard-sampling", "Forms of hard sampling", tuple(specs), datasets, _not_published)


def _family(name: str, title: str, splits: bool) -> Experiment:
    """CML, BPA and APA with each sampler, by both rules, with five seeds."""
    specs = tuple(
        RowSpec(f"{FAMILIES[family]}+{SAMPLERS[sampler]}, {text}", f"{family}+{sampler}{rule}", quick=sampler == "hars")
        for rule, text in RULES.items()
        for sampler in SAMPLERS
        for family in FAMILIES
    )
    return Experiment(name, title, specs, (*BOTH, "citeulike-t", "xing-2017"), seeds=5, splits=splits)


def _vectors() -> Experiment:
    """C from 1 to 5; only C changes, so one vector has the parameters of several."""
    specs = []
    for sampler, title in SAMPLERS.items():
        for count in VECTORS:
            quick = count in (1, 5) and sampler != "dihars"
            name = f"{title}, C = {count}"
            if count == 1:
                specs.append(RowSpec(name, f"cml+{sampler}", like=f"bpa+{sampler}", quick=quick))
            else:
                specs.append(RowSpec(name, f"bpa+{sampler}", {"n_interests": count}, quick=quick))
    return Experiment("vectors", "Number of vectors (Corollary 1)", tuple(specs), STEAM, _not_published, seeds=5)


def _not_published(dataset: str, spec: RowSpec) -> dict[str, float]:
    """Return no values: the paper draws these without giving numbers."""
    return {}


_ABLATIONS = (
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

SITUATIONS = ("warm", "cold user", "cold item")
TRAININGS = {"joint": "Joint-Training", "pretrained": "Pre-Training"}
COLD_METHODS = ("MGMF+DN", "CML+DN", "DPCML+DN")
_TOWN = f"{TOWN}{SUFFIX}"


def label_of(method: str, training: str) -> str:
    """Label of the row of a method that is trained in one of the two ways.

    >>> label_of("CML+DN", "pretrained")
    'CML+DN, Pre-Training'
    """
    return f"{method}, {TRAININGS[training]}"


def content_row(method: str, training: str) -> RowSpec:
    """The row of a method that is trained in one of the two ways.

    >>> content_row("CML+DN", "pretrained").method
    'cml+dn+pt'
    """
    if training == "pretrained":
        return RowSpec(label_of(method, training), method.lower() + PRETRAINED, quick=False)
    return RowSpec(label_of(method, training), method.lower(), {"training": training})


_NOT_IN_PAPER = "not in the paper"
_COLD = (
    RowSpec("most popular", "popular", note=_NOT_IN_PAPER),
    RowSpec("content neighbors", "contentknn", note=_NOT_IN_PAPER),
    # Warm users without content, by HarS, as the models with content on xing-2017.
    RowSpec("CML+HarS", "cml+hars", note=f"{_NOT_IN_PAPER}, no cold start"),
    RowSpec("DPCML+HarS", "bpa+hars", note=f"{_NOT_IN_PAPER}, no cold start"),
    *(content_row(method, training) for training in TRAININGS for method in COLD_METHODS),
)


def _cold_metrics(result: Mapping[str, Any]) -> Metrics:
    """Users and items of the training data are the warm ones; cold-start items are ranked among themselves."""
    metrics: Metrics = result["metrics"]
    found = {f"warm {name}": metrics[name] for name in COLD_START_METRICS if name in metrics}
    return found | {name: value for name, value in metrics.items() if name.startswith("cold")}


def _published_cold(dataset: str, spec: RowSpec) -> Metrics:
    if dataset != "xing-2017-cold" or spec.note:
        return {}
    method, _, training = spec.label.partition(", ")
    rows = published_table("cold_start").filter(
        (pl.col("subset") == PAPER_SUBSET) & (pl.col("training") == training) & (pl.col("method") == method)
    )
    return {
        name: float(value) for name, value in rows.row(0, named=True).items() if name.startswith(("warm ", "cold "))
    }


_COLD_TABLE = Experiment(
    "cold",
    "Cold start (the paper's values: RecSys, subset 1, another sample than xing-2017)",
    _COLD,
    ("xing-2017-cold", "ml-1m-cold", "citeulike-a-cold"),
    published=_published_cold,
    ours=_cold_metrics,
    shown=tuple(f"{situation} {metric}" for situation in SITUATIONS for metric in COLD_START_METRICS),
    town=_TOWN,
)

_OVERALL = (
    RowSpec("most popular", "popular", note="not in the paper"),
    RowSpec("EASE", "ease", note="not in the paper"),
    RowSpec("itemKNN", "itemknn"),
    RowSpec("BPR", "bpr"),
    RowSpec("GMF", "gmf", quick=False),
    RowSpec("MLP", "mlp", quick=False),
    RowSpec("NeuMF", "neumf", quick=False),
    RowSpec("M2F", "m2f", quick=False),
    RowSpec("MGMF", "mgmf", quick=False),
    RowSpec("Mult-VAE", "mult-vae", quick=False),
    RowSpec("LightGCN", "lightgcn", quick=False),
    RowSpec("CML+UniS", "cml+unis"),
    RowSpec("CML+PopS", "cml+pops", quick=False),
    RowSpec("CML+2stS", "cml+2sts", quick=False),
    RowSpec("CML+HarS", "cml+hars"),
    RowSpec("LRML", "lrml", quick=False),
    RowSpec("TransCF", "transcf", quick=False),
    RowSpec("AdaCML", "adacml", quick=False),
    RowSpec("HLR", "hlr", quick=False),
    RowSpec("BPA+UniS", "bpa+unis", quick=False),
    RowSpec("APA+UniS", "apa+unis", quick=False),
    RowSpec("BPA+HarS", "bpa+hars"),
    RowSpec("APA+HarS", "apa+hars", quick=False),
    RowSpec("BPA+DiHarS", "bpa+dihars", quick=False),
    RowSpec("APA+DiHarS", "apa+dihars"),
)
_COMPETITORS = (
    RowSpec("UniS+DD", "cml+unis+dd"),
    RowSpec("UniS+PD", "cml+unis+pd", quick=False),
    RowSpec("HarS+DD", "cml+hars+dd", quick=False),
    RowSpec("HarS+PD", "cml+hars+pd", quick=False),
    RowSpec("PRD", "prd", quick=False),
    RowSpec("RecNet", "recnet", quick=False),
    RowSpec("DP-RecNet", "dp-recnet", quick=False),
    RowSpec("IDCF", "idcf", quick=False),
    RowSpec("GCN-AccDiv", "gcn-accdiv", quick=False),
    RowSpec("APA+DiHarS", "apa+dihars"),
)
_INFERENCE = (
    RowSpec("CML", "cml+hars"),
    RowSpec("LRML", "lrml", quick=False),
    RowSpec("TransCF", "transcf", quick=False),
    RowSpec("AdaCML", "adacml", quick=False),
    RowSpec("HLR", "hlr", quick=False),
    RowSpec("DPCML+BPA", "bpa+hars"),
    RowSpec("DPCML+APA", "apa+hars"),
)
_JOINT = (
    RowSpec("M2F", "m2f", quick=False),
    RowSpec("M2F+DCRS", "m2f+dcrs", quick=False),
    RowSpec("GFJA", "gfja"),
    RowSpec("GFJA+DCRS", "gfja+dcrs"),
)


def _diversity_rows() -> tuple[RowSpec, ...]:
    """Labels are "method, sampler", as in the published numbers."""
    specs = []
    for sampler, title in SAMPLERS.items():
        quick = sampler == "hars"
        specs.append(RowSpec(f"CML, {title}", f"cml+{sampler}", quick=quick))
        if sampler != "dihars":
            specs.append(RowSpec(f"CML+DD, {title}", f"cml+{sampler}+dd", quick=quick))
        for family in ("bpa", "apa"):
            name, method = f"DPCML+{family.upper()}", f"{family}+{sampler}"
            specs.append(RowSpec(f"{name} w/o DCRS, {title}", method, {"dcrs": None}, quick=quick))
            specs.append(RowSpec(f"{name}, {title}", method, quick=quick))
    return tuple(specs)


def _inference(result: Mapping[str, Any]) -> Metrics:
    return {"seconds for all": result["inference_seconds"]}


def _published_inference(dataset: str, spec: RowSpec) -> Metrics:
    found = published_efficiency("inference_seconds", dataset).get(spec.label)
    return {} if found is None else {"seconds for all": found}


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment("results1", "Overall performance", _OVERALL, BOTH),
        Experiment("results2", "Overall performance, MovieLens-10M", _OVERALL, ("ml-10m",)),
        Experiment("citeulike", "Overall performance, CiteULike-T", _OVERALL, ("citeulike-t",)),
        Experiment(
            "recsys", "Overall performance, xing-2017 in place of RecSys-1 (another sample)", _OVERALL, ("xing-2017",)
        ),
        Experiment("competitors", "Diversity-promoting competitors", _COMPETITORS, BOTH),
        Experiment(
            "diversity",
            "Diversity of the lists",
            _diversity_rows(),
            BOTH,
            published=lambda dataset, spec: published_diversity(dataset, spec.label),
            shown=LIST_DIVERSITY,
        ),
        Experiment(
            "joint",
            "DCRS for joint accessibility",
            _JOINT,
            BOTH,
            published=lambda dataset, spec: published_ablation("tab:reg_for_MF", dataset).get(spec.label, {}),
        ),
        Experiment(
            "inference",
            "Inference time, lists for all users on one thread",
            _INFERENCE,
            ("steam-200k", "ml-1m", "citeulike-t", "ml-10m"),
            published=_published_inference,
            ours=_inference,
            shown=("seconds for all",),
        ),
        _family("family", "One vector and several: the authors' rule and our trainer, their split", splits=False),
        _family("family-splits", "The same, each seed with a split of its own", splits=True),
        *_ABLATIONS,
        _COLD_TABLE,
    )
}
"""Tables whose rows are runs."""

TABLES: dict[str, Experiment | StatisticsTable] = {**STATISTICS_TABLES, **EXPERIMENTS}
"""All tables."""


def find_table(name: str) -> Experiment | StatisticsTable:
    """A table by name.

    >>> find_table("results1").datasets
    ('steam-200k', 'ml-1m')
    """
    if name not in TABLES:
        raise ParameterError(f"no table {name!r}; there are {', '.join(TABLES)}.{nearest(name, TABLES)}")
    return TABLES[name]
