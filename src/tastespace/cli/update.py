"""`tastespace update`: a saved model learns from more interactions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tastespace.cli.arguments import (
    DateFormatOption,
    DelimiterOption,
    EncodingOption,
    ItemsIdOption,
    ModelArgument,
    NoHeaderOption,
    TextFlags,
    cast_ids,
    open_model,
)
from tastespace.cli.fit import load_table, require_half_life
from tastespace.cli.table_flags import Item, MinRating, Rating, User
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models import Blend, Recommender
from tastespace.models.updating import begin_update
from tastespace.models.updating import update as updated
from tastespace.store.model_directory import require_free


def update(
    model: ModelArgument,
    data: Annotated[Path, typer.Argument(help="A Parquet, CSV or TSV file of new interactions.")],
    out: Annotated[Path, typer.Option(help="Directory of the updated model; may be that of the model itself.")],
    user: User = None,
    item: Item = None,
    rating: Rating = None,
    min_rating: MinRating = None,
    weight: Annotated[str | None, typer.Option(help="Column of weights, where the model was fitted with some.")] = None,
    timestamp: Annotated[str | None, typer.Option(help="Column of times, where the model was fitted with it.")] = None,
    half_life: Annotated[str | None, typer.Option(help="With --timestamp: as in the fit of the model: 90d.")] = None,
    min_user: Annotated[int, typer.Option(help="Drop users with fewer interactions in the file.")] = 1,
    min_item: Annotated[int, typer.Option(help="Drop items with fewer interactions in the file.")] = 1,
    items: Annotated[Path | None, typer.Option(help="File of attributes of new items: title, genres, ...")] = None,
    items_id: ItemsIdOption = None,
    users: Annotated[Path | None, typer.Option(help="File of attributes of new users: age, likes, ...")] = None,
    delimiter: DelimiterOption = None,
    no_header: NoHeaderOption = False,
    encoding: EncodingOption = None,
    date_format: DateFormatOption = None,
    threads: Annotated[int, typer.Option(help="For reading; 0 means all cores. Training uses the model's own.")] = 0,
) -> None:
    """Learn from more interactions, at the cost of these, and save the updated model.

    New users and items may be among them. DPCML, CML, BPR, ALS and blends of them go on from what they have learned:
    training visits the new interactions and a share of the old ones. Other models are fitted again, which is printed.
    What stands at --out stays until the updated model is complete.
    """
    require_free(out)
    messages = Console(stderr=True, soft_wrap=True)  # standard output stays empty
    opened = open_model(model)
    require_half_life(half_life, timestamp, opened)
    read = load_table(
        str(data),
        user,
        item,
        rating,
        min_rating,
        weight,
        timestamp,
        min_user,
        min_item,
        items,
        users,
        threads,
        items_id,
        TextFlags(delimiter, no_header, encoding, date_format),
        part=True,
    )
    new = cast_ids(read, opened.train_)
    if half_life is not None:
        new = _with_half_life(new, opened.train_, half_life)

    def say(text: str) -> None:
        messages.print(text, highlight=False, markup=False)

    start = time.perf_counter()
    found = begin_update(opened, new)  # None: nothing is new, and a warning says so
    say(f"{data}: {new!r}")
    later = opened if found is None else updated(opened, new)
    seconds = time.perf_counter() - start
    if found is None:
        say(f"added nothing: all {new.n_interactions:,} interactions were known")
    else:
        repeated = f", {read.cleaning.duplicates:,} rows repeated in the file" if read.cleaning.duplicates else ""
        say(f"added {found}{repeated}")
        again = _fitted_again(opened)
        if again:
            say(f"fitted again, because a new interaction changes all of them: {', '.join(again)}")
    later.save(out)
    done = "kept as it was" if found is None else f"updated in {seconds:.2f} s"
    say(f"{done}: {later!r} of {later.train_!r}")
    say(f"saved to {out}")


def _with_half_life(new: Interactions, old: Interactions, half_life: str) -> Interactions:
    """New interactions with weights that continue those of a model's own."""
    if old.timestamps is None:
        raise ParameterError(
            f"--half-life {half_life}: the model was fitted without times. Leave it out, or fit again with --timestamp."
        )
    return new.with_half_life(half_life, latest=float(old.timestamps.max(initial=0)))


def _fitted_again(model: Recommender) -> list[str]:
    """Names of the models, or members of a blend, that have no update of their own."""
    parts = model.members_ if isinstance(model, Blend) else [model]
    return [type(part).__name__ for part in parts if not part.supports_partial_fit]
