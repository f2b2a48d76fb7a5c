"""`tastespace popular`, `together` and `next`: lists that are not about one user's taste."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tastespace.cli.arguments import ModelArgument, add_titles, open_model
from tastespace.cli.output import FORMAT_HELP, Format, emit, is_table_output, show
from tastespace.data.ids import parse_ids
from tastespace.data.interactions import Interactions
from tastespace.data.reading.tables import to_polars

_K = Annotated[int, typer.Option("-k", "--k", help="Number of items per list.")]
_Filter = Annotated[str | None, typer.Option(help='Only items with these attributes, such as "year >= 1990".')]
_Format = Annotated[Format, typer.Option(help=FORMAT_HELP)]
_Out = Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")]


def popular(
    model: ModelArgument,
    k: _K = 10,
    since: Annotated[
        str | None, typer.Option(help="Window before the latest interaction, such as 7d; the model needs times.")
    ] = None,
    trending: Annotated[
        bool, typer.Option("--trending", help="Rank by the rise over the four windows before; 7d unless --since.")
    ] = False,
    filter: _Filter = None,
    format: _Format = Format.auto,
    out: _Out = None,
) -> None:
    """List the most popular items, of all time or of a window of time, or those whose popularity rises."""
    opened = open_model(model)
    _print(opened.popular_items(k, since=since, trending=trending, filter=filter), opened.train_, "item", format, out)


def together(
    model: ModelArgument,
    ids: Annotated[list[str], typer.Argument(help="Item ids.")],
    k: _K = 10,
    within: Annotated[str | None, typer.Option(help="Taken within this time of each other, such as 1d.")] = None,
    filter: _Filter = None,
    format: _Format = Format.auto,
    out: _Out = None,
) -> None:
    """List the items that the same people take as an item."""
    opened = open_model(model)
    items = parse_ids(opened.train_.items, ids)
    _print(opened.taken_together(items, k, within=within, filter=filter), opened.train_, "together", format, out)


def next_items(
    model: ModelArgument,
    ids: Annotated[list[str], typer.Argument(help="Item ids of the session, from the oldest to the last.")],
    k: _K = 10,
    filter: _Filter = None,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Items of the session may come again.")] = False,
    format: _Format = Format.auto,
    out: _Out = None,
) -> None:
    """List the items that come next in a session."""
    opened = open_model(model)
    session = parse_ids(opened.train_.items, ids)
    found = opened.next_items(session, k, filter=filter, include_seen=include_seen)
    _print(found, opened.train_, "item", format, out)


def _print(found: Any, train: Interactions, of: str, format: Format, out: Path | None) -> None:
    if is_table_output(format, out):
        show(add_titles(found, train, of))
    else:
        emit(to_polars(found)[0], format, out)
