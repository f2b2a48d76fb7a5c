"""Ids of the test data in the model's indices, and set operations on lists per user."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tastespace import Interactions
from tastespace._util.csr import merge_lists
from tastespace.errors import ParameterError, UnknownIdError
from tastespace.evaluation._inputs import align, subtract_lists


def frame(pairs):
    users, items = zip(*pairs, strict=True)
    return Interactions.from_frame(pl.DataFrame({"user": users, "item": items}))


def as_sets(offsets, items):
    return [set(items[a:b].tolist()) for a, b in itertools.pairwise(offsets)]


rows_of_items = st.lists(st.sets(st.integers(0, 12), max_size=8), min_size=1, max_size=6)


def lists(rows):
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return offsets, np.array([item for row in rows for item in sorted(row)], dtype=np.int32)


@given(rows_of_items, st.data())
def test_union_and_difference_are_those_of_sets(rows, data):
    other = [data.draw(st.sets(st.integers(0, 20), max_size=8)) for _ in rows]
    offsets, items = merge_lists([lists(rows), lists(other)], len(rows))
    assert as_sets(offsets, items) == [a | b for a, b in zip(rows, other, strict=True)]
    assert all(np.all(np.diff(items[a:b]) > 0) for a, b in itertools.pairwise(offsets))
    assert offsets.dtype == np.int64
    assert items.dtype == np.int32

    (offsets, items), n_repeated = subtract_lists(lists(rows), lists(other))
    assert as_sets(offsets, items) == [a - b for a, b in zip(rows, other, strict=True)]
    assert n_repeated == sum(len(a & b) for a, b in zip(rows, other, strict=True))


def test_no_lists_at_all_are_empty_lists():
    offsets, items = merge_lists([], 3)
    assert offsets.tolist() == [0, 0, 0, 0]
    assert items.tolist() == []


MODEL = frame([("ann", 10), ("ann", 20), ("bob", 30), ("cyd", 10)])


def test_known_ids_move_to_the_models_indices():
    # Other users, other items and another order: only the ids matter.
    aligned = align(frame([("cyd", 30), ("ann", 30), ("cyd", 10)]), MODEL, "test", "error")
    assert as_sets(aligned.offsets, aligned.items) == [{2}, set(), {0, 2}]
    assert aligned.items.tolist() == [2, 0, 2]  # ascending within a user
    assert aligned.n_unknown_users == 0


UNKNOWN = frame([("ann", 10), ("ann", 99), ("ann", 98), ("dan", 10), ("dan", 20), ("eve", 97)])


def test_unknown_ids_are_an_error_by_default():
    with pytest.raises(UnknownIdError, match=r"the test data holds 2 users and 3 items .*\(for example 'dan'\)"):
        align(UNKNOWN, MODEL, "test", "error")
    with pytest.raises(UnknownIdError, match=r"0 users and 1 items .*\(for example 99\).*on_unknown='skip'"):
        align(frame([("ann", 99), ("bob", 10)]), MODEL, "test", "error")


def test_unknown_ids_may_be_skipped_or_count_as_zero():
    skipped = align(UNKNOWN, MODEL, "test", "skip")
    assert as_sets(skipped.offsets, skipped.items) == [{0}, set(), set()]
    assert skipped.n_unknown.tolist() == [0, 0, 0]
    assert skipped.n_unknown_users == 0
    zero = align(UNKNOWN, MODEL, "test", "zero")
    assert as_sets(zero.offsets, zero.items) == [{0}, set(), set()]
    assert zero.n_unknown.tolist() == [2, 0, 0]
    assert zero.unknown_users.to_list() == ["dan", "eve"]
    assert zero.unknown_user_counts.tolist() == [2, 1]


def test_another_choice_is_refused():
    with pytest.raises(ParameterError, match="on_unknown='ignore': expected one of error, skip, zero"):
        align(UNKNOWN, MODEL, "test", "ignore")


def test_users_and_items_without_interactions_are_not_unknown(taken):
    """Parts of a split keep ids without interactions; they need not be the model's."""
    aligned = align(taken([[0], [], []], 9), taken([[0], [1]], 2), "test", "error")
    assert as_sets(aligned.offsets, aligned.items) == [{0}, set()]


@pytest.mark.parametrize("choice", ["error", "skip", "zero"])
def test_numbers_never_match_text(choice):
    """A file read with another type of id would otherwise count as nothing but unknown users, or as "5" = 5."""
    numbered, texts = frame([(5, 10), (6, 20)]), frame([("5", 10), ("7", 20)])
    with pytest.raises(UnknownIdError, match=r"user ids of the test data are String such as '5'.* Int64 such as 5"):
        align(texts, numbered, "test", choice)


def test_integers_of_another_width_do_match():
    narrow = Interactions.from_frame(
        pl.DataFrame({"user": [5, 2**31 - 1], "item": [1, 2]}, schema_overrides={"user": pl.Int32})
    )
    wide = frame([(5, 2), (2**40, 1)])
    aligned = align(wide, narrow, "test", "zero")
    assert as_sets(aligned.offsets, aligned.items) == [{1}, set()]
    assert aligned.unknown_users.to_list() == [2**40]
