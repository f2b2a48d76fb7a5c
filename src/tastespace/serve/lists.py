"""Lists for requests: which options they have, and many users of the same options at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace import _native
from tastespace.answers.person import listed_items, past_behind
from tastespace.answers.types import Item, Recommendations
from tastespace.models import list_options
from tastespace.models.base import Recommender
from tastespace.ranking.scoring import ScoringIndex, TopK
from tastespace.recommend.explanations import list_reasons
from tastespace.recommend.lists import TopKLists
from tastespace.recommend.rules.rules import Rules
from tastespace.serve.errors import HttpError
from tastespace.serve.people import People, Person, unknown_user
from tastespace.serve.served_model import ServedModel

# ---------------------------------------------------------------------------------------------------------------------
# Lists as JSON, written from arrays: the same answers as `Recommendations`, without an object for each item.

_JSON = msgspec.json.Encoder()
_END = b'],"fallback":null}'


class ListText:
    """Writes lists of one served model. What is said of an item is encoded once."""

    def __init__(self, served: ServedModel) -> None:
        self._served = served

    def lists(self, users: Sequence[Any], rows: NDArray[np.int32], found: TopK, because: bool) -> list[bytes | None]:
        """The lists of a block: of users with these ids, at these rows of the model.

        None where a number is not finite: JSON has no word for it.
        """
        ends = np.searchsorted(found.query, np.arange(len(users) + 1))
        reasons, weights = None, None
        if because:
            reasons, weights = list_reasons(self._served.index, np.repeat(rows, np.diff(ends)), found.rows)
        entries = _native.ListEntries(
            rows=found.rows,
            ranks=found.rank,
            scores=found.scores,
            interests=found.interests if self._served.model.has_interests else None,
            distances=found.distances,
            reasons=reasons,
            weights=weights,
        )
        listed = _native.list_texts(self._item_texts, entries, ends)
        middle = b',"model":%d,"items":[' % self._served.generation
        return [
            None if text is None else b'{"user":%b%b%b%b' % (_JSON.encode(user), middle, text, _END)
            for user, text in zip(users, listed, strict=True)
        ]

    @cached_property
    def _item_texts(self) -> _native.ItemTexts:
        """Id, title and category of all items as JSON, where each begins, and where its category begins.

        Objects without their closing brace: rank, score and the rest follow.
        """
        served, rows = self._served, np.arange(self._served.train.n_items)
        texts, ends, cuts = [], [0], []
        for item, title, category in zip(
            served.ids_at(rows), served.titles_at(rows), served.categories_at(rows), strict=True
        ):
            named = _JSON.encode({"item": item, "title": title})[:-1]
            texts += [named, b',"category":', _JSON.encode(category)]
            cuts.append(ends[-1] + len(named))
            ends.append(cuts[-1] + len(texts[-2]) + len(texts[-1]))
        offsets, places = np.array(ends, dtype=np.int64), np.array(cuts, dtype=np.int64)
        return _native.ItemTexts(text=b"".join(texts), offsets=offsets, cuts=places)

    def prepare(self) -> None:
        """Encode what is said of items now, rather than with the first list."""
        _ = self._item_texts


_QUICK_K = 100
_MOST_ANSWER = 8_192  # bytes of an answer that is kept


@dataclass(frozen=True)
class ListOptions:
    """What a request says of its lists; requests with equal options are answered together."""

    k: int = 10
    mix: str | None = None
    diversity: float | None = None
    filter: str | None = None
    exclude: tuple[Any, ...] = ()
    include: tuple[Any, ...] = ()
    mute: tuple[int, ...] | None = None
    """Instead of what the profile mutes."""
    boost: tuple[tuple[int, float], ...] | None = None
    """Instead of what the profile boosts."""
    unknown: str = "error"
    because: bool = True
    rules_key: Hashable = None
    rules: Rules | None = field(default=None, compare=False)

    def __hash__(self) -> int:
        """The hash of what is compared, computed once: options are looked up with every request."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, one.name) for one in fields(self) if one.compare))

    @cached_property
    def is_plain(self) -> bool:
        """Whether nothing but the length is said of a list that is not long."""
        plain = ListOptions(k=self.k, unknown=self.unknown, because=self.because)
        return self.k <= _QUICK_K and self == plain


