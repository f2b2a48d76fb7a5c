"""The OpenAPI document, made from the endpoints and the types of their bodies and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

import tastespace
from tastespace.serve.endpoint_table import Endpoint
from tastespace.serve.schemas import ErrorAnswer, struct_of

_REFERENCE = "#/components/schemas/{name}"
_EXPLAINED = {
    400: "The request cannot be read.",
    401: "A token is missing or not known.",
    403: "The token does not grant this.",
    404: "A user, an item or a model that is not there.",
    408: "The request came too slowly.",
    409: "Not possible at the moment.",
    413: "Too much in one request.",
    414: "The query is too long.",
    415: "The body is not valid JSON.",
    421: "Another host name.",
    422: "A value that does not fit.",
    429: "Too many requests.",
    503: "Not possible at the moment: overloaded, out of time, or the store cannot be written.",
}
_ALWAYS = (400, 401, 403, 414, 421, 422, 429, 503)


def openapi_document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The document as plain values (OpenAPI 3.1).

    >>> from tastespace.serve.endpoints import ENDPOINTS
    >>> "/v1/users/{user}/recommendations" in openapi_document(ENDPOINTS)["paths"]
    True
    """
    types = [ErrorAnswer, *(one.answer for one in endpoints), *(one.body for one in endpoints if one.body)]
    structs = list(dict.fromkeys(one for one in types if one is not str))
    _, components = msgspec.json.schema_components(structs, ref_template=_REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tastespace",
            "version": tastespace.__version__,
            "description": "Recommendations for people with more than one taste.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(one: Endpoint) -> dict[str, Any]:
    statuses = () if one.scope is None else _ALWAYS
    also = (408, 413, 415) if one.body is not None else ()
    operation: dict[str, Any] = {
        "operationId": one.handler.__name__,
        "summary": one.summary,
        "parameters": [*_path_parameters(one), *_query_parameters(one)],
        "responses": {
            "200": _answered(one),
            **{
                str(status): {"description": _EXPLAINED[status], "content": _content(ErrorAnswer)}
                for status in sorted({*statuses, *one.errors, *also, *((503,) if one.scope is None else ())})
            },
        },
    }
    if one.path == "/v1/map":
        operation["responses"]["304"] = {"description": "As the client has it (If-None-Match)."}
    if one.path == "/health/ready":
        operation["responses"]["503"] = {"description": "The server is stopping.", "content": _content(one.answer)}
    if one.scope is None:
        for status in (400, 414, 421, 422, 404):
            operation["responses"][str(status)] = {
                "description": _EXPLAINED[status],
                "content": _content(ErrorAnswer),
            }
    else:
        operation["responses"].setdefault("404", {"description": _EXPLAINED[404], "content": _content(ErrorAnswer)})
        operation["security"] = [{}, {"token": []}]
    if one.body is not None:
        operation["requestBody"] = {"required": not one.is_body_optional, "content": _content(one.body)}
    return operation


def _answered(one: Endpoint) -> dict[str, Any]:
    if one.answer is str:
        return {"description": one.summary, "content": {"text/plain": {"schema": {"type": "string"}}}}
    return {"description": one.summary, "content": _content(one.answer)}


def _content(struct: Any) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REFERENCE.format(name=struct.__name__)}}}


def _path_parameters(one: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for part in one.segments
        if part[0] == "{"
    ]


def _query_parameters(one: Endpoint) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([struct_of(one.query)], ref_template=_REFERENCE)
    found = []
    for name, schema in components[one.query.__name__]["properties"].items():
        parameter = {"name": name, "in": "query", "required": False, "schema": schema}
        if schema.get("type") == "array":
            parameter |= {"style": "form", "explode": False}
        found.append(parameter)
    return found
