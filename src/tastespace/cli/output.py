"""What the sub-commands share: formats for pipes, tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import Enum
from typing import Any

import polars as pl
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Format(str, Enum):
    """How rows are printed."""

    table = "table"
    json = "json"
    csv = "csv"


def print_rows(rows: Sequence[dict[str, Any]], format: Format) -> None:
    """Rows for a program, on standard output."""
    if format is Format.json:
        sys.stdout.write(json.dumps(list(rows), indent=1, default=str) + "\n")
    else:
        sys.stdout.write(pl.DataFrame(list(rows)).write_csv())


def progress_bar(description: str) -> Progress:
    """A progress bar on standard error; silent where that is no terminal."""
    return Progress(
        TextColumn(f"{description} [bold]{{task.description}}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
