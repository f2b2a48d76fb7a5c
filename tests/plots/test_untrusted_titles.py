"""Titles come from data: in a picture they are text, never markup, formulas or scripts."""

import xml.etree.ElementTree as ET

import polars as pl
import pytest

from tastespace import DPCML, Interactions, synthetic

pytest.importorskip("matplotlib")

from tastespace import plots

EVIL = [
    "<script>alert(1)</script>",
    "a & b",
    "$\\frac{1}{",
    "x\x1b[31m",
    "]]>",
    '" onload="x',
    "{0}",
    "%s",
    "\\input{x}",
]


@pytest.fixture(scope="module")
def model():
    data = synthetic.multi_interest(n_users=40, n_items=30, n_interactions=500, seed=1).interactions
    titles = pl.DataFrame({"item": data.items.series, "title": [EVIL[i % len(EVIL)] for i in range(30)]})
    return DPCML(dim=4, epochs=1, n_interests=2).fit(Interactions.from_frame(data.to_frame(), item_attributes=titles))


@pytest.mark.parametrize("picture", ["shelves", "map"])
def test_titles_are_text_in_svg(model, picture, tmp_path):
    path = tmp_path / "p.svg"
    if picture == "shelves":
        plots.draw_shelves(model.shelves(3, 8), path)
    else:
        plots.taste_map(model, 3, path)
    tree = ET.fromstring(path.read_text(encoding="utf-8"))  # well-formed: what must be escaped is
    names = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert "script" not in names
    assert not [key for element in tree.iter() for key in element.attrib if key.startswith("on")]
