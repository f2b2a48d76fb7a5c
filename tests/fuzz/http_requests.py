"""Requests to a real server with values that are deep, wide, long or of other types: no 5xx, and none is slow."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from tests.fuzz.model_files import training_data
from tests.fuzz.tables import Outcome

from tastespace import models

_SECONDS = 8.0  # a request that takes longer holds up others
_PATHS = ["/v1/recommendations", "/v1/shelves", "/v1/interests", "/v1/explanations", "/v1/feedback"]
_QUERIES = ["k", "mix", "diversity", "column", "filter", "exclude", "include", "mute", "boost", "because", "on_unknown"]
_FIELDS = {
    "/v1/recommendations": ["users", "histories", "features", "k", "boost", "rules", "filter", "diversity", "exclude"],
    "/v1/feedback": ["events", "profile"],
}


class HttpRequests:
    """Case ``number`` of a seed is always the same. Close it at the end."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self._seed, model = seed, folder / "shop.model"
        models.create("contentknn").fit(training_data()).save(model)
        command = [sys.executable, "-c", "from tastespace.cli import main; main()", "serve", str(model), "--port", "0"]
        self._server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._server.stdout is not None
        self._client = httpx.Client(base_url=self._server.stdout.readline().split()[-1], timeout=60)

    def close(self) -> None:
        """End the server."""
        self._client.close()
        self._server.kill()
        self._server.wait()

    def run(self, number: int) -> Outcome:
        """Send the request of a case."""
        rng = np.random.default_rng([self._seed, 6, number])
        path = str(rng.choice(_PATHS))
        request: tuple[str, str, bytes | None, dict[str, str]]
        if rng.random() < 0.3:
            query = f"{rng.choice(_QUERIES)}={_text(rng)[:14_000]}"
            request = "GET", f"/v1/users/{rng.integers(20)}/recommendations?{query}", None, {}
        else:
            headers = {"content-type": "application/json"}
            if rng.random() < 0.1:
                headers[f"x-{rng.integers(9)}"] = "a" * int(rng.choice([10, 20_000, 40_000, 200_000]))
            request = "POST", path, _body(path, rng), headers
        what, start = f"{request[0]} {request[1][:80]} {(request[2] or b'')[:80]!r}", time.monotonic()
        try:
            answer = self._client.request(request[0], request[1], content=request[2], headers=request[3])
        except httpx.InvalidURL:
            return Outcome("no URL", what)
        except httpx.HTTPError as problem:
            closed = (request[2] is not None and len(request[2]) > 1_000_000) or len(request[3]) > 1
            return Outcome("closed", what, None if closed and self._server.poll() is None else repr(problem))
        taken = time.monotonic() - start
        if answer.status_code >= 500 or taken > _SECONDS:
            return Outcome(str(answer.status_code), what, f"{answer.status_code} in {taken:.1f} s: {answer.text[:200]}")
        return Outcome(str(answer.status_code), what)


def _text(rng: np.random.Generator) -> str:
    pieces = ["9", "(", "a", "-", ".", ",", "1,", "1:", "e", "%22", "%00", "%F0%9F%8E%AC", "not ", "year>1 or "]
    return str(rng.choice(pieces)) * int(rng.choice([1, 3, 30, 1_000, 15_000])) + str(rng.choice(["", "x", "1", "'"]))


def _value(rng: np.random.Generator) -> Any:
    """A value as JSON text cannot usually hold it."""
    kind = int(rng.integers(9))
    size = int(rng.choice([1, 5, 60, 1_000, 5_000]))
    if kind == 0:
        return Raw("[" * size + "1" + "]" * size)
    if kind == 1:
        return Raw('{"a":' * size + "1" + "}" * size)
    if kind == 2:
        return {f"{rng.integers(10**9)}-{n}": n for n in range(size)}
    if kind == 3:
        return [{f"{row}-{n}": 1 for n in range(min(60, size))} for row in range(int(rng.choice([1, 100, 700])))]
    if kind == 4:
        return Raw("9" * size + str(rng.choice(["", ".5", "e99", "e999"])))
    if kind == 5:
        return [int(x) for x in rng.integers(-3, 30, size)]
    if kind == 6:
        return str(rng.choice(["x", '"', "\x01", "\U0001f3ac", "9"])) * size
    return [None, True, -1, 0, 7, 1e308, "", [], {}, [[]], [{}]][int(rng.integers(11))]


class Raw(str):
    """JSON text as it is."""


def _body(path: str, rng: np.random.Generator) -> bytes:
    fields = _FIELDS.get(path, ["history", "item", "k", "filter", "mute", "boost"])
    chosen = {str(name): _value(rng) for name in rng.choice(fields, int(rng.integers(1, 3)), replace=False)}
    if path == "/v1/feedback" and rng.random() < 0.8:
        event: dict[str, Any] = {"user": 3, "item": 4}
        event[str(rng.choice(["user", "item", "event_id", "time", "weight"]))] = _value(rng)
        chosen = {"events": [event]}
    elif path != "/v1/recommendations" and "history" not in chosen:
        chosen["history"] = [3, 5]
    return _json(chosen).encode("utf-8", "replace")


def _json(value: Any) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_json(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
