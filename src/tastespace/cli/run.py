"""`tastespace run` and `tastespace tune`: the paper's methods on the named data sets."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tastespace.cli.arguments import parse_settings
from tastespace.cli.output import Format, is_table_output, require_writable, write_file
from tastespace.errors import ParameterError

_Set = Annotated[list[str] | None, typer.Option("--set", help="A parameter, key=value; may be repeated.")]


def run(
    dataset: Annotated[str, typer.Option(help="A named data set, or town (synthetic, needs no download).")],
    method: Annotated[str, typer.Option(help="A method of the paper, such as apa+dihars, or a model's name.")],
    set: _Set = None,
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
    """Train a method of the paper and evaluate it on the test part. Accuracy is in percent, as in the paper."""
    from tastespace.paper import runs

    metrics = tuple(metric) if metric else runs.ACCURACY
    if json_file is not None:
        require_writable("--json", json_file)
    result = runs.run(
        dataset,
        method,
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
    title = f"{result['method']} on {dataset}, protocol {protocol!r}, accuracy in {result['unit']}"
    table = Table(title=title, title_justify="left")
    for name in result["metrics"]:
        table.add_column(name, justify="right")
    table.add_row(*(f"{value:.2f}" for value in result["metrics"].values()))
    Console().print(table)
    Console().print(
        f"[dim]{result['epochs']} epochs of {result['seconds_per_epoch']:.2f} s, {result['seconds']:.1f} s in all, "
        f"{result['peak_mb']:.0f} MB, seed {seed}[/]"
    )


def tune(
    dataset: Annotated[str, typer.Option(help="A named data set, or town (synthetic, needs no download).")],
    method: Annotated[str, typer.Option(help="A method of the paper, or a model's name.")],
    trials: Annotated[int, typer.Option(help="At most so many trials.")] = 20,
    minutes: Annotated[float, typer.Option(help="At most so many minutes.")] = 30.0,
    trial_minutes: Annotated[
        float | None, typer.Option(help="Stop the training of a trial after so many minutes; its best epoch counts.")
    ] = None,
    grid: Annotated[str, typer.Option(help="ours, or paper for the paper's own grids.")] = "ours",
    set: _Set = None,
    seed: Annotated[int, typer.Option(help="Seed of the search and the training.")] = 0,
    split_seed: Annotated[int, typer.Option(help="Seed of the split, where none is published.")] = 0,
    journal: Annotated[
        Path | None, typer.Option(help="Optuna journal file of the trials; with it a search can be resumed.")
    ] = None,
    store: Annotated[
        bool, typer.Option(help="Store the best parameters for `tastespace run`, in your own file.")
    ] = False,
    params_file: Annotated[
        Path | None, typer.Option(help="With --store: write to this file instead of your own.")
    ] = None,
    threads: Annotated[int, typer.Option(help="0 means all cores.")] = 0,
) -> None:
    """Search parameters on validation data only."""
    from tastespace.paper import stored_parameters, tuning
    from tastespace.paper.methods import find_method

    if params_file is not None and not store:
        raise ParameterError(f"--params-file {params_file}: give --store as well, else nothing is written.")
    if store:
        require_writable("--params-file", params_file or stored_parameters.user_file(), keep=False)
    if journal is not None:
        require_writable("--journal", journal, keep=False)
    outcome = tuning.search(
        dataset,
        method,
        trials=trials,
        minutes=minutes,
        grid=grid,
        seed=seed,
        split_seed=split_seed,
        base=parse_settings(set or []),
        journal=journal,
        threads=threads,
        trial_minutes=trial_minutes,
    )
    if store:
        path = stored_parameters.store(dataset, find_method(method).name, outcome, params_file)
        Console(stderr=True, soft_wrap=True).print(f"stored in {path}", highlight=False, markup=False)
    Console().print_json(json.dumps(outcome))
