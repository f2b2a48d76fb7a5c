"""A user's interests: past items of each, interests that a request mutes and boosts, and stored profiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace._util.checks import is_finite_number, is_whole
from tastespace.data.ids import IdMap
from tastespace.errors import Argument, Call, DataError, ParameterError
from tastespace.models.base import Recommender
from tastespace.models.profiles import Profile
from tastespace.ranking.scoring import ScoringIndex, require_interest_space
from tastespace.recommend.labels import Labeler
from tastespace.recommend.request import require_history, row_of
from tastespace.recommend.wording import Wording

# ---------------------------------------------------------------------------------------------------------------------
# One user of a model with interests: the interests, and which past item belongs to which of them.

_LABELED = 20  # items of an interest, besides the past ones, that help to name it
_NAMED = 3  # past items shown with a name


@dataclass(frozen=True, eq=False)
class UserInterests:
    """A user's past items as the user's interests score them."""

    index: ScoringIndex
    row: int
    past: NDArray[np.int32]
    """Rows of the items that the user had in training."""
    n_interests: int
    """Number of the user's vectors, or tastes."""
    assigned_interest: NDArray[np.integer[Any]]
    """The interest of each past item: its taste, or the vector that scores it best. Shape ``(len(past),)``."""

    @cached_property
    def past_strength(self) -> NDArray[np.floating[Any]]:
        """Degree to which each past item stands for its interest, larger is more: shape ``(len(past),)``.

        What it adds to the best items of its taste, or its score by the vector.
        """
        if self.index.tastes is None:
            scores = self.index.interest_scores(self.row, self.past)
            return scores[self.assigned_interest, np.arange(len(self.past))]
        found = np.zeros(len(self.past))
        evidence = self.index.evidence(self.row, np.concatenate(self.best_items))
        ends = np.cumsum([0, *map(len, self.best_items)])
        for x in range(self.n_interests):
            own = self.assigned_interest == x
            if evidence is None:
                closeness = self.index.vectors_of(self.row)[x] @ self.index.item_vectors[self.past[own]].T
                found[own] = closeness - closeness.min(initial=0.0)
            else:
                found[own] = evidence[own, ends[x] : ends[x + 1]].sum(axis=1)
        return found

    @cached_property
    def best_items(self) -> list[NDArray[np.int32]]:
        """The best items of each interest that the user does not have, whatever a request filters."""
        return self._best([[x] for x in range(self.n_interests)])

    def _best(self, groups: Sequence[Sequence[int]]) -> list[NDArray[np.int32]]:
        others = [x for x in range(self.n_interests) if not any(x in group for group in groups)]
        lengths = [_LABELED] * len(groups) + [0]
        return [rows for rows, _ in self.index.split_top_k(self.row, [*groups, others], lengths)[: len(groups)]]

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Share of the past items assigned to each interest, equal ones without a past. Shape ``(n_interests,)``."""
        if not len(self.past):
            return np.full(self.n_interests, 1 / self.n_interests)
        return np.bincount(self.assigned_interest, minlength=self.n_interests) / len(self.past)

    def past_of(self, interests: Sequence[int]) -> NDArray[np.int32]:
        """Past items assigned to these interests, those that stand for them most first."""
        belongs = np.isin(self.assigned_interest, interests)
        return self.past[belongs][np.argsort(-self.past_strength[belongs], kind="stable")]

    def labels(self, labeler: Labeler, groups: Sequence[Sequence[int]]) -> list[str | None]:
        """Names of groups of interests by categories, see `Labeler.labels`; the same for lists of every length.

        They fit the best items of each group that are new to the user; past items and best items together are the
        support, and past items that stand for more than half of the interest must belong to the name.
        """
        single = [[x] for x in range(self.n_interests)]
        best = self.best_items if list(map(list, groups)) == single else self._best(groups)
        past = [np.flatnonzero(np.isin(self.assigned_interest, group)) for group in groups]
        support = [np.concatenate([self.past[at], rows]) for at, rows in zip(past, best, strict=True)]
        if self.index.tastes is None:
            return labeler.labels(best, support)
        return labeler.labels(best, support, [(self.past[at], np.maximum(self.past_strength[at], 0)) for at in past])


def user_interests(model: Recommender, user: Any, what: str) -> UserInterests:
    """Interests of the user with this id; ``what`` is named in the error of a model without vectors."""
    require_interest_space(model, what)
    return interests_at(model, row_of(model.train_.users, user), what)


def interests_at(model: Recommender, row: int, what: str) -> UserInterests:
    """Interests of the user at this row; see `user_interests`."""
    require_interest_space(model, what)
    index = ScoringIndex(model, threads=1)  # to start threads takes longer than to rank for one user
    require_history(model, row, what)
    past = index.seen(row)
    if index.tastes is not None:
        return UserInterests(index, row, past, int(index.tastes.counts[row]), index.tastes.of_user(row))
    scores = index.interest_scores(row, past)
    return UserInterests(index, row, past, len(scores), scores.argmax(axis=0))


@dataclass(frozen=True)
class InterestName:
    """The name of an interest, and the past items that stand for it most."""

    interest: int
    """Its number; of several interests that share a name the strongest."""
    label: str | None
    """A category, or two, that fit; None where none does."""
    past: list[Any]
    """Ids of the past items, the strongest first; at most three."""
    titles: list[str]
    """Their titles, followed by the ids where the same titles would name two interests."""
    wording: Wording = field(default_factory=Wording, repr=False)

    @property
    def text(self) -> str:
        """The label, else a name such as "like X and Y" from the titles."""
        return self.label or named_by_past(self.interest, self.titles, self.wording)


def named_by_past(interest: int, titles: Sequence[str], wording: Wording) -> str:
    """Name of an interest that no category fits, from titles of its strongest past items."""
    two = list(dict.fromkeys(titles))[:2]
    return wording.interest_name(two) if two else f"interest {interest}"


def interest_names(
    view: UserInterests, labeler: Labeler, groups: Sequence[Sequence[int]] | None = None, wording: Wording | None = None
) -> list[InterestName]:
    """Return the names of a user's interests, or of groups of them: unique, and the same for lists of every length."""
    groups = [[x] for x in range(view.n_interests)] if groups is None else groups
    words, items = wording or Wording(), view.index.train.items
    rows = [view.past_of(group)[:_NAMED] for group in groups]
    # Of all at once: to look up a few items costs as much as to look up one.
    together = np.concatenate([*rows, view.past[:0]])
    ids, titles = items.take(together).to_list(), labeler.titles(together)
    ends = np.cumsum([0, *map(len, rows)]).tolist()
    found = [
        InterestName(group[0], label, ids[start:end], titles[start:end], words)
        for group, label, (start, end) in zip(groups, view.labels(labeler, groups), pairwise(ends), strict=True)
    ]
    often = Counter(one.text for one in found)
    return [one if often[one.text] == 1 else _with_ids(one) for one in found]


