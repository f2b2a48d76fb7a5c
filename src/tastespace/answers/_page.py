"""Requests of the page by method and path, answered from models in memory: for notebooks, where there is no server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, lru_cache
from importlib.metadata import version
from typing import Any
from urllib.parse import unquote

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tastespace._util.checks import require_choice
from tastespace.answers._items import (
    ItemColumns,
    json_ids,
    row_of_text,
    row_of_value,
)
from tastespace.answers.facts import example_users, model_facts
from tastespace.answers.map import catalog_map
from tastespace.answers.person import (
    explanation_answer,
    interest_answers,
    listed_items,
    past_behind,
    shelf_answers,
)
from tastespace.data.attributes import title_column
from tastespace.data.reading.tables import to_polars
from tastespace.errors import ParameterError, TastespaceError, UnknownIdError
from tastespace.models.base import Recommender
from tastespace.models.profiles import Profile
from tastespace.ranking.scoring import ScoringIndex
from tastespace.recommend.shelves import shelves

# ---------------------------------------------------------------------------------------------------------------------
# What the page asks of a model, as JSON: in the shapes of the HTTP interface, without a server.

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


_LISTS = ("mute", "include", "exclude")  # in a query separated by commas
_NUMBERS = {"k": int, "limit": int, "diversity": float}


class PageRequests:
    """Answers of a model, and of a second one beside it, in the form of the HTTP interface.

    >>> from tastespace import EASE, synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> requests = PageRequests(EASE().fit(town))
    >>> status, found = requests.answer("GET", "/v1/users/7/recommendations", {"k": "2"})
    >>> status, len(found["items"])
    (200, 2)
    >>> requests.answer("GET", "/v1/users/nobody/recommendations")[0]
    404
    """

    def __init__(
        self,
        model: Recommender,
        compare: Recommender | None = None,
        *,
        name: str | None = None,
        compare_name: str | None = None,
    ) -> None:
        self.main = PageAnswers(model, name)
        self.compare = None if compare is None else PageAnswers(compare, compare_name)

    def answer(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> tuple[int, Json]:
        """Status and JSON of a request; errors are answers, too."""
        try:
            return 200, self._found(method, path, dict(query or {}), dict(body or {}))
        except UnknownIdError as problem:
            return 404, _error("unknown_id", problem)
        except (TastespaceError, ValueError, TypeError) as problem:
            return 422, _error("invalid", problem)

    def about(self) -> Json:
        """`PageAnswers.about` of the model, with that of the second in it."""
        return {**self.main.about(), "compare": None if self.compare is None else self.compare.about()}

    def _found(self, method: str, path: str, query: dict[str, str], body: Json) -> Json:
        answers = self.main
        if query.pop("model", "main") == "compare":
            if self.compare is None:
                raise ParameterError("there is no second model to compare with.")
            answers = self.compare
        options = _options(query)
        match method, [unquote(part) for part in path.strip("/").split("/")]:
            case "GET", ["v1", "model"]:
                return self.about()
            case "GET", ["v1", "map"]:
                return answers.map()
            case "GET", ["v1", "users"]:
                return answers.users(**options)
            case "GET", ["v1", "items", "search"]:
                return answers.search(**options)
            case "GET", ["v1", "items", item, "similar"]:
                return answers.similar(item, **options)
            case "GET", ["v1", "users", user, "recommendations"]:
                return answers.recommendations(user, **options)
            case "GET", ["v1", "users", user, "shelves"]:
                return answers.shelves(user, **options)
            case "GET", ["v1", "users", user, "interests"]:
                return answers.interests(user)
            case "GET", ["v1", "users", user, "explanations", item]:
                return answers.explanation(user, item)
            case "POST", ["v1", "recommendations"]:
                return {"lists": [_list(answers, person, _options(body)) for person in _people(body)]}
            case "POST", ["v1", "shelves"]:
                return answers.shelves(**_options(body))
            case "POST", ["v1", "interests"]:
                return answers.interests(history=body["history"])
            case "POST", ["v1", "explanations"]:
                return answers.explanation(item=body["item"], history=body["history"])
        raise UnknownIdError(f"{method} {path}: there is no such address.")


def _people(body: Json) -> list[Json]:
    histories, users = body.pop("histories", None), body.pop("users", None)
    if histories is not None:
        return [{"history": history} for history in histories]
    return [{"user": user} for user in users or ()]


def _list(answers: PageAnswers, person: Json, options: Json) -> Json:
    found = answers.recommendations(**person, **options)
    return {"user": found["user"], "items": found["items"]}


def _options(given: Mapping[str, Any]) -> Json:
    """Values of a query or a body as the answers take them."""
    found: Json = {}
    for name, value in given.items():
        if value is None or (value == "" and name not in ("q", "mute", "boost")):
            continue
        if name in _LISTS and isinstance(value, str):
            value = value.split(",") if value else []
        if name == "mute":
            value = [int(x) for x in value]
        if name == "boost":
            pairs = (one.split(":") for one in value.split(",") if one) if isinstance(value, str) else value.items()
            value = {int(x): float(factor) for x, factor in pairs}
        if name == "because" and isinstance(value, str):
            value = value != "false"
        found[name] = _NUMBERS[name](value) if name in _NUMBERS else value
    return found


def _error(code: str, problem: Exception) -> Json:
    return {"error": {"code": code, "message": str(problem), "advice": ""}}