class ListMaker:
    """Lists of one served model."""

    def __init__(self, people: People, keep_answers: int = 0) -> None:
        self.people, self.served, self._keep_answers = people, people.served, keep_answers
        self._answers: dict[tuple[Any, ListOptions], bytes] = {}
        self._text = ListText(self.served)
        self.known_options: dict[Any, ListOptions] = {}
        """Options that requests had before, by what they said."""
        # Reasons of models without vectors are computed one by one, and lists of large models take longer than JSON.
        self._writes_text = self.served.is_small and self.served.index.interest_space is not None
        if self._writes_text:
            self._text.prepare()

    def for_users(self, users: Sequence[Any], options: ListOptions) -> list[Recommendations | HttpError]:
        """A list for each user, or the error of one."""
        self.people.refresh()
        found = self.people.find(users)
        answers: list[Recommendations | HttpError] = []
        known = [person for person in found if person is not None]
        lists = iter(self.for_people(known, options))
        ids = _json_users(users)
        for person, user in zip(found, ids, strict=True):
            if person is not None:
                answers.append(Recommendations(user, self.served.generation, next(lists)))
            elif options.unknown == "popular":
                answers.append(Recommendations(user, self.served.generation, self._popular(options), "popular"))
            else:
                answers.append(unknown_user(user))
        return answers

    def texts(self, users: Sequence[Any], options: ListOptions) -> list[bytes | HttpError]:
        """The same as JSON; users with plain lists of the served model together, without objects for their items."""
        self.people.refresh()
        found: list[bytes | HttpError | None] = [None] * len(users)
        served, is_quick = self.served, self.people.is_quick
        plain = [at for at, user in enumerate(users) if is_quick(user) and served.user_row(user) >= 0]
        if plain and self._writes_text and options.is_plain:
            first, rows = 0, np.array([served.user_row(users[at]) for at in plain], dtype=np.int32)
            for block, some in self._plain_lists(options).blocks(rows):
                places = plain[first : first + len(block.users)]
                named = _json_users([users[at] for at in places])
                for at, text in zip(places, self._text.lists(named, block.users, some, options.because), strict=True):
                    found[at] = text
                first += len(places)
        others = [at for at, one in enumerate(found) if one is None]
        answers = self.for_users([users[at] for at in others], options) if others else []
        for at, answer in zip(others, answers, strict=True):
            found[at] = answer if isinstance(answer, HttpError) else _JSON.encode(answer)
        return [one for one in found if one is not None]

    def _plain_lists(self, options: ListOptions) -> TopKLists:
        """What makes lists of the served model for requests with these options."""
        return self.served.kept(("lists", options), lambda: _lists_of(self.served.model, options, None, None, None))

    def for_histories(self, histories: Sequence[NDArray[np.int32]], options: ListOptions) -> list[Recommendations]:
        """A list for each history, given as ascending rows; an empty one gets the most popular items."""
        given = [one for one in histories if len(one)]
        lists = iter([])  # type: ignore[var-annotated]
        if given:
            model = self.people.with_histories(given)
            lists = iter(self.for_people([Person(model, row, None, True) for row in range(len(given))], options))
        generation = self.served.generation
        return [
            Recommendations(None, generation, next(lists))
            if len(one)
            else Recommendations(None, generation, self._popular(options), "popular")
            for one in histories
        ]

    def for_people(self, people: Sequence[Person], options: ListOptions) -> list[list[Item]]:
        """The lists of people of this model or of folded-in ones."""
        allowed = self.allowed(options)
        lists: list[list[Item]] = [[] for _ in people]
        if allowed is not None and not allowed.any():
            return lists
        together: dict[int, list[int]] = defaultdict(list)
        for at, person in enumerate(people):
            mute, boost = self.choices(person, options)
            if mute or boost or person.also_seen is not None:
                mask = _without(allowed, person.also_seen, self.served.train.n_items)
                (lists[at],) = self._lists(person.model, [person.row], options, mask, mute, boost, together=False)
            else:
                together[id(person.model)].append(at)
        for places in together.values():
            rows = [people[at].row for at in places]
            for at, items in zip(places, self._lists(people[places[0]].model, rows, options, allowed), strict=True):
                lists[at] = items
        return lists

    def rank(
        self, person: Person, item: int, k: int, mute: list[int] | None = None, boost: dict[int, float] | None = None
    ) -> int | None:
        """The place of the item at this row in the list of k items, else in that of all; None: it is in neither."""
        for length in (k, self.served.train.n_items):
            lists = _lists_of(person.model, ListOptions(k=length), None, mute, boost)
            for _, found in lists.blocks(np.array([person.row], dtype=np.int32)):
                at = np.flatnonzero(found.rows == item)
                if len(at):
                    return int(found.rank[at[0]])
        return None

    def is_quick(self, user: Any, options: ListOptions) -> bool:
        """Whether a list takes so little time that another thread would cost more: the plain list of a usual user."""
        return options.is_plain and self.served.is_small and self.people.is_quick(user)

    def kept_answer(self, user: Any, options: ListOptions) -> bytes | None:
        """The answer that a quick request has had before, if nothing was heard of the user since."""
        found = self._answers.get((user, options))
        if found is None:
            return None
        self.people.refresh()
        return found if self.people.is_quick(user) else None

    def keep_answer(self, user: Any, options: ListOptions, answer: bytes) -> None:
        """Remember the answer to a quick request; the oldest are forgotten."""
        if self._keep_answers and len(answer) <= _MOST_ANSWER:
            self._answers[user, options] = answer
            while len(self._answers) > self._keep_answers:
                self._answers.pop(next(iter(self._answers)))

    def choices(self, person: Person, options: ListOptions) -> tuple[list[int], dict[int, float]]:
        """Muted and boosted interests: those of the request, else those of the profile."""
        profile = self.people.choice(person).profile
        if options.mute is not None or options.boost is not None:
            require_own(person, options.mute or (), dict(options.boost or ()))
        mute = sorted(profile.muted) if options.mute is None else list(options.mute)
        boost = dict(profile.boosts) if options.boost is None else dict(options.boost)
        return mute, {x: factor for x, factor in boost.items() if factor != 1}

    def allowed(self, options: ListOptions) -> NDArray[np.bool_] | None:
        """Which items filter, include and exclude leave; None: all of them."""
        if options.filter is None and not options.include and not options.exclude:
            return None
        items = self.served.train.items
        if options.filter is None:
            mask = np.ones(len(items), dtype=bool)
        else:
            mask = self.served.filter_mask(options.filter).copy()
        if options.include:
            wanted = np.zeros(len(items), dtype=bool)
            wanted[[self.served.item_row(item) for item in options.include]] = True
            mask &= wanted
        if options.exclude:
            rows = items.find(list(options.exclude))
            mask[rows[rows >= 0]] = False
        return mask

    def _lists(
        self,
        model: Recommender,
        rows: Sequence[int],
        options: ListOptions,
        allowed: NDArray[np.bool_] | None,
        mute: list[int] | None = None,
        boost: dict[int, float] | None = None,
        together: bool = True,
    ) -> list[list[Item]]:
        """The lists of users at these rows of one model; those that are not made together have wishes of their own."""
        named = options.include or options.exclude
        usual = together and model is self.served.model and not named  # others come again: what they need is kept

        def make() -> TopKLists:
            return _lists_of(model, options, allowed, mute, boost)

        maker = self.served.kept(("lists", options), make) if usual else make()
        distinct, place = np.unique(np.asarray(rows, dtype=np.int32), return_inverse=True)
        index = self.served.index if model is self.served.model else ScoringIndex(model, threads=1)
        made: list[list[Item]] = []
        for block, some in maker.blocks(distinct):
            ends = np.searchsorted(some.query, np.arange(len(block.users) + 1)).tolist()
            made += self._block(index, block.users.tolist(), ends, some, options.because)
        return [made[at] for at in place]

    def _block(
        self, index: ScoringIndex, users: Sequence[int], ends: Sequence[int], found: TopK, because: bool
    ) -> list[list[Item]]:
        """The lists of a block as the API has them: those of ``users[u]`` are the entries ``ends[u]:ends[u + 1]``."""
        interests = found.interests if index.model.has_interests else None
        reasons = (
            [one for user, (start, end) in zip(users, pairwise(ends), strict=True)
             for one in past_behind(self.served, index, user, found.rows[start:end])]
            if because else None
        )  # fmt: skip
        listed = listed_items(
            self.served,
            found.rows,
            found.scores.tolist(),
            None if interests is None else interests.tolist(),
            None if found.distances is None else found.distances.tolist(),
            reasons,
            found.rank.tolist(),
        )
        return [listed[start:end] for start, end in pairwise(ends)]

    def _popular(self, options: ListOptions) -> list[Item]:
        """The most popular items that the request allows, for people of whom nothing is known."""
        allowed = self.allowed(options)
        if allowed is not None and not allowed.any():
            return []
        request = list_options.ListOptions(k=options.k, filter=allowed, threads=1, rules=options.rules)
        frame = TopKLists(self.served.model, request).popular(pl.Series("user", [0]))
        rows = self.served.train.items.find(frame["item"])
        return listed_items(
            self.served, rows, [None] * len(rows), because=[[] for _ in rows] if options.because else None
        )


