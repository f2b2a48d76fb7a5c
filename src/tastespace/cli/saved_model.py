"""`tastespace evaluate`, `export`, `inspect`, `profile`, `attributes`, `index`, `explore`: work with a saved model."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer
from rich.table import Table

from tastespace import store
from tastespace._util.addresses import shown_address
from tastespace._util.terminal import Console
from tastespace.cli.arguments import (
    DelimiterOption,
    EncodingOption,
    HideCategoryOption,
    ImagesOption,
    ItemsIdOption,
    ModelArgument,
    NoHeaderOption,
    QueryOption,
    TextFlags,
    cast_ids,
    display_of,
    open_model,
    print_notes,
    read_item_attributes,
    replace_by_titles,
)
from tastespace.cli.flags import MinRating, Rating
from tastespace.cli.output import (
    FORMAT_HELP,
    Format,
    emit,
    is_table_output,
    show,
)
from tastespace.cli.recommend import by_interest
from tastespace.data import Interactions
from tastespace.data.attributes import category_column, item_categories
from tastespace.data.ids import parse_ids
from tastespace.data.reading.tables import named_files, to_polars
from tastespace.errors import DataError, ParameterError, UnknownIdError
from tastespace.evaluation import METRICS, TASTE_METRICS, Report
from tastespace.evaluation import evaluate as measure
from tastespace.evaluation.protocols import find_protocol
from tastespace.evaluation.shelf_checks import why_no_reasons
from tastespace.models import Blend, Recommender
from tastespace.models.profiles import Profile
from tastespace.recommend.stores.vectors import vector_model

# ---------------------------------------------------------------------------------------------------------------------
# `tastespace evaluate`, `export` and `inspect`: measure a saved model, write its vectors, show what is in its file.

_TASTES_AT = 20  # length of list of the metrics for users with several tastes


def evaluate(
    model: ModelArgument,
    test: Annotated[
        str,
        typer.Argument(
            help="File with held-out interactions, a folder of Parquet files, or an address (s3://, https://, or a "
            "database with --query)."
        ),
    ],
    user: Annotated[str | None, typer.Option(help="Column of user ids; by default user.")] = None,
    item: Annotated[str | None, typer.Option(help="Column of item ids; by default item.")] = None,
    rating: Rating = None,
    min_rating: MinRating = None,
    kind: Annotated[str | None, typer.Option(help="Column of kinds of events: view, purchase, dislike, ...")] = None,
    target: Annotated[
        str | None, typer.Option(help="With --kind: the only kind that counts, such as purchase; by default all.")
    ] = None,
    protocol: Annotated[str, typer.Option(help="full or paper.")] = "full",
    metric: Annotated[list[str] | None, typer.Option(help="P, NDCG@5, MAP, Coverage, ...; may be repeated.")] = None,
    k: Annotated[list[int] | None, typer.Option("-k", "--k", help="Cut-offs; may be repeated.")] = None,
    tastes: Annotated[
        bool,
        typer.Option(
            "--tastes",
            help="Add the metrics for users with several tastes, at -k or at 20, of the use of interests, and of what "
            "shelves say.",
        ),
    ] = False,
    seen: Annotated[
        list[str] | None,
        typer.Option(help="File or address of interactions to leave out besides the training data; may be repeated."),
    ] = None,
    items: Annotated[str | None, typer.Option(help="File of item attributes, in place of the model's own.")] = None,
    items_id: ItemsIdOption = None,
    column: Annotated[str | None, typer.Option(help="Item attribute that holds the categories.")] = None,
    on_unknown: Annotated[str, typer.Option(help="For ids that are not in the model: error or skip.")] = "error",
    only: Annotated[
        str | None, typer.Option(help="warm: users with a training history only; cold: those without; default: both.")
    ] = None,
    delimiter: DelimiterOption = None,
    no_header: NoHeaderOption = False,
    encoding: EncodingOption = None,
    query: QueryOption = None,
    format: Annotated[Format, typer.Option(help=FORMAT_HELP)] = Format.auto,
    threads: Annotated[int, typer.Option(help="0 means all cores.")] = 0,
) -> None:
    """Evaluate a saved model on held-out interactions; accuracy is given as fractions from 0 to 1."""
    opened = open_model(model)
    rules = find_protocol(protocol)
    if seen and not rules.exclude_validation:
        raise ParameterError(
            f"--seen {shown_address(seen[0])}: the protocol {protocol!r} leaves only training data out of the ranking. "
            "Use --protocol full, or no --seen."
        )

    text = TextFlags(delimiter, no_header, encoding)
    user_column, item_column = text.column("--user", user, "user"), text.column("--item", item, "item")
    assert user_column is not None
    assert item_column is not None
    messages = Console(stderr=True, soft_wrap=True)

    def read(path: str, query: str | None = None) -> Interactions:
        found = Interactions.from_files(
            named_files(path),
            user=user_column,
            item=item_column,
            rating=text.column("--rating", rating),
            min_rating=min_rating,
            kind=text.column("--kind", kind),
            events=None if kind is None else opened.train_.events,
            target=target,
            part=kind is not None,
            threads=threads,
            query=query,
            **text.for_reader(),
        )
        print_notes(found, messages)
        return cast_ids(found, opened.train_)

    attributes = None if items is None else read_item_attributes(items, opened.train_, item_column, items_id, text)
    wanted = metric or ["P", "R", "NDCG", "MAP", "MRR"]
    left_out: dict[str, list[str]] = {}
    if tastes:
        chosen, left_out = taste_metrics_for(opened, attributes, column)
        lengths = k or [min(_TASTES_AT, opened.train_.n_items)]
        at_k = [name for name in chosen if METRICS[name].at_k]
        wanted = [*wanted, *(f"{name}@{length}" for name in at_k for length in lengths)]
        wanted += [name for name in chosen if not METRICS[name].at_k]
    report = measure(
        opened,
        read(test, query),
        seen=[opened.train_, *map(read, seen)] if seen else None,
        protocol=rules,
        k=k or None,
        metrics=wanted,
        categories=column,
        item_attributes=attributes,
        on_unknown=on_unknown,
        only=only,
        threads=threads,
    )
    _print_report(report, f"{shown_address(test)}, protocol {protocol!r}", format)
    for line in report.history_note:
        messages.print(line.strip(), highlight=False)
    for reason, names in left_out.items():
        messages.print(f"left out: {', '.join(names)}: {reason}", highlight=False, markup=False)


def taste_metrics_for(
    model: Recommender, attributes: pl.DataFrame | None, column: str | None
) -> tuple[list[str], dict[str, list[str]]]:
    """The metrics for users with several tastes that this model allows, and those left out by their reason.

    ``attributes`` of the items replace the model's own, ``column`` names the one that holds the categories.
    """
    without_interests = _without_interests(model)
    reasons = {
        "categories": _without_categories(model, attributes, column),
        "interests": without_interests,
        "reasons": without_interests or why_no_reasons(model),
    }
    chosen: list[str] = []
    left_out: dict[str, list[str]] = {}
    for name in TASTE_METRICS:
        reason = reasons[METRICS[name].needs]
        (chosen if reason is None else left_out.setdefault(reason, [])).append(name)
    return chosen, left_out


def _without_categories(model: Recommender, attributes: pl.DataFrame | None, column: str | None) -> str | None:
    """Return the reason why there are no item categories; None where there are."""
    known = model.train_.item_attributes if attributes is None else attributes
    if column is not None:
        if known is None:
            raise ParameterError(f"--column {column}: the model has no item attributes; give them with --items FILE.")
        return None  # a column that does not exist or is empty is an error of the evaluation
    if known is None:
        return "the model has no item attributes; give them with --items FILE."
    found = category_column(known)
    if found is None:
        names = ", ".join(name for name in known.columns if name != "item")
        return f"no item attribute looks like categories ({names}); name one with --column."
    if not item_categories(known[found]).names:
        return f"no item has a category in the attribute {found!r}; name another with --column."
    return None


def _without_interests(model: Recommender) -> str | None:
    """Return the reason why users have no interests; None where they have."""
    space = model.interest_space()
    if space is None:
        return f"users have no interests, because {type(model).__name__} has no vectors."
    if np.diff(space.user_offsets).max(initial=0) < 2:
        if model.tastes() is not None:
            return "nobody has more than one taste."
        return f"{type(model).__name__} has one vector per user, which every item is nearest to."
    return None


def _print_report(report: Report, title: str, format: Format) -> None:
    rows = [
        {
            "metric": name,
            "value": None if math.isnan(value) else value,
            "unit": report.units[name],
            "users": report.n_users[name],
        }
        for name, value in report.metrics.items()
    ]
    if not is_table_output(format):
        emit(pl.DataFrame(rows, schema_overrides={"value": pl.Float64}), format)
        return
    table = Table(title=title, title_justify="left")
    table.add_column("metric")
    for column in ("value", "unit", "users"):
        table.add_column(column, justify="left" if column == "unit" else "right")
    for row in rows:
        value = "-" if row["value"] is None else f"{row['value']:.4f}"
        table.add_row(str(row["metric"]), value, str(row["unit"]), f"{row['users']:,}")
    Console().print(table)


Member = Annotated[
    str | None, typer.Option(help="Of a blend: the member with vectors, such as dpcml; default: that with most weight.")
]


def export(
    model: ModelArgument,
    out: Annotated[Path | None, typer.Argument(help="File (npz) or folder to write.")] = None,
    kind: Annotated[str, typer.Option(help="npz, parquet, faiss or usearch.")] = "npz",
    to: Annotated[
        str | None,
        typer.Option(
            help="Write to a database instead: qdrant://host:6333, lance://folder, pgvector://user@host/database, "
            "duckdb://file, sqlite://file; ?name=shop names its tables."
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --to: replace vectors of another dimension or metric, too.")
    ] = False,
    member: Member = None,
) -> None:
    """Write item and user vectors for a vector index or database."""
    if (out is None) == (to is None):
        raise ParameterError("export writes to a file or folder (export MODEL OUT) or to a database (--to): give one.")
    opened = open_model(model)
    if to is not None:
        with opened.export_to(to, replace=replace, member=member) as store:
            typer.echo(f"{store.address}: {store!r}")
        return
    if replace:
        raise ParameterError("--replace is for --to; files are always replaced.")
    assert out is not None
    for path in opened.export(out, kind, member=member):
        typer.echo(path)


def inspect(
    model: ModelArgument,
    verify: Annotated[bool, typer.Option("--verify", help="Read every byte and compare checksums.")] = False,
    format: Annotated[Format, typer.Option(help="table: formatted text, or json; auto: by the output.")] = Format.auto,
) -> None:
    """Describe a model file."""
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


# ---------------------------------------------------------------------------------------------------------------------
# `tastespace profile`, `attributes` and `index`: change a saved model, whose file is replaced as a whole.

_SHOWN_PAST = 3  # past items by which a person tells interests apart
_Out = Annotated[Path | None, typer.Option(help="Save the changed model here instead of in its own place.")]


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
    """Show the interests that a user has muted and boosted in the saved model, or change them."""
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
    """Return a user's interests with their state in the profile."""
    profile = model.profiles.get(user, Profile())
    found = to_polars(model.interests(user, _SHOWN_PAST))[0].select("interest", "weight", "name", "past")
    frame = replace_by_titles(found, model.train_, ("past",))
    numbers = frame["interest"].to_list()
    return frame.with_columns(
        pl.Series("muted", [x in profile.muted for x in numbers], dtype=pl.Boolean),
        pl.Series("boost", [float(profile.boosts.get(x, 1.0)) for x in numbers], dtype=pl.Float64),
    )


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
    member: Member = None,
    threads: Annotated[int, typer.Option(help="0 means all cores.")] = 0,
) -> None:
    """Build an index of the items and store it with the model, for recommend --index.

    A blend, such as fit makes, cannot be searched by an index: with --out, its member with vectors is saved there as a
    model of its own, with an index.
    """
    whole = open_model(model)
    if out is None and (member is not None or isinstance(whole, Blend)):
        raise ParameterError(
            f"{model} is a {type(whole).__name__}, which ranks by the scores of several members and cannot be searched "
            "by an index. Give --out DIRECTORY for the member with vectors, as a model of its own, with an index."
        )
    opened = vector_model(whole, member)
    opened.build_index(kind, threads)
    if opened is whole:
        _save(opened, model, out)
    else:  # the stored metrics are those of the blend
        opened.save(out or model)
    found = store.inspect(out or model)["index"]
    typer.echo(
        f"{out or model}: index of {opened.train_.n_items:,} items, {found['bytes'] / 1e6:.3g} MB, finds "
        f"{100 * found['recall@100']:.1f} % of the 100 best items of users"
    )


