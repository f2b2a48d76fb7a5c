"""`tastespace paper`: the paper's tables and figures, ours beside theirs."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tastespace.cli.config import configured
from tastespace.cli.output import FORMAT_HELP, Format, emit, for_people, require_writable, show
from tastespace.data.datasets.cache import cache_root
from tastespace.errors import ParameterError, nearest
from tastespace.paper.claims import CLAIMS, find_claim
from tastespace.paper.counted import Counted
from tastespace.paper.entries import Entry, entries
from tastespace.paper.experiment import Experiment, only
from tastespace.paper.figures import FIGURES, find_figure
from tastespace.paper.rendering import as_text, chance, marks_of, problems_of, shown_metrics, to_markdown, to_rows
from tastespace.paper.report import write_report
from tastespace.paper.runner import run_cells
from tastespace.paper.runs import TOWN
from tastespace.paper.tables import TABLES, find_table
from tastespace.paper.verdicts import run_claims

paper = typer.Typer(
    name="paper",
    help="The paper's tables and figures: list them, run them, see ours beside theirs.",
    invoke_without_command=True,
)

_NAMES, _FIGURE = 44, 16
"""Room on the terminal for names, marks and seconds, and for one figure; what has no room stands below."""

_Results = Annotated[Path | None, typer.Option(help="Folder of finished cells; by default in the cache.")]
_Quick = Annotated[bool, typer.Option("--quick", help="Few epochs of few methods: to see that it works.")]
_Seeds = Annotated[int | None, typer.Option(help="Runs of each cell; by default as declared, mostly 1.")]
_Workers = Annotated[int, typer.Option(help="Processes at a time; 0: one per core.")]
_Minutes = Annotated[float | None, typer.Option(help="Stop after so long; what is missing is marked.")]


@paper.callback()
def _paper(context: typer.Context) -> None:
    """The paper's tables and figures: list them, run them, see ours beside theirs."""
    if context.invoked_subcommand is None:
        list_()
        if for_people(Format.auto):
            typer.echo("Run one: tastespace paper table NAME --dataset NAME. All commands: tastespace paper --help.")


def list_(format: Annotated[Format, typer.Option(help=FORMAT_HELP)] = Format.auto) -> None:
    """What can be reproduced."""
    rows = [
        {"kind": kind, "name": one.name, "title": one.title, "data sets": ", ".join(one.datasets)}
        for kind, found in (("table", TABLES), ("figure", FIGURES))
        for one in found.values()
    ]
    rows += [
        {"kind": "claim", "name": one.name, "title": one.text, "data sets": ", ".join(one.datasets)}
        for one in CLAIMS.values()
    ]
    if not for_people(format):
        emit(pl.DataFrame(rows), format)
        return
    show(pl.DataFrame(rows))


def table(
    name: Annotated[str, typer.Argument(help="A table; see `tastespace paper list`.")],
    dataset: Annotated[list[str] | None, typer.Option(help="Only this data set; may be repeated.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be repeated.")] = None,
    seeds: _Seeds = None,
    quick: _Quick = False,
    workers: _Workers = 0,
    minutes: _Minutes = None,
    results: _Results = None,
    format: Annotated[Format, typer.Option(help=FORMAT_HELP)] = Format.auto,
    out: Annotated[Path | None, typer.Option(help="Write the table as Markdown (.md) or rows (.csv, ...).")] = None,
) -> None:
    """Run what is missing of a table and show it."""
    found_table = find_table(name)
    if isinstance(found_table, Counted):
        if method:
            raise ParameterError(f"--method: the table {name!r} is counted from the data and has no methods.")
        found = found_table.entries(dataset or ())
    else:
        found_table = only(found_table, method) if method else found_table
        cells = found_table.cells(dataset or (), seeds, quick)
        _check(minutes, out, results)
        rows = run_cells(cells, results or _shelf(), workers=workers, minutes=minutes)
        found = entries(found_table, rows)
    if out is not None and out.suffix == ".md":
        require_writable("--out", out)
        out.write_text(to_markdown(found_table, found) + "\n", encoding="utf-8")
    elif not for_people(format, out):
        emit(pl.DataFrame(to_rows(found_table, found), infer_schema_length=None), format, out)
    else:
        _show(found_table, found)


def figure(
    name: Annotated[str, typer.Argument(help="A figure; see `tastespace paper list`. all: every one.")],
    dataset: Annotated[list[str] | None, typer.Option(help="On which data set; by default the first declared.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for NAME-DATASET.svg and .png.")] = Path("figures"),
    seeds: _Seeds = None,
    quick: _Quick = False,
    workers: _Workers = 0,
    minutes: _Minutes = None,
    results: _Results = None,
) -> None:
    """Run what is missing of a figure and draw it."""
    from tastespace.paper.figures.files import draw_to

    _check(minutes, None, results)
    pictures = list(FIGURES.values()) if name == "all" else [find_figure(name)]
    start = time.monotonic()
    for picture in pictures:
        for one in dataset or picture.datasets[:1]:
            if name == "all" and dataset and one not in (*picture.datasets, TOWN):
                continue
            rows = {}
            for key, cells in picture.cells(one, seeds, quick).items():
                left = None if minutes is None else max(0.0, minutes - (time.monotonic() - start) / 60)
                rows[key] = run_cells(cells, results or _shelf(), workers=workers, minutes=left)
            for path in draw_to(out, picture, one, rows, quick):
                typer.echo(path)


