"""`tastespace evaluate`, `export` and `inspect`: measure a saved model, write its vectors, show what is in its file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer
from rich.console import Console
from rich.table import Table

from tastespace import store
from tastespace.cli.arguments import ModelArgument, cast_ids, open_model
from tastespace.cli.output import FORMAT_HELP, Format, emit, is_table_output
from tastespace.data import Interactions
from tastespace.errors import ParameterError
from tastespace.evaluation import evaluate as measure


def evaluate(
    model: ModelArgument,
    test: Annotated[Path, typer.Argument(help="Parquet, CSV or TSV file with held-out interactions.")],
    user: Annotated[str, typer.Option(help="Column of user ids.")] = "user",
    item: Annotated[str, typer.Option(help="Column of item ids.")] = "item",
    protocol: Annotated[str, typer.Option(help="full or paper.")] = "full",
    metric: Annotated[list[str] | None, typer.Option(help="P, NDCG@5, MAP, Coverage, ...; may be repeated.")] = None,
    k: Annotated[list[int] | None, typer.Option("-k", "--k", help="Cut-offs; may be repeated.")] = None,
    on_unknown: Annotated[str, typer.Option(help="For ids that are not in the model: error or skip.")] = "error",
    format: Annotated[Format, typer.Option(help=FORMAT_HELP)] = Format.auto,
    threads: Annotated[int, typer.Option(help="0 means all cores.")] = 0,
) -> None:
    """How well a saved model ranks held-out interactions; accuracy is given as fractions from 0 to 1."""
    opened = open_model(model)
    held_out = cast_ids(Interactions.from_file(test, user=user, item=item, threads=threads), opened.train_)
    report = measure(
        opened,
        held_out,
        protocol=protocol,
        k=k or None,
        metrics=metric or ["P", "R", "NDCG", "MAP", "MRR"],
        on_unknown=on_unknown,
        threads=threads,
    )
    rows = [
        {"metric": name, "value": value, "unit": report.units[name], "users": report.n_users[name]}
        for name, value in report.metrics.items()
    ]
    if not is_table_output(format):
        emit(pl.DataFrame(rows), format)
        return
    table = Table(title=f"{test}, protocol {protocol!r}", title_justify="left")
    table.add_column("metric")
    for column in ("value", "unit", "users"):
        table.add_column(column, justify="left" if column == "unit" else "right")
    for row in rows:
        table.add_row(str(row["metric"]), f"{row['value']:.4f}", str(row["unit"]), f"{row['users']:,}")
    Console().print(table)


def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Argument(help="File (npz) or folder to write.")],
    kind: Annotated[str, typer.Option(help="npz, parquet or faiss.")] = "npz",
) -> None:
    """Write item and user vectors for a vector index or database."""
    for path in open_model(model).export(out, kind):
        typer.echo(path)


def inspect(
    model: ModelArgument,
    verify: Annotated[bool, typer.Option("--verify", help="Read every byte and compare checksums.")] = False,
    format: Annotated[Format, typer.Option(help="table: formatted text, or json; auto: by the output.")] = Format.auto,
) -> None:
    """What is in a model file."""
    if format not in (Format.auto, Format.table, Format.json):
        raise ParameterError(f"--format {format.value}: inspect supports table and json.")
    facts = store.inspect(model, verify=verify)
    if not is_table_output(format):
        sys.stdout.write(json.dumps(facts, indent=1, default=str) + "\n")
        return
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, _plain(value))
    Console().print(table)


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_plain(one) if not isinstance(one, dict) else one}" for key, one in value.items())
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "-" if value is None else str(value)
