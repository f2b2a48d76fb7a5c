"""Finished cells as a table: mean and spread over seeds, the paper's figure beside ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from tastespace.paper.cells import Finished
from tastespace.paper.runner import Row
from tastespace.paper.tables import Experiment, Figures

_SHOWN = ("P@3", "NDCG@3", "P@5", "NDCG@5", "MAP", "MRR")


@dataclass(frozen=True)
class Entry:
    """A row of a finished table."""

    dataset: str
    label: str
    method: str
    ours: Figures
    """Mean over the seeds that were run."""
    spread: Figures
    """Standard deviation over them; empty for one."""
    theirs: Figures
    seeds: int
    seconds: float
    """Of one run."""
    state: str
    """complete, partial (some seeds are missing), cut, failed, or missing."""
    problem: str = ""


def entries(experiment: Experiment, rows: Sequence[Row]) -> list[Entry]:
    """One entry for each line and data set, in the order of the declaration."""
    found = []
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.cell.dataset, row.cell.title), []).append(row)
    lines = {line.label: line for line in experiment.lines}
    for (dataset, label), group in groups.items():
        done = [row.finished.result for row in group if row.finished is not None]
        ours, spread = _over_seeds([result["metrics"] for result in done])
        states = {row.state for row in group}
        state = "complete" if len(done) == len(group) else "partial" if done else _worst(states)
        found.append(
            Entry(
                dataset=dataset,
                label=label,
                method=lines[label].method,
                ours=ours,
                spread=spread,
                theirs=experiment.theirs(dataset, lines[label]),
                seeds=len(done),
                seconds=float(np.mean([result["seconds"] for result in done])) if done else 0.0,
                state=state,
                problem=next((row.problem for row in group if row.problem), ""),
            )
        )
    return found


def _worst(states: set[str]) -> str:
    return next((state for state in ("failed", "cut") if state in states), "missing")


def _over_seeds(results: list[Figures]) -> tuple[Figures, Figures]:
    if not results:
        return {}, {}
    names = list(results[0])
    table = np.array([[result[name] for name in names] for result in results], dtype=float)
    spread = {} if len(results) < 2 else dict(zip(names, table.std(axis=0, ddof=1).tolist(), strict=True))
    return dict(zip(names, table.mean(axis=0).tolist(), strict=True)), spread


def to_markdown(experiment: Experiment, found: Sequence[Entry]) -> str:
    """The table as Markdown: ours, plus or minus its spread, with the paper's figure in brackets."""
    metrics = [name for name in _SHOWN if any(name in entry.ours or name in entry.theirs for entry in found)]
    metrics = metrics or list(dict.fromkeys(name for entry in found for name in entry.ours))
    lines = [f"### {experiment.title} (`{experiment.name}`)", ""]
    for dataset in dict.fromkeys(entry.dataset for entry in found):
        lines += [f"**{dataset}**", "", f"| method | {' | '.join(metrics)} | seeds | seconds |"]
        lines.append("| --- |" + " ---: |" * (len(metrics) + 2))
        for entry in (entry for entry in found if entry.dataset == dataset):
            cells = [_cell(entry, name) for name in metrics]
            note = "" if entry.state == "complete" else f" *{entry.state}*"
            lines.append(f"| {entry.label}{note} | {' | '.join(cells)} | {entry.seeds} | {entry.seconds:.0f} |")
        lines.append("")
    return "\n".join(lines)


def _cell(entry: Entry, name: str) -> str:
    theirs = f" ({entry.theirs[name]:.2f})" if name in entry.theirs else ""
    if name not in entry.ours:
        return f"-{theirs}"
    spread = f" ± {entry.spread[name]:.2f}" if name in entry.spread else ""
    digits = 2 if abs(entry.ours[name]) >= 1 else 3
    return f"{entry.ours[name]:.{digits}f}{spread}{theirs}"


def to_rows(found: Sequence[Entry]) -> list[dict[str, Any]]:
    """One row per entry and metric, for programs: dataset, method, metric, ours, spread, paper, difference, ..."""
    rows = []
    for entry in found:
        for name in dict.fromkeys([*entry.ours, *entry.theirs]):
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
                    "seconds": entry.seconds,
                    "state": entry.state,
                }
            )
    return rows


@dataclass(frozen=True)
class Difference:
    """One method against another on the same users."""

    mean: float
    """First minus second."""
    p_value: float
    n_users: int


def paired(first: Sequence[Finished], second: Sequence[Finished], metric: str) -> Difference:
    """Paired t-test over users, each user's figure being the mean over seeds."""
    # Who does not count for a metric does not in any seed, so a plain mean leaves them out.
    a, b = (np.mean([run.per_user[metric] for run in runs], axis=0) for runs in (first, second))
    known = ~(np.isnan(a) | np.isnan(b))
    gap = a[known] - b[known]
    if not len(gap) or not gap.any():
        return Difference(0.0, 1.0, len(gap))
    p = float(stats.ttest_rel(a[known], b[known]).pvalue)
    return Difference(float(gap.mean()), 1.0 if math.isnan(p) else p, len(gap))
