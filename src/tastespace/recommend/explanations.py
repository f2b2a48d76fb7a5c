"""Explanations: why an item is recommended to a user, and the past items behind each item of a list."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import require_k
from tastespace.data.interactions import Interactions
from tastespace.errors import ParameterError
from tastespace.models.base import Recommender
from tastespace.ranking.scoring import ScoringIndex, item_directions
from tastespace.recommend.interests import interest_names, user_interests
from tastespace.recommend.labels import Labeler
from tastespace.recommend.request import require_history, row_of
from tastespace.recommend.shelves import text_html
from tastespace.recommend.wording import Wording, WordingLike

# ---------------------------------------------------------------------------------------------------------------------
# Why an item is recommended to a user.

_SHOWN_SHARE = 0.005  # of a taste in a score, from which the text names it

PastItems = list[tuple[Any, str, float]]
"""Past items: id, title, and a number that says how much each matters."""


@dataclass(frozen=True)
class Explanation:
    """Explanation of an item's rank in a user's list."""

    user: Any
    item: Any
    title: str
    seen: bool
    """True where the user had it in training."""
    interest: int | None
    """Number of the taste that says most for the item, or of the nearest vector; None for models without interests."""
    name: str | None
    """Name of that interest, as in `Recommender.interests`."""
    score: float
    distance: float | None
    """Squared distance to the interest; None where vectors are compared by inner products, or there are none."""
    rank: int
    """Among all items that the user does not have, from 1."""
    rank_without: int | None
    """The same if the user did not have that interest; None where it is the only one, or there is none."""
    beside: PastItems
    """Past items nearest to the item: id, title, and squared distance (or minus the similarity)."""
    because: PastItems
    """Past items that add most to the score: id, title, and the share of what all past items together add to it.

    Past items that lower the score are left out, of the sum as well. Of models with tastes only past items of the
    item's own taste, whose shares add up to that of the taste. Empty where no past item raises the score, and for
    models whose scores are no sums over past items.
    """
    tastes: list[tuple[int, str, float]] = field(default_factory=list)
    """The tastes that speak for the item, the strongest first: number, name, and share of the score; all shares
    together are 1. Empty for models without tastes."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        found = asdict(self)
        for name, value in (("beside", "distance"), ("because", "share")):
            found[name] = [dict(zip(("item", "title", value), one, strict=True)) for one in getattr(self, name)]
        found["tastes"] = [dict(zip(("interest", "name", "share"), one, strict=True)) for one in self.tastes]
        return found

    def _repr_html_(self) -> str:
        """The lines of the text, for notebooks."""
        return text_html(str(self))

    def __str__(self) -> str:
        parts = [f"rank {self.rank}"]
        if self.tastes:
            shares = (f"{100 * share:.0f} % {name}" for _, name, share in self.tastes if share >= _SHOWN_SHARE)
            parts.append(f"tastes: {', '.join(shares)}")
        elif self.interest is not None:
            parts.append(f"matches interest {self.interest} ({self.name})")
        if self.distance is None or self.distance != -self.score:
            parts.append(f"score {self.score:.3f}")
        if self.distance is not None:
            parts.append(f"squared distance {self.distance:.3f}")
        lines = [f"{self.title} for {self.user}: {', '.join(parts)}."]
        if self.rank_without is not None:
            what = f"the taste {self.name}" if self.tastes else "that interest"
            lines.append(f"Without {what} it would be rank {self.rank_without}.")
        if self.because:
            shares = (f"{title} ({100 * share:.0f} %)" for _, title, share in self.because)
            lines.append(f"Because of {', '.join(shares)}.")
        if self.beside:
            lines.append("Beside it: " + ", ".join(title for _, title, _ in self.beside) + ".")
        if self.seen:
            lines.append("The user already has it.")
        return "\n".join(lines)


def explain(
    model: Recommender, user: Any, item: Any, k: int = 5, *, column: str | None = None, labeler: Labeler | None = None
) -> Explanation:
    """Implement `Recommender.explain`."""
    k = require_k(k)
    model.require_fitted()
    index, train = ScoringIndex(model, threads=1), model.train_
    row, at = row_of(train.users, user), row_of(train.items, item)
    require_history(model, row, "explanations")
    evidence = model.evidence(row, np.array([at]))
    contributions = None if evidence is None else evidence[:, 0]
    if contributions is None and index.interest_space is None:
        raise ParameterError(
            f"{type(model).__name__} has no explanations: it has no vectors, and its scores are no sums over past "
            "items. Models that explain are DPCML, CML, EASE, SparseEASE, ItemKNN, blends of them, and others."
        )
    labeler = Labeler(train, column, model.popularity_source) if labeler is None else labeler
    past = index.seen(row)
    by_interest: dict[str, Any]
    if index.interest_space is None:
        by_interest = {"interest": None, "name": None, "distance": None, "rank_without": None, "beside": []}
    elif index.tastes is not None:
        by_interest = _by_taste(model, user, at, labeler)
    else:
        by_interest = _by_interest(model, user, at, k, labeler)
    shares = np.empty(0) if contributions is None else _shares(contributions)
    if index.tastes is not None and contributions is not None:
        shares = _of_taste(index.tastes.of_user(row), shares, by_interest["tastes"][0])
    return Explanation(
        user=train.users[row],
        item=train.items[at],
        title=labeler.titles(np.array([at]))[0],
        seen=bool((past == at).any()),
        score=index.score(row, at),
        rank=index.rank(row, at, _interests_of(index, row)),
        because=[] if contributions is None else _because(model, past, shares, k, labeler),
        **by_interest,
    )


