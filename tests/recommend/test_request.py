"""Arguments of a request: how many items, for which users, among which items; and the errors of bad ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.recommend.toy_models import lists_of

from tastespace import EASE, Interactions
from tastespace.errors import DataError, ParameterError, UnknownIdError

pytestmark = pytest.mark.usefixtures("one_core")


@pytest.fixture(params=["ease", "dpcml"])
def model(request):
    """A model of scores and a model of vectors: they are restricted on different ways."""
    return request.getfixturevalue(request.param)


def is_late_and_new(row):
    return row["year"] is not None and row["year"] >= 1990 and "new" in row["kinds"].split("|")


FILTERS = {
    "condition": "year >= 1990 AND kinds LIKE '%|new'",
    "expression": (pl.col("year") >= 1990) & pl.col("kinds").str.ends_with("new"),
    "function": lambda items: (items["year"] >= 1990) & items["kinds"].str.contains("new"),
    "function to list": lambda items: [is_late_and_new(row) for row in items.iter_rows(named=True)],
    "function to expression": lambda items: (pl.col("year") >= 1990) & pl.col("kinds").str.ends_with("new"),
}


# ---- among which items -------------------------------------------------------------------------------------


@pytest.mark.parametrize("filter", FILTERS.values(), ids=FILTERS.keys())
def test_a_filter_restricts_exactly_as_a_plain_loop_says(model, shop, filter):
    allowed = {row["item"] for row in shop.item_attributes.iter_rows(named=True) if is_late_and_new(row)}
    assert 10 < len(allowed) < 60
    whole, found = lists_of(model.recommend(k=90)), lists_of(model.recommend(k=90, filter=filter))
    for user in shop.users.series:
        assert set(found[user]) == allowed - set(shop.items_of(user))
        assert found[user] == [item for item in whole[user] if item in allowed]  # the order is as without
    for user, items in lists_of(model.recommend(k=3, filter=filter)).items():
        assert items == found[user][:3]


@pytest.mark.parametrize("kind", [list, tuple, set, np.array, pl.Series, pd.Series, iter])
def test_items_restrict_to_those_named(model, shop, kind):
    named = ["i70", "i03", "i41", "i42", "i03"]
    whole, found = lists_of(model.recommend(k=90)), lists_of(model.recommend(k=90, items=kind(named)))
    for user in shop.users.series:
        assert found.get(user, []) == [item for item in whole[user] if item in named]


def test_one_item_may_be_named_alone(model, shop):
    found = model.recommend(items="i41")
    assert set(found["item"]) == {"i41"}
    assert set(found["user"]) == {user for user in shop.users.series if "i41" not in shop.items_of(user)}


def test_items_and_filter_both_must_hold(model, shop):
    found = model.recommend(k=90, items=["i03", "i04", "i05", "i06"], filter="kinds LIKE '%|new'", exclude_seen=False)
    assert set(found["item"]) == {"i04", "i05"}  # i03 and i06 are used
    assert len(found) == 2 * shop.n_users


def test_where_nothing_is_known_of_an_item_no_condition_holds_for_it(model, shop):
    dated = set(shop.item_attributes.filter(pl.col("year").is_not_null())["item"])
    for condition in ("year > 0", "year <= 0 OR year > 0", lambda items: items["year"] > 0):
        found = model.recommend(k=90, filter=condition, exclude_seen=False)
        assert set(found["item"]) == dated


def test_a_function_is_given_the_library_that_the_data_came_from(shop_frames, pandas_shop, shop):
    frames_given = []

    def keep(items):
        frames_given.append(items)
        return items["year"] >= 1990

    expected = EASE(threads=1).fit(shop).recommend(filter="year >= 1990")
    found = EASE(threads=1).fit(pandas_shop).recommend(filter=keep)
    assert isinstance(frames_given[0], pd.DataFrame)
    assert frames_given[0]["item"].tolist() == shop.items.series.to_list()
    assert isinstance(found, pd.DataFrame)
    assert found["item"].tolist() == expected["item"].to_list()
    arrow = Interactions.from_frame(shop_frames[0].to_arrow())
    EASE(threads=1).fit(arrow).recommend(filter=lambda items: frames_given.append(items) or [True] * arrow.n_items)
    assert isinstance(frames_given[1], pa.Table)


def test_items_without_attributes_are_filtered_by_their_ids():
    data = Interactions.from_frame(pl.DataFrame({"user": [1, 1, 2, 2], "item": [10, 20, 20, 30]}))
    model = EASE(threads=1).fit(data)
    assert model.recommend(filter="item > 10", exclude_seen=False)["item"].unique().sort().to_list() == [20, 30]
    with pytest.raises(DataError, match="no column 'year'; the columns of the items are 'item'"):
        model.recommend(filter="year > 10")


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        ("year > 3000", r"'year > 3000' leaves none of the 90 items. Widen it"),
        ("yaer > 3", r"no column 'yaer'; the columns of the items are 'item', 'title'.* Did you mean year\?"),
        (pl.col("kind") == "new", r"no column 'kind'.* Did you mean kinds\?"),
        (lambda items: items["titel"] == "x", r"no column 'titel'.* Did you mean .*title"),
        ("year >=", "'year >=' cannot be read at character 8: .*the columns of the items are 'item'"),
        ("", "filter='' cannot be read"),
        ("year >= 'soon'", "cannot be read at character 9: .*'year', which holds whole numbers, with"),
        ("since(year)", "a filter cannot call 'since'"),
        ("year", "'year' cannot be read at character 5: expected one of = != < .* after 'year', given the end"),
        (pl.col("year").max() > 3, "<Expr> gave 1 values of type Boolean, expected .* each of the 90 items"),
        (lambda items: [True, False], "gave 2 values of type Boolean, expected true or false for each of the 90"),
        (lambda items: np.ones(90), "gave 90 values of type Float64, expected true or false"),
        (lambda items: None, "expected true or false for each of the 90 items"),
    ],
)
def test_filters_that_make_no_sense_are_refused(model, filter, message):
    with pytest.raises(DataError, match=message):
        model.recommend(["u003"], filter=filter)


def test_a_filter_of_another_type_is_refused(model):
    with pytest.raises(ParameterError, match='filter=1990: expected a condition such as "year >= 1990"'):
        model.recommend(["u003"], filter=1990)


def test_a_functions_own_mistake_is_not_hidden(model):
    with pytest.raises(ZeroDivisionError):
        model.recommend(["u003"], filter=lambda items: 1 / 0)


def test_items_that_make_no_sense_are_refused(model):
    with pytest.raises(UnknownIdError, match=r"1 of 2 item ids are unknown, the first is 'i041'.*Did you mean i41"):
        model.recommend(["u003"], items=["i41", "i041"])
    with pytest.raises(DataError, match=r"items= is an empty list; leave it out"):
        model.recommend(["u003"], items=[])
    with pytest.raises(DataError, match=r"'year > 3000' and items= leaves none of the 90 items"):
        model.recommend(["u003"], items=["i41"], filter="year > 3000")


# ---- how many ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, -1, True, 2.5, "3", None, float("nan")])
def test_a_k_that_is_no_number_of_items_is_refused(model, k):
    for ask in (
        lambda: model.recommend(["u003"], k=k),
        lambda: model.recommend_indices([3], k=k),
        lambda: model.recommend_for([["i41"]], k=k),
        lambda: model.similar_items("i41", k=k),
    ):
        with pytest.raises(ParameterError, match="expected a number of items from 1 to 2,147,483,647"):
            ask()


def test_a_k_from_numpy_is_a_k(model):
    assert len(model.recommend(["u003"], k=np.int64(4))) == 4


# ---- for whom ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, tuple, np.array, pl.Series, pd.Series, iter])
def test_users_may_come_in_any_collection(model, kind):
    asked = ["u007", "u003"]
    found = model.recommend(kind(asked), k=2)
    assert found["user"].to_list() == ["u007", "u007", "u003", "u003"]
    assert found.equals(pl.concat([model.recommend(user, k=2) for user in asked]))  # one id alone is a question, too


def test_an_empty_list_of_users_is_refused(model):
    with pytest.raises(DataError, match="the list of users is empty; leave users out for all users"):
        model.recommend([])


def test_what_to_do_with_unknown_users_must_be_one_of_three(model):
    with pytest.raises(ParameterError, match=r"on_unknown='ignore': expected 'error', 'skip'.*'popular'"):
        model.recommend(["u003"], on_unknown="ignore")
    with pytest.raises(ParameterError, match="on_unknown='ignore'"):
        model.recommend_for([["i41"]], on_unknown="ignore")


@pytest.mark.parametrize("several", [["u003"], ("u003", "u004"), np.array(["u003"]), pl.Series(["u003"])])
def test_methods_for_one_user_take_one_id(dpcml, several):
    for ask in (dpcml.shelves, dpcml.interests, lambda user: dpcml.explain(user, "i41")):
        with pytest.raises(ParameterError, match="expected one id, given"):
            ask(several)


def test_ids_of_other_types_are_unknown_ids(ease):
    known = ease.train_.users[0]
    assert ease.recommend([known, 3.5, None], k=2, on_unknown="skip")["user"].unique().to_list() == [known]
    assert ease.recommend([3.5, None], k=2, on_unknown="skip").is_empty()
    with pytest.raises(ParameterError, match="given a DataFrame"):
        ease.recommend(ease.train_.to_frame())
