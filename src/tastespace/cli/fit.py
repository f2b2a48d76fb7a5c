"""`tastespace fit`: fit a model to a table of interactions and save it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

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
from tastespace.cluster.cluster_fit import ClusterOptions, fit_files, within
from tastespace.cluster.model_parts import supported
from tastespace.data import Interactions, datasets, split, synthetic
from tastespace.data.durations import seconds_of
from tastespace.data.tables import named_files
from tastespace.errors import ParameterError, require_path
from tastespace.evaluation import Report, evaluate
from tastespace.evaluation.reference_models import reference_models
from tastespace.models import Recommender, registry
from tastespace.models.seeded import create_seeded
from tastespace.models.trained_base import with_final
from tastespace.recipe import RecipeReport, check_arguments
from tastespace.recipe import fit as default_recipe
from tastespace.store.model_directory import require_free
from tastespace.terminal import Console
from tastespace.training.user_blocks import USERS_AT_ONCE, UserBlockSettings
from tastespace.tuning import read_params

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
        float | None, typer.Option(help="Time for the default recipe; by default 2, up to 15 for large data.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Models that the default recipe tries, instead of a time: always the same model.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Column of user ids; by default user.")] = None,
    item: Annotated[str | None, typer.Option(help="Column of item ids; by default item.")] = None,
    rating: Annotated[str | None, typer.Option(help="Column of ratings, for --min-rating.")] = None,
    min_rating: Annotated[float | None, typer.Option(help="Keep rows with at least this rating.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of weights: play counts, hours, ...")] = None,
    timestamp: Annotated[
        str | None, typer.Option(help="Column of times: the last interactions are held out instead of random ones.")
    ] = None,
    half_life: Annotated[
        str | None,
        typer.Option(
            help="With --timestamp and a --model that uses weights: old interactions weigh less, such as 90d."
        ),
    ] = None,
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
    params: Annotated[
        Path | None, typer.Option(help="File of parameters that `tastespace tune --out` wrote, in place of --model.")
    ] = None,
    valid: Annotated[
        float | None,
        typer.Option(help="With --model: share of the data held out to choose the epoch and to report; 0: none."),
    ] = None,
    spill: Annotated[
        Path | None,
        typer.Option(
            help="Folder for data larger than memory: the table is built there, and dpcml, cml and bpr train there."
        ),
    ] = None,
    memory: Annotated[str, typer.Option(help="With --spill: memory for building the table, such as 4GB.")] = "1GB",
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Train dpcml, cml or bpr on partitions of the users: local:4 (Dask on this machine), tcp://host:8786, "
            "a scheduler file (.json), or processes:4 (without Dask)."
        ),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(help="With --cluster: parts of the users, 8 by default; the result depends on it.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="With --cluster: how often items are combined in an epoch, 8 by default.")
    ] = None,
    compress: Annotated[
        bool | None, typer.Option("--compress", help="With --cluster: send changes in half precision.")
    ] = None,
    cluster_storage: Annotated[
        str | None,
        typer.Option(help="With --cluster: folder or address (s3://...) of its files; a stopped run goes on there."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the held-out part and the training.")] = 0,
    threads: Annotated[int, typer.Option(help="0 means all cores.")] = 0,
) -> None:
    """Fit a model to a table of interactions and save it.

    Without --model the default recipe tries several kinds of models on held-out data within --minutes, blends the best,
    gives smaller interests more weight where accuracy stays, and prints what it tried and why it chose. With --model a
    share of each history is held out first, to choose the number of epochs and to measure the model (in fractions),
    beside the most popular items and EASE. With --timestamp the last interactions are held out. Either way the model is
    then fitted to everything. With --cluster the model is dpcml unless --model names another.
    """
    require_free(out)  # bad arguments fail here, before hours of training
    messages = Console(stderr=True, soft_wrap=True)  # standard output stays empty
    parameters: dict[str, Any] = {}
    require_half_life(half_life, timestamp)
    if params is not None:
        model, parameters = read_params(params, model)
    options = _cluster_options(cluster, partitions, rounds, compress, cluster_storage)
    if options is not None and model is None:
        model = "dpcml"
    if model is None:
        only_one = {"--set": set, "--valid": valid, "--half-life": half_life}
        _refuse("without --model", only_one, "it is for one model; name it with --model")
        check_arguments(minutes, trials, seed, threads)
    else:
        _refuse(f"with --model {model}", {"--minutes": minutes, "--trials": trials}, "it is for the default recipe")
        if not 0 <= (valid or 0.0) < 1:
            raise ParameterError(f"--valid {valid}: expected a share from 0 to below 1.")
        parameters |= parse_settings(set or [])
        is_spilled = spill is not None and options is None
        if is_spilled and issubclass(registry().get(model, Recommender), UserBlockSettings):
            parameters = {"spill": f"{spill}/vectors", "users_at_once": USERS_AT_ONCE} | parameters
        require_half_life(half_life, timestamp, create_seeded(model, seed, threads, **parameters))
    text = TextFlags(delimiter, no_header, encoding, date_format)
    others = (rating, min_rating, weight, timestamp, items, users, spill, delimiter, encoding, date_format)
    if options is not None and model is not None and valid == 0 and not any(others) and _are_parquet(data):
        chosen = supported(create_seeded(model, seed, threads, **parameters))
        with _nothing_written(out):
            columns = {"user": user or "user", "item": item or "item", "min_user": min_user, "min_item": min_item}
            fit_files(chosen, data, within(options, "final"), **columns)  # type: ignore[arg-type]
            chosen.save(out)
        messages.print(f"{', '.join(data)}: {chosen.train_!r}", highlight=False, markup=False)
        messages.print(f"saved {chosen!r} to {out}", highlight=False, markup=False)
        return
    whole = load_table(
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
        spill=spill,
        memory=memory,
    )
    whole = whole if half_life is None else whole.with_half_life(half_life)
    messages.print(f"{', '.join(data)}: {whole!r}", highlight=False, markup=False)
    print_notes(whole, messages)
    if model is None:
        with _nothing_written(out):
            blend = default_recipe(whole, minutes=minutes, trials=trials, seed=seed, threads=threads)
            recipe = RecipeReport(**blend.recipe_ or {})
            blend.save(out, metrics=recipe.metrics)
        print_recipe(recipe, messages)
        messages.print(f"saved a blend of {len(blend.members_)} models to {out}", highlight=False, markup=False)
    else:
        share = _VALID if valid is None else valid
        with _nothing_written(out, parameters.get("checkpoint")):
            fitted, figures, notes = _fit_and_measure(
                create_seeded(model, seed, threads, **parameters), whole, share, seed, threads, options
            )
            fitted.save(out, metrics=next(iter(figures.values()), None))
        if figures:
            messages.print(figures_table(figures, notes[0]))
            for note in notes[1:]:
                messages.print(note, highlight=False)
        messages.print(f"saved {fitted!r} to {out}", highlight=False, markup=False)


@contextlib.contextmanager
def _nothing_written(out: Path, checkpoint: str | None = None) -> Iterator[None]:
    """Ctrl-C in this block says what is on disk: the model is saved at its end."""
    before = "is the model from before" if out.exists() else "was not written"
    try:
        yield
    except KeyboardInterrupt:
        files = [Path(checkpoint), with_final(checkpoint)] if checkpoint else []
        kept = [str(file) for file in files if file.exists()]
        resume = f" The same command goes on from the checkpoint {' and '.join(kept)}." if kept else ""
        raise KeyboardInterrupt(f"{out} {before}.{resume}") from None


def _refuse(when: str, flags: dict[str, Any], reason: str) -> None:
    for flag, value in flags.items():
        if value is not None and value != []:
            raise ParameterError(f"{flag} {when}: {reason}. Leave one of them out.")


def require_half_life(half_life: str | None, timestamp: str | None, model: Recommender | None = None) -> None:
    """Raise unless a half-life is a length of time, there are times that it is for, and the model uses weights."""
    if half_life is None:
        return
    seconds_of(half_life, "--half-life")
    if timestamp is None:
        raise ParameterError(f"--half-life {half_life}: give --timestamp as well, the column of times.")
    if model is not None and not model.uses_weights:
        others = ", ".join(name for name, cls in registry().items() if cls.uses_weights)
        raise ParameterError(
            f"--half-life {half_life}: {type(model).__name__} does not use weights. Leave it out, or take a model that "
            f"uses them: {others}."
        )


def load_table(
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
    part: bool = False,
    spill: Path | None = None,
    memory: str = "1GB",
) -> Interactions:
    """The interactions of files or of a named data set; the arguments are the flags of `tastespace fit`.

    ``part`` is for files of more interactions for the same model, which no named data set holds.
    """
    files = [data] if isinstance(data, str) else data
    name = files[0]
    is_name = not part and len(files) == 1 and (name == "town" or name in datasets.names())
    if is_name and not require_path(name).exists():
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
            "--spill": spill,
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
        [path for file in files for path in named_files(file)],
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
        part=part,
        threads=threads,
        spill=None if spill is None else spill / "interactions",
        memory=memory,
        **text.for_reader(),
    )


def _cluster_options(
    cluster: str | None, partitions: int | None, rounds: int | None, compress: bool | None, storage: str | None
) -> ClusterOptions | None:
    """The flags of a cluster as the library takes them; None: no cluster."""
    if cluster is None:
        named = ("--partitions", "--rounds", "--compress", "--cluster-storage")
        given = dict(zip(named, (partitions, rounds, compress, storage), strict=True))
        _refuse("without --cluster", given, "it is for training on a cluster")
        return None
    known = {"partitions": partitions, "rounds_per_epoch": rounds, "compress": compress, "storage": storage}
    return ClusterOptions(cluster, **{name: value for name, value in known.items() if value is not None})  # type: ignore[arg-type]


def _are_parquet(data: list[str]) -> bool:
    """Whether the arguments name Parquet files, folders of them or patterns of them, which workers can read."""
    return all(name.endswith((".parquet", ".pq")) or require_path(name).is_dir() for name in data)


def _fitted(
    model: Recommender,
    train: Interactions,
    valid: Interactions | None,
    cluster: ClusterOptions | None,
    name: str,
) -> Recommender:
    """The model, fitted here or on a cluster; ``name`` is that of the run in the cluster's storage."""
    if cluster is None:
        return model.fit(train, valid=valid)
    return supported(model).fit(train, valid=valid, cluster=within(cluster, name))


