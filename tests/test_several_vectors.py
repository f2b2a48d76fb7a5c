"""The benchmark of one against several vectors: its cells, its rows, and what a run that was stopped leaves."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tastespace import Interactions

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "several_vectors.py"


@pytest.fixture(scope="module")
def script():
    found = importlib.util.spec_from_file_location("several_vectors", SCRIPT)
    module = importlib.util.module_from_spec(found)
    sys.modules["several_vectors"] = module
    found.loader.exec_module(module)
    return module


def fit(vectors, dim, seed, rate, valid, ndcg):
    figures = {"NDCG@10": ndcg, "R@20": 2 * ndcg}
    cell = {"data": "ml-100k", "dim": dim, "vectors": vectors, "seed": seed, "rate": rate, "epochs": 9, "epoch": 5}
    rest = {"valid": valid, "test": figures, "item_mb": 0.1, "epoch_seconds": 0.5, "effective": 1.5, "dead": 0.0}
    return {**cell, **rest}


def test_cells_small_ones_first(script):
    cells = script.chosen_cells(["*"])
    assert len(cells) == len(set(cells)) == 6 * 3 * (8 + 4 + 4)  # one vector has 8 dimensions, 2 and 4 have 4
    assert [cell.cost for cell in cells] == sorted(cell.cost for cell in cells)
    assert [str(cell) for cell in script.chosen_cells(["ml-100k:16:*:0"])] == [f"ml-100k:16:{n}:0" for n in (1, 2, 4)]
    with pytest.raises(SystemExit, match="no cell"):
        script.chosen_cells(["ml-100k:17:*:0"])


def test_rows_have_the_best_trial_of_the_same_trials(script):
    fits = [fit(1, 16, seed, rate, rate, 0.2 + seed / 100) for seed in (0, 1) for rate in (0.1, 0.2)]
    fits += [fit(2, 16, seed, rate, -rate, 0.3 + 2 * seed / 100) for seed in (0, 1) for rate in (0.1, 0.2)]
    fits += [fit(4, 16, 0, 0.1, 1.0, 0.9), fit(1, 32, 0, 0.1, 1.0, 0.4), fit(1, 32, 0, 0.2, 0.5, 0.6)]
    rows = {(row.base, row.cell.dim, row.cell.vectors): row for row in script.rows_of(fits)}
    assert set(rows) == {(16, 16, 1), (16, 16, 2), (16, 32, 1), (32, 32, 1)}  # four vectors lack a trial
    assert [one["rate"] for one in rows[16, 16, 1].fits] == [0.2, 0.2]
    assert [one["rate"] for one in rows[16, 16, 2].fits] == [0.1, 0.1]
    mean, error = rows[16, 16, 2].differences["NDCG@10"]
    assert (mean, error) == pytest.approx((0.105, 0.005))
    assert rows[16, 16, 1].differences == {}
    assert rows[16, 32, 1].differences["NDCG@10"] == pytest.approx((0.2, np.nan), nan_ok=True)
    table = script.main_table(list(rows.values()))
    assert "| ml-100k | 16 | 2 | 2, 2 | 0.310 ± 0.014 | 0.620 ± 0.028 |  | +0.105 (0.005), +0.210 (0.010) |" in table
    assert "1 of 32 dimensions" in table


def test_a_line_that_was_cut_off_is_not_read(script, tmp_path):
    whole = json.dumps(fit(1, 16, 0, 0.1, 0.2, 0.3))
    (tmp_path / "fits.jsonl").write_text(f"{whole}\n{whole[:40]}", encoding="utf-8")
    assert len(script.read(tmp_path / "fits.jsonl")) == 1
    assert script.read(tmp_path / "none.jsonl") == []


def test_tables_go_between_the_marks_of_a_page(script, tmp_path):
    page = tmp_path / "page.md"
    first, last = script.PAGE_MARKS
    page.write_text(f"before\n\n{first}\n\nold\n\n{last}\n\nafter\n", encoding="utf-8")
    script.write_page("new", page)
    assert page.read_text(encoding="utf-8") == f"before\n\n{first}\n\nnew\n\n{last}\n\nafter\n"


def test_entropy_of_a_history(script):
    taken = pl.DataFrame({"user": ["ann", "ann", "bob", "bob", "cid"], "item": [1, 2, 1, 3, 4]})
    about = pl.DataFrame({"item": [1, 2, 3, 4], "genres": ["Drama", "Drama", "War|Comedy", ""]})
    entropy, n = script.category_entropy(Interactions.from_frame(taken, item_attributes=about))
    shares = np.array([0.5, 0.25, 0.25])
    assert n == 3
    assert entropy[:2] == pytest.approx([0.0, -(shares * np.log(shares)).sum()])
    assert np.isnan(entropy[2])
    assert script.category_entropy(Interactions.from_frame(taken)) == (None, 0)
