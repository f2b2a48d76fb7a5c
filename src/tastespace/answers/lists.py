"""Lists of users of a model, several at once, and of cold-start users with a history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.answers.ids import json_id
from tastespace.answers.people import ItemRows, People, Person, unknown_user
from tastespace.answers.types import AnswerError, Item, PastItem, Recommendations
from tastespace.models.base import Recommender
from tastespace.models.list_options import ListOptions
from tastespace.ranking.scoring import ScoringIndex, TopK
from tastespace.recommend.explanations import reasons
from tastespace.recommend.lists import TopKLists
from tastespace.recommend.request import attribute_frame
from tastespace.recommend.rules.filters import item_mask
from tastespace.recommend.rules.rules import Rules

BECAUSE = 3
"""Past items named with an item."""
_SHORT = 100  # items in a list that is still short


@dataclass(frozen=True)
class AnswerOptions(ListOptions):
    """Options of the lists of one question; questions with equal options are answered together.

    ``mute`` and ``boost`` count in place of the profile of a person, also where they are empty.
    """

    items: tuple[Any, ...] = ()
    filter: str | None = None
    mute: tuple[int, ...] | None = None
    boost: Mapping[int, float] | None = None
    rules: Rules | None = field(default=None, compare=False)
    threads: int = 1
    exclude: tuple[Any, ...] = ()
    """Items that are left out; ids that the model does not know are ignored."""
    because: bool = True
    """With each item the past items that matter most for it."""
    rules_key: Hashable = None
    """Stands for ``rules`` where options are compared."""

    def __hash__(self) -> int:
        """Hash of the compared fields, computed once: options are looked up with every question."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        compared = {one.name: getattr(self, one.name) for one in fields(self) if one.compare and one.name != "boost"}
        return hash((*compared.values(), None if self.boost is None else frozenset(self.boost.items())))

    @cached_property
    def is_length_only(self) -> bool:
        """True where the list is short and only its length, ``on_unknown`` and ``because`` are chosen."""
        return self.k <= _SHORT and self == AnswerOptions(k=self.k, on_unknown=self.on_unknown, because=self.because)

    def for_ranking(self, allowed: NDArray[np.bool_] | None, **changes: Any) -> ListOptions:
        """Return the options of `TopKLists`; ``allowed`` are the items that `ListAnswers.allowed` leaves."""
        own = {one.name: getattr(self, one.name) for one in fields(ListOptions)}
        return ListOptions(**{**own, "items": None, "filter": allowed, "profile": False, **changes})


