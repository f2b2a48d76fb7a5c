"""The shelves and the taste map."""

import sys

import numpy as np
import pytest

import tastespace as ts
from tastespace.errors import DataError, ParameterError, UnknownIdError
from tastespace.plots import draw_shelves, taste_map
from tastespace.plots.canvas import DPI, ENDINGS, INK, color
from tastespace.plots.people import _plane
from tastespace.plots.placing import overlap
from tastespace.recommend.shelves import Shelf, Shelves

LONG = "Dr. Strangelove or: How I Learned to Stop Worrying and Love the Bomb, in the version of 1964"


def shelf(interest, titles, label="Drama", because=("Casablanca", "Rear Window")):
    ids, past = [f"i{n}" for n in range(len(titles))], [f"p{n}" for n in range(len(because))]
    return Shelf(interest, (interest,), 0.25, label, ids, [0.0] * len(ids), past, list(titles), list(because))


def box_of(text):
    extent = text.get_window_extent()
    return extent.x0, extent.y0, extent.x1, extent.y1


def texts_of(figure):
    return [text for axes in figure.axes for text in axes.texts]


def require_order(figure):
    """All texts are within the page and none lies upon another."""
    width, height = figure.get_size_inches() * DPI
    boxes = {text: box_of(text) for text in texts_of(figure)}
    for text, (left, bottom, right, top) in boxes.items():
        assert left >= 0, text
        assert bottom >= 0, text
        assert right <= width, text
        assert top <= height, text
    pairs = [(one, other) for one in boxes for other in boxes if one is not other]
    assert [(a.get_text(), b.get_text()) for a, b in pairs if overlap(boxes[a], boxes[b])] == []


@pytest.fixture(scope="module")
def draw(dpcml):
    """Either picture of the same person."""
    return {
        "shelves": lambda path: draw_shelves(dpcml.shelves(7), path),
        "map": lambda path: taste_map(dpcml, 7, path),
    }


# ---- both pictures -----------------------------------------------------------------------------------------


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
    monkeypatch.setattr("tastespace.plots.people.new_figure", lambda *_: pytest.fail("drawn in vain"))
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
    with pytest.raises(ParameterError, match=r"pip install 'tastespace\[plots\]'"):
        draw[kind]("a.png")


# ---- shelves -----------------------------------------------------------------------------------------------


def test_shelves_in_words(draw, dpcml, tmp_path, words):
    draw["shelves"](tmp_path / "a.svg")
    found = words(tmp_path / "a.svg")
    assert found[0] == "Shelves of 7"
    text = " ".join(found)
    for one in dpcml.shelves(7):
        assert one.name in found
        for title in one.titles[:6]:
            assert title in text  # of a card's lines, each is a text
        assert f"{100 * one.weight:.0f} % of the past, beside {' · '.join(one.because_titles)}" in found


@pytest.mark.parametrize("count", [0, 1, 8])
def test_any_number_of_shelves(count):
    shelves = [shelf(n, [f"Film {n}{m}" for m in range(9)], label=f"Genre {n}") for n in range(count)]
    figure = draw_shelves(Shelves("ann", shelves))
    require_order(figure)
    told = [text.get_text() for text in texts_of(figure)]
    assert [text for text in told if text.startswith("Genre")] == [f"Genre {n}" for n in range(count)]
    assert sum(text.startswith("Film") for text in told) == 6 * count
    assert figure.get_size_inches()[1] == pytest.approx(0.7 + 1.7 * count)


@pytest.mark.parametrize(
    "title", [LONG, "W" * 100, "M" * 20, "Donaudampfschifffahrtsgesellschaft " * 3, "$x_1$ & <b>", "", "é\nè"]
)
def test_titles_stay_within_their_cards(title):
    from matplotlib.patches import FancyBboxPatch

    figure = draw_shelves(Shelves(title, [shelf(0, [title] * 6, label=title, because=[title] * 3)]))
    require_order(figure)
    cards = [patch.get_window_extent() for patch in figure.axes[0].patches if isinstance(patch, FancyBboxPatch)]
    inside = [text for text in texts_of(figure) if text.get_ha() == "center"]
    assert len(cards) == len(inside) == 6
    for card, text in zip(cards, inside, strict=True):
        left, bottom, right, top = box_of(text)
        assert card.x0 <= left <= right <= card.x1
        assert card.y0 <= bottom <= top <= card.y1


def test_a_shelf_that_nothing_explains():
    figure = draw_shelves(Shelves("ann", [shelf(3, ["Film"], label=None, because=())]))
    told = [text.get_text() for text in texts_of(figure)]
    assert told == ["Shelves of ann", "interest 3", "25 % of the past", "Film"]


# ---- the map -----------------------------------------------------------------------------------------------


def test_a_map_in_words(draw, dpcml, tmp_path, words):
    draw["map"](tmp_path / "a.svg")
    found = words(tmp_path / "a.svg")
    assert found[:5] == ["Taste map of 7", "an interest", "recommended", "had before", "the catalog"]
    for one in dpcml.shelves(7):
        assert f"{one.name} ({100 * one.weight:.0f} %)" in found
        named = [title for title in one.titles[:8] if title in found]
        assert 1 <= len(named) <= 3


@pytest.mark.parametrize("user", range(8))
def test_nothing_overlaps_and_nothing_is_cut_off(dpcml, user):
    figure = taste_map(dpcml, user)
    require_order(figure)
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
    require_order(figure)
    named = [text.get_text() for text in figure.axes[1].texts if text.get_fontweight() == "bold"]
    assert len(named) == 4


