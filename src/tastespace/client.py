"""A client of the server: `tastespace serve` from Python, with types.

>>> Client("http://127.0.0.1:8000", token="ts_...").address
'http://127.0.0.1:8000'
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import quote

from tastespace._util.extras import missing
from tastespace.answers.types import (
    AudienceUser,
    CountedItem,
    ExplanationAnswer,
    FoundItem,
    FoundUser,
    Id,
    Interest,
    Item,
    Map,
    Recommendations,
    ShelfAnswer,
    Stored,
)
from tastespace.errors import TastespaceError

if TYPE_CHECKING:
    import httpx
    from typing_extensions import Unpack

Answer = TypeVar("Answer")

_AGAIN = (429, 503)


class ServerError(TastespaceError):
    """The server has refused a request: `status`, `code`, and what to do in `advice`."""

    def __init__(self, status: int, code: str, message: str, advice: str = "") -> None:
        super().__init__(f"{message} {advice}".strip())
        self.status, self.code, self.advice = status, code, advice


@dataclass(frozen=True)
class ServedProfile:
    """Interests that a user has muted and boosted."""

    user: Id
    mute: list[int]
    boost: dict[int, float]
    dropped: list[int] = field(default_factory=list)
    """Numbers, as they were stored, of interests that the user no longer has."""


@dataclass(frozen=True)
class Event:
    """One interaction. It keeps its id, so that it may be sent again without being stored twice."""

    user: Id
    item: Id
    weight: float = 1.0
    time: str | None = None
    """In ISO form; None: when it is stored."""
    event_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    kind: str | None = None
    """Such as purchase or dislike, one of the kinds that the model knows."""
    recommendation: str | None = None
    """Id of the answer whose list it came from, see `Recommendations`."""


class RequestKeywords(TypedDict, total=False):
    """Options of the lists of a request, named as in its body."""

    mix: str | None
    """nearest, scaled, proportional or calibrated."""
    diversity: float | None
    """Strength of the mix, 0 to 1."""
    column: str | None
    """Item attribute with the categories of the calibrated mix, or ``"interest"``."""
    filter: str | None
    """Condition on item attributes, such as ``"year >= 1990"``."""
    include: Iterable[Id]
    """Item ids: the only ones that may be in a list."""
    exclude: Iterable[Id]
    """Item ids that are left out."""
    mute: Iterable[int] | None
    """Numbers of interests to leave out, in place of those in the profile."""
    boost: Mapping[int, float] | None
    """Factors of interests, in place of those in the profile."""
    on_unknown: str
    """error, or popular: the most popular items for unknown users and empty histories."""
    include_seen: bool
    """Items that the user has may be in the list, too."""
    because: bool
    """False leaves out the past items that matter most for each item."""
    rules: Mapping[str, Any] | None
    """Rules of this request, as in `tastespace.Rules`; they add to those of the server."""
    model: Literal["main", "compare"]
    """The served model, or the second one."""
    session: str | None
    """Of somebody without an id: the same session gets the same model of an experiment."""


class Client:
    """A connection to a server; threads may share it.

    Requests that the server could not take at the moment (429, 503), and those that were not answered, are sent again a
    few times. That is harmless: every event has an id.

    Args:
        address: Such as ``"http://127.0.0.1:8000"``.
        token: A token, where the server wants one.
        timeout: Seconds for an answer.
        retries: Number of times that a request is sent again.
        transport: Of httpx, such as one to an application in the same process.
    """

    def __init__(
        self,
        address: str = "http://127.0.0.1:8000",
        token: str | None = None,
        *,
        timeout: float = 10.0,
        retries: int = 3,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        try:
            import httpx
        except ImportError as problem:
            raise missing("serve", "the client needs httpx") from problem
        self.address, self._retries, self._failures = address.rstrip("/"), retries, httpx.TransportError
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=self.address, headers=headers, timeout=timeout, transport=transport)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # ---- lists ---------------------------------------------------------------------------------------------

    def recommend(self, user: Id, k: int = 10, **options: Unpack[RequestKeywords]) -> Recommendations:
        """Return the best items for a user; options as in `RequestKeywords`."""
        (found,) = self.recommend_all([user], k, **options)
        return found

    def recommend_all(
        self, users: Sequence[Id], k: int = 10, **options: Unpack[RequestKeywords]
    ) -> list[Recommendations]:
        """Return the best items for several users, in their order."""
        return self._lists({"users": list(users), "k": k}, options)

    def recommend_for(
        self, histories: Iterable[Iterable[Id]], k: int = 10, **options: Unpack[RequestKeywords]
    ) -> list[Recommendations]:
        """Return the best items for users who are not in the model, from their histories."""
        return self._lists({"histories": [list(one) for one in histories], "k": k}, options)

    def recommend_with(
        self, features: Iterable[Mapping[str, Any]], k: int = 10, **options: Unpack[RequestKeywords]
    ) -> list[Recommendations]:
        """Return the best items for users with these features, where the model takes features."""
        return self._lists({"features": [dict(one) for one in features], "k": k}, options)

    def _lists(self, body: dict[str, Any], options: RequestKeywords) -> list[Recommendations]:
        answer = self._ask("POST", "/v1/recommendations", **_split(body, options))
        return [_read(Recommendations, one) for one in answer["lists"]]

    # ---- tastes --------------------------------------------------------------------------------------------

    def shelves(self, user: Id, k: int = 8, **options: Unpack[RequestKeywords]) -> list[ShelfAnswer]:
        """Return a row of items for each interest of a user."""
        answer = self._ask("GET", f"/v1/users/{_quoted(user)}/shelves", query=_query({"k": k, **options}))
        return [_read(ShelfAnswer, one) for one in answer["shelves"]]

    def shelves_for(self, history: Iterable[Id], k: int = 8, **options: Unpack[RequestKeywords]) -> list[ShelfAnswer]:
        """The same for a user who is not in the model."""
        answer = self._ask("POST", "/v1/shelves", **_split({"history": list(history), "k": k}, options))
        return [_read(ShelfAnswer, one) for one in answer["shelves"]]

    def interests(self, user: Id, **options: Unpack[RequestKeywords]) -> list[Interest]:
        """Return the interests of a user, with shares, names and places on the map."""
        answer = self._ask("GET", f"/v1/users/{_quoted(user)}/interests", query=_query(options))
        return [_read(Interest, one) for one in answer["interests"]]

    def interests_for(self, history: Iterable[Id], **options: Unpack[RequestKeywords]) -> list[Interest]:
        """The same for a user who is not in the model."""
        answer = self._ask("POST", "/v1/interests", **_split({"history": list(history)}, options))
        return [_read(Interest, one) for one in answer["interests"]]

    def explain(self, user: Id, item: Id) -> ExplanationAnswer:
        """Return the explanation of an item's rank for a user."""
        return _read(ExplanationAnswer, self._ask("GET", f"/v1/users/{_quoted(user)}/explanations/{_quoted(item)}"))

    def similar(self, item: Id, k: int = 10) -> list[Item]:
        """Return the items most like an item."""
        answer = self._ask("GET", f"/v1/items/{_quoted(item)}/similar", query={"k": str(k)})
        return [_read(Item, one) for one in answer["items"]]

    def recommend_page(
        self, user: Id, k: int = 10, *, after: str = "", **options: Unpack[RequestKeywords]
    ) -> Recommendations:
        """Return a page of a user's list; ``after`` is ``next`` of the page before, empty for the first one."""
        query = {**_query({"k": k, **options}), "after": after}
        return _read(Recommendations, self._ask("GET", f"/v1/users/{_quoted(user)}/recommendations", query=query))

    def popular(
        self, k: int = 10, *, since: str | None = None, trending: bool = False, filter: str | None = None
    ) -> list[CountedItem]:
        """Return the most popular items, of a window of time such as 7d where one is given, or by their rise in it."""
        query = _query({"k": k, "since": since, "trending": trending, "filter": filter})
        return [_read(CountedItem, one) for one in self._ask("GET", "/v1/popular", query=query)["items"]]

    def together(
        self, item: Id, k: int = 10, *, within: str | None = None, filter: str | None = None
    ) -> list[CountedItem]:
        """Return the items that the same people take as an item."""
        query = _query({"k": k, "within": within, "filter": filter})
        return [
            _read(CountedItem, one)
            for one in self._ask("GET", f"/v1/items/{_quoted(item)}/together", query=query)["items"]
        ]

    def next_items(
        self, session: Iterable[Id], k: int = 10, *, filter: str | None = None, include_seen: bool = False
    ) -> list[Item]:
        """Return the items that come next in a session, whose items are given from the oldest to the last."""
        body = {"session": list(session), "k": k, "filter": filter, "include_seen": include_seen}
        return [_read(Item, one) for one in self._ask("POST", "/v1/next", body=body)["items"]]

    def search(self, text: str, limit: int = 20) -> list[FoundItem]:
        """Return items by words of their titles, or by id."""
        answer = self._ask("GET", "/v1/items/search", query={"q": text, "limit": str(limit)})
        return [_read(FoundItem, one) for one in answer["items"]]

    def audience(self, item: Id, k: int = 20) -> list[AudienceUser]:
        """Return the users whose interests are nearest to an item."""
        answer = self._ask("GET", f"/v1/items/{_quoted(item)}/audience", query={"k": str(k)})
        return [_read(AudienceUser, one) for one in answer["users"]]

    def users(self, text: str = "", limit: int = 20) -> list[FoundUser]:
        """Return users by id or name."""
        answer = self._ask("GET", "/v1/users", query={"q": text, "limit": str(limit)})
        return [_read(FoundUser, one) for one in answer["users"]]

    def map(self) -> Map:
        """Return all items in the plane."""
        return _read(Map, self._ask("GET", "/v1/map"))

    # ---- feedback ------------------------------------------------------------------------------------------

    def feedback(self, events: Iterable[Event | tuple[Id, Id]]) -> Stored:
        """Send interactions, as events or as pairs of user and item; when it returns, they are on disk."""
        listed = [one if isinstance(one, Event) else Event(*one) for one in events]
        body = [
            {name: value for name, value in vars(one).items() if value is not None}
            for one in listed
        ]  # fmt: skip
        return _read(Stored, self._ask("POST", "/v1/feedback", body={"events": body}))

    def profile(self, user: Id) -> ServedProfile:
        """Return the interests that a user has muted and boosted."""
        return _profile(self._ask("GET", f"/v1/users/{_quoted(user)}/profile"))

    def set_profile(
        self, user: Id, mute: Iterable[int] = (), boost: Mapping[int, float] | None = None
    ) -> ServedProfile:
        """Replace the interests that a user has muted and boosted."""
        body = {"mute": list(mute), "boost": {str(x): factor for x, factor in (boost or {}).items()}}
        return _profile(self._ask("PUT", f"/v1/users/{_quoted(user)}/profile", body=body))

    # ---- people and items ----------------------------------------------------------------------------------

    def delete_user(self, user: Id) -> dict[str, Any]:
        """Delete all that is kept of a user; the answer says what ``remains`` in the model until it is fitted again."""
        return dict(self._ask("DELETE", f"/v1/users/{_quoted(user)}"))

    def user_data(self, user: Id) -> dict[str, Any]:
        """Return all that is kept of a user, in the model and in the feedback store."""
        return dict(self._ask("GET", f"/v1/users/{_quoted(user)}/data"))

    def put_item(self, item: Id, attributes: Mapping[str, Any] | None = None, available: bool = True) -> dict[str, Any]:
        """Change attributes and availability of an item, or add a new one."""
        body = {"attributes": dict(attributes or {}), "available": available}
        return dict(self._ask("PUT", f"/v1/items/{_quoted(item)}", body=body))

    def delete_item(self, item: Id) -> dict[str, Any]:
        """Leave an item out of all lists at once, and out of the next model that is fitted again."""
        return dict(self._ask("DELETE", f"/v1/items/{_quoted(item)}"))

    # ---- the server ----------------------------------------------------------------------------------------

    def model(self) -> dict[str, Any]:
        """Return the description of the served model."""
        return dict(self._ask("GET", "/v1/model"))

    def reload(self, path: str | None = None) -> dict[str, Any]:
        """Serve another model next to the served one, or the same path again."""
        return dict(self._ask("POST", "/v1/model/reload", body={} if path is None else {"path": path}))

    def is_ready(self) -> bool:
        """Return True where the server answers."""
        try:
            return bool(self._http.get("/health/ready").status_code == 200)
        except self._failures:
            return False

    def _ask(self, method: str, path: str, query: Any = None, body: Any = None) -> Any:
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                answer = self._http.request(method, path, params=query, json=body)
            except self._failures as problem:
                if last:
                    raise ServerError(0, "unreachable", f"{self.address} does not answer ({problem}).") from problem
                time.sleep(0.1 * 2**attempt)
                continue
            if answer.status_code not in _AGAIN or last:
                break
            time.sleep(min(float(answer.headers.get("retry-after", "1")), 5.0))
        if answer.status_code >= 400:
            try:
                found = answer.json()["error"]
                raise ServerError(answer.status_code, found["code"], found["message"], found["advice"])
            except (ValueError, KeyError, TypeError):
                raise ServerError(answer.status_code, "no_json", answer.text[:200]) from None
        return answer.json()