def _fit_and_measure(
    model: Recommender,
    whole: Interactions,
    valid: float,
    seed: int,
    threads: int,
    cluster: ClusterOptions | None = None,
) -> tuple[Recommender, dict[str, Report], list[str]]:
    """The model fitted to everything; before that its figures on a part held out, and those of the reference models.

    The last value says what was held out, and what should be known of that.
    """
    if valid == 0:
        return _fitted(model, whole, None, cluster, "final"), {}, []
    parts = split.hold_out(whole, valid, seed=seed)
    train, held_out = parts.rest, parts.held_out
    if held_out.n_interactions == 0:
        log.warning(
            "histories are too short to hold out %g %% of each: no metrics, and no choice of epoch", 100 * valid
        )
        return _fitted(model, whole, None, cluster, "final"), {}, []
    _fitted(model, train, held_out, cluster, "held-out")
    reports = {type(model).__name__: _measured(model, train, held_out, threads)}
    for other in reference_models(train, threads):
        if repr(other) != repr(model):
            label = type(other).__name__ + (" (default)" if type(other) is type(model) else "")
            reports[label] = _measured(other.fit(train, progress=False), train, held_out, threads)
    return _fitted(model.as_chosen(), whole, None, cluster, "final"), reports, [parts.how, *parts.notes]


def _measured(model: Recommender, train: Interactions, held_out: Interactions, threads: int) -> Report:
    k = min(10, train.n_items)
    return evaluate(model, held_out, seen=train, k=k, metrics=["P", "R", "NDCG", "MRR"], threads=threads)


def figures_table(reports: dict[str, Report], how: str) -> Table:
    """Figures of several models on the same held-out part, side by side, as fractions."""
    first = next(iter(reports.values()))
    title = f"on {how} ({max(first.n_users.values()):,} users), fractions from 0 to 1"
    table = Table(title=title, title_justify="left")
    table.add_column("model")
    for name in first.metrics:
        table.add_column(name, justify="right")
    for at, (name, report) in enumerate(reports.items()):
        figures = (f"{report[metric]:.3f}" for metric in first.metrics)
        table.add_row(name, *figures, style="bold" if at == 0 else "dim")
    return table
