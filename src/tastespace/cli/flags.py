"""The flags by which commands read a table of interactions (fit, tune, compare, run, update), and the reading."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from tastespace._util.addresses import is_address, shown_address
from tastespace.cli.arguments import (
    DateFormatOption,
    DelimiterOption,
    EncodingOption,
    ItemsIdOption,
    NoHeaderOption,
    QueryOption,
    TextFlags,
    read_attributes,
    read_items,
)
from tastespace.data import Interactions, datasets, synthetic
from tastespace.data.reading.dates import seconds_of
from tastespace.data.reading.options import ALL_WITH_ATTRIBUTES, COLUMNS, check_events
from tastespace.data.reading.recbole import is_recbole
from tastespace.data.reading.tables import named_files
from tastespace.errors import ParameterError, require_path
from tastespace.models import Recommender, registry

DataArgument = Annotated[
    str | None,
    typer.Argument(help="A Parquet, CSV, TSV or JSON lines file, an address, the name of a data set, or town."),
]
Rating = Annotated[str | None, typer.Option("--rating", help="Column of ratings, for --min-rating.")]
MinRating = Annotated[float | None, typer.Option("--min-rating", help="Keep rows with at least this rating.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="A parameter, key=value; may be repeated.")]
Seed = Annotated[int, typer.Option("--seed", help="Random seed for the split, the search and the training.")]
Threads = Annotated[int, typer.Option("--threads", help="0 means all cores.")]

_DEFAULTS = {"user": "user", "item": "item"}  # columns that are read unless others are named
_FOR_ANY_TABLE = ("--min-user", "--min-item", "--half-life")


@dataclass(frozen=True)
class TableFlags:
    """Columns of a table that are read, rows that are kept, and the format of its text files."""

    user: Annotated[str | None, typer.Option("--user", help="Column of user ids; by default user.")] = None
    item: Annotated[str | None, typer.Option("--item", help="Column of item ids; by default item.")] = None
    rating: Rating = None
    min_rating: MinRating = None
    weight: Annotated[str | None, typer.Option("--weight", help="Column of weights: play counts, hours, ...")] = None
    timestamp: Annotated[str | None, typer.Option("--timestamp", help="Column of times, for splits by time.")] = None
    kind: Annotated[
        str | None, typer.Option("--kind", help="Column of kinds of events: view, cart, purchase, dislike, ...")
    ] = None
    event: Annotated[
        list[str] | None,
        typer.Option(
            "--event",
            help="With --kind: the weight of a kind, such as purchase=5; 0 leaves it out, -1 is a dislike; may be "
            "repeated. In a --config file the table [events].",
        ),
    ] = None
    half_life: Annotated[
        str | None, typer.Option("--half-life", help="With --timestamp: old interactions weigh less, such as 90d.")
    ] = None
    min_user: Annotated[int, typer.Option("--min-user", help="Drop users with fewer interactions.")] = 1
    min_item: Annotated[int, typer.Option("--min-item", help="Drop items with fewer interactions.")] = 1
    items: Annotated[
        str | None, typer.Option("--items", help="File or address of item attributes: title, genres, ...")
    ] = None
    items_id: ItemsIdOption = None
    all_items: Annotated[
        bool, typer.Option("--all-items", help="With --items: keep its items without interactions, too.")
    ] = False
    users: Annotated[
        str | None, typer.Option("--users", help="File or address of user attributes: age, likes, ...")
    ] = None
    delimiter: DelimiterOption = None
    no_header: NoHeaderOption = False
    encoding: EncodingOption = None
    date_format: DateFormatOption = None
    query: QueryOption = None

    @property
    def text(self) -> TextFlags:
        """Format of the text files."""
        return TextFlags(self.delimiter, self.no_header, self.encoding, self.date_format)

    def given(self) -> dict[str, object]:
        """The flags that are not left at their defaults, as they are written."""
        changed = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}
        return {f"--{name.replace('_', '-')}": value for name, value in changed.items()}

    def words(self) -> list[str]:
        """The words of a command line that gives these flags.

        >>> TableFlags(user="who", min_user=3, no_header=True).words()
        ['--user', 'who', '--min-user', '3', '--no-header']
        """
        return [
            word
            for flag, given in self.given().items()
            for value in (given if isinstance(given, list) else [given])
            for word in ([flag] if value is True else [flag, str(value)])
        ]

    def load(
        self,
        data: str | list[str],
        threads: int,
        *,
        part: bool = False,
        spill: Path | None = None,
        memory: str = "1GB",
        target: str | None = None,
        events: dict[str, float] | None = None,
    ) -> Interactions:
        """The interactions of files or of a named data set.

        ``target`` names the only kind of event that is read, ``events`` the weights of kinds where no flags do.
        ``part`` is for files of more interactions for the same model, which no named data set holds.
        """
        files = [data] if isinstance(data, str) else data
        name = files[0]
        is_name = not part and len(files) == 1 and (name == "town" or name in datasets.names())
        if is_name and not require_path(name).exists():
            for flag, value in (self.given() | ({} if spill is None else {"--spill": spill})).items():
                if flag not in _FOR_ANY_TABLE:
                    raise ParameterError(
                        f"{flag} {shown_address(str(value))}: {name} is a named data set and comes as it is; {flag} is "
                        "for a file of your own."
                    )
            named = synthetic.multi_interest(seed=0).interactions if name == "town" else datasets.load(name)
            return named.filter(min_user=self.min_user, min_item=self.min_item)
        if len(files) == 1 and not is_address(name) and is_recbole(name):
            return self._load_recbole(name, threads, part, spill)
        if self.items_id is not None and self.items is None:
            raise ParameterError(f"--items-id {self.items_id} is the column of ids in --items: give that file.")
        if self.all_items and self.items is None:
            raise ParameterError("--all-items keeps the items of --items: give that file.")
        text = self.text
        columns = {role: text.column(f"--{role}", getattr(self, role), _DEFAULTS.get(role)) for role in COLUMNS}
        user_key = columns["user"] if isinstance(columns["user"], str) else "user"
        options: dict[str, Any] = {
            **columns,
            **self._filters(),
            **text.for_reader(),
            "events": parse_events(self.event) or (None if self.kind is None else events),
            "target": target,
            "query": self.query,
            "user_attributes": None if self.users is None else read_attributes(self.users, user_key, "user", text),
            "item_attributes": None
            if self.items is None
            else read_items(self.items, columns["item"], self.items_id, text),
            "catalog": ALL_WITH_ATTRIBUTES if self.all_items else None,
            "spill": None if spill is None else spill / "interactions",
        }
        paths = [path for file in files for path in named_files(file)]
        return Interactions.from_files(paths, **options, part=part, threads=threads, memory=memory)

    def _filters(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("min_rating", "min_user", "min_item")}

    def _load_recbole(self, name: str, threads: int, part: bool, spill: Path | None) -> Interactions:
        allowed = {f"--{role}" for role in COLUMNS} | {"--min-rating", *_FOR_ANY_TABLE}
        for flag in (*self.given(), *([] if spill is None else ["--spill"])):
            if flag not in allowed:
                raise ParameterError(
                    f"{flag} with {name}: atomic files of RecBole say themselves what they hold. Leave one of them out."
                )
        columns = {role: getattr(self, role) for role in COLUMNS if getattr(self, role) is not None}
        options: dict[str, Any] = {**columns, **self._filters()}
        return Interactions.from_recbole(name, **options, part=part, threads=threads)

    def with_half_life(self, data: Interactions) -> Interactions:
        """The interactions with weights by age, where `--half-life` is given."""
        return data if self.half_life is None else data.with_half_life(self.half_life)


DEFAULT_TABLE = TableFlags()


def parse_events(texts: list[str] | None) -> dict[str, float] | None:
    """`--event`: the weight of each kind of event; None where none is given.

    >>> parse_events(["view=1", "purchase=5"])
    {'view': 1.0, 'purchase': 5.0}
    """
    if not texts:
        return None
    found: dict[str, float] = {}
    for text in texts:
        name, equals, weight = text.rpartition("=")
        try:
            found[name] = float(weight)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise ParameterError(f"--event {text}: expected a kind and its weight, such as --event purchase=5.")
    check_events(found)
    return found


def require_half_life(half_life: str | None, timestamp: str | None, model: Recommender | None = None) -> None:
    """Raise unless a half-life is a length of time, there are times that it is for, and the model uses weights."""
    if half_life is None:
        return
    seconds_of(half_life, "half_life")
    if timestamp is None:
        raise ParameterError(f"--half-life {half_life}: give --timestamp as well, the column of times.")
    if model is not None and not model.uses_weights:
        others = ", ".join(name for name, cls in registry().items() if cls.uses_weights)
        raise ParameterError(
            f"--half-life {half_life}: {type(model).__name__} does not use weights. Leave it out, or take a model that "
            f"uses them: {others}."
        )
