"""Flags of the commands that read a table of interactions (tune, compare, run), as types of their parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataArgument = Annotated[
    str | None,
    typer.Argument(help="A Parquet, CSV or TSV file, the name of a data set, or town (synthetic)."),
]
User = Annotated[str | None, typer.Option("--user", help="Column of user ids; by default user.")]
Item = Annotated[str | None, typer.Option("--item", help="Column of item ids; by default item.")]
Rating = Annotated[str | None, typer.Option("--rating", help="Column of ratings, for --min-rating.")]
MinRating = Annotated[float | None, typer.Option("--min-rating", help="Keep rows with at least this rating.")]
Weight = Annotated[str | None, typer.Option("--weight", help="Column of weights: play counts, hours, ...")]
Timestamp = Annotated[str | None, typer.Option("--timestamp", help="Column of times, for splits by time.")]
MinUser = Annotated[int, typer.Option("--min-user", help="Drop users with fewer interactions.")]
MinItem = Annotated[int, typer.Option("--min-item", help="Drop items with fewer interactions.")]
Items = Annotated[Path | None, typer.Option("--items", help="File of item attributes: title, genres, ...")]
Users = Annotated[Path | None, typer.Option("--users", help="File of user attributes: age, likes, ...")]
HalfLife = Annotated[
    str | None, typer.Option("--half-life", help="With --timestamp: old interactions weigh less, such as 90d.")
]
Settings = Annotated[list[str] | None, typer.Option("--set", help="A parameter, key=value; may be repeated.")]
Seed = Annotated[int, typer.Option("--seed", help="Of the split, the search and the training.")]
Threads = Annotated[int, typer.Option("--threads", help="0 means all cores.")]