def claims(
    dataset: Annotated[str, typer.Option(help="On which data set.")] = "steam-200k",
    claim: Annotated[
        list[str] | None, typer.Option(help="Only this claim; may be repeated. Default: those of few methods.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs of each method; by default as declared, mostly 3.")] = None,
    workers: _Workers = 0,
    minutes: _Minutes = None,
    results: _Results = None,
    format: Annotated[Format, typer.Option(help=FORMAT_HELP)] = Format.auto,
    out: Annotated[Path | None, typer.Option(help="Write the differences to this file.")] = None,
) -> None:
    """The orderings that the paper claims, measured: do they hold here?"""
    wanted = [find_claim(name) for name in claim or [one.name for one in CLAIMS.values() if one.asked]]
    _check(minutes, out, results)
    if seeds is not None and seeds < 1:
        raise ParameterError(f"--seeds {seeds}: expected how many runs of each method, 1 or more.")
    verdicts = run_claims(wanted, dataset, results or _shelf(), seeds=seeds, workers=workers, minutes=minutes)
    if not for_people(format, out):
        measured = [row for verdict in verdicts for row in verdict.rows()]
        if not measured:
            raise ParameterError("nothing was measured: the budget was too small, or all runs failed.")
        emit(pl.DataFrame(measured), format, out)
        return
    for verdict in verdicts:
        title = f"{verdict.claim.text} [bold]{verdict.word}[/] ({verdict.pairs}: {verdict.tally})"
        shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        for column in ("better", "worse", "metric", "difference", "p after Holm", verdict.claim.over):
            shown.add_column(column)
        for row in verdict.rows():
            figures = f"{row['difference']:+.2f}", chance(row["p after Holm"]), f"{row['n']:,}"
            shown.add_row(row["better"], row["worse"], row["metric"], *figures)
        Console().print(shown)


def report(
    out: Annotated[Path, typer.Option(help="Folder for report.html, report.md, results.csv and the figures.")] = Path(
        "paper-report"
    ),
    dataset: Annotated[list[str] | None, typer.Option(help="Only this data set; may be repeated.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Of what was run with --quick.")] = False,
    results: _Results = None,
) -> None:
    """Everything that has been run, on one page; nothing is run for it, and what was not run is a marked gap."""
    known = {TOWN, *(one for found in (*TABLES.values(), *FIGURES.values()) for one in found.datasets)}
    for one in dataset or ():
        if one not in known:
            raise ParameterError(f"--dataset {one}: nothing is declared for it.{nearest(one, known)}")
    require_writable("--out", out / "report.md")
    for path in write_report(out, results or _shelf(), datasets=dataset or (), quick=quick):
        typer.echo(path)


def _check(minutes: float | None, out: Path | None, results: Path | None) -> None:
    """What can go wrong at once shall not go wrong after an hour."""
    if minutes is not None and not 0 <= minutes < math.inf:
        raise ParameterError(f"--minutes {minutes}: expected a budget in minutes.")
    if out is not None:
        require_writable("--out", out)
    if results is not None:
        require_writable("--results", results / "writable.tmp", keep=False)


def _shelf() -> Path:
    return cache_root() / "paper"


def _show(table: Experiment | Counted, found: list[Entry]) -> None:
    metrics = shown_metrics(table, found)
    for dataset in dict.fromkeys(entry.dataset for entry in found):
        rows = [entry for entry in found if entry.dataset == dataset]
        title = f"{table.title}, {dataset} (the paper's in brackets)"
        at_once = max(2, (Console().width - _NAMES) // _FIGURE)
        for first in range(0, len(metrics), at_once):
            some = metrics[first : first + at_once]
            Console().print(_rows(title if first == 0 else f"{table.title}, {dataset}, continued", rows, some))
    for problem in problems_of(found) if isinstance(table, Experiment) else ():
        Console(stderr=True).print(escape(problem), highlight=False)


def _rows(title: str, rows: list[Entry], metrics: list[str]) -> Table:
    shown = Table(title=title, title_justify="left")
    shown.add_column("method", style="bold")
    shown.add_column("")
    for name in (*metrics, "seconds"):
        shown.add_column(name, justify="right")
    for entry in rows:
        marks = ", ".join(marks_of(entry))
        style = "red" if not entry.ours else "dim"
        cells = [_figure(entry, metric) for metric in metrics]
        shown.add_row(entry.label, f"[{style}]{marks}[/]", *cells, f"{entry.seconds:.0f}")
    return shown


def _figure(entry: Entry, metric: str) -> str:
    """Ours, its spread over seeds, and theirs."""
    ours, theirs, spread = (kind.get(metric) for kind in (entry.ours, entry.theirs, entry.spread))
    text = "-" if ours is None else as_text(ours)
    text += "" if spread is None or ours is None else f" ± {as_text(spread, ours)}"
    return text + ("" if theirs is None else f" [dim]({as_text(theirs)})[/]")


paper.command("list", epilog="Example: tastespace paper list")(configured(list_, "list"))
paper.command("table", epilog="Example: tastespace paper table results1 --dataset steam-200k")(
    configured(table, "table")
)
paper.command("figure", epilog="Example: tastespace paper figure vectors --out figures")(configured(figure, "figure"))
paper.command("claims", epilog="Example: tastespace paper claims --dataset steam-200k --seeds 3")(
    configured(claims, "claims")
)
paper.command("report", epilog="Example: tastespace paper report --out report")(configured(report, "report"))
