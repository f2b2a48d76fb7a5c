"""Load on the server over loopback: requests a second and latency, beside the same framework answering a constant and
beside implicit (ALS) behind the same framework.

    python benchmarks/serving.py [--dataset ml-1m] [--seconds 5] [--connections 1000] [--rounds 2]
    python benchmarks/serving.py --soak 600     # memory over ten minutes
    python benchmarks/serving.py --ids --rounds 100   # cost of ids and of the log of shown lists

Server and generator are processes of this machine and share its cores. Two loads: `closed`, in which every connection
sends its next request when it has its answer (throughput), and `open`, in which requests are sent at a fixed rate, half
of what the closed load reached, whatever the server does (latency, counted from the planned time). Every seventh
answer is compared with what `model.recommend` gives for that user. `tastespace` makes every list (`--keep-answers 0`);
`tastespace, kept` is the default, which remembers answers: the thousand users of the load come again and again.
`CPU ms` is the server's processor time for each answer, which other programs on the machine change little.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

K = 10


# ---- the generator ---------------------------------------------------------------------------------------------------


class Connection(asyncio.Protocol):
    """One keep-alive connection: a request at a time, answers by Content-Length."""

    def __init__(self, load: Load) -> None:
        self.load, self.buffer, self.need = load, bytearray(), -1
        self.idle, self.planned, self.user = True, 0.0, 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def send(self, planned: float) -> None:
        self.idle, self.planned, self.user = False, planned, self.load.next_user()
        self.transport.write(self.load.requests[self.user])

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self.need < 0:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self.buffer[:end]).lower()
            at = head.find(b"content-length:")
            self.need = end + 4 + int(head[at + 15 :].split(b"\r\n", 1)[0])
            self.start, self.is_ok = end + 4, head.startswith(b"http/1.1 200")
        if len(self.buffer) >= self.need:
            body = bytes(self.buffer[self.start : self.need])
            self.buffer.clear()
            self.need, self.idle = -1, True
            self.load.done(self, body, self.is_ok)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.load.ending:
            self.load.lost += 1


class Load:
    """Many connections to one server."""

    def __init__(self, port: int, users: list[int], expected: dict[int, list[int]] | None, rate: float) -> None:
        self.users, self.expected, self.rate = users, expected, rate
        self.requests = {
            user: f"GET /v1/users/{user}/recommendations?k={K} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
            for user in users
        }
        self.port, self.at = port, 0
        self.latencies: list[float] = []
        self.failed = self.wrong = self.lost = self.late = 0
        self.ending = False

    def next_user(self) -> int:
        self.at += 1
        return self.users[self.at % len(self.users)]

    def done(self, connection: Connection, body: bytes, is_ok: bool) -> None:
        now = time.perf_counter()
        self.latencies.append(now - connection.planned)
        self.failed += not is_ok
        if self.expected is not None and is_ok and len(self.latencies) % 7 == 0:
            answer = json.loads(body)
            same = [one["item"] for one in answer["items"]] == self.expected[connection.user]
            self.wrong += not (same and answer["user"] == connection.user)
        if not self.ending and self.rate == 0:
            connection.send(now)

    async def run(self, n: int, seconds: float) -> dict[str, float]:
        loop = asyncio.get_running_loop()
        connections = []
        for _ in range(n):
            _, one = await loop.create_connection(lambda: Connection(self), "127.0.0.1", self.port)
            connections.append(one)
        start = time.perf_counter()
        if self.rate == 0:
            for one in connections:
                one.send(start)
            await asyncio.sleep(seconds)
        else:
            sent, turn = 0, 0
            while (now := time.perf_counter()) < start + seconds:
                while sent < (now - start) * self.rate:
                    for _ in range(n):
                        turn += 1
                        if connections[turn % n].idle:
                            connections[turn % n].send(start + sent / self.rate)
                            break
                    else:
                        self.late += 1
                    sent += 1
                await asyncio.sleep(0.001)
        elapsed = time.perf_counter() - start
        answered = len(self.latencies)
        self.ending = True
        end = time.perf_counter() + 10
        while any(not one.idle for one in connections) and time.perf_counter() < end:
            await asyncio.sleep(0.01)
        unanswered = sum(not one.idle for one in connections)
        for one in connections:
            one.transport.abort()
        ms = 1000 * np.array(self.latencies[: max(answered, 1)] or [np.nan])
        return {
            "rps": answered / elapsed, "mean": float(ms.mean()),
            "p50": float(np.quantile(ms, 0.5)), "p99": float(np.quantile(ms, 0.99)),
            "failed": self.failed, "wrong": self.wrong, "lost": self.lost + unanswered, "late": self.late,
        }  # fmt: skip


def generate(port: int, n: int, seconds: float, rate: float, users: list[int], expected: Any) -> dict[str, float]:
    """Load in a process of its own, so that the generator does not share Python's lock with anything."""
    job = json.dumps([port, n, seconds, rate, users, expected])
    done = subprocess.run(
        [sys.executable, __file__, "--generate"], input=job, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def generator_main() -> None:
    import uvloop

    port, n, seconds, rate, users, expected = json.loads(sys.stdin.read())
    known = None if expected is None else {int(user): items for user, items in expected.items()}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) if hasattr(asyncio, "Runner") else _Plain() as runner:
        print(json.dumps(runner.run(Load(port, users, known, rate).run(n, seconds))))


