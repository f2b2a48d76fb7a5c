"""Everything that has been run, as one self-contained page, its Markdown twin, and rows for programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tastespace.paper.cells import Shelf
from tastespace.paper.machine import surroundings
from tastespace.paper.rendering import to_rows
from tastespace.paper.report.collecting import Collected, collect
from tastespace.paper.report.page import to_page
from tastespace.paper.report.twin import to_twin

__all__ = ["write_report"]


def write_report(
    out: str | Path, results: str | Path, *, datasets: Sequence[str] = (), quick: bool = False
) -> list[Path]:
    """Write report.html, report.md, results.csv, claims.csv and figures/ into a folder; gives the paths.

    Args:
        out: The folder.
        results: Folder of finished cells. Nothing is run: what is not there is a marked gap.
        datasets: Only these; by default all that are declared.
        quick: Of what was run with few epochs, to see that it works; claims are not judged then.
    """
    folder = Path(out).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    found = collect(folder, Shelf(results), datasets, quick)
    # What was run may be older than the page, and from another machine.
    here = surroundings()
    facts = {"runs made": "; ".join(sorted(found.made)) or "none", "page made": here.pop("date"), **here}
    texts = {"report.html": to_page(found, facts), "report.md": to_twin(found, facts, folder)}
    paths = []
    for name, text in texts.items():
        paths.append(folder / name)
        paths[-1].write_text(text, encoding="utf-8")
    paths += _rows(found, folder)
    return [*paths, *(file for drawn in found.figures for file in drawn.files)]


def _rows(found: Collected, folder: Path) -> list[Path]:
    figures = [
        {"table": section.table.name, **row}
        for section in found.sections
        for row in to_rows(section.table, section.found)
    ]
    judged = [row for verdict in found.verdicts for row in verdict.rows()]
    paths = []
    for name, rows in (("results.csv", figures), ("claims.csv", judged)):
        if rows:
            paths.append(folder / name)
            chances = pl.selectors.matches("^p( |$)")
            rounded = (chances.round_sig_figs(4), (pl.selectors.float() - chances).round(4))
            pl.DataFrame(rows, infer_schema_length=None).with_columns(*rounded).write_csv(paths[-1])
    return paths
