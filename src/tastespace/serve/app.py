"""The ASGI application: routing, authentication, limits, errors as JSON, the page, start and stop."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import mimetypes
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
from starlette.middleware.cors import CORSMiddleware

from tastespace.answers.saved_page import PAGE
from tastespace.answers.types import AnswerError
from tastespace.serve.endpoint_table import (
    Answer,
    Endpoint,
    RequestContext,
    Routes,
)
from tastespace.serve.endpoints import ENDPOINTS, JSON
from tastespace.serve.errors import HttpError, as_http_error
from tastespace.serve.openapi import openapi_document
from tastespace.serve.settings import ServerSettings
from tastespace.serve.state import ServerState
from tastespace.serve.tokens import ANONYMOUS, Token, authenticated

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

log = logging.getLogger(__name__)
access_log = logging.getLogger("tastespace.serve.access")

_SAFE = (b"x-content-type-options", b"nosniff")
_NOT_STORED = (b"cache-control", b"no-store")
_NOT_READ = (b"x-tastespace-feedback", b"not-read")
"""Of answers that were made while the feedback store could not be read: what is new in it is not known."""
_MOST_HOSTS = 100
_UNKNOWN_ROUTE = "(none)"


class Application:
    """Answers requests from a `ServerState`, which it makes when the server starts and closes when it stops.

    >>> from pathlib import Path
    >>> Application(ServerSettings(Path("shop.model"))).settings.host
    '127.0.0.1'
    """

    def __init__(self, settings: ServerSettings, follow: bool = False) -> None:
        self.settings, self._follow = settings, follow
        self._routes = Routes(ENDPOINTS)
        self._page = PageFiles()
        self._state: ServerState | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._openapi = JSON.encode(openapi_document(ENDPOINTS))
        self._hosts: set[bytes] = set()
        """Host headers that were accepted before."""

    @property
    def state(self) -> ServerState:
        """State of the server; made now if the server has not been started by its protocol."""
        if self._state is None:
            self._state = ServerState(self.settings, self._follow)
        return self._state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the start and stop of the server."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1003})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            state = self.state
            if self.settings.watch_seconds > 0 or self._follow:
                self._watcher = asyncio.create_task(state.watch())
        except Exception as problem:
            log.error("the server cannot start: %s", problem)
            await send({"type": "lifespan.startup.failed", "message": str(problem)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        state.is_closing = True
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
        await asyncio.get_running_loop().run_in_executor(None, state.close)
        await send({"type": "lifespan.shutdown.complete"})

    # ---- one request ---------------------------------------------------------------------------------------

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, state = time.perf_counter(), self.state
        route, token = _UNKNOWN_ROUTE, ""
        state.counts.in_flight += 1
        try:
            if state.counts.in_flight > self.settings.limits.in_flight:
                raise HttpError(
                    503, "overloaded", "too many requests at once.", "Wait and try again.", {"Retry-After": "1"}
                )
            headers = dict(scope["headers"])
            self._require_host(headers)
            raw_path = scope.get("raw_path") or scope["path"].encode()
            answer = self._static(scope["method"], raw_path)
            if answer is None:
                endpoint, path = self._routes.find(scope["method"], raw_path)
                route = endpoint.path
                allowed = self._authenticated(endpoint, headers, scope)
                token = allowed.name
                answer = await self._answer(endpoint, path, headers, scope, receive)
        except Exception as problem:
            answer = self._failed(problem, route)
        finally:
            state.counts.in_flight -= 1
        seconds = time.perf_counter() - start
        state.counts.add(scope["method"] if len(scope["method"]) < 10 else "?", route, answer.status, seconds)
        if self.settings.access_log:
            access_log.info(
                json.dumps(
                    {
                        "time": time.time(),
                        "method": scope["method"][:10],
                        "route": route,
                        "status": answer.status,
                        "ms": round(1000 * seconds, 3),
                        "bytes": len(answer.body),
                        "token": token,
                    }
                )
            )
        await _send(send, answer, scope["method"] == "HEAD")

    def _failed(self, problem: Exception, route: str) -> Answer:
        """Return an error as an answer; unexpected ones are logged, without the content of the request."""
        found = as_http_error(problem)
        if found.status >= 500 and found.code == "internal_error":
            log.error("%s failed", route, exc_info=problem)
        headers = tuple((name.lower().encode(), value.encode()) for name, value in found.headers.items())
        return Answer(JSON.encode(found.to_dict()), found.status, headers=headers)

    def _require_host(self, headers: dict[bytes, bytes]) -> None:
        allowed, sent = self.settings.allowed_hosts, headers.get(b"host", b"")
        if not allowed or sent in self._hosts:
            return
        given = sent.decode("latin-1")
        name = given.rpartition(":")[0] if ":" in given and not given.endswith("]") else given
        if name.strip("[]").lower() not in allowed:
            raise HttpError(
                421,
                "wrong_host",
                "this server does not answer for that host name.",
                "Start it with --allowed-host NAME.",
            )
        if len(self._hosts) < _MOST_HOSTS:
            self._hosts.add(sent)

    def _authenticated(self, endpoint: Endpoint, headers: dict[bytes, bytes], scope: Scope) -> Token:
        tokens, given = self.state.tokens, headers.get(b"authorization")
        if tokens is None:
            token = ANONYMOUS
        else:
            token = authenticated(tokens, None if given is None else given.decode("latin-1"), endpoint.scope)
        rate = self.settings.limits.rate if token.rate is None else token.rate
        if rate > 0 and endpoint.scope is not None:
            client = scope.get("client") or ("",)
            self.state.rate_limit.require(token.name or str(client[0]), rate, self.settings.workers)
        return token

    async def _answer(
        self, endpoint: Endpoint, path: dict[str, str], headers: dict[bytes, bytes], scope: Scope, receive: Receive
    ) -> Answer:
        limits = self.settings.limits
        query = scope["query_string"]
        call = RequestContext(self.state, path, endpoint.read_query(query), None, headers, query)
        if endpoint.body is not None:
            kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            is_json = kind == b"application/json"
            # Pages of other origins may send requests that are no JSON without being asked: those have an Origin.
            if not is_json and (not endpoint.is_body_optional or b"origin" in headers):
                raise _not_json()
            content = await _body(receive, headers, limits.body, limits.read_seconds)
            if content and not is_json:
                raise _not_json()
            call.body = endpoint.read_body(content)
        try:
            found = await endpoint.handler(call)
        except TimeoutError:
            raise HttpError(
                503, "timeout", f"the answer took more than {limits.seconds:g} seconds.", "Ask for less.",
                {"Retry-After": "1"},
            ) from None  # fmt: skip
        except (HttpError, AnswerError) as problem:  # such as a user who is not known: the store may know more
            refusal = as_http_error(problem)
            if call.is_without_feedback:
                refusal.headers = {**refusal.headers, _NOT_READ[0].decode(): _NOT_READ[1].decode()}
            raise refusal from None
        answer = found if isinstance(found, Answer) else Answer(JSON.encode(found))
        return replace(answer, headers=(*answer.headers, _NOT_READ)) if call.is_without_feedback else answer

    def _static(self, method: str, raw_path: bytes) -> Answer | None:
        """The page, its files, and the OpenAPI document: what needs no token."""
        if method not in ("GET", "HEAD"):
            return None
        if raw_path == b"/openapi.json":
            return Answer(self._openapi)
        if raw_path in (b"/", b"/admin") or raw_path.startswith(b"/static/"):
            answer = self._page.answer(raw_path)
            return self._with_pictures(answer) if raw_path == b"/" else answer
        return None

    def _with_pictures(self, page: Answer) -> Answer:
        """The page with a policy that names the origins of the pictures of the models that are served now."""
        state = self.state
        slots = [one.slot.served.pictures for one in (state.main, state.compare) if one is not None]
        sources = sorted({source for one in slots if one is not None for source in one.sources})
        if not sources:
            return page
        policy = _POLICY.replace(b"img-src", b"img-src " + " ".join(sources).encode())
        return replace(page, headers=tuple((n, policy if n == _POLICY_NAME else v) for n, v in page.headers))


def _not_json() -> HttpError:
    return HttpError(415, "not_json", "expected Content-Type: application/json.", "Send JSON.")


async def _body(receive: Receive, headers: dict[bytes, bytes], most: int, seconds: float) -> bytes:
    """The body of a request, if it is not too long and does not come too slowly."""
    too_long = HttpError(413, "body_too_large", f"the body has more than {most:,} bytes.", "Send less at once.")
    length = headers.get(b"content-length", b"")
    digits = length.lstrip(b"0")
    if digits.isdigit() and (len(digits) > 18 or int(digits) > most):
        raise too_long
    parts, size = [], 0
    try:
        with anyio.fail_after(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise HttpError(400, "disconnected", "the client has gone.")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    raise too_long
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise HttpError(
            408, "too_slow", f"the body did not come within {seconds:g} seconds.", "Send it faster.",
            {"Connection": "close"},
        ) from None  # fmt: skip


async def _send(send: Send, answer: Answer, head: bool) -> None:
    headers = [
        (b"content-type", answer.content_type),
        (b"content-length", str(len(answer.body)).encode()),
        _SAFE,
        *answer.headers,
    ]
    if not answer.headers or not any(name == b"cache-control" for name, _ in answer.headers):
        headers.append(_NOT_STORED)
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else answer.body})


# ---- the page ------------------------------------------------------------------------------------------------

_POLICY_NAME = b"content-security-policy"
_POLICY = (
    b"default-src 'self'; img-src 'self' data: blob:; worker-src 'self' blob:; object-src 'none'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS = (
    (_POLICY_NAME, _POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class PageFiles:
    """The files below a folder. Only names that were found there are ever opened, whatever a request names."""

    def __init__(self, folder: Path = PAGE) -> None:
        self._paths = {}
        for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
            if path.is_file():
                name = path.relative_to(folder).as_posix()
                # Assets stand in the folder itself or in its folder static.
                self._paths["/static/" + name.removeprefix("static/")] = path
        for name, file in (("/", "index.html"), ("/admin", "admin.html")):
            if (folder / file).is_file():
                self._paths[name] = folder / file

    def answer(self, raw_path: bytes) -> Answer:
        """The file at a path."""
        name = raw_path.decode("latin-1")
        path = self._paths.get(name)
        if path is None:
            if name in ("/", "/admin"):
                raise HttpError(
                    404, "page_not_built", "the page is not part of this installation.",
                    "In a clone, make page builds it. The API is there: GET /openapi.json.",
                )  # fmt: skip
            raise HttpError(404, "not_found", "there is no such file of the page.")
        content = path.read_bytes()
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        if kind.startswith("text/") or kind in ("application/javascript", "application/json"):
            kind += "; charset=utf-8"
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'.encode()
        caching = b"no-cache" if not name.startswith("/static/") else b"public, max-age=31536000, immutable"
        return Answer(
            content, content_type=kind.encode(), headers=(*_PAGE_HEADERS, (b"cache-control", caching), (b"etag", tag))
        )


def create_app(settings: ServerSettings, follow: bool = False) -> Any:
    """The application of a server, for any ASGI server: `Application`, with CORS where origins are allowed."""
    app = Application(settings, follow)
    if not settings.cors:
        return app
    return CORSMiddleware(
        app,
        allow_origins=list(settings.cors),
        allow_methods=["GET", "POST", "PUT", "DELETE"],
        allow_headers=["Authorization", "Content-Type"],
    )
