"""Answers about the tastes of one person: shelves, interests with their places on the map, explanations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from tastespace.answers.ids import json_id
from tastespace.answers.lists import BECAUSE, AnswerOptions, ListAnswers
from tastespace.answers.map import interest_places
from tastespace.answers.people import Person
from tastespace.answers.types import ExplanationAnswer, HistoryItem, Interest, PastItem, ShelfAnswer, TasteShare
from tastespace.models.base import Recommender
from tastespace.recommend.explanations import explain, explanation_words
from tastespace.recommend.interests import UserInterests, interest_names, interests_at
from tastespace.recommend.labels import Labeler
from tastespace.recommend.shelves import Shelf, shelves
from tastespace.recommend.wording import Wording

_PAST = 12  # past items listed with an interest


class TasteAnswers:
    """Answers of one model about the tastes of single people.

    >>> from tastespace import DPCML, synthetic
    >>> from tastespace.answers.catalog import Catalog
    >>> from tastespace.answers.people import People
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> people = People(Catalog(DPCML(dim=8, n_interests=2, epochs=2, seed=0).fit(town)))
    >>> tastes = TasteAnswers(ListAnswers(people))
    >>> interests, history = tastes.interests(people.require(7), AnswerOptions())
    >>> len(interests), len(history) == len(town.items_of(7))
    (2, True)
    """

    def __init__(self, lists: ListAnswers, wording: Wording | None = None) -> None:
        self.lists, self.catalog = lists, lists.catalog
        self._wording = Wording() if wording is None else wording

    def shelves(self, person: Person, options: AnswerOptions) -> list[ShelfAnswer]:
        """A row of items for each interest; muted interests have empty ones at the end."""
        mute, boost = self.lists.choices(person, options)
        allowed, model = self.lists.allowed(options), person.model
        view = interests_at(model, person.row, "shelves")
        found: list[Shelf] = []
        if allowed is None or allowed.any():
            found = list(
                shelves(
                    model, model.train_.users[person.row], options.k, mute=mute, boost=boost or None, filter=allowed,
                    rules=options.rules, profile=False,
                )
            )  # fmt: skip
        names = self._names(view)
        return [
            *self._shown(view, names, found, boost, options.because),
            *self._muted(view, names, mute, boost),
        ]

    def _shown(
        self, view: UserInterests, names: list[str], found: Sequence[Shelf], boost: Mapping[int, float], because: bool
    ) -> list[ShelfAnswer]:
        answers, items = [], self.catalog.train.items
        for shelf in found:
            rows = items.find(shelf.items)
            behind = (
                self.lists.past_behind(view.index, view.row, rows, np.array(shelf.item_interests)) if because else None
            )
            listed = self.catalog.listed(rows, shelf.scores, shelf.item_interests, shelf.distances, behind)
            factor = max(boost.get(x, 1.0) for x in shelf.interests)
            past = items.find(shelf.because) if shelf.because else np.empty(0, np.int64)
            answers.append(
                ShelfAnswer(
                    shelf.interest, list(shelf.interests), names[shelf.interest], shelf.weight, shelf.weight * factor,
                    False, factor, self.catalog.named(past), listed,
                )
            )  # fmt: skip
        return answers

    def _muted(
        self, view: UserInterests, names: list[str], mute: Collection[int], boost: Mapping[int, float]
    ) -> list[ShelfAnswer]:
        answers = []
        for x in sorted(set(mute)):
            share, past = float(view.weights[x]), self.catalog.named(view.past_of([x])[:BECAUSE])
            answers.append(ShelfAnswer(x, [x], names[x], share, 0.0, True, boost.get(x, 1.0), past, []))
        return answers

    def interests(self, person: Person, options: AnswerOptions) -> tuple[list[Interest], list[HistoryItem]]:
        """The interests of a person, the strongest first, with their places on the map; and the history."""
        mute, boost = self.lists.choices(person, options)
        view = interests_at(person.model, person.row, "interests")
        names, places = self._names(view), interest_places(person.model, person.row)
        found = []
        for x in np.argsort(-view.weights, kind="stable").tolist():
            past = self.catalog.named(view.past_of([x])[:_PAST])
            (place_x, place_y), share = places[x], float(view.weights[x])
            found.append(Interest(x, names[x], share, x in mute, boost.get(x, 1.0), place_x, place_y, past))
        assigned = zip(self.catalog.named(view.past), view.assigned_interest.tolist(), strict=True)
        return found, [HistoryItem(one.item, one.title, interest) for one, interest in assigned]

    def explanation(self, person: Person, item: int, options: AnswerOptions) -> ExplanationAnswer:
        """Reasons for the rank of the item at this row, with the interests that the person mutes and boosts."""
        mute, boost = self.lists.choices(person, options)
        model, train = person.model, person.model.train_
        found = explain(model, train.users[person.row], train.items[item], BECAUSE, labeler=self._labeler(model))
        past = found.because or [
            (one, title, 1 / (1 + max(gap, 0.0)) if found.distance is not None else -gap)
            for one, title, gap in found.beside
        ]
        rows = train.items.find([one for one, _, _ in past]) if past else np.empty(0, np.int64)
        (shown,) = self.catalog.named(np.array([item]))
        rank: int | None = found.rank
        if (mute or boost) and not found.seen:
            rank = self.lists.rank(person, item, options.k, mute, boost)
        return ExplanationAnswer(
            user=json_id(person.user),
            item=shown.item,
            title=shown.title,
            text=explanation_words(model, found, self._wording),
            interest=found.interest,
            interest_name=found.name,
            because=[
                PastItem(one.item, one.title, float(weight))
                for one, (_, _, weight) in zip(self.catalog.named(rows), past, strict=True)
            ],
            tastes=[TasteShare(*one) for one in found.tastes],
            distance=found.distance,
            rank=rank,
            score=found.score,
            seen=found.seen,
        )

    def _names(self, view: UserInterests) -> list[str]:
        """The name of each interest."""
        return [one.text for one in interest_names(view, self._labeler(view.index.model), wording=self._wording)]

    def _labeler(self, model: Recommender) -> Labeler:
        hidden, untitled = self.catalog.display.hide_categories, self._wording.untitled
        return Labeler(model.train_, None, model.popularity_source, hidden=hidden, untitled=untitled)
