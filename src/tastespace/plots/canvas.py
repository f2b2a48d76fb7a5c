"""Figure and axes, a palette for color-blind readers, saving to files, and text labels that do not overlap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace._util.atomic import atomic_write
from tastespace._util.extras import missing
from tastespace.errors import DataError, ParameterError, require_path

# Okabe and Ito's palette, without black and yellow, which are hard to tell from text and from paper.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#7F7F7F")
INK, QUIET, FAINT, PAPER = "#222222", "#666666", "#C8C8C8", "#FFFFFF"
ENDINGS = (".png", ".svg", ".pdf")
DPI = 150
# The same picture is the same file, and what is written in an .svg can be searched, copied and read aloud.
_DATELESS: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
_REPRODUCIBLE: dict[Any, Any] = {"svg.hashsalt": "tastespace", "svg.fonttype": "none", "pdf.fonttype": 42}


def new_figure(width: float, height: float) -> Any:
    """An empty figure in inches; no window is ever opened."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise missing("plots", "pictures need matplotlib") from problem
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor=PAPER)
    FigureCanvasAgg(figure)  # texts can be measured
    return figure


def whole_page(figure: Any, width: float, height: float) -> Any:
    """Axes that fill a new figure, in inches from the lower left corner, without a frame."""
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return axes


def color(number: int) -> str:
    """Color of the interest or line with this number."""
    return PALETTE[number % len(PALETTE)]


def deeper(shade: str) -> str:
    """A color mixed with ink, so that words in it are easy to read on paper."""
    mixed = (round(0.75 * int(shade[at : at + 2], 16) + 0.25 * int(INK[at : at + 2], 16)) for at in (1, 3, 5))
    return "#" + "".join(f"{part:02X}" for part in mixed)