def _lists_of(
    model: Recommender,
    options: ListOptions,
    allowed: NDArray[np.bool_] | None,
    mute: list[int] | None,
    boost: dict[int, float] | None,
) -> TopKLists:
    request = list_options.ListOptions(
        k=options.k, filter=allowed, mix=options.mix, diversity=options.diversity, mute=mute or None,
        boost=boost or None, rules=options.rules, profile=False, threads=1,
    )  # fmt: skip
    return TopKLists(model, request)


def require_own(person: Person, mute: Sequence[int], boost: Mapping[int, float]) -> None:
    """Refuse interests that a person does not have, and to mute all of them."""
    n = person.n_interests
    for x in (*mute, *boost):
        if n == 0:
            raise HttpError(
                422, "no_interests", "this model has no interests to mute or boost.", "Leave out mute and boost."
            )
        if not 0 <= x < n:
            known = f"are numbered 0 to {n - 1}" if n > 1 else "is number 0 alone"
            raise HttpError(
                422, "unknown_interest", f"there is no interest {x}: those of this user {known}.",
                "GET /v1/users/{user}/interests lists them.",
            )  # fmt: skip
    if n and len(set(mute)) == n:
        raise HttpError(
            422, "all_muted", f"all {n} interests are muted: nothing is left to recommend.", "Leave one of them."
        )


def _without(
    allowed: NDArray[np.bool_] | None, rows: NDArray[np.int32] | None, n_items: int
) -> NDArray[np.bool_] | None:
    if rows is None:
        return allowed
    mask = np.ones(n_items, dtype=bool) if allowed is None else allowed.copy()
    mask[rows] = False
    return mask


def _json_users(users: Sequence[Any]) -> list[Any]:
    """User ids as JSON has them."""
    plain = (str, int, float, bool)
    return [user if isinstance(user, plain) else str(user) for user in users]