class _Plain:
    def __enter__(self) -> _Plain:
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, what: Any) -> Any:
        return asyncio.run(what)


# ---- the servers -----------------------------------------------------------------------------------------------------


def serve_constant(body_file: str, port: int) -> None:
    """(a) The same framework and server, answering the same bytes for everybody."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route

    body = Path(body_file).read_bytes()

    async def answer(request: Any) -> Response:
        return Response(body, media_type="application/json")

    app = Starlette(routes=[Route("/v1/users/{user}/recommendations", answer), Route("/health/ready", answer)])
    uvicorn.run(app, port=port, log_level="warning", access_log=False, backlog=2048)


def serve_implicit(dataset: str, port: int) -> None:
    """(b) implicit's ALS behind the same framework, with titles, as its users would write it."""
    import msgspec
    import uvicorn
    from implicit.cpu.als import AlternatingLeastSquares
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import Response
    from starlette.routing import Route

    import tastespace as ts

    data = ts.datasets.load(dataset)
    seen = data.matrix
    import scipy.sparse as sp

    seen = sp.csr_matrix((seen.data, seen.indices.astype(np.int32), seen.indptr.astype(np.int32)), shape=seen.shape)
    model = AlternatingLeastSquares(factors=64, iterations=2, num_threads=1)
    model.fit(seen, show_progress=False)
    rows = {user: row for row, user in enumerate(data.users.series.to_list())}
    items, titles = data.items.series.to_list(), data.item_attributes["title"].to_list()
    encoder = msgspec.json.Encoder()

    def listed(user: int) -> bytes:
        row = rows[user]
        found, scores = model.recommend(row, seen[row], N=K)
        return encoder.encode(
            {
                "user": user,
                "items": [
                    {"item": items[i], "title": titles[i], "rank": rank, "score": float(score)}
                    for rank, (i, score) in enumerate(zip(found, scores, strict=True), 1)
                ],
            }
        )

    async def answer(request: Any) -> Response:
        body = await run_in_threadpool(listed, int(request.path_params["user"]))
        return Response(body, media_type="application/json")

    async def ready(request: Any) -> Response:
        return Response(b"{}", media_type="application/json")

    app = Starlette(routes=[Route("/v1/users/{user}/recommendations", answer), Route("/health/ready", ready)])
    uvicorn.run(app, port=port, log_level="warning", access_log=False, backlog=2048)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """A server in a process of its own."""

    def __init__(self, *command: Any) -> None:
        self.port = free_port()
        shown = [str(one) for one in command] + [str(self.port)]
        self.process = subprocess.Popen(shown, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        import httpx

        for _ in range(600):
            try:
                if httpx.get(f"http://127.0.0.1:{self.port}/health/ready", timeout=2).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.1)
        raise SystemExit("a server did not start")

    def memory_mb(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu_seconds(self) -> float:
        """Processor time of the server so far, which other programs on the machine hardly change."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="ml-1m")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--soak", type=float, default=0.0, help="seconds of load at a tenth of the rate, for memory")
    parser.add_argument("--ids", action="store_true", help="with and without ids and logged lists, in turns")
    parser.add_argument("--generate", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", nargs="+", help=argparse.SUPPRESS)
    given, rest = parser.parse_known_args()
    if given.generate:
        generator_main()
        return
    if given.serve:
        what, about = given.serve[0], given.serve[1]
        (serve_constant if what == "constant" else serve_implicit)(about, int(rest[0] if rest else given.serve[2]))
        return

    import httpx

    import tastespace as ts

    data = ts.datasets.load(given.dataset)
    print(f"{given.dataset}: {data!r}; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "load.model"
        model = ts.DPCML(dim=64, n_interests=4, epochs=2, seed=0).fit(data)
        model.save(path)
        users = np.random.default_rng(0).choice(data.users.series.to_numpy(), 1000, replace=False).tolist()
        frame = model.recommend(users, k=K)
        expected: dict[int, list[int]] = {user: [] for user in users}
        for user, item in zip(frame["user"].to_list(), frame["item"].to_list(), strict=True):
            expected[user].append(item)
        program = "from tastespace.cli import main; main()"
        command = [sys.executable, "-c", program, "serve", path, "--workers", given.workers]
        if given.ids:
            cost_of_ids(path, users, given)
            return
        ours = Server(*command, "--keep-answers", 0, "--store", Path(folder) / "one.sqlite", "--port")
        kept = Server(*command, "--store", Path(folder) / "two.sqlite", "--port")
        sample = httpx.get(f"http://127.0.0.1:{ours.port}/v1/users/{users[0]}/recommendations?k={K}").content
        (Path(folder) / "body.json").write_bytes(sample)
        constant = Server(sys.executable, __file__, "--serve", "constant", Path(folder) / "body.json")
        other = Server(sys.executable, __file__, "--serve", "implicit", given.dataset)
        servers = {
            "tastespace": (ours, expected), "tastespace, kept": (kept, expected), "constant": (constant, None),
            "implicit ALS": (other, None),
        }  # fmt: skip
        try:
            if given.soak:
                soak(ours, users, expected, given)
                return
            compare(servers, users, given)
        finally:
            for server, _ in servers.values():
                server.stop()


def cost_of_ids(path: Path, users: list[int], given: argparse.Namespace) -> None:
    """Processor time that ids and the log add to an answer, the writing included: two applications in turns.

    In one process and without sockets, because the time of a server on a busy machine varies by more than this.
    """
    from tastespace.serve.app import create_app
    from tastespace.serve.settings import ServerSettings

    async def one(app: Any, user: int) -> None:
        scope = {
            "type": "http", "method": "GET", "path": f"/v1/users/{user}/recommendations", "query_string": b"k=10",
            "headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1),
        }  # fmt: skip
        await app(scope, None, sent)

    async def sent(message: Any) -> None: ...

    async def block(app: Any) -> float:
        start = time.process_time()
        for at in range(0, 5 * len(users), 50):  # requests come together, as under load
            first = at % len(users)
            await asyncio.gather(*[one(app, user) for user in users[first : first + 50]])
        if app.state.impressions is not None:
            app.state.impressions.write()
        return 1e6 * (time.process_time() - start) / (5 * len(users))

    async def measured(keep: int) -> list[tuple[float, float]]:
        apps = [
            create_app(ServerSettings(path, store=str(path.parent / f"{keep}{on}.sqlite"), keep_answers=keep,
                                      impressions=on, watch_seconds=0.0))
            for on in (False, True)
        ]  # fmt: skip
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 10, 10)  # as in a server
        found = []
        for turn in range(given.rounds + 2):
            times = {}
            for on in (0, 1) if turn % 2 else (1, 0):
                times[on] = await block(apps[on])
            found.append((times[0], times[1]))
        for app in apps:
            app.state.close()
        return found[2:]

    print("answers  without: CPU us   with: CPU us   added us (median of pairs, quartiles)")
    for name, keep in (("made", 0), ("kept", 10_000)):
        pairs = np.array(asyncio.run(measured(keep)))
        low, middle, high = np.quantile(pairs[:, 1] - pairs[:, 0], (0.25, 0.5, 0.75))
        without, with_ids = np.median(pairs, axis=0)
        print(f"{name:8} {without:15.1f} {with_ids:14.1f} {middle:10.2f}  ({low:.2f} to {high:.2f})", flush=True)


def compare(servers: dict[str, tuple[Server, Any]], users: list[int], given: argparse.Namespace) -> None:
    print(
        "load    server             requests/s of constant  CPU ms of constant mean ms  p50 ms  p99 ms  "
        "failed wrong  lost   MB"
    )
    import httpx

    for server, _ in servers.values():  # once for each user, so that nothing is timed that happens once
        with httpx.Client(base_url=f"http://127.0.0.1:{server.port}") as client:
            for user in users:
                client.get(f"/v1/users/{user}/recommendations?k={K}")
    closed: dict[str, list[dict[str, float]]] = {name: [] for name in servers}
    for _ in range(given.rounds):  # in turn, so that other work on the machine hits all alike
        for name, (server, expected) in servers.items():
            closed[name].append(loaded(server, users, expected, 0.0, given))
    best = {name: max(runs, key=lambda one: one["rps"]) for name, runs in closed.items()}
    for name, one in best.items():
        show("closed", name, one, best["constant"], servers[name][0])
    rate = best["tastespace"]["rps"] / 2
    for name, (server, expected) in servers.items():
        runs = [loaded(server, users, expected, rate, given) for _ in range(given.rounds)]
        show("open", name, min(runs, key=lambda run: run["p99"]), None, server)


def loaded(server: Server, users: list[int], expected: Any, rate: float, given: argparse.Namespace) -> dict[str, float]:
    before = server.cpu_seconds()
    found = generate(server.port, given.connections, given.seconds, rate, users, expected)
    found["cpu"] = 1000 * (server.cpu_seconds() - before) / max(1, found["rps"] * given.seconds)
    return found


def show(load: str, name: str, one: dict[str, float], constant: dict[str, float] | None, server: Server) -> None:
    rps, cpu = ("", "") if constant is None else (
        f"{one['rps'] / constant['rps']:.2f}", f"{constant['cpu'] / one['cpu']:.2f}"
    )  # fmt: skip
    print(
        f"{load:7} {name:18} {one['rps']:10,.0f} {rps:>11} {one['cpu']:7.2f} {cpu:>11} {one['mean']:7.1f} "
        f"{one['p50']:7.1f} {one['p99']:7.1f} {one['failed']:7.0f} {one['wrong']:5.0f} "
        f"{one['lost']:5.0f} {server.memory_mb():4.0f}"
    )


def soak(server: Server, users: list[int], expected: Any, given: argparse.Namespace) -> None:
    print("seconds   requests/s   p99 ms   failed  wrong   MB")
    start = time.perf_counter()
    while time.perf_counter() - start < given.soak:
        one = generate(server.port, 50, min(20.0, given.soak / 6), 200.0, users, expected)
        print(
            f"{time.perf_counter() - start:7.0f} {one['rps']:12,.0f} {one['p99']:8.1f} {one['failed']:8.0f} "
            f"{one['wrong']:6.0f} {server.memory_mb():6.1f}"
        )


if __name__ == "__main__":
    main()