class ListAnswers:
    """Lists of one model.

    >>> from tastespace import EASE, synthetic
    >>> from tastespace.answers.catalog import Catalog
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> lists = ListAnswers(People(Catalog(EASE().fit(town))))
    >>> (found,) = lists.for_users([7], AnswerOptions(k=3))
    >>> found.user, [one.rank for one in found.items]
    (7, [1, 2, 3])
    """

    def __init__(self, people: People) -> None:
        self.people, self.catalog = people, people.catalog

    def for_users(self, users: Sequence[Any], options: AnswerOptions) -> list[Recommendations | AnswerError]:
        """A list for each user, or the error of one."""
        self.people.refresh()
        found, generation = self.people.find(users), self.catalog.generation
        lists = iter(self.for_people([person for person in found if person is not None], options))
        answers: list[Recommendations | AnswerError] = []
        for person, user in zip(found, map(json_id, users), strict=True):
            if person is not None:
                answers.append(Recommendations(user, generation, next(lists)))
            elif options.on_unknown == "popular":
                answers.append(Recommendations(user, generation, self._popular(options), "popular"))
            else:
                answers.append(unknown_user(user))
        return answers

    def for_histories(self, histories: Sequence[ItemRows], options: AnswerOptions) -> list[Recommendations]:
        """A list for each history, given as ascending rows; an empty one may get the most popular items."""
        if options.on_unknown == "error" and any(not len(one) for one in histories):
            raise AnswerError("empty_history", "a history is empty.", "on_unknown=popular returns popular items.")
        given, generation = [one for one in histories if len(one)], self.catalog.generation
        lists = iter(self.for_people(self.people.with_histories(given), options) if given else [])
        return [
            Recommendations(None, generation, next(lists))
            if len(one)
            else Recommendations(None, generation, self._popular(options), "popular")
            for one in histories
        ]

    def for_people(self, people: Sequence[Person], options: AnswerOptions) -> list[list[Item]]:
        """The lists of people, who may be rows of several models."""
        allowed = self.allowed(options)
        lists: list[list[Item]] = [[] for _ in people]
        if allowed is not None and not allowed.any():
            return lists
        together: dict[int, list[int]] = defaultdict(list)
        for at, person in enumerate(people):
            mute, boost = self.choices(person, options)
            also_seen = person.also_seen if options.exclude_seen else None
            if mute or boost or also_seen is not None:
                mask = _without(allowed, also_seen, self.catalog.train.n_items)
                (lists[at],) = self._made(_lists_of(person.model, options, mask, mute, boost), person.model,
                                          [person.row], options)  # fmt: skip
            else:
                together[id(person.model)].append(at)
        for places in together.values():
            model = people[places[0]].model
            made = self._made(
                self._usual_lists(model, options, allowed), model, [people[at].row for at in places], options
            )
            for at, items in zip(places, made, strict=True):
                lists[at] = items
        return lists

    def rank(
        self, person: Person, item: int, k: int, mute: list[int] | None = None, boost: dict[int, float] | None = None
    ) -> int | None:
        """The place of the item at this row in the list of k items, else in that of all; None: it is in neither."""
        for length in (k, self.catalog.train.n_items):
            lists = _lists_of(person.model, AnswerOptions(k=length), None, mute, boost)
            for _, found in lists.blocks(np.array([person.row], dtype=np.int32)):
                at = np.flatnonzero(found.rows == item)
                if len(at):
                    return int(found.rank[at[0]])
        return None

    def choices(self, person: Person, options: AnswerOptions) -> tuple[list[int], dict[int, float]]:
        """Muted interests and factors of others: those of the options, else those of the profile."""
        return self.people.choices(person, options.mute, options.boost)

    def allowed(self, options: AnswerOptions) -> NDArray[np.bool_] | None:
        """Items that the options leave, shape ``(n_items,)``; None: all of them."""
        if options.filter is None and not options.items and not options.exclude:
            return None
        items = self.catalog.train.items
        if options.filter is None:
            mask = np.ones(len(items), dtype=bool)
        else:
            text, frame = options.filter, attribute_frame(self.catalog.train)
            mask = self.catalog.kept.get_or_make(("filter", text), lambda: item_mask(text, frame)).copy()
        if options.items:
            wanted = np.zeros(len(items), dtype=bool)
            wanted[[self.catalog.item_row(item) for item in options.items]] = True
            mask &= wanted
        if options.exclude:
            rows = items.find(list(options.exclude))
            mask[rows[rows >= 0]] = False
        return mask

    def past_behind(
        self,
        index: ScoringIndex,
        row: int,
        items: NDArray[np.integer[Any]],
        interests: NDArray[np.integer[Any]] | None = None,
    ) -> list[list[PastItem]]:
        """For each of these items the past items of the user at a row that matter most, as the model can say.

        ``interests`` are those of the items, where they are known.
        """
        found = reasons(index, row, items, BECAUSE, None if index.tastes is None else interests)
        if not found:
            return []
        past = self.catalog.named(np.concatenate([rows for rows, _ in found]))
        weights = np.concatenate([values for _, values in found]).tolist()
        named = [PastItem(one.item, one.title, weight) for one, weight in zip(past, weights, strict=True)]
        ends = np.cumsum([0, *(len(rows) for rows, _ in found)]).tolist()
        return [named[start:end] for start, end in pairwise(ends)]

    def index_of(self, model: Recommender) -> ScoringIndex:
        """The scoring index of the catalog's model or of one made by fold-in."""
        return self.catalog.index if model is self.catalog.model else ScoringIndex(model, threads=1)

    def _usual_lists(self, model: Recommender, options: AnswerOptions, allowed: NDArray[np.bool_] | None) -> TopKLists:
        """Lists of people without choices of their own; those of questions that come again are kept."""

        def make() -> TopKLists:
            return _lists_of(model, options, allowed, None, None)

        if model is not self.catalog.model or options.items or options.exclude:
            return make()
        lists: TopKLists = self.catalog.kept.get_or_make(("lists", options, self.kept_key()), make)
        return lists

    def kept_key(self) -> Hashable:
        """Key of the state that lists depend on besides their options: nothing, where the catalog never changes."""
        return None

    def _made(
        self, lists: TopKLists, model: Recommender, rows: Sequence[int], options: AnswerOptions
    ) -> list[list[Item]]:
        """The lists of users at these rows of one model."""
        distinct, place = np.unique(np.asarray(rows, dtype=np.int32), return_inverse=True)
        index, made = self.index_of(model), []
        for block, some in lists.blocks(distinct):
            ends = np.searchsorted(some.query, np.arange(len(block.users) + 1)).tolist()
            made += self._block(index, block.users.tolist(), ends, some, options.because)
        return [made[at] for at in place]

    def _block(
        self, index: ScoringIndex, users: Sequence[int], ends: Sequence[int], found: TopK, because: bool
    ) -> list[list[Item]]:
        """The lists of a block: those of ``users[u]`` are the entries ``ends[u]:ends[u + 1]``."""
        interests = found.interests if index.model.has_interests else None
        behind = (
            [one for user, (start, end) in zip(users, pairwise(ends), strict=True)
             for one in self.past_behind(index, user, found.rows[start:end],
                                         None if found.interests is None else found.interests[start:end])]
            if because else None
        )  # fmt: skip
        listed = self.catalog.listed(
            found.rows,
            found.scores.tolist(),
            None if interests is None else interests.tolist(),
            None if found.distances is None else found.distances.tolist(),
            behind,
            found.rank.tolist(),
        )
        return [listed[start:end] for start, end in pairwise(ends)]

    def _popular(self, options: AnswerOptions) -> list[Item]:
        """The most popular items that the options allow, for people of whom nothing is known."""
        allowed = self.allowed(options)
        if allowed is not None and not allowed.any():
            return []
        request = options.for_ranking(allowed, mix=None, diversity=None, column=None, mute=None, boost=None)
        rows = TopKLists(self.catalog.model, request).most_popular()
        return self.catalog.listed(rows, [None] * len(rows), because=[[] for _ in rows] if options.because else None)


def _lists_of(
    model: Recommender,
    options: AnswerOptions,
    allowed: NDArray[np.bool_] | None,
    mute: list[int] | None,
    boost: dict[int, float] | None,
) -> TopKLists:
    return TopKLists(model, options.for_ranking(allowed, mute=mute or None, boost=boost or None))


def _without(allowed: NDArray[np.bool_] | None, rows: ItemRows | None, n_items: int) -> NDArray[np.bool_] | None:
    if rows is None:
        return allowed
    mask = np.ones(n_items, dtype=bool) if allowed is None else allowed.copy()
    mask[rows] = False
    return mask
