"""`tastespace delete-user`, `user-data`, `put-item` and `delete-item`: what a server does over HTTP, on its store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tastespace.cli.arguments import ModelArgument, open_model
from tastespace.data.ids import parse_ids
from tastespace.errors import ParameterError

if TYPE_CHECKING:
    from tastespace.data import Interactions
    from tastespace.models import Recommender
    from tastespace.serve.feedback.store import FeedbackStore

StoreOption = Annotated[
    str | None, typer.Option(help="Feedback store of the server; default: the file next to the model.")
]
UserArgument = Annotated[str, typer.Argument(help="Id of the user.")]
ItemArgument = Annotated[str, typer.Argument(help="Id of the item.")]


def delete_user(model: ModelArgument, user: UserArgument, store: StoreOption = None) -> None:
    """Delete all that is kept of a user: feedback, profile, lists that were shown.

    Running servers treat the user as unknown from the next request on, and the next update --feedback fits a model
    without the user; until then the model file holds the history, which is printed. Feedback that comes later is that
    of somebody new.
    """
    from tastespace.serve.deletion import remains_of

    with _opened(model, store) as (opened, kept):
        found = parse_ids(opened.train_.users, [user])[0]
        gone = kept.delete_user(found)
        left = remains_of(opened, found)
    profile = " and a profile" if gone.has_profile else ""
    typer.echo(f"deleted {_number(gone.events, 'event')}{profile}, and {_number(gone.lists, 'shown list')}")
    if left is not None:
        typer.echo(
            f"the model file still holds {_number(left[0], 'interaction')} and {_number(left[1], 'dislike')}; no "
            "server uses them, and tastespace update --feedback fits a model without them"
        )


def user_data(model: ModelArgument, user: UserArgument, store: StoreOption = None) -> None:
    """Print all that is kept of a user as JSON: history in the model, events, profile, lists that were shown."""
    from tastespace.serve.deletion import learned_of

    with _opened(model, store) as (opened, kept):
        found = parse_ids(opened.train_.users, [user])[0]
        data = kept.user_data(found)
        learned = learned_of(opened, found)
    whole = {"user": user, "model": learned, "events": data.events, "profile": data.profile, "shown": data.shown}
    typer.echo(json.dumps(whole, indent=1, ensure_ascii=False, default=str))


def put_item(
    model: ModelArgument,
    item: ItemArgument,
    set: Annotated[
        list[str] | None, typer.Option(help="Attribute of the item: price=12; several may be given.")
    ] = None,
    unavailable: Annotated[bool, typer.Option("--unavailable", help="Leave the item out of all lists.")] = False,
    store: StoreOption = None,
) -> None:
    """Change attributes and availability of an item, or add a new one, in place of what was said of it before.

    Running servers leave out unavailable items from the next list on. A new item, which the model lacks, is recommended
    like the items that it resembles, until an update with --new-items learns it.
    """
    from tastespace.serve.feedback.removals import StoredItem
    from tastespace.serve.items import attribute_rows
    from tastespace.serve.served_model import ServedModel

    with _opened(model, store) as (opened, kept):
        given = _attributes(opened, set or [])
        found = parse_ids(opened.train_.items, [item])[0]
        attribute_rows(ServedModel(opened, model, ""), [(found, given)])
        kept.put_item(StoredItem(found, given, not unavailable))
        is_new = opened.train_.items.find([found])[0] < 0
    typer.echo(f"stored: {'not available' if unavailable else 'available'}{', new to the model' if is_new else ''}")


def delete_item(model: ModelArgument, item: ItemArgument, store: StoreOption = None) -> None:
    """Leave an item out of all lists at once, and out of the next model that is fitted again."""
    from tastespace.serve.feedback.removals import StoredItem

    with _opened(model, store) as (opened, kept):
        found = parse_ids(opened.train_.items, [item])[0]
        if opened.train_.items.find([found])[0] < 0 and kept.item(found) is None:
            raise ParameterError(f"there is no item {item!r} in the model or in the store.")
        kept.put_item(StoredItem(found, {}, False, True))
    typer.echo("deleted: it is in no list, and not in the next model that is fitted again")


def without_deleted(data: Interactions, location: str) -> tuple[Interactions, int, str]:
    """Data without what was deleted in a feedback store, the number of the last tombstone, and what to print."""
    from tastespace.serve.feedback.store import open_feedback_store
    from tastespace.serve.feedback.training import obeying

    if "://" not in location and not Path(location).exists():
        raise ParameterError(f"--feedback {location}: there is no such file. Give the --store of the server.")
    store = open_feedback_store(location)
    try:
        found, removal = obeying(data, store)
    finally:
        store.close()
    users, items = data.n_users - found.n_users, data.n_items - found.n_items
    left = f"left out: {_number(users, 'user')} and {_number(items, 'item')} that were deleted"
    return found, removal, f"{left}, {_number(data.n_interactions - found.n_interactions, 'interaction')}"


def note_obeyed(location: str, model: Path, removal: int) -> None:
    """Note in a feedback store that a model was fitted without the users up to this tombstone."""
    from tastespace.serve.feedback.store import open_feedback_store
    from tastespace.serve.served_model import model_checksum

    store = open_feedback_store(location)
    try:
        store.note_learned(model_checksum(model), 0, removal)
    finally:
        store.close()


def _number(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


@contextmanager
def _opened(model: Path, location: str | None) -> Iterator[tuple[Recommender, FeedbackStore]]:
    """The model and the store of its server."""
    from tastespace.serve.feedback.store import open_feedback_store
    from tastespace.serve.settings import ServerSettings

    opened = open_model(model)
    store = open_feedback_store(ServerSettings(model, store=location).store_location)
    try:
        yield opened, store
    finally:
        store.close()


def _attributes(model: Recommender, given: list[str]) -> dict[str, Any]:
    """Attributes of a command line in the types of the model's own."""
    frame = model.train_.item_attributes
    found: dict[str, Any] = {}
    for one in given:
        name, is_given, text = one.partition("=")
        if not is_given:
            raise ParameterError(f"--set {one}: expected NAME=VALUE, such as price=12.")
        kind = None if frame is None else frame.schema.get(name)
        try:
            if kind is not None and kind.is_integer():
                found[name] = int(text)
            elif kind is not None and kind.is_float():
                found[name] = float(text)
            elif str(kind) == "Boolean":
                found[name] = {"true": True, "false": False}[text.lower()]
            else:
                found[name] = text.split("|") if str(kind).startswith("List") else text
        except (ValueError, KeyError):
            raise ParameterError(f"--set {one}: expected a value of the type {kind}.") from None
    return found
