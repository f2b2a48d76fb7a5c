"""`tastespace models`: the recommenders, what they need and what they support."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from tastespace import models as recommenders
from tastespace.cli.output import FORMAT_HELP, Format, is_table_output, print_rows
from tastespace.extras import EXTRAS


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

    from tastespace.terminal import Console

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
