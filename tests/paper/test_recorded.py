import pytest

from tastespace.paper.cells import ALL_METRICS, PlannedRun
from tastespace.paper.runs import execute

SMALL = {"dim": 8, "epochs": 3}


@pytest.fixture(scope="module")
def trained():
    return execute(PlannedRun("town", "bpa+hars", parameters=SMALL), threads=1, progress=False)[0]


def test_a_run_writes_down_how_training_went(trained):
    assert [row["epoch"] for row in trained["history"]] == [1, 2, 3]
    assert all(row["loss"] > 0 and row["seconds"] > 0 for row in trained["history"])
    assert 0 < trained["inference_seconds"] < trained["seconds"] + 3
    assert trained["train_seconds"] < trained["seconds"]
    assert set(trained["valid_metrics"]) == {"P@3", "MAP", "MRR"}
    best = trained["history"][trained["best_epoch"] - 1]
    assert best["P@3"] == pytest.approx(trained["valid_metrics"]["P@3"])


def test_everything_is_measured_that_can_be(trained):
    assert {"P@3", "MaxDiv@20", "ILS@3", "Coverage@10", "MAP[Jazz]"} <= set(trained["metrics"])
    popular = execute(PlannedRun("town", "popular"), threads=1)[0]
    assert "Coverage@10" in popular["metrics"]
    assert "MaxDiv@20" not in popular["metrics"]
    assert popular["history"] == []
    assert ALL_METRICS[0] == "P"
