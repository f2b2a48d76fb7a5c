"""Checks of what shelves say: reasons that come from the shelf's own taste, and names that hold for every length."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.checks import require_k, require_whole
from tastespace.data.reading.tables import from_polars
from tastespace.errors import ParameterError
from tastespace.models.base import Recommender
from tastespace.ranking.scoring import ScoringIndex, require_interest_space

SAMPLED_USERS = 200
"""Users whose shelves are checked: all shelves of more take long."""
NAME_LENGTHS = (5, 8, 20)
"""Lengths of shelves whose names are compared."""
_REASONS = 2  # past items of which a sentence "because you took X and Y" speaks


class ShelfChecks:
    """The shelves of single users of a fitted model, each made once for every length."""

    def __init__(self, model: Recommender) -> None:
        self._model = model
        self._index = ScoringIndex(model, threads=1)
        self._kept: dict[tuple[int, int], Any] = {}

    def shelves(self, row: int, k: int) -> Any:
        """The shelves, of k items each, of the user at this row, without the user's profile."""
        if (row, k) not in self._kept:
            self._kept[row, k] = self._model.shelves(self._model.train_.users[row], k, profile=False)
        return self._kept[row, k]

    def n_true(self, row: int, k: int) -> list[int]:
        """Items on each shelf of k whose two strongest past items belong to the taste of the shelf.

        The strongest are those that `Recommender.evidence` gives most, among all past items; where one alone raises the
        score it has to belong, and where none does the item does not count as true.
        """
        shelves = self.shelves(row, k)
        train = self._model.train_
        past = self._index.seen(row)
        items = train.items.index_of([item for shelf in shelves for item in shelf.items])
        evidence = self._model.evidence(row, items)
        assert evidence is not None  # the caller has asked why_no_reasons
        interests = self._interests_of(row, past)
        strongest = np.argsort(-evidence, axis=0, kind="stable")[:_REASONS]
        raises = np.take_along_axis(evidence, strongest, axis=0) > 0
        found, first = [], 0
        for shelf in shelves:
            here = slice(first, first + len(shelf.items))
            first = here.stop
            own = np.isin(interests[strongest[:, here]], shelf.interests) | ~raises[:, here]
            found.append(int((own.all(axis=0) & raises[:, here].any(axis=0)).sum()))
        return found

    def stable(self, row: int) -> dict[tuple[int, ...], bool]:
        """The shelves of the user at this row by their interests: true where every length gives the same name."""
        names: dict[tuple[int, ...], list[str]] = {}
        for k in NAME_LENGTHS:
            for shelf in self.shelves(row, k):
                names.setdefault(shelf.interests, []).append(shelf.name)
        return {one: len(own) == len(NAME_LENGTHS) and len(set(own)) == 1 for one, own in names.items()}

    def _interests_of(self, row: int, past: NDArray[np.int32]) -> NDArray[np.integer[Any]]:
        """The interest that each past item belongs to."""
        if self._index.tastes is not None:
            return self._index.tastes.of_user(row)
        return self._index.pair_interests(np.full(len(past), row, dtype=np.int32), past)[1]


def sampled_users(rows: NDArray[np.integer[Any]], n: int = SAMPLED_USERS) -> NDArray[np.int64]:
    """At most n of these rows, ascending: the same for every model, and mostly the same where some rows are missing."""
    order = np.random.default_rng(0).permutation(int(np.max(rows, initial=-1)) + 1)
    return np.sort(np.asarray(rows, dtype=np.int64)[np.argsort(order[rows], kind="stable")[:n]])


def why_no_reasons(model: Recommender) -> str | None:
    """Return why no past item can be named as the reason of a recommendation; None where the model has `evidence`."""
    row = int(model.train_.user_counts.argmax())
    if model.evidence(row, np.zeros(1, dtype=np.int64)) is None:
        return f"{type(model).__name__} does not say how much each past item adds to a score."
    return None


def shelf_checks(model: Recommender, users: Iterable[Any] | int = SAMPLED_USERS, *, k: int = 10) -> Any:
    """Check every shelf of some users: whether its reasons are its own, and whether its name depends on its length.

    Args:
        model: A fitted model with shelves, such as a `Blend`.
        users: Ids of users, or how many are taken as a fixed sample of those with a history.
        k: Items on each shelf.

    Returns:
        A frame with a row per shelf: ``user``, ``interest``, ``name``, ``items`` (on the shelf), ``true`` (items whose
        two strongest past items, by `Recommender.evidence`, belong to the taste of the shelf; null for models without
        evidence), ``stable`` (whether the name is the same for shelves of 5, 8 and 20 items).

    >>> from tastespace import CML, EASE, Blend, synthetic
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> model = Blend([CML(dim=8, epochs=5), EASE()], [0.0, 1.0]).fit(town)
    >>> found = shelf_checks(model, users=[3, 7], k=5)
    >>> found.columns
    ['user', 'interest', 'name', 'items', 'true', 'stable']
    """
    k = require_k(k)
    require_interest_space(model, "shelves")
    train = model.train_
    if isinstance(users, int):
        require_whole("users", users)
        rows = sampled_users(np.flatnonzero(train.user_counts > 0), users)
    elif isinstance(users, Iterable) and not isinstance(users, str):
        rows = train.users.index_of(list(users))
    else:
        raise ParameterError(f"users={users!r}: expected a number of users, or a list of their ids.")
    checks = ShelfChecks(model)
    explained = why_no_reasons(model) is None
    found: list[tuple[Any, ...]] = []
    for row in rows.tolist():
        shelves, stable = checks.shelves(row, k), checks.stable(row)
        n_true = checks.n_true(row, k) if explained else [None] * len(shelves)
        found += [
            (train.users[row], shelf.interest, shelf.name, len(shelf.items), true, stable.get(shelf.interests, False))
            for shelf, true in zip(shelves, n_true, strict=True)
        ]
    schema: dict[str, Any] = {
        "user": train.users.series.dtype,
        "interest": pl.Int32,
        "name": pl.String,
        "items": pl.Int32,
        "true": pl.Int32,
        "stable": pl.Boolean,
    }
    return from_polars(pl.DataFrame(found, schema=schema, orient="row"), train.backend)
