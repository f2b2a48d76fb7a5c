"""A user's interests, and one row of recommendations (a shelf) for each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from numbers import Real
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.checks import require_k
from tastespace.data.reading.tables import from_polars
from tastespace.errors import Argument, ParameterError
from tastespace.models.base import Recommender
from tastespace.models.list_options import Filter
from tastespace.recommend.interests import (
    InterestChoices,
    UserInterests,
    checked_boost,
    checked_mute,
    interest_names,
    named_by_past,
    require_interests,
    user_interests,
    with_profiles,
)
from tastespace.recommend.labels import Labeler
from tastespace.recommend.request import candidate_rows
from tastespace.recommend.rules.lists import ruled_shelves
from tastespace.recommend.rules.rules import Rules
from tastespace.recommend.rules.tables import rule_tables
from tastespace.recommend.wording import Wording, WordingLike

# ---------------------------------------------------------------------------------------------------------------------
# Shelves and explanations as HTML for notebooks, in the notebook's own colors; all text is escaped.

_CARD = (
    "flex:0 0 150px;min-height:64px;padding:8px 10px;border:1px solid rgba(128,128,128,.35);border-radius:8px;"
    "white-space:normal;overflow-wrap:anywhere"
)
_SOFT = "opacity:.65;font-size:.9em"


_UNSEEN = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]")
"""Control characters, and those that turn the direction of what follows."""


_BREAKS = re.compile("[\\t-\\r\\x85\\u2028\\u2029]+")
"""Tabs and ends of lines: the words around them stay apart."""


def _plain(text: str) -> str:
    return escape(_UNSEEN.sub("", _BREAKS.sub(" ", text)))


def _isolated(text: str) -> str:
    """Return a title isolated from the direction of its script, so that the text around it stays in place."""
    return f"<bdi>{_plain(text)}</bdi>"


def shelf_html(name: str, weight: float, because: Sequence[str], titles: Iterable[str]) -> str:
    """One shelf: its name, its share of the history, past items it comes from, and a row of cards.

    >>> "<b>" in shelf_html("Jazz", 0.5, [], ["<b>Kind of Blue</b>"])
    False
    """
    cards = "".join(
        f'<div style="{_CARD}"><span style="{_SOFT}">{rank}</span> {_isolated(title)}</div>'
        for rank, title in enumerate(titles, 1)
    )
    reason = f'<div style="{_SOFT}">because of {", ".join(map(_isolated, because))}</div>' if because else ""
    return (
        f'<div style="margin:0 0 14px"><strong>{_isolated(name)}</strong> '
        f'<span style="{_SOFT}">{100 * weight:.0f} %</span>{reason}'
        f'<div style="display:flex;gap:8px;overflow-x:auto;padding:6px 0">{cards}</div></div>'
    )


def shelves_html(user: Any, shelves: Iterable[str]) -> str:
    """All shelves of a user, below the id."""
    return (
        f'<div><div style="{_SOFT};margin-bottom:8px">shelves of {_isolated(str(user))}</div>{"".join(shelves)}</div>'
    )


def text_html(text: str) -> str:
    r"""Lines of text.

    >>> text_html("a < b\nc")
    '<div>a &lt; b<br>c</div>'
    """
    return "<div>" + "<br>".join(map(_plain, text.splitlines())) + "</div>"


_COMPARED = 20  # best items by which two interests are compared
_DEFAULT_K = 10


@dataclass(frozen=True, eq=False)
class Shelf:
    """The recommendations that match one interest."""

    interest: int
    """Number of the interest, as in `recommend`'s column; the strongest where several share the shelf."""
    interests: tuple[int, ...]
    """All interests that share the shelf."""
    weight: float
    """Share of the user's past items that belong here; of a user without a past, share of the interests."""
    label: str | None
    """The category, or two, that at least three quarters of its items belong to, from their attributes; None where no
    category fits, or another shelf of the user has the same."""
    items: list[Any]
    """Item ids, best first."""
    scores: list[float]
    """The model's score of each item, larger is better."""
    because: list[Any]
    """Ids of the past items that are nearest."""
    titles: list[str] = field(default_factory=list)
    because_titles: list[str] = field(default_factory=list)
    distances: list[float] | None = None
    """Squared distance of each item to the nearest interest; None where vectors are compared by inner products."""
    item_interests: list[int] = field(default_factory=list)
    """The interest that each item is nearest to: one of `interests`."""

    wording: Wording = field(default_factory=Wording, repr=False)
    """Templates of `name` where there is no label."""

    @property
    def name(self) -> str:
        """The label, else "like X and Y": the past items that stand for the interest most."""
        return self.label or named_by_past(self.interest, self.because_titles, self.wording)

    def _repr_html_(self) -> str:
        """A row of cards, for notebooks."""
        return shelf_html(self.name, self.weight, self.because_titles if self.label else [], self.titles)

    def __str__(self) -> str:
        return f"{self.name} ({100 * self.weight:.0f} %): {', '.join(self.titles)}"


