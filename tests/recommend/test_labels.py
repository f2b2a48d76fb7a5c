"""Words for sets of items, from their attributes."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from tests.recommend.toy_models import taken

from tastespace.errors import DataError
from tastespace.recommend.labels import Labeler

ITEMS = list("abcdefghij")
# a, b and c are crime; c and d are noir; everything but d is drama, as most things are.
GENRES = [["Crime", "Drama"], ["Crime", "Drama"], ["Crime", "Noir", "Drama"], ["Noir"], *([["Drama"]] * 6)]


def data_with(**columns):
    return taken(
        {"ann": "abcef", "bob": "cdefghi", "cem": "ghij"},
        ITEMS,
        item_attributes=pl.DataFrame({"item": ITEMS, **columns}, strict=False),
    )


def rows_of(letters):
    return np.array([ITEMS.index(letter) for letter in letters], dtype=int)


def carries(letters, names):
    """Share of items with at least one of these genres."""
    return np.mean([bool(set(GENRES[ITEMS.index(letter)]) & set(names)) for letter in letters])


@pytest.mark.parametrize("column", [GENRES, ["|".join(names) for names in GENRES]], ids=["lists", "text with bars"])
def test_a_name_is_given_where_it_fits(column):
    """Every name that is given keeps its promises, for all pairs of disjoint lists of up to four items."""
    labeler, data = Labeler(data_with(genres=column)), data_with(genres=column)
    taken_items = [ITEMS[row] for row in data.indices]
    n_named = 0
    for one in combinations("abcdefg", 3):
        other = [letter for letter in ITEMS if letter not in one][:4]
        found = labeler.labels([rows_of(one), rows_of(other)])
        assert found[0] is None or found[0] != found[1]
        for name, own, rest in ((found[0], one, other), (found[1], other, one)):
            if name is not None:
                words = name.split(", ")
                p = carries(own, words)
                assert p >= 0.75
                assert p >= 1.25 * carries(taken_items, words)
                assert p >= 1.25 * carries(rest, words)
                assert len(words) == 1 or all(carries(own, [word]) >= 0.4 for word in words)
                n_named += 1
    assert n_named > 10


def test_names_by_hand():
    labeler = Labeler(data_with(genres=GENRES))
    assert labeler.labels([rows_of("abc")]) == ["Crime"]
    assert labeler.labels([rows_of("abcd")]) == ["Crime, Noir"]  # three are crime, two noir, together all of them
    assert labeler.labels([rows_of("d"), rows_of("abce")]) == ["Noir", "Crime"]
    assert labeler.labels([rows_of("efgh")]) == [None]  # drama, as nearly everything
    assert labeler.labels([rows_of("ade")]) == [None]  # neither crime nor noir is three quarters of it
    assert labeler.labels([rows_of("")]) == [None]
    assert labeler.labels([]) == []


def test_no_name_twice_and_none_that_other_lists_deserve_as_much():
    labeler = Labeler(data_with(genres=GENRES))
    assert labeler.labels([rows_of("ab"), rows_of("abc")]) == [None, None]  # both are crime: that tells nothing
    many = [["x"], ["x"], ["x"], ["x", "y"], *([["z"]] * 6)]
    found = Labeler(data_with(genres=many)).labels([rows_of("ab"), rows_of("cd"), rows_of("ef"), rows_of("gh")])
    assert found.count("x") == 1
    assert len({name for name in found if name}) == sum(name is not None for name in found)


def test_a_name_needs_support():
    labeler = Labeler(data_with(genres=GENRES))
    assert labeler.labels([rows_of("ab")], [rows_of("abce")]) == ["Crime"]
    assert labeler.labels([rows_of("ab")], [rows_of("aefghi")]) == [None]
    assert labeler.labels([rows_of("ab")], [rows_of("")]) == [None]


def test_the_column_of_categories_is_found():
    few, many = ["odd", "even"] * 5, [f"text {i}" for i in range(10)]
    rows = np.array([0, 2, 4])  # odd ones
    assert Labeler(data_with(story=many, parity=few)).labels([rows])[0] == "odd"
    assert (
        Labeler(data_with(parity=few, tags=[["t"]] * 3 + [["u"]] * 7)).labels([np.array([0, 1])])[0] == "t"
    )  # lists first
    assert Labeler(data_with(title=few)).labels([rows])[0] is None  # a title is no category
    assert Labeler(data_with(story=many, year=list(range(10)))).labels([rows])[0] is None
    assert Labeler(taken({"ann": "ab", "bob": "bc"}, ITEMS)).labels([rows])[0] is None


def test_the_column_may_be_named():
    data = data_with(parity=["odd", "even"] * 5, tags=[["t"]] * 3 + [["u"]] * 7, decade=[1980] * 5 + [1990] * 5)
    assert Labeler(data, "parity").labels([np.array([0, 2])])[0] == "odd"
    assert Labeler(data, "decade").labels([np.array([0, 2])])[0] == "1980"
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
    labeler = Labeler(data_with(tags=lists), "tags")
    rows = [row for row, names in enumerate(lists) if names and names[0] == lists[0][0]]
    assert labeler.labels([np.array(rows)]) == [str(lists[0][0])]


def test_columns_without_a_single_category_give_no_label():
    assert Labeler(data_with(tags=[None] * 10), "tags").labels([np.array([0, 1])])[0] is None
    assert Labeler(data_with(tags=[""] * 10), "tags").labels([np.array([0, 1])])[0] is None


def test_items_are_called_by_title_or_name_or_id():
    rows = np.array([1, 0, 2])
    assert Labeler(data_with(name=["n"] * 10, title=["T", "U", None, *"vwxyzpq"])).titles(rows) == ["U", "T", "c"]
    assert Labeler(data_with(name=[f"n{item}" for item in ITEMS])).titles(rows) == ["nb", "na", "nc"]
    assert Labeler(data_with(year=list(range(10)))).titles(rows) == ["b", "a", "c"]
    assert Labeler(taken({1: [5, 6], 2: [6, 7]}, [5, 6, 7])).titles(rows) == ["6", "5", "7"]
    assert Labeler(data_with(title=ITEMS)).titles(np.array([], dtype=int)) == []
