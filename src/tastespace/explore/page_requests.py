"""Requests of the page by method and path, answered from models in memory: for notebooks, where there is no server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from tastespace.errors import ParameterError, TastespaceError, UnknownIdError
from tastespace.explore.page_answers import Json, PageAnswers
from tastespace.models.base import Recommender

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
