"""`tastespace paper`: the paper's tables, ours beside theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from tastespace.cli.config import configured
from tastespace.cli.output import FORMAT_HELP, Format, emit, for_people, show
from tastespace.data.datasets.cache import cache_root
from tastespace.paper.claims import CLAIMS, find_claim, judge
from tastespace.paper.rendering import Entry, entries, to_markdown, to_rows
from tastespace.paper.runner import run_cells
from tastespace.paper.tables import EXPERIMENTS, Experiment, find_experiment, only

paper = typer.Typer(
    name="paper", help="The paper's tables: list them, run them, see ours beside theirs.", no_args_is_help=True
)

_Results = Annotated[Path | None, typer.Option(help="Folder of finished cells; by default in the cache.")]


def list_(format: Annotated[Format, typer.Option(help=FORMAT_HELP)] = Format.auto) -> None:
    """What can be reproduced."""
    rows = [
        {"table": e.name, "title": e.title, "rows": len(e.lines), "data sets": ", ".join(e.datasets)}
        for e in EXPERIMENTS.values()
    ]
    if not for_people(format):
        emit(pl.DataFrame(rows), format)
        return
    show(pl.DataFrame(rows))


def table(
    name: Annotated[str, typer.Argument(help="A table; see `tastespace paper list`.")],
    dataset: Annotated[list[str] | None, typer.Option(help="Only this data set; may be repeated.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; may be repeated.")] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each cell.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Few epochs of few methods: to see that it works.")] = False,
    workers: Annotated[int, typer.Option(help="Processes at a time; 0: one per core.")] = 0,
    minutes: Annotated[float | None, typer.Option(help="Stop after so long; what is missing is marked.")] = None,
    results: _Results = None,
    format: Annotated[Format, typer.Option(help=FORMAT_HELP)] = Format.auto,
    out: Annotated[Path | None, typer.Option(help="Write the table as Markdown (.md) or rows (.csv, ...).")] = None,
) -> None:
    """Run what is missing of a table and show it."""
    experiment = find_experiment(name)
    if method:
        experiment = only(experiment, method)
    cells = experiment.cells(dataset or (), seeds, quick)
    rows = run_cells(cells, results or cache_root() / "paper", workers=workers, minutes=minutes)
    found = entries(experiment, rows)
    if out is not None and out.suffix == ".md":
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(to_markdown(experiment, found) + "\n", encoding="utf-8")
    elif not for_people(format, out):
        emit(pl.DataFrame(to_rows(found), infer_schema_length=None), format, out)
    else:
        _show(experiment, found)


def claims(
    dataset: Annotated[str, typer.Option(help="On which data set.")] = "steam-200k",
    claim: Annotated[list[str] | None, typer.Option(help="Only this claim; may be repeated.")] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each method.")] = 3,
    workers: Annotated[int, typer.Option(help="Processes at a time; 0: one per core.")] = 0,
    minutes: Annotated[float | None, typer.Option(help="Stop after so long; what is missing is left out.")] = None,
    results: _Results = None,
    format: Annotated[Format, typer.Option(help=FORMAT_HELP)] = Format.auto,
    out: Annotated[Path | None, typer.Option(help="Write the differences to this file.")] = None,
) -> None:
    """The orderings that the paper claims, measured: do they hold here?"""
    wanted = [find_claim(name) for name in claim or CLAIMS]
    cells = list({cell.key(): cell for one in wanted for cell in one.cells(dataset, seeds)}.values())
    rows = run_cells(cells, results or cache_root() / "paper", workers=workers, minutes=minutes)
    verdicts = [judge(one, dataset, rows) for one in wanted]
    if not for_people(format, out):
        emit(pl.DataFrame([row for verdict in verdicts for row in verdict.rows()]), format, out)
        return
    for verdict in verdicts:
        shown = Table(title=f"{verdict.claim.text} [bold]{verdict.word}[/]", title_justify="left", box=box.SIMPLE_HEAD)
        for column in ("better", "worse", "metric", "difference", "p"):
            shown.add_column(column)
        for row in verdict.rows():
            shown.add_row(row["better"], row["worse"], row["metric"], f"{row['difference']:+.2f}", f"{row['p']:.2g}")
        Console().print(shown)


def _show(experiment: Experiment, found: list[Entry]) -> None:
    metrics = [m for m in ("P@3", "NDCG@5", "MAP", "MRR") if any(m in e.ours for e in found)]
    metrics = metrics or list(dict.fromkeys(m for e in found for m in e.ours))[:6]
    for dataset in dict.fromkeys(entry.dataset for entry in found):
        shown = Table(title=f"{experiment.title}, {dataset} (the paper's in brackets)", title_justify="left")
        shown.add_column("method", style="bold")
        for metric in metrics:
            shown.add_column(metric, justify="right")
        shown.add_column("seconds", justify="right")
        for entry in (entry for entry in found if entry.dataset == dataset):
            cells = []
            for metric in metrics:
                ours = f"{entry.ours[metric]:.2f}" if metric in entry.ours else f"[red]{entry.state}[/]"
                theirs = f" [dim]({entry.theirs[metric]:.2f})[/]" if metric in entry.theirs else ""
                cells.append(ours + theirs)
            shown.add_row(entry.label, *cells, f"{entry.seconds:.0f}")
        Console().print(shown)


paper.command("list", epilog="Example: tastespace paper list")(configured(list_, "list"))
paper.command("table", epilog="Example: tastespace paper table results1 --dataset steam-200k")(
    configured(table, "table")
)
paper.command("claims", epilog="Example: tastespace paper claims --dataset steam-200k --seeds 3")(
    configured(claims, "claims")
)
