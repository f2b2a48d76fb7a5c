import numpy as np
import pytest

from tastespace import synthetic
from tastespace.errors import ParameterError


@pytest.fixture(scope="module")
def shop():
    return synthetic.shop(n_users=300, n_items=400, n_interactions=6_000, seed=2)


def test_every_interaction_has_a_taste_of_its_user_or_none(shop):
    data = shop.interactions
    assert len(shop.interaction_category) == data.n_interactions
    user = data.row_of_each()
    planted = np.zeros((data.n_users, len(shop.categories) + 1), dtype=bool)
    planted[np.repeat(np.arange(data.n_users), np.diff(shop.interest_offsets)), shop.interest_categories] = True
    planted[:, -1] = True
    assert planted[user, shop.interaction_category].all()
    assert 0.02 < np.mean(shop.interaction_category < 0) < 0.08  # noise=0.05


def test_items_are_taken_near_the_position_of_the_interest(shop):
    data, user = shop.interactions, shop.interactions.row_of_each()
    near, far = [], []
    for row in range(0, data.n_interactions, 37):
        own = slice(shop.interest_offsets[user[row]], shop.interest_offsets[user[row] + 1])
        mine = shop.interest_categories[own] == shop.interaction_category[row]
        if mine.any():
            distances = np.linalg.norm(shop.item_position - shop.interest_position[own][mine], axis=1)
            near.append(distances[data.indices[row]])
            far.append(np.median(distances))
    assert np.mean(near) < 0.5 * np.mean(far)


def test_categories_are_coarse_and_partly_wrong(shop):
    category = shop.interactions.item_attributes["category"].to_list()
    assert len(set(category) - {None}) == 5
    assert 0.05 < np.mean([c is None for c in category]) < 0.15
    n_usual, n_known = 0, 0
    for taste in range(len(shop.categories)):
        own = [c for c, t in zip(category, shop.item_category, strict=True) if t == taste and c is not None]
        n_usual, n_known = n_usual + max(map(own.count, set(own))), n_known + len(own)
    # Of the 15 % that get a random department, a fifth get their own.
    assert 1 - n_usual / n_known == pytest.approx(0.12, abs=0.05)


def test_titles_differ_and_the_same_seed_gives_the_same_data(shop):
    assert shop.interactions.item_attributes["title"].n_unique() == 400
    again = synthetic.shop(n_users=300, n_items=400, n_interactions=6_000, seed=2)
    other = synthetic.shop(n_users=300, n_items=400, n_interactions=6_000, seed=3)
    assert again.interactions.fingerprint() == shop.interactions.fingerprint() != other.interactions.fingerprint()
    assert np.array_equal(again.interaction_category, shop.interaction_category)


@pytest.mark.parametrize(
    "arguments",
    [
        {"n_users": 1},
        {"n_items": 20},
        {"n_interactions": 10},
        {"n_tastes": 16},
        {"n_interests": (0, 2)},
        {"n_interests": (3, 2)},
        {"dominance": 0.0},
        {"reach": 0.0},
        {"noise": 1.5},
        {"wrong_category": -0.1},
    ],
)
def test_impossible_arguments_are_refused(arguments):
    with pytest.raises(ParameterError, match="expected"):
        synthetic.shop(**arguments)
