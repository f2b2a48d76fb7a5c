"""A loopback server that fails on demand, small made-up publishers' files, and a private cache."""

from __future__ import annotations

import hashlib
import io
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import filelock  # noqa: F401
import pooch  # noqa: F401
import pytest
import requests  # noqa: F401  (these three are here so that tests of time limits do not measure their import)

from tastespace.data import datasets
from tastespace.data.datasets._catalog import DATASETS, Dataset, Download


class Loopback:
    """Serves ``body`` at every path; ``manner`` says how. Counts the requests."""

    def __init__(self) -> None:
        self.body = b""
        self.manner = "good"
        self.requests: list[str] = []
        self.closed = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append(self.path)
                outer.answer(self)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        manner = self.manner
        if manner == "cut off once":
            manner = "cut off" if len(self.requests) == 1 else "good"
        if manner == "missing":
            handler.send_error(404)
            return
        if manner == "silent":
            self.closed.wait()
            return
        if manner == "slow":
            time.sleep(0.3)
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(self.body)))
        handler.end_headers()
        try:
            if manner == "dripping":
                for start in range(len(self.body) - 1):
                    handler.wfile.write(self.body[start : start + 1])
                    self.closed.wait(0.02)
                self.closed.wait()  # however long the client stays, the last byte does not come
            else:
                handler.wfile.write(self.body[: len(self.body) // 2] if manner == "cut off" else self.body)
        except OSError:
            pass  # the client has left

    def close(self) -> None:
        self.closed.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Loopback]:
    loopback = Loopback()
    yield loopback
    loopback.close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no memory of terms shown; waits between attempts are cut short."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TASTESPACE_CACHE", str(folder))
    monkeypatch.setattr(datasets, "_terms_logged", set())
    monkeypatch.setattr("tastespace.data.datasets.cache._RETRY_SECONDS", 0.0)
    return folder


@pytest.fixture
def declare(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Dataset]:
    """Change a definition of the catalog for one test."""

    def change(name: str, **changes: Any) -> Dataset:
        monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], **changes))
        return DATASETS[name]

    return change


RATINGS = "".join(
    f"{user}::{item}::{5 if (user + item) % 3 else 2.5}::{1000 * user + item}\n"
    for user in range(1, 5)
    for item in range(1, 10)
)
MOVIES = "".join(f"{item}::Film é {item} (1999)::Drama|War\n" for item in range(1, 10))


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, body in files.items():
            archive.writestr(path, body)
    return buffer.getvalue()


@pytest.fixture(scope="session")
def tiny_zip() -> bytes:
    """A MovieLens 10M archive of 4 users, 9 movies and 36 ratings, 24 of them good."""
    return zipped(
        {
            "ml-10M100K/": b"",
            "ml-10M100K/ratings.dat": RATINGS.encode(),
            "ml-10M100K/movies.dat": MOVIES.encode(),
        }
    )


@pytest.fixture
def tiny_10m(declare: Callable[..., Dataset], server: Loopback, tiny_zip: bytes) -> Dataset:
    """ml-10m with the tiny archive on the loopback server as its only remote source."""
    server.body = tiny_zip
    checksum = f"md5:{hashlib.md5(tiny_zip).hexdigest()}"
    return declare("ml-10m", n_rows=36, remotes=(Download(f"{server.url}/ml-10m.zip", checksum),))
