"""Endpoints, each declared once: routing, checks and the OpenAPI document follow from the declaration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from tastespace._util.limits import QUERY_CHARACTERS, QUERY_FIELDS
from tastespace._util.lru import LruCache
from tastespace.answers.requests import ModelQuery, read_query
from tastespace.serve.errors import HttpError, refused
from tastespace.serve.state import ServerState, Slot

_MOST_KEPT_QUERY = 100
_MOST_READ = 500


@dataclass(frozen=True, eq=False)
class Answer:
    """An answer that is not plain JSON with status 200."""

    body: bytes
    status: int = 200
    content_type: bytes = b"application/json"
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(eq=False, slots=True)
class RequestContext:
    """One request, read and checked."""

    state: ServerState
    path: dict[str, str]
    query: Any
    body: Any = None
    headers: dict[bytes, bytes] = field(default_factory=dict)
    query_text: bytes = b""
    """The query as it was sent."""
    _slot: Slot | None = None

    @property
    def slot(self) -> Slot:
        """The model that serves this request; fixed until `forget_slot`."""
        if self._slot is None:
            unit = self.path.get("user") if self.query.session is None else self.query.session
            found = self.state.slot(self.query.model, unit)
            found.served.model.require_fitted()  # its files are as they were
            self._slot = found
        return self._slot

    @property
    def is_without_feedback(self) -> bool:
        """True where the feedback of the model of this request cannot be read at the moment."""
        return self._slot is not None and self._slot.people.problem is not None

    def forget_slot(self) -> None:
        """Use the newly opened model for the rest of the request."""
        self._slot = None


Handler = Callable[[RequestContext], Awaitable[Any]]


@dataclass(eq=False)
class Endpoint:
    """A method and a path, the scope that a token needs, and the types of query, body and answer."""

    method: str
    path: str
    handler: Handler
    answer: Any
    scope: str | None = "read"
    query: type[ModelQuery] = ModelQuery
    body: type[msgspec.Struct] | None = None
    errors: tuple[int, ...] = ()
    is_body_optional: bool = False
    """True where a missing body counts as one without fields."""

    @property
    def summary(self) -> str:
        """First line of the docstring of its function."""
        return (self.handler.__doc__ or "").strip().split("\n")[0]

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """The path in parts; one in braces is a parameter."""
        return tuple(self.path.strip("/").split("/"))

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self.body)

    def read_query(self, text: bytes) -> Any:
        """Return the query as a value, see `tastespace.answers.requests.read_query`."""
        found = self._read.get(text)
        if found is None:
            found = self._read_query(text)
            if len(text) <= _MOST_KEPT_QUERY:
                self._read.put(text, found)
        return found

    @cached_property
    def _read(self) -> LruCache[bytes, Any]:
        """Short queries that were read before, as immutable values: most requests repeat."""
        return LruCache(_MOST_READ)

    def _read_query(self, text: bytes) -> Any:
        if not text:
            return self.query()
        if len(text) > QUERY_CHARACTERS:
            message = f"the query has more than {QUERY_CHARACTERS:,} characters."
            raise HttpError(414, "query_too_long", message, "Use POST.")
        try:
            pairs = parse_qsl(text.decode("latin-1"), True, max_num_fields=QUERY_FIELDS, errors="strict")
        except (ValueError, UnicodeDecodeError) as problem:
            raise HttpError(400, "bad_query", f"the query cannot be read: {problem}.") from problem
        return read_query(self.query, pairs)

    def read_body(self, content: bytes) -> Any:
        """The body as a value."""
        if self.body is None or (self.is_body_optional and not content):
            return None if self.body is None else self.body()
        try:
            return self._decoder.decode(content)
        except msgspec.ValidationError as problem:
            raise refused(problem, _json_or_none(content), self.body, "body") from problem
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            raise HttpError(400, "bad_json", f"the body is not valid JSON: {problem}.") from problem


class Routes:
    """Finds the endpoint of a path. Matches the path as it was sent, so that ids may hold slashes (%2F)."""

    def __init__(self, endpoints: list[Endpoint]) -> None:
        self._exact: dict[bytes, dict[str, Endpoint]] = {}
        self._patterns: dict[tuple[bytes | None, ...], dict[str, Endpoint]] = {}
        for one in endpoints:
            if "{" not in one.path:
                self._exact.setdefault(one.path.encode(), {})[one.method] = one
                continue
            parts = tuple(None if part[0] == "{" else part.encode() for part in one.segments)
            self._patterns.setdefault(parts, {})[one.method] = one
        self._parameters = {tuple(at for at, part in enumerate(parts) if part is None) for parts in self._patterns}
        """Places that parameters have in paths."""

    def find(self, method: str, raw_path: bytes) -> tuple[Endpoint, dict[str, str]]:
        """The endpoint and the parameters of its path; 404 or 405 where there is none."""
        given: Sequence[bytes] = ()
        methods = self._exact.get(raw_path)
        if methods is None:
            methods, given = self._with_parameters(raw_path.removeprefix(b"/").split(b"/"))
        if methods is None:
            raise HttpError(404, "not_found", "there is nothing at this path.", "GET /openapi.json lists the paths.")
        found = methods.get("GET" if method == "HEAD" else method)
        if found is None:
            allowed = ", ".join(sorted(methods))
            raise HttpError(
                405, "method_not_allowed", f"{method[:20]} is not possible here.", f"Use {allowed}.", {"Allow": allowed}
            )
        names = (segment[1:-1] for segment in found.segments if segment[0] == "{")
        return found, {name: _text(part) for name, part in zip(names, given, strict=True)}

    def _with_parameters(self, parts: list[bytes]) -> tuple[dict[str, Endpoint] | None, Sequence[bytes]]:
        """The endpoints of a path that holds ids, and these."""
        for places in self._parameters:
            if places[-1] >= len(parts):
                continue
            pattern: list[bytes | None] = list(parts)
            for at in places:
                pattern[at] = None
            methods = self._patterns.get(tuple(pattern))
            if methods is not None:
                return methods, [parts[at] for at in places]
        return None, ()


def _json_or_none(content: bytes) -> Any:
    """Value of JSON; None where it cannot be read to its end."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _text(part: bytes) -> str:
    try:
        return (unquote_to_bytes(part) if b"%" in part else part).decode()
    except UnicodeDecodeError:
        raise HttpError(422, "wrong_id_type", "an id in the path is not valid UTF-8.", "Encode it as UTF-8.") from None