def _interests_of(index: ScoringIndex, user: int) -> range:
    """Numbers of all interests of a user; none for models without vectors."""
    return range(0 if index.interest_space is None else len(index.vectors_of(user)))


def _by_taste(model: Recommender, user: Any, item: int, labeler: Labeler) -> dict[str, Any]:
    """Return the tastes that speak for the item at this index, and the rank without the strongest."""
    view = user_interests(model, user, "explanations")
    index = view.index
    said = index.interest_scores(view.row, np.array([item]))[:, 0].astype(np.float64)
    interest = int(said.argmax())
    raising = np.maximum(said, 0)
    shares = raising / raising.sum() if raising.any() else np.eye(len(said))[interest]
    names = [one.text for one in interest_names(view, labeler)]
    order = np.argsort(-shares, kind="stable")
    others = [x for x in range(view.n_interests) if x != interest]
    return {
        "interest": interest,
        "name": names[interest],
        "distance": None,
        "rank_without": index.rank(view.row, item, others) if others else None,
        "beside": [],
        "tastes": [(int(x), names[x], float(shares[x])) for x in order if shares[x] > 0],
    }


def _of_taste(
    tastes: NDArray[np.int32], shares: NDArray[np.float64], strongest: tuple[int, str, float]
) -> NDArray[np.float64]:
    """Shares of the past items of the strongest taste, so that they add up to its own; those of others are 0."""
    own = np.where(tastes == strongest[0], shares, 0.0)
    return own * (strongest[2] / max(float(own.sum()), 1e-300))


def _by_interest(model: Recommender, user: Any, item: int, k: int, labeler: Labeler) -> dict[str, Any]:
    """Return the interest that the item at this index matches by its vector, and the past items nearest to it."""
    view = user_interests(model, user, "explanations")
    index = view.index
    scores = index.interest_scores(view.row, np.array([item]))[:, 0]
    interest = int(scores.argmax())
    others = [x for x in range(view.n_interests) if x != interest]
    other_past = view.past[view.past != item]
    gaps = -index.item_closeness(item, other_past)
    nearest = np.argsort(gaps, kind="stable")[:k]
    return {
        "interest": interest,
        "name": interest_names(view, labeler)[interest].text,
        "distance": -float(scores[interest]) if index.has_distances else None,
        "rank_without": index.rank(view.row, item, others) if others else None,
        "beside": _named(model, other_past[nearest], gaps[nearest], labeler),
    }


def _because(
    model: Recommender, past: NDArray[np.int32], shares: NDArray[np.floating[Any]], k: int, labeler: Labeler
) -> PastItems:
    """The k past items with the largest positive shares."""
    largest = np.argsort(-shares, kind="stable")[:k]
    largest = largest[shares[largest] > 0]
    return _named(model, past[largest], shares[largest], labeler) if len(largest) else []


def _shares(contributions: NDArray[np.float32]) -> NDArray[np.float64]:
    """Positive contributions as shares of their sum, others as 0."""
    raising = np.maximum(contributions, 0).astype(np.float64)
    return np.asarray(raising / max(float(raising.sum()), 1e-300))


def _named(
    model: Recommender, rows: NDArray[np.int32], values: NDArray[np.floating[Any]], labeler: Labeler
) -> PastItems:
    """Ids and titles of the items at these rows, each with its value."""
    ids, titles = model.train_.items.take(rows).to_list(), labeler.titles(rows)
    return [(one, title, float(value)) for one, title, value in zip(ids, titles, values, strict=True)]


# ---------------------------------------------------------------------------------------------------------------------
# Which past items stand behind each item of a user's list, for whole lists at once.

_DECIMALS = 6  # of vectors in single precision; short numbers are also written faster

Reasons = list[tuple[NDArray[np.int32], NDArray[np.float64]]]
"""For each item rows of past items, the most important first, and a number that says how much each matters."""


