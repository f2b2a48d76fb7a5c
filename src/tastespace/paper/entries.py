"""A row of a finished table: mean and spread over seeds, the paper's figure beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tastespace.models import registry
from tastespace.paper.experiment import Experiment, Figures, Line
from tastespace.paper.methods import find_method
from tastespace.paper.runner import Row
from tastespace.paper.stored import stored_parameters, stored_trials


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
    """complete, partial (some seeds are missing), cut, failed, no data, or missing."""
    problem: str = ""
    note: str = ""
    """What the reader should know of the row."""
    trials: int = 0
    """Made to choose its parameters on validation; 0 where no search is stored."""


DEFAULTS = "defaults"
"""Note of a row for whose method no search was stored on this data set."""
QUICK = "quick"
"""Note of a row that was run for few epochs, only to see that it works."""


def missing(dataset: str, label: str, theirs: Figures, problem: str) -> Entry:
    """The row of a data set that is not here: a marked gap."""
    return Entry(dataset, label, "", {}, {}, theirs, 0, 0.0, "no data", problem)


def entries(experiment: Experiment, rows: Sequence[Row]) -> list[Entry]:
    """One entry for each line and data set, in the order of the declaration."""
    found = []
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.cell.dataset, row.cell.title), []).append(row)
    lines = {line.label: line for line in experiment.lines}
    for (dataset, label), group in groups.items():
        done = [row.finished.result for row in group if row.finished is not None]
        ours, spread = over_seeds([experiment.ours(result) for result in done])
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
                note=_note(dataset, lines[label], any(row.cell.quick for row in group), bool(done)),
                trials=trials_of(dataset, lines[label]),
            )
        )
    return found


def trials_of(dataset: str, line: Line) -> int:
    """How many trials chose the parameters of a row, those of a first stage among them."""
    method = find_method(line.like or line.method)
    first = 0 if method.second_stage is None else stored_trials(dataset, method.first_stage)
    return first + stored_trials(dataset, method.name)


def _note(dataset: str, line: Line, quick: bool, run: bool) -> str:
    method = find_method(line.like or line.method)
    tunable = set(registry()[method.model]._parameter_names()) - {"threads", "seed"}
    searched = stored_parameters(dataset, method.name) or stored_parameters(dataset, method.first_stage)
    notes = [line.note, DEFAULTS if run and tunable and not searched else "", QUICK if quick else ""]
    return ", ".join(note for note in notes if note)


def over_seeds(results: Sequence[Figures]) -> tuple[Figures, Figures]:
    """Mean and standard deviation of each figure; no deviation of a single one.

    >>> over_seeds([{"P@3": 1.0}, {"P@3": 3.0}])
    ({'P@3': 2.0}, {'P@3': 1.4142135623730951})
    """
    if not results:
        return {}, {}
    names = list(results[0])
    table = np.array([[result[name] for name in names] for result in results], dtype=float)
    spread = {} if len(results) < 2 else dict(zip(names, table.std(axis=0, ddof=1).tolist(), strict=True))
    return dict(zip(names, table.mean(axis=0).tolist(), strict=True)), spread


def _worst(states: set[str]) -> str:
    return next((state for state in ("failed", "no data", "cut") if state in states), "missing")
