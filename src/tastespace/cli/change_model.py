"""`tastespace profile`, `attributes` and `index`: change a saved model, whose file is replaced as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from tastespace import store
from tastespace.cli.arguments import (
    DelimiterOption,
    EncodingOption,
    ModelArgument,
    TextFlags,
    open_model,
    read_item_attributes,
    replace_by_titles,
)
from tastespace.cli.flag_errors import errors_in_flags
from tastespace.cli.inference_commands import by_interest
from tastespace.cli.output import FORMAT_HELP, Format, emit, is_table_output, show
from tastespace.data.ids import parse_ids
from tastespace.data.tables import to_polars
from tastespace.errors import DataError, ParameterError
from tastespace.models import Recommender
from tastespace.models.profiles import Profile
from tastespace.terminal import Console

_SHOWN_PAST = 3  # past items by which a person tells interests apart
_Out = Annotated[Path | None, typer.Option(help="Save the changed model here instead of in its own place.")]


@errors_in_flags
def profile(
    model: ModelArgument,
    user: Annotated[str | None, typer.Argument(help="Id of a user; none: list all profiles.")] = None,
    mute: Annotated[
        list[int] | None, typer.Option(help="Leave an interest out of all lists from now on; may be repeated.")
    ] = None,
    unmute: Annotated[list[int] | None, typer.Option(help="Take a --mute back; may be repeated.")] = None,
    boost: Annotated[
        list[str] | None,
        typer.Option(help="Show more of an interest from now on: 1=2; 1=1 takes that back; may be repeated."),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Forget the user's profile first.")] = False,
    out: _Out = None,
    format: Annotated[Format, typer.Option(help=FORMAT_HELP)] = Format.auto,
) -> None:
    """What a user has muted and boosted for good: show it, or change it in the model file."""
    boosts = by_interest("--boost", boost or [], float, "1=2")
    changes = bool(mute or unmute or boosts or clear)
    if user is None and (changes or out is not None):
        raise ParameterError("a profile belongs to one user: give MODEL and the id of a USER.")
    if out is not None and not changes:
        raise ParameterError(f"--out {out}: nothing is changed; give --mute, --unmute, --boost or --clear.")
    opened = open_model(model)
    if user is None:
        frame = opened.profiles.to_frame()
        show(frame) if is_table_output(format) else emit(frame, format)
        return
    user_id = parse_ids(opened.train_.users, [user])[0]
    if clear:
        opened.clear_profile(user_id)
    if unmute:
        opened.unmute(user_id, unmute)
    if mute:
        opened.mute(user_id, mute)
    if boosts:
        opened.boost(user_id, boosts)
    if changes:
        _save(opened, model, out)
    frame = _interests_of(opened, user_id)
    saved = f", saved to {out or model}" if changes else ""
    show(frame, f"interests of {user}{saved}") if is_table_output(format) else emit(frame, format)


def _interests_of(model: Recommender, user: object) -> pl.DataFrame:
    """A user's interests with what the profile says of them."""
    profile = model.profiles.get(user, Profile())
    found = to_polars(model.interests(user, _SHOWN_PAST))[0].select("interest", "weight", "label", "past")
    frame = replace_by_titles(found, model.train_, ("past",))
    numbers = frame["interest"].to_list()
    return frame.with_columns(
        pl.Series("muted", [x in profile.muted for x in numbers], dtype=pl.Boolean),
        pl.Series("boost", [float(profile.boosts.get(x, 1.0)) for x in numbers], dtype=pl.Float64),
    )


@errors_in_flags
def attributes(
    model: ModelArgument,
    items: Annotated[Path, typer.Argument(help="Parquet, CSV, TSV or JSON lines file with a row per item.")],
    id: Annotated[str, typer.Option("--id", "--items-id", help="Column of item ids.")] = "item",
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    out: _Out = None,
) -> None:
    """Replace the item attributes of a saved model (titles, categories, stock, ...) without a new fit."""
    opened = open_model(model)
    frame = read_item_attributes(items, opened.train_, id, text=TextFlags(delimiter, encoding=encoding))
    if frame is None or frame.width < 2:
        raise DataError(f"{items} has no column besides the ids {id!r}: there is nothing to store.")
    opened.set_item_attributes(frame)
    _save(opened, model, out)
    names = ", ".join(frame.columns[1:])
    empty = int(frame.select(pl.all_horizontal(pl.exclude("item").is_null())).to_series().sum())
    without = f", {empty:,} of them without a value" if empty else ""
    Console(soft_wrap=True).print(
        f"{out or model}: {names} of {len(frame):,} items{without}", highlight=False, markup=False
    )


def index(
    model: ModelArgument,
    kind: Annotated[str, typer.Option(help="ann: approximate search by faiss, for large catalogs.")] = "ann",
    out: _Out = None,
    threads: Annotated[int, typer.Option(help="0 means all cores.")] = 0,
) -> None:
    """Build an index of the items and store it with the model, for recommend --index."""
    opened = open_model(model)
    opened.build_index(kind, threads)
    _save(opened, model, out)
    found = store.inspect(out or model)["index"]
    typer.echo(
        f"{out or model}: index of {opened.train_.n_items:,} items, {found['bytes'] / 1e6:.3g} MB, finds "
        f"{100 * found['recall@100']:.1f} % of the 100 best items of users"
    )


def _save(opened: Recommender, model: Path, out: Path | None) -> None:
    """Save the changed model, with the metrics that are stored with it."""
    opened.save(out or model, store.inspect(model)["metrics"])
