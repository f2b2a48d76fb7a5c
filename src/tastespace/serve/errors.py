"""Errors as HTTP answers: a status, a code for programs, a message and advice for people; never a stack trace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tastespace.answers.requests import as_field
from tastespace.answers.types import AnswerError
from tastespace.errors import (
    ModelChangedError,
    ModelFileError,
    TastespaceError,
    UnknownIdError,
    nearest,
)

_ADVICE = {
    "unknown_item": "GET /v1/items/search finds items.",
    "unknown_user": "on_unknown=popular returns the most popular items; POST /v1/recommendations accepts "
    "arbitrary histories; POST /v1/feedback makes a user known.",
    "unknown_interest": "GET /v1/users/{user}/interests lists them.",
}
"""Advice for errors that do not say which request helps."""
SEND_AGAIN = "Send it again, events with the same event_id: each is then stored once."
"""Advice where it is not known if something was stored."""
MOST_MESSAGE = 600
"""Characters of a message; what was given may be long."""


class HttpError(Exception):
    """An answer that is an error: ``{"error": {"code", "message", "advice"}}`` with this status.

    >>> HttpError(404, "unknown_user", "there is no user 7").to_dict()
    {'error': {'code': 'unknown_user', 'message': 'there is no user 7', 'advice': ''}}
    """

    def __init__(
        self, status: int, code: str, message: str, advice: str = "", headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.advice = status, code, message, advice
        self.headers = headers or {}

    def to_dict(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"error": {"code": self.code, "message": _shown(self.message), "advice": _shown(self.advice)}}


class StoreError(TastespaceError):
    """The feedback store cannot be written or read at the moment: a full disk, a lost connection.

    >>> print(StoreError("disk is full", "/srv/shop.sqlite"))
    the feedback store /srv/shop.sqlite cannot be used (disk is full).
    """

    def __init__(
        self,
        reason: str,
        store: str,
        advice: str = "",
        shown_reason: str | None = None,
        is_reading: bool = False,
        is_refusal: bool = False,
        is_uncertain: bool = False,
    ) -> None:
        """Make the error.

        Args:
            reason: In the words of the database.
            store: Its file, or its address without a password.
            advice: What to do.
            shown_reason: What clients may know of the reason; by default all of it.
            is_reading: The store was read, not written.
            is_refusal: The store works, and refuses what it was given.
            is_uncertain: It was lost while it stored: what was sent may be there.
        """
        super().__init__(f"the feedback store {store} cannot be used ({reason.strip().rstrip('.')}). {advice}".rstrip())
        self.for_clients = f"the feedback store cannot be used ({shown_reason or reason})."
        self.is_reading, self.is_refusal, self.is_uncertain = is_reading, is_refusal, is_uncertain


def as_http_error(problem: BaseException) -> HttpError:
    """Return an error as an answer; anything but an error of this library is a 500 without details.

    >>> as_http_error(ZeroDivisionError("secret")).to_dict()["error"]["code"]
    'internal_error'
    """
    if isinstance(problem, HttpError):
        return problem
    if isinstance(problem, StoreError) and problem.is_refusal:
        return HttpError(422, "not_storable", "the feedback store refuses what was given.", "Nothing was stored.")
    if isinstance(problem, StoreError):
        advice = "Ask again later." if problem.is_reading else "Nothing was stored. Send it again later."
        if problem.is_uncertain:
            advice = f"It may have been stored. {SEND_AGAIN}"
        return HttpError(503, "store_unavailable", problem.for_clients, advice, {"Retry-After": "5"})
    if isinstance(problem, AnswerError):
        status = 404 if isinstance(problem, UnknownIdError) else 422
        return HttpError(status, problem.code, problem.message, problem.advice or _ADVICE.get(problem.code, ""))
    if isinstance(problem, UnknownIdError):
        return HttpError(404, "unknown_id", problem.worded(as_field))
    if isinstance(problem, ModelChangedError):
        return HttpError(
            503, "model_changed", "a file of the model was changed while it was served.", "Reload the model."
        )
    if isinstance(problem, ModelFileError):
        return HttpError(422, "model_refused", str(problem), "The model that is served stays as it is.")
    if isinstance(problem, TastespaceError):
        return HttpError(422, "invalid_request", problem.worded(as_field))
    return HttpError(500, "internal_error", "the server could not answer; its log has the reason.")


def _shown(text: str) -> str:
    """Text without control characters or lone surrogates, not too long."""
    shown = "".join(one if one.isprintable() else " " for one in text[:MOST_MESSAGE])
    return shown if len(text) <= MOST_MESSAGE else shown[: MOST_MESSAGE - 4] + " ..."


# ---------------------------------------------------------------------------------------------------------------------
# Errors of bodies in words: the given value, what is allowed, and what to do.

_AT = re.compile(r" - at `\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.(?P<name>\w+)|\[(?P<row>\d+|\.\.\.)\]")
_FIELD = re.compile(r"^Object (?P<what>contains unknown|missing required) field `(?P<name>.*)`$", re.DOTALL)
_UNRESOLVED = object()
_WORDS = {"string": "text", "boolean": "true or false", "null": "null", "array": "a list", "object": "an object"}
_MOST_SHOWN = 60


def refused(problem: msgspec.ValidationError, given: Any, expected: type[msgspec.Struct], where: str) -> HttpError:
    """The 422 for a value that msgspec has refused. ``where``: ``"query"`` or ``"body"``.

    >>> from tastespace.serve.schemas import ListBody
    >>> try:
    ...     msgspec.convert({"k": 0}, ListBody)
    ... except msgspec.ValidationError as problem:
    ...     found = refused(problem, {"k": 0}, ListBody, "body")
    >>> found.message, found.advice
    ('k=0: expected an integer from 1 to 1,000,000.', 'Change k, or leave it out.')
    """
    text, at = str(problem), _AT.search(str(problem))
    path = "" if at is None else at["path"]
    schema, value, is_optional = _resolved(path, given, msgspec.json.schema(expected))
    name = path.removeprefix(".")
    field = _FIELD.match(text if at is None else text[: at.start()])
    if field is not None:
        return _wrong_fields(field, schema, f"{name} of the {where}" if name else f"the {where}")
    message = (
        f"{name}{_shown_value(value)}: expected {_allowed(schema)}."
        if name
        else f"the {where}: expected {_allowed(schema)}."
    )
    return _invalid(message, f"Change {name or f'the {where}'}{', or leave it out' if is_optional else ''}.")


def _invalid(message: str, advice: str) -> HttpError:
    return HttpError(422, "invalid_request", message, advice)


def _wrong_fields(field: re.Match[str], schema: Mapping[str, Any], place: str) -> HttpError:
    known, name = list(schema.get("properties", ())), field["name"]
    if field["what"] == "missing required":
        return _invalid(f"{place} has no {name}: expected {', '.join(schema.get('required', ()))}.", f"Give {name}.")
    message = f"{place} has no field {name[:_MOST_SHOWN]!r}; expected some of {', '.join(known)}."
    return _invalid(message, nearest(name, known).strip() or "Leave it out.")


def _resolved(path: str, value: Any, root: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any, bool]:
    """The schema and the value at a path such as ``.events[0].weight``, and whether it may be left out."""
    schema, is_optional = _dereferenced(root, root), False
    for step in _STEP.finditer(path):
        key: Any = step["name"]
        if key is not None:
            is_optional = key not in schema.get("required", ())
            schema = _dereferenced(schema.get("properties", {}).get(key, {}), root)
            value = value.get(key, _UNRESOLVED) if isinstance(value, dict) else _UNRESOLVED
            continue
        is_optional = False
        inner = schema.get("items", schema.get("additionalProperties"))
        schema = _dereferenced(inner if isinstance(inner, dict) else {}, root)
        row = int(step["row"]) if step["row"] != "..." else None
        fits = isinstance(value, list) and row is not None and row < len(value)
        value = value[row] if fits else _UNRESOLVED
    return schema, value, is_optional


def _dereferenced(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema without references, and without null where something else is possible."""
    if "$ref" in schema:
        return _dereferenced(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    others = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return _dereferenced(others[0], root) if len(others) == 1 else schema


def _allowed(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_allowed(one) for one in schema["anyOf"]))
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return " ".join(["an integer" if kind == "integer" else "a number", *_bounds(schema)])
    if kind == "array" and schema.get("minItems"):
        return f"a list of at least {schema['minItems']}"
    if kind == "string" and "maxLength" in schema:
        return f"text of {schema.get('minLength', 0)} to {schema['maxLength']} characters"
    return _WORDS.get(str(kind), "another value")


def _bounds(schema: Mapping[str, Any]) -> Iterator[str]:
    if "exclusiveMinimum" in schema:
        yield f"above {schema['exclusiveMinimum']:,}"
        yield f"up to {schema['maximum']:,.0f}"
    elif "minimum" in schema:
        yield f"from {schema['minimum']:,} to {schema['maximum']:,}"


def _shown_value(value: Any) -> str:
    """A value as it was given, not too long; nothing where it is not known or cannot be written."""
    if value is _UNRESOLVED:
        return ""
    try:
        text = "=" + (value if isinstance(value, str) else msgspec.json.encode(value).decode())
    except (ValueError, OverflowError, RecursionError):  # numbers of very many digits
        return ""
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 4] + " ..."
