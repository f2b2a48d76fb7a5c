import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tastespace import Interactions, split
from tastespace.data.split import position_by
from tastespace.errors import DataError, ParameterError


def pairs_of(data):
    return set(zip(data.row_of_each().tolist(), data.indices.tolist(), strict=True))


@pytest.fixture(scope="module")
def timed():
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "user": rng.integers(0, 40, 900),
            "item": rng.integers(0, 70, 900),
            "when": rng.integers(0, 500, 900),
        }
    )
    return Interactions.from_frame(frame, timestamp="when")


SPLITS = {
    "per_user": lambda d, seed: split.per_user(d, (0.6, 0.2, 0.2), seed=seed),
    "authors": lambda d, seed: split.authors(d, (0.6, 0.2, 0.2), seed=seed % 2**32),
    "per_user halves": lambda d, seed: split.per_user(d, (0.5, 0.5), seed=seed),
    "leave_k_out": lambda d, seed: split.leave_k_out(d, 3, seed=seed),
    "leave latest": lambda d, seed: split.leave_k_out(d, 2, latest=True),
    "by_time": lambda d, seed: split.by_time(d, (0.7, 0.1, 0.2)),
    "cold_users": lambda d, seed: split.cold_users(d, 0.3, seed=seed),
    "cold_items": lambda d, seed: split.cold_items(d, 0.3, seed=seed),
}


@pytest.mark.parametrize("name", SPLITS)
@given(seed=st.integers(0, 2**32))
def test_every_split_is_a_partition_with_the_same_ids(name, timed, seed):
    parts = SPLITS[name](timed, seed)
    found = [pairs_of(part) for part in parts]
    assert set().union(*found) == pairs_of(timed)
    assert sum(map(len, found)) == timed.n_interactions
    assert all(part.users is timed.users and part.items is timed.items for part in parts)
    assert [p.fingerprint() for p in SPLITS[name](timed, seed)] == [p.fingerprint() for p in parts]


