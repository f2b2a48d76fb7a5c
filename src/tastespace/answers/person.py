"""Answers about one person's tastes: one way for the server, the page in a file and the widget.

A person is a row of a model, which may be one made by fold-in. What the answers say of items, `NamesOfItems` knows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tastespace.answers.map import interest_places
from tastespace.answers.types import (
    Explanation,
    HistoryItem,
    Interest,
    Item,
    NamedItem,
    PastItem,
    Shelf,
)
from tastespace.models.base import Recommender
from tastespace.ranking.scoring import ScoringIndex
from tastespace.recommend.explanations import explain, explanation_words, reasons
from tastespace.recommend.interests import UserInterests, interest_names, user_interests
from tastespace.recommend.shelves import Shelf as ModelShelf

BECAUSE = 3
"""Past items named with an item."""
_PAST = 12  # past items listed with an interest

Rows = NDArray[np.integer[Any]]


class NamesOfItems(Protocol):
    """What is said of items, by their rows."""

    def ids_at(self, rows: Rows) -> list[Any]:
        """Ids as JSON has them."""

    def titles_at(self, rows: Rows) -> list[str | None]:
        """Titles, None where there are none."""

    def categories_at(self, rows: Rows) -> list[str | None]:
        """One category each."""


def named(names: NamesOfItems, rows: Rows) -> list[NamedItem]:
    """Ids and titles of the items at these rows."""
    return [NamedItem(item, title) for item, title in zip(names.ids_at(rows), names.titles_at(rows), strict=True)]


def listed_items(
    names: NamesOfItems,
    rows: Rows,
    scores: Sequence[float | None],
    interests: Sequence[int | None] | None = None,
    distances: Sequence[float] | None = None,
    because: Sequence[list[PastItem]] | None = None,
    ranks: Sequence[int] | None = None,
) -> list[Item]:
    """Items at these rows, in this order, with what is known of each; without ranks they are numbered."""
    described = zip(names.ids_at(rows), names.titles_at(rows), names.categories_at(rows), strict=True)
    return [
        Item(
            item,
            title,
            category,
            at + 1 if ranks is None else ranks[at],
            scores[at],
            None if interests is None else interests[at],
            None if distances is None else distances[at],
            None if because is None else because[at],
        )
        for at, (item, title, category) in enumerate(described)
    ]


def past_behind(names: NamesOfItems, index: ScoringIndex, row: int, items: Rows) -> list[list[PastItem]]:
    """For each of these items the past items of a person that matter most, as the model can say."""
    found = reasons(index, row, items, BECAUSE)
    if not found:
        return []
    past = np.concatenate([rows for rows, _ in found])
    weights = np.concatenate([values for _, values in found]).tolist()
    all_named = [PastItem(one.item, one.title, weight) for one, weight in zip(named(names, past), weights, strict=True)]
    ends = np.cumsum([0, *(len(rows) for rows, _ in found)]).tolist()
    return [all_named[ends[at] : ends[at + 1]] for at in range(len(found))]


def names_of_interests(names: NamesOfItems, view: UserInterests) -> list[str]:
    """The name of each interest."""
    return interest_names(view, lambda rows: [one.title or one.item for one in named(names, rows)])


def shelf_answers(
    names: NamesOfItems,
    model: Recommender,
    row: int,
    found: Sequence[ModelShelf],
    mute: Collection[int] = (),
    boost: Mapping[int, float] | None = None,
    because: bool = True,
) -> list[Shelf]:
    """The shelves of a person; muted interests have empty ones at the end."""
    view = user_interests(model, model.train_.users[row], "shelves")
    of_interests, boosts, answers = names_of_interests(names, view), dict(boost or {}), []
    for shelf in found:
        rows = model.train_.items.find(shelf.items)
        behind = past_behind(names, view.index, row, rows) if because else None
        items = listed_items(names, rows, shelf.scores, shelf.item_interests, shelf.distances, behind)
        factor = max(boosts.get(x, 1.0) for x in shelf.interests)
        past = model.train_.items.find(shelf.because) if shelf.because else np.empty(0, np.int64)
        name, weight = of_interests[shelf.interest], shelf.weight * factor
        answers.append(
            Shelf(
                shelf.interest, list(shelf.interests), name, shelf.weight, weight, False, factor, named(names, past),
                items,
            )
        )  # fmt: skip
    for x in sorted(set(mute)):
        share, own = float(view.weights[x]), view.past_of([x])[:BECAUSE]
        answers.append(Shelf(x, [x], of_interests[x], share, 0.0, True, boosts.get(x, 1.0), named(names, own), []))
    return answers


def interest_answers(
    names: NamesOfItems,
    model: Recommender,
    row: int,
    mute: Collection[int] = (),
    boost: Mapping[int, float] | None = None,
) -> tuple[list[Interest], list[HistoryItem]]:
    """The interests of a person, the strongest first, with their places on the map; and the history."""
    view = user_interests(model, model.train_.users[row], "interests")
    of_interests, places, boosts = names_of_interests(names, view), interest_places(model, row), dict(boost or {})
    found = []
    for x in np.argsort(-view.weights, kind="stable").tolist():
        place_x, place_y = places[x]
        past = named(names, view.past_of([x])[:_PAST])
        share = float(view.weights[x])
        found.append(Interest(x, of_interests[x], share, x in mute, boosts.get(x, 1.0), place_x, place_y, past))
    assigned = zip(named(names, view.past), view.assigned_interest.tolist(), strict=True)
    return found, [HistoryItem(one.item, one.title, interest) for one, interest in assigned]


def explanation_answer(
    names: NamesOfItems,
    model: Recommender,
    row: int,
    item: int,
    user: Any = None,
    ranked: Callable[[], int | None] | None = None,
) -> Explanation:
    """Why the item at a row has its rank for a person.

    ``user``: the id as the answer has it. ``ranked`` gives the rank where interests are muted or boosted.
    """
    train = model.train_
    found = explain(model, train.users[row], train.items[item], BECAUSE)
    past = found.because or [
        (one, title, 1 / (1 + max(gap, 0.0)) if found.distance is not None else -gap)
        for one, title, gap in found.beside
    ]
    rows = train.items.find([one for one, _, _ in past]) if past else np.empty(0, np.int64)
    (shown,) = named(names, np.array([item]))
    name = None
    if found.interest is not None:
        name = names_of_interests(names, user_interests(model, found.user, "explanations"))[found.interest]
    return Explanation(
        user=user,
        item=shown.item,
        title=shown.title,
        text=explanation_words(model, found),
        interest=found.interest,
        interest_name=name,
        because=[
            PastItem(one.item, one.title, float(weight))
            for one, (_, _, weight) in zip(named(names, rows), past, strict=True)
        ],
        distance=found.distance,
        rank=found.rank if ranked is None or found.seen else ranked(),
        score=found.score,
        seen=found.seen,
    )
