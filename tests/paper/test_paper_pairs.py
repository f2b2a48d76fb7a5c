import numpy as np
import pytest

from tastespace.paper.cells import RunResult
from tastespace.paper.pairs import holm, of_run, over_genres, over_seeds, paired


def test_paired_differences_are_those_of_scipy():
    from scipy import stats

    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 1, (3, 200)), rng.normal(0.8, 1, (3, 200))
    a[:, :5] = np.nan
    runs = [[RunResult({}, {"P@3": values}) for values in side] for side in (a, b)]
    found = paired(*runs, "P@3")
    expected = stats.ttest_rel(a[:, 5:].mean(axis=0), b[:, 5:].mean(axis=0))
    assert found.n == 195
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.mean == pytest.approx((a[:, 5:] - b[:, 5:]).mean())
    assert paired(runs[0], runs[0], "P@3").p_value == 1.0


def test_holm_is_never_below_the_plain_value_and_keeps_the_order():
    plain = [0.001, 0.3, 0.02, 0.02, 0.9]
    found = holm(plain)
    assert all(a <= b <= 1 for a, b in zip(plain, found, strict=True))
    assert [found[at] for at in np.argsort(plain)] == sorted(found)
    assert found[0] == pytest.approx(0.005)
    assert holm([]) == []


def run(loss, valid, test, genres=()):
    history = [{"loss": 9.0}, {"loss": loss + 7, "hinge": loss}, {"loss": 0.0}]  # the second epoch was kept
    metrics = {"MRR": test, **{f"MAP[{name}]": value for name, value in genres}}
    return RunResult(
        {"history": history, "best_epoch": 2, "valid_metrics": {"MRR": valid}, "metrics": metrics}, {}
    )  # fmt: skip


def test_over_seeds_a_smaller_loss_is_better():
    many, one = [run(1.0 + 0.1 * s, 30 + s, 20 - s) for s in range(5)], [run(1.5, 29, 21 + s) for s in range(5)]
    assert [of_run(many[3], f) for f in ("train loss", "validation MRR", "test MRR")] == [1.3, 33, 17]
    loss = over_seeds(many, one, "train loss")
    assert loss.mean == pytest.approx(0.3)
    assert loss.p_value < 0.05
    assert loss.n == 5
    assert over_seeds(many, one, "validation MRR").mean == pytest.approx(3.0)
    assert over_seeds(many, one, "test MRR").mean == pytest.approx(-5.0)
    assert over_seeds(many[:1], one[:1], "train loss").p_value == 1.0  # one seed shows no spread


def test_over_genres_each_genre_counts_once():
    first = [run(1, 1, 1, [("a", 4.0 + s), ("b", 2.0), ("c", 1.0)]) for s in range(2)]
    second = [run(1, 1, 1, [("a", 3.0 + s), ("b", 1.5), ("c", 0.0)]) for s in range(2)]
    found = over_genres(first, second, ["a", "b", "nobody took"])
    assert found.n == 2
    assert found.mean == pytest.approx(0.75)


def test_the_same_gap_everywhere_is_no_test():
    one, other = ([RunResult({}, {"P@3": np.array([0.1, 0.2, 0.7]) + gain})] for gain in (0.2, 0.0))
    found = paired(one, other, "P@3")
    assert found.mean == pytest.approx(0.2)
    assert found.p_value == 1.0
