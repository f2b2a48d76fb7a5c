"""`tastespace tune`: search a model's parameters on your own table, or a method of the paper on a named data set."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from tastespace._util.terminal import Console
from tastespace.cli.arguments import parse_settings, print_notes
from tastespace.cli.flags import (
    DEFAULT_TABLE,
    DataArgument,
    Seed,
    Settings,
    TableFlags,
    Threads,
    require_half_life,
)
from tastespace.cli.output import (
    Format,
    emit,
    is_table_output,
    require_writable,
)
from tastespace.data.reading.tables import to_polars
from tastespace.errors import ParameterError
from tastespace.models import create
from tastespace.tuning import TuneResult
from tastespace.tuning import tune as search


def tune(
    data: DataArgument = None,
    model: Annotated[str | None, typer.Option(help="Name of a model: ease, als, dpcml, blend:dpcml+ease, ...")] = None,
    minutes: Annotated[float | None, typer.Option(help="Time for the search, by default 5 (30 with --method).")] = None,
    trials: Annotated[int | None, typer.Option(help="At most so many trials, by default 20 with --method.")] = None,
    split: Annotated[
        str, typer.Option(help="random: of each history; time: the last interactions; auto: time with --timestamp.")
    ] = "auto",
    share: Annotated[float, typer.Option(help="Of the interactions that is held out.")] = 0.2,
    metric: Annotated[str, typer.Option(help="What trials are judged by.")] = "NDCG@10",
    out: Annotated[Path | None, typer.Option(help="Write the best parameters, for `tastespace fit --params`.")] = None,
    journal: Annotated[
        Path | None,
        typer.Option(help="File of the trials, with which a search goes on; by default beside --out, OUT.journal."),
    ] = None,
    set: Settings = None,
    table: TableFlags = DEFAULT_TABLE,
    seed: Seed = 0,
    threads: Threads = 0,
    format: Annotated[
        Format, typer.Option(help="table: the best trials; json, csv, ...: all trials; auto: by the output.")
    ] = Format.auto,
    dataset: Annotated[str | None, typer.Option(help="The same as DATA.")] = None,
    method: Annotated[
        str | None,
        typer.Option(help="Instead of --model: a method of the paper, by its protocol, on a named data set."),
    ] = None,
    trial_minutes: Annotated[
        float | None, typer.Option(help="With --method: stop the training of a trial after so many minutes.")
    ] = None,
    grid: Annotated[str, typer.Option(help="With --method: ours, or paper for the paper's own grids.")] = "ours",
    split_seed: Annotated[int, typer.Option(help="With --method: seed of the split, where none is published.")] = 0,
    store: Annotated[
        bool, typer.Option("--store", help="With --method: store the best parameters for `tastespace run`.")
    ] = False,
    params_file: Annotated[Path | None, typer.Option(help="With --store: write to this file.")] = None,
) -> None:
    """Search the parameters of a model on held-out data.

    The first trial is the model with its defaults. A search that was stopped goes on when the same command is given
    again, if it has --out or --journal. `tastespace fit DATA --params FILE` fits what was found.
    """
    source = one_source(data, dataset)
    if (model is None) == (method is None):
        raise ParameterError(
            "give --model NAME, such as --model ease (tastespace models lists them), or --method NAME for a method of "
            "the paper on a named data set, and not both."
        )
    settings = parse_settings(set or [])
    if method is not None:
        if Path(source).exists():
            raise ParameterError(
                f"--method {method}: methods of the paper are searched on the named data sets. For a file of your own "
                "give --model NAME; tastespace models lists them."
            )
        budget = {"trials": 20 if trials is None else trials, "minutes": 30.0 if minutes is None else minutes}
        paper = {"grid": grid, "seed": seed, "split_seed": split_seed, "base": settings, "journal": journal}
        options = {**budget, **paper, "threads": threads, "trial_minutes": trial_minutes}
        _tune_method(source, method, store, params_file, options)
        return
    assert model is not None
    if store or params_file is not None or trial_minutes is not None:
        raise ParameterError(
            "--store, --params-file and --trial-minutes are for --method; for --model give --out FILE."
        )
    created = create(model, **settings)  # mistakes are refused before the data is read
    require_half_life(table.half_life, table.timestamp, created)
    journal = out.with_name(f"{out.name}.journal") if journal is None and out is not None else journal
    for flag, path in (("--out", out), ("--journal", journal)):
        if path is not None:
            require_writable(flag, path, keep=False)
    whole = table.with_half_life(table.load(source, threads))
    messages = Console(stderr=True, soft_wrap=True)
    messages.print(f"{source}: {whole!r}", highlight=False, markup=False)
    print_notes(whole, messages)
    result = search(
        model, whole, minutes=minutes, trials=trials, split=split, share=share, metric=metric, params=settings,
        journal=journal, seed=seed, threads=threads, progress=True,
    )  # fmt: skip
    if out is not None:
        result.save(out)
    _show(result, format, messages)
    if out is not None:
        words = ["tastespace", "fit", source, *table.words(), "--params", str(out)]
        messages.print(f"saved to {out}; fit it with: {shlex.join(words)} --out MODEL", highlight=False, markup=False)


def one_source(data: str | None, dataset: str | None) -> str:
    """The data, given as an argument or with --dataset."""
    if (data is None) == (dataset is None):
        what = "the data twice, as an argument and with --dataset" if data is not None else "no data"
        raise ParameterError(f"given {what}: expected a file or the name of a data set, once.")
    return str(data if data is not None else dataset)


def _show(result: TuneResult, format: Format, messages: Console) -> None:
    if is_table_output(format):
        Console().print(result)
    else:
        emit(to_polars(result.to_frame())[0], format)
    for line in (result.summary, *result.notes):
        messages.print(line, highlight=False, markup=False)


def _tune_method(dataset: str, method: str, store: bool, params_file: Path | None, options: dict[str, Any]) -> None:
    """A method of the paper on a named data set."""
    from tastespace.paper import tuning
    from tastespace.paper.methods import find_method, store_parameters, user_file

    if params_file is not None and not store:
        raise ParameterError(f"--params-file {params_file}: give --store as well, else nothing is written.")
    if store:
        require_writable("--params-file", params_file or user_file(), keep=False)
    if options["journal"] is not None:
        require_writable("--journal", options["journal"], keep=False)
    outcome = tuning.search(dataset, method, **options)
    if store:
        path = store_parameters(dataset, find_method(method).name, outcome, params_file)
        Console(stderr=True, soft_wrap=True).print(f"stored in {path}", highlight=False, markup=False)
    Console().print_json(json.dumps(outcome))
