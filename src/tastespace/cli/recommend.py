"""`tastespace recommend`, `shelves`, `interests`, `map`, `explain` and `similar`: inference with a saved model."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import polars as pl
import typer
from rich.markup import escape

from tastespace._util.addresses import is_address, shown_address
from tastespace._util.terminal import Console, write_text
from tastespace.cli.arguments import (
    DelimiterOption,
    EncodingOption,
    ModelArgument,
    TextFlags,
    add_titles,
    open_model,
    parse_known,
    print_users_without_rows,
    read_histories,
    read_user_features,
    replace_by_titles,
)
from tastespace.cli.output import (
    FORMAT_HELP,
    Format,
    emit,
    is_table_output,
    show,
)
from tastespace.data.attributes import item_titles
from tastespace.data.ids import parse_ids
from tastespace.data.interactions import Interactions
from tastespace.data.reading.tables import to_polars
from tastespace.errors import ParameterError
from tastespace.models import Recommender
from tastespace.models.list_options import ListKeywords
from tastespace.recommend.lists import STREAMED
from tastespace.recommend.rerank.reranked import rerank as rerank_lists
from tastespace.recommend.rules.rules import Rules
from tastespace.recommend.shelves import Shelf

Number = TypeVar("Number", int, float)
_Format = Annotated[Format, typer.Option(help=FORMAT_HELP)]
_Out = Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")]
_K = Annotated[int, typer.Option("-k", "--k", help="Number of items per list.")]
_Filter = Annotated[str | None, typer.Option(help='Only items with these attributes, such as "year >= 1990".')]
_Wording = Annotated[
    Path | None, typer.Option(help="TOML file with other templates for customers, such as those of another language.")
]
_User = Annotated[str, typer.Argument(help="Id of a user.")]
_Rules = Annotated[
    Path | None, typer.Option(help="TOML file with rules: max_per, exclude, include, in_stock, pinned, ...")
]
_Titles = Annotated[bool, typer.Option("--titles", help="Titles of the items in csv, json and other rows, too.")]
_TitleColumn = Annotated[str | None, typer.Option(help="Item attribute that holds the titles; implies --titles.")]
_NoProfile = Annotated[
    bool, typer.Option("--no-profile", help="Without what the profiles of users have muted and boosted.")
]


def recommend(
    model: ModelArgument,
    users: Annotated[list[str] | None, typer.Argument(help="User ids; none: all users.")] = None,
    k: _K = 10,
    history: Annotated[
        list[str] | None,
        typer.Option(
            help="Item ids of a user not in the model, separated by commas, in quotes where needed; may be repeated."
        ),
    ] = None,
    history_file: Annotated[
        list[Path] | None,
        typer.Option(help="Text file with such a history in each line, written as in --history; may be repeated."),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(help="File with features of cold-start users: a column user and those of training."),
    ] = None,
    filter: _Filter = None,
    items: Annotated[list[str] | None, typer.Option("--item", help="Only among these items; may be repeated.")] = None,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Recommend items that a user has, too.")] = False,
    on_unknown: Annotated[
        str, typer.Option(help="Unknown users and those without a history: error, skip or popular.")
    ] = "error",
    rerank: Annotated[
        str | None, typer.Option(help="Choose the k from a longer list for diversity: dd, pd, mmr, dpp or calibrated.")
    ] = None,
    weight: Annotated[float, typer.Option(help="Weight of diversity when re-ranking, 0 to 1.")] = 0.5,
    pool: Annotated[int, typer.Option(help="Length of the list to re-rank.")] = 100,
    mix: Annotated[
        str | None,
        typer.Option(help="How interests share a list: nearest, scaled, proportional or calibrated."),
    ] = None,
    diversity: Annotated[float | None, typer.Option(help="Strength of the mix, 0 (the plain list) to 1.")] = None,
    column: Annotated[
        str | None, typer.Option(help="Attribute with the categories of --mix calibrated, or interest.")
    ] = None,
    mute: Annotated[list[int] | None, typer.Option(help="Leave out an interest of one user; may be repeated.")] = None,
    boost: Annotated[
        list[str] | None, typer.Option(help="Show more of an interest of one user: 2=1.5; may be repeated.")
    ] = None,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    rules: _Rules = None,
    no_profile: _NoProfile = False,
    titles: _Titles = False,
    title_column: _TitleColumn = None,
    format: _Format = Format.auto,
    out: _Out = None,
    after: Annotated[
        str | None,
        typer.Option(
            help="One page of a user's list: the token of the page before, '' for the first; printed for the next."
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="Write the lists to a database: postgresql://host/database?table=lists or redis://host:6379/0?key=lists."
        ),
    ] = None,
    threads: Annotated[int, typer.Option(help="0 means all cores.")] = 0,
    index: Annotated[
        str, typer.Option(help="exact: compare all items; ann: search near each interest (tastespace index).")
    ] = "exact",
) -> None:
    """Recommend items to some users, to all, or to users who are not in the model."""
    opened = open_model(model)
    train = opened.train_
    text = TextFlags(delimiter, encoding=encoding)
    if text != TextFlags() and features is None and not history_file:
        raise ParameterError("--delimiter and --encoding are for the files of --features and --history-file.")
    given_histories = read_histories(history or [], history_file or [], text)
    options: ListKeywords = {
        "exclude_seen": not include_seen,
        "items": parse_ids(train.items, items) if items else None,
        "filter": filter,
        "on_unknown": on_unknown,
        "mix": mix,
        "diversity": diversity,
        "column": column,
        "mute": mute,
        "boost": by_interest("--boost", boost or [], float, "2=1.5"),
        "rules": None if rules is None else _read_rules(rules, train),
        "profile": not no_profile,
        "threads": threads,
        "index": index,
    }
    shown_titles = title_column or titles
    if (mute or boost) and len(users or given_histories) != 1 and features is None:
        raise ParameterError("--mute and --boost concern one user: give one user id or one --history.")
    if rerank is not None and (mix is not None or diversity is not None or column is not None or boost):
        raise ParameterError("--rerank reorders the plain list: leave out --mix, --diversity, --column and --boost.")
    if rerank is not None and rules is not None:
        raise ParameterError(
            "--rerank reorders a list, after which it may break --rules: leave one out, or use --mix calibrated."
        )
    if rerank is not None and on_unknown == "popular":
        raise ParameterError("--on-unknown popular gives lists without scores, which --rerank needs: use skip.")
    if sum(map(bool, (given_histories, users, features))) > 1:
        raise ParameterError("give user ids, --history or --features, not several of them.")
    all_users = not users and not given_histories and features is None
    if to is not None:
        given = {"--history": given_histories, "--features": features, "--rerank": rerank, "--out": out}
        for flag, value in {**given, "--format": format is not Format.auto}.items():
            if value:
                raise ParameterError(
                    f"--to {shown_address(to)}: plain lists of users are written there; leave out {flag}."
                )
        if not is_address(to):
            raise ParameterError(f"--to {to}: expected an address such as redis://host:6379/0; --out is for files.")
        options["titles"] = shown_titles
        n_rows = opened.recommend_to(to, parse_ids(train.users, users) if users else None, k=k, **options)
        messages = Console(stderr=True, soft_wrap=True)
        messages.print(f"wrote {n_rows:,} rows to {shown_address(to)}", highlight=False, markup=False)
        return
    if out is not None and all_users and rerank is None and format is Format.auto and out.suffix in STREAMED:
        options["titles"] = shown_titles
        opened.recommend_to(out, k=k, **options)  # block by block: all lists may not fit into memory
        return
    n = k if rerank is None else max(k, pool)
    histories = [parse_known(train.items, one, on_unknown) for one in given_histories]
    wanted = parse_ids(train.users, users) if users else None
    if wanted and on_unknown == "skip":
        wanted = [one for one in wanted if one in train.users] or wanted
    if histories and rerank is not None:
        histories = [one for one in histories if one]
        if not histories:
            raise ParameterError("no item of any --history is in the model: nothing can be re-ranked.")
        opened, histories = opened.fold_in(histories), []  # re-ranking needs a model with vectors of these users
    user_features = None if features is None else read_user_features(features, train, text=text)
    if user_features is not None and rerank is not None:
        opened, user_features = opened.fold_in(features=user_features), None
    token = None
    if after is not None:
        if not wanted or len(wanted) != 1 or rerank is not None:
            raise ParameterError(
                "--after is for one user, without --rerank: tastespace recommend MODEL USER --after ''."
            )
        page = opened.recommend_page(wanted[0], n, after=after, **options)
        found, token = page.items, page.next
    elif user_features is not None:
        found = opened.recommend_for(None, n, features=user_features, **options)
    elif histories:
        found = opened.recommend_for(histories, n, **options)
    else:
        found = opened.recommend(wanted, n, **options)
    if rerank is not None:
        found = rerank_lists(found, opened, rerank, k, weight)
    frame = to_polars(found)[0]
    if features is None and not include_seen:
        asked: Iterable[Any]
        if given_histories:
            asked = range(len(given_histories)) if on_unknown == "error" else ()
        else:
            served = set(train.users.take(np.flatnonzero(opened.can_serve(np.arange(train.n_users)))))
            asked = [one for one in (train.users.series if wanted is None else wanted) if one in served]
        print_users_without_rows(frame, asked, {"--filter": filter, "--item": items, "--mute": mute})
    if shown_titles:
        frame = _with_titles(frame, train, shown_titles)
    if token is not None:
        Console(stderr=True, soft_wrap=True).print(f"next page: --after {token}", highlight=False, markup=False)
    if is_table_output(format, out):
        same = "distance" in frame.columns and frame["score"].eq_missing(-frame["distance"]).all()
        show((frame if shown_titles else add_titles(frame, train)).drop("score" if same else []))
    else:
        emit(frame, format, out)


def _with_titles(frame: pl.DataFrame, train: Interactions, titles: bool | str) -> pl.DataFrame:
    """A frame of lists with a column of titles after the items."""
    at = pl.Series(train.items.find(frame["item"]), dtype=pl.UInt32)
    return frame.insert_column(
        frame.columns.index("item") + 1, item_titles(train.item_attributes, titles).gather(at).alias("title")
    )


def _read_rules(path: Path, train: Interactions) -> Rules:
    """The rules in a file, with item ids in the type of the model's."""
    return Rules.from_file(path).with_ids(lambda texts: parse_ids(train.items, texts))


