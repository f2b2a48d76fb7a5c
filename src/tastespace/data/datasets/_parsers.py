"""Parsers of prepared Parquet tables, of the publishers' own formats, of packages, and of side information."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from tastespace.data.datasets._views import Tables
from tastespace.data.datasets.files import Files
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError

# ---------------------------------------------------------------------------------------------------------------------
# Parsers of the prepared Parquet tables: the layout of a folder in ``TASTESPACE_DATA``.


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
    """Nothing but pairs, and the published split where there is one."""
    listed = _listed(files, {"user": "user", "item": "item"})
    return Tables(listed.select("user", "item"), listed if "split" in listed.columns else None)


def _listed(files: Files, columns: dict[str, str]) -> pl.DataFrame:
    """``interactions.parquet`` with its split, where it has one."""
    return read_parquet(files, "interactions.parquet", columns, optional=("split",))


# ---------------------------------------------------------------------------------------------------------------------
# Parsers of the publishers' own formats, and of the packages that ship MovieLens.

_RATING = {"user": pl.Int64, "item": pl.Int64, "weight": pl.Float64, "timestamp": pl.Int64}
# fmt: off
_GENRES_100K = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama",
    "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)
# The package names movies by title, in the order of movies.dat, which is ascending and lacks only these ids.
_UNUSED_IDS_1M = frozenset((
    91, 221, 323, 622, 646, 677, 686, 689, 740, 817, 883, 995, 1048, 1072, 1074, 1182, 1195, 1229, 1239, 1338,
    1402, 1403, 1418, 1435, 1451, 1452, 1469, 1478, 1481, 1491, 1492, 1505, 1506, 1512, 1521, 1530, 1536, 1540,
    1560, 1576, 1607, 1618, 1634, 1637, 1638, 1691, 1700, 1712, 1736, 1737, 1745, 1751, 1761, 1763, 1766, 1775,
    1778, 1786, 1790, 1800, 1802, 1803, 1808, 1813, 1818, 1823, 1828, 1838, 3815,
))
# fmt: on
_LAST_ID_1M = 3952


def movielens_dat(files: Files) -> Tables:
    """MovieLens 1M and 10M: ``ratings.dat``, and ``movies.dat`` and ``users.dat`` where they are there."""
    items = users = None
    if files.has("movies.dat"):
        movies = _text(files, "movies.dat", ("item", "title", "genres"), separator="::")
        items = with_lists(movies.with_columns(pl.col("item").cast(pl.Int64)))
    if files.has("users.dat"):
        users = _text(files, "users.dat", ("user", "gender", "age", "occupation", "zip"), separator="::")
        users = users.with_columns(pl.col("user", "age", "occupation").cast(pl.Int64))
    events = _typed(_text(files, "ratings.dat", tuple(_RATING), separator="::"), "ratings.dat")
    return Tables(events, items=items, users=users)


def movielens_100k(files: Files) -> Tables:
    """MovieLens 100K: ``u.data``, and ``u.item`` and ``u.user`` where they are there."""
    items = users = None
    if files.has("u.item"):
        flags = [f"genre_{i}" for i in range(len(_GENRES_100K))]
        columns = ("item", "title", "release_date", "video_date", "address", *flags)
        genres = pl.concat_list(
            pl.when(pl.col(flag) == "1").then(pl.lit(genre)) for flag, genre in zip(flags, _GENRES_100K, strict=True)
        )
        items = _text(files, "u.item", columns, separator="|").select(
            pl.col("item").cast(pl.Int64), "title", "release_date", genres.list.drop_nulls().alias("genres")
        )
    if files.has("u.user"):
        users = _text(files, "u.user", ("user", "age", "gender", "occupation", "zip"), separator="|")
        users = users.with_columns(pl.col("user", "age").cast(pl.Int64))
    return Tables(_typed(_text(files, "u.data", tuple(_RATING)), "u.data"), items=items, users=users)


def movielens_1m_package(files: Files) -> Tables:
    """MovieLens 1M as a package ships it: complete, but with titles in place of movie ids."""
    movies = _text(files, "ml-1m.item", ("title", "short_title", "year", "genres"), header=True)
    ids = [i for i in range(1, _LAST_ID_1M + 1) if i not in _UNUSED_IDS_1M]
    if movies.height != len(ids):
        raise DataError(f"ml-1m.item has {movies.height:,} movies, expected {len(ids):,}")
    movies = movies.with_columns(pl.Series("item", ids))
    rows = _text(files, "ml-1m.inter", ("user", "title", "weight", "timestamp"), header=True)
    rows = rows.join(movies.select("title", "item"), on="title", how="left", maintain_order="left")
    rows = rows.with_columns(pl.col("user").str.strip_prefix("1m_"))
    users = _text(files, "ml-1m.user", ("user", "age", "gender", "occupation", "zip"), header=True).with_columns(
        pl.col("user").str.strip_prefix("1m_").cast(pl.Int64), pl.col("age", "occupation").cast(pl.Int64)
    )
    items = movies.select("item", "title", pl.col("genres").str.split(" "))
    return Tables(_typed(rows, "ml-1m.inter"), items=items, users=users)


def movielens_100k_package(files: Files) -> Tables:
    """MovieLens 100K as a package ships it, with the publisher's ids."""
    events = _typed(_text(files, "ml-100k.inter", tuple(_RATING), header=True), "ml-100k.inter")
    items = _text(files, "ml-100k.item", ("item", "title", "year", "genres"), header=True).select(
        pl.col("item").cast(pl.Int64),
        pl.format("{} ({})", "title", "year").alias("title"),
        pl.col("genres").str.split(" "),
    )
    users = _text(files, "ml-100k.user", ("user", "age", "gender", "occupation", "zip"), header=True)
    return Tables(events, items=items, users=users.with_columns(pl.col("user", "age").cast(pl.Int64)))


