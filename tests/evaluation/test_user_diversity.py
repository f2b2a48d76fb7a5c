"""Preference diversity (Definition 1) against the definition itself, pair by pair."""

from __future__ import annotations

import itertools
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tastespace import Interactions
from tastespace.errors import ParameterError
from tastespace.evaluation import user_diversity
from tastespace.evaluation.user_diversity import preference_diversity


def interactions_of(rows: list[list[int]], genres: list[Any], dtype: Any = None) -> Interactions:
    """User u took the items ``rows[u]``; item i has ``genres[i]``."""
    dtype = pl.List(pl.String) if dtype is None else dtype
    taken = pl.DataFrame(
        {
            "user": [user for user, items in enumerate(rows) for _ in items],
            "item": [item for items in rows for item in items],
        },
        schema={"user": pl.Int64, "item": pl.Int64},
    )
    attributes = pl.DataFrame({"item": range(len(genres)), "genres": pl.Series(genres, dtype=dtype)})
    return Interactions.from_frame(taken, catalog=range(len(genres)), item_attributes=attributes)


def by_definition(items: list[int], genres: list[list[str]]) -> float:
    if len(items) < 2:
        return float("nan")
    pairs = list(itertools.permutations(items, 2))
    return sum(not set(genres[j]) & set(genres[k]) for j, k in pairs) / len(pairs)


genre_lists = st.lists(st.lists(st.sampled_from("abcde"), max_size=3), min_size=3, max_size=14)


@pytest.mark.parametrize("dense_categories", [256, 0])
@given(genres=genre_lists, data=st.data())
def test_it_is_the_definition(dense_categories: int, genres: list[list[str]], data: st.DataObject) -> None:
    items = st.sets(st.integers(0, len(genres) - 1), min_size=1).map(sorted)
    rows = data.draw(st.lists(items, min_size=2, max_size=5))
    interactions = interactions_of(rows, genres)
    with pytest.MonkeyPatch.context() as patch:  # the sparse way, and blocks smaller than a user
        patch.setattr(user_diversity, "_DENSE_CATEGORIES", dense_categories)
        patch.setattr(user_diversity, "_BLOCK", data.draw(st.sampled_from([1, 7, 4_000_000])))
        value = preference_diversity(interactions)
        ignoring = preference_diversity(interactions, missing="ignore")
    assert value.shape == (len(rows),)
    assert value.dtype == np.float64
    np.testing.assert_allclose(value, [by_definition(row, genres) for row in rows], atol=1e-12)
    known = [[item for item in row if genres[item]] for row in rows]
    np.testing.assert_allclose(ignoring, [by_definition(row, genres) for row in known], atol=1e-12)


def test_items_of_one_category_are_0_and_unrelated_items_are_1() -> None:
    interactions = interactions_of([[0, 1, 2], [0, 3, 4], [0, 1, 3]], [["a"], ["a", "b"], ["a"], ["c"], ["d"]])
    assert preference_diversity(interactions).tolist() == [0.0, 1.0, pytest.approx(2 / 3)]


def test_items_without_attributes_are_disjoint_from_all_or_left_out() -> None:
    rows, genres = [[0, 1], [1, 2], [0, 1, 3], [0, 3]], [["a"], [], None, ["a", None]]
    interactions = interactions_of(rows, genres)
    assert preference_diversity(interactions).tolist() == [1.0, 1.0, pytest.approx(2 / 3), 0.0]
    ignoring = preference_diversity(interactions, missing="ignore")
    np.testing.assert_array_equal(ignoring, [np.nan, np.nan, 0.0, 0.0])


def test_no_attributes_at_all() -> None:
    interactions = interactions_of([[0, 1], [1, 2]], [[], None, []])
    assert preference_diversity(interactions).tolist() == [1.0, 1.0]


def test_fewer_than_two_items_are_nan() -> None:
    assert np.isnan(preference_diversity(interactions_of([[0], [0, 1]], [["a"], ["b"]]))).tolist() == [True, False]


def test_single_values_are_sets_of_one() -> None:
    rows = [[0, 1, 2], [0, 2]]
    texts = interactions_of(rows, ["a", "a", "b"], pl.String)
    numbers = interactions_of(rows, [7, 7, 8], pl.Int64)
    numbered_lists = interactions_of(rows, [[7], [7, 9], [8]], pl.List(pl.Int64))
    for interactions in (texts, numbers, numbered_lists):
        assert preference_diversity(interactions).tolist() == [pytest.approx(2 / 3), 1.0]


def test_the_data_stay_as_they_were() -> None:
    interactions = interactions_of([[0, 1, 2], [0, 2]], [["a"], ["a"], ["a"]])
    before = interactions.fingerprint()
    preference_diversity(interactions)
    assert interactions.fingerprint() == before


@pytest.mark.parametrize(("n_attributes", "mean"), [(18, 1), (3000, 6)], ids=["genres", "tags"])
def test_a_user_with_20_000_items(n_attributes: int, mean: float) -> None:
    rng = np.random.default_rng(0)
    size = 20_000
    numbers = [rng.integers(0, n_attributes, 1 + rng.poisson(mean)).tolist() for _ in range(size)]
    interactions = interactions_of([list(range(size)), [0]], numbers, pl.List(pl.Int64))
    # Pair by pair this would be 4 * 10^8 intersections, some minutes or a table of 400 MB.
    tracemalloc.start()
    try:
        value = preference_diversity(interactions)[0]
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()
    # A sample of pairs says what to expect.
    sets = [frozenset(number) for number in numbers]
    left, right = rng.integers(0, size, (2, 40_000))
    sample = np.mean([not sets[j] & sets[k] for j, k in zip(left, right, strict=True) if j != k])
    assert value == pytest.approx(sample, abs=0.015)


def test_bad_input_says_what_to_do() -> None:
    bare = Interactions.from_frame(pl.DataFrame({"user": [1, 2], "item": [1, 2]}))
    with pytest.raises(ParameterError, match=r"preference diversity needs item categories.* item_attributes="):
        preference_diversity(bare)
    interactions = interactions_of([[0, 1], [1]], [["a"], ["b"]])
    with pytest.raises(ParameterError, match=r"categories='genre': expected an item attribute; .*Did you mean genres"):
        preference_diversity(interactions, "genre")
    with pytest.raises(ParameterError, match="'disjoint' or 'ignore'"):
        preference_diversity(interactions, missing="drop")  # type: ignore[arg-type]
    with pytest.raises(
        ParameterError,
        match=r"no item attribute looks like categories\. Name one with categories=; the item attributes are 'year'",
    ):
        preference_diversity(replace(interactions, item_attributes=pl.DataFrame({"item": [0, 1], "year": [1, 2]})))


def test_text_with_bars_is_several_categories() -> None:
    rows = [[0, 1, 2], [0, 2, 3], [1, 3]]
    texts = interactions_of(rows, ["a|b", "b", " c | a", None], pl.String)
    lists = interactions_of(rows, [["a", "b"], ["b"], ["c", "a"], []])
    np.testing.assert_array_equal(preference_diversity(texts), preference_diversity(lists))
