"""The picture of a user's shelves."""

import pytest
from tests.plots.picture_checks import LONG, assert_texts_fit, box_of, shelf, texts_of

from tastespace.errors import ParameterError
from tastespace.plots import draw_shelves
from tastespace.recommend.shelves import Shelves


def test_shelves_in_words(draw, dpcml, tmp_path, words):
    draw["shelves"](tmp_path / "a.svg")
    found = words(tmp_path / "a.svg")
    assert found[0] == "Shelves of 7"
    text = " ".join(found)
    for one in dpcml.shelves(7):
        assert one.name in found
        for title in one.titles[:6]:
            assert title in text  # of a card's lines, each is a text
        near = f", near {' · '.join(one.because_titles)}" if one.label else ""  # else they are the name
        assert f"{100 * one.weight:.0f} % of the history{near}" in found


@pytest.mark.parametrize("count", [0, 1, 8])
def test_any_number_of_shelves(count):
    shelves = [shelf(n, [f"Film {n}{m}" for m in range(9)], label=f"Genre {n}") for n in range(count)]
    figure = draw_shelves(Shelves("ann", shelves))
    assert_texts_fit(figure)
    texts = [text.get_text() for text in texts_of(figure)]
    assert [text for text in texts if text.startswith("Genre")] == [f"Genre {n}" for n in range(count)]
    assert sum(text.startswith("Film") for text in texts) == 6 * count
    assert figure.get_size_inches()[1] == pytest.approx(0.7 + 1.7 * count)


@pytest.mark.parametrize(
    "title", [LONG, "W" * 100, "M" * 20, "Donaudampfschifffahrtsgesellschaft " * 3, "$x_1$ & <b>", "", "é\nè"]
)
def test_titles_stay_within_their_cards(title):
    from matplotlib.patches import FancyBboxPatch

    figure = draw_shelves(Shelves(title, [shelf(0, [title] * 6, label=title, because=[title] * 3)]))
    assert_texts_fit(figure)
    cards = [patch.get_window_extent() for patch in figure.axes[0].patches if isinstance(patch, FancyBboxPatch)]
    inside = [text for text in texts_of(figure) if text.get_ha() == "center"]
    assert len(cards) == len(inside) == 6
    for card, text in zip(cards, inside, strict=True):
        left, bottom, right, top = box_of(text)
        assert card.x0 <= left <= right <= card.x1
        assert card.y0 <= bottom <= top <= card.y1


def test_a_shelf_that_nothing_explains():
    figure = draw_shelves(Shelves("ann", [shelf(3, ["Film"], label=None, because=())]))
    texts = [text.get_text() for text in texts_of(figure)]
    assert texts == ["Shelves of ann", "interest 3", "25 % of the history", "Film"]


def test_only_shelves_are_drawn_as_shelves(tmp_path):
    with pytest.raises(ParameterError, match=r"expected what model\.shelves"):
        draw_shelves([1], tmp_path / "a.png")
