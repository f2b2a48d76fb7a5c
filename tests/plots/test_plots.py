"""What holds for both pictures, the shelves and the taste map."""

import sys

import pytest
from tests.plots.picture_checks import texts_of

from tastespace.errors import DataError, ParameterError
from tastespace.plots.canvas import ENDINGS, INK, color


@pytest.mark.parametrize("kind", ["shelves", "map"])
def test_a_picture_has_the_colors_of_all_its_shelves(draw, dpcml, tmp_path, colors, kind):
    draw[kind](tmp_path / "a.png")
    found = colors(tmp_path / "a.png")
    shelves = dpcml.shelves(7)
    assert len(shelves) > 1
    assert {color(one.interest) for one in shelves} <= found
    assert INK in found


@pytest.mark.parametrize("kind", ["shelves", "map"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_the_same_call_gives_the_same_bytes(draw, tmp_path, kind, ending):
    one, other = tmp_path / f"one{ending}", tmp_path / f"other{ending}"
    draw[kind](one)
    draw[kind](other)
    assert one.read_bytes() == other.read_bytes()
    assert one.stat().st_size > 1_000


@pytest.mark.parametrize("kind", ["shelves", "map"])
def test_without_a_path_only_the_figure_is_given(draw, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    assert texts_of(draw[kind](None))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["shelves", "map"])
def test_a_wrong_ending_is_refused_before_the_work(draw, monkeypatch, kind):
    module = {"shelves": "_shelves", "map": "_taste_map"}[kind]
    monkeypatch.setattr(f"tastespace.plots.{module}.new_figure", lambda *_: pytest.fail("drawn in vain"))
    with pytest.raises(ParameterError, match=r"a\.gif: expected a name that ends in \.png, \.svg, \.pdf"):
        draw[kind]("a.gif")


@pytest.mark.parametrize("kind", ["shelves", "map"])
def test_a_place_that_cannot_be_written_to(draw, tmp_path, kind):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"):
        draw[kind](tmp_path / "file" / "a.png")


@pytest.mark.parametrize("kind", ["shelves", "map"])
def test_without_matplotlib_the_extra_is_named(draw, monkeypatch, kind):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ParameterError, match=r"pip install \"matplotlib>=3.8\" \(the plots extra\)"):
        draw[kind]("a.png")
