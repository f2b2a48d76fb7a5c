"""What the page asks of a model, as JSON: in the shapes of the HTTP interface, without a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace.checks import require_choice
from tastespace.data.attributes import title_column
from tastespace.data.tables import to_polars
from tastespace.errors import ParameterError, UnknownIdError
from tastespace.explore.item_columns import ItemColumns, json_ids, row_of_text, row_of_value
from tastespace.explore.item_places import catalog_map
from tastespace.explore.model_facts import example_users, model_facts
from tastespace.explore.person_answers import (
    explanation_answer,
    interest_answers,
    listed_items,
    past_behind,
    shelf_answers,
)
from tastespace.models.base import Recommender
from tastespace.models.profiles import Profile
from tastespace.recommend.scoring import ScoringIndex
from tastespace.recommend.shelves import shelves

Json = dict[str, Any]
_FOLDED = 32  # newcomers whose vectors are kept


class PageAnswers:
    """Answers about one fitted model; people are users of the model, or newcomers with a history.

    >>> from tastespace import DPCML, synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> answers = PageAnswers(DPCML(dim=8, epochs=2).fit(town), name="town")
    >>> [one["rank"] for one in answers.recommendations(7, k=3)["items"]]
    [1, 2, 3]
    """

    def __init__(self, model: Recommender, name: str | None = None) -> None:
        model.require_fitted()
        self.model = model
        self.name = name or type(model).__name__
        self.columns = ItemColumns(model.train_, model.popularity_source)
        self._folded = lru_cache(_FOLDED)(self._fold_in)

    # ---- the model and its catalog ---------------------------------------------------------------------------

    def about(self) -> Json:
        """What the model is and can do."""
        return {
            "name": self.name,
            **model_facts(self.model),
            "version": version("tastespace"),
            "fitted": None,
            "generation": 1,
            "metrics": {},
            "compare": None,
        }

    def map(self) -> Json:
        """The map of the catalog in columns."""
        places = catalog_map(self.model).places
        return {
            "items": self.columns.ids,
            "titles": self.columns.titles,
            "x": [round(x, 4) for x in places[:, 0].tolist()],
            "y": [round(y, 4) for y in places[:, 1].tolist()],
            "category": self.columns.category_codes.tolist(),
            "categories": self.columns.category_names,
            "popularity": self.columns.source.item_counts.tolist(),
        }

    def search(self, q: str = "", limit: int = 20) -> Json:
        """Items by words of their title or by id, the most popular first."""
        return {"items": self.columns.search(q, limit)}

    def similar(self, item: Any, k: int = 10) -> Json:
        """Items like an item."""
        row = self._item_row(item)
        found = ScoringIndex(self.model, threads=1).similar_items(np.array([row]), k)
        items = listed_items(self.columns, found.rows, found.scores.tolist())
        return {**self.columns.named(row), "items": plain(items)}

    # ---- people ----------------------------------------------------------------------------------------------

    def users(self, q: str = "", limit: int = 20) -> Json:
        """Users by id or name; without a query some who have several interests."""
        train = self.model.train_
        if q:
            searched = self._user_ids.str.to_lowercase()
            found = searched.str.contains(q.lower(), literal=True)
            starts = searched.str.starts_with(q.lower())
            if self._user_names is not None:
                names = self._user_names.str.to_lowercase()
                found |= names.str.contains(q.lower(), literal=True).fill_null(False)
                starts |= names.str.starts_with(q.lower()).fill_null(False)
            rows = np.flatnonzero(found.to_numpy() & (train.user_counts > 0))
            order = np.lexsort((rows, self._user_ids.str.len_chars().to_numpy()[rows], ~starts.to_numpy()[rows]))
            rows = rows[order][:limit]
        else:
            rows = self._examples[:limit]
        return {"users": self._described_users(rows)}

    def person(self, user: Any) -> Json:
        """Id, name and number of past items of one user."""
        return self._described_users(np.array([self.row_of(user)[1]]))[0]

    def _described_users(self, rows: NDArray[np.int64]) -> list[Json]:
        train = self.model.train_
        ids = json_ids(train.users.take(rows))
        names = [None] * len(rows) if self._user_names is None else self._user_names.gather(rows).to_list()
        counts = train.user_counts[rows].tolist()
        return [{"user": u, "name": n, "n_items": c} for u, n, c in zip(ids, names, counts, strict=True)]

    @cached_property
    def _user_ids(self) -> pl.Series:
        return pl.Series([str(one) for one in json_ids(self.model.train_.users.series)], dtype=pl.String)

    @cached_property
    def _user_names(self) -> pl.Series | None:
        column = title_column(self.model.train_.user_attributes)
        frame = self.model.train_.user_attributes
        return None if column is None or frame is None else frame[column].cast(pl.String)

    @cached_property
    def _examples(self) -> NDArray[np.int64]:
        return example_users(self.model)

    # ---- answers about one person ----------------------------------------------------------------------------

    def recommendations(
        self,
        user: Any = None,
        *,
        history: Sequence[Any] | None = None,
        k: int = 10,
        mix: str | None = None,
        diversity: float | None = None,
        include: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        mute: Iterable[int] | None = None,
        boost: Mapping[int, float] | None = None,
        unknown: str = "error",
        because: bool = True,
    ) -> Json:
        """One list; ``include`` are the only items allowed, ``exclude`` those that are not.

        ``mute`` and ``boost`` count instead of the user's profile, also where they are empty. With
        ``unknown="popular"`` an empty history gets the most popular items.
        """
        require_choice("unknown", unknown, ("error", "popular"))
        if history is not None and not history and unknown == "popular":
            popular = np.array([self._item_row(one["item"]) for one in self.columns.search("", k)])
            listed = listed_items(self.columns, popular, [None] * len(popular))
            return {"user": None, "model": 1, "items": plain(listed), "fallback": "popular"}
        model, row = self.row_of(user, history)
        muted, boosts = _choices(model, row, mute, boost)
        found = to_polars(
            model.recommend(
                model.train_.users[row],
                k,
                mix=mix,
                diversity=diversity,
                items=self._allowed(include, exclude),
                mute=muted or None,
                boost=boosts or None,
                profile=False,
                threads=1,
            )
        )[0]
        rows = model.train_.items.find(found["item"])
        interests = found["interest"].to_list() if "interest" in found.columns else [None] * len(found)
        items = self.items(model, row, rows, found["score"].to_list(), interests, because)
        return {"user": user, "model": 1, "items": items, "fallback": None}

    def shelves(
        self,
        user: Any = None,
        *,
        history: Sequence[Any] | None = None,
        k: int = 8,
        include: Iterable[Any] | None = None,
        exclude: Iterable[Any] | None = None,
        mute: Iterable[int] | None = None,
        boost: Mapping[int, float] | None = None,
        because: bool = True,
    ) -> Json:
        """A row of items for each interest."""
        model, row = self.row_of(user, history)
        muted, boosts = _choices(model, row, mute, boost)
        allowed = self._allowed(include, exclude)
        found = shelves(model, model.train_.users[row], k, mute=muted, boost=boosts, items=allowed, profile=False)
        answers = shelf_answers(self.columns, model, row, list(found), muted, boosts, because)
        return {"user": user, "model": 1, "shelves": plain(answers)}

    def interests(self, user: Any = None, *, history: Sequence[Any] | None = None) -> Json:
        """The interests, where they are on the map, and which past item belongs to which."""
        model, row = self.row_of(user, history)
        if ScoringIndex(model, threads=1).interest_space is None:
            past = [{**self.columns.named(at), "interest": None} for at in self._past(model, row)]
            return {"user": user, "interests": [], "history": past}
        found, history = interest_answers(self.columns, model, row, *_choices(model, row, None, None))
        return {"user": user, "model": 1, "interests": plain(found), "history": plain(history)}

    def explanation(self, user: Any = None, item: Any = None, *, history: Sequence[Any] | None = None) -> Json:
        """Why an item is recommended, in a sentence and in numbers."""
        model, row = self.row_of(user, history)
        return plain(explanation_answer(self.columns, model, row, self._item_row(item), user))

    # ---- parts of them ---------------------------------------------------------------------------------------

    def items(
        self,
        model: Recommender,
        row: int,
        items: NDArray[np.integer[Any]],
        scores: Sequence[float | None],
        interests: Sequence[int | None],
        because: bool = True,
    ) -> list[Json]:
        """A list of the user at this row of the model: rows of items, their scores and interests."""
        behind = past_behind(self.columns, ScoringIndex(model, threads=1), row, items) if because else None
        return plain(listed_items(self.columns, items, scores, interests, None, behind))

    def row_of(self, user: Any, history: Sequence[Any] | None = None) -> tuple[Recommender, int]:
        """The model that knows this person, and the person's row in it."""
        if history is not None:
            return self._folded(tuple(history)), 0
        ids = self.model.train_.users
        row = row_of_text(ids, user) if isinstance(user, str) else row_of_value(ids, user)
        if row < 0:
            raise UnknownIdError(
                f"user {user!r} is not in the model: expected the id of one of its {len(ids):,} users."
            )
        return self.model, row

    def _fold_in(self, history: tuple[Any, ...]) -> Recommender:
        if not self.model.supports_fold_in:
            raise ParameterError(f"{type(self.model).__name__} has no fold-in: it knows the users of training only.")
        if not history:
            raise ParameterError("the history is empty: expected at least one item id.")
        ids = self.model.train_.items
        return self.model.fold_in([[ids[self._item_row(item)] for item in history]])

    def _item_row(self, item: Any) -> int:
        ids = self.model.train_.items
        row = row_of_text(ids, item) if isinstance(item, str) else row_of_value(ids, item)
        if row < 0:
            raise UnknownIdError(f"item {item!r} is not in the model.")
        return row

    def _allowed(self, include: Iterable[Any] | None, exclude: Iterable[Any] | None) -> list[Any] | None:
        """Ids of the items that may be recommended; None: all."""
        if include is None and not exclude:
            return None
        ids = self.model.train_.items
        rows = range(len(ids)) if include is None else [self._item_row(item) for item in include]
        without = {self._item_row(item) for item in exclude or ()}
        return ids.take(np.array([row for row in rows if row not in without], dtype=np.int64)).to_list()

    def _past(self, model: Recommender, row: int) -> list[int]:
        train = model.train_
        past: list[int] = train.indices[train.offsets[row] : train.offsets[row + 1]].tolist()
        return past


def _choices(
    model: Recommender, row: int, mute: Iterable[int] | None, boost: Mapping[int, float] | None
) -> tuple[list[int], dict[int, float]]:
    """Muted interests and factors of a request; what it does not say is that of the user's profile."""
    profile = model.profiles.get(model.train_.users[row], Profile())
    muted = sorted(profile.muted if mute is None else mute)
    return muted, {x: factor for x, factor in (profile.boosts if boost is None else boost).items() if factor != 1}


def plain(found: Any) -> Any:
    """Answers as JSON has them."""
    return [asdict(one) for one in found] if isinstance(found, list) else asdict(found)
