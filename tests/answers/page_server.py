"""A server of the page for tests, from models in memory: the addresses and headers of the HTTP interface, no more."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tastespace.answers._page import PageRequests
from tastespace.answers.saved_page import PAGE

_TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class PageServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, requests: PageRequests, token: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests, self.token = requests, token
        self.keeps_profiles = True
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path.startswith("/v1/"):
            self._answer("GET", parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)), None)
            return
        file = PAGE / (parts.path.lstrip("/") or "index.html")
        if not file.resolve().is_relative_to(PAGE.resolve()) or not file.is_file():
            self._send(404, b"{}", "application/json")
            return
        self._send(200, file.read_bytes(), _TYPES[file.suffix])

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if parts.path == "/v1/feedback":
            self._kept("POST", body)
        else:
            self._answer("POST", parts.path, dict(parse_qsl(parts.query)), body)

    def do_PUT(self) -> None:
        """A profile: recorded, and refused where the server keeps none."""
        self._kept("PUT", json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _kept(self, method: str, body: Any) -> None:
        """Note what would be stored; refused where the server keeps nothing."""
        self.server.asked.append((method, self.path, {}, body))
        self._send(200 if self.server.keeps_profiles else 403, json.dumps(body).encode(), "application/json")

    def _answer(self, method: str, path: str, query: dict[str, str], body: Any) -> None:
        self.server.asked.append((method, path, dict(query), body))
        if self.server.token and self.headers.get("Authorization") != f"Bearer {self.server.token}":
            status, found = 401, {"error": {"code": "token", "message": "A token is needed.", "advice": ""}}
        else:
            status, found = self.server.requests.answer(method, path, query, body)
        self._send(status, json.dumps(found).encode(), "application/json")

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", "default-src 'self'")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(requests: PageRequests, token: str | None = None) -> Iterator[PageServer]:
    """A running server, stopped at the end."""
    server = PageServer(requests, token)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
