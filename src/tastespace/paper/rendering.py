"""Finished tables as Markdown and as rows for programs, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tastespace.paper.counted import Counted
from tastespace.paper.entries import Entry
from tastespace.paper.experiment import Experiment


def shown_metrics(table: Experiment | Counted, found: Sequence[Entry]) -> list[str]:
    """Which columns the table has: those declared of which there is a figure, all of them where there is none."""
    some = [name for name in table.shown if any(name in entry.ours or name in entry.theirs for entry in found)]
    return some or list(table.shown)


def problems_of(found: Sequence[Entry]) -> list[str]:
    """Why rows are not complete, where that is known."""
    return [f"{entry.label}, {entry.dataset}: {_first_line(entry)}" for entry in found if entry.problem]


def _first_line(entry: Entry) -> str:
    """Of the reason: further lines tell where somebody looked for the data, which is nobody else's."""
    return entry.problem.partition("\n")[0]


def to_markdown(
    table: Experiment | Counted,
    found: Sequence[Entry],
    *,
    p_values: Mapping[str, float] | None = None,
    difference: bool = False,
    dataset_in_title: bool = False,
) -> str:
    """The table as Markdown: ours, plus or minus its spread, with the paper's figure in brackets.

    Args:
        table: Its declaration.
        found: Its rows.
        p_values: Of a test against the best row, by label: a column of their own.
        difference: Write ours minus theirs behind the paper's figure.
        dataset_in_title: Name the data set in the heading, where the rows are of one.
    """
    metrics = shown_metrics(table, found)
    timed = isinstance(table, Experiment)
    extra = (["p"] if p_values else []) + (["seeds", "trials", "seconds"] if timed else [])
    where = f", {found[0].dataset}" if timed and dataset_in_title and found else ""
    lines = [f"### {table.title}{where} (`{table.name}`)", ""]
    for group in _groups(table, found):
        head = f"| {'method' if timed else 'data set'} | {' | '.join([*metrics, *extra])} |"
        lines += [f"**{group[0].dataset}**", "", head] if timed and not where else [head]
        lines.append("| --- |" + " ---: |" * len([*metrics, *extra]))
        for entry in group:
            cells = [_cell(entry, name, difference) for name in metrics]
            if p_values:
                cells.append(chance(p_values[entry.label]) if entry.label in p_values else "")
            if timed:
                cells += [str(entry.seeds), str(entry.trials or ""), f"{entry.seconds:.0f}"]
            marks = "".join(f" *{mark}*" for mark in marks_of(entry))
            lines.append(f"| {row_name(table, entry)}{marks} | {' | '.join(cells)} |")
        lines.append("")
    if timed and problems_of(found):
        lines += ["Not complete:", "", *(f"* {problem}" for problem in problems_of(found)), ""]
    return "\n".join(lines)


def _groups(table: Experiment | Counted, found: Sequence[Entry]) -> list[list[Entry]]:
    """Rows that stand in one table: of one data set, and what is counted of all data sets together."""
    if isinstance(table, Counted):
        return [list(found)] if found else []
    return [
        [entry for entry in found if entry.dataset == dataset]
        for dataset in dict.fromkeys(entry.dataset for entry in found)
    ]


def row_name(table: Experiment | Counted, entry: Entry) -> str:
    """What stands at the beginning of a row."""
    if not isinstance(table, Counted):
        return entry.label
    return entry.dataset if len(table.labels) == 1 else f"{entry.dataset}, {entry.label}"


def marks_of(entry: Entry) -> list[str]:
    """What is said behind a row's name: that it is not complete, and its note."""
    state = [] if entry.state == "complete" else [entry.state]
    return [*state, *([entry.note] if entry.note else [])]


def _cell(entry: Entry, name: str, difference: bool) -> str:
    ours, theirs = entry.ours.get(name), entry.theirs.get(name)
    gap = ""
    if difference and ours is not None and theirs is not None:
        gap = f", {signed(ours - theirs, theirs)}"
    brackets = "" if theirs is None else f" ({as_text(theirs)}{gap})"
    if ours is None:
        return f"-{brackets}"
    spread = f" ± {as_text(entry.spread[name], ours)}" if name in entry.spread else ""
    return as_text(ours) + spread + brackets


def as_text(value: float, like: float | None = None) -> str:
    """A figure as people write it: counts whole, percentages with two digits behind the point, small ones with three.

    ``like`` is another figure that decides how many digits there are: a spread has those of its mean.

    >>> as_text(575271.0), as_text(26.66), as_text(0.0926), as_text(0.7071, like=26.5)
    ('575,271', '26.66', '0.093', '0.71')
    """
    size = abs(value if like is None else like)
    if size >= 1000 or (size >= 100 and float(value).is_integer()):
        return f"{value:,.0f}"
    return f"{value:.2f}" if size >= 1 else f"{value:.3f}"


def chance(p: float) -> str:
    """A p-value as people write it.

    >>> chance(0.0), chance(0.0123), chance(0.5)
    ('< 0.001', '0.012', '0.50')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def signed(difference: float, like: float) -> str:
    """A difference with its sign and the digits of the figure that it belongs to.

    >>> signed(1.234, 26.5), signed(-3.0, 1200.0), signed(0.001, 3.81)
    ('+1.23', '-3', '=')
    """
    text = as_text(abs(difference), like)
    if not text.strip("0."):
        return "="
    return ("+" if difference > 0 else "-") + text


def to_rows(table: Experiment | Counted, found: Sequence[Entry]) -> list[dict[str, Any]]:
    """One row per entry and metric, for programs: dataset, method, metric, ours, spread, paper, difference, ...

    The metrics are those that the table shows and those that the paper gives.
    """
    rows = []
    for entry in found:
        for name in dict.fromkeys([*shown_metrics(table, found), *entry.theirs]):
            ours, theirs = entry.ours.get(name), entry.theirs.get(name)
            rows.append(
                {
                    "dataset": entry.dataset,
                    "label": entry.label,
                    "method": entry.method,
                    "metric": name,
                    "ours": ours,
                    "spread": entry.spread.get(name),
                    "paper": theirs,
                    "difference": None if ours is None or theirs is None else ours - theirs,
                    "seeds": entry.seeds,
                    "trials": entry.trials,
                    "seconds": entry.seconds,
                    "state": entry.state,
                    "note": entry.note,
                    "problem": _first_line(entry),
                }
            )
    return rows