def test_titles_without_room_are_left_out(placed):
    rng = np.random.default_rng(0)
    crowd = rng.normal(0, 0.01, size=(60, 2)) + [1, 1]
    far = [[0.0, 0.0], [9.0, 9.0]]  # make the crowd small
    model = placed([[1, 1]], np.vstack([far, crowd]), past=[0, 1], titles=[LONG] * 62)
    figure = taste_map(model, "ann")
    require_order(figure)
    titles = [text for text in figure.axes[1].texts if text.get_fontweight() != "bold"]
    assert len(titles) < 3


def test_the_plane_shows_what_sets_the_interests_apart():
    rng = np.random.default_rng(0)
    past = np.zeros((200, 5), dtype=np.float32)
    past[:, :2] = rng.normal(size=(200, 2))  # many, and wide in two other directions
    interests = np.zeros((2, 5), dtype=np.float32)
    interests[:, 3] = 3.0, -3.0
    one, other = _plane(past, interests)(interests)
    assert np.linalg.norm(one - other) == pytest.approx(6, rel=0.01)


def test_distances_in_the_plane_are_never_larger_than_in_the_space():
    rng = np.random.default_rng(1)
    past, interests = rng.normal(size=(30, 6)), rng.normal(size=(3, 6))
    flat = _plane(past.astype(np.float32), interests.astype(np.float32))
    for a, b in rng.normal(size=(50, 2, 6)):
        assert np.linalg.norm(flat(a) - flat(b)) <= np.linalg.norm(a - b) + 1e-9


def test_both_directions_have_the_same_scale(dpcml):
    field = taste_map(dpcml, 3).axes[1]
    page = field.get_window_extent()
    across, up = np.ptp(field.get_xlim()) / page.width, np.ptp(field.get_ylim()) / page.height
    assert across == pytest.approx(up)


def test_turning_the_map_keeps_its_distances(placed):
    # Interests and past spread along a short side of the catalog: unturned, it would stand upright.
    items = [[n, m] for n in range(40) for m in range(10)]
    figure = taste_map(placed([[20, 0], [20, 9]], items, past=range(200, 210)), "ann")
    points = np.asarray(figure.axes[1].collections[0].get_offsets())
    assert np.ptp(points[:, 0]) > 2 * np.ptp(points[:, 1])
    assert np.linalg.norm(points[399] - points[0]) == pytest.approx(np.hypot(39, 9), rel=1e-5)


def test_a_map_of_one_vector_per_person(fans, tmp_path, words):
    model = ts.CML(dim=8, epochs=5, threads=1).fit(fans)
    require_order(taste_map(model, 3, tmp_path / "a.svg"))
    assert any(text.endswith("(100 %)") for text in words(tmp_path / "a.svg"))


@pytest.mark.parametrize("dimension", [1, 2])
def test_a_map_of_few_dimensions(placed, dimension):
    items = np.arange(20 * dimension).reshape(20, dimension)
    require_order(taste_map(placed([[3] * dimension], items, past=[1, 4]), "ann"))


def test_a_map_where_everything_stands_at_one_point(placed):
    require_order(taste_map(placed([[1, 1, 1]], np.ones((12, 3)), past=[4]), "ann"))


def test_items_without_titles_go_by_their_ids(placed, tmp_path, words):
    rng = np.random.default_rng(4)
    taste_map(placed([[2, 0], [-2, 0]], rng.normal(size=(40, 2)), past=range(10)), "ann", tmp_path / "a.svg")
    found = words(tmp_path / "a.svg")
    assert sum(text.startswith("i0") for text in found) >= 3
    assert any(text.startswith("like i00") for text in found)


def test_long_and_strange_titles_are_written_shortened(placed, tmp_path, words):
    rng = np.random.default_rng(5)
    titles = [LONG, "W" * 70, "$x_1$ & <b>costs</b> 5 $"] * 15
    model = placed([[2, 0], [-2, 0]], rng.normal(size=(45, 2)), past=range(9), titles=titles, person="ann " * 40)
    figure = taste_map(model, "ann " * 40, tmp_path / "a.svg")
    require_order(figure)
    found = words(tmp_path / "a.svg")
    assert found[0].startswith("Taste map of ann ann")
    assert {"Dr. Strangelove or: How I…", "W" * 31 + "…", "$x_1$ & <b>costs</b> 5 $"} <= set(found)


def test_a_filter_chooses_what_is_recommended(dpcml, tmp_path, words):
    taste_map(dpcml, 7, tmp_path / "a.svg", filter="title LIKE 'Noir%'")
    titles = [text for text in words(tmp_path / "a.svg") if "Film" in text]
    assert titles
    assert all("Noir Film" in text for text in titles)


def test_who_cannot_have_a_map(fans, dpcml):
    with pytest.raises(ParameterError, match="MostPopular has no vectors, so it has no taste map"):
        taste_map(ts.MostPopular().fit(fans), 3)
    with pytest.raises(UnknownIdError, match="1 of 1 user ids are unknown"):
        taste_map(dpcml, "nobody")


def test_only_shelves_are_drawn_as_shelves(tmp_path):
    with pytest.raises(ParameterError, match=r"expected what model\.shelves"):
        draw_shelves([1], tmp_path / "a.png")