def _with_ids(name: InterestName) -> InterestName:
    """The same name with ids after the titles."""
    return replace(name, titles=[f"{title} ({one})" for title, one in zip(name.titles, name.past, strict=True)])


# ---------------------------------------------------------------------------------------------------------------------
# Interests that a request leaves out (mute) and shows more of (boost).

MOST_BOOST = 1e6
"""The largest factor of an interest; sums of larger ones would lose the other interests, or overflow."""


@dataclass(frozen=True)
class InterestChoices:
    """Muted interests and factors of interests, by the row of the user."""

    muted: Mapping[int, set[int]] = field(default_factory=dict)
    boosts: Mapping[int, dict[int, float]] = field(default_factory=dict)

    @property
    def factors(self) -> dict[int, dict[int, float]]:
        """Factor of each interest that is muted (0) or boosted, by the row of the user."""
        rows = {*self.muted, *self.boosts}
        return {row: {**self.boosts.get(row, {}), **dict.fromkeys(self.muted.get(row, ()), 0.0)} for row in rows}


NO_CHOICES = InterestChoices()
"""Choices of requests without ``mute`` and ``boost``, for users without a profile."""


def is_given(choice: Any) -> bool:
    """Return True where ``mute`` or ``boost`` names an interest."""
    return choice is not None and (not hasattr(choice, "__len__") or len(choice) > 0)


