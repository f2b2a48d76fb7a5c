"""Hinges of the samplers and diversity control in torch, against loops over the paper's formulas."""

import numpy as np
import pytest
import torch

from tastespace.errors import ParameterError
from tastespace.models.neural.losses import (
    PairDistances,
    SpreadControl,
    hardest_hinge,
    mean_hinge,
    threshold_hinge,
)

MARGIN = 0.8


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(2)
    positive, negatives = rng.uniform(0, 2, (6, 1)), rng.uniform(0, 2, (6, 5))
    usable = rng.random((6, 5)) < 0.8
    usable[:, 0] = True
    hardness = rng.normal(size=(6, 5))
    return positive, negatives, usable, hardness


def shown(pairs):
    return PairDistances(*(torch.tensor(part) for part in pairs[:3]))


def rows(pairs):
    """Violations of the true negatives of each row, with their hardness."""
    positive, negatives, usable, hardness = pairs
    for row in range(len(positive)):
        keep = usable[row]
        yield MARGIN + positive[row, 0] - negatives[row, keep], hardness[row, keep], negatives[row, keep]


def test_the_mean_over_all_negatives(pairs):
    expected = [np.maximum(violations, 0).mean() for violations, _, _ in rows(pairs)]
    np.testing.assert_allclose(mean_hinge(shown(pairs), MARGIN), expected)


@pytest.mark.parametrize("count", [1, 3])
def test_the_hardest_count(pairs, count):
    expected = [np.maximum(v[np.argsort(-hardness)[:count]], 0).mean() for v, hardness, _ in rows(pairs)]
    found = hardest_hinge(shown(pairs), MARGIN, torch.tensor(pairs[3]), count)
    np.testing.assert_allclose(found, expected)


def test_each_positive_has_its_own_number_of_hard_negatives(pairs):
    counts = [1, 2, 3, 1, 2, 9]
    expected = [
        np.maximum(v[np.argsort(distance)[:count]], 0).mean()
        for count, (v, _, distance) in zip(counts, rows(pairs), strict=True)
    ]
    found = hardest_hinge(shown(pairs), MARGIN, -shown(pairs).negatives, torch.tensor(counts)[:, None])
    np.testing.assert_allclose(found, expected)


def test_thresholds_start_at_the_order_statistic_and_move_by_their_slope(pairs):
    count = torch.full((6, 1), 2)
    new = torch.full((6, 1), -1.0, dtype=torch.float64)
    losses, after = threshold_hinge(shown(pairs), MARGIN, new, count, rate=0.1)
    for row, (violations, _, _) in enumerate(rows(pairs)):
        ordered = np.sort(violations)[::-1]
        gamma = max(0.0, ordered[min(1, len(ordered) - 1)])
        assert float(losses[row]) == pytest.approx(gamma + np.maximum(violations - gamma, 0).sum() / 2)
    known = after + 0.2
    losses, moved = threshold_hinge(shown(pairs), MARGIN, known, count, rate=0.1)
    for row, (violations, _, _) in enumerate(rows(pairs)):
        gamma = float(known[row])
        over = violations > gamma
        assert float(losses[row]) == pytest.approx(gamma + (violations[over] - gamma).sum() / 2)
        assert float(moved[row]) == pytest.approx(max(0.0, gamma - 0.1 * (1 - over.sum() / 2)))


def test_diversity_control():
    vectors = np.random.default_rng(4).normal(size=(5, 3, 4))
    for kind, low, high in (("mean", 3.0, 5.0), ("pairs", 6.0, 9.0), ("mean", None, 1.0), ("pairs", 20.0, None)):
        control = SpreadControl(dcrs=kind, min_spread=low, max_spread=high)
        expected = []
        for own in vectors:
            gaps = [np.square(a - b).sum() for i, a in enumerate(own) for j, b in enumerate(own) if i != j]
            values = [sum(gaps) / 12] if kind == "mean" else gaps
            outside = [max(0, (low or 0) - v) + max(0, v - (np.inf if high is None else high)) for v in values]
            expected.append(sum(outside) / (1 if kind == "mean" else 9))
        np.testing.assert_allclose(control._penalty(torch.tensor(vectors)), expected)


@pytest.mark.parametrize(
    "bad",
    [{"dcrs": "max"}, {"min_spread": -1}, {"min_spread": 0.5, "max_spread": 0.1}, {"spread_weight": -1}],
)
def test_bad_diversity(bad):
    with pytest.raises(ParameterError, match=next(iter(bad))):
        SpreadControl(**bad)._check_spread()
