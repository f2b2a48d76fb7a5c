"""RunResult cells that nobody trained, so that tables, figures and reports can be made in no time."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tastespace.paper.cells import ACCURACY, LIST_DIVERSITY, PlannedRun, RunResult
from tastespace.paper.runner import RunStatus
from tastespace.paper.runs import load_parts

N_USERS = 40
METRICS = [f"{name}@{k}" for name in ACCURACY[:3] for k in (3, 5)] + ["MAP", "MRR"]


def _categories() -> list[str]:
    attributes = load_parts("town").train.item_attributes
    assert attributes is not None
    return sorted({name for names in attributes["genres"] for name in names})


def untrained_result(planned: PlannedRun) -> RunResult:
    """Figures that depend on the cell alone."""
    rng = np.random.default_rng(zlib.crc32(f"{planned.title} {planned.seed} {planned.dataset}".encode()))
    level = rng.uniform(20, 30)
    per_user = {name: level + rng.normal(0, 5, N_USERS) for name in (*METRICS, *LIST_DIVERSITY)}
    metrics = {name: float(values.mean()) for name, values in per_user.items()}
    metrics |= {f"MAP[{name}]": float(rng.uniform(5, 20)) for name in _categories()}
    metrics |= {f"{who} {name}": float(rng.uniform(5, 20)) for who in ("cold user", "cold item") for name in METRICS}
    history = [{"epoch": n + 1, "loss": 1 / (n + 1), "seconds": float(rng.uniform(0.1, 0.2))} for n in range(4)]
    return RunResult(
        {
            "metrics": metrics,
            "valid_metrics": {"P@3": level, "MAP": level, "MRR": level},
            "history": history,
            "best_epoch": 3,
            "seconds": 2.0,
            "train_seconds": float(rng.uniform(0.5, 90)),
            "inference_seconds": float(rng.uniform(0.01, 0.2)),
        },
        per_user,
    )


@pytest.fixture(scope="session")
def done() -> Callable[[Sequence[PlannedRun]], list[RunStatus]]:
    """Rows as if all these cells had been run."""
    return lambda cells: [RunStatus(planned, "done", untrained_result(planned)) for planned in cells]
