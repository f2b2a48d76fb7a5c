"""Answers about the catalog: search, similar items, the audience of an item, users to look at, the map."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.answers.facts import example_users
from tastespace.answers.person import listed_items
from tastespace.answers.types import (
    AudienceUser,
    FoundItem,
    FoundUser,
    Map,
)
from tastespace.data.ids import rows_at
from tastespace.serve.json_ids import json_ids
from tastespace.serve.lists import ListMaker
from tastespace.serve.schemas import (
    AudienceAnswer,
    FoundItems,
    FoundUsers,
    SimilarAnswer,
)
from tastespace.serve.served_model import ServedModel

_MOST_WORDS = 10
_SAMPLED = 20_000  # interactions that say how near past items usually are


class CatalogAnswers:
    """Answers of one served model that concern no single person."""

    def __init__(self, lists: ListMaker) -> None:
        self._lists, self._served = lists, lists.served

    def search_items(self, text: str, limit: int) -> FoundItems:
        """Items whose title has all of these words (as parts of words), or whose id is this; popular ones first."""
        served = self._served
        counts = served.model.popularity_source.item_counts
        mask = _with_words(served, text, served.titles, served.train.items.series)
        rows = np.flatnonzero(mask)
        rows = rows[np.argsort(-counts[rows], kind="stable")][:limit]
        rows = _first(rows, served.train.items.series, text, limit)
        return FoundItems(
            [
                FoundItem(item, title, category, int(counts[row]))
                for item, title, category, row in zip(
                    served.ids_at(rows), served.titles_at(rows), served.categories_at(rows), rows, strict=True
                )
            ]
        )

    def search_users(self, text: str, limit: int) -> FoundUsers:
        """Users whose id or name has this; without a text, some with several tastes."""
        served = self._served
        if text.strip():
            names = served.user_names
            mask = _with_words(served, text, names, served.train.users.series)
            rows = _first(np.flatnonzero(mask)[:limit], served.train.users.series, text, limit)
        else:
            rows = served.kept("examples", lambda: example_users(served.model))[:limit]
        shown = [None] * len(rows) if served.user_names is None else rows_at(served.user_names, rows).to_list()
        return FoundUsers(
            [
                FoundUser(user, name, int(served.train.user_counts[row]))
                for user, name, row in zip(json_ids(served.train.users, rows), shown, rows, strict=True)
            ]
        )

    def similar(self, item: Any, k: int) -> SimilarAnswer:
        """Items like an item."""
        served = self._served
        row = served.item_row(item)
        found = served.index.similar_items(np.array([row]), k)
        space = served.model.item_space()
        distances = (-found.scores).tolist() if space is not None and space.metric == "l2" else None
        items = listed_items(served, found.rows, found.scores.tolist(), None, distances)
        at = np.array([row])
        return SimilarAnswer(served.ids_at(at)[0], served.titles_at(at)[0], items)

    def audience(self, item: Any, k: int) -> AudienceAnswer:
        """Users without the item whose nearest interest is closest to it.

        ``n_users`` counts those to whom it is as close as half of all past items are to those who took them.
        """
        served = self._served
        row = served.item_row(item)
        _ = served.index.interest_vectors  # an error for models without vectors
        n = served.train.n_users
        users = np.arange(n, dtype=np.int32)
        scores, interests = served.index.nearest_interests(users, np.full(n, row, dtype=np.int32))
        able = served.model.can_serve(users)
        took = np.flatnonzero(served.train.indices == row)
        able[np.searchsorted(served.train.offsets, took, side="right") - 1] = False
        candidates = np.flatnonzero(able)
        usual = served.kept("usual score", self._usual_score)
        best = candidates[np.argsort(-scores[candidates], kind="stable")][:k]
        return AudienceAnswer(
            served.ids_at(np.array([row]))[0],
            int((scores[candidates] >= usual).sum()),
            [
                AudienceUser(user, int(interests[at]), -float(scores[at]))
                for user, at in zip(json_ids(served.train.users, best), best, strict=True)
            ],
        )

    def _usual_score(self) -> float:
        """The median score of past items by the nearest interest of those who took them."""
        train = self._served.train
        at = np.linspace(0, train.n_interactions - 1, min(_SAMPLED, train.n_interactions)).astype(np.int64)
        users = (np.searchsorted(train.offsets, at, side="right") - 1).astype(np.int32)
        scores, _ = self._served.index.nearest_interests(users, train.indices[at])
        return float(np.median(scores))

    def map(self) -> Map:
        """All items in the plane."""
        served = self._served
        rows = np.arange(served.train.n_items)
        places = np.round(served.map.places.astype(np.float64), 5)
        return Map(
            served.ids_at(rows),
            served.titles_at(rows),
            places[:, 0].tolist(),
            places[:, 1].tolist(),
            served.category_codes.tolist(),
            served.category_names,
            served.model.popularity_source.item_counts.tolist(),
        )


def _with_words(served: ServedModel, text: str, titles: pl.Series | None, ids: pl.Series) -> NDArray[np.bool_]:
    """Rows whose title or id has all words of a text, in any case of letters."""
    mask = np.ones(len(ids), dtype=bool)
    texts = served.kept(("id texts", ids.name, len(ids)), lambda: ids.cast(pl.String).str.to_lowercase())
    lower = None if titles is None else served.kept(("lower", ids.name, len(ids)), lambda: titles.str.to_lowercase())
    for word in text.lower().split()[:_MOST_WORDS]:
        found = texts.str.contains(word, literal=True).to_numpy()
        if lower is not None:
            found = found | lower.str.contains(word, literal=True).fill_null(False).to_numpy()
        mask &= found
    return mask


def _first(rows: NDArray[np.int64], ids: pl.Series, text: str, limit: int) -> NDArray[np.int64]:
    """The same rows, led by the one whose id is the text itself."""
    exact = np.flatnonzero((ids.cast(pl.String) == text.strip()).to_numpy()) if text.strip() else rows[:0]
    return np.concatenate([exact, rows[~np.isin(rows, exact)]])[:limit]
