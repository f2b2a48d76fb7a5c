"""`tastespace datasets`: the named data sets, their sizes and terms, and which are on this machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich import box
from rich.panel import Panel
from rich.table import Table

from tastespace.cli.output import FORMAT_HELP, Format, is_table_output, print_rows
from tastespace.data import datasets as named
from tastespace.terminal import Console


def datasets(
    name: Annotated[str | None, typer.Argument(help="Show everything about one data set.")] = None,
    format: Annotated[Format, typer.Option(help=FORMAT_HELP)] = Format.auto,
) -> None:
    """List the named data sets: size, license, and whether they are on this machine."""
    entries = named.describe_all() if name is None else [named.describe(name)]
    if not is_table_output(format):
        rows = [asdict(entry) for entry in entries]
        for row in rows:
            row["views"] = ", ".join(row["views"])
        print_rows(rows, format)
    elif name is not None:
        _one(entries[0])
    else:
        _all(entries)


def _all(entries: list[named.DatasetInfo]) -> None:
    table = Table(title="Named data sets (counts of the view 'paper')", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("name", style="bold", no_wrap=True)
    for column in ("users", "items", "interactions"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("license", no_wrap=True)
    table.add_column("where", no_wrap=True)
    for e in entries:
        where = (
            "[green]✓ on this machine[/]"
            if e.present
            else f"[dim]{'fetchable' if e.where == 'can be fetched' else e.where.partition(':')[0]}[/]"
        )
        table.add_row(
            e.name, f"{e.users:,}", f"{e.items:,}", f"{e.interactions:,}", e.license, where
        )  # fmt: skip
    Console().print(table)
    Console().print("[dim]tastespace datasets NAME shows where it is, its views and its terms in full.[/]")


def _one(entry: named.DatasetInfo) -> None:
    text = [
        f"[bold]{entry.title}[/]",
        f"{entry.users:,} users, {entry.items:,} items, {entry.interactions:,} interactions (view 'paper')",
        f"where: {entry.where}",
        f"published split: {'yes' if entry.has_split else 'no'}; content: {'yes' if entry.has_content else 'no'}",
        "",
        "[bold]views[/]",
        *(f"  {view}: {meaning}" for view, meaning in entry.views.items()),
        "",
        "[bold]terms of use[/]",
        entry.terms,
    ]
    Console().print(Panel("\n".join(text), title=entry.name, title_align="left", width=100))