def is_by_user(name: str, choice: Any) -> bool:
    """Return True where ``mute`` or ``boost`` maps users to their choices, rather than being the choice of one."""
    if not isinstance(choice, Mapping):
        return False
    return name == "mute" or any(isinstance(one, Mapping) for one in choice.values())


def require_interests(numbers: Iterable[Any], n_interests: int, who: str = "this user") -> None:
    """Raise unless all of these are numbers of a user's interests."""
    for x in numbers:
        if not is_whole(x, 0) or x >= n_interests:
            known = f"the interests 0 to {n_interests - 1}" if n_interests > 1 else "only interest 0"
            raise ParameterError(
                f"interest {x!r} was named, but {who} has {known}; ", Call("model.interests(user)"), " lists them."
            )


def checked_mute(mute: Any, n_interests: int, who: str = "this user") -> set[int]:
    """The muted interests of one user, who keeps at least one."""
    given = getattr(mute, "interests", mute)  # all of a shelf
    given = given.tolist() if isinstance(given, np.ndarray) else given
    given = [given] if is_whole(given, 0) else () if given is None else given
    if not isinstance(given, Iterable):
        raise ParameterError(
            Argument("mute", mute), ": expected numbers of interests, such as ", Argument("mute", [1]), "."
        )
    muted = list(given)
    require_interests(muted, n_interests, who)
    if muted and len(set(muted)) == n_interests:
        raise DataError(f"all {n_interests} interests are muted: nothing is left to recommend.")
    return {int(x) for x in muted}


def checked_boost(boost: Any, n_interests: int, who: str = "this user") -> dict[int, float]:
    """Factors of one user's interests."""
    if boost is not None and not isinstance(boost, Mapping):
        raise ParameterError(
            Argument("boost", boost), ": expected factors by interest, such as ", Argument("boost", {2: 1.5}), "."
        )
    factors = dict(boost or {})
    require_interests(factors, n_interests, who)
    for factor in factors.values():
        if not is_finite_number(factor) or not 0 < factor <= MOST_BOOST:
            limit = f" of at most {MOST_BOOST:,.0f}" if isinstance(factor, (int, float)) and factor > 0 else ""
            raise ParameterError(
                Argument("boost", boost),
                f": expected positive factors{limit}; ",
                Argument("mute"),
                " leaves an interest out.",
            )
    return {int(x): float(factor) for x, factor in factors.items()}


def with_profiles(
    asked: InterestChoices, profiles: Mapping[int, Profile], user_offsets: NDArray[np.int64], users: IdMap
) -> InterestChoices:
    """The choices of a request together with the profiles of its users, by row.

    Both mute; a factor of the request replaces that of the profile. An interest of a profile that the user no longer
    has is ignored.
    """
    muted = {row: set(one) for row, one in asked.muted.items()}
    boosts = {row: dict(one) for row, one in asked.boosts.items()}
    for row, one in profiles.items():
        n = int(user_offsets[row + 1] - user_offsets[row])
        known = {x for x in one.muted if x < n}
        own = muted.setdefault(row, set())
        if len(own | known) == n:
            raise DataError(
                f"all {n} interests of user {users[row]!r} are muted, {sorted(known)} by the profile: nothing is left "
                "to recommend. ",
                Argument("profile", False),
                " leaves the profile out.",
            )
        own |= known
        boosts[row] = {**{x: f for x, f in one.boosts.items() if x < n}, **boosts.get(row, {})}
    return InterestChoices(muted, boosts)


