"""A person's interests, and one shelf of recommendations for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.data.tables import from_polars
from tastespace.errors import DataError, ParameterError
from tastespace.models.base import Recommender
from tastespace.models.inference import Filter
from tastespace.recommend.labels import Labeler
from tastespace.recommend.request import candidate_rows, check_k
from tastespace.recommend.user_view import Person, best_rows, label_of, meet

_COMPARED = 20  # best items by which two interests are compared
_BECAUSE = 3  # past items named with a shelf
_DEFAULT_K = 10


@dataclass(frozen=True, eq=False)
class Shelf:
    """The recommendations that serve one interest."""

    interest: int
    """Number of the interest, as in `recommend`'s column; the strongest where several share the shelf."""
    interests: tuple[int, ...]
    """All interests that share the shelf."""
    weight: float
    """Share of the person's past items that belong here; of somebody without a past, share of the interests."""
    label: str | None
    """What its items have in common, from their attributes."""
    items: list[Any]
    """Item ids, best first."""
    scores: list[float]
    because: list[Any]
    """Ids of the past items that stand nearest."""
    titles: list[str] = field(default_factory=list)
    because_titles: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The label, or the past items it grew from."""
        if self.label:
            return self.label
        return "like " + ", ".join(self.because_titles[:2]) if self.because_titles else f"interest {self.interest}"

    def __str__(self) -> str:
        return f"{self.name} ({100 * self.weight:.0f} %): {', '.join(self.titles)}"


@dataclass(frozen=True, eq=False)
class Shelves:
    """A person's shelves, the strongest first; a sequence of `Shelf`."""

    user: Any
    shelves: list[Shelf]
    by_distance: bool = True
    backend: str = "polars"
    user_type: Any = None
    item_type: Any = None

    def __len__(self) -> int:
        return len(self.shelves)

    def __getitem__(self, at: int) -> Shelf:
        return self.shelves[at]

    def __iter__(self) -> Iterator[Shelf]:
        return iter(self.shelves)

    def __str__(self) -> str:
        return "\n".join([f"shelves of {self.user}", *(f"  {shelf}" for shelf in self.shelves)])

    def to_frame(self) -> Any:
        """One row per item: user, shelf (from 1), interest, weight, label, item, rank, score (and distance)."""
        rows = [
            (self.user, at + 1, shelf.interest, shelf.weight, shelf.label, item, rank + 1, score)
            for at, shelf in enumerate(self.shelves)
            for rank, (item, score) in enumerate(zip(shelf.items, shelf.scores, strict=True))
        ]
        schema = {
            "user": self.user_type,
            "shelf": pl.Int32,
            "interest": pl.Int32,
            "weight": pl.Float64,
            "label": pl.String,
            "item": self.item_type,
            "rank": pl.Int32,
            "score": pl.Float32,
        }
        frame = pl.DataFrame(rows, schema=schema, orient="row")
        if self.by_distance:
            frame = frame.with_columns(distance=-pl.col("score"))
        return from_polars(frame, self.backend)


def shelves(
    model: Recommender,
    user: Any,
    k: int | Mapping[int, int] = _DEFAULT_K,
    *,
    mute: Iterable[int] = (),
    boost: Mapping[int, float] | None = None,
    merge: float = 0.8,
    exclude_seen: bool = True,
    items: Any = None,
    filter: Filter | None = None,
    column: str | None = None,
) -> Shelves:
    """`Recommender.shelves`."""
    person = meet(model, user, "shelves")
    lengths, muted, boosts = _checked(person, k, mute, boost, merge)
    train = model.train_
    labeler = Labeler(train, column, model.popularity_source)
    allowed = person.allowed(train.n_items, candidate_rows(train, items, filter), exclude_seen)
    vectors = [x for x in range(person.n_vectors) if x not in muted]
    weights = person.weights * np.array([boosts.get(x, 1.0) for x in range(person.n_vectors)])
    groups = _groups(person, vectors, weights, merge)
    # Which group each item is nearest to; muted interests are as if they were not there.
    by_group = np.stack([person.scores[group].max(axis=0) for group in groups])
    nearest = by_group.argmax(axis=0)
    found = []
    for at in sorted(range(len(groups)), key=lambda g: -weights[groups[g]].sum()):
        group = groups[at]
        length = max(lengths.get(x, lengths[-1]) for x in group) if len(lengths) > 1 else lengths[-1]
        length = max(1, round(length * max(boosts.get(x, 1.0) for x in group)))
        mine = best_rows(by_group[at], allowed & (nearest == at), length)
        if not len(mine):
            continue
        past = person.past_of(group)
        shelf = Shelf(
            interest=group[0],
            interests=tuple(sorted(group)),
            weight=float(person.weights[group].sum()),
            label=label_of(person, labeler, group),
            items=train.items.take(mine).to_list(),
            scores=[float(score) for score in by_group[at][mine]],
            because=train.items.take(past[:_BECAUSE]).to_list(),
            titles=labeler.titles(mine),
            because_titles=labeler.titles(past[:_BECAUSE]),
        )
        found.append(shelf)
    name = train.users[person.row]
    kinds = train.users.series.dtype, train.items.series.dtype
    return Shelves(name, found, person.by_distance, train.backend, *kinds)