def shelves(
    model: ModelArgument,
    user: _User,
    k: _K = 10,
    each: Annotated[list[str] | None, typer.Option(help="Items for one interest, INTEREST=N; may be repeated.")] = None,
    mute: Annotated[list[int] | None, typer.Option(help="Leave an interest out; may be repeated.")] = None,
    boost: Annotated[list[str] | None, typer.Option(help="Show more of an interest: 2=1.5; may be repeated.")] = None,
    filter: _Filter = None,
    column: Annotated[str | None, typer.Option(help="Attribute that names the shelves.")] = None,
    rules: _Rules = None,
    no_profile: _NoProfile = False,
    titles: _Titles = False,
    title_column: _TitleColumn = None,
    wording: _Wording = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the shelves into this .png, .svg or .pdf file.")] = None,
    format: _Format = Format.auto,
    out: _Out = None,
) -> None:
    """Show a row of items for each of a user's interests."""
    opened = open_model(model)
    user_id = parse_ids(opened.train_.users, [user])[0]
    n_interests = len(to_polars(opened.interests(user_id, 1))[0])
    lengths = {**dict.fromkeys(range(n_interests), k), **by_interest("--each", each or [], int, "0=12")}
    found = opened.shelves(
        user_id,
        lengths,
        mute=mute or (),
        boost=by_interest("--boost", boost or [], float, "2=1.5"),
        filter=filter,
        column=column,
        wording=wording,
        rules=None if rules is None else _read_rules(rules, opened.train_),
        profile=not no_profile,
    )
    named = item_titles(opened.train_.item_attributes, title_column or titles) if title_column or titles else None
    if picture is not None:
        from tastespace.plots import draw_shelves

        draw_shelves(found, picture)
        typer.echo(picture)
        return
    if not is_table_output(format, out):
        frame = to_polars(found.to_frame())[0]
        emit(frame if named is None else _with_titles(frame, opened.train_, title_column or titles), format, out)
        return
    console = Console()
    share_of = "history" if any(shelf.because for shelf in found) else "interests"
    for shelf in found:
        numbers = ", ".join(map(str, shelf.interests))
        share = f"{100 * shelf.weight:.0f} % of the {share_of}"
        console.print(f"\n[bold]{escape(shelf.name)}[/]  [dim]{share}; interest {numbers}[/]")
        if shelf.label and shelf.because_titles:
            console.print(f"[dim]because of {escape(', '.join(shelf.because_titles))}[/]")
        for rank, title in enumerate(shelf.titles if named is None else _titles_of(shelf, opened, named), 1):
            console.print(f"  {rank:>2}  {escape(title)}", highlight=False)


