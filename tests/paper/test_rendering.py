import numpy as np
import pytest

from tastespace.paper.cells import Cell, Finished
from tastespace.paper.rendering import entries, paired, to_markdown, to_rows
from tastespace.paper.runner import Row
from tastespace.paper.tables import EXPERIMENTS, Experiment, Line, find_experiment, only


def row(label, method, seed, p3=None, state="done"):
    finished = None
    if p3 is not None:
        finished = Finished({"metrics": {"P@3": p3, "MRR": 2 * p3}, "seconds": 10.0 + seed}, {})
    return Row(Cell("steam-200k", method, seed, label=label), state, finished)


TWO = Experiment("two", "Two methods", (Line("EASE", "ease"), Line("HarS", "cml+hars")), ("steam-200k",))
ROWS = [row("EASE", "ease", 0, 34.0), row("HarS", "cml+hars", 0, 26.0), row("HarS", "cml+hars", 1, 27.0)]

GOLDEN = """\
### Two methods (`two`)

**steam-200k**

| method | P@3 | NDCG@3 | P@5 | NDCG@5 | MAP | MRR | seeds | seconds |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| EASE | 34.00 | - | - | - | - | 68.00 | 1 | 10 |
| HarS | 26.50 ± 0.71 (26.66) | - (27.93) | - (24.94) | - (26.63) | - (23.25) | 53.00 ± 1.41 (48.84) | 2 | 10 |
"""


def test_the_rendered_table():
    assert to_markdown(TWO, entries(TWO, ROWS)) == GOLDEN


def test_what_is_missing_is_marked_and_never_invented():
    rows = [ROWS[0], row("HarS", "cml+hars", 0, 26.0), row("HarS", "cml+hars", 1, state="cut")]
    assert [entry.state for entry in entries(TWO, rows)] == ["complete", "partial"]
    rows = [row("EASE", "ease", 0, state="failed"), row("HarS", "cml+hars", 0, state="cut")]
    found = entries(TWO, rows)
    assert [entry.state for entry in found] == ["failed", "cut"]
    assert "| HarS *cut* | - (26.66)" in to_markdown(TWO, found)


def test_rows_for_programs_have_the_difference():
    by = {(r["label"], r["metric"]): r for r in to_rows(entries(TWO, ROWS))}
    assert by["HarS", "P@3"]["difference"] == pytest.approx(26.5 - 26.66)
    assert by["EASE", "P@3"]["paper"] is None
    assert by["HarS", "NDCG@3"]["ours"] is None


def test_paired_differences_are_those_of_scipy():
    from scipy import stats

    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 1, (3, 200)), rng.normal(0.8, 1, (3, 200))
    a[:, :5] = np.nan
    runs = [[Finished({}, {"P@3": values}) for values in side] for side in (a, b)]
    found = paired(*runs, "P@3")
    expected = stats.ttest_rel(a[:, 5:].mean(axis=0), b[:, 5:].mean(axis=0))
    assert found.n_users == 195
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.mean == pytest.approx((a[:, 5:] - b[:, 5:]).mean())
    assert paired(runs[0], runs[0], "P@3").p_value == 1.0


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_table_is_declared_with_methods_that_exist(name):
    cells = find_experiment(name).cells(seeds=2)
    assert len(cells) == 2 * len(find_experiment(name).lines) * len(find_experiment(name).datasets)
    assert all(cell.title for cell in cells)


def test_the_papers_figures_stand_beside_ours():
    experiment = find_experiment("results1")
    with_theirs = [line for line in experiment.lines if experiment.theirs("steam-200k", line)]
    assert len(with_theirs) == 23  # all methods of the paper's table
    eta = find_experiment("eta-hars")
    assert eta.theirs("steam-200k", eta.lines[4])["P@3"] == 29.88
    assert [line.method for line in only(experiment, ["ease", "bpr"]).lines] == ["ease", "bpr"]
