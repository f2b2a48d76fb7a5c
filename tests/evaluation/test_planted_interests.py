"""`interest_coverage` and `taste_recovery`: lists and tastes against the planted interests of synthetic data."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from tastespace import (
    DPCML,
    EASE,
    Interactions,
    MostPopular,
    compare,
    split,
    synthetic,
)
from tastespace.data.synthetic import SyntheticData
from tastespace.errors import DataError, ParameterError
from tastespace.evaluation import interest_coverage, taste_recovery
from tastespace.evaluation._planted_interests import _adjusted_rand
from tastespace.tastes import Tastes


def planted_town(taken, rows, item_category, interests):
    """Synthetic data written by hand: ``interests`` holds a dict from category to weight for each user."""
    n_categories = 1 + max(item_category)
    return SyntheticData(
        taken(rows, len(item_category)),
        tuple(f"c{c}" for c in range(n_categories)),
        np.array(item_category, np.int32),
        np.cumsum([0, *map(len, interests)]),
        np.array([c for own in interests for c in own], np.int32),
        np.array([w for own in interests for w in own.values()]),
    )


def test_by_hand(taken, scored):
    town = planted_town(
        taken,
        [[0], [0], [0, 1, 2, 3, 4, 5]],
        [0, 0, 1, 1, 2, 2],
        [{0: 0.6, 1: 0.3, 2: 0.1}, {2: 1.0}, {1: 0.5, 0: 0.5}],
    )
    model = scored(town.interactions, [[0, 9, 8, 7, 1, 1], [0, 9, 1, 1, 8, 7], [0] * 6])
    report = interest_coverage(model, town, k=3)
    # User 0 sees 1, 2, 3; the interest of weight 0.1 is below 1/3, so is that of 0.3. User 1 sees 1, 4, 5.
    # User 2 has all items: the interests are not served, and there is no list to compare.
    assert report.per_user["PlantedCoverage@3"].tolist() == [1, 1, 0]
    distance = [(abs(1 / 3 - 0.6) + abs(2 / 3 - 0.3) + 0.1) / 2, 1 / 3, math.nan]
    assert report.per_user["PlantedDistance@3"].tolist() == pytest.approx(distance, nan_ok=True)
    assert report.n_users == {"PlantedCoverage@3": 3, "PlantedDistance@3": 2}
    assert report.units == {"PlantedCoverage@3": "share of the interests", "PlantedDistance@3": "total variation"}
    assert report["PlantedDistance@3"] == pytest.approx(np.nanmean(distance))
    # With k = 4 the interest of weight 0.3 counts, with k = 1 only one that is a user's whole taste.
    assert interest_coverage(model, town, k=4).per_user["PlantedCoverage@4"].tolist() == [1, 1, 0]
    alone = interest_coverage(model, town, k=1).per_user["PlantedCoverage@1"].tolist()
    assert alone == pytest.approx([math.nan, 0, math.nan], nan_ok=True)
    nothing_seen = interest_coverage(model, town, k=4, seen=[])
    assert nothing_seen.per_user["PlantedCoverage@4"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("k", [3, 7, 20])
@pytest.mark.parametrize("name", ["ease", "dpcml"])
def test_a_plain_loop_gives_the_same(town, k, name):
    train, valid, _ = split.per_user(town.interactions, seed=0)
    model = (EASE(threads=1) if name == "ease" else DPCML(dim=8, epochs=3, threads=1)).fit(train, valid)
    report = interest_coverage(model, town, k=k)
    assert report.users.to_list() == train.users.series.to_list()
    scores = model.score_block(np.arange(train.n_users))
    for at, user in enumerate(report.users):
        seen = {*train.items_of(user), *valid.items_of(user)}
        listed = [item for item in np.argsort(-scores[at], kind="stable") if item not in seen][:k]
        shown = [town.categories[town.item_category[item]] for item in listed]
        interests = town.interests_of(user)
        wanted = [name for name, weight in interests.items() if weight * k >= 1 - 1e-9]
        expected = sum(name in shown for name in wanted) / len(wanted) if wanted else math.nan
        assert report.per_user[f"PlantedCoverage@{k}"][at] == pytest.approx(expected, nan_ok=True)
        gaps = [abs(shown.count(name) / len(shown) - interests.get(name, 0.0)) for name in town.categories]
        assert report.per_user[f"PlantedDistance@{k}"][at] == pytest.approx(sum(gaps) / 2)


def test_a_model_of_some_users_and_items_in_another_order(town):
    """The ids decide, not the rows; two reports can be compared."""
    frame = town.interactions.to_frame().filter((pl.col("user") % 2 == 1) & (pl.col("item") > 20))
    part = Interactions.from_frame(frame)
    popular, ease = (interest_coverage(model.fit(part), town, k=10) for model in (MostPopular(), EASE(threads=1)))
    assert ease.users.to_list() == [user for user in range(300) if user % 2]
    scores = EASE(threads=1).fit(part).score_block(np.arange(part.n_users))
    user = int(part.users[5])
    candidates = [
        row for row in np.argsort(-scores[5], kind="stable") if part.items[int(row)] not in part.items_of(user)
    ]
    shown = {town.categories[town.item_category[part.items[int(row)]]] for row in candidates[:10]}
    wanted = [name for name, weight in town.interests_of(user).items() if weight >= 0.1]
    assert ease.per_user["PlantedCoverage@10"][5] == sum(name in shown for name in wanted) / len(wanted)
    assert compare(popular, ease)["PlantedCoverage@10"].difference > 0


def test_threads_do_not_change_the_values(town):
    model = DPCML(dim=8, epochs=2, threads=1).fit(town.interactions)
    one, two = (interest_coverage(model, town, k=5, threads=n).per_user for n in (1, 2))
    for name, values in one.items():
        assert np.array_equal(values, two[name], equal_nan=True)


def test_what_makes_no_sense(town, taken, scored):
    model = MostPopular().fit(town.interactions)
    with pytest.raises(ParameterError, match="town is Interactions, expected the synthetic data itself"):
        interest_coverage(model, town.interactions)
    with pytest.raises(ParameterError, match="k=0: expected a length of list"):
        interest_coverage(model, town, k=0)
    with pytest.raises(ParameterError, match="k=201 is larger than the catalog of 200 items"):
        interest_coverage(model, town, k=201)
    other = scored(taken([[0], [1]], 3, users=[7, 9_999]), np.zeros((2, 3)))
    with pytest.raises(DataError, match=r"1 of the model's 2 users, such as 9999, are not in the synthetic data"):
        interest_coverage(other, town, k=2)


def test_the_adjusted_rand_index_by_hand():
    groups = {
        # Hubert and Arabie's index of scikit-learn's documentation: 4 / 7 and 0.24...
        0: ([0, 0, 1, 1], [0, 0, 1, 2], 4 / 7),
        1: ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2], 8 / 33),
        2: ([1, 1, 0, 0], [0, 0, 1, 1], 1.0),  # the same groups by other names
        3: ([0, 0, 1, 1], [0, 1, 0, 1], -0.5),
        4: ([0, 0, 0], [1, 1, 1], 1.0),
        5: ([0, 0, 0], [0, 1, 2], 0.0),
        6: ([0], [0], math.nan),
    }
    owner = np.repeat(list(groups), [len(one) for one, _, _ in groups.values()])
    one, other = (np.concatenate([group[at] for group in groups.values()]) for at in (0, 1))
    shuffled = np.random.default_rng(0).permutation(len(owner))
    values = _adjusted_rand(owner[shuffled], one[shuffled], other[shuffled], 8)
    assert values.tolist() == pytest.approx([*(value for _, _, value in groups.values()), math.nan], nan_ok=True)


class Grouped(EASE):
    """A model whose tastes are given: one number for each past item."""

    def tastes(self):
        return Tastes.of(self.given, self.train_.offsets)


def test_recovery_compares_with_the_taste_behind_each_past_item():
    shop = synthetic.shop(n_users=60, n_items=120, n_interactions=1_200, seed=1)
    part = shop.interactions.subset(np.random.default_rng(0).random(shop.interactions.n_interactions) < 0.7)
    model = Grouped().fit(part)
    behind = dict(
        zip(
            zip(shop.interactions.row_of_each().tolist(), shop.interactions.indices.tolist(), strict=True),
            shop.interaction_category.tolist(),
            strict=True,
        )
    )
    pairs = zip(part.row_of_each().tolist(), part.indices.tolist(), strict=True)
    planted = np.array([behind[pair] for pair in pairs], np.int32)
    model.given = np.where(planted < 0, 3, planted).astype(np.int32)  # those without a taste do not count
    report = taste_recovery(model, shop)
    assert report["TasteRecovery"] == 1.0
    assert report.units == {"TasteRecovery": "adjusted Rand index"}
    model.given = np.random.default_rng(0).permutation(planted.clip(0)).astype(np.int32)
    assert abs(taste_recovery(model, shop)["TasteRecovery"]) < 0.1
    vectors = DPCML(dim=8, epochs=2, threads=1).fit(part)
    assert np.array_equal(
        *(taste_recovery(vectors, shop, threads=n).per_user["TasteRecovery"] for n in (1, 2)), equal_nan=True
    )


def test_recovery_refuses_what_makes_no_sense(town):
    shop = synthetic.shop(n_users=60, n_items=120, n_interactions=1_200, seed=1)
    with pytest.raises(ParameterError, match="EASE has no interests, so it groups no past items"):
        taste_recovery(EASE().fit(shop.interactions), shop)
    with pytest.raises(ParameterError, match=r"shop is SyntheticData, expected what synthetic\.shop\(\) gives"):
        taste_recovery(EASE().fit(town.interactions), town)
    other = synthetic.shop(n_users=60, n_items=120, n_interactions=1_200, seed=2).interactions
    with pytest.raises(DataError, match="interactions that are not in the synthetic data"):
        taste_recovery(DPCML(dim=4, epochs=1, threads=1).fit(other), shop)
