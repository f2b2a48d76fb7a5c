"""Work on the rows of a matrix in parts, by several threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def in_parts(n: int, size: int, threads: int, work: Callable[[int, int], None]) -> None:
    """Call ``work(first, last)`` for parts of at most ``size`` of n rows; which thread does a part does not matter."""
    parts = [(first, min(n, first + size)) for first in range(0, n, size)]
    if threads == 1 or len(parts) == 1:  # to start threads takes longer than to score one user
        for part in parts:
            work(*part)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: work(*part), parts))
