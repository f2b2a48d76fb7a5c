"""The comparison with other libraries: one evaluator for all lists, and a page that follows from the committed logs."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.data.merge import concat

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks" / "peers"
RESULTS = sorted((FOLDER / "results").glob("*.json"))


@pytest.fixture
def modules(monkeypatch):
    """`evaluation`, `page` and `runner`, which are imported from their own folder."""
    monkeypatch.syspath_prepend(str(FOLDER))
    names = ("evaluation", "page", "runner", "environments")
    yield {name: __import__(name) for name in names}
    for name in names:
        sys.modules.pop(name)


@pytest.fixture
def world(modules, monkeypatch):
    data = ts.synthetic.multi_interest(n_users=120, n_items=90, n_interactions=3000, seed=1).interactions
    parts = ts.split.per_user(data, (0.6, 0.2, 0.2), seed=0)
    monkeypatch.setattr(modules["evaluation"], "parts", lambda name: parts)
    return parts


def listed(model, k=20):
    items, scores = model.recommend_indices(k=k)
    users = np.repeat(np.arange(len(items)), k)
    return pl.DataFrame({"user": users, "item": items.ravel(), "score": scores.ravel()}).filter(pl.col("item") >= 0)


def test_lists_in_a_file_measure_as_the_model_that_made_them(modules, world, tmp_path):
    train, valid, test = world
    known = concat(train, valid)
    model = ts.EASE().fit(known)
    file = tmp_path / "lists.parquet"
    listed(model).sample(fraction=1.0, shuffle=True, seed=0).write_parquet(file)  # the order of rows says nothing
    found = modules["evaluation"].measure_lists("synthetic", file)
    metrics = list(modules["evaluation"].METRICS)
    expected = ts.evaluate(model, test, seen=known, metrics=metrics, categories="genres")
    assert {name: found[name] for name in metrics} == {name: round(expected[name], 5) for name in metrics}
    assert found["short_lists"] == 0

    listed(model).filter(pl.col("user") % 2 == 0).write_parquet(file)  # half of the users get no list
    half = modules["evaluation"].measure_lists("synthetic", file)
    values = expected.per_user["NDCG@10"]
    even = np.asarray(known.users.index_of(expected.users.to_list())) % 2 == 0
    assert half["NDCG@10"] == pytest.approx(values[even].sum() / len(values), abs=1e-5)
    assert half["short_lists"] == known.n_users // 2


def test_lists_with_known_or_repeated_items_are_refused(modules, world, tmp_path):
    train, valid, _ = world
    known, file = concat(train, valid), tmp_path / "lists.parquet"
    lists = listed(ts.EASE().fit(known))
    pl.concat([lists, lists.head(1)]).write_parquet(file)
    with pytest.raises(SystemExit, match="1 items listed twice"):
        modules["evaluation"].measure_lists("synthetic", file)
    lists.with_columns(
        item=pl.when(pl.int_range(pl.len()) == 0).then(int(known.indices[0])).otherwise("item")
    ).write_parquet(file)
    with pytest.raises(SystemExit, match="1 that the user already has"):
        modules["evaluation"].measure_lists("synthetic", file)


def test_the_metric_that_chooses_parameters_is_the_evaluators(modules, world, tmp_path):
    train, valid, _ = world
    modules["evaluation"].exchange("synthetic", tmp_path)
    runner = modules["runner"]
    both, held_out = runner.read(tmp_path, "train", "valid"), runner.read(tmp_path, "valid")
    assert (both.matrix != concat(train, valid).matrix).nnz == 0
    model = ts.EASE().fit(train)
    lists = model.recommend_indices(k=20)[0]
    expected = ts.evaluate(model, valid, seen=train, metrics=["NDCG@10"])["NDCG@10"]
    assert runner.ndcg(np.arange(len(lists)), lists, held_out) == pytest.approx(expected, abs=1e-6)


def test_the_page_follows_from_the_logs(modules, tmp_path):
    modules["page"].write_page(FOLDER / "results", tmp_path / "page.md")
    written = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert written == (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"), (
        "run benchmarks/peers.py --step page"
    )
    for path in RESULTS:
        log = json.loads(path.read_text(encoding="utf-8"))
        assert "/root" not in str(log)
        assert "/tmp" not in str(log)
        if log.get("title") == "tuning" and "error" not in log:
            assert log["budget_cpu_seconds"] == 60  # the same for all
        if "title" in log:
            assert log["command"].startswith(f"python benchmarks/peers/run_{log['library']}.py ")
            assert "error" in log or (log["seed"] == 0 and log["versions"][log["library"]])


def test_processor_seconds_stand_where_the_machine_was_busy(modules, tmp_path):
    """A cell without times by the clock; and the seconds of processes that have ended count."""
    page, runner = modules["page"], modules["runner"]
    assert page._cpu({"train_cpu_seconds": 12.34}, "train_seconds") == "*12.3 cpu*"
    assert page._cpu({}, "one_person_ms") == page._cpu({}, "train_seconds") == "–"
    before = runner.cpu_seconds()
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    assert runner.cpu_seconds() > before
