"""`tastespace fit`: fit a model to a table of interactions and save it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from tastespace.cli.arguments import (
    PLAIN_TEXT,
    DateFormatOption,
    DelimiterOption,
    EncodingOption,
    ItemsIdOption,
    NoHeaderOption,
    TextFlags,
    parse_settings,
    print_notes,
    read_attributes,
    read_items,
)
from tastespace.cli.recipe_table import print_recipe
from tastespace.data import Interactions, datasets, split, synthetic
from tastespace.errors import ParameterError, require_path
from tastespace.evaluation import Report, evaluate
from tastespace.models import Recommender, create
from tastespace.recipe import RecipeReport, check_arguments
from tastespace.recipe import fit as default_recipe
from tastespace.store.model_directory import require_free

log = logging.getLogger(__name__)

_VALID = 0.1  # share of each history that is held out with --model


def fit(
    data: Annotated[
        list[str],
        typer.Argument(
            help="A Parquet, CSV or TSV file, or several read as one; the name of a data set; or town (synthetic)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Directory of the model.")],
    model: Annotated[
        str | None,
        typer.Option(help="Name of a model: dpcml, ease, blend:dpcml+ease, ...; none: the default recipe chooses."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Time for the default recipe; by default 2, up to 5 for large data.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Models that the default recipe tries, instead of a time: always the same model.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Column of user ids; by default user.")] = None,
    item: Annotated[str | None, typer.Option(help="Column of item ids; by default item.")] = None,
    rating: Annotated[str | None, typer.Option(help="Column of ratings, for --min-rating.")] = None,
    min_rating: Annotated[float | None, typer.Option(help="Keep rows with at least this rating.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of weights: play counts, hours, ...")] = None,
    timestamp: Annotated[str | None, typer.Option(help="Column of times.")] = None,
    min_user: Annotated[int, typer.Option(help="Drop users with fewer interactions.")] = 1,
    min_item: Annotated[int, typer.Option(help="Drop items with fewer interactions.")] = 1,
    items: Annotated[Path | None, typer.Option(help="File of item attributes: title, genres, ...")] = None,
    items_id: ItemsIdOption = None,
    users: Annotated[Path | None, typer.Option(help="File of user attributes: age, likes, ...")] = None,
    delimiter: DelimiterOption = None,
    no_header: NoHeaderOption = False,
    encoding: EncodingOption = None,
    date_format: DateFormatOption = None,
    set: Annotated[list[str] | None, typer.Option("--set", help="A parameter, key=value; may be repeated.")] = None,
    valid: Annotated[
        float | None,
        typer.Option(help="With --model: share of each history held out to choose the epoch and to report; 0: none."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the held-out part and the training.")] = 0,
    threads: Annotated[int, typer.Option(help="0 means all cores.")] = 0,
) -> None:
    """Fit a model to a table of interactions and save it.

    Without --model the default recipe tries several kinds of models on held-out data within --minutes, blends the best,
    gives smaller interests more weight where accuracy stays, and prints what it tried and why it chose. With --model a
    share of each history is held out first, to choose the number of epochs and to measure the model (in fractions).
    Either way the model is then fitted to everything.
    """
    require_free(out)  # bad arguments fail here, before hours of training
    messages = Console(stderr=True, soft_wrap=True)  # standard output stays empty
    parameters: dict[str, Any] = {}
    if model is None:
        _refuse("without --model", {"--set": set, "--valid": valid}, "it is for one model; name it with --model")
        check_arguments(minutes, trials, seed, threads)
    else:
        _refuse(f"with --model {model}", {"--minutes": minutes, "--trials": trials}, "it is for the default recipe")
        if not 0 <= (valid or 0.0) < 1:
            raise ParameterError(f"--valid {valid}: expected a share from 0 to below 1.")
        known = create(model).get_params()  # of the members of a blend too
        flags = {
            name: value
            for name in known
            for end, value in (("seed", seed), ("threads", threads))
            if name == end or name.endswith(f"__{end}")
        }
        parameters = flags | parse_settings(set or [])
        create(model, **parameters)
    text = TextFlags(delimiter, no_header, encoding, date_format)
    whole = _load(
        data,
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
        text,
    )
    messages.print(f"{', '.join(data)}: {whole!r}", highlight=False, markup=False)
    print_notes(whole, messages)
    if model is None:
        blend = default_recipe(whole, minutes=minutes, trials=trials, seed=seed, threads=threads)
        recipe = RecipeReport(**blend.recipe_ or {})
        blend.save(out, metrics=recipe.metrics)
        print_recipe(recipe, messages)
        messages.print(f"saved a blend of {len(blend.members_)} models to {out}", highlight=False, markup=False)
    else:
        share = _VALID if valid is None else valid
        fitted, figures = _fit_and_measure(model, parameters, whole, share, seed)
        fitted.save(out, metrics=figures)
        if figures is not None:
            values = ", ".join(f"{name} {value:.3f}" for name, value in figures.metrics.items())
            messages.print(f"on the held-out {100 * share:.0f} %: {values}", highlight=False)
        messages.print(f"saved {fitted!r} to {out}", highlight=False, markup=False)


def _refuse(when: str, flags: dict[str, Any], reason: str) -> None:
    for flag, value in flags.items():
        if value is not None and value != []:
            raise ParameterError(f"{flag} {when}: {reason}. Leave one of them out.")


def _load(
    data: str | list[str],
    user: str | None,
    item: str | None,
    rating: str | None,
    min_rating: float | None,
    weight: str | None,
    timestamp: str | None,
    min_user: int,
    min_item: int,
    items: Path | None,
    users: Path | None,
    threads: int,
    items_id: str | None = None,
    text: TextFlags = PLAIN_TEXT,
) -> Interactions:
    files = [data] if isinstance(data, str) else data
    name = files[0]
    if len(files) == 1 and not require_path(name).exists() and (name == "town" or name in datasets.names()):
        flags = {
            "--user": user,
            "--item": item,
            "--users": users,
            "--items": items,
            "--rating": rating,
            "--min-rating": min_rating,
            "--weight": weight,
            "--timestamp": timestamp,
            "--items-id": items_id,
            "--delimiter": text.delimiter,
            "--no-header": text.no_header or None,
            "--encoding": text.encoding,
            "--date-format": text.date_format,
        }
        for flag, value in flags.items():
            if value is not None:
                raise ParameterError(
                    f"{flag} {value}: {name} is a named data set and comes as it is; {flag} is for a file of your own."
                )
        named = synthetic.multi_interest(seed=0).interactions if name == "town" else datasets.load(name)
        return named.filter(min_user=min_user, min_item=min_item)
    if items_id is not None and items is None:
        raise ParameterError(f"--items-id {items_id} is the column of ids in --items: give that file.")
    user_column, item_column = text.column("--user", user, "user"), text.column("--item", item, "item")
    assert user_column is not None
    assert item_column is not None
    user_key = user_column if isinstance(user_column, str) else "user"
    return Interactions.from_files(
        files,
        user=user_column,
        item=item_column,
        rating=text.column("--rating", rating),
        min_rating=min_rating,
        weight=text.column("--weight", weight),
        timestamp=text.column("--timestamp", timestamp),
        min_user=min_user,
        min_item=min_item,
        user_attributes=None if users is None else read_attributes(users, user_key, "user", text),
        item_attributes=None if items is None else read_items(items, item_column, items_id, text),
        threads=threads,
        **text.for_reader(),
    )


def _fit_and_measure(
    name: str, parameters: dict[str, Any], whole: Interactions, valid: float, seed: int
) -> tuple[Recommender, Report | None]:
    model = create(name, **parameters)
    if valid == 0:
        return model.fit(whole), None
    # In this order short histories stay in training whole: the first part is rounded down.
    held_out, train = split.per_user(whole, (valid, 1 - valid), seed=seed)
    if held_out.n_interactions == 0:
        log.warning(
            "histories are too short to hold out %g %% of each: no metrics, and no choice of epoch", 100 * valid
        )
        return model.fit(whole), None
    model.fit(train, valid=held_out)
    report = evaluate(model, held_out, seen=train, k=min(10, whole.n_items), metrics=["P", "R", "NDCG", "MRR"])
    return model.as_chosen().fit(whole), report