def _split(body: dict[str, Any], options: RequestKeywords) -> dict[str, Any]:
    """Return body and query of a POST: all options but the model and the session are in the body."""
    of_query = {name: one for name, one in options.items() if name in ("model", "session") and one}
    given: dict[str, Any] = {name: one for name, one in options.items() if one is not None and name not in of_query}
    if "boost" in given:
        given["boost"] = {str(x): factor for x, factor in given["boost"].items()}
    for name in ("include", "exclude", "mute"):
        if name in given:
            given[name] = list(given[name])
    return {"body": {**body, **given}, "query": of_query or None}


def _query(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as a query has them."""
    given = {name: value for name, value in options.items() if value is not None}
    if "boost" in given:
        given["boost"] = ",".join(f"{x}:{factor}" for x, factor in given["boost"].items()) or ","
    if "mute" in given:
        given["mute"] = ",".join(map(str, given["mute"])) or ","
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}


def _quoted(one: Id) -> str:
    return quote(str(one).lower() if isinstance(one, bool) else str(one), safe="")


def _profile(found: dict[str, Any]) -> ServedProfile:
    boost = {int(x): factor for x, factor in found["boost"].items()}
    return ServedProfile(found["user"], found["mute"], boost, found.get("dropped", []))


def _read(kind: type[Answer], found: Mapping[str, Any]) -> Answer:
    """JSON as a value of a type; fields that this client does not know are left out."""
    hints = get_type_hints(kind)
    given = {}
    for one in fields(kind):  # type: ignore[arg-type]
        if one.name in found:
            given[one.name] = _as(hints[one.name], found[one.name])
    return kind(**given)


def _as(hint: Any, value: Any) -> Any:
    for one in (hint, *get_args(hint)):  # a list, or a list or None
        if get_origin(one) is list and is_dataclass(get_args(one)[0]) and value is not None:
            return [_read(get_args(one)[0], each) for each in value]
    return value