def shorten(text: Any, width: int) -> str:
    """A text in one line of at most ``width`` characters; a cut, after a word if there is one, ends in "…".

    >>> shorten("Streetcar Named Desire, A (1951)", 24)
    'Streetcar Named Desire…'
    >>> shorten("Donaudampfschifffahrtsgesellschaft", 12)
    'Donaudampfs…'
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    if len(line) <= width:
        return line
    cut = line[: width - 1]
    whole = cut if line[width - 1] == " " else cut.rpartition(" ")[0]
    return (whole if len(whole) >= width // 2 else cut).rstrip(" ,;:.-–(") + "…"


def write(axes: Any, x: float, y: float, text: str, size: float, shade: str = INK, **style: Any) -> Any:
    """Write a text into a picture literally: a dollar sign starts no formula."""
    return axes.text(x, y, text, fontsize=size, color=shade, parse_math=False, **style)


def fit_into(text: Any, width: float, height: float) -> None:
    """Make a text smaller until it is no wider and no higher than this, in inches."""
    for _ in range(5):  # letters are placed on whole pixels, so they do not shrink evenly
        box = text.get_window_extent()
        ratio = min(width * DPI / max(box.width, 1.0), height * DPI / max(box.height, 1.0))
        if ratio >= 1:
            return
        text.set_fontsize(text.get_fontsize() * ratio)


def check_ending(path: str | Path | None) -> None:
    """Raise, before any work is done, where a picture cannot be written under this name."""
    if path is not None and require_path(path).suffix.lower() not in ENDINGS:
        raise ParameterError(f"{path}: expected a name that ends in {', '.join(ENDINGS)}.")


def save_figure(figure: Any, path: str | Path) -> Path:
    """Write a figure as .png, .svg or .pdf."""
    from matplotlib import rc_context

    check_ending(path)
    path = require_path(path)
    try:
        with atomic_write(path) as temporary, rc_context(_REPRODUCIBLE):
            ending = path.suffix.lower()
            figure.savefig(temporary, format=ending[1:], dpi=DPI, metadata=_DATELESS.get(ending))
    except OSError as problem:
        raise DataError(f"{path}: cannot be written ({problem.strerror}).") from problem
    return path


Box = tuple[float, float, float, float]
"""Left, bottom, right, top."""

_POINT = DPI / 72
# Places of a name around its mark: across and up. To the right first, as text is read.
_SIDES = ((1, 0), (1, 1), (1, -1), (-1, 0), (-1, 1), (-1, -1), (0, 1), (0, -1))
_CORNER = 0.8  # a name at a corner of its mark is nearer in either direction
_AIR = 2 * _POINT  # between two names, and better also between a name and a dot
_LINED = 12  # from so many points on, a thin line joins name and mark


class LabelLayout:
    """Writes names next to marks so that they cover neither each other nor a mark: greedy and in a fixed order.

    All coordinates are those of the screen. ``page`` is where names may be placed, ``marks`` is what no name may cover,
    and ``dots`` of shape ``(n, 2)`` is what names had better not cover.
    """

    def __init__(self, axes: Any, page: Box, marks: list[Box], dots: NDArray[np.float64]) -> None:
        self._axes = axes
        self._page = page
        self._dots = dots
        self._marks = marks
        self.boxes: list[Box] = []
        """Boxes of the names written so far."""

    def write(
        self, at: NDArray[np.float64], text: str, size: float, shade: str, reach: tuple[float, ...], **style: Any
    ) -> bool:
        """Write a name near ``at``, at one of the distances ``reach`` (points), the smallest that has room.

        Of the places at the same distance the one that covers the fewest dots is taken, and of equals the first. False
        where there is no room.
        """
        x, y = (float(value) for value in self._axes.transData.inverted().transform(at))
        name = self._axes.text(
            x, y, text, fontsize=size, color=shade, zorder=6, parse_math=False, **style,
            bbox={"facecolor": PAPER, "alpha": 0.7, "linewidth": 0, "pad": 0.3},
        )  # fmt: skip
        measured = name.get_window_extent()
        width, height = measured.width, measured.height
        for distance in reach:
            boxes = [_beside(at, width, height, side, distance * _POINT) for side in _SIDES]
            free = [box for box in boxes if self._is_free(box)]
            if free:
                box = min(free, key=self._covered)
                # The text is moved as a whole: its anchor may lie anywhere in its box.
                shift = np.array([box[0] - measured.x0, box[1] - measured.y0])
                name.set_position(self._axes.transData.inverted().transform(at + shift))
                if distance >= _LINED:
                    self._line(at, box, shade)
                self.boxes.append(box)
                return True
        name.remove()
        return False

    def _is_free(self, box: Box) -> bool:
        left, bottom, right, top = self._page
        inside = left <= box[0] and bottom <= box[1] and box[2] <= right and box[3] <= top
        covers = any(overlap(box, mark) for mark in self._marks) or any(overlap(box, b, _AIR) for b in self.boxes)
        return inside and not covers

    def _covered(self, box: Box) -> int:
        x, y = self._dots.T
        return int(
            ((x > box[0] - _AIR) & (x < box[2] + _AIR) & (y > box[1] - _AIR) & (y < box[3] + _AIR)).sum()
        )  # fmt: skip

    def _line(self, at: NDArray[np.float64], box: Box, shade: str) -> None:
        end = np.clip(at, (box[0], box[1]), (box[2], box[3]))
        ends = self._axes.transData.inverted().transform(np.stack([at, end]))
        self._axes.plot(*ends.T, color=shade, linewidth=0.6, alpha=0.6, zorder=3)


def overlap(one: Box, other: Box, air: float = 0.0) -> bool:
    """Return true if two boxes overlap, or leave less than ``air`` between them."""
    apart = (
        one[2] + air <= other[0] or other[2] + air <= one[0] or one[3] + air <= other[1] or other[3] + air <= one[1]
    )  # fmt: skip
    return not apart


def marker_box(at: NDArray[np.float64], size: float) -> Box:
    """The box of a marker whose area is ``size`` square points, the unit of matplotlib's scatter."""
    half = np.sqrt(size) / 2 * _POINT
    return float(at[0] - half), float(at[1] - half), float(at[0] + half), float(at[1] + half)


def _beside(at: NDArray[np.float64], width: float, height: float, side: tuple[int, int], distance: float) -> Box:
    """The box of a name on one side of a mark."""
    step = distance * (_CORNER if all(side) else 1.0)
    left, bottom = (
        at[axis] - extent * (1 - way) / 2 + way * step
        for axis, extent, way in zip((0, 1), (width, height), side, strict=True)
    )
    return float(left), float(bottom), float(left + width), float(bottom + height)
