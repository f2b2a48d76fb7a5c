"""Categories of items from every kind of column, and which column holds them."""

from __future__ import annotations

from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.required_services import optional_package

from tastespace import Interactions
from tastespace.data.attributes import (
    category_column,
    category_rows,
    holds_several,
    item_categories,
    values_repeat,
)
from tastespace.errors import DataError

AB = (["a", "b"], [[True, True], [False, True], [False, False]])


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([["a", "b"], ["b", None, "b"], None]),
        pl.Series([["a", "b"], ["b", ""], []]),
        pl.Series([["a", "b"], ["b", "b"], [None, None]], dtype=pl.Array(pl.String, 2)),
        pl.Series([["b", "a"], ["b"], []], dtype=pl.List(pl.Categorical)),
        pl.Series(["a|b", "b", None]),
        pl.Series([" b | a|", "|b|b", " "]),
        pl.Series(["a|b", "b", ""], dtype=pl.Categorical),
        pl.Series(["a|b", "b", None], dtype=pl.Enum(["a|b", "b"])),
    ],
    ids=[
        "lists",
        "lists with empty text",
        "arrays",
        "categorical lists",
        "bars",
        "bars and blanks",
        "categorical",
        "enum",
    ],
)
def test_lists_and_text_with_bars_are_the_same(column):
    found = item_categories(column)
    assert (found.names, found.table().tolist()) == AB
    assert found.of(np.array([1, 0, 2])) == [["b"], ["a", "b"], []]
    assert found.membership.sum() == 3.0


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pl.Series([3, None, 20]), [["3"], [], ["20"]]),
        (pl.Series([3.0, float("nan"), 20.5]), [["3"], [], ["20.5"]]),
        (pl.Series([[1.0, None], [2.5], None]), [["1"], ["2.5"], []]),
        (pl.Series([True, False, None]), [["true"], ["false"], []]),
        (pl.Series([date(2020, 1, 2), None]), [["2020-01-02"], []]),
        (pl.Series([None, None]), [[], []]),
        (pl.Series([[None], []]), [[], []]),
        (pl.Series([], dtype=pl.String), []),
    ],
)
def test_single_values_are_one_category_each(column, expected):
    found = item_categories(column)
    assert found.of(range(len(column))) == expected
    assert found.membership.shape == (len(column), len(found.names))
    assert found.names == sorted({name for names in expected for name in names})


def test_elements_of_lists_are_not_split():
    assert item_categories(pl.Series([["a|b"], ["b"]])).names == ["a|b", "b"]


@given(st.lists(st.none() | st.lists(st.text("abc é", min_size=1, max_size=2).map(str.strip), max_size=4), max_size=9))
def test_the_same_by_plain_python(rows):
    expected = [sorted({name for name in row or [] if name}) for row in rows]
    lists = item_categories(pl.Series(rows, dtype=pl.List(pl.String)))
    texts = item_categories(pl.Series([None if row is None else "|".join(row) for row in rows], dtype=pl.String))
    for found in (lists, texts):
        assert found.of(range(len(rows))) == expected
        assert found.names == sorted({name for row in expected for name in row})
        assert found.membership.has_sorted_indices
        assert (found.membership.data == 1.0).all()


@pytest.mark.parametrize(
    "column",
    [pl.Series("tags", [[["a"]]]), pl.Series("tags", [{"a": 1}]), pl.Series("tags", [object()], dtype=pl.Object)],
)
def test_what_is_no_category_is_refused(column):
    with pytest.raises(DataError, match=r"column 'tags' holds .*, which are no categories\. Give text such as"):
        item_categories(column)


def test_rows_keep_repeats_and_their_order():
    rows = category_rows(pl.Series(["b|a|b", None, "c"]))
    assert rows.columns == ["row", "name"]
    assert rows.rows() == [(0, "b"), (0, "a"), (0, "b"), (2, "c")]


# ---- which column --------------------------------------------------------------------------------------------

FEW, MANY = ["odd", "even"] * 5, [f"text {i}" for i in range(10)]
BARRED = ["x|y", "y", "x|z", "z|x", "y|z"] * 2


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"story": MANY, "parity": FEW}, "parity"),
        ({"parity": FEW, "tags": [["t"]] * 10}, "tags"),  # lists come before single values
        ({"parity": FEW, "tags": BARRED}, "tags"),  # and so does text with bars, which is lists as text
        ({"tags": [["t"]] * 10, "genres": MANY}, "genres"),  # a name says more
        ({"tags": [["t"]] * 10, "category": list(range(10))}, "category"),
        ({"title": FEW, "name": FEW}, None),
        ({"story": MANY, "year": list(range(10)), "sizes": [[1]] * 10}, None),
        ({}, None),
    ],
)
def test_the_column_is_found(columns, expected):
    assert category_column(pl.DataFrame({"item": range(10), **columns})) == expected


def test_without_attributes_there_is_no_column():
    assert category_column(None) is None


def test_values_that_repeat_and_texts_that_hold_several():
    assert values_repeat(pl.Series(FEW))
    assert not values_repeat(pl.Series(MANY))
    assert not values_repeat(pl.Series([None, None], dtype=pl.String))
    assert values_repeat(pl.Series([str(i) for i in range(1000)] * 2))
    assert not values_repeat(pl.Series([str(i) for i in range(1001)] * 2))  # too many for categories
    assert holds_several(pl.Series(BARRED))
    assert not holds_several(pl.Series(FEW))
    assert not holds_several(pl.Series(["Cats and dogs | a film", "Horses | a book"]))


def test_a_frame_of_pandas_gives_the_same():
    pd = optional_package("pandas")
    films = {"item": [1, 2, 3], "genres": ["Drama|War", np.nan, "Drama"]}
    data = Interactions.from_frame(
        pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 3]}), item_attributes=pd.DataFrame(films)
    )
    found = item_categories(data.item_attributes["genres"])
    assert found.of([0, 1, 2]) == [["Drama", "War"], [], ["Drama"]]


@pytest.mark.parametrize("column", ["title", "name"])
@pytest.mark.parametrize("titles", [[["a"], ["b"]], [b"a", b"\xff"], [{"a": 1}, {"a": 2}]])
def test_titles_that_are_no_text_are_refused_when_they_are_read(column, titles):
    frame = pl.DataFrame({"user": [1, 2], "item": [1, 2]})
    with pytest.raises(DataError, match=f"the item attribute '{column}' has type .*: expected text"):
        Interactions.from_frame(frame, item_attributes=pl.DataFrame({"item": [1, 2], column: titles}))
    tags = Interactions.from_frame(frame, item_attributes=pl.DataFrame({"item": [1, 2], "tags": titles}))
    assert tags.item_attributes is not None
