"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tastespace.paper.rendering import to_markdown
from tastespace.paper.report.collecting import Collected, Section
from tastespace.paper.report.far import HEADING, remarks
from tastespace.paper.verdicts import Verdict

HOW_TO_READ = (
    "Ours is the test set by the paper's protocol: mean over seeds, plus or minus the standard deviation where several "
    "were run. In brackets stand the paper's figure and the difference, ours minus theirs. Methods that the paper does "
    "not have, rows that were not run, and methods that ran with the library's defaults, because no search of theirs "
    "is stored, are marked. p is the chance of so large a gap to the best row in P@3 if there were none: paired "
    "t-test over users, corrected by Holm; it is about these trained models and other users, not about other seeds. "
    "Trials: how many were made to choose the parameters, on validation. Seconds: one run on one core; other work "
    "on the machine makes them longer, so close ones should not be compared."
)


HOW_CLAIMS_ARE_JUDGED = (
    "A claim is a set of differences between two methods in several metrics. It holds if all are as claimed and "
    "significant, in part if some are. Significant: paired t-test over users, each user's figure being the mean over "
    "the seeds, unless another one is named; corrected by Holm, below 0.05. Over users means: for these trained "
    "models; with one seed, another training could turn a small difference, and so could a longer search for "
    "parameters: the tables tell the trials behind every row, claims.csv those of both sides. MaxDiv is measured in "
    "each model's own space, as in the paper, so a wider space counts as more diverse."
)


def to_twin(found: Collected, facts: Mapping[str, str], out: Path) -> str:
    """The whole report; figures are linked relative to ``out``."""
    lines = ["# The paper, reproduced", "", ", ".join(f"{name} {value}" for name, value in facts.items()), ""]
    lines += ["## Claims", "", *_claims(found.verdicts)]
    lines += ["## Tables", "", HOW_TO_READ, ""]
    for section in found.sections:
        lines += [_section(section)]
    lines += ["## Figures", ""]
    for drawn in found.figures:
        path = next(file for file in drawn.files if file.suffix == ".png").relative_to(out)
        caption = drawn.caption
        lines += [
            f"### {drawn.picture.title}, {drawn.dataset}",
            "",
            f"![{drawn.picture.title}]({path})",
            "",
            caption,
            "",
        ]
    lines += ["## Gaps", "", *_gaps(found)]
    return "\n".join(lines) + "\n"


def _section(section: Section) -> str:
    table = to_markdown(section.table, section.found, p_values=section.p_values, difference=True, dataset_in_title=True)
    made = f"`{section.command}`" + (f": {section.effort}." if section.effort else "")
    far = remarks(section)
    return "\n".join([table, made, "", *([HEADING, "", *(f"* {text}" for text in far), ""] if far else [])])


def _claims(verdicts: list[Verdict]) -> list[str]:
    if not verdicts:
        return ["Claims are judged on full runs only.", ""]
    datasets, rows = by_claim(verdicts)
    lines = [f"| claim | {' | '.join(datasets)} |", "| --- |" + " --- |" * len(datasets)]
    for text, judged in rows.items():
        cells = ["" if one is None else f"**{one.word}**{_behind(one)}" for one in judged]
        lines.append(f"| {text} | {' | '.join(cells)} |")
    return [HOW_CLAIMS_ARE_JUDGED, "", *lines, ""]


def by_claim(verdicts: list[Verdict]) -> tuple[list[str], dict[str, list[Verdict | None]]]:
    """The data sets, and a claim's text -> what each of them says of it; None where it is not about that one."""
    datasets = list(dict.fromkeys(verdict.dataset for verdict in verdicts))
    found: dict[str, list[Verdict | None]] = {}
    for verdict in verdicts:
        row = found.setdefault(verdict.claim.text, [None] * len(datasets))
        row[datasets.index(verdict.dataset)] = verdict
    return datasets, found


def _behind(verdict: Verdict) -> str:
    """What the word rests on."""
    if not verdict.measured:
        return ""
    part = f"{verdict.pairs}: " if verdict.measured < len(verdict.claim.pairs) else ""
    return f" ({part}{verdict.tally})"


def _gaps(found: Collected) -> list[str]:
    if not found.gaps:
        return ["None."]
    lines = ["| what | data set | why |", "| --- | --- | --- |"]
    return [*lines, *(f"| {what} | {dataset} | {why} |" for what, dataset, why in found.gaps)]
