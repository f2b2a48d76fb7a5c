"""Counts of a server in the text format of Prometheus. Labels are routes, never paths: no ids of people.

Each worker counts in a file of its own, mapped into its memory, below a folder that all workers share: counting is an
addition, and what was counted outlives the worker. Whichever worker is asked adds all files up.
"""

from __future__ import annotations

import fcntl
import json
import logging
import mmap
import os
import tempfile
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tastespace.serve.schemas import MinuteCounts, RouteCounts, WorkerState

log = logging.getLogger(__name__)

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_REQUESTS, _SECONDS, _SUM = "requests", "seconds", "sum"
_IN_FLIGHT = "tastespace_requests_in_flight"
_COUNTERS = {
    "tastespace_feedback_stored_total": "Events stored.",
    "tastespace_feedback_duplicates_total": "Events sent again.",
    "tastespace_impressions_total": "Lists shown and logged.",
    "tastespace_impressions_dropped_total": "Lists shown that were not logged.",
    "tastespace_model_reloads_total": "Models swapped in.",
    "tastespace_model_refusals_total": "Models refused.",
    "tastespace_lists_total": "Lists of single users.",
    "tastespace_kept_lists_total": "Lists of single users that were answered from the cache.",
    "tastespace_batches_total": "Batches of lists.",
    "tastespace_batched_requests_total": "Lists in batches.",
}
_GAUGES = {
    _IN_FLIGHT: "Requests that are being answered.",
    "tastespace_model_generation": "Generation served.",
    "tastespace_compare_generation": "Generation of the second model.",
    "tastespace_problems": "Problems that /health/ready lists.",
    "process_resident_memory_bytes": "Memory of the process.",
    "process_start_time_seconds": "When the process was started, in seconds since 1970.",
}
_MOST = 8_192  # numbers of one worker: routes times statuses, and buckets of routes
_MEMORY = Path("/dev/shm")
_MINUTE = "minute"
_MINUTES = 60
_FIELDS = ("time", "requests", "refused", "failed", "seconds", "feedback")  # of a minute
_FEEDBACK = "tastespace_feedback_stored_total"

Key: TypeAlias = tuple[Any, ...]
"""Name of a number and its labels."""