def interests(
    model: ModelArgument,
    user: _User,
    k: _K = 5,
    column: Annotated[str | None, typer.Option(help="Attribute that names the interests.")] = None,
    format: _Format = Format.auto,
    out: _Out = None,
) -> None:
    """Show a user's interests: weight, name, past items and nearest items of each."""
    opened = open_model(model)
    frame = to_polars(opened.interests(parse_ids(opened.train_.users, [user])[0], k, column=column))[0]
    if is_table_output(format, out):
        show(replace_by_titles(frame, opened.train_, ("past", "nearest")))
    else:
        emit(frame, format, out)


def taste_map(
    model: ModelArgument,
    user: _User,
    out: Annotated[Path, typer.Option(help="The picture: a .png, .svg or .pdf file.")],
    filter: _Filter = None,
) -> None:
    """Draw a user's taste map: all items in the plane, the interests, the history, the recommendations."""
    from tastespace import plots

    opened = open_model(model)
    plots.taste_map(opened, parse_ids(opened.train_.users, [user])[0], out, filter=filter)
    typer.echo(out)


def explain(
    model: ModelArgument,
    user: _User,
    item: Annotated[str, typer.Argument(help="Id of an item.")],
    k: _K = 5,
    words: Annotated[bool, typer.Option("--words", help="A sentence for customers instead of numbers.")] = False,
    wording: _Wording = None,
    format: _Format = Format.auto,
) -> None:
    """Explain the rank of an item for a user."""
    opened = open_model(model)
    train = opened.train_
    user_id, item_id = parse_ids(train.users, [user])[0], parse_ids(train.items, [item])[0]
    if words or wording is not None:
        sentence = opened.explain(user_id, item_id, k, words=True, wording=wording)
        if format in (Format.auto, Format.table):
            write_text(f"{sentence}\n")
        else:
            emit(pl.DataFrame({"user": [user_id], "item": [item_id], "words": [sentence]}), format)
        return
    found = opened.explain(user_id, item_id, k)
    if is_table_output(format):
        Console().print(escape(str(found)), highlight=False)
    elif format in (Format.auto, Format.json):
        write_text(json.dumps(found.to_dict(), indent=1, default=str, ensure_ascii=False) + "\n")
    else:
        plain = found.to_dict()
        for name in ("beside", "because"):
            plain[name] = [str(one["item"]) for one in plain[name]]
        lists = {name: pl.List(pl.String) for name in ("beside", "because")}  # also where one is empty
        emit(pl.DataFrame([plain], schema_overrides=lists), format)


