"""Words for sets of items, from their attributes."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from toy_models import taken

from tastespace.errors import DataError
from tastespace.recommend.interest_labels import Labeler

ITEMS = list("abcdefghij")
# a, b and c are crime; c and d are noir; everything but d is drama, as most things are.
GENRES = [["Crime", "Drama"], ["Crime", "Drama"], ["Crime", "Noir", "Drama"], ["Noir"], *([["Drama"]] * 6)]


def data_with(**columns):
    return taken(
        {"ann": "abcef", "bob": "cdefghi", "cem": "ghij"},
        ITEMS,
        item_attributes=pl.DataFrame({"item": ITEMS, **columns}, strict=False),
    )


def gain(data, genres, rows, name):
    """p log(p / q) of one genre, from its definition."""
    p = np.mean([name in genres[row] for row in rows])
    q = np.mean([name in genres[item] for item in data.indices])
    return p * math.log(p / q) if p > q else 0.0


@pytest.mark.parametrize(
    "column",
    [GENRES, ["|".join(names) for names in GENRES]],
    ids=["lists of text", "text with bars"],
)
def test_a_label_is_what_the_items_have_more_of_than_others(column):
    data = data_with(genres=column)
    labeler = Labeler(data, "genres")
    for rows in ([0, 1, 2], [2, 3], [3], [0, 3], [4, 5, 0], list(range(10))):
        by_gain = sorted(("Crime", "Drama", "Noir"), key=lambda name: -gain(data, GENRES, rows, name))
        expected = [name for name in by_gain[:2] if gain(data, GENRES, rows, name) > 0]
        assert labeler.label(np.array(rows)) == (", ".join(expected) or None)
    assert labeler.label(np.array([0, 1, 2])) == "Crime, Noir"
    assert labeler.label(np.array([3])) == "Noir"
    assert labeler.label(np.array([], dtype=int)) is None


def test_what_most_of_the_items_are_comes_before_what_few_of_them_are():
    """All four are common, as nine of sixteen interactions are; one is rare, four times as often as elsewhere."""
    genres = [["Rare"] * (item == "a") + ["Common"] * (item in "abcdef") + ["Plain"] for item in ITEMS]
    assert Labeler(data_with(genres=genres)).label(np.array([0, 1, 2, 3])) == "Common, Rare"


def test_a_category_of_few_of_the_items_does_not_name_them():
    data = data_with(genres=[["Rare"] if item == "a" else ["Plain"] for item in ITEMS])
    labeler = Labeler(data)
    assert labeler.label(np.array([0, 1, 2])) == "Rare"  # a third
    assert "Rare" not in (labeler.label(np.array([0, 1, 2, 3, 4, 5])) or "")  # a sixth


def test_the_column_of_categories_is_found():
    few, many = ["odd", "even"] * 5, [f"text {i}" for i in range(10)]
    rows = np.array([0, 2, 4])  # odd ones
    assert Labeler(data_with(story=many, parity=few)).label(rows) == "odd"
    assert Labeler(data_with(parity=few, tags=[["t"]] * 3 + [["u"]] * 7)).label(np.array([0, 1])) == "t"  # lists first
    assert Labeler(data_with(title=few)).label(rows) is None  # a title is no category
    assert Labeler(data_with(story=many, year=list(range(10)))).label(rows) is None
    assert Labeler(taken({"ann": "ab", "bob": "bc"}, ITEMS)).label(rows) is None


def test_the_column_may_be_named():
    data = data_with(parity=["odd", "even"] * 5, tags=[["t"]] * 3 + [["u"]] * 7, decade=[1980] * 5 + [1990] * 5)
    assert Labeler(data, "parity").label(np.array([0, 2])) == "odd"
    assert Labeler(data, "decade").label(np.array([0, 2])) == "1980"
    with pytest.raises(DataError, match=r"no attribute 'tag'; they have 'item', 'parity', 'tags'.* Did you mean tags"):
        Labeler(data, "tag")
    with pytest.raises(DataError, match="no attribute 'tags'; they have none"):
        Labeler(taken({"ann": "ab", "bob": "bc"}, ITEMS), "tags")


@pytest.mark.parametrize(
    "lists",
    [[[1]] * 3 + [[2, 3]] * 7, [["x"], None, [], [None], ["x", ""], *([["y"]] * 5)]],
    ids=["lists of numbers", "gaps"],
)
def test_lists_of_other_kinds_and_gaps_do_no_harm(lists):
    found = Labeler(data_with(tags=lists), "tags").label(np.array([0, 1]))
    assert found == str(lists[0][0])


def test_columns_without_a_single_category_give_no_label():
    assert Labeler(data_with(tags=[None] * 10), "tags").label(np.array([0, 1])) is None
    assert Labeler(data_with(tags=[""] * 10), "tags").label(np.array([0, 1])) is None


def test_items_are_called_by_title_or_name_or_id():
    rows = np.array([1, 0, 2])
    assert Labeler(data_with(name=["n"] * 10, title=["T", "U", None, *"vwxyzpq"])).titles(rows) == ["U", "T", "c"]
    assert Labeler(data_with(name=[f"n{item}" for item in ITEMS])).titles(rows) == ["nb", "na", "nc"]
    assert Labeler(data_with(year=list(range(10)))).titles(rows) == ["b", "a", "c"]
    assert Labeler(taken({1: [5, 6], 2: [6, 7]}, [5, 6, 7])).titles(rows) == ["6", "5", "7"]
    assert Labeler(data_with(title=ITEMS)).titles(np.array([], dtype=int)) == []
