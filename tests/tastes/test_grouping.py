"""Tastes: groups of past items against an implementation in NumPy, their properties, and what becomes of them later."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tastespace import Interactions, synthetic
from tastespace.tastes import carried_over, directions, group_tastes
from tastespace.tastes.grouping import _LEAST_GAIN, ITEMS_PER_TASTE

ROUNDS = 6


def grouped_in_numpy(vectors, most):
    """The tastes of one user from the directions of the past items, in double precision."""
    n = len(vectors)
    wanted = min(most, n // ITEMS_PER_TASTE)
    if wanted < 2:
        return np.zeros(n, dtype=int)
    centers = [int((vectors @ vectors.sum(axis=0)).argmax())]
    while len(centers) < min(n, 2 * wanted + 2):
        centers.append(int((vectors @ vectors[centers].T).max(axis=1).argmin()))
    groups = (vectors @ vectors[centers].T).argmax(axis=1)
    groups = merged(vectors, improved(vectors, groups), wanted, -1.0, 0)
    groups = merged(vectors, improved(vectors, groups), wanted, _LEAST_GAIN * n, 2)
    order = sorted(set(groups.tolist()), key=lambda x: (-(groups == x).sum(), groups.tolist().index(x)))
    return np.array([order.index(x) for x in groups])


def improved(vectors, groups):
    for _ in range(ROUNDS):
        names = np.unique(groups)
        sums = np.stack([vectors[groups == x].sum(axis=0) for x in names])
        sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
        groups = names[(vectors @ sums.T).argmax(axis=1)]
    return groups


def merged(vectors, groups, most, least, fewest):
    """Merge the pair that loses least length, until there are few enough groups and every pair loses `least`."""
    groups = groups.copy()

    def length(*names):
        return np.linalg.norm(vectors[np.isin(groups, names)].sum(axis=0))

    while len(names := np.unique(groups)) > 1:
        small = {x for x in names if (groups == x).sum() < fewest}
        pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if not small or {a, b} & small]
        losses = [length(a) + length(b) - length(a, b) for a, b in pairs]
        at = int(np.argmin(losses))
        if not small and len(names) <= most and losses[at] >= least:
            break
        groups[groups == pairs[at][1]] = pairs[at][0]
    return groups


def adjusted_rand(a, b):
    """Agreement of two groupings: 1 for the same, 0 on average for chance."""
    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1)

    def pairs(x):
        return (x * (x - 1) / 2).sum()

    rows, columns, both = pairs(table.sum(axis=1)), pairs(table.sum(axis=0)), pairs(table)
    expected = rows * columns / pairs(np.array([len(a)]))
    return 1.0 if (rows + columns) / 2 == expected else (both - expected) / ((rows + columns) / 2 - expected)


def taken(rows, catalog):
    return Interactions.from_frame(pl.DataFrame(rows, schema=["user", "item"], orient="row"), catalog=catalog)


def planted(n_users=80, n_directions=8, dim=16, per_direction=12, noise=0.35, seed=0):
    """Histories over items near some directions; the taste of each past item, and the items' directions."""
    rng = np.random.default_rng(seed)
    centers = np.linalg.qr(rng.standard_normal((dim, n_directions)))[0].T
    kind = np.repeat(np.arange(n_directions), 40)
    vectors = centers[kind] + noise * rng.standard_normal((len(kind), dim)) / np.sqrt(dim)
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    rows = []
    for user in range(n_users):
        for own in rng.choice(n_directions, 1 + user % 4, replace=False):
            n = int(rng.integers(per_direction // 2, per_direction + 1))
            rows += [(user, int(item)) for item in rng.choice(np.flatnonzero(kind == own), n, replace=False)]
    return taken(rows, range(len(kind))), vectors, kind


@pytest.fixture(scope="module")
def town():
    made = synthetic.multi_interest(n_users=120, n_items=90, n_interactions=2400, seed=3).interactions
    vectors = np.random.default_rng(1).standard_normal((90, 6)).astype(np.float32)
    return made, directions(vectors, made.item_counts)


def test_directions_have_length_1_around_the_mean_of_the_interactions():
    rng = np.random.default_rng(0)
    vectors, counts = rng.standard_normal((30, 5)).astype(np.float32), rng.integers(0, 9, 30)
    found = directions(vectors, counts)
    mean = (counts[:, None] * vectors.astype(np.float64)).sum(axis=0) / counts.sum()
    expected = vectors - mean
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert directions(np.ones((4, 3), np.float32), np.ones(4, int)).tolist() == [[0.0] * 3] * 4  # all at the mean
    assert not directions(np.zeros((2, 3), np.float32), np.zeros(2, int)).any()


@pytest.mark.parametrize("most", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("source", ["random", "planted"])
def test_groups_are_those_of_numpy(town, source, most):
    data, vectors = town if source == "random" else planted()[:2]
    found = group_tastes(data, vectors, most)
    same = 0
    for user in range(data.n_users):
        own = data.indices[data.offsets[user] : data.offsets[user + 1]]
        expected = grouped_in_numpy(vectors[own].astype(np.float64), most)
        same += found.of_user(user).tolist() == expected.tolist()
    assert same >= 0.98 * data.n_users  # ties in single precision may fall otherwise


def test_planted_directions_are_found():
    data, vectors, kind = planted()
    tastes = group_tastes(data, vectors, 5)
    for user in range(data.n_users):
        own = kind[data.indices[data.offsets[user] : data.offsets[user + 1]]]
        truth = np.unique(own, return_inverse=True)[1]
        assert tastes.counts[user] == len(set(own)) == 1 + user % 4
        assert adjusted_rand(tastes.of_user(user), truth) > 0.95


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), n_past=st.integers(1, 60), most=st.integers(1, 8), dim=st.integers(1, 9))
def test_what_holds_for_every_history(seed, n_past, most, dim):
    rng = np.random.default_rng(seed)
    n_items = 70
    data = taken([(0, int(i)) for i in rng.choice(n_items, n_past, replace=False)] + [(1, 0)], range(n_items))
    vectors = rng.standard_normal((n_items, dim)).astype(np.float32)
    vectors[rng.random(n_items) < 0.1] = 0.0  # at the mean
    vectors[rng.random(n_items) < 0.1] = vectors[0]  # the same place
    tastes = group_tastes(data, directions(vectors, data.item_counts), most)
    sizes, shares = tastes.sizes[:-1], tastes.shares[:-1]  # the last is of user 1
    assert 1 <= len(sizes) <= max(1, min(most, n_past // ITEMS_PER_TASTE))
    assert sizes.sum() == n_past
    assert (np.diff(sizes) <= 0).all()  # the largest first
    assert len(sizes) == 1 or sizes.min() >= 2
    assert shares.sum() == pytest.approx(1.0)
    assert set(tastes.of_user(0)) == set(range(len(sizes)))


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_number_of_threads_gives_the_same_tastes(threads):
    data, vectors, _ = planted(n_users=300)
    one, several = (group_tastes(data, vectors, 5, threads=n) for n in (1, threads))
    np.testing.assert_array_equal(one.of_past, several.of_past)


def test_tastes_of_a_user_depend_on_no_other_user(town):
    data, vectors = town
    tastes = group_tastes(data, vectors, 4)
    for user in (0, 17, 119):
        alone = data.subset(data.row_of_each() == user)
        assert group_tastes(alone, vectors, 4).of_user(user).tolist() == tastes.of_user(user).tolist()


def test_short_and_empty_histories_have_one_taste():
    rows = [("ann", item) for item in range(7)] + [("bob", 3)] + [("cid", item) for item in range(8)] + [("dan", 1)]
    data = taken(rows, range(10))
    data = data.subset(data.row_of_each() != 3)  # nothing of dan is left
    vectors = np.eye(10, dtype=np.float32)
    vectors[:4], vectors[4:] = vectors[0], vectors[4]
    tastes = group_tastes(data, vectors, 5)
    assert tastes.counts.tolist() == [1, 1, 2, 1]
    assert tastes.of_user(0).tolist() == [0] * 7
    assert tastes.of_user(2).tolist() == [0] * 4 + [1] * 4
    assert tastes.of_user(3).tolist() == []
    assert tastes.shares.tolist() == [1.0, 1.0, 0.5, 0.5, 1.0]
    assert tastes.sizes.tolist() == [7, 1, 4, 4, 0]
    assert group_tastes(data, vectors, 1).counts.tolist() == [1, 1, 1, 1]


def test_people_whose_past_items_are_alike_have_one_taste():
    rng = np.random.default_rng(2)
    vectors = (np.array([1.0, 0, 0, 0]) + 0.05 * rng.standard_normal((40, 4))).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    data = taken([(user, item) for user in range(2) for item in range(40)], range(40))
    assert group_tastes(data, vectors, 6).counts.tolist() == [1, 1]


def test_tastes_know_their_past_items_and_centers(town):
    data, vectors = town
    tastes = group_tastes(data, vectors, 4)
    users = np.array([7, 0, 113])
    histories, first = tastes.histories(data, users), tastes.first_rows(users)
    centers = tastes.centers(data, vectors)
    for at, user in enumerate(users):
        past, own = data.indices[data.offsets[user] : data.offsets[user + 1]], tastes.of_user(user)
        assert tastes.counts[user] == own.max() + 1 == first[at + 1] - first[at]
        for x in range(tastes.counts[user]):
            row = histories[[first[at] + x]]
            assert row.indices.tolist() == past[own == x].tolist()
            assert row.data.tolist() == [1.0] * len(row.indices)
            place = tastes.offsets[user] + x
            assert tastes.sizes[place] == (own == x).sum()
            assert tastes.shares[place] == pytest.approx((own == x).mean())
            np.testing.assert_allclose(centers[place], vectors[past[own == x]].mean(axis=0), atol=1e-6)


def test_histories_have_the_weights_of_the_interactions():
    frame = pl.DataFrame({"user": [0] * 8 + [1], "item": [*range(8), 0], "w": [2.0, 1, 1, 1, 5, 1, 1, 1, 3]})
    data = Interactions.from_frame(frame, weight="w")
    vectors = np.repeat(np.eye(2, dtype=np.float32), 4, axis=0)
    histories = group_tastes(data, vectors, 2).histories(data, np.array([0]))
    assert histories.toarray().tolist() == [[2, 1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 5, 1, 1, 1]]


# ---- what becomes of tastes ---------------------------------------------------------------------------------------


def test_known_items_keep_their_taste_and_new_ones_join_the_nearest():
    data, vectors, _ = planted(n_users=40, seed=4)
    rng = np.random.default_rng(0)
    held_out = rng.random(data.n_interactions) < 0.25
    before = data.subset(~held_out)
    tastes = group_tastes(before, vectors, 5)
    after = carried_over(tastes, before, data, np.arange(data.n_users), vectors, 5)
    assert after.counts.tolist() == tastes.counts.tolist()
    centers = tastes.centers(before, vectors).astype(np.float64)
    centers /= np.maximum(np.linalg.norm(centers, axis=1, keepdims=True), 1e-12)
    joined = 0
    for user in range(data.n_users):
        old = dict(
            zip(before.indices[before.offsets[user] : before.offsets[user + 1]], tastes.of_user(user), strict=True)
        )
        own = centers[tastes.offsets[user] : tastes.offsets[user + 1]]
        past = data.indices[data.offsets[user] : data.offsets[user + 1]]
        for item, taste in zip(past, after.of_user(user), strict=True):
            expected = old[item] if item in old else (own @ vectors[item]).argmax()
            assert taste == expected
            joined += item not in old
    assert joined == held_out.sum() > 100


def test_new_users_are_grouped_and_ids_may_come_and_go():
    """Item ids sort in between the old ones, and one of the old items is gone; so are a user's other numbers."""
    vectors = {kind: np.eye(3, dtype=np.float32)[at] for at, kind in enumerate("abc")}

    def of(data):
        return np.stack([vectors[item[0]] for item in data.items.series])

    old_items = [f"{kind}{n}" for kind in "abc" for n in range(0, 10, 2)]
    before = taken([("ann", i) for i in old_items[:10]] + [("cid", i) for i in old_items[5:]], old_items)
    tastes = group_tastes(before, of(before), 3)
    assert tastes.of_user(0).tolist() == [0] * 5 + [1] * 5
    items = sorted({f"{kind}{n}" for kind in "abc" for n in range(10)} - {"a0"})
    ann = [*old_items[1:10], "b1", "b3", "b5", "b7", "a3"]  # b is larger now and keeps its number
    bob = [f"{kind}{n}" for kind in "ca" for n in (1, 3, 5, 7)] + ["c9"]
    after_data = taken([("ann", i) for i in ann] + [("bob", i) for i in bob] + [("cid", "c1")], items)
    after = carried_over(tastes, before, after_data, np.array([0, -1, 1]), of(after_data), 3)

    def found(user):
        row = slice(after_data.offsets[user], after_data.offsets[user + 1])
        return {
            after_data.items[int(i)]: int(x) for i, x in zip(after_data.indices[row], after.of_past[row], strict=True)
        }

    assert found(0) == {item: "ab".index(item[0]) for item in ann}
    assert found(1) == {item: "ca".index(item[0]) for item in bob}  # grouped anew, the largest first
    assert found(2) == {"c1": tastes.of_user(1)[-1]}  # cid's second taste, c, though b is gone
    assert after.counts.tolist() == [2, 2, 2]


def test_nothing_new_changes_nothing(town):
    data, vectors = town
    tastes = group_tastes(data, vectors, 4)
    again = carried_over(tastes, data, data, np.arange(data.n_users), vectors, 4)
    np.testing.assert_array_equal(again.of_past, tastes.of_past)
    empty = data.subset(np.zeros(data.n_interactions, dtype=bool))
    none = group_tastes(empty, vectors, 4)
    grown = carried_over(none, empty, data, np.full(data.n_users, -1), vectors, 4)
    np.testing.assert_array_equal(grown.of_past, tastes.of_past)  # all users are new
    assert carried_over(tastes, data, empty, np.arange(data.n_users), vectors, 4).counts.tolist() == [1] * data.n_users


@pytest.mark.parametrize(("n_before", "grouped"), [(0, True), (1, True), (7, True), (8, False)])
def test_users_who_had_too_few_past_items_for_two_tastes_are_grouped_when_they_have_more(n_before, grouped):
    items = [f"{kind}{n}" for kind in "ab" for n in range(9)]
    vectors = np.repeat(np.eye(2, dtype=np.float32), 9, axis=0)
    after = taken([(user, item) for user in ("ann", "bob") for item in items], items)
    before = after.subset((after.row_of_each() == 1) | (np.arange(after.n_interactions) < n_before))
    tastes = group_tastes(before, vectors, 4)
    assert tastes.counts.tolist() == [1, 2]
    found = carried_over(tastes, before, after, np.arange(2), vectors, 4)
    assert found.counts.tolist() == [2 if grouped else 1, 2]
    assert found.of_user(0).tolist() == [0] * 9 + [1 if grouped else 0] * 9