class _Numbers:
    """Numbers by key, in memory or in a file that other processes may read.

    The file holds `_MOST` numbers of 8 bytes, and after them the key of each as a line of JSON, in their order. It is
    locked while its process lives.
    """

    def __init__(self, path: Path | None) -> None:
        self._places: dict[Key, int] = {}
        self._lock = threading.Lock()
        self._file = None
        if path is None:
            self.values = memoryview(bytearray(8 * _MOST)).cast("d")
            return
        self._file = path.open("xb+", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._file.truncate(8 * _MOST)
        self.values = memoryview(mmap.mmap(self._file.fileno(), 8 * _MOST)).cast("d")

    def add(self, key: Key, n: float) -> None:
        """Add to a number, from any thread."""
        place = self.place(key)
        with self._lock:
            self.values[place] += n

    def place(self, key: Key) -> int:
        """Return the place of a number in `values`; a new one is 0."""
        with self._lock:
            place = self._places.get(key)
            if place is None:
                place = self._places[key] = len(self._places)
                if self._file is not None:
                    self._file.seek(0, os.SEEK_END)
                    self._file.write(json.dumps(key).encode() + b"\n")
            return place

    def all(self) -> dict[Key, float]:
        with self._lock:
            return {key: self.values[place] for key, place in self._places.items()}


def _read_numbers(path: Path) -> tuple[dict[Key, float], bool]:
    """Return the numbers in a file of `_Numbers`, and whether its process lives."""
    with path.open("rb") as file:
        content = file.read()
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            is_alive = False
        except OSError:
            is_alive = True
    keys = content[8 * _MOST :].split(b"\n")[:-1]  # a key is there when its line has ended
    values = np.frombuffer(content[: 8 * len(keys)], dtype=np.float64).tolist()
    return {tuple(json.loads(key)): value for key, value in zip(keys, values, strict=False)}, is_alive


@contextmanager
def shared_counts_folder() -> Iterator[Path | None]:
    """A folder for the counts of several workers, in memory where the system has one there; None where none can be."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="tastespace-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None)
    except OSError as problem:
        log.warning("each worker counts for itself in /metrics: there is no place for a temporary folder: %s", problem)
        yield None
        return
    with folder as name:
        yield Path(name)


class RequestCounts:
    """Requests by route and status, how long they took, and other counts, of all workers that share a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        """Of the counts of all workers; None: this one counts for itself."""
        self._own = _Numbers(None if folder is None else folder / f"{os.getpid()}.{os.urandom(4).hex()}")
        self._values = self._own.values
        self._in_flight = self._own.place((_IN_FLIGHT,))
        self._requests: dict[tuple[str, str, int], tuple[int, int, int]] = {}
        """Places of the count, of the first bucket and of the seconds, by method, route and status."""
        places = [self._own.place((_MINUTE, at, one)) for at in range(_MINUTES) for one in _FIELDS]
        self._minutes = places[0]
        """First of the numbers of the last minutes, side by side; each minute takes the place of the oldest."""
        self.put("process_start_time_seconds", time.time())

    @property
    def in_flight(self) -> int:
        """Requests that this worker is answering."""
        return int(self._values[self._in_flight])

    @in_flight.setter
    def in_flight(self, n: int) -> None:
        self._values[self._in_flight] = n

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answer; of the thread of the event loop alone, which needs no lock."""
        places = self._requests.get((method, route, status))
        if places is None:
            buckets = [self._own.place((_SECONDS, route, at)) for at in range(len(BUCKETS) + 1)]  # side by side
            places = self._own.place((_REQUESTS, method, route, status)), buckets[0], self._own.place((_SUM, route))
            self._requests[method, route, status] = places
        count, bucket, total = places
        self._values[count] += 1
        self._values[bucket + bisect_left(BUCKETS, seconds)] += 1
        self._values[total] += seconds
        minute = self._minute()
        self._values[minute + 1] += 1
        self._values[minute + 4] += seconds
        if status >= 400:
            self._values[minute + (2 if status < 500 else 3)] += 1

    def _minute(self) -> int:
        """Place of the numbers of this minute; of the thread of the event loop alone."""
        now = int(time.time() // 60)
        first = self._minutes + now % _MINUTES * len(_FIELDS)
        if self._values[first] != now:
            for at in range(1, len(_FIELDS)):
                self._values[first + at] = 0.0
            self._values[first] = now
        return first

    def count_feedback(self, stored: int) -> None:
        """Count events that were stored; of the thread of the event loop alone."""
        self.count(_FEEDBACK, stored)
        self._values[self._minute() + _FIELDS.index("feedback")] += stored

    def count(self, name: str, n: float = 1) -> None:
        """Add to one of the other counts."""
        self._own.add((name,), n)

    def put(self, name: str, value: float) -> None:
        """Set a value that is not a sum, such as the generation that this worker serves."""
        self._values[self._own.place((name,))] = value

    def value(self, name: str) -> float:
        """Return a count or value of this worker."""
        return self._own.all().get((name,), 0.0)

    def everything(self) -> tuple[dict[Key, float], dict[int, Mapping[Key, float]]]:
        """Sums over all workers, and the numbers of each that lives, by its process id."""
        totals: dict[Key, float] = defaultdict(float)
        alive: dict[int, Mapping[Key, float]] = {}
        for worker, numbers, is_alive in self._workers():
            for key, value in numbers.items():
                totals[key] += value
            if is_alive:
                alive[worker] = {**numbers, ("process_resident_memory_bytes",): resident_bytes(worker)}
        return totals, alive

    def minutes(self) -> list[MinuteCounts]:
        """The last hour of all workers, oldest first; minutes without an answer are left out."""
        oldest = int(time.time() // 60) - _MINUTES
        found: dict[int, list[float]] = defaultdict(lambda: [0.0] * len(_FIELDS))
        for _, numbers, _ in self._workers():
            for at in range(_MINUTES):
                minute, *values = (numbers.get((_MINUTE, at, one), 0.0) for one in _FIELDS)
                if minute > oldest:
                    found[int(minute)] = [a + b for a, b in zip(found[int(minute)], [0.0, *values], strict=True)]
        return [
            MinuteCounts(60 * minute, int(requests), int(refused), int(failed), seconds, int(feedback))
            for minute, (_, requests, refused, failed, seconds, feedback) in sorted(found.items())
        ]

    def routes(self) -> list[RouteCounts]:
        """Answers by method and route since the start, those with the most requests first."""
        totals, _ = self.everything()
        found: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0] * 3)
        for key, n in totals.items():
            if key[0] == _REQUESTS:
                _, method, route, status = key
                own = found[method, route]
                own[0] += n
                own[1] += n * (400 <= status < 500)
                own[2] += n * (status >= 500)
        rows = []
        for (method, route), (requests, refused, failed) in found.items():
            buckets = [totals.get((_SECONDS, route, at), 0.0) for at in range(len(BUCKETS) + 1)]
            mean, median, p95 = (
                totals[_SUM, route] / max(1.0, sum(buckets)),
                quantile(buckets, 0.5),
                quantile(buckets, 0.95),
            )
            rows.append(RouteCounts(method, route, int(requests), int(refused), int(failed), mean, median, p95))
        return sorted(rows, key=lambda one: (-one.requests, one.route, one.method))

    def workers(self) -> list[WorkerState]:
        """The workers that live."""
        names = ("process_resident_memory_bytes", "tastespace_model_generation", _IN_FLIGHT)
        _, alive = self.everything()
        return [WorkerState(one, *(int(own.get((name,), 0.0)) for name in names)) for one, own in sorted(alive.items())]

    def text(self, gauges: Mapping[str, tuple[str, float]] | None = None) -> str:
        """All counts of all workers; values that are no sums have the label ``worker``.

        ``gauges``: help and value of numbers that hold for all workers.

        >>> counts = RequestCounts()
        >>> counts.add("GET", "/v1/model", 200, 0.004)
        >>> 'tastespace_requests_total{method="GET",route="/v1/model",status="200"} 1' in counts.text()
        True
        """
        totals, alive = self.everything()
        lines = ["# HELP tastespace_requests_total Answers.", "# TYPE tastespace_requests_total counter"]
        for (_, method, route, status), n in sorted((key, n) for key, n in totals.items() if key[0] == _REQUESTS):
            labels = f'method="{method}",route="{route}",status="{status}"'
            lines.append(f"tastespace_requests_total{{{labels}}} {n:.0f}")
        name = "tastespace_request_seconds"
        lines += [f"# HELP {name} Time to answer.", f"# TYPE {name} histogram"]
        for route in sorted(key[1] for key in totals if key[0] == _SUM):
            total = 0.0
            for at, limit in enumerate((*BUCKETS, float("inf"))):
                total += totals.get((_SECONDS, route, at), 0.0)
                shown = "+Inf" if limit == float("inf") else f"{limit:g}"
                lines.append(f'{name}_bucket{{route="{route}",le="{shown}"}} {total:.0f}')
            lines.append(f'{name}_sum{{route="{route}"}} {totals[_SUM, route]:.6f}')
            lines.append(f'{name}_count{{route="{route}"}} {total:.0f}')
        for name, about in _COUNTERS.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} counter", f"{name} {totals.get((name,), 0.0):.0f}"]
        for name, about in _GAUGES.items():
            found = {worker: own[(name,)] for worker, own in alive.items() if (name,) in own}
            lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge"] if found else []
            lines += [f'{name}{{worker="{worker}"}} {value:.0f}' for worker, value in found.items()]
        for name, (about, value) in (gauges or {}).items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge", f"{name} {value:.10g}"]
        return "\n".join(lines) + "\n"

    def _workers(self) -> Iterator[tuple[int, dict[Key, float], bool]]:
        """Process id of each worker that there was, its numbers, and whether it lives."""
        if self.folder is None:
            yield os.getpid(), self._own.all(), True
            return
        for path in sorted(self.folder.glob("[0-9]*.*")):
            yield int(path.name.partition(".")[0]), *_read_numbers(path)


def quantile(buckets: Sequence[float], share: float) -> float:
    """Return how many seconds a share of the answers took at most, from their numbers in `BUCKETS`.

    Linear within a bucket; of answers above the last limit this is the limit.

    >>> quantile([0, 10, *[0] * 11], 0.5)
    0.0015
    """
    wanted, below, lower = share * sum(buckets), 0.0, 0.0
    for limit, n in zip(BUCKETS, buckets, strict=False):
        if n and below + n >= wanted:
            return lower + (limit - lower) * (wanted - below) / n
        below, lower = below + n, limit
    return BUCKETS[-1] if below < wanted else 0.0


def resident_bytes(process: int) -> int:
    """Memory of a process that is in use, in bytes; 0 where the system does not say."""
    try:
        pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
