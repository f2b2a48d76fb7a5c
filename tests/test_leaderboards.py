"""The leaderboards: reading of a split, its mistakes, and the page."""

import importlib.util
from pathlib import Path

import polars as pl
import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "leaderboards.py"


@pytest.fixture(scope="module")
def script():
    found = importlib.util.spec_from_file_location("leaderboards", SCRIPT)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_text_and_tables_are_the_same_split(script, tmp_path):
    (tmp_path / "train.txt").write_text("0 1 2\n1 2\n\n")
    pl.DataFrame({"user": [0, 1], "item": [3, 1]}).write_csv(tmp_path / "test.csv")
    train, test = script.load(str(tmp_path))
    assert (train.n_interactions, test.n_interactions) == (3, 2)
    assert train.users == test.users
    assert set(test.to_frame().rows()) == {("0", "3"), ("1", "1")}


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ("0 1 2\n", "0 2\n", "overlap in 1 pairs"),
        ("0 1\n", None, "expected one of test.txt"),
        ("0\n", "0 1\n", "no pairs"),
    ],
)
def test_mistakes(script, tmp_path, train, test, message):
    (tmp_path / "train.txt").write_text(train)
    if test is not None:
        (tmp_path / "test.txt").write_text(test)
    with pytest.raises(SystemExit, match=message):
        script.load(str(tmp_path))
    with pytest.raises(SystemExit, match="no such folder"):
        script.load(str(tmp_path / "none"))


def test_page(script):
    one = {"data": "yelp2018", "row": "EASE", "R@20": 0.06, "NDCG@20": 0.05, "seconds": 3.0, "cores": 2, "peak_gb": 1.0}
    text = script.page([one | {"seed": 0}, one | {"seed": 1, "R@20": 0.07}])
    assert "| **EASE** | 0.0650 | 0.0500 | 2 | 3 | 2 | 1.0 | this library |" in text
    assert "LightGCN with BSL | 0.0744 | 0.0617" in text
    assert "epoch apparently chosen by test recall" in text
