"""The benchmark of tastes: minority recall at equal accuracy, tables and picture of the committed output."""

import importlib.util
from pathlib import Path

import pytest
from tests.required_services import optional_package

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("taste_curves", ROOT / "benchmarks" / "taste_curves.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def curve(*points):
    return [{"method": "EASE + calibration", "NDCG@10": x, "MinorityRecall@20": y} for x, y in points]


def test_minority_recall_at_equal_accuracy(benchmark):
    rival = curve((0.5, 0.2), (0.4, 0.3), (0.45, 0.1), (0.3, 0.25))  # the last two are beaten in both
    assert benchmark.best_at(rival, 0.45) == (pytest.approx(0.25), True)
    assert benchmark.best_at(rival, 0.4) == (pytest.approx(0.3), True)
    assert benchmark.best_at(rival, 0.1) == (pytest.approx(0.3), True)
    assert benchmark.best_at(rival, 0.6) == (pytest.approx(0.2), False)
    assert benchmark.ratio(curve((0.45, 0.5))[0], rival) == "2.000"
    assert benchmark.ratio(curve((0.55, 0.5))[0], rival) == "> 2.500"


def test_the_committed_output_gives_the_committed_tables_and_picture(benchmark, capsys, tmp_path):
    rows = benchmark.read(ROOT / "benchmarks" / "results" / "taste_curves.jsonl")
    benchmark.print_tables(rows)
    assert capsys.readouterr().out.strip() in (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    optional_package("matplotlib")
    benchmark.draw(rows, tmp_path / "curves.svg")
    assert (tmp_path / "curves.svg").stat().st_size < 100_000