@dataclass(frozen=True, eq=False)
class Shelves:
    """A user's shelves, the strongest interest first; a sequence of `Shelf`."""

    user: Any
    shelves: list[Shelf]
    has_distances: bool = True
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

    def _repr_html_(self) -> str:
        """A row of cards for each shelf, for notebooks."""
        return shelves_html(self.user, (shelf._repr_html_() for shelf in self.shelves))

    def to_frame(self, titles: bool = False) -> Any:
        """One row per item: user, shelf (from 1), interest, weight, name, item, rank, score (and distance).

        ``interest`` is the one that the item is nearest to, as in `Recommender.recommend`; several may share a shelf.
        With ``titles`` there is a column of them after the items.
        """
        rows = [
            (
                self.user,
                at + 1,
                shelf.item_interests[rank] if shelf.item_interests else shelf.interest,
                shelf.weight,
                shelf.name,
                item,
                shelf.titles[rank] if shelf.titles else None,
                rank + 1,
                shelf.scores[rank],
                None if shelf.distances is None else shelf.distances[rank],
            )
            for at, shelf in enumerate(self.shelves)
            for rank, item in enumerate(shelf.items)
        ]
        schema = {
            "user": self.user_type,
            "shelf": pl.Int32,
            "interest": pl.Int32,
            "weight": pl.Float64,
            "name": pl.String,
            "item": self.item_type,
            "title": pl.String,
            "rank": pl.Int32,
            "score": pl.Float32,
            "distance": pl.Float32,
        }
        shown = {"title": titles, "distance": self.has_distances}
        columns = [one for one in pl.DataFrame(rows, schema=schema, orient="row") if shown.get(one.name, True)]
        return from_polars(pl.DataFrame(columns), self.backend)


def shelves(
    model: Recommender,
    user: Any,
    k: int | Mapping[int, int] = _DEFAULT_K,
    *,
    mute: Any = (),
    boost: Mapping[int, float] | None = None,
    merge: float = 0.8,
    exclude_seen: bool = True,
    items: Any = None,
    filter: Filter | None = None,
    column: str | None = None,
    wording: WordingLike = None,
    rules: Rules | None = None,
    profile: bool = True,
) -> Shelves:
    """Implement `Recommender.shelves`."""
    words = Wording.of(wording)
    view = user_interests(model, user, "shelves")
    lengths, muted, boosts = _checked(view, k, mute, boost, merge)
    train = model.train_
    if profile:
        muted, boosts = _with_profile(model, view, muted, boosts)
    labeler = Labeler(train, column, model.popularity_source)
    vectors = [x for x in range(view.n_interests) if x not in muted]
    weights = view.weights * np.array([boosts.get(x, 1.0) for x in range(view.n_interests)])
    groups = sorted(_groups(view, vectors, weights, merge), key=lambda group: -weights[group].sum())
    sizes = []
    for group in groups:
        length = max(lengths.get(x, lengths[-1]) for x in group) if len(lengths) > 1 else lengths[-1]
        sizes.append(max(1, round(length * max(boosts.get(x, 1.0) for x in group))))
    tables = rule_tables(train, rules, max(sizes))
    candidates = candidate_rows(train, items, filter, tables)
    if tables is None or not tables.reorders:
        lists = view.index.split_top_k(view.row, groups, sizes, exclude_seen=exclude_seen, candidates=candidates)
    else:
        lists = ruled_shelves(view.index, view.row, groups, sizes, tables, exclude_seen, candidates)
    found = []
    # A taste has the same name whatever is muted; interests that share a shelf have one together.
    names = interest_names(view, labeler, groups if view.index.tastes is None else None, words)
    if view.index.tastes is not None:
        names = [names[group[0]] for group in groups]
    # Of all shelves at once: to look up a few items costs as much as to look up one.
    shown = np.concatenate([rows for rows, _ in lists])
    closeness, interests = view.index.pair_interests(np.full(len(shown), view.row), shown)
    ids, titles = train.items.take(shown).to_list(), labeler.titles(shown)
    first = 0
    for group, name, (rows, scores) in zip(groups, names, lists, strict=True):
        here = slice(first, first + len(rows))
        first += len(rows)
        if not len(rows):
            continue
        shelf = Shelf(
            interest=group[0],
            interests=tuple(sorted(group)),
            weight=float(view.weights[group].sum()),
            label=name.label,
            items=ids[here],
            scores=scores.tolist(),
            because=name.past,
            titles=titles[here],
            because_titles=name.titles,
            distances=(-closeness[here]).tolist() if view.index.has_distances else None,
            wording=words,
            item_interests=interests[here].tolist(),
        )
        found.append(shelf)
    kinds = train.users.series.dtype, train.items.series.dtype
    return Shelves(train.users[view.row], found, view.index.has_distances, train.backend, *kinds)


