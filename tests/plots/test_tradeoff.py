"""The picture of accuracy against minority recall."""

import pandas as pd
import polars as pl
import pytest
from tests.plots.picture_checks import assert_texts_fit, texts_of

from tastespace.errors import DataError, ParameterError
from tastespace.plots import draw_tradeoff
from tastespace.plots.canvas import color

CURVE = pl.DataFrame(
    {
        "diversity": [0.0, 0.25, 0.5, 0.75, 1.0],
        "NDCG@10": [0.31, 0.308, 0.29, 0.25, 0.2],
        "R@20": [0.4] * 5,
        "MinorityRecall@20": [0.1, 0.15, 0.2, 0.21, 0.22],
    }
)


def test_the_points_are_the_rows_and_are_labeled_by_diversity(tmp_path, words, colors):
    figure = draw_tradeoff(CURVE, tmp_path / "a.svg")
    (axes,) = figure.axes
    points = axes.collections[0].get_offsets()
    assert points[:, 0].tolist() == CURVE["NDCG@10"].to_list()
    assert points[:, 1].tolist() == CURVE["MinorityRecall@20"].to_list()
    assert [text.get_text() for text in texts_of(figure)] == ["0", "0.25", "0.5", "0.75", "1"]
    assert_texts_fit(figure)
    # A label stands near its own point.
    screen = axes.transData.transform(points)
    for text, at in zip(texts_of(figure), screen, strict=True):
        box = text.get_window_extent()
        distances = [abs(x - (box.x0 + box.x1) / 2) + abs(y - (box.y0 + box.y1) / 2) for x, y in screen]
        assert min(distances) == distances[screen.tolist().index(at.tolist())]
    found = words(tmp_path / "a.svg")
    assert {"NDCG@10", "MinorityRecall@20", "MinorityRecall@20 against NDCG@10, by diversity"} <= set(found)
    draw_tradeoff(CURVE, tmp_path / "a.png")
    assert color(0) in colors(tmp_path / "a.png")


def test_the_same_call_gives_the_same_bytes(tmp_path):
    for name in ("one.svg", "other.svg"):
        draw_tradeoff(CURVE, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()


def test_other_metrics_labels_and_libraries():
    models = pd.DataFrame({"model": ["EASE", "DPCML"], "P@5": [0.1, 0.2], "Novelty@5": [3, 2]})
    figure = draw_tradeoff(models, x="P@5", y="Novelty@5")
    assert [text.get_text() for text in texts_of(figure)] == ["EASE", "DPCML"]
    assert figure.axes[0].get_xlabel() == "P@5"
    assert_texts_fit(figure)


def test_a_single_point():
    assert [text.get_text() for text in texts_of(draw_tradeoff(CURVE[:1]))] == ["0"]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (CURVE.drop("NDCG@10"), "the frame has no column 'NDCG@10' of a metric; its columns are 'diversity'"),
        (CURVE[:0], r"column 'NDCG@10' holds \[\], expected a number in each row"),
        (CURVE.with_columns(pl.lit(None, dtype=pl.Float64).alias("NDCG@10")), "column 'NDCG@10' holds .None"),
        (CURVE.with_columns(pl.lit(float("nan")).alias("MinorityRecall@20")), "'MinorityRecall@20' holds .nan"),
        (CURVE.with_columns(pl.lit("x").alias("NDCG@10")), "column 'NDCG@10' holds .'x'"),
        ([1, 2], "expected a data frame"),
    ],
)
def test_what_cannot_be_drawn(frame, message):
    with pytest.raises(DataError, match=message):
        draw_tradeoff(frame)


def test_a_wrong_ending_is_refused():
    with pytest.raises(ParameterError, match=r"expected a name that ends in"):
        draw_tradeoff(CURVE, "a.gif")
