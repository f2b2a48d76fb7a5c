"""Which interest is which: stored mutes and boosts are said of tastes, whose numbers may change with the vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tastespace.models.profiles import Profile
from tastespace.serve.feedback_store import StoredProfile

MOST_ITEMS = 100
"""Past items of an interest that are stored with a profile."""


@dataclass(frozen=True, eq=False)
class CurrentChoice:
    """What a user has muted and boosted, by the numbers that interests have now."""

    profile: Profile = field(default_factory=Profile)
    dropped: tuple[int, ...] = ()
    """Numbers, as they were stored, of interests that the user has no more: nothing is muted or boosted for them.

    Muted ones, too, where no other interest is left."""


def same_interests(before: Mapping[int, Sequence[int]], now: Mapping[int, int], n_interests: int) -> dict[int, int]:
    """The number that each earlier interest has now; those that are no longer there are left out.

    An interest is the same where more than half of its past items are in it now, and more than half of the known items
    that are in it now were in it. One that never had items keeps its number while no known item is assigned to it.

    Args:
        before: Rows of past items by the earlier number; -1 for those that are in the catalog no more.
        now: The present interest of each past item, by its row.
        n_interests: How many there are now.

    >>> same_interests({0: [1, 2, 3], 1: [4, 5]}, {1: 1, 2: 1, 3: 0, 4: 0, 5: 0, 6: 0}, 2)
    {0: 1, 1: 0}
    >>> same_interests({0: [1, 2, 3], 1: [4, 5, 6]}, {1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0}, 2)  # they are one now
    {}
    >>> same_interests({0: [1, 2], 1: [], 2: [-1]}, {1: 0, 2: 0}, 3)  # nothing that the last one held is left
    {0: 0, 1: 1}
    """
    shared = np.zeros((max(before, default=-1) + 1, n_interests), dtype=np.int64)
    for number, rows in before.items():
        for row in rows:
            if row in now:
                shared[number, now[row]] += 1
    found = {}
    for number, rows in before.items():
        own = shared[number]
        best = int(own.argmax())
        if not rows:
            if number < n_interests and not shared[:, number].any():
                found[number] = number
        elif 2 * own[best] > own.sum() and 2 * own[best] > shared[:, best].sum():
            found[number] = best
    return found


def current_choice(
    stored: StoredProfile, before: Mapping[int, Sequence[int]] | None, now: Mapping[int, int], n_interests: int
) -> CurrentChoice:
    """What was stored, by the numbers of now.

    Args:
        stored: What was muted and boosted, by the numbers of then.
        before: Rows of past items by the number of then; None: numbers are the same.
        now: The present interest of each past item, by its row.
        n_interests: How many there are now.
    """
    named = {*stored.mute, *stored.boost}
    same = {x: x for x in named if x < n_interests} if before is None else same_interests(before, now, n_interests)
    muted = frozenset(same[x] for x in stored.mute if x in same)
    boosts = {same[x]: factor for x, factor in stored.boost.items() if x in same}
    dropped = {x for x in named if x not in same}
    if len(muted) == n_interests:  # there are fewer now: nothing would be left to recommend
        muted, dropped = frozenset(), dropped | set(stored.mute)
    return CurrentChoice(Profile(muted, boosts), tuple(sorted(dropped)))


def tastes_of(past: Sequence[Any], interests: Sequence[int], n: int) -> dict[int, tuple[Any, ...]]:
    """Ids of past items by interest, at most `MOST_ITEMS` of each.

    >>> tastes_of(["tea", "jam", "rye"], [1, 0, 1], 3)
    {0: ('jam',), 1: ('tea', 'rye'), 2: ()}
    """
    found: dict[int, list[Any]] = {x: [] for x in range(n)}
    for item, x in zip(past, interests, strict=True):
        if len(found[x]) < MOST_ITEMS:
            found[x].append(item)
    return {x: tuple(items) for x, items in found.items()}