@given(st.integers(1, 300))
def test_the_papers_floor_rule_is_exact_for_every_length(n):
    frame = pl.DataFrame({"user": [0] * n + [1, 1], "item": list(range(n)) + [0, n]})
    train, valid, test = split.per_user(Interactions.from_frame(frame), (0.6, 0.2, 0.2), seed=n)
    sizes = [int(part.user_counts[0]) for part in (train, valid, test)]
    assert sizes == [3 * n // 5, n // 5, n - 3 * n // 5 - n // 5]


def test_different_seeds_differ_and_every_item_can_land_in_every_part(timed):
    once, again = split.per_user(timed, seed=1), split.per_user(timed, seed=2)
    assert once[0].fingerprint() != again[0].fingerprint()
    in_test = np.zeros(timed.n_interactions)
    for seed in range(200):
        position = split._shuffled_position(timed, seed)
        in_test += position == 0
    # Each interaction of a user comes first equally often: mean 200 / n_u, five standard deviations allowed.
    n = np.repeat(timed.user_counts, timed.user_counts)
    assert np.all(np.abs(in_test - 200 / n) < 5 * np.sqrt(200 / n) + 1)


def test_sizes_agree_with_the_authors_steam_split(dataset_dir):
    frame = pl.read_parquet(dataset_dir("steam-200k") / "interactions.parquet")
    data = Interactions.from_frame(frame)
    authors = split.by_column(data, frame, "split", parts=("train", "val", "test"))
    ours = split.per_user(data)
    assert [p.n_interactions for p in authors] == [67_653, 21_728, 25_758]
    for mine, theirs in zip(ours, authors, strict=True):
        assert np.array_equal(mine.user_counts, theirs.user_counts)


def test_leave_latest_holds_out_the_latest(timed):
    train, test = split.leave_k_out(timed, 2, latest=True)
    for user in range(timed.n_users):
        kept = train.timestamps[train.offsets[user] : train.offsets[user + 1]]
        held = test.timestamps[test.offsets[user] : test.offsets[user + 1]]
        assert len(held) == 2
        assert held.min() >= kept.max()


def test_leave_k_out_keeps_small_users_whole(timed):
    few = int(np.sort(timed.user_counts)[3])
    train, test = split.leave_k_out(timed, few)
    small = timed.user_counts <= few
    assert np.array_equal(train.user_counts[small], timed.user_counts[small])
    assert np.all(test.user_counts[~small] == few)
    with pytest.raises(DataError, match="no user has more than 1000"):
        split.leave_k_out(timed, 1000)


def test_time_cuts_are_global_and_dates_work(timed):
    past, future = split.by_time(timed, at=[250])
    assert past.timestamps.max() < 250 <= future.timestamps.min()
    early, late = split.by_time(timed, (0.8, 0.2))
    assert early.timestamps.max() < late.timestamps.min()
    assert abs(early.n_interactions / timed.n_interactions - 0.8) < 0.02
    days = [dt.datetime(2024, 1, day) for day in (1, 2, 3, 4)]
    frame = pl.DataFrame({"user": [1, 2, 1, 2], "item": [1, 2, 3, 4], "day": days})
    dated = Interactions.from_frame(frame, timestamp="day")
    assert [p.n_interactions for p in split.by_time(dated, at=[dt.datetime(2024, 1, 3)])] == [2, 2]


def test_cold_sides_share_nothing(timed):
    warm, cold = split.cold_users(timed, 0.25)
    assert not np.any((warm.user_counts > 0) & (cold.user_counts > 0))
    assert (cold.user_counts > 0).sum() == 10
    warm, cold = split.cold_items(timed, 0.5)
    assert not np.any((warm.item_counts > 0) & (cold.item_counts > 0))


def test_by_column_refuses_to_lose_anything(timed):
    frame = timed.to_frame().with_columns(pl.Series("fold", np.arange(timed.n_interactions) % 3))
    parts = split.by_column(timed, frame, "fold", parts=(0, 1, 2))
    for number, part in enumerate(parts):
        rows = frame.filter(fold=number)
        assert part.to_frame().select("user", "item").rows() == rows.select("user", "item").rows()
    with pytest.raises(DataError, match="holds 2; expected only 0, 1"):
        split.by_column(timed, frame, "fold", parts=(0, 1))
    with pytest.raises(DataError, match="interactions have no row"):
        split.by_column(timed, frame.head(100), "fold", parts=(0, 1, 2))
    with pytest.raises(DataError, match="no column 'part'"):
        split.by_column(timed, frame, "part")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: split.per_user(d, (0.6, 0.2)), "sum to 0.8"),
        (lambda d: split.per_user(d, (1.2, -0.2)), "between 0 and 1"),
        (lambda d: split.per_user(d, (1.0,)), "between 0 and 1"),
        (lambda d: split.leave_k_out(d, 0), "k=0"),
        (lambda d: split.by_time(d), "either ratios= or at="),
        (lambda d: split.by_time(d, at=[9, 3]), "ascending"),
        (lambda d: split.by_time(d, at=["noon"]), "number or a datetime"),
        (lambda d: split.cold_users(d, 1.5), "between 0 and 1"),
        (lambda d: split.cold_users(d, 0), "between 0 and 1"),
        (lambda d: split.per_user(d, seed=2**64), "seed="),
    ],
)
def test_bad_arguments(timed, call, message):
    with pytest.raises(ParameterError, match=message):
        call(timed)


def test_time_split_without_times_says_what_to_do(town):
    with pytest.raises(DataError, match="read it with timestamp="):
        split.by_time(town.interactions, (0.5, 0.5))


def test_a_pair_in_two_parts_is_refused(timed):
    frame = timed.to_frame().with_columns(pl.lit("train").alias("split"))
    frame = pl.concat([frame, frame.head(1).with_columns(pl.lit("test").alias("split"))])
    with pytest.raises(DataError, match="1 pairs are in two parts of the split"):
        split.by_column(timed, frame)


def test_one_moment_for_all_cannot_be_split():
    data = Interactions.from_frame(
        pl.DataFrame({"user": [1, 2, 1, 2], "item": [1, 2, 3, 4], "when": [5] * 4}), timestamp="when"
    )
    with pytest.raises(DataError, match="leaves parts of 0 / 4 interactions"):
        split.by_time(data, (0.5, 0.5))


@pytest.mark.parametrize(
    "call",
    [
        lambda d: split.per_user(d, 0.8),
        lambda d: split.per_user(d, seed=-1),
        lambda d: split.per_user(d, seed="a"),
        lambda d: split.by_time(d, at=5),
        lambda d: split.by_time(d, at=[float("nan")]),
        lambda d: split.cold_items(d, "0.3"),
    ],
)
def test_arguments_of_the_wrong_kind(timed, call):
    with pytest.raises(ParameterError, match="expected"):
        call(timed)


