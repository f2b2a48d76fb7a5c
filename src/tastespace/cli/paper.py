"""`tastespace paper`: the paper's tables, figures and claims, ours next to the published ones.

The package `tastespace.paper` is imported when one of these commands runs, not when the command line starts.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import polars as pl
import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from tastespace._util.terminal import Console
from tastespace.cli.config import configured
from tastespace.cli.output import (
    FORMAT_HELP,
    Format,
    emit,
    is_table_output,
    require_writable,
    show,
    write_file,
)
from tastespace.data.datasets.cache import cache_root
from tastespace.errors import ParameterError, nearest

if TYPE_CHECKING:
    from tastespace.paper.experiments import Experiment, TableRow
    from tastespace.paper.rows import ReportArchive
    from tastespace.paper.statistics import StatisticsTable

paper = typer.Typer(
    name="paper",
    help="The paper's tables, figures and claims: list them, run them, see ours next to the published ones.",
    invoke_without_command=True,
)

_NAME_WIDTH, _VALUE_WIDTH = 44, 16
"""Columns of the terminal for names, marks and seconds, and for one metric; further metrics follow below."""

_Results = Annotated[Path | None, typer.Option(help="Result cache: folder of finished runs; by default in the cache.")]
_Archive = Annotated[
    Path | None, typer.Option(help="Folder of an earlier report; its rows are used where a run is not in the cache.")
]
_Quick = Annotated[bool, typer.Option("--quick", help="Few epochs of few methods: to see that it works.")]
_Seeds = Annotated[int | None, typer.Option(help="Seeds per row; by default as declared, mostly 1.")]
_Workers = Annotated[int, typer.Option(help="Processes at a time; 0: one per core.")]
_Minutes = Annotated[float | None, typer.Option(help="Stop after so many minutes; what is missing is marked.")]


@paper.callback()
def _paper(context: typer.Context) -> None:
    """The paper's tables, figures and claims: list them, run them, see ours next to the published ones."""
    if context.invoked_subcommand is None:
        list_()
        if is_table_output(Format.auto):
            typer.echo("Run one: tastespace paper table NAME --dataset NAME. All commands: tastespace paper --help.")


def list_(format: Annotated[Format, typer.Option(help=FORMAT_HELP)] = Format.auto) -> None:
    """List the tables, figures and claims that can be reproduced."""
    from tastespace.paper.claims import CLAIMS
    from tastespace.paper.figures import FIGURES
    from tastespace.paper.tables import TABLES

    rows = [
        {"kind": kind, "name": one.name, "title": one.title, "data sets": ", ".join(one.datasets)}
        for kind, found in (("table", TABLES), ("figure", FIGURES))
        for one in found.values()
    ]
    rows += [
        {"kind": "claim", "name": one.name, "title": one.text, "data sets": ", ".join(one.datasets)}
        for one in CLAIMS.values()
    ]
    if not is_table_output(format):
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
    archive: _Archive = None,
    format: Annotated[Format, typer.Option(help=FORMAT_HELP)] = Format.auto,
    out: Annotated[Path | None, typer.Option(help="Write the table as Markdown (.md) or rows (.csv, ...).")] = None,
) -> None:
    """Run what is missing of a table and show it."""
    from tastespace.paper.experiments import only
    from tastespace.paper.rows import statistics_rows, to_markdown, to_rows
    from tastespace.paper.statistics import StatisticsTable
    from tastespace.paper.tables import find_table

    declared = find_table(name)
    earlier = _open_archive(archive)
    if isinstance(declared, StatisticsTable):
        if method:
            raise ParameterError(f"--method: the table {name!r} is computed from the data, without models.")
        found = statistics_rows(declared, dataset or (), earlier)
    else:
        declared = only(declared, method) if method else declared
        _check(minutes, out, results)
        found = _measured(declared, dataset or [], seeds, quick, workers, minutes, results, earlier)
    if out is not None and out.suffix == ".md":
        require_writable("--out", out)
        write_file(out, (to_markdown(declared, found) + "\n").encode())
    elif not is_table_output(format, out):
        emit(pl.DataFrame(to_rows(declared, found), infer_schema_length=None), format, out)
    else:
        _show(declared, found)


