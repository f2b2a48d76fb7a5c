"""Parsers of the prepared Parquet tables: the layout of a folder in ``TASTESPACE_DATA``."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import polars as pl

from tastespace.data.datasets.file_sources import Files
from tastespace.data.datasets.publisher_parsers import steam_events, with_lists
from tastespace.data.datasets.views import Tables
from tastespace.errors import DataError


def read_parquet(files: Files, name: str, columns: Mapping[str, str], optional: Sequence[str] = ()) -> pl.DataFrame:
    """The named columns of a Parquet file under new names; whole numbers as Int64, so that ids are alike.

    ``optional`` columns come along, under their own names, where the file has them.
    """
    try:
        frame = pl.read_parquet(io.BytesIO(files.read(name)))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as problem:
        reason = next(iter(str(problem).splitlines()), type(problem).__name__)
        raise DataError(f"{name} cannot be read as Parquet ({reason})") from problem
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise DataError(f"{name} has no column {', '.join(missing)}; its columns are {', '.join(frame.columns)}")
    extra = [column for column in optional if column in frame.columns]
    frame = frame.select(*(pl.col(old).alias(new) for old, new in columns.items()), *extra)
    return frame.with_columns(pl.selectors.integer().cast(pl.Int64))


def movielens(files: Files) -> Tables:
    """``ratings.parquet`` and the authors' list ``interactions.parquet``, with movies and users."""
    events = authors = items = users = None
    if files.has("ratings.parquet"):
        names = {"user_id": "user", "movie_id": "item", "rating": "weight", "timestamp": "timestamp"}
        events = read_parquet(files, "ratings.parquet", names).with_columns(pl.col("weight").cast(pl.Float64))
    if files.has("interactions.parquet"):
        authors = _listed(files, {"user_id": "user", "item": "item"})
    if files.has("movies.parquet"):
        columns = {"movie_id": "item", "title": "title", "genres": "genres"}
        items = with_lists(read_parquet(files, "movies.parquet", columns))
    if files.has("users.parquet"):
        kept = {name: name for name in ("gender", "age", "occupation", "zip")}
        users = read_parquet(files, "users.parquet", {"user_id": "user", **kept})
    return Tables(events, authors, items, users)


def steam(files: Files) -> Tables:
    """``raw.parquet`` (the CSV's rows) and the authors' list, its indices turned into publisher's ids."""
    events = authors = items = None
    if files.has("raw.parquet"):
        names = {"steam_user_id": "user", "title": "title", "behaviour": "behavior", "value": "value"}
        events = steam_events(read_parquet(files, "raw.parquet", names))
    if files.has("items.parquet"):
        names = {"item": "index", "title": "item", "genres": "genres", "tags": "tags"}
        items = with_lists(read_parquet(files, "items.parquet", names), ("genres", "tags"))
    if items is not None and files.has("interactions.parquet") and files.has("users.parquet"):
        steam_users = read_parquet(files, "users.parquet", {"user": "index", "steam_user_id": "steam_id"})
        listed = _listed(files, {"user": "user", "item": "item"}).rename({"user": "u", "item": "i"})
        titles = items.select(pl.col("index").alias("i"), "item")
        authors = listed.join(steam_users.select(pl.col("index").alias("u"), pl.col("steam_id").alias("user")), on="u")
        authors = authors.join(titles, on="i").drop("u", "i")
    if items is not None:
        items = items.select("item", pl.col("item").alias("title"), "genres", "tags")
    return Tables(events, authors, items)


def citeulike(files: Files) -> Tables:
    """All pairs, the published split where there is one, and the text of each article's tags."""
    listed = _listed(files, {"user": "user", "item": "item"})
    items = None
    if files.has("item_tags.parquet") and files.has("tags.parquet"):
        pairs = read_parquet(files, "item_tags.parquet", {"item": "item", "tag": "tag"})
        texts = read_parquet(files, "tags.parquet", {"tag": "tag", "text": "text"})
        joined = pairs.join(texts, on="tag", maintain_order="left")
        items = joined.group_by("item").agg(pl.col("text").alias("tags")).sort("item")
    return Tables(listed.select("user", "item"), listed if "split" in listed.columns else None, items)


def xing(files: Files) -> Tables:
    """Pairs with how often they occurred; whether a job is held out as new is an attribute of the job."""
    columns = {"user": "user", "item": "item", "cold_item": "cold_item", "count": "weight"}
    events = read_parquet(files, "interactions.parquet", columns).with_columns(pl.col("weight").cast(pl.Float64))
    return Tables(events, items=events.select("item", "cold_item").unique().sort("item"))


def lastfm(files: Files) -> Tables:
    """Pairs with play counts, and the artists' names."""
    columns = {"user_id": "user", "artist_id": "item", "plays": "weight"}
    events = read_parquet(files, "interactions.parquet", columns).with_columns(pl.col("weight").cast(pl.Float64))
    items = None
    if files.has("artists.parquet"):
        items = read_parquet(files, "artists.parquet", {"artist_id": "item", "name": "title"})
    return Tables(events, items=items)


def anime(files: Files) -> Tables:
    """Ratings from 1 to 10; 0 stands for "watched, not rated"."""
    events = read_parquet(files, "interactions.parquet", {"user": "user", "item": "item", "rating": "weight"})
    events = events.with_columns(pl.col("weight").cast(pl.Float64).fill_null(0))
    items = None
    if files.has("items.parquet"):
        columns = {"item": "item", "title": "title", "genres": "genres", "type": "type"}
        items = with_lists(read_parquet(files, "items.parquet", columns))
    return Tables(events, items=items)


def pairs(files: Files) -> Tables:
    """Nothing but pairs."""
    return Tables(read_parquet(files, "interactions.parquet", {"user": "user", "item": "item"}))


def _listed(files: Files, columns: dict[str, str]) -> pl.DataFrame:
    """``interactions.parquet`` with its split, where it has one."""
    return read_parquet(files, "interactions.parquet", columns, optional=("split",))
