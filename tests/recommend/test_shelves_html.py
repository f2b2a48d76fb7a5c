"""HTML of shelves, explanations and lists in notebooks: titles are text."""

import polars as pl
import pytest

import tastespace as ts
from tastespace.recommend.shelves import shelf_html, text_html

EVIL = "<script>alert(1)</script> & <b>"


@pytest.fixture(scope="module")
def model(town):
    data = town.interactions
    titles = pl.Series("title", [EVIL] * data.n_items)
    fitted = ts.DPCML(dim=8, n_interests=2, epochs=2, threads=1).fit(data, progress=False)
    return fitted.set_item_attributes(data.item_attributes.with_columns(titles))


def test_shelves_and_explanations_are_escaped(model):
    shelves = model.shelves(7, 4)
    for shown in (shelves, shelves[0], model.explain(7, 3)):
        html = shown._repr_html_()
        assert "<script" not in html
        assert "<b>" not in html
        assert "&lt;script&gt;" in html
    assert shelves._repr_html_().count("flex:0 0 150px") == sum(len(one.items) for one in shelves)
    assert f"{100 * shelves[0].weight:.0f} %" in shelves[0]._repr_html_()


def test_titles_do_not_turn_what_is_beside_them():
    html = shelf_html("To \u202eend\u0007", 0.5, ["a\u2067b", "c"], ["\u05d0\u200f\x9b", "d\u202d", "e\r\nf\tg"])
    assert "<strong><bdi>To end</bdi></strong>" in html
    assert "because of <bdi>ab</bdi>, <bdi>c</bdi>" in html
    assert "<bdi>\u05d0\u200f</bdi>" in html  # letters and their marks stay
    assert "<bdi>d</bdi>" in html
    assert "<bdi>e f g</bdi>" in html  # words stay apart
    assert text_html("a\u202eb\x1b\nc") == "<div>ab<br>c</div>"


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_lists_are_frames_whose_html_is_escaped(model, library):
    frame = model.recommend(7, 4, titles=True)
    html = (frame.to_pandas() if library == "pandas" else frame)._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