def diversity(
    model: ModelArgument,
    value: Annotated[float | None, typer.Argument(help="From 0, the plain list, to 1; none: show it.")] = None,
    out: _Out = None,
) -> None:
    """Show or change the diversity of the lists that a server and its page show by default.

    It is stored with the model and holds where a request gives neither mix nor diversity.
    """
    opened = open_model(model)
    if value is not None:
        opened.set_served_diversity(value)
        _save(opened, model, out)
    elif out is not None:
        raise ParameterError(f"--out {out}: nothing is changed; give a diversity from 0 to 1.")
    typer.echo(f"{opened.served_diversity:g}")


def _save(opened: Recommender, model: Path, out: Path | None) -> None:
    """Save the changed model, with the metrics that are stored with it."""
    opened.save(out or model, store.inspect(model)["metrics"])


# ---------------------------------------------------------------------------------------------------------------------
# `tastespace explore`: the page of some users as one file.


def explore(
    model: ModelArgument,
    users: Annotated[list[str] | None, typer.Argument(help="User ids; none: a sample with several interests.")] = None,
    out: Annotated[Path, typer.Option(help="The page: an .html file.")] = Path("page.html"),
    sample: Annotated[
        int | None, typer.Option(help="Number of users of the sample, where no ids are given: 5.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Directory of another model of the same users, to show alongside.")
    ] = None,
    images: ImagesOption = "none",
    hide_category: HideCategoryOption = None,
) -> None:
    """Write a page of some users that needs no server: shelves, map, sliders and explanations in one file."""
    from tastespace.answers.saved_page import save_page

    if users and sample is not None:
        raise ParameterError(f"--sample {sample} and user ids: give only one of them.")
    opened = open_model(model)
    try:
        save_page(
            opened,
            out,
            parse_ids(opened.train_.users, users) if users else None,
            n_users=5 if sample is None else sample,
            compare=None if compare is None else open_model(compare),
            name=model.name.removesuffix(".model"),
            compare_name=None if compare is None else compare.name.removesuffix(".model"),
            display=display_of(images, hide_category),
        )
    except UnknownIdError as problem:
        raise UnknownIdError(f"{problem} Without ids the page shows a sample of users.") from problem
    typer.echo(out)
