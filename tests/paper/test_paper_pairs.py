import numpy as np
import pytest

from tastespace.paper.cells import Finished
from tastespace.paper.pairs import holm, paired


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


def test_holm_is_never_below_the_plain_value_and_keeps_the_order():
    plain = [0.001, 0.3, 0.02, 0.02, 0.9]
    found = holm(plain)
    assert all(a <= b <= 1 for a, b in zip(plain, found, strict=True))
    assert [found[at] for at in np.argsort(plain)] == sorted(found)
    assert found[0] == pytest.approx(0.005)
    assert holm([]) == []
