"""Answers about a person's tastes: shelves, interests with their places on the map, explanations."""

from __future__ import annotations

from typing import Any

import numpy as np

from tastespace.answer_types import (
    Explanation,
    HistoryItem,
    Interest,
    NamedItem,
    PastItem,
    Shelf,
)
from tastespace.explore.item_places import interest_places
from tastespace.recommend.explanation_words import explanation_words
from tastespace.recommend.explanations import explain
from tastespace.recommend.interest_names import interest_names
from tastespace.recommend.shelves import Shelf as ModelShelf
from tastespace.recommend.shelves import shelves
from tastespace.recommend.user_interests import UserInterests, user_interests
from tastespace.serve.feedback_store import StoredProfile
from tastespace.serve.list_maker import ListMaker, ListOptions, require_own
from tastespace.serve.people import Person
from tastespace.serve.schemas import (
    InterestsAnswer,
    ShelvesAnswer,
)
from tastespace.serve.taste_identity import tastes_of

_BECAUSE = 3
_PAST = 12  # past items listed with an interest


class TasteAnswers:
    """Answers of one served model about single people."""

    def __init__(self, lists: ListMaker) -> None:
        self._lists, self._served = lists, lists.served

    def shelves(self, person: Person, options: ListOptions) -> ShelvesAnswer:
        """A row of items for each interest; muted interests have an empty one."""
        mute, boost = self._lists.choices(person, options)
        allowed = self._lists.allowed(options)
        key = person.model.train_.users[person.row]
        view = user_interests(person.model, key, "shelves")
        found: list[ModelShelf] = []
        if allowed is None or allowed.any():
            found = list(
                shelves(
                    person.model, key, options.k, mute=mute, boost=boost or None, filter=allowed, rules=options.rules,
                    profile=False,
                )
            )  # fmt: skip
        names = self._names(view)
        answers = [self._shelf(view, person, shelf, names[shelf.interest], boost, options.because) for shelf in found]
        for x in range(view.n_interests):
            if x in mute:
                answers.append(self._empty(view, x, names[x], boost))
        return ShelvesAnswer(self._json_user(person), self._served.generation, answers)

    def _shelf(
        self,
        view: UserInterests,
        person: Person,
        shelf: ModelShelf,
        name: str,
        boost: dict[int, float],
        because: bool,
    ) -> Shelf:
        rows = self._served.train.items.find(shelf.items)
        items = self._lists.items(
            rows,
            shelf.scores,
            shelf.item_interests,
            shelf.distances,
            self._lists.because(view.index, person.row, rows) if because else None,
        )
        factor = max(boost.get(x, 1.0) for x in shelf.interests)
        past = self._served.train.items.find(shelf.because) if shelf.because else np.empty(0, np.int64)
        return Shelf(
            shelf.interest, list(shelf.interests), name, shelf.weight, shelf.weight * factor, False, factor,
            self._named(past), items,
        )  # fmt: skip

    def _empty(self, view: UserInterests, interest: int, name: str, boost: dict[int, float]) -> Shelf:
        share = float(view.weights[interest])
        reasons = self._named(view.past_of([interest])[:_BECAUSE])
        return Shelf(interest, [interest], name, share, 0.0, True, boost.get(interest, 1.0), reasons, [])

    def interests(self, person: Person, options: ListOptions) -> InterestsAnswer:
        """Each interest with its place on the map, and the history."""
        mute, boost = self._lists.choices(person, options)
        view = user_interests(person.model, person.model.train_.users[person.row], "interests")
        names, places = self._names(view), interest_places(person.model, person.row)
        answers = []
        for x in np.argsort(-view.weights, kind="stable").tolist():
            past = view.past_of([x])
            place_x, place_y = places[x]
            answers.append(
                Interest(
                    x, names[x], float(view.weights[x]), x in mute, boost.get(x, 1.0), place_x, place_y,
                    self._named(past[:_PAST]),
                )
            )  # fmt: skip
        history = [
            HistoryItem(one.item, one.title, interest)
            for one, interest in zip(self._named(view.past), view.assigned_interest.tolist(), strict=True)
        ]
        return InterestsAnswer(self._json_user(person), self._served.generation, answers, history)

    def explanation(self, person: Person, item: Any, options: ListOptions) -> Explanation:
        """Why an item has its rank, with the interests that the request or the profile mutes and boosts."""
        row = self._served.item_row(item)
        mute, boost = self._lists.choices(person, options)
        model = person.model
        found = explain(model, model.train_.users[person.row], item, _BECAUSE)
        rank: int | None = found.rank
        if (mute or boost) and not found.seen:
            rank = self._lists.rank(person, row, options.k, mute, boost)
        past = found.because or [
            (one, title, 1 / (1 + max(gap, 0.0)) if found.distance is not None else -gap)
            for one, title, gap in found.beside
        ]
        rows = self._served.train.items.find([one for one, _, _ in past]) if past else np.empty(0, np.int64)
        (shown,) = self._named(np.array([self._served.item_row(found.item)]))
        name = None
        if found.interest is not None:
            name = self._names(user_interests(model, found.user, "explanations"))[found.interest]
        return Explanation(
            user=self._json_user(person),
            item=shown.item,
            title=shown.title,
            text=explanation_words(model, found),
            interest=found.interest,
            interest_name=name,
            because=[
                PastItem(one.item, one.title, float(weight))
                for one, (_, _, weight) in zip(
                    self._named(rows),
                    past,
                    strict=True,
                )
            ],
            distance=found.distance,
            rank=rank,
            score=found.score,
            seen=found.seen,
        )

    def _names(self, view: UserInterests) -> list[str]:
        return interest_names(view, lambda rows: [one.title or one.item for one in self._named(rows)])

    def _named(self, rows: Any) -> list[NamedItem]:
        return [
            NamedItem(item, title)
            for item, title in zip(self._served.ids_at(rows), self._served.titles_at(rows), strict=True)
        ]

    def _json_user(self, person: Person) -> Any:
        user = person.user
        return user if user is None or isinstance(user, (str, int, float, bool)) else str(user)


def checked_profile(person: Person, mute: list[int], boost: dict[int, float], model: str) -> StoredProfile:
    """What a user wants to mute and boost, checked, with the past items of all interests of now.

    ``model``: the checksum of the model whose interests these are.
    """
    require_own(person, mute, boost)
    if not person.n_interests:  # a model without interests: nothing is muted or boosted
        return StoredProfile(person.user, model=model)
    view = user_interests(person.model, person.model.train_.users[person.row], "interests")
    past = person.model.train_.items.take(view.past).to_list()
    return StoredProfile(
        person.user,
        tuple(sorted(set(mute))),
        {x: factor for x, factor in boost.items() if factor != 1},
        tastes_of(past, view.assigned_interest.tolist(), view.n_interests),
        model,
    )
