import numpy as np
import pytest

from tastespace import synthetic
from tastespace.errors import ParameterError


def share_by_rank(town):
    """Share of each user's items that lies in the strongest, second, ... planted interest."""
    data = town.interactions
    shares = []
    for user in range(data.n_users):
        mine = town.item_category[data.indices[data.offsets[user] : data.offsets[user + 1]]]
        planted = town.interest_categories[town.interest_offsets[user] : town.interest_offsets[user + 1]]
        shares.append([np.mean(mine == category) for category in planted])
    return shares


def test_sizes_and_shares_are_as_given():
    town = synthetic.multi_interest(
        500, 800, 15_000, n_categories=10, n_interests=(3, 3), dominance=0.5, noise=0.0, seed=4
    )
    data = town.interactions
    assert (data.n_users, data.n_items) == (500, 800)
    assert abs(data.n_interactions - 15_000) < 150
    assert np.diff(town.interest_offsets).tolist() == [3] * 500
    means = np.mean(share_by_rank(town), axis=0)
    assert means.sum() == pytest.approx(1.0)  # without noise no choice lies outside the interests
    # Drawing without replacement flattens 4/7, 2/7, 1/7 a little: popular items run out in the majority.
    assert means == pytest.approx([4 / 7, 2 / 7, 1 / 7], abs=0.06)
    assert np.unique(town.item_category).tolist() == list(range(10))
    sizes = np.bincount(town.item_category)
    assert sizes[0] > 2 * sizes[-1]
    assert all(len(set(town.interests_of(u))) == 3 for u in range(0, 500, 50))


def test_noise_is_the_share_of_stray_choices():
    town = synthetic.multi_interest(400, 900, 12_000, n_interests=(2, 2), noise=0.3, n_categories=15, seed=2)
    outside = 1 - np.mean([sum(s) for s in share_by_rank(town)])
    assert 0.2 < outside < 0.33  # some strays land in an interest by chance


def test_the_same_seed_gives_the_same_data():
    towns = [synthetic.multi_interest(100, 100, 1_500, seed=s) for s in (1, 1, 2)]
    prints = [w.interactions.fingerprint() for w in towns]
    assert prints[0] == prints[1] != prints[2]
    assert np.array_equal(towns[0].interest_weights, towns[1].interest_weights)


def test_item_attributes_name_the_category(town):
    genres = town.interactions.item_attributes["genres"].to_list()
    assert all(genre == [town.categories[c]] for genre, c in zip(genres, town.item_category, strict=True))


@pytest.mark.parametrize(
    "arguments",
    [
        {"n_users": 1},
        {"n_interactions": 10},
        {"n_interactions": 10**7},
        {"n_interests": (0, 2)},
        {"n_interests": (3, 2)},
        {"n_interests": (2, 99)},
        {"dominance": 0.0},
        {"noise": 1.5},
        {"category_names": ["one"]},
        {"n_items": 4},
    ],
)
def test_impossible_sizes_are_refused(arguments):
    with pytest.raises(ParameterError, match=r"expected|category_names"):
        synthetic.multi_interest(**arguments)


@pytest.mark.slow
def test_the_size_of_movielens_10m():
    town = synthetic.multi_interest(70_000, 10_000, 5_000_000, n_categories=18)
    assert town.interactions.n_interactions > 4_990_000