def reasons(
    index: ScoringIndex,
    row: int,
    items: NDArray[np.integer[Any]],
    k: int = 3,
    tastes: NDArray[np.integer[Any]] | None = None,
) -> Reasons:
    """The k past items of the user at this row that matter most for each of these items.

    From vectors: the nearest past items, each with 1 / (1 + squared distance), or with the cosine where vectors are
    compared by inner products. Otherwise the past items that add most to the score, of models with tastes those of the
    item's taste (``tastes`` where it is known, else the strongest), each with its share of what all past items add.
    Empty where the model says nothing.

    >>> from tastespace import EASE, synthetic
    >>> model = EASE().fit(synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions)
    >>> [len(rows) for rows, _ in reasons(ScoringIndex(model), row=7, items=np.array([3, 5]), k=2)]
    [2, 2]
    """
    past = index.seen(row)
    nothing = past[:0], np.empty(0)
    if not len(past) or not len(items):
        return [nothing] * len(items)
    if index.interest_space is None or index.tastes is not None:
        rows, shares = _by_evidence(index, row, np.asarray(items), k, tastes)
        counts = (rows >= 0).sum(axis=1).tolist()
        return [(own[:n], values[:n]) for own, values, n in zip(rows, shares, counts, strict=True)]
    found, weights = list_reasons(index, np.full(len(items), row, dtype=np.int32), items, min(k, len(past)))
    return list(zip(found, weights, strict=True))


def list_reasons(
    index: ScoringIndex,
    users: NDArray[np.int32],
    items: NDArray[np.integer[Any]],
    k: int = 3,
    tastes: NDArray[np.integer[Any]] | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """`reasons` for items of many lists at once: item ``i`` is on the list of the user at row ``users[i]``.

    Gives rows of past items, -1 where there are fewer than k, and how much each matters; both ``(len(items), k)``. For
    models with interests.
    """
    space, train = index.interest_space, index.train
    if space is None:
        raise ParameterError("list_reasons needs interests, and this model has none. Use reasons.")
    if index.tastes is not None:
        rows, shares = np.full((len(items), k), -1, dtype=np.int32), np.zeros((len(items), k))
        for user in np.unique(users).tolist():
            at = np.flatnonzero(users == user)
            own = None if tastes is None else tastes[at]
            rows[at], shares[at] = _by_evidence(index, user, items[at], k, own)
        return rows, shares
    past, closeness = _native.past_reasons(
        item_directions(space), index.has_distances, train.offsets, train.indices, users,
        np.ascontiguousarray(items, dtype=np.int32), k,
    )  # fmt: skip
    weights = closeness.astype(np.float64)
    weights = 1 / (1 + np.maximum(-weights, 0)) if index.has_distances else weights
    return past, np.round(weights, _DECIMALS)


def _by_evidence(
    index: ScoringIndex, row: int, items: NDArray[np.integer[Any]], k: int, tastes: NDArray[np.integer[Any]] | None
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Rows of past items, -1 where there are fewer than k, and their shares: `reasons` without vectors as interests."""
    rows, shares = np.full((len(items), k), -1, dtype=np.int32), np.zeros((len(items), k))
    past = index.seen(row)
    evidence = index.model.evidence(row, items) if len(past) and len(items) else None
    if evidence is None:
        return rows, shares
    left = np.maximum(evidence, 0).astype(np.float64)
    left /= np.maximum(left.sum(axis=0), 1e-300)
    if index.tastes is not None:
        if tastes is None:
            _, tastes = index.pair_interests(np.full(len(items), row, dtype=np.int32), items)
        left[index.tastes.of_user(row)[:, None] != tastes] = 0.0
    column = np.arange(len(items))
    for place in range(min(k, len(past))):
        best = left.argmax(axis=0)  # of equal ones the first
        value = left[best, column]
        rows[:, place] = np.where(value > 0, past[best], -1)
        shares[:, place] = np.maximum(value, 0)
        left[best, column] = -1.0
    return rows, np.round(shares, _DECIMALS)


def explanation_words(model: Recommender, found: Explanation, wording: WordingLike = None) -> str:
    """An explanation that ``model`` gave, as a sentence; see `Recommender.explain`.

    Past items are the two that add most to the score, or where the model has no such sums the two nearest to the item;
    of items with the same title only the first. Both are named where another user took both and the item, else the one
    that another user took with the item, else both without a number.
    """
    words = Wording.of(wording)
    id_of: dict[str, object] = {}
    for one, title, _ in found.because or found.beside:
        id_of.setdefault(title, one)
    past = list(id_of)[:2]
    source = model.popularity_source
    own_row = int(source.users.index_of([found.user])[0]) if source is model.train_ else None
    rows = source.items.index_of([found.item, *(id_of[title] for title in past)])
    took_item, *took_past = (_others(source, int(row), own_row) for row in rows)
    together = [np.intersect1d(took_item, users, assume_unique=True) for users in took_past]
    named, others, others_any = past, took_item, took_item
    if together:
        one_by_one = [([title], users, users) for title, users in zip(past, together, strict=True)]
        both = (past, reduce(np.intersect1d, together), reduce(np.union1d, together))
        named, others, others_any = next((choice for choice in [both, *one_by_one] if len(choice[1])), both)
    sentence = words.sentence(named, others=len(others), others_any=len(others_any), item=found.title, user=found.user)
    return f"{sentence} {words.already_has(found.title, found.user)}" if found.seen else sentence


def _others(source: Interactions, item: int, own_row: int | None) -> NDArray[np.int64]:
    """Rows of the users who took the item at this row, ascending, without one user."""
    users = np.searchsorted(source.offsets, np.flatnonzero(source.indices == item), side="right") - 1
    return users if own_row is None else users[users != own_row]
