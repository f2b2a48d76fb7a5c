"""Endpoints that delete and show what is kept of a user, and that change items."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct

from tastespace._util.limits import FEATURE_NAME, ITEM_BYTES
from tastespace.answers.ids import id_from_text, json_id, new_id_in_type
from tastespace.answers.types import Id, UnknownAnswerError
from tastespace.data.interactions import Interactions
from tastespace.models.base import Recommender
from tastespace.serve.endpoint_table import RequestContext
from tastespace.serve.errors import HttpError
from tastespace.serve.feedback.removals import StoredItem
from tastespace.serve.items import attribute_rows
from tastespace.serve.state import Slot

Attribute = bool | int | float | str | list[str] | None
ADVICE = "The next tastespace update --feedback fits a model without it."


class Remains(Struct):
    """Data of a deleted user that the served model still holds; no answer uses it."""

    model: int
    """Generation."""
    interactions: int
    dislikes: int
    attributes: bool


class DeletedUserAnswer(Struct):
    """Numbers of what was deleted of a user, and of what remains in the model."""

    user: Id
    events: int
    profile: bool
    lists: int
    """Shown lists that were kept."""
    remains: Remains | None
    """None where the model does not know the user."""
    advice: str = ""


class UserDataAnswer(Struct):
    """All that is kept of a user: in the model and in the feedback store."""

    user: Id
    model: dict[str, Any] | None
    """History, dislikes and attributes that the model learned from; None where it does not know the user."""
    events: list[dict[str, Any]]
    profile: dict[str, Any] | None
    shown: list[dict[str, Any]]
    """Lists that were shown."""


class ItemBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Attributes and availability of an item, in place of those given before."""

    attributes: dict[Annotated[str, Meta(max_length=FEATURE_NAME)], Attribute] = {}
    """Values of the model's item attributes; others stay as they are."""
    available: bool = True
    """False: in no list."""


class ItemAnswer(Struct):
    """Attributes and availability of an item."""

    item: Id
    available: bool
    deleted: bool
    is_new: bool
    """True where the model lacks it: it is recommended like items that resemble it."""
    recommendable: bool
    """False where it is not available, or new without attributes or takers by which to place it."""


async def delete_user(call: RequestContext) -> Any:
    """Delete all that is kept of a user; the answer says what remains in the model until it is fitted again."""
    user = call.slot.served.user_id(call.path["user"])
    gone = await call.state.compute(call.state.store.delete_user, user)
    found = remains_of(call.slot.served.model, user)
    remains = None if found is None else Remains(call.slot.served.generation, *found)
    await call.state.compute(call.slot.people.refresh)
    advice = "" if remains is None else ADVICE
    return DeletedUserAnswer(json_id(user), gone.events, gone.has_profile, gone.lists, remains, advice)


async def user_data(call: RequestContext) -> Any:
    """All that is kept of a user."""
    user, slot = call.slot.served.user_id(call.path["user"]), call.slot
    kept = await call.state.compute(call.state.store.user_data, user)
    await call.state.compute(slot.people.refresh)
    learned = None if user in slot.people.hidden else learned_of(slot.served.model, user)
    return UserDataAnswer(json_id(user), learned, kept.events, kept.profile, kept.shown)


async def put_item(call: RequestContext) -> Any:
    """Change attributes and availability of an item, or add a new one, which can be recommended at once."""
    body: ItemBody = call.body
    train = call.slot.served.train
    item = new_id_in_type(train.items, id_from_text(train.items, call.path["item"], "item"), "item")
    attributes = {name: value for name, value in body.attributes.items() if value is not None}
    if len(msgspec.json.encode(attributes)) > ITEM_BYTES:
        raise HttpError(
            413, "item_too_large", f"the attributes have more than {ITEM_BYTES:,} bytes.", "Send shorter ones."
        )
    attribute_rows(call.slot.served, [(item, attributes)])  # 422 for those that do not fit
    await call.state.compute(call.state.store.put_item, StoredItem(item, attributes, body.available))
    return await call.state.compute(_item_answer, call.slot, item, body.available, False)


async def delete_item(call: RequestContext) -> Any:
    """Leave an item out of all lists at once, and out of the next model that is fitted."""
    item, store = call.slot.served.item_id(call.path["item"]), call.state.store
    is_known = call.slot.served.train.items.find([item])[0] >= 0
    if not is_known and await call.state.compute(store.item, item) is None:
        raise UnknownAnswerError("unknown_item", f"there is no item {call.path['item'][:80]}.")
    await call.state.compute(store.put_item, StoredItem(item, {}, False, True))
    return await call.state.compute(_item_answer, call.slot, item, False, True)


def _item_answer(slot: Slot, item: Any, is_available: bool, is_deleted: bool) -> ItemAnswer:
    slot.people.refresh()
    is_new = bool(slot.served.train.items.find([item])[0] < 0)
    is_placed = is_available
    if is_new and is_available:
        new = slot.people.new_items()
        is_placed = new is not None and item in new.ids and bool(new.stand_ins[[new.ids.index(item)]].nnz)
    return ItemAnswer(json_id(item), is_available, is_deleted, is_new, is_placed)


def remains_of(model: Recommender, user: Any) -> tuple[int, int, bool] | None:
    """Interactions, dislikes and whether there are attributes of a user in a model; None where it knows none."""
    train = model.train_
    row = int(train.users.find([user])[0])
    if row < 0:
        return None
    return int(train.user_counts[row]), int(np.diff(train.disliked[0])[row]), train.user_attributes is not None


def learned_of(model: Recommender, user: Any) -> dict[str, Any] | None:
    """History, dislikes and attributes of a user in a model; None where it knows none."""
    train: Interactions = model.train_
    row = int(train.users.find([user])[0])
    if row < 0:
        return None
    offsets, disliked = train.disliked
    found: dict[str, Any] = {
        "items": [json_id(one) for one in train.items_of(user)],
        "dislikes": [json_id(one) for one in train.items.take(disliked[offsets[row] : offsets[row + 1]]).to_list()],
    }
    if train.user_attributes is not None:
        found["attributes"] = {name: _plain(one) for name, one in train.user_attributes.row(row, named=True).items()}
    profile = model.profiles.get(user)
    if profile is not None:
        found["profile"] = {"mute": sorted(profile.muted), "boost": {str(x): one for x, one in profile.boosts.items()}}
    return found


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, int, float, bool, list)) else str(value)
