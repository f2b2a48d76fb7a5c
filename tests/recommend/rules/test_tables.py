"""Rules over the items of a model: attributes, unknown ids, ages, and what is impossible for these items."""

from __future__ import annotations

from datetime import date

import numpy as np
import polars as pl
import pytest

from tastespace import EASE, Interactions, Rules
from tastespace.errors import DataError, ParameterError
from tastespace.recommend.rules.tables import rule_tables

ABOUT = pl.DataFrame(
    {
        "item": [1, 2, 3, 4, 5],
        "brand": ["x", "x", "y", None, "y"],
        "tags": ["a|b", "b", None, "a", "c"],
        "stock": [True, False, None, True, True],
        "left": [3.0, 0.0, None, float("nan"), -1.0],
        "day": [date(2024, 1, day) for day in (1, 2, 3, 4)] + [None],
        "text_day": ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04", "?"],
        "second": [86_400 * day for day in (1, 2, 3, 4)] + [None],
        "title": ["A", "B", "C", "D", "E"],
    }
)


@pytest.fixture(scope="module")
def data():
    taken = pl.DataFrame({"user": [1, 1, 2, 2, 3], "item": [1, 2, 3, 4, 5]})
    return Interactions.from_frame(taken, item_attributes=ABOUT)


def allowed(data, **rules):
    return (np.flatnonzero(rule_tables(data, Rules(**rules), 3).allowed) + 1).tolist()


def test_items_that_are_allowed(data):
    assert allowed(data, exclude=[2, 99]) == [1, 3, 4, 5]
    assert allowed(data, include=[2, 99, 3], exclude=[7]) == [2, 3]
    assert allowed(data, in_stock="stock") == [1, 4, 5]
    assert allowed(data, in_stock="left") == [1]
    assert allowed(data, in_stock=[1, 5, 70]) == [1, 5]
    for time in ("day", "text_day", "second"):
        assert allowed(data, time=time, max_age_days=1) == [3, 4]  # from the newest on
    for now in ("2024-01-05", date(2024, 1, 5)):
        assert allowed(data, time="day", max_age_days=2, now=now) == [3, 4]
    assert allowed(data, time="second", max_age_days=2.5, now=6 * 86_400) == [4]
    assert rule_tables(data, None, 3) is None
    assert rule_tables(data, Rules(max_per={"brand": 1}), 3).allowed is None


def test_groups_are_values_of_attributes(data):
    tables = rule_tables(data, Rules(max_per={"brand": 1, "tags": 2}), 3)
    groups = [tables.groups[a:b].tolist() for a, b in zip(tables.group_offsets, tables.group_offsets[1:], strict=False)]
    assert groups == [[0, 2, 3], [0, 3], [1], [2], [1, 4]]
    assert tables.most.tolist() == [1, 1, 2, 2, 2]


def test_new_items_and_pins(data):
    assert rule_tables(data, Rules(min_new_share=0.5, new="stock"), 3).is_new.tolist() == [1, 0, 0, 1, 1]
    assert rule_tables(data, Rules(min_new_share=0.5, new=[2, 8]), 3).is_new.tolist() == [0, 1, 0, 0, 0]
    dated = Rules(min_new_share=0.5, new_days=2, time="day")
    assert rule_tables(data, dated, 3).is_new.tolist() == [0, 1, 1, 1, 0]
    tables = rule_tables(data, Rules(pinned=[77, 5, 2]), 3)
    assert (tables.pins.tolist(), tables.places.tolist()) == ([4, 1], [1, 2])  # the unknown one takes no place
    tables = rule_tables(data, Rules(pinned={1: 77, 3: 2}), 3)
    assert (tables.pins.tolist(), tables.places.tolist()) == ([1], [3])


def test_too_few_new_items_are_said(data, caplog):
    rule_tables(data, Rules(min_new_share=0.5, new=[2, 3]), 4)
    assert not caplog.text
    rule_tables(data, Rules(min_new_share=0.5, new=[2, 3], exclude=[3]), 4)
    assert "asks for 2 new items among k=4, and 1 may be shown: lists are shorter than k" in caplog.text


def test_unknown_ids_are_counted_in_one_note(data, caplog):
    rule_tables(data, Rules(exclude=[1, "x", 99], include=[2, 98, 97], pinned=[2, 98]), 3)
    assert len(caplog.records) == 1
    assert "unknown item ids are ignored" in caplog.text
    for part in ("1 in pinned (such as 98)", "2 in exclude (such as 'x')", "2 in include (such as 98)"):
        assert part in caplog.text
    caplog.clear()
    rule_tables(data, Rules(exclude=[1]), 3)
    assert not caplog.records


@pytest.mark.parametrize(
    ("rules", "error", "message"),
    [
        (
            {"max_per": {"brnd": 1}},
            ParameterError,
            "max_per names the item attribute 'brnd'; the items have.*mean brand",
        ),
        ({"in_stock": "title"}, ParameterError, "'title', which holds String: expected true or false"),
        ({"time": "brand", "max_age_days": 1}, DataError, "'brand', whose text is no dates or times, such as 'x'"),
        ({"time": "stock", "max_age_days": 1}, ParameterError, "holds Boolean: expected dates"),
        ({"include": [70, 71]}, DataError, "the rules leave none of the 5 items; each alone leaves: include 0"),
        ({"include": [2], "in_stock": "stock"}, DataError, "include 1, in_stock 3"),
        (
            {"pinned": {4: 1}},
            ParameterError,
            "contradict each other: pinned names the place 4, and lists have only 3 places",
        ),
        ({"pinned": [1, 2, 3, 4]}, ParameterError, "the place 4, and lists have only 3 places"),
        (
            {"pinned": [1, 2], "max_per": {"brand": 1}},
            ParameterError,
            r"pinned has 2 items of one value \(1, 2\), and max",
        ),
        (
            {"pinned": [1, 2], "min_new_share": 0.5, "new": [3, 4]},
            ParameterError,
            "min_new_share=0.5 asks for 2 new items among 3, and 2 places have pinned items that are not new",
        ),
        ({"min_new_share": 0.5, "new": [77]}, DataError, "no item of the model is new by new"),
        (
            {"min_new_share": 0.5, "new": [2, 3], "in_stock": "stock", "exclude": [4]},
            ParameterError,
            "contradict each other: min_new_share=0.5 asks .* none of the 2 new by new is left by exclude, in_stock",
        ),
    ],
)
def test_errors(data, rules, error, message):
    with pytest.raises(error, match=message):
        rule_tables(data, Rules(**rules), 3)


def test_errors_of_requests(data):
    model = EASE().fit(data)
    with pytest.raises(ParameterError, match=r"rules=\{'exclude': \[1\]\}: expected tastespace.Rules"):
        model.recommend(1, rules={"exclude": [1]})
    with pytest.raises(DataError, match="leave 1 of the 5 items, and the rules none of these"):
        model.recommend(1, items=[2], rules=Rules(exclude=[2]))
    bare = EASE().fit(pl.DataFrame({"user": [1, 2], "item": [1, 2]}))
    with pytest.raises(ParameterError, match=r"the items have none\. model.set_item_attributes gives them some"):
        bare.recommend(1, rules=Rules(max_per={"brand": 1}))