def _measured(
    declared: Experiment,
    datasets: list[str],
    seeds: int | None,
    quick: bool,
    workers: int,
    minutes: float | None,
    results: Path | None,
    archive: ReportArchive | None,
) -> list[TableRow]:
    """Rows of the cache, of the archive, and of what had to be run."""
    from tastespace.paper.rows import archived_rows, in_declared_order, table_rows
    from tastespace.paper.runner import ResultCache, run_all

    folder = results or _default_cache()
    planned = declared.planned_runs(datasets, seeds, quick)
    earlier = archived_rows(declared, planned, ResultCache(folder), archive)
    archived = {(row.dataset, row.label) for row in earlier}
    missing = [one for one in planned if (one.dataset, one.title) not in archived]
    statuses = run_all(missing, folder, workers=workers, minutes=minutes)
    return in_declared_order(declared, [*table_rows(declared, statuses), *earlier])


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
    from tastespace.paper.data import TOWN
    from tastespace.paper.figures import FIGURES, find_figure
    from tastespace.paper.runner import run_all

    _check(minutes, None, results)
    specs = list(FIGURES.values()) if name == "all" else [find_figure(name)]
    start = time.monotonic()
    for spec in specs:
        for one in dataset or spec.datasets[:1]:
            if name == "all" and dataset and one not in (*spec.datasets, TOWN):
                continue
            statuses = {}
            for key, planned in spec.planned_runs(one, seeds, quick).items():
                left = None if minutes is None else max(0.0, minutes - (time.monotonic() - start) / 60)
                statuses[key] = run_all(planned, results or _default_cache(), workers=workers, minutes=left)
            for path in spec.write(out, one, statuses, quick):
                typer.echo(path)


def claims(
    dataset: Annotated[str, typer.Option(help="On which data set.")] = "steam-200k",
    claim: Annotated[
        list[str] | None, typer.Option(help="Only this claim; may be repeated. Default: those of few methods.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds per method; by default as declared, mostly 3.")] = None,
    workers: _Workers = 0,
    minutes: _Minutes = None,
    results: _Results = None,
    format: Annotated[Format, typer.Option(help=FORMAT_HELP)] = Format.auto,
    out: Annotated[Path | None, typer.Option(help="Write the differences to this file.")] = None,
) -> None:
    """Test whether the orderings that the paper claims hold here."""
    from tastespace.paper.claims import CLAIMS, find_claim
    from tastespace.paper.rows import p_text
    from tastespace.paper.verdicts import run_claims

    wanted = [find_claim(name) for name in claim or [one.name for one in CLAIMS.values() if one.default]]
    _check(minutes, out, results)
    if seeds is not None and seeds < 1:
        raise ParameterError(f"--seeds {seeds}: expected the number of seeds per method, 1 or more.")
    verdicts = run_claims(wanted, dataset, results or _default_cache(), seeds=seeds, workers=workers, minutes=minutes)
    if not is_table_output(format, out):
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
            values = f"{row['difference']:+.2f}", p_text(row["p after Holm"]), f"{row['n']:,}"
            shown.add_row(row["better"], row["worse"], row["metric"], *values)
        Console().print(shown)


def tune(
    minutes: Annotated[float, typer.Option(help="Core-minutes for each method.")],
    dataset: Annotated[list[str] | None, typer.Option(help="On which data set; may be repeated.")] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this method; may be repeated. Default: CML, BPA and APA, both rules.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the settings that are tried, and of their training.")] = 0,
    split_seed: Annotated[int, typer.Option(help="Of the split; 0: the authors'.")] = 0,
    journal: Annotated[Path | None, typer.Option(help="File of the trials; by default in the cache.")] = None,
    params_file: Annotated[Path | None, typer.Option(help="Write to this file; by default the user's own.")] = None,
) -> None:
    """Search every method with the same core-minutes and store what is best on validation data.

    Successive halving from the published setting on. A search that was stopped resumes with the same command and does
    not spend its budget again; one that fails does not stop the others.
    """
    from tastespace.errors import TastespaceError
    from tastespace.paper.halving import search
    from tastespace.paper.methods import find_method, store_parameters, user_file
    from tastespace.paper.tables import FAMILY_METHODS

    if not 0 < minutes < math.inf:
        raise ParameterError(f"--minutes {minutes}: expected core-minutes for each method, above 0.")
    trials = journal or _default_cache() / "trials.journal"
    require_writable("--journal", trials)
    require_writable("--params-file", params_file or user_file(), keep=False)
    names = [find_method(name).name for name in method or FAMILY_METHODS]
    failed = []
    for one in dataset or ["steam-200k"]:
        for name in names:
            try:
                found = search(one, name, minutes=minutes, seed=seed, split_seed=split_seed, journal=trials)
            except TastespaceError as problem:
                failed.append(f"{name} on {one}: {problem}")
                continue
            path = store_parameters(one, name, found, params_file)
            scores = " ".join(f"{metric} {value:.2f}" for metric, value in found["validation"].items())
            typer.echo(f"{one} {name}: {scores}; {found['trials']} settings, {found['seconds']:.0f} s, in {path}")
    if failed:
        raise ParameterError("; ".join(failed))


