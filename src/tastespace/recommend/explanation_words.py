"""Why an item is recommended, in a sentence for customers."""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

from tastespace.data.interactions import Interactions
from tastespace.models.base import Recommender
from tastespace.recommend.explanations import Explanation
from tastespace.recommend.wording import Wording, WordingLike


def explanation_words(model: Recommender, found: Explanation, wording: WordingLike = None) -> str:
    """An explanation that ``model`` gave, as a sentence; see `Recommender.explain`.

    Past items are the two that add most to the score, or where the model has no such sums the two nearest to the item;
    of items with the same title only the first. Both are named where another user took both and the item, else the one
    that another user took with the item, else both without a number.
    """
    words = Wording.of(wording)
    id_of: dict[str, object] = {}
    for one, title, _ in found.because or found.beside:
        id_of.setdefault(title, one)
    past = list(id_of)[:2]
    source = model.popularity_source
    own_row = int(source.users.index_of([found.user])[0]) if source is model.train_ else None
    rows = source.items.index_of([found.item, *(id_of[title] for title in past)])
    took_item, *took_past = (_others(source, int(row), own_row) for row in rows)
    together = [np.intersect1d(took_item, users, assume_unique=True) for users in took_past]
    named, others, others_any = past, took_item, took_item
    if together:
        one_by_one = [([title], users, users) for title, users in zip(past, together, strict=True)]
        both = (past, reduce(np.intersect1d, together), reduce(np.union1d, together))
        named, others, others_any = next((choice for choice in [both, *one_by_one] if len(choice[1])), both)
    sentence = words.sentence(named, others=len(others), others_any=len(others_any), item=found.title, user=found.user)
    return f"{sentence} {words.already_has(found.title, found.user)}" if found.seen else sentence


def _others(source: Interactions, item: int, own_row: int | None) -> NDArray[np.int64]:
    """Rows of the users who took the item at this row, ascending, without one user."""
    users = np.searchsorted(source.offsets, np.flatnonzero(source.indices == item), side="right") - 1
    return users if own_row is None else users[users != own_row]
