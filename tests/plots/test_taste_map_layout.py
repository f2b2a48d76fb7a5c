"""Where interests and items are drawn, against the distances in the space."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace.plots.taste_map_layout import excess_distance, taste_map_layout
from tastespace.recommend.interests import user_interests


def laid_out(model, user, k=8):
    view, shelves = user_interests(model, user, "map"), list(model.shelves(user, k))
    shown = [model.train_.items.index_of(shelf.items) for shelf in shelves]
    groups = [list(shelf.interests) for shelf in shelves]
    return taste_map_layout(view, groups, shown), view, groups, shown


def drawn_distances(layout):
    return np.linalg.norm(layout.crosses[:, None] - layout.items[None], axis=2)


@pytest.mark.parametrize("user", range(0, 40, 5))
def test_every_item_is_nearest_to_the_cross_of_the_interest_that_it_matches(dpcml, user):
    layout, view, groups, _ = laid_out(dpcml, user)
    vectors, items = view.index.vectors_of(view.row), view.index.item_vectors.astype(np.float64)
    true = np.stack([((vectors[g][:, None] - items[None]) ** 2).sum(axis=2).min(axis=0) for g in groups])
    gap = np.sort(true, axis=0)
    clear = (gap[1] - gap[0] > 1e-5) if len(groups) > 1 else np.ones(len(items), dtype=bool)
    assert (layout.group == true.argmin(axis=0))[clear].all()
    assert (drawn_distances(layout).argmin(axis=0) == layout.group).all()


@pytest.mark.parametrize("user", range(0, 40, 5))
def test_distances_are_true_as_far_as_items_are_recommended(dpcml, user):
    layout, _, _, shown = laid_out(dpcml, user)
    drawn = drawn_distances(layout)[layout.group, np.arange(len(layout.group))]
    near = layout.distance <= layout.inner
    np.testing.assert_allclose(drawn[near], layout.distance[near], atol=1e-9)
    assert (drawn[~near] >= layout.inner - 1e-9).all()
    assert np.mean([near[row] for rows in shown for row in rows]) >= 0.85


def test_beyond_the_order_is_kept_in_every_direction(placed):
    """Items on rays from an interest: the farther in the space, the farther on the map."""
    rng = np.random.default_rng(0)
    model = placed([[5, 0, 0], [-5, 0, 0]], rng.normal(0, 2, size=(400, 3)), past=range(0, 400, 20))
    layout, *_ = laid_out(model, "ann", k=3)
    for at in (0, 1):
        mine = np.flatnonzero(layout.group == at)
        away = layout.items[mine] - layout.crosses[at]
        # Away from the other cross there is no border, so the order holds for all of these directions.
        free = away @ (layout.crosses[at] - layout.crosses[1 - at]) > 0
        order = mine[free][np.argsort(layout.distance[mine[free]])]
        assert (np.diff(np.linalg.norm(layout.items[order] - layout.crosses[at], axis=1)) >= -1e-9).all()
        assert len(order) > 30


def test_items_close_to_another_interest_are_drawn_toward_its_cross(placed):
    rng = np.random.default_rng(1)
    items = rng.normal(0, 2, size=(600, 3))
    model = placed([[4, 0, 0], [-4, 0, 0]], items, past=range(0, 600, 50))
    layout, _, groups, _ = laid_out(model, "ann")
    other = [[4, 0, 0], [-4, 0, 0]][groups[1][0]]
    mine = np.flatnonzero(layout.group == 0)
    to_other = (layout.items[mine] - layout.crosses[0]) @ (layout.crosses[1] - layout.crosses[0])
    closeness = -((items[mine] - other) ** 2).sum(axis=1)
    assert np.corrcoef(np.argsort(np.argsort(to_other)), np.argsort(np.argsort(closeness)))[0, 1] > 0.4


def test_excess_distance():
    squared = np.array([[4.0, 5.0, 13.0], [-1.0, 8.0, 0.0]])
    np.testing.assert_allclose(excess_distance(squared), [[0, 1, 3], [0, 3, 1]])


def test_the_same_model_gives_the_same_map(dpcml):
    one, other = laid_out(dpcml, 7)[0], laid_out(dpcml, 7)[0]
    np.testing.assert_array_equal(one.items, other.items)
    np.testing.assert_array_equal(one.crosses, other.crosses)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_degenerate_positions_are_finite(placed, n):
    model = placed([[1.0, 1.0]] * n, np.ones((12, 2)), past=[4])
    layout, *_ = laid_out(model, "ann")
    assert np.isfinite(layout.items).all()
    assert np.isfinite(layout.crosses).all()
