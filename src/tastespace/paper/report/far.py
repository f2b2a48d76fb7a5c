"""Which figures are far from the paper's, by how much, and what differs from the paper's setting there."""

from __future__ import annotations

from tastespace.paper.entries import QUICK, Entry
from tastespace.paper.report.collecting import Section

_TABLES = ("results1", "citeulike", "competitors")
_JUDGED = ("P@3", "MRR")
_FAR = 10.0  # percent of the paper's figure

HEADING = (
    "More than 10 % from the paper. It searched a grid for every method, with Adam, batches of 256 and 100 epochs; "
    "what is known to differ here, and may be the reason, is said, with the number of trials that chose our parameters:"
)

_NEGATIVES = "several fresh negatives for every positive in each epoch, larger batches"
_RATES = "Adagrad at rates far above the paper's grid (0.0003 to 0.01)"
_REASONS = {
    "itemknn": "neighborhood and shrinkage, of which the paper tells neither",
    **dict.fromkeys(("gmf", "mlp", "neumf", "m2f", "mgmf", "m2f+dcrs"), _NEGATIVES),
    **dict.fromkeys(("lrml", "transcf", "adacml", "hlr"), _RATES),
    **dict.fromkeys(("cml", "bpa", "apa"), f"{_RATES}, averaged vectors"),
    **dict.fromkeys(
        ("+dd", "+pd"), "another first stage (CML in the overall table), and a share of diversity chosen for accuracy"
    ),
}


def remarks(section: Section) -> list[str]:
    """A line on every method that is more than a tenth away from the paper in P@3 or MRR."""
    if section.table.name not in _TABLES or any(QUICK in entry.note for entry in section.found):
        return []
    return [text for entry in section.found if (text := _remark(entry))]


def _remark(entry: Entry) -> str:
    known = [name for name in _JUDGED if name in entry.ours and entry.theirs.get(name)]
    gaps = {name: 100 * (entry.ours[name] / entry.theirs[name] - 1) for name in known}
    far = {name: gap for name, gap in gaps.items() if abs(gap) > _FAR}
    if not far:
        return ""
    told = " and ".join(f"{name} {abs(gap):.0f} % {'above' if gap > 0 else 'below'}" for name, gap in far.items())
    second = _REASONS.get(f"+{entry.method.rpartition('+')[2]}")
    reason = second or _REASONS.get(entry.method) or _REASONS.get(entry.method.partition("+")[0], "nothing known")
    return f"{entry.label}: {told}; {reason} ({entry.trials} trial{'s' * (entry.trials != 1)})."