def interests(model: Recommender, user: Any, k: int = 5, *, column: str | None = None) -> Any:
    """`Recommender.interests`."""
    k = check_k(k)
    person = meet(model, user, "interests")
    train = model.train_
    labeler = Labeler(train, column, model.popularity_source)
    unseen = person.allowed(train.n_items, None, exclude_seen=True)
    weights = person.weights
    rows: dict[str, list[Any]] = {"interest": [], "weight": [], "label": [], "past": [], "nearest": []}
    for x in np.argsort(-weights, kind="stable"):
        past, near = person.past_of([int(x)]), best_rows(person.scores[x], unseen, k)
        rows["interest"].append(int(x))
        rows["weight"].append(float(weights[x]))
        rows["label"].append(label_of(person, labeler, [int(x)]))
        rows["past"].append(train.items.take(past[:k]).to_list())
        rows["nearest"].append(train.items.take(near).to_list())
    ids = pl.List(train.items.series.dtype)
    types: dict[str, Any] = {
        "interest": pl.Int32,
        "weight": pl.Float64,
        "label": pl.String,
        "past": ids,
        "nearest": ids,
    }
    return from_polars(pl.DataFrame(rows, schema=types), train.backend)


def _groups(person: Person, vectors: list[int], weights: NDArray[np.float64], merge: float) -> list[list[int]]:
    """Interests that share a shelf, each group's strongest first."""
    # Among all that is new to the person, whatever is asked for now: of a narrow choice all interests want the same.
    unseen = person.allowed(person.scores.shape[1], None, exclude_seen=True)
    compared = min(_COMPARED, max(1, int(unseen.sum()) // 2))
    tops = {x: set(best_rows(person.scores[x], unseen, compared).tolist()) for x in vectors}
    lived = [x for x in sorted(vectors, key=lambda x: -weights[x]) if weights[x] > 0] or vectors[:1]
    groups: list[list[int]] = []
    for x in lived:
        same = [g for g in groups if _overlap(tops[g[0]], tops[x]) >= merge]
        if same:
            same[0].append(x)
        else:
            groups.append([x])
    for x in vectors:
        if x not in lived:  # nothing of the past belongs to it: the neighbor that serves its best items takes it in
            best = list(tops[x])
            max(groups, key=lambda g: (_overlap(tops[g[0]], tops[x]), person.scores[g[0], best].sum())).append(x)
    return groups


def _overlap(a: set[int], b: set[int]) -> float:
    return len(a & b) / max(1, min(len(a), len(b)))


def _checked(
    person: Person, k: int | Mapping[int, int], mute: Iterable[int], boost: Mapping[int, float] | None, merge: float
) -> tuple[dict[int, int], set[int], dict[int, float]]:
    """Lengths by interest (-1: of all others), muted interests, boosts."""
    muted: set[int] = {int(mute)} if isinstance(mute, (int, np.integer)) else set(mute or ())
    if boost is not None and not isinstance(boost, Mapping):
        raise ParameterError(f"boost={boost!r}: expected factors by interest, such as {{2: 1.5}}.")
    boosts = dict(boost or {})
    lengths = {-1: _DEFAULT_K, **k} if isinstance(k, Mapping) else {-1: k}
    for length in lengths.values():
        check_k(length)
    for x in (*muted, *boosts, *(k if isinstance(k, Mapping) else ())):
        if not isinstance(x, (int, np.integer)) or not 0 <= x < person.n_vectors:
            raise ParameterError(
                f"interest {x!r} was named, but this person has the interests 0 to {person.n_vectors - 1}; "
                "model.interests(user) lists them."
            )
    for factor in boosts.values():
        if not isinstance(factor, Real) or not (np.isfinite(factor) and factor > 0):
            raise ParameterError(f"boost={boost!r}: expected positive factors; mute= leaves an interest out.")
    if not isinstance(merge, Real) or not merge > 0:
        raise ParameterError(f"merge={merge!r}: expected the overlap from which interests share a shelf, above 0.")
    if len(muted) == person.n_vectors:
        raise DataError(f"all {person.n_vectors} interests are muted: nothing is left to recommend.")
    return lengths, muted, boosts