def report(
    out: Annotated[Path, typer.Option(help="Folder for report.html, report.md, results.csv and the figures.")] = Path(
        "paper-report"
    ),
    dataset: Annotated[list[str] | None, typer.Option(help="Only this data set; may be repeated.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Report the results of --quick runs.")] = False,
    results: _Results = None,
    archive: _Archive = None,
) -> None:
    """Report everything that has been run. Nothing is run for it; what was not run is a marked gap."""
    from tastespace.paper.data import TOWN
    from tastespace.paper.figures import FIGURES
    from tastespace.paper.report import write_report
    from tastespace.paper.tables import TABLES

    known = {TOWN, *(one for found in (*TABLES.values(), *FIGURES.values()) for one in found.datasets)}
    for one in dataset or ():
        if one not in known:
            raise ParameterError(f"--dataset {one}: nothing is declared for it.{nearest(one, known)}")
    _open_archive(archive)
    require_writable("--out", out / "report.md")
    found = write_report(out, results or _default_cache(), datasets=dataset or (), quick=quick, archive=archive)
    for path in found:
        typer.echo(path)


def _open_archive(folder: Path | None) -> ReportArchive | None:
    from tastespace.paper.rows import ReportArchive

    if folder is None:
        return None
    if not (folder / "results.csv").is_file():
        raise ParameterError(f"--archive {folder}: expected the folder of an earlier report, with results.csv in it.")
    return ReportArchive(folder)


def _check(minutes: float | None, out: Path | None, results: Path | None) -> None:
    """Refuse mistakes before hours of training, not after."""
    if minutes is not None and not 0 <= minutes < math.inf:
        raise ParameterError(f"--minutes {minutes}: expected a budget in minutes.")
    if out is not None:
        require_writable("--out", out)
    if results is not None:
        require_writable("--results", results / "writable.tmp", keep=False)


def _default_cache() -> Path:
    return cache_root() / "paper"


def _show(table: Experiment | StatisticsTable, found: list[TableRow]) -> None:
    from tastespace.paper.experiments import Experiment
    from tastespace.paper.rows import problems_of, shown_metrics

    metrics = shown_metrics(table, found)
    for dataset in dict.fromkeys(row.dataset for row in found):
        rows = [row for row in found if row.dataset == dataset]
        title = f"{table.title}, {dataset} (published values in parentheses)"
        at_once = max(2, (Console().width - _NAME_WIDTH) // _VALUE_WIDTH)
        for first in range(0, len(metrics), at_once):
            some = metrics[first : first + at_once]
            Console().print(_as_table(title if first == 0 else f"{table.title}, {dataset}, continued", rows, some))
    for problem in problems_of(found) if isinstance(table, Experiment) else ():
        Console(stderr=True).print(escape(problem), highlight=False)


def _as_table(title: str, rows: list[TableRow], metrics: list[str]) -> Table:
    from tastespace.paper.rows import marks_of

    shown = Table(title=title, title_justify="left")
    shown.add_column("method", style="bold")
    shown.add_column("")
    for name in (*metrics, "seconds"):
        shown.add_column(name, justify="right")
    for row in rows:
        marks = ", ".join(marks_of(row))
        style = "red" if not row.ours else "dim"
        values = [_value_text(row, metric) for metric in metrics]
        shown.add_row(row.label, f"[{style}]{marks}[/]", *values, f"{row.seconds:.0f}")
    return shown


def _value_text(row: TableRow, metric: str) -> str:
    """Ours, its standard deviation over seeds, and the published value."""
    from tastespace.paper.rows import as_text

    ours, published, std = (kind.get(metric) for kind in (row.ours, row.published, row.std))
    text = "-" if ours is None else as_text(ours)
    text += "" if std is None or ours is None else f" ± {as_text(std, ours)}"
    return text + ("" if published is None else f" [dim]({as_text(published)})[/]")


paper.command("list", epilog="Example: tastespace paper list")(configured(list_, "list"))
paper.command("table", epilog="Example: tastespace paper table results1 --dataset steam-200k")(
    configured(table, "table")
)
paper.command("figure", epilog="Example: tastespace paper figure vectors --out figures")(configured(figure, "figure"))
paper.command("claims", epilog="Example: tastespace paper claims --dataset steam-200k --seeds 3")(
    configured(claims, "claims")
)
paper.command("tune", epilog="Example: tastespace paper tune --minutes 2 --method cml+hars")(configured(tune, "tune"))
paper.command("report", epilog="Example: tastespace paper report --out report")(configured(report, "report"))
