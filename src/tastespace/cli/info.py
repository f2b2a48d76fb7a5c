"""`tastespace models`, `datasets` and `doctor`: models, data sets and the state of this installation."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

import tastespace
from tastespace import _native
from tastespace import models as recommenders
from tastespace._util import threads
from tastespace._util.extras import EXTRAS
from tastespace._util.terminal import Console
from tastespace.cli.output import (
    FORMAT_HELP,
    Format,
    is_table_output,
    print_rows,
)
from tastespace.data import datasets as named
from tastespace.data.datasets.cache import cache_root
from tastespace.data.datasets.files import user_folders

# ---------------------------------------------------------------------------------------------------------------------
# `tastespace models`: the recommenders, what they need and what they support.


def models(format: Annotated[Format, typer.Option(help=FORMAT_HELP)] = Format.auto) -> None:
    """List the models: name, class, family, the extra they need, and what they support."""
    found = recommenders.table()
    if is_table_output(format):
        _show(found)
    else:
        print_rows([asdict(one) for one in found], format)


def _show(found: list[recommenders.ModelInfo]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from tastespace._util.terminal import Console

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for title in (
        "name",
        "class",
        "family",
        "extra",
        "inter-\nests",
        "fold\nin",
        "cold\nstart",
        "partial\nfit",
        "weights",
    ):
        table.add_column(title, no_wrap=title != "family")
    for one in found:
        supports = (one.interests, one.fold_in, one.cold_start, one.partial_fit, one.weights)
        marks = ("✓" if yes else "" for yes in supports)
        table.add_row(one.name, one.class_name, one.family, one.extra or "", *marks)
    Console().print(table)
    Console().print(
        f"[dim]extra neural: {escape(EXTRAS['neural'].command)}. fold in: users who were not in training, from their "
        "histories. cold start: users and items without a history, from their features.[/]"
    )


# ---------------------------------------------------------------------------------------------------------------------
# `tastespace datasets`: the named data sets, their sizes and terms, and which are on this machine.


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


# ---------------------------------------------------------------------------------------------------------------------
# `tastespace doctor`: what is installed, what the processor can do, where data is looked for.

_CORE = (
    "numpy", "scipy", "polars", "narwhals", "safetensors", "threadpoolctl", "typer", "rich", "pooch", "platformdirs",
    "filelock", "tomli-w",
)  # fmt: skip


def doctor() -> None:
    """Print versions, the SIMD variant chosen, threads, data directories and which optional packages are there."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("tastespace", tastespace.__version__)
    table.add_row("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    table.add_row("kernels", _kernels())
    table.add_row("threads", f"{threads.available()} (threads=0 uses all of them)")
    folders = [f"{folder}{'' if folder.is_dir() else ' (no such folder)'}" for folder in user_folders(None)]
    table.add_row("data folders", "\n".join(folders) or "none (set TASTESPACE_DATA)")
    table.add_row("cache", str(cache_root()))
    table.add_row("core", ", ".join(f"{name} {_version(name)}" for name in _CORE))
    for name, extra in EXTRAS.items():
        packages = [re.split("[<>=]", one)[0] for one in extra.packages]
        found = ", ".join(f"{one} {_version(one) or '[dim]absent[/]'}" for one in packages)
        install = "" if all(map(_version, packages)) else f" ({escape(extra.command)}: {extra.purpose})"
        table.add_row(name, found + install)
    Console().print(table)


def _kernels() -> str:
    names = {"generic": "portable", "v3": "AVX2 + FMA (x86-64-v3)", "v4": "AVX-512 (x86-64-v4)"}
    forced = ", forced by TASTESPACE_SIMD" if os.environ.get("TASTESPACE_SIMD") else ""
    return f"{names[_native.SIMD]}{forced}; best for this processor: {names[_native.best_simd_variant()]}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
