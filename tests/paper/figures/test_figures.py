"""Every figure, drawn from made-up results."""

import numpy as np
import pytest

from tastespace.errors import ParameterError
from tastespace.paper.figures import FIGURES, NothingToDrawError, find_figure
from tastespace.paper.runner import RunResult, RunStatus
from tastespace.plots.canvas import DPI


def rows_of(spec, done):
    return {name: done(planned_runs) for name, planned_runs in spec.planned_runs("town", 2).items()}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn_as_svg_and_png(name, done, tmp_path, colors):
    spec = find_figure(name)
    svg, png = spec.write(tmp_path, "town", rows_of(spec, done), quick=True)
    assert svg.read_text(encoding="utf-8").startswith("<?xml")
    assert len(colors(png)) > 20  # paper, ink, the palette, and the edges of letters between them


@pytest.mark.parametrize("name", [name for name, spec in FIGURES.items() if spec.tables])
def test_gaps_are_left_open_and_nothing_leaves_the_page(name, done):
    """Most of the runs are enough for a figure, none is not."""
    spec = find_figure(name)
    found = {
        key: [RunStatus(row.planned, "cut") if number % 4 == 3 else row for number, row in enumerate(rows)]
        for key, rows in rows_of(spec, done).items()
    }
    figure = spec.draw_from("town", found)
    width, height = figure.get_size_inches() * DPI
    figure.draw_without_rendering()
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert min(box.x0, box.y0) >= -1
        assert box.x1 <= width + 1
        assert box.y1 <= height + 1
    with pytest.raises(NothingToDrawError, match="town"):
        spec.draw_from("town", {key: [RunStatus(row.planned, "cut") for row in rows] for key, rows in found.items()})


def test_a_figure_says_what_it_cannot_be():
    with pytest.raises(ParameterError, match="vectors"):
        find_figure("vector")
    with pytest.raises(ParameterError, match="steam-200k"):
        find_figure("vectors").planned_runs("ml-1m")


def test_the_map_of_bounds_shows_the_figures(done):
    spec = find_figure("delta-hars")
    rows = rows_of(spec, done)
    figure = spec.draw_from("town", rows)
    texts = [text.get_text() for text in figure.axes[1].texts]
    metrics = {row.planned.title: [] for row in rows["delta-hars"]}
    for row in rows["delta-hars"]:
        metrics[row.planned.title].append(row.found.result["metrics"]["P@3"])
    for label in ("0.05 to 0.25", "0.5 to 0.8"):
        assert f"{np.mean(metrics[label]):.1f}" in texts
    assert texts.count(f"{np.mean(metrics['no DCRS']):.1f}") >= 7  # wherever the lower bound is above the upper


def test_seeds_give_a_band(done):
    spec = find_figure("vectors")
    figure = spec.draw_from("town", rows_of(spec, done))
    assert "2 seeds" in "".join(text.get_text() for text in figure.axes[0].texts)
    assert all(axes.collections for axes in figure.axes[1:])


def test_methods_without_epochs_are_no_box(done):
    spec = find_figure("training-time")
    rows = rows_of(spec, done)
    bare = [
        RunStatus(row.planned, "done", RunResult({**row.found.result, "history": []}, {})) for row in rows["results1"]
    ]  # fmt: skip
    with pytest.raises(NothingToDrawError, match="learns by epochs"):
        spec.draw_from("town", {"results1": bare})