def steam_csv(files: Files) -> Tables:
    """Steam-200k: rows of Steam user id, title, "purchase" or "play", value (hours of a play)."""
    columns = ("user", "title", "behavior", "value", "zero")
    return Tables(steam_events(_text(files, "steam-200k.csv", columns, separator=",", quote='"')))


def steam_events(rows: pl.DataFrame) -> pl.DataFrame:
    """Each distinct purchase once, with weight 1 + hours played."""
    rows = rows.select(
        pl.col("user").cast(pl.Int64),
        pl.col("title").alias("item"),
        "behavior",
        pl.col("value").cast(pl.Float32).cast(pl.Float64),
    )
    bought = rows.filter(pl.col("behavior") == "purchase").select("user", "item").unique(maintain_order=True)
    played = rows.filter(pl.col("behavior") == "play").group_by("user", "item").agg(pl.col("value").sum())
    return bought.join(played, on=["user", "item"], how="left", maintain_order="left").select(
        "user", "item", (1 + pl.col("value").fill_null(0)).alias("weight")
    )


def citeulike_users(files: Files) -> Tables:
    """CiteULike: a line per user with the number of articles, then their ids; the line number is the user."""
    lines = files.read("users.dat").split(b"\n")
    while lines and not lines[-1].strip():
        lines.pop()
    counts = np.zeros(len(lines), dtype=np.int64)
    items: list[int] = []
    for row, line in enumerate(lines):
        try:
            numbers = [int(field) for field in line.split()]
        except ValueError as problem:
            raise DataError(f"users.dat, line {row + 1}: expected whole numbers only") from problem
        if not numbers or numbers[0] != len(numbers) - 1:
            raise DataError(
                f"users.dat, line {row + 1}: {max(0, len(numbers) - 1)} articles, but its first number says "
                f"{numbers[0] if numbers else 'nothing'}; the file may be cut off"
            )
        counts[row] = numbers[0]
        items += numbers[1:]
    users = np.repeat(np.arange(len(lines)), counts)
    return Tables(pl.DataFrame({"user": users, "item": np.asarray(items, dtype=np.int64)}))


def lastfm_dat(files: Files) -> Tables:
    """HetRec 2011 Last.fm: ``user_artists.dat``, and ``artists.dat`` where it is there."""
    items = None
    if files.has("artists.dat"):
        artists = _text(files, "artists.dat", ("item", "title", "address", "picture"), header=True)
        items = artists.select(pl.col("item").cast(pl.Int64), "title")
    columns = ("user", "item", "weight")
    return Tables(_typed(_text(files, "user_artists.dat", columns, header=True), "user_artists.dat"), items=items)


def with_lists(frame: pl.DataFrame, columns: Sequence[str] = ("genres",)) -> pl.DataFrame:
    """Columns of '|'-separated text as lists of strings, null where there was no text."""
    return frame.with_columns(
        pl.when(pl.col(column) != "").then(pl.col(column).str.split("|")).alias(column) for column in columns
    )


