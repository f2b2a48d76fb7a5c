"""Made-up results, so that tables, figures and reports can be tested without training."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tastespace.paper.data import load_parts
from tastespace.paper.runner import LIST_DIVERSITY, PlannedRun, RunResult, RunStatus
from tastespace.paper.runs import ACCURACY

N_USERS = 40
METRICS = [f"{name}@{k}" for name in ACCURACY[:3] for k in (3, 5)] + ["MAP", "MRR"]


def _categories() -> list[str]:
    attributes = load_parts("town").train.item_attributes
    assert attributes is not None
    return sorted({name for names in attributes["genres"] for name in names})


def untrained_result(planned: PlannedRun) -> RunResult:
    """Figures that depend on the planned run alone."""
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
    """Statuses as if all of these had been run."""
    return lambda planned_runs: [RunStatus(planned, "done", untrained_result(planned)) for planned in planned_runs]


@pytest.fixture(autouse=True)
def _own_parameters(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads or writes the parameters of whoever runs it."""
    monkeypatch.setenv("TASTESPACE_PARAMETERS", str(tmp_path_factory.getbasetemp() / "parameters.json"))
