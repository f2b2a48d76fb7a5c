"""People who get answers: users of a model, and cold-start users with a history, who are folded in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.answers.catalog import Catalog
from tastespace.answers.ids import shown_id
from tastespace.answers.types import AnswerError, UnknownAnswerError
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.models.base import Recommender
from tastespace.models.profiles import Profile
from tastespace.recommend.fold_in import folded

ItemRows = NDArray[np.int32]
NO_PROFILE = Profile()


@dataclass(frozen=True, eq=False)
class Person:
    """A person who gets answers: a row of a model, which is the catalog's or one made by fold-in."""

    model: Recommender
    row: int
    user: Any
    """The id in that model; None for a person with a history alone."""
    is_folded: bool = False
    also_seen: ItemRows | None = None
    """Items of feedback that the model cannot fold in; they are left out of lists."""
    n_feedback: int = 0
    """Items of feedback that were folded in: interests that are computed again may have other numbers with each."""

    @property
    def n_interests(self) -> int:
        """Number of interests, 0 for models without vectors."""
        space = self.model.interest_space()
        return 0 if space is None else int(space.user_offsets[self.row + 1] - space.user_offsets[self.row])

    def require_interests(self, mute: Sequence[int], boost: Mapping[int, float]) -> None:
        """Refuse interests that the person does not have, and to mute all of them."""
        n = self.n_interests
        for x in (*mute, *boost):
            if n == 0:
                raise AnswerError(
                    "no_interests", "this model has no interests to mute or boost.", "Leave out mute and boost."
                )
            if not 0 <= x < n:
                known = f"are numbered 0 to {n - 1}" if n > 1 else "is number 0 alone"
                raise AnswerError("unknown_interest", f"there is no interest {x}: those of this user {known}.")
        if n and len(set(mute)) == n:
            raise AnswerError(
                "all_muted", f"all {n} interests are muted: nothing is left to recommend.", "Leave one of them."
            )


class People:
    """The users of one model with the profiles that the model keeps."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def refresh(self) -> None:
        """Take in what is new of people; nothing is, where the model is all that is known."""

    def find(self, users: Sequence[Any]) -> list[Person | None]:
        """Return each of these users; None for unknown ones."""
        model = self.catalog.model
        rows = self.catalog.train.users.find(list(users)) if len(users) else np.empty(0, np.int64)
        rows[rows >= 0] = np.where(model.can_serve(rows[rows >= 0]), rows[rows >= 0], -1)
        return [None if row < 0 else Person(model, row, user) for user, row in zip(users, rows.tolist(), strict=True)]

    def require(self, user: Any) -> Person:
        """Return one user; an error for an unknown one."""
        self.refresh()
        (found,) = self.find([user])
        if found is None:
            raise unknown_user(user)
        return found

    def profile(self, person: Person) -> Profile:
        """Interests that a person has muted and boosted."""
        return NO_PROFILE if person.is_folded else self.catalog.model.profiles.get(person.user, NO_PROFILE)

    def choices(
        self, person: Person, mute: Sequence[int] | None, boost: Mapping[int, float] | None
    ) -> tuple[list[int], dict[int, float]]:
        """Muted interests and factors of others: those of a request, where they are None those of the profile."""
        profile = self.profile(person)
        if mute is not None or boost is not None:
            person.require_interests(mute or (), boost or {})
        factors = profile.boosts if boost is None else boost
        return sorted(profile.muted if mute is None else mute), {x: one for x, one in factors.items() if one != 1}

    def with_histories(self, histories: Sequence[ItemRows]) -> list[Person]:
        """People with these past items, none of them empty, as ascending rows."""
        ids = pl.Series("user", np.arange(len(histories)))
        model = folded(self.catalog.model, history_data(self.catalog.train, histories, ids))
        return [Person(model, row, None, True) for row in range(len(histories))]

    def with_history(self, items: Sequence[Any], skip_unknown: bool = False) -> Person:
        """Return a person with these past items, given as JSON has their ids."""
        if not len(items):
            raise AnswerError("empty_history", "the history is empty.", "Give at least one item.")
        rows = self.catalog.history_rows(items, skip_unknown)
        if not len(rows):
            raise UnknownAnswerError("unknown_item", "the history holds no item of the model.", "Give known items.")
        return self.with_histories([rows])[0]


def history_data(
    train: Interactions,
    histories: Sequence[ItemRows],
    ids: pl.Series,
    timestamps: NDArray[np.int64] | None = None,
    dislikes: pl.DataFrame | None = None,
) -> Interactions:
    """Interactions of users with these ids and past items (ascending rows of the items of ``train``)."""
    return replace(
        train,
        users=IdMap(ids, "user"),
        offsets=np.concatenate([[0], np.cumsum([len(one) for one in histories])]).astype(np.int64),
        indices=np.concatenate(histories).astype(np.int32),
        weights=None,
        timestamps=timestamps,
        user_attributes=None,
        dislikes=dislikes,
    )


def unknown_user(user: Any) -> UnknownAnswerError:
    """Return the error about a user without a history."""
    return UnknownAnswerError("unknown_user", f"there is no user {shown_id(user)} with a history.")
