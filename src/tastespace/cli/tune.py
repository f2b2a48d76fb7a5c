"""`tastespace tune`, `compare` and `run`: parameters, models and the paper's methods measured on held-out data."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tastespace._util.addresses import shown_address
from tastespace._util.terminal import Console
from tastespace.cli.arguments import parse_settings, print_notes
from tastespace.cli.flag_groups import GroupUse
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
    FORMAT_HELP,
    Format,
    emit,
    is_table_output,
    require_writable,
    write_file,
)
from tastespace.data import Interactions
from tastespace.data import split as splits
from tastespace.data.reading.tables import to_polars
from tastespace.errors import ParameterError, nearest
from tastespace.evaluation import cross_validate
from tastespace.evaluation.cross_validation import Fitter
from tastespace.models import Recommender, create, create_seeded, registry
from tastespace.recipe import fit as default_recipe
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
        typer.Option(help="File of the trials, from which a search resumes; by default next to --out, OUT.journal."),
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

    The first trial is the model with its defaults. A search that was stopped resumes when the same command is given
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
    messages.print(f"{shown_address(source)}: {whole!r}", highlight=False, markup=False)
    print_notes(whole, messages)
    result = search(
        model, whole, minutes=minutes, trials=trials, split=split, share=share, metric=metric, params=settings,
        journal=journal, seed=seed, threads=threads, progress=True,
    )  # fmt: skip
    if out is not None:
        result.save(out)
    _show(result, format, messages)
    if out is not None:
        words = ["tastespace", "fit", shown_address(source), *table.words(), "--params", str(out)]
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


# ---------------------------------------------------------------------------------------------------------------------
# `tastespace compare`: several models on the same windows of time or folds, in one table with tests.

RECIPE = "recipe"
"""Name of the default recipe among the models."""


def compare(
    data: DataArgument = None,
    models: Annotated[
        str, typer.Option(help="Names joined by commas; recipe is what `tastespace fit` does without --model.")
    ] = "popular,ease,als,dpcml,blend",
    minutes: Annotated[float | None, typer.Option(help="Time for all of it; by default no limit.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="NDCG@10, R@20, Coverage@10, ...; may be repeated.")] = None,
    windows: Annotated[
        int, typer.Option(help="Windows of time with --timestamp, else random folds; 1: a single split.")
    ] = 1,
    test_share: Annotated[float | None, typer.Option(help="Share of the interactions in each window.")] = None,
    test_span: Annotated[str | None, typer.Option(help="With --timestamp: length of each window, such as 7d.")] = None,
    min_history: Annotated[int, typer.Option(help="Leave out users with fewer training interactions.")] = 1,
    reference: Annotated[str, typer.Option(help="Tested against: best, first, or a model's name.")] = "best",
    table: TableFlags = DEFAULT_TABLE,
    seed: Seed = 0,
    threads: Threads = 0,
    format: Annotated[Format, typer.Option(help=FORMAT_HELP)] = Format.auto,
    out: Annotated[Path | None, typer.Option(help="Write the rows to this file: .csv, .json, ...")] = None,
    dataset: Annotated[str | None, typer.Option(help="The same as DATA.")] = None,
) -> None:
    """Compare models on the same held-out data: mean, spread over windows, and whether differences are significant.

    With --timestamp each window is the future of its training data; without it, random folds of each history. Users
    without training history are counted apart.
    """
    source = one_source(data, dataset)
    named = {name: _model(name, seed, threads) for name in _names(models)}
    require_half_life(table.half_life, table.timestamp)
    whole = table.with_half_life(table.load(source, threads))
    messages = Console(stderr=True, soft_wrap=True)
    messages.print(f"{shown_address(source)}: {whole!r}", highlight=False, markup=False)
    print_notes(whole, messages)
    found = cross_validate(
        named,
        whole,
        _windows(whole, windows, test_share, test_span, min_history, seed),
        metric or ["NDCG@10", "R@20", "MRR"],
        reference=reference,
        minutes=minutes,
        seed=seed,
        threads=threads,
        report=lambda text: messages.print(text, highlight=False, markup=False) if sys.stderr.isatty() else None,
    )
    if is_table_output(format, out):
        Console().print(found)
    else:
        emit(to_polars(found.to_frame())[0], format, out)
        messages.print(found.title, highlight=False, markup=False)
    for note in found.notes:
        messages.print(note, highlight=False, markup=False)


def _names(models: str) -> list[str]:
    names = [name.strip() for name in models.split(",") if name.strip()]
    if not names:
        raise ParameterError(f"--models {models!r}: expected names joined by commas, such as ease,als,dpcml.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ParameterError(f"--models {models}: {twice} is there twice.")
    return names


def _model(name: str, seed: int, threads: int) -> Recommender | Fitter:
    if name == RECIPE:
        return lambda train, minutes: default_recipe(train, minutes=minutes, seed=seed, threads=threads, progress=False)
    if name not in registry() and not name.startswith("blend:"):
        known = [*registry(), RECIPE]
        raise ParameterError(f"--models: no model {name!r}; there are {', '.join(known)}.{nearest(name, known)}")
    return create_seeded(name, seed, threads)


def _windows(
    data: Interactions, windows: int, share: float | None, span: str | None, min_history: int, seed: int
) -> list[tuple[Interactions, Interactions]]:
    if windows < 1:
        raise ParameterError(f"--windows {windows}: expected a number of windows, 1 or more.")
    if data.timestamps is not None:
        share = 0.2 if windows == 1 and share is None and span is None else share
        least = 0 if min_history <= 1 else min_history  # those without any history are counted apart
        return splits.rolling(data, windows, test_share=share, test_span=span, min_history=least)
    if span is not None:
        raise ParameterError(f"--test-span {span}: give --timestamp as well, the column of times.")
    if min_history != 1:
        raise ParameterError(f"--min-history {min_history}: give --timestamp as well; --min-user is for all data.")
    if windows > 1:
        if share is not None:
            raise ParameterError(f"--test-share {share}: {windows} folds without times have 1/{windows} each.")
        return splits.folds(data, windows, seed=seed)
    test, train = splits.per_user(data, (share or 0.2, 1 - (share or 0.2)), seed=seed)
    if not test.n_interactions:
        raise ParameterError("histories are too short to hold out a part of each; give --test-share or more data.")
    return [(train, test)]


# ---------------------------------------------------------------------------------------------------------------------
# `tastespace run`: a method of the paper, or any model, on a named data set or a table of your own.


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
    title = f"{result['method']} on {shown_address(source)}, protocol {protocol!r}, accuracy in {result['unit']}"
    shown = Table(title=title, title_justify="left")
    for name in result["metrics"]:
        shown.add_column(name, justify="right")
    shown.add_row(*(f"{value:.2f}" for value in result["metrics"].values()))
    Console().print(shown)
    Console().print(
        f"[dim]{result['epochs']} epochs of {result['seconds_per_epoch']:.2f} s, {result['seconds']:.1f} s in all, "
        f"{result['peak_mb']:.0f} MB, seed {seed}[/]"
    )