def _text(
    files: Files,
    name: str,
    columns: Sequence[str],
    *,
    separator: str = "\t",
    quote: str | None = None,
    header: bool = False,
) -> pl.DataFrame:
    """A file of separated text, all columns as strings; the columns are named here, not by the header."""
    raw = files.read(name)
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        raw = raw.decode("latin-1").encode("utf-8")  # what older MovieLens files are written in
    if len(separator) > 1:
        raw, separator = raw.replace(separator.encode(), b"\t"), "\t"
    try:
        frame = pl.read_csv(
            io.BytesIO(raw),
            separator=separator,
            quote_char=quote,
            has_header=header,
            infer_schema=False,
        )
    except pl.exceptions.PolarsError as problem:
        raise DataError(f"{name} cannot be read ({str(problem).splitlines()[0]})") from problem
    if frame.width != len(columns):
        raise DataError(f"{name} has {frame.width} columns, expected {len(columns)} ({', '.join(columns)})")
    return frame.rename(dict(zip(frame.columns, columns, strict=True)))


def _typed(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Ids, weight and timestamp as numbers; a row that lacks one is an error with its number."""
    wanted = [column for column in _RATING if column in rows.columns]
    typed = rows.select(pl.col(column).cast(_RATING[column], strict=False) for column in wanted)
    bad = typed.select(pl.any_horizontal(pl.all().is_null())).to_series().arg_true()
    if len(bad):
        raise DataError(
            f"{name}, row {bad[0] + 1} of {typed.height:,}: {rows.row(bad[0])}, expected a number for "
            f"each of {', '.join(wanted)}; the file may be cut off"
        )
    return typed


# ---------------------------------------------------------------------------------------------------------------------
# Side information as sparse matrices, row by row in the order of an `Interactions`' ids.


class Content(TypedDict):
    """Feature matrices, None for a side without any."""

    user: sp.csr_array | None
    """Shape ``(n_users, n_user_features)``."""
    item: sp.csr_array | None
    """Shape ``(n_items, n_item_features)``."""


def job_content(files: Files, data: Interactions) -> Content:
    """XING: 831 features of each user, 2,738 of each job, float32."""
    return Content(
        user=_rows_of(_matrix(files, "user_content.npz"), data.users, "user_content.npz"),
        item=_rows_of(_matrix(files, "item_content.npz"), data.items, "item_content.npz"),
    )


def article_tags(files: Files, data: Interactions) -> Content:
    """CiteULike: which tags an article has, 0 or 1."""
    pairs = read_parquet(files, "item_tags.parquet", {"item": "item", "tag": "tag"})
    n_tags = read_parquet(files, "tags.parquet", {"tag": "tag"}).height
    return Content(user=None, item=_indicator(data.items, pairs["item"], pairs["tag"].to_numpy(), n_tags))


def friends(files: Files, data: Interactions) -> Content:
    """Last.fm: who is whose friend, users x users, 0 or 1."""
    links = read_parquet(files, "friends.parquet", {"user_id": "user", "friend_id": "friend"})
    place = data.users.find(links["friend"])
    known = place >= 0
    return Content(
        user=_indicator(data.users, links["user"].filter(pl.Series(known)), place[known], data.n_users),
        item=None,
    )


def _matrix(files: Files, name: str) -> sp.csr_array:
    try:
        return sp.csr_array(sp.load_npz(io.BytesIO(files.read(name))))
    except (ValueError, OSError, KeyError, zipfile.BadZipFile) as problem:
        raise DataError(f"{name} cannot be read as a sparse matrix ({problem})") from problem


def _rows_of(matrix: sp.csr_array, ids: IdMap, name: str) -> sp.csr_array:
    """The rows of a matrix whose row number is the id."""
    wanted = ids.series
    if not wanted.dtype.is_integer() or not wanted.is_between(0, matrix.shape[0] - 1).all():
        raise DataError(
            f"{name} has rows 0 to {matrix.shape[0] - 1:,}, but there are ids such as {ids[len(ids) - 1]!r}; "
            "expected the interactions of the same data set"
        )
    return sp.csr_array(matrix[wanted.to_numpy()])


def _indicator(ids: IdMap, rows: pl.Series, columns: NDArray[np.int64], n_columns: int) -> sp.csr_array:
    """Ones at (id, column), rows in the order of ``ids``; rows of unknown ids are left out."""
    place = ids.find(rows)
    known = place >= 0
    if not known.any():
        raise DataError(
            f"none of the ids in the content, such as {rows[0]!r}, is one of the {len(ids):,} given, such as "
            f"{ids[0]!r}; expected the interactions of the same data set"
        )
    ones = np.ones(int(known.sum()), dtype=np.float32)
    matrix = sp.csr_array((ones, (place[known], columns[known])), shape=(len(ids), n_columns))
    matrix.data[:] = 1.0  # a pair listed twice is still one
    return matrix
