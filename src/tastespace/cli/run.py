"""`tastespace run`: a method of the paper, or any model, on a named data set or a table of your own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tastespace._util.terminal import Console
from tastespace.cli.arguments import parse_settings
from tastespace.cli.flag_groups import GroupUse
from tastespace.cli.flags import DEFAULT_TABLE, DataArgument, Settings, TableFlags
from tastespace.cli.output import (
    Format,
    is_table_output,
    require_writable,
    write_file,
)
from tastespace.cli.tune import one_source
from tastespace.errors import ParameterError


def run(
    data: DataArgument = None,
    method: Annotated[
        str | None, typer.Option(help="A method of the paper, such as apa+dihars, or a model's name.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="The same as DATA.")] = None,
    model: Annotated[str | None, typer.Option(help="The same as --method.")] = None,
    set: Settings = None,
    table: Annotated[TableFlags, GroupUse(without=("half_life",))] = DEFAULT_TABLE,
    preset: Annotated[str | None, typer.Option(help="paper or default; without it the stored parameters.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the training.")] = 0,
    split_seed: Annotated[int, typer.Option(help="Seed of the split, where none is published.")] = 0,
    protocol: Annotated[str, typer.Option(help="paper or full.")] = "paper",
    metric: Annotated[list[str] | None, typer.Option(help="Metrics instead of the paper's; may be repeated.")] = None,
    threads: Annotated[int, typer.Option(help="0 means all cores.")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the result to this file.")] = None,
    format: Annotated[
        Format, typer.Option(help="table: formatted text; json; auto: table on a terminal, else json.")
    ] = Format.auto,
) -> None:
    """Train a method of the paper and evaluate it on the test part. Accuracy is in percent, as in the paper.

    A file is split into 60 % for training, 20 % for validation and 20 % for the test: of each history, or with
    --timestamp by time.
    """
    from tastespace.paper import runs

    source = one_source(data, dataset)
    if (method is None) == (model is None):
        raise ParameterError("give --method NAME, such as apa+dihars or ease, once; --model means the same.")
    name = str(method or model)
    parts = None
    if Path(source).exists() or any(one is not None for one in (table.user, table.item, table.timestamp, table.items)):
        whole = table.load(source, threads)
        parts = runs.parts_of_table(source, whole, split_seed)
    metrics = tuple(metric) if metric else runs.ACCURACY
    if json_file is not None:
        require_writable("--json", json_file)
    result = runs.run(
        source,
        name,
        parts=parts,
        parameters=parse_settings(set or []),
        preset=preset,
        seed=seed,
        split_seed=split_seed,
        protocol=protocol,
        metrics=metrics,
        threads=threads,
    )
    if json_file is not None:
        write_file(json_file, (json.dumps(result, indent=1) + "\n").encode())
    if not is_table_output(format):
        sys.stdout.write(json.dumps(result, indent=1) + "\n")
        return
    title = f"{result['method']} on {source}, protocol {protocol!r}, accuracy in {result['unit']}"
    shown = Table(title=title, title_justify="left")
    for name in result["metrics"]:
        shown.add_column(name, justify="right")
    shown.add_row(*(f"{value:.2f}" for value in result["metrics"].values()))
    Console().print(shown)
    Console().print(
        f"[dim]{result['epochs']} epochs of {result['seconds_per_epoch']:.2f} s, {result['seconds']:.1f} s in all, "
        f"{result['peak_mb']:.0f} MB, seed {seed}[/]"
    )
