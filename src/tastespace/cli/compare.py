"""`tastespace compare`: several models on the same windows of time or folds, in one table with tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tastespace._util.terminal import Console
from tastespace.cli.arguments import print_notes
from tastespace.cli.flags import (
    DEFAULT_TABLE,
    DataArgument,
    Seed,
    TableFlags,
    Threads,
    require_half_life,
)
from tastespace.cli.output import (
    FORMAT_HELP,
    Format,
    emit,
    is_table_output,
)
from tastespace.cli.tune import one_source
from tastespace.data import Interactions, split
from tastespace.data.reading.tables import to_polars
from tastespace.errors import ParameterError, nearest
from tastespace.evaluation import cross_validate
from tastespace.evaluation.cross_validation import Fitter
from tastespace.models import Recommender, create_seeded, registry
from tastespace.recipe import fit as default_recipe

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
    messages.print(f"{source}: {whole!r}", highlight=False, markup=False)
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
        return split.rolling(data, windows, test_share=share, test_span=span, min_history=least)
    if span is not None:
        raise ParameterError(f"--test-span {span}: give --timestamp as well, the column of times.")
    if min_history != 1:
        raise ParameterError(f"--min-history {min_history}: give --timestamp as well; --min-user is for all data.")
    if windows > 1:
        if share is not None:
            raise ParameterError(f"--test-share {share}: {windows} folds without times have 1/{windows} each.")
        return split.folds(data, windows, seed=seed)
    test, train = split.per_user(data, (share or 0.2, 1 - (share or 0.2)), seed=seed)
    if not test.n_interactions:
        raise ParameterError("histories are too short to hold out a part of each; give --test-share or more data.")
    return [(train, test)]