def similar(
    model: ModelArgument,
    ids: Annotated[list[str], typer.Argument(help="Item ids (or user ids, with --users).")],
    k: _K = 10,
    users: Annotated[bool, typer.Option("--users", help="Users like these users.")] = False,
    format: _Format = Format.auto,
    out: _Out = None,
) -> None:
    """List items like an item, or users like a user."""
    opened = open_model(model)
    train = opened.train_
    if users:
        frame = to_polars(opened.similar_users(parse_ids(train.users, ids), k))[0]
    else:
        frame = to_polars(opened.similar_items(parse_ids(train.items, ids), k))[0]
    if is_table_output(format, out):
        shown = frame if users else add_titles(frame, train, "similar")
        show(shown.drop("score" if "distance" in frame.columns else []))
    else:
        emit(frame, format, out)


def _titles_of(shelf: Shelf, model: Recommender, titles: pl.Series) -> list[str]:
    """Titles of the items on a shelf, ids where there are none."""
    found = titles.gather(pl.Series(model.train_.items.find(shelf.items), dtype=pl.UInt32))
    return [title or str(item) for title, item in zip(found, shelf.items, strict=True)]


def by_interest(flag: str, texts: list[str], kind: type[Number], example: str) -> dict[int, Number]:
    """``["2=1.5"]`` as ``{2: 1.5}``; ``flag`` and ``example`` are for the error."""
    found = {}
    for text in texts:
        interest, _, value = text.partition("=")
        try:
            found[int(interest)] = kind(value)
        except ValueError:
            raise ParameterError(f"{flag} {text}: expected interest=number, such as {flag} {example}.") from None
    return found