def interests(model: Recommender, user: Any, k: int = 5, *, column: str | None = None) -> Any:
    """Implement `Recommender.interests`."""
    k = require_k(k)
    view = user_interests(model, user, "interests")
    train = model.train_
    names = interest_names(view, Labeler(train, column, model.popularity_source))
    best = view.index.interest_top_k(view.row, k)
    rows: dict[str, list[Any]] = {"interest": [], "weight": [], "name": [], "past": [], "nearest": []}
    for x in np.argsort(-view.weights, kind="stable").tolist():
        rows["interest"].append(x)
        rows["weight"].append(float(view.weights[x]))
        rows["name"].append(names[x].text)
        rows["past"].append(train.items.take(view.past_of([x])[:k]).to_list())
        rows["nearest"].append(train.items.take(best.of(x)).to_list())
    ids = pl.List(train.items.series.dtype)
    types: dict[str, Any] = {
        "interest": pl.Int32,
        "weight": pl.Float64,
        "name": pl.String,
        "past": ids,
        "nearest": ids,
    }
    return from_polars(pl.DataFrame(rows, schema=types), train.backend)


def _groups(view: UserInterests, vectors: list[int], weights: NDArray[np.float64], merge: float) -> list[list[int]]:
    """Interests that share a shelf, each group's strongest first; a taste has a shelf of its own."""
    if view.index.tastes is not None:
        return [[x] for x in vectors if weights[x] > 0] or [vectors[:1]]
    # Compared by all items that the user does not have, whatever is filtered now: within a narrow choice the best items
    # of all interests are the same.
    n_unseen = view.index.train.n_items - len(view.past)
    best = view.index.interest_top_k(view.row, min(_COMPARED, max(1, n_unseen // 2)))
    tops = {x: set(best.of(x).tolist()) for x in vectors}
    with_past = [x for x in sorted(vectors, key=lambda x: -weights[x]) if weights[x] > 0] or vectors[:1]
    groups: list[list[int]] = []
    for x in with_past:
        same = [g for g in groups if _overlap(tops[g[0]], tops[x]) >= merge]
        if same:
            same[0].append(x)
        else:
            groups.append([x])
    for x in vectors:
        if x not in with_past:  # no past item is assigned to it: it joins the group that scores its best items highest
            scores = view.index.interest_scores(view.row, best.of(x)).sum(axis=1)
            max(groups, key=lambda g: (_overlap(tops[g[0]], tops[x]), scores[g[0]])).append(x)
    return groups


def _overlap(a: set[int], b: set[int]) -> float:
    return len(a & b) / max(1, min(len(a), len(b)))


def _with_profile(
    model: Recommender, view: UserInterests, muted: set[int], boosts: dict[int, float]
) -> tuple[set[int], dict[int, float]]:
    """Muted interests and boosts of a request together with those of the user's profile."""
    users = model.train_.users
    profiles = model.profiles.by_row(users, np.array([view.row]))
    offsets = view.index.interest_vectors.user_offsets
    both = with_profiles(InterestChoices({view.row: muted}, {view.row: boosts}), profiles, offsets, users)
    return both.muted[view.row], both.boosts[view.row]


def _checked(
    view: UserInterests,
    k: int | Mapping[int, int],
    mute: Any,
    boost: Mapping[int, float] | None,
    merge: float,
) -> tuple[dict[int, int], set[int], dict[int, float]]:
    """Lengths by interest (-1: of all others), muted interests, boosts."""
    lengths = {-1: _DEFAULT_K, **k} if isinstance(k, Mapping) else {-1: k}
    for length in lengths.values():
        require_k(length)
    require_interests(k if isinstance(k, Mapping) else (), view.n_interests)
    if not isinstance(merge, Real) or not merge > 0:
        raise ParameterError(
            Argument("merge", merge), ": expected the overlap from which interests share a shelf, above 0."
        )
    return lengths, checked_mute(mute, view.n_interests), checked_boost(boost, view.n_interests)
