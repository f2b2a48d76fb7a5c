"""Answers in the JSON of the HTTP interface from models in memory: for the widget and for pages in a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any
from urllib.parse import unquote

import numpy as np

from tastespace._util.checks import require_choice
from tastespace._util.lru import LruCache
from tastespace.answers.catalog import Catalog, model_facts
from tastespace.answers.display import Display
from tastespace.answers.ids import id_from_text, id_in_type, ids_in_type, json_id
from tastespace.answers.lists import AnswerOptions, ListAnswers
from tastespace.answers.pages import lists_after
from tastespace.answers.people import People, Person
from tastespace.answers.requests import (
    LimitQuery,
    ListQuery,
    ModelQuery,
    NeighborQuery,
    PageQuery,
    Query,
    as_field,
    factors_by_number,
    query_options,
    read_body,
    read_query,
    with_served_diversity,
)
from tastespace.answers.tastes import TasteAnswers
from tastespace.answers.types import AnswerError, Recommendations, UnknownAnswerError
from tastespace.errors import TastespaceError, UnknownIdError
from tastespace.models.base import Recommender

Json = dict[str, Any]
_FOLDED = 32  # people with a history alone whose vectors are kept
_SHELF_K = 8


class PageAnswers:
    """Answers about one fitted model; people are users of the model, or have a history alone.

    >>> from tastespace import DPCML, synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> answers = PageAnswers(DPCML(dim=8, epochs=2).fit(town), name="town")
    >>> [one["rank"] for one in answers.recommendations(7, k=3)["items"]]
    [1, 2, 3]
    """

    def __init__(self, model: Recommender, name: str | None = None, display: Display | None = None) -> None:
        self.catalog = Catalog(model, display)
        self.model, self.name = model, name or type(model).__name__
        self.people = People(self.catalog)
        self.lists = ListAnswers(self.people)
        self.tastes = TasteAnswers(self.lists)
        self._folded: LruCache[Any, Person] = LruCache(_FOLDED)

    # ---- the model and its catalog ---------------------------------------------------------------------------

    def about(self) -> Json:
        """Facts about the model, and its abilities."""
        return {
            "name": self.name,
            **model_facts(self.catalog),
            "version": version("tastespace"),
            "fitted": None,
            "generation": self.catalog.generation,
            "metrics": {},
            "compare": None,
        }

    def map(self) -> Json:
        """The map of the catalog in columns."""
        return asdict(self.catalog.map())

    def search(self, q: str = "", limit: int = 20) -> Json:
        """Items by words of their title or by id, the most popular first."""
        return {"items": as_json(self.catalog.search_items(q, limit))}

    def similar(self, item: Any, k: int = 10) -> Json:
        """Items like an item."""
        row = self.catalog.item_row(item)
        (named,) = self.catalog.named(np.array([row]))
        return {**asdict(named), "items": as_json(self.catalog.similar(row, k))}

    def users(self, q: str = "", limit: int = 20) -> Json:
        """Users by id or name; without a query some who have several interests."""
        return {"users": as_json(self.catalog.search_users(q, limit))}

    def person(self, user: Any) -> Json:
        """Id, name and number of past items of one user."""
        return asdict(self.catalog.found_users(np.array([self.people.require(user).row]))[0])

    # ---- answers about one person ----------------------------------------------------------------------------

    def recommendations(
        self, user: Any = None, *, history: Sequence[Any] | None = None, after: str | None = None, **options: Any
    ) -> Json:
        """One list; ``options`` as in `AnswerOptions`, past items as JSON has their ids. ``after``: one page of it."""
        asked = self._options(options)
        if after is None:
            (found,) = self._lists(user, history, asked)
        else:
            items = self.catalog.train.items
            (found,) = lists_after(lambda changed: self._lists(user, history, changed), items, user, asked, after)
        if isinstance(found, AnswerError):
            raise found
        return {**asdict(found), "unknown_items": self._unknown(history)}

    def _lists(
        self, user: Any, history: Sequence[Any] | None, asked: AnswerOptions
    ) -> Sequence[Recommendations | AnswerError]:
        if history is None:
            return self.lists.for_users([user], asked)
        if not len(history):
            return self.lists.for_histories([self.catalog.history_rows([])], asked)
        (items,) = self.lists.for_people([self._person(None, history, asked)], asked)
        return [Recommendations(None, self.catalog.generation, items)]

    def shelves(self, user: Any = None, *, history: Sequence[Any] | None = None, **options: Any) -> Json:
        """A row of items for each interest."""
        asked = self._options({"k": _SHELF_K, **options})
        person = self._person(user, history, asked)
        found = {**self._asked(person), "shelves": as_json(self.tastes.shelves(person, asked))}
        return {**found, "unknown_items": self._unknown(history)}

    def interests(self, user: Any = None, *, history: Sequence[Any] | None = None, **options: Any) -> Json:
        """The interests with their places on the map, and the interest of each past item."""
        asked = self._options(options)
        person = self._person(user, history, asked)
        found, past = self.tastes.interests(person, asked)
        told = {**self._asked(person), "interests": as_json(found), "history": as_json(past)}
        return {**told, "unknown_items": self._unknown(history)}

    def explanation(
        self, user: Any = None, item: Any = None, *, history: Sequence[Any] | None = None, **options: Any
    ) -> Json:
        """Reasons for an item, in a sentence and in numbers."""
        asked = self._options(options)
        row = self.catalog.item_row(item)
        return asdict(self.tastes.explanation(self._person(user, history, asked), row, asked))

    def _person(self, user: Any, history: Sequence[Any] | None, asked: AnswerOptions) -> Person:
        if history is None:
            return self.people.require(user)
        past, skip_unknown = tuple(history), asked.on_unknown != "error"
        return self._folded.get_or_make((past, skip_unknown), lambda: self.people.with_history(past, skip_unknown))

    def _options(self, given: Mapping[str, Any]) -> AnswerOptions:
        require_choice("on_unknown", given.get("on_unknown", "error"), ("error", "popular"))
        found = with_served_diversity(given, self.model)
        found.update({name: tuple(given[name]) for name in ("items", "exclude") if name in given})
        if found.get("mute") is not None:
            found["mute"] = tuple(int(x) for x in found["mute"])
        if found.get("boost") is not None:
            found["boost"] = factors_by_number(found["boost"])
        return AnswerOptions(**found)

    def _unknown(self, history: Sequence[Any] | None) -> list[Any]:
        return [] if history is None else self.catalog.unknown_items(history)

    def _asked(self, person: Person) -> Json:
        return {"user": json_id(person.user), "model": self.catalog.generation}


def as_json(found: Iterable[Any]) -> list[Json]:
    """Return answers as JSON has them."""
    return [asdict(one) for one in found]


class PageRequests:
    """Answers of a model, and of a second one to compare with, to the requests that the page sends to a server.

    >>> from tastespace import EASE, synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> requests = PageRequests(EASE().fit(town))
    >>> status, found = requests.answer("GET", "/v1/users/7/recommendations", {"k": "2"})
    >>> status, len(found["items"])
    (200, 2)
    >>> requests.answer("GET", "/v1/users/999/recommendations")[0]
    404
    """

    def __init__(
        self,
        model: Recommender,
        compare: Recommender | None = None,
        *,
        name: str | None = None,
        compare_name: str | None = None,
        display: Display | None = None,
    ) -> None:
        self.main = PageAnswers(model, name, display)
        self.compare = None if compare is None else PageAnswers(compare, compare_name, display)

    def answer(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> tuple[int, Json]:
        """Status and JSON of a request; errors are answers, too."""
        try:
            return 200, self._found(method, path, dict(query or {}), dict(body or {}))
        except (TastespaceError, ValueError, TypeError) as problem:
            is_unknown = isinstance(problem, UnknownIdError)
            code = getattr(problem, "code", "unknown_id" if is_unknown else "invalid_request")
            message = problem.worded(as_field) if isinstance(problem, TastespaceError) else str(problem)
            error = {"code": code, "message": message, "advice": getattr(problem, "advice", "")}
            return 404 if is_unknown else 422, {"error": error}

    def about(self) -> Json:
        """`PageAnswers.about` of the model, with that of the second in it."""
        return {**self.main.about(), "compare": None if self.compare is None else self.compare.about()}

    def _found(self, method: str, path: str, query: Mapping[str, str], body: Json) -> Json:
        match method, [unquote(part) for part in path.strip("/").split("/")]:
            case "GET", ["v1", "model"]:
                self._read(ModelQuery, query)
                return self.about()
            case "GET", ["v1", "map"]:
                return self._read(ModelQuery, query)[0].map()
            case "GET", ["v1", "users"]:
                answers, search = self._read(LimitQuery, query)
                return answers.users(search.q, search.limit)
            case "GET", ["v1", "items", "search"]:
                answers, search = self._read(LimitQuery, query)
                return answers.search(search.q, search.limit)
            case "GET", ["v1", "items", item, "similar"]:
                answers, near = self._read(NeighborQuery, query)
                return answers.similar(id_from_text(answers.catalog.train.items, item, "item"), near.k or 10)
            case "GET", ["v1", "users", user, "recommendations"]:
                answers, paged = self._read(PageQuery, query)
                user_id, items = id_from_text(answers.catalog.train.users, user, "user"), answers.catalog.train.items
                return answers.recommendations(user_id, after=paged.after, **query_options(paged, items))
            case "GET", ["v1", "users", user, "shelves" | "interests" as what]:
                answers, asked = self._read(ListQuery, query)
                user_id = id_from_text(answers.catalog.train.users, user, "user")
                found: Json = getattr(answers, what)(user_id, **query_options(asked, answers.catalog.train.items))
                return found
            case "GET", ["v1", "users", user, "explanations", item]:
                answers, asked = self._read(ListQuery, query)
                train = answers.catalog.train
                named = id_from_text(train.users, user, "user"), id_from_text(train.items, item, "item")
                return answers.explanation(*named, **query_options(asked, train.items))
            case "POST", ["v1", "recommendations"]:
                answers, given = self._with_body(query, body, "users", "histories", "after")
                users, histories = given.pop("users", None), given.pop("histories", None)
                if given.get("after") is not None and (histories is None or len(histories) != 1):
                    raise AnswerError("invalid_request", "after is for one history.", "Give one of histories.")
                if histories is not None:
                    return {"lists": [answers.recommendations(history=one, **given) for one in histories]}
                typed = ids_in_type(answers.catalog.train.users, users or (), "user")
                return {"lists": [answers.recommendations(user, **given) for user in typed]}
            case "POST", ["v1", "shelves" | "interests" as what]:
                answers, given = self._with_body(query, body, "history")
                answered: Json = getattr(answers, what)(**given)
                return answered
            case "POST", ["v1", "explanations"]:
                answers, given = self._with_body(query, body, "history", "item")
                given["item"] = id_in_type(answers.catalog.train.items, given.get("item"), "item")
                return answers.explanation(**given)
        raise UnknownAnswerError("not_found", "there is nothing at this path.")

    def _read(self, kind: type[Query], query: Mapping[str, str]) -> tuple[PageAnswers, Query]:
        """Return the answers of the chosen model, and the query."""
        found = read_query(kind, query.items())
        if found.model == "main":
            return self.main, found
        if self.compare is None:
            raise UnknownAnswerError("no_second_model", "there is no second model.", "Give a second model to compare.")
        return self.compare, found

    def _with_body(self, query: Mapping[str, str], body: Json, *own: str) -> tuple[PageAnswers, Json]:
        """Return the answers of the chosen model, and the body by the names of `AnswerOptions`."""
        answers, _ = self._read(ModelQuery, query)
        given, items = read_body(body, ("exclude", "include", "mute", "boost", *own)), answers.catalog.train.items
        given["items"] = ids_in_type(items, given.pop("include", None) or (), "item")
        given["exclude"] = ids_in_type(items, given.get("exclude") or (), "item")
        return answers, given
