"""Counts of a server in the text format of Prometheus. Labels are routes, never paths: no ids of people."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class RequestCounts:
    """Requests by route and status, and how long they took."""

    def __init__(self) -> None:
        self._count: dict[tuple[str, str, int], int] = defaultdict(int)
        self._seconds: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS) + 1))
        self._sum: dict[str, float] = defaultdict(float)
        self.in_flight = 0
        self.feedback_stored = self.feedback_duplicates = 0

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answer."""
        self._count[method, route, status] += 1
        self._seconds[route][bisect_left(BUCKETS, seconds)] += 1
        self._sum[route] += seconds

    def text(self, values: Iterable[tuple[str, str, str, float]]) -> str:
        """All counts, and further values as (name, kind, help, value).

        >>> counts = RequestCounts()
        >>> counts.add("GET", "/v1/model", 200, 0.004)
        >>> 'tastespace_requests_total{method="GET",route="/v1/model",status="200"' in counts.text([])
        True
        """
        worker = f'worker="{os.getpid()}"'
        lines = ["# HELP tastespace_requests_total Answers.", "# TYPE tastespace_requests_total counter"]
        for (method, route, status), n in sorted(self._count.items()):
            label = f'method="{method}",route="{route}",status="{status}",{worker}'
            lines.append(f"tastespace_requests_total{{{label}}} {n}")
        name = "tastespace_request_seconds"
        lines += [f"# HELP {name} Time to answer.", f"# TYPE {name} histogram"]
        for route, counts in sorted(self._seconds.items()):
            total = 0
            for limit, n in zip((*BUCKETS, float("inf")), counts, strict=True):
                total += n
                shown = "+Inf" if limit == float("inf") else f"{limit:g}"
                lines.append(f'{name}_bucket{{route="{route}",le="{shown}",{worker}}} {total}')
            lines.append(f'{name}_sum{{route="{route}",{worker}}} {self._sum[route]:.6f}')
            lines.append(f'{name}_count{{route="{route}",{worker}}} {total}')
        own = [
            ("tastespace_requests_in_flight", "gauge", "Requests that are being answered.", float(self.in_flight)),
            ("tastespace_feedback_stored_total", "counter", "Events stored.", float(self.feedback_stored)),
            (
                "tastespace_feedback_duplicates_total",
                "counter",
                "Events sent again.",
                float(self.feedback_duplicates),
            ),
            ("process_resident_memory_bytes", "gauge", "Memory of the process.", float(resident_bytes())),
        ]
        for name, kind, about, value in [*own, *values]:
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", f"{name}{{{worker}}} {value:g}"]
        return "\n".join(lines) + "\n"


def resident_bytes() -> int:
    """Memory of this process that is in use, in bytes; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
