"""New item attributes for a fitted model, and titles in lists."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pytest

import tastespace as ts
from tastespace.errors import DataError, ParameterError


@pytest.fixture
def model(shop):
    return ts.Blend([ts.DPCML(dim=8, n_interests=2, epochs=5, threads=1), ts.EASE()], weights=[0.5, 0.5]).fit(shop)


def test_attributes_are_replaced_without_a_new_fit(model, shop, tmp_path):
    before = model.recommend(k=5)
    about = pl.DataFrame({"sku": ["i03", "i01", "other"], "name": ["three", "one", "?"], "price": [3, 1, 0]})
    assert model.set_item_attributes(about, id="sku") is model
    assert model.recommend(k=5).equals(before)
    assert shop.item_attributes is not None
    assert "title" in shop.item_attributes.columns  # the data itself is as it was
    assert model.train_.item_attributes.columns == ["item", "name", "price"]
    assert model.members_[0].train_.item_attributes is model.train_.item_attributes
    assert set(model.recommend(k=5, filter="price > 2", exclude_seen=False)["item"]) == {"i03"}
    titled = model.recommend(k=5, items=["i01", "i02", "i03"], titles=True, exclude_seen=False)
    assert dict(titled.select("item", "title").rows()) == {"i01": "one", "i03": "three", "i02": None}
    model.save(tmp_path / "m")
    assert ts.load(tmp_path / "m").train_.item_attributes.equals(model.train_.item_attributes)
    model.set_item_attributes(pd.DataFrame({"item": ["i01"], "color": ["red"]}))
    assert model.train_.item_attributes.columns == ["item", "color"]


def test_calibrated_lists_follow_the_new_attributes(shop, shop_frames):
    model = ts.EASE().fit(shop)
    calibrated = ts.Reranked.around(model, how="calibrated", pool=40)
    before = model.recommend(k=5, mix="calibrated"), calibrated.recommend(k=5)["item"].to_list()
    other = shop_frames[1].with_columns(genres=pl.Series([[f"g{row % 2}"] for row in range(90)]))
    calibrated.set_item_attributes(other)
    assert not model.recommend(k=5, mix="calibrated").equals(before[0])
    assert calibrated.recommend(k=5)["item"].to_list() != before[1]


def test_a_blend_that_needs_categories_keeps_them(shop):
    model = ts.Blend([ts.EASE()], weights=[1.0], category_balance=0.5).fit(shop)
    before = model.recommend(k=5)
    with pytest.raises(ParameterError, match="category_balance needs item categories"):
        model.set_item_attributes(pl.DataFrame({"item": ["i01", "i02"], "price": [1.5, 2.5]}))
    assert model.recommend(k=5).equals(before)


@pytest.mark.parametrize(
    ("frame", "arguments", "message"),
    [
        (
            {"sku": ["i01"], "x": [1]},
            {},
            r"id='item': the item attributes have no such column; their columns are 'sku', 'x'",
        ),
        ({"item": ["i01"], "x": [1]}, {"id": "itm"}, "id='itm'.*Did you mean item"),
        ({"item": ["i01", "i01"], "x": [1, 2]}, {}, "hold 'i01' more than once"),
        ({"item": [1, 2], "x": [1, 2]}, {}, "none of the 2 rows of item attributes belongs to one of the 90 items"),
    ],
)
def test_errors(model, frame, arguments, message):
    with pytest.raises(DataError, match=message):
        model.set_item_attributes(pl.DataFrame(frame), **arguments)


def test_titles_in_lists(dpcml, shop, tmp_path):
    about = shop.item_attributes
    found = dpcml.recommend(["u001", "nobody"], k=4, titles=True, on_unknown="popular")
    assert found.columns[:4] == ["user", "item", "title", "rank"]
    assert found.drop("title").equals(dpcml.recommend(["u001", "nobody"], k=4, on_unknown="popular"))
    assert found.select("item", "title").unique().join(about, on=["item", "title"]).height == found["item"].n_unique()
    assert dpcml.recommend("u001", k=4, titles="year")["title"].dtype == pl.String
    assert "," not in dpcml.recommend("u001", k=1, titles="genres")["title"][0]
    dpcml.recommend_to(tmp_path / "x.csv", k=4, titles=True)
    assert pl.read_csv(tmp_path / "x.csv").columns[:4] == ["user", "item", "title", "rank"]
    assert dpcml.recommend_for([["i01", "i02"]], k=4, titles=True)["title"].null_count() == 0
    shelves = dpcml.shelves("u001", 3)
    assert shelves.to_frame(titles=True).drop("title").equals(shelves.to_frame())
    assert shelves.to_frame(titles=True)["title"].to_list() == [title for shelf in shelves for title in shelf.titles]
    with pytest.raises(DataError, match=r"titles='titel': there is no item attribute 'titel'.*Did you mean title"):
        dpcml.recommend("u001", titles="titel")
    with pytest.raises(DataError, match="titles=True: there is no item attribute called title or name; there are 'x'"):
        ts.EASE().fit(shop).set_item_attributes(pl.DataFrame({"item": ["i01"], "x": [1]})).recommend(
            "u001", titles=True
        )
    with pytest.raises(DataError, match="the items have no attributes, so no titles"):
        ts.EASE().fit(pl.DataFrame({"user": [1, 2], "item": [1, 2]})).recommend(1, titles=True)
