"""Profiles: which interests a user has muted or boosted, remembered with the model and saved in its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.data.ids import IdMap


@dataclass(frozen=True)
class Profile:
    """Interests that one user has muted or boosted; numbers as in the column ``interest`` of lists."""

    muted: frozenset[int] = frozenset()
    """Interests whose items are left out."""
    boosts: Mapping[int, float] = field(default_factory=dict)
    """Factors of the weights of interests."""

    @property
    def is_empty(self) -> bool:
        """True if nothing is muted or boosted."""
        return not self.muted and not self.boosts


class Profiles(Mapping[Any, Profile]):
    """The profiles of a model, by user id; users without one are not in it. `Recommender.mute` and others change it.

    >>> from tastespace import DPCML, synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> model = DPCML(dim=8, n_interests=3, epochs=2).fit(town)
    >>> model.mute(7, [2]).boost(7, {0: 2.0}).profiles[7]
    Profile(muted=frozenset({2}), boosts={0: 2.0})
    >>> model.profiles.to_frame().rows()
    [(7, [2], [0], [2.0])]
    """

    def __init__(self) -> None:
        self._by_user: dict[Any, Profile] = {}

    def __getitem__(self, user: Any) -> Profile:
        return self._by_user[user]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._by_user)

    def __len__(self) -> int:
        return len(self._by_user)

    def __repr__(self) -> str:
        return f"Profiles({self._by_user!r})"

    def put(self, user: Any, profile: Profile) -> None:
        """Remember the profile of a user, in place of the one before; an empty one is forgotten."""
        if profile.is_empty:
            self._by_user.pop(user, None)
        else:
            self._by_user[user] = profile

    def to_frame(self) -> pl.DataFrame:
        """One row per user: user, muted (numbers), boosted (numbers) and factors."""
        users, found = list(self._by_user), list(self._by_user.values())
        return pl.DataFrame(
            {
                "user": users,
                "muted": pl.Series([sorted(one.muted) for one in found], dtype=pl.List(pl.Int32)),
                "boosted": pl.Series([list(one.boosts) for one in found], dtype=pl.List(pl.Int32)),
                "factors": pl.Series([list(one.boosts.values()) for one in found], dtype=pl.List(pl.Float64)),
            }
        )

    def by_row(self, users: IdMap, requested: NDArray[np.integer[Any]]) -> dict[int, Profile]:
        """The profiles of the users at these rows, by row; -1 is nobody."""
        if not self._by_user:
            return {}
        rows = users.find(list(self._by_user))
        wanted = set(requested.tolist())
        return {
            row: one
            for row, one in zip(rows.tolist(), self._by_user.values(), strict=True)
            if row >= 0 and row in wanted
        }

    # ---- in the model file ---------------------------------------------------------------------------------

    def encoded(self, users: IdMap) -> list[dict[str, Any]]:
        """The profiles as JSON, users by their row."""
        rows = users.find(list(self._by_user)).tolist()
        return [
            {"user": row, "mute": sorted(one.muted), "boost": {str(x): f for x, f in one.boosts.items()}}
            for row, one in zip(rows, self._by_user.values(), strict=True)
            if row >= 0
        ]

    @classmethod
    def decoded(cls, stored: Any, users: IdMap) -> Profiles:
        """The profiles that `encoded` gave; a ValueError, TypeError, KeyError or IndexError for anything else."""
        found = cls()
        for one in stored:
            row = int(one["user"])
            if not 0 <= row < len(users):
                raise IndexError(f"user {row} of {len(users)}")
            boosts = {int(x): float(factor) for x, factor in one["boost"].items()}
            if not all(0 < factor < np.inf for factor in boosts.values()):
                raise ValueError(f"factors {boosts}")
            found.put(users[row], Profile(frozenset(int(x) for x in one["mute"]), boosts))
        return found
