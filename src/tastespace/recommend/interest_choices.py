"""What a request says about a user's interests: which to leave out (mute), which to show more of (boost)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.checks import is_finite_number, is_whole
from tastespace.data.ids import IdMap
from tastespace.errors import DataError, ParameterError
from tastespace.models.profiles import Profile

MOST_BOOST = 1e6
"""The largest factor of an interest; sums of larger ones would lose the other interests, or overflow."""


@dataclass(frozen=True)
class InterestChoices:
    """Muted interests and factors of interests, by the row of the user."""

    muted: Mapping[int, set[int]] = field(default_factory=dict)
    boosts: Mapping[int, dict[int, float]] = field(default_factory=dict)


NO_CHOICES = InterestChoices()
"""Of requests that say nothing about interests, for users without a profile."""


def is_given(choice: Any) -> bool:
    """Whether ``mute`` or ``boost`` says anything."""
    return choice is not None and (not hasattr(choice, "__len__") or len(choice) > 0)


def is_by_user(name: str, choice: Any) -> bool:
    """Whether ``mute`` or ``boost`` is a mapping from users to their choices, rather than the choice of one."""
    if not isinstance(choice, Mapping):
        return False
    return name == "mute" or any(isinstance(one, Mapping) for one in choice.values())


def require_interests(numbers: Iterable[Any], n_interests: int, who: str = "this user") -> None:
    """Raise unless all of these are numbers of a user's interests."""
    for x in numbers:
        if not is_whole(x, 0) or x >= n_interests:
            known = f"the interests 0 to {n_interests - 1}" if n_interests > 1 else "only interest 0"
            raise ParameterError(f"interest {x!r} was named, but {who} has {known}; model.interests(user) lists them.")


def checked_mute(mute: Any, n_interests: int, who: str = "this user") -> set[int]:
    """The muted interests of one user, who keeps at least one."""
    given = getattr(mute, "interests", mute)  # all of a shelf
    given = given.tolist() if isinstance(given, np.ndarray) else given
    given = [given] if is_whole(given, 0) else () if given is None else given
    if not isinstance(given, Iterable):
        raise ParameterError(f"mute={mute!r}: expected numbers of interests, such as [1].")
    muted = list(given)
    require_interests(muted, n_interests, who)
    if muted and len(set(muted)) == n_interests:
        raise DataError(f"all {n_interests} interests are muted: nothing is left to recommend.")
    return {int(x) for x in muted}


def checked_boost(boost: Any, n_interests: int, who: str = "this user") -> dict[int, float]:
    """Factors of one user's interests."""
    if boost is not None and not isinstance(boost, Mapping):
        raise ParameterError(f"boost={boost!r}: expected factors by interest, such as {{2: 1.5}}.")
    factors = dict(boost or {})
    require_interests(factors, n_interests, who)
    for factor in factors.values():
        if not is_finite_number(factor) or not 0 < factor <= MOST_BOOST:
            limit = f" of at most {MOST_BOOST:,.0f}" if isinstance(factor, (int, float)) and factor > 0 else ""
            raise ParameterError(f"boost={boost!r}: expected positive factors{limit}; mute= leaves an interest out.")
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
                "to recommend. profile=False leaves the profile out."
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
        "mute": _by_row(users, "mute", mute, "[1]", requested),
        "boost": _by_row(users, "boost", boost, "{0: 2.0}", requested),
    }
    counts = np.diff(user_offsets)
    return InterestChoices(
        {row: checked_mute(one, int(counts[row]), _who(users, row)) for row, one in by_user["mute"].items()},
        {row: checked_boost(one, int(counts[row]), _who(users, row)) for row, one in by_user["boost"].items()},
    )


def _who(users: IdMap, row: int) -> str:
    return f"user {users[row]!r}"


def _by_row(users: IdMap, name: str, choice: Any, example: str, requested: NDArray[np.int32]) -> dict[int, Any]:
    if not is_given(choice):
        return {}
    if is_by_user(name, choice):
        rows = users.index_of(list(choice)).tolist()
        return dict(zip(rows, choice.values(), strict=True))
    if len(requested) != 1:
        raise ParameterError(
            f"{name}={choice!r} concerns one user, and {len(requested):,} users are requested. Request one, or give "
            f"it by user id: {name}={{{users[0]!r}: {example}}}."
        )
    return {int(row): choice for row in requested if row >= 0}
