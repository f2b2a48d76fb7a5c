"""Names that cover neither each other nor a mark."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tastespace.plots.canvas import LabelLayout, marker_box, new_figure, overlap, whole_page

PAGE = (0.0, 0.0, 900.0, 600.0)
REACH = (6.0, 9.0, 14.0, 30.0)


@pytest.fixture(scope="module")
def axes():
    return whole_page(new_figure(6, 4), 6, 4)


def placer(axes, marks=(), dots=(), page=PAGE):
    return LabelLayout(axes, page, list(marks), np.array(dots, dtype=np.float64).reshape(-1, 2))


def test_boxes_overlap_where_they_share_room():
    box = (0.0, 0.0, 10.0, 10.0)
    assert overlap(box, (5, 5, 15, 15))
    assert overlap(box, (2, 2, 3, 3))
    assert not overlap(box, (10, 0, 20, 10))
    assert not overlap(box, (0, 11, 10, 20))
    assert overlap(box, (0, 11, 10, 20), air=2)
    assert overlap((0, 11, 10, 20), box, air=2)


def test_the_box_of_a_mark_has_its_size_in_points():
    left, bottom, right, top = marker_box(np.array([100.0, 50.0]), 36.0)  # 6 points wide, at 150 dots in 72 points
    assert (left + right, bottom + top) == (200, 100)
    assert right - left == top - bottom == pytest.approx(12.5)


def test_a_lonely_name_stands_to_the_right_of_its_mark(axes):
    names = placer(axes)
    assert names.write(np.array([300.0, 300.0]), "Tea", 8, "#000000", REACH)
    left, bottom, _, top = names.boxes[0]
    assert left == pytest.approx(300 + 6 * 150 / 72)
    assert (bottom + top) / 2 == pytest.approx(300)


def test_the_name_is_drawn_where_its_box_is(axes):
    names = placer(axes)
    for at in ((300.0, 300.0), (895.0, 5.0), (5.0, 595.0)):
        names.write(np.array(at), "gypsum, Ågje", 8, "#000000", REACH)
        drawn = axes.texts[-1].get_window_extent()
        assert (drawn.x0, drawn.y0, drawn.x1, drawn.y1) == pytest.approx(names.boxes[-1], abs=1.5)


def test_a_name_goes_where_it_covers_the_fewest_dots(axes):
    right = [(330.0 + 3 * n, 300.0 + m) for n in range(10) for m in (-20, 0, 20)]
    names = placer(axes, dots=right)
    names.write(np.array([300.0, 300.0]), "Tea", 8, "#000000", REACH)
    assert names.boxes[0][2] < 300


def test_a_name_at_the_edge_turns_inwards(axes):
    for at in ((899.0, 300.0), (450.0, 599.0), (1.0, 1.0), (899.0, 599.0)):
        names = placer(axes)
        assert names.write(np.array(at), "Darjeeling", 8, "#000000", REACH)
        left, bottom, right, top = names.boxes[0]
        assert left >= 0
        assert bottom >= 0
        assert right <= 900
        assert top <= 600


def test_where_there_is_no_room_nothing_is_written(axes):
    before, full = len(axes.texts), [(0.0, 0.0, 900.0, 600.0)]
    names = placer(axes, marks=full)
    assert not names.write(np.array([300.0, 300.0]), "Tea", 8, "#000000", REACH)
    assert len(axes.texts) == before
    assert names.boxes == []


def test_a_name_far_from_its_mark_has_a_line_to_it(axes):
    lines = len(axes.lines)
    names = placer(axes, marks=[marker_box(np.array([300.0, 300.0]), 900.0)])
    assert names.write(np.array([300.0, 300.0]), "Tea", 8, "#123456", (6.0, 30.0))
    assert len(axes.lines) == lines + 1
    start = axes.transData.transform(axes.lines[-1].get_xydata())[0]
    assert start == pytest.approx([300, 300])


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 900), st.floats(0, 600), st.integers(1, 25)), min_size=1, max_size=25))
def test_names_never_overlap_and_come_out_the_same(spots):
    axes = whole_page(new_figure(6, 4), 6, 4)
    marks = [marker_box(np.array([x, y]), 80.0) for x, y, _ in spots]

    def write_all():
        names = placer(axes, marks)
        written = [names.write(np.array([x, y]), "m" * size, 8, "#000000", REACH) for x, y, size in spots]
        return names.boxes, written

    boxes, written = write_all()
    assert sum(written) == len(boxes)
    for at, box in enumerate(boxes):
        assert not any(overlap(box, other) for other in boxes[:at])
        assert not any(overlap(box, mark) for mark in marks)
    assert write_all() == (boxes, written)
