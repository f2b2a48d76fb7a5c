"""What all pictures share: a quiet style, a palette that colour-blind people can read, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tastespace.errors import DataError, ParameterError

# Okabe and Ito's palette, without black.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#7F7F7F")
INK, FAINT, PAPER = "#222222", "#C8C8C8", "#FFFFFF"
ENDINGS = (".png", ".svg", ".pdf")
# The same picture is the same file.
_DATELESS = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def new_figure(width: float, height: float) -> Any:
    """An empty figure in inches; no window is ever opened."""
    try:
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise ParameterError(
            "pictures need matplotlib, which is not installed: pip install 'tastespace[plots]'."
        ) from problem
    return Figure(figsize=(width, height), facecolor=PAPER, layout="constrained")


def colour(number: int) -> str:
    """Colour of the interest or line with this number."""
    return PALETTE[number % len(PALETTE)]


def save_figure(figure: Any, path: str | Path) -> Path:
    """Write a figure as .png, .svg or .pdf."""
    path = Path(path).expanduser()
    if path.suffix not in ENDINGS:
        raise ParameterError(f"{path}: expected a name that ends in {', '.join(ENDINGS)}.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150, metadata=_DATELESS.get(path.suffix))
    except OSError as problem:
        raise DataError(f"{path}: cannot be written ({problem.strerror}).") from problem
    return path
