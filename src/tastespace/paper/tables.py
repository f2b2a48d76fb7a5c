"""The paper's tables of figures as small pieces of data: which methods, with which changes, on which data sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tastespace.errors import ParameterError, nearest
from tastespace.paper.ablations import ABLATIONS, BOTH, SAMPLERS
from tastespace.paper.cells import SPREAD
from tastespace.paper.cold import COLD, COLD_COUNTS
from tastespace.paper.counted import COUNTED, Counted
from tastespace.paper.experiment import Experiment, Figures, Line
from tastespace.paper.numbers import ablation, diversity, efficiency

_OVERALL = (
    Line("most popular", "popular", note="not in the paper"),
    Line("EASE", "ease", note="not in the paper"),
    Line("itemKNN", "itemknn"),
    Line("BPR", "bpr"),
    Line("GMF", "gmf", quick=False),
    Line("MLP", "mlp", quick=False),
    Line("NeuMF", "neumf", quick=False),
    Line("M2F", "m2f", quick=False),
    Line("MGMF", "mgmf", quick=False),
    Line("Mult-VAE", "mult-vae", quick=False),
    Line("LightGCN", "lightgcn", quick=False),
    Line("CML+UniS", "cml+unis"),
    Line("CML+PopS", "cml+pops", quick=False),
    Line("CML+2stS", "cml+2sts", quick=False),
    Line("CML+HarS", "cml+hars"),
    Line("LRML", "lrml", quick=False),
    Line("TransCF", "transcf", quick=False),
    Line("AdaCML", "adacml", quick=False),
    Line("HLR", "hlr", quick=False),
    Line("BPA+UniS", "bpa+unis", quick=False),
    Line("APA+UniS", "apa+unis", quick=False),
    Line("BPA+HarS", "bpa+hars"),
    Line("APA+HarS", "apa+hars", quick=False),
    Line("BPA+DiHarS", "bpa+dihars", quick=False),
    Line("APA+DiHarS", "apa+dihars"),
)
_COMPETITORS = (
    Line("UniS+DD", "cml+unis+dd"),
    Line("UniS+PD", "cml+unis+pd", quick=False),
    Line("HarS+DD", "cml+hars+dd", quick=False),
    Line("HarS+PD", "cml+hars+pd", quick=False),
    Line("PRD", "prd", quick=False),
    Line("RecNet", "recnet", quick=False),
    Line("DP-RecNet", "dp-recnet", quick=False),
    Line("IDCF", "idcf", quick=False),
    Line("GCN-AccDiv", "gcn-accdiv", quick=False),
    Line("APA+DiHarS", "apa+dihars"),
)
_INFERENCE = (
    Line("CML", "cml+hars"),
    Line("LRML", "lrml", quick=False),
    Line("TransCF", "transcf", quick=False),
    Line("AdaCML", "adacml", quick=False),
    Line("HLR", "hlr", quick=False),
    Line("DPCML+BPA", "bpa+hars"),
    Line("DPCML+APA", "apa+hars"),
)
_JOINT = (
    Line("M2F", "m2f", quick=False),
    Line("M2F+DCRS", "m2f+dcrs", quick=False),
    Line("GFJA", "gfja"),
    Line("GFJA+DCRS", "gfja+dcrs"),
)


def _spread_lines() -> tuple[Line, ...]:
    """Labels are "method, sampler", as the paper's numbers are found."""
    lines = []
    for sampler, title in SAMPLERS.items():
        quick = sampler == "hars"
        lines.append(Line(f"CML, {title}", f"cml+{sampler}", quick=quick))
        if sampler != "dihars":
            lines.append(Line(f"CML+DD, {title}", f"cml+{sampler}+dd", quick=quick))
        for family in ("bpa", "apa"):
            name, method = f"DPCML+{family.upper()}", f"{family}+{sampler}"
            lines.append(Line(f"{name} w/o DCRS, {title}", method, {"dcrs": None}, quick=quick))
            lines.append(Line(f"{name}, {title}", method, quick=quick))
    return tuple(lines)


def _inference(result: Mapping[str, Any]) -> Figures:
    return {"seconds for all": result["inference_seconds"]}


def _their_inference(dataset: str, line: Line) -> Figures:
    found = efficiency("inference_seconds", dataset).get(line.label)
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
            _spread_lines(),
            BOTH,
            theirs=lambda dataset, line: diversity(dataset, line.label),
            shown=SPREAD,
        ),
        Experiment(
            "joint",
            "DCRS for joint accessibility",
            _JOINT,
            BOTH,
            theirs=lambda dataset, line: ablation("tab:reg_for_MF", dataset).get(line.label, {}),
        ),
        Experiment(
            "inference",
            "Inference time, lists for everybody on one thread",
            _INFERENCE,
            ("steam-200k", "ml-1m", "citeulike-t", "ml-10m"),
            theirs=_their_inference,
            ours=_inference,
            shown=("seconds for all",),
        ),
        *ABLATIONS,
        COLD,
    )
}
"""Tables whose rows are runs."""

TABLES: dict[str, Experiment | Counted] = {**COUNTED, COLD_COUNTS.name: COLD_COUNTS, **EXPERIMENTS}
"""All tables."""


def find_table(name: str) -> Experiment | Counted:
    """A table by name.

    >>> find_table("results1").datasets
    ('steam-200k', 'ml-1m')
    """
    if name not in TABLES:
        raise ParameterError(f"no table {name!r}; there are {', '.join(TABLES)}.{nearest(name, TABLES)}")
    return TABLES[name]
