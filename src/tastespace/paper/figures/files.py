"""Figures as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tastespace.paper.figures.declaration import Picture
from tastespace.paper.runner import Row
from tastespace.plots.canvas import save_figure

KINDS = (".svg", ".png")


def draw_to(
    folder: Path, picture: Picture, dataset: str, rows: Mapping[str, Sequence[Row]], quick: bool = False
) -> list[Path]:
    """Draw a figure and write it as NAME-DATASET.svg and .png; gives the paths."""
    drawn = picture.paint(dataset, rows, quick)
    return [save_figure(drawn, folder / f"{picture.name}-{dataset}{kind}") for kind in KINDS]
