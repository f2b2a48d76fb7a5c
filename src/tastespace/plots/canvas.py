"""What all pictures share: figure and axes, a palette for color-blind readers, texts that fit, saving to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tastespace.atomic import atomic_write
from tastespace.errors import DataError, ParameterError, require_path
from tastespace.extras import missing

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
    """A text in a picture, letter by letter as it is: a dollar sign is no mathematics."""
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
    """Say so before the work is done where a picture cannot be written under this name."""
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
