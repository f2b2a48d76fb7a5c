"""The taste map."""

import numpy as np
import pytest
from tests.plots.picture_checks import LONG, assert_texts_fit, box_of

import tastespace as ts
from tastespace.errors import ParameterError, UnknownIdError
from tastespace.plots import taste_map
from tastespace.plots.canvas import DPI, overlap


def test_a_map_in_words(draw, dpcml, tmp_path, words):
    draw["map"](tmp_path / "a.svg")
    found = words(tmp_path / "a.svg")
    assert found[0] == "Taste map of 7"
    assert found[1].startswith("An item is drawn nearest to the cross of the interest that it matches")
    assert found[2:6] == ["an interest", "recommended", "had before", "the catalog, in the color of its interest"]
    text = " ".join(found)
    for one in dpcml.shelves(7):
        assert f"{one.name} ({100 * one.weight:.0f} %)" in text
        named = [title for title in one.titles[:8] if title in found]
        assert 1 <= len(named) <= 3


@pytest.mark.parametrize("user", range(8))
def test_nothing_overlaps_and_nothing_is_cut_off(dpcml, user):
    figure = taste_map(dpcml, user)
    assert_texts_fit(figure)
    field = figure.axes[1]
    width, height = figure.get_size_inches() * DPI
    for marks in field.collections:
        x, y = field.transData.transform(marks.get_offsets()).T
        assert x.min() > 0
        assert x.max() < width
        assert y.min() > 0
        assert y.max() < height
    stars_and_interests = [
        (*at - 4, *at + 4)
        for marks in field.collections
        if marks.get_sizes()[0] > 50
        for at in field.transData.transform(marks.get_offsets())
    ]
    for text in field.texts:
        assert not any(overlap(box_of(text), mark) for mark in stars_and_interests), text


def test_interests_at_the_same_place_of_the_plane_have_names_apart(placed):
    # Two far interests span the plane; two others differ only in a third direction, which the plane does not show.
    interests = [[9, 0, 0], [-9, 0, 0], [0, 7, 0.5], [0, 7, -0.5]]
    near = np.array([[0.1, 0.2, 0.01], [-0.2, 0.1, 0.02], [0.1, -0.1, -0.01]])
    items = np.vstack([np.array(at) + step * n for at in interests for step in near for n in range(1, 11)])
    model = placed(interests, items, past=range(0, 120, 4), titles=[f"A Film of Some Length {n}" for n in range(120)])
    figure = taste_map(model, "ann")
    assert_texts_fit(figure)
    named = [text.get_text() for text in figure.axes[1].texts if text.get_fontweight() == "bold"]
    assert len(named) == 4


def test_titles_without_room_are_left_out(placed):
    """Recommendations of one interest that all lie close to its cross: long titles cannot all be written."""
    rng = np.random.default_rng(0)
    items = np.vstack([rng.normal(0, 0.001, size=(10, 2)), [[9.0, 9.0]] * 20, rng.normal(9, 0.1, size=(30, 2))])
    figure = taste_map(placed([[0, 0], [9, 9]], items, past=[0, 10, 11, 12], titles=[LONG] * 60), "ann")
    assert_texts_fit(figure)
    assert len(recommended(figure)) <= 6


def recommended(figure):
    """Titles of recommended items, which have a size of their own."""
    return [text.get_text() for text in figure.axes[1].texts if text.get_fontsize() == 7.5]


def test_both_directions_have_the_same_scale(dpcml):
    field = taste_map(dpcml, 3).axes[1]
    page = field.get_window_extent()
    across, up = np.ptp(field.get_xlim()) / page.width, np.ptp(field.get_ylim()) / page.height
    assert across == pytest.approx(up)


def test_stars_are_nearest_to_their_own_cross(dpcml):
    """As drawn: the marks of a shelf are stars and then their cross, in one color."""
    for user in range(8):
        marks = [m for m in taste_map(dpcml, user).axes[1].collections if m.get_sizes()[0] > 50]
        stars, crosses = marks[::2], np.vstack([m.get_offsets() for m in marks[1::2]])
        assert len(crosses) == len(dpcml.shelves(user))
        for at, star in enumerate(stars):
            gaps = np.linalg.norm(star.get_offsets()[:, None] - crosses[None], axis=2)
            assert (gaps.argmin(axis=1) == at).all()
            assert (star.get_facecolor() == marks[2 * at + 1].get_facecolor()).all()


def test_a_large_catalog_is_one_image(placed, tmp_path):
    rng = np.random.default_rng(0)
    model = placed([[2, 0], [-2, 0]], rng.normal(size=(4000, 2)), past=range(40))
    taste_map(model, "ann", tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size < 500_000
    assert "<image" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_regions_have_names(dpcml):
    texts = [text for text in taste_map(dpcml, 7).axes[1].texts if text.get_fontstyle() == "italic"]
    assert texts
    kinds = {"Drama", "Comedy", "Western", "Noir", "Science Fiction"}
    assert {text.get_text() for text in texts} <= kinds


def test_a_map_of_one_vector_per_user(fans, tmp_path, words):
    model = ts.CML(dim=8, epochs=5, threads=1).fit(fans)
    assert_texts_fit(taste_map(model, 3, tmp_path / "a.svg"))
    assert any(text.endswith("(100 %)") for text in words(tmp_path / "a.svg"))


@pytest.mark.parametrize("dimension", [1, 2])
def test_a_map_of_few_dimensions(placed, dimension):
    items = np.arange(20 * dimension).reshape(20, dimension)
    assert_texts_fit(taste_map(placed([[3] * dimension], items, past=[1, 4]), "ann"))


def test_a_map_where_everything_is_at_one_point(placed):
    assert_texts_fit(taste_map(placed([[1, 1, 1]], np.ones((12, 3)), past=[4]), "ann"))


def test_items_without_titles_go_by_their_ids(placed, tmp_path, words):
    rng = np.random.default_rng(4)
    taste_map(placed([[2, 0], [-2, 0]], rng.normal(size=(40, 2)), past=range(10)), "ann", tmp_path / "a.svg")
    found = words(tmp_path / "a.svg")
    assert sum(text.startswith("i0") for text in found) >= 3
    assert any(text.startswith("like i00") for text in found)


def test_long_and_strange_titles_are_written_shortened(placed, tmp_path, words):
    rng = np.random.default_rng(5)
    titles = [LONG, "W" * 70, "$x_1$ & <b>costs</b> 5 $"] * 15
    model = placed([[2, 0], [-2, 0]], rng.normal(size=(45, 2)), past=range(9), titles=titles, user="ann " * 40)
    figure = taste_map(model, "ann " * 40, tmp_path / "a.svg")
    assert_texts_fit(figure)
    found = words(tmp_path / "a.svg")
    assert found[0].startswith("Taste map of ann ann")
    assert {"Dr. Strangelove or: How I…", "W" * 31 + "…", "$x_1$ & <b>costs</b> 5 $"} <= set(found)


def test_a_filter_chooses_what_is_recommended(dpcml):
    titles = recommended(taste_map(dpcml, 7, filter="title LIKE 'Noir%'"))
    assert titles
    assert all("Noir Film" in text for text in titles)


def test_models_and_users_without_a_map_are_refused(fans, dpcml):
    with pytest.raises(ParameterError, match="MostPopular has no vectors, so it has no taste map"):
        taste_map(ts.MostPopular().fit(fans), 3)
    with pytest.raises(UnknownIdError, match="1 of 1 user ids are unknown"):
        taste_map(dpcml, "nobody")
