"""Answers about a person's tastes over HTTP: shelves, interests with their places on the map, explanations."""

from __future__ import annotations

from typing import Any

from tastespace.answers.person import explanation_answer, interest_answers, shelf_answers
from tastespace.answers.types import Explanation
from tastespace.recommend.interests import user_interests
from tastespace.recommend.shelves import Shelf as ModelShelf
from tastespace.recommend.shelves import shelves
from tastespace.serve.feedback.store import StoredProfile
from tastespace.serve.lists import ListMaker, ListOptions, require_own
from tastespace.serve.people import Person, tastes_of
from tastespace.serve.schemas import InterestsAnswer, ShelvesAnswer


class TasteAnswers:
    """Answers of one served model about single people."""

    def __init__(self, lists: ListMaker) -> None:
        self._lists, self._served = lists, lists.served

    def shelves(self, person: Person, options: ListOptions) -> ShelvesAnswer:
        """A row of items for each interest; muted interests have an empty one."""
        mute, boost = self._lists.choices(person, options)
        allowed, model = self._lists.allowed(options), person.model
        found: list[ModelShelf] = []
        if allowed is None or allowed.any():
            key = model.train_.users[person.row]
            found = list(
                shelves(
                    model, key, options.k, mute=mute, boost=boost or None, filter=allowed, rules=options.rules,
                    profile=False,
                )
            )  # fmt: skip
        answers = shelf_answers(self._served, model, person.row, found, mute, boost, options.because)
        return ShelvesAnswer(_json_user(person), self._served.generation, answers)

    def interests(self, person: Person, options: ListOptions) -> InterestsAnswer:
        """Each interest with its place on the map, and the history."""
        mute, boost = self._lists.choices(person, options)
        found, history = interest_answers(self._served, person.model, person.row, mute, boost)
        return InterestsAnswer(_json_user(person), self._served.generation, found, history)

    def explanation(self, person: Person, item: Any, options: ListOptions) -> Explanation:
        """Why an item has its rank, with the interests that the request or the profile mutes and boosts."""
        at, (mute, boost) = self._served.item_row(item), self._lists.choices(person, options)

        def rank() -> int | None:
            return self._lists.rank(person, at, options.k, mute, boost)

        has_choice = bool(mute or boost)
        return explanation_answer(
            self._served, person.model, person.row, at, _json_user(person), rank if has_choice else None
        )


def _json_user(person: Person) -> Any:
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
