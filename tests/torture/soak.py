"""A day in short: `python -m tests.torture.soak --minutes 30`.

Two workers serve the default model with feedback in a real PostgreSQL. Clients ask for lists, shelves, reasons and
neighbors, send feedback and store profiles; the model is saved again every minute; in the middle the store hangs for a
while. What must hold: no answer of 500 or more but during the outage; every acknowledged event is in the store, once;
the memory of the workers does not grow: the median of the last fifth of the time is at most 5 % above that of the
second fifth.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
from tests.postgresql import running_postgresql, stopped

import tastespace as ts
from tastespace.serve.feedback.store import Cursor, open_feedback_store

CLIENTS = 4
OUTAGE = 20.0  # seconds, at most a tenth of the time
_AFTERWARDS = 20.0  # seconds in which connections recover
_PAUSE = 0.1  # seconds between two requests of a client: the machine is busy, not overloaded
_USERS, _ITEMS = 3_000, 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is stopped on the way out
    with tempfile.TemporaryDirectory(prefix="tastespace-soak-") as folder:
        report = soak(Path(folder), 60 * given.minutes, given.seed)
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    sys.exit("; ".join(problems(report)) or 0)


def problems(report: dict[str, Any], growth: float = 0.05) -> list[str]:
    """What did not hold."""
    found = []
    if report["failed_outside_outage"]:
        found.append(f"{report['failed_outside_outage']} answers of 500 or more outside of the outage")
    if report["lost"] or report["twice"]:
        found.append(f"{report['lost']} acknowledged events lost, {report['twice']} stored twice")
    if report["memory_growth"] > growth:
        found.append(f"memory grew by {report['memory_growth']:.1%}")
    return found


def soak(folder: Path, seconds: float, seed: int, reload_every: float = 60.0) -> dict[str, Any]:
    """Serve, ask, reload and stop the store for so many seconds."""
    shop = ts.synthetic.shop(n_users=_USERS, n_items=_ITEMS, seed=seed).interactions
    model = ts.fit(shop, trials=8, seed=seed, progress=False)
    path = folder / "shop.model"
    model.save(path)
    with running_postgresql() as new_database:
        store = new_database()
        server = Server(path, store)
        try:
            return _soaked(server, model, path, store, seconds, seed, reload_every)
        finally:
            server.stop()


class Server:
    """`tastespace serve` with two workers."""

    def __init__(self, model: Path, store: str) -> None:
        command = [sys.executable, "-c", "from tastespace.cli import main; main()", "serve", str(model)]
        self.process = subprocess.Popen(
            [*command, "--store", store, "--workers", "2", "--port", "0", "--watch", "1"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "serving" in line, line
        self.address = line.split()[-1].rstrip("/")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()  # the pipe never fills up
        for _ in range(600):
            try:
                if httpx.get(f"{self.address}/health/ready", timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise AssertionError("the server did not become ready")

    def megabytes(self) -> float:
        """Memory of its processes, shared pages divided among them."""
        processes = [self.process.pid]
        for one in processes:
            children = Path(f"/proc/{one}/task/{one}/children").read_text().split()
            processes += map(int, children)
        lines = (Path(f"/proc/{one}/smaps_rollup").read_text().splitlines() for one in processes)
        return sum(int(line.split()[1]) for own in lines for line in own if line.startswith("Pss:")) / 1024

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


class Clients:
    """Threads that ask for everything, and remember which events were acknowledged."""

    def __init__(self, address: str, users: list[Any], items: list[Any], seed: int) -> None:
        self.address, self.users, self.items = address, users, items
        self.answers: Counter[str] = Counter()
        self.failed_outside_outage = 0
        self.acknowledged: list[str] = []
        self.is_outage = self.is_over = False
        self._threads = [threading.Thread(target=self._run, args=(seed, one)) for one in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self.is_over = True
        for thread in self._threads:
            thread.join(60)

    def _run(self, seed: int, number: int) -> None:
        rng = random.Random(1_000 * seed + number)
        with httpx.Client(base_url=self.address, timeout=30) as client:
            count = 0
            while not self.is_over:
                count += 1
                was_outage = self.is_outage
                name = f"{number}-{count}"
                kind, ask = self._request(rng, name)
                try:
                    answer = client.request(**ask)
                except httpx.HTTPError as problem:
                    status = 599
                    kind = f"{kind} ({type(problem).__name__})"
                else:
                    status = answer.status_code
                self.answers[f"{kind} {status // 100}xx"] += 1
                if status >= 500 and not (was_outage or self.is_outage):
                    self.failed_outside_outage += 1
                if kind == "feedback" and status == 200:
                    self.acknowledged.append(name)
                time.sleep(_PAUSE)

    def _request(self, rng: random.Random, name: str) -> tuple[str, dict[str, Any]]:
        user = self.users[min(int(rng.paretovariate(0.6)), len(self.users)) - 1]  # a few people ask often
        item = rng.choice(self.items)
        draw = rng.random()
        if draw < 0.5:
            return "list", {"method": "GET", "url": f"/v1/users/{user}/recommendations?k={rng.choice((5, 10, 20))}"}
        if draw < 0.6:
            return "shelves", {"method": "GET", "url": f"/v1/users/{user}/shelves"}
        if draw < 0.65:
            return "reason", {"method": "GET", "url": f"/v1/users/{user}/explanations/{item}"}
        if draw < 0.75:
            return "similar", {"method": "GET", "url": f"/v1/items/{item}/similar"}
        if draw < 0.8:
            histories = [[rng.choice(self.items) for _ in range(5)] for _ in range(10)]
            return "sessions", {"method": "POST", "url": "/v1/recommendations", "json": {"histories": histories}}
        if draw < 0.83:
            return "profile", {"method": "PUT", "url": f"/v1/users/{user}/profile", "json": {"boost": {"0": 1.5}}}
        if draw < 0.84:
            return "metrics", {"method": "GET", "url": "/metrics"}
        event = {"user": user, "item": item, "event_id": name}
        return "feedback", {"method": "POST", "url": "/v1/feedback", "json": {"events": [event]}}


def _soaked(
    server: Server, model: ts.Recommender, path: Path, store: str, seconds: float, seed: int, reload_every: float
) -> dict[str, Any]:
    users, items = model.train_.users.series.to_list(), model.train_.items.series.to_list()
    clients = Clients(server.address, users, items, seed)
    began, memory, reloads = time.monotonic(), list[tuple[float, float]](), 0
    outage = min(OUTAGE, 0.1 * seconds)
    had_outage = False
    try:
        while (elapsed := time.monotonic() - began) < seconds:
            memory.append((elapsed / seconds, server.megabytes()))
            if elapsed > reload_every * (reloads + 1):
                model.save(path)
                reloads += 1
            if not had_outage and elapsed > 0.5 * seconds:
                had_outage = clients.is_outage = True
                with stopped(store):
                    time.sleep(outage)
                time.sleep(min(_AFTERWARDS, outage))
                clients.is_outage = False
            time.sleep(min(2.0, seconds / 50))
    finally:
        clients.end()
    feedback = open_feedback_store(store)
    try:
        stored = Counter(event.event_id for event in feedback.changes(Cursor()).events)
    finally:
        feedback.close()
    early = statistics.median(used for at, used in memory if 0.2 <= at < 0.4)
    late = statistics.median(used for at, used in memory if at >= 0.8)
    return {
        "seconds": round(seconds),
        "answers": dict(sorted(clients.answers.items())),
        "reloads": reloads,
        "failed_outside_outage": clients.failed_outside_outage,
        "acknowledged": len(clients.acknowledged),
        "lost": sum(name not in stored for name in clients.acknowledged),
        "twice": sum(stored[name] > 1 for name in clients.acknowledged),
        "megabytes": [round(early, 1), round(late, 1)],
        "memory_growth": round(late / early - 1, 4),
    }


if __name__ == "__main__":
    main()