def interest_choices(
    users: IdMap, user_offsets: NDArray[np.int64], mute: Any, boost: Any, requested: NDArray[np.int32]
) -> InterestChoices:
    """``mute`` and ``boost`` of a request for the users at these rows, checked.

    Either is the choice of the one user requested, or a mapping from user ids to choices. ``user_offsets`` tell how
    many interests each user has.
    """
    by_user = {
        "mute": _by_row(users, "mute", mute, [1], requested),
        "boost": _by_row(users, "boost", boost, {0: 2.0}, requested),
    }
    counts = np.diff(user_offsets)
    return InterestChoices(
        {row: checked_mute(one, int(counts[row]), _who(users, row)) for row, one in by_user["mute"].items()},
        {row: checked_boost(one, int(counts[row]), _who(users, row)) for row, one in by_user["boost"].items()},
    )


def _who(users: IdMap, row: int) -> str:
    return f"user {users[row]!r}"


def _by_row(users: IdMap, name: str, choice: Any, example: Any, requested: NDArray[np.int32]) -> dict[int, Any]:
    if not is_given(choice):
        return {}
    if is_by_user(name, choice):
        rows = users.index_of(list(choice)).tolist()
        return dict(zip(rows, choice.values(), strict=True))
    if len(requested) != 1:
        raise ParameterError(
            Argument(name, choice),
            f" concerns one user, and {len(requested):,} users are requested. Request one, or give it by user id: ",
            Argument(name, {users[0]: example}),
            ".",
        )
    return {int(row): choice for row in requested if row >= 0}


# ---------------------------------------------------------------------------------------------------------------------
# Changes of stored profiles, checked against the user's interests.


def mute(model: Recommender, user: Any, interests: Any) -> None:
    """Implement `Recommender.mute`."""
    key, n_interests, profile = _of(model, user)
    muted = profile.muted | checked_mute(interests, n_interests, f"user {key!r}")
    if len(muted) >= n_interests:
        raise DataError(
            f"user {key!r} has {n_interests} interests and would have muted all of them: nothing would be left to "
            f"recommend. Muted before are {sorted(profile.muted)}; ",
            Call("model.unmute"),
            " takes that back.",
        )
    model.profiles.put(key, Profile(muted, profile.boosts))


def unmute(model: Recommender, user: Any, interests: Any) -> None:
    """Implement `Recommender.unmute`."""
    key, n_interests, profile = _of(model, user)
    taken_back = checked_mute(interests, n_interests + 1, f"user {key!r}")  # here all of them may be named
    checked_mute([x for x in taken_back if x >= n_interests], n_interests, f"user {key!r}")
    model.profiles.put(key, Profile(profile.muted - taken_back, profile.boosts))


def boost(model: Recommender, user: Any, factors: Any) -> None:
    """Implement `Recommender.boost`."""
    key, n_interests, profile = _of(model, user)
    boosts = {**profile.boosts, **checked_boost(factors, n_interests, f"user {key!r}")}
    model.profiles.put(key, Profile(profile.muted, {x: boosts[x] for x in sorted(boosts) if boosts[x] != 1}))


def clear(model: Recommender, user: Any) -> None:
    """Implement `Recommender.clear_profile`."""
    model.require_fitted()
    model.profiles.put(model.train_.users[row_of(model.train_.users, user)], Profile())


def _of(model: Recommender, user: Any) -> tuple[Any, int, Profile]:
    """The user's id as the model has it, the number of interests, and the profile so far."""
    offsets = require_interest_space(model, "interests to mute or boost").user_offsets
    row = row_of(model.train_.users, user)
    require_history(model, row, "interests to mute or boost")
    key = model.train_.users[row]
    return key, int(offsets[row + 1] - offsets[row]), model.profiles.get(key, Profile())