def test_the_inner_split_holds_out_a_fifth_rounded_down(town):
    rest, held_out = split.inner(town.interactions, seed=3)
    np.testing.assert_array_equal(held_out.user_counts, town.interactions.user_counts // 5)
    np.testing.assert_array_equal(rest.user_counts + held_out.user_counts, town.interactions.user_counts)
    assert not (rest.matrix.multiply(held_out.matrix)).nnz
    again, other = split.inner(town.interactions, seed=3), split.inner(town.interactions, seed=4)
    assert again[1].fingerprint() == held_out.fingerprint() != other[1].fingerprint()


def by_lexsort(data, keys):
    """Places within histories, the long way."""
    order = np.lexsort((np.arange(data.n_interactions), keys, data.row_of_each()))
    position = np.empty(data.n_interactions, dtype=np.int64)
    position[order] = np.arange(data.n_interactions) - np.repeat(data.offsets[:-1], data.user_counts)
    return position


@given(st.integers(0, 2**64 - 1), st.sampled_from([(0.6, 0.2, 0.2), (0.5, 0.5), (0.1, 0.2, 0.3, 0.4)]))
def test_per_user_gives_the_parts_of_a_sort_of_all_interactions(timed, seed, ratios):
    """The parts of every seed are those of earlier versions, which sorted all interactions at once."""
    position = by_lexsort(timed, np.random.default_rng(seed).random(timed.n_interactions))
    counts, first = timed.user_counts, np.zeros(timed.n_users, dtype=np.int64)
    expected = np.full(timed.n_interactions, len(ratios) - 1)
    for number, share in enumerate(ratios[:-1]):
        size = counts * round(10 * share) // 10
        low, high = np.repeat(first, counts), np.repeat(first + size, counts)
        expected[(position >= low) & (position < high)] = number
        first += size
    for number, part in enumerate(split.per_user(timed, ratios, seed=seed)):
        wanted = timed.subset(expected == number)
        np.testing.assert_array_equal(part.offsets, wanted.offsets)
        np.testing.assert_array_equal(part.indices, wanted.indices)
        np.testing.assert_array_equal(part.timestamps, wanted.timestamps)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_positions_follow_the_keys_with_ties_by_item(timed, kind):
    random = np.random.default_rng(3)
    keys = random.integers(-3, 4, timed.n_interactions).astype(kind)
    if kind is np.int64:
        keys[::7] += 2**62  # differences that floating point would lose
        keys[::14] += 1
    else:
        keys[::5], keys[::7], keys[::11] = -0.0, np.inf, -np.inf
        keys[::13] = np.nan  # last, as NumPy sorts them
    np.testing.assert_array_equal(position_by(timed, keys), by_lexsort(timed, keys))


def test_short_histories_are_in_different_folds():
    """Users with one interaction each are shared out evenly."""
    data = Interactions.from_frame(pl.DataFrame({"user": range(9), "item": [0, 1, 2] * 3}))
    for number, (_, test) in enumerate(split.folds(data, 3)):
        assert test.row_of_each().tolist() == [user for user in range(9) if user % 3 == number]


def test_the_authors_split_is_that_of_numpys_legacy_generator():
    rows = [[4, 7, 9, 20, 31, 32, 40], [1, 2, 3, 5, 8], [0, 6]]
    users, items = zip(*((u, i) for u, row in enumerate(rows) for i in reversed(row)), strict=True)
    data = Interactions.from_frame(pl.DataFrame({"user": users, "item": items}), catalog=pl.Series(range(41)))
    np.random.seed(1234)  # noqa: NPY002
    expected = [set(), set(), set()]
    for user, row in enumerate(rows):
        shuffled = list(row)
        np.random.shuffle(shuffled)  # noqa: NPY002
        n, m = int(0.6 * len(row)), int(0.2 * len(row))
        for part, some in zip(expected, (shuffled[:n], shuffled[n : n + m], shuffled[n + m :]), strict=True):
            part |= {(user, item) for item in some}
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    assert [pairs_of(part) for part in split.authors(data)] == expected
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
    backwards = np.arange(41)[::-1]
    assert [pairs_of(part) for part in split.authors(data, item_numbers=backwards)] != expected
    with pytest.raises(ParameterError, match="item_numbers: expected 41 different"):
        split.authors(data, item_numbers=np.zeros(41, dtype=int))
