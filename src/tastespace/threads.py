"""One place that decides how many threads a computation may use."""

from __future__ import annotations

import os

from tastespace.checks import is_whole
from tastespace.errors import ParameterError

_MOST = 256  # tests of many threads on few cores are fine; tens of thousands end the process


def available() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resolve_threads(threads: int) -> int:
    """Turn the ``threads`` parameter of the public calls into a count: 0 means all cores.

    >>> resolve_threads(3)
    3
    """
    if not is_whole(threads, 0):
        raise ParameterError(f"threads={threads!r}: expected 0 (all cores) or a positive whole number.")
    most = max(_MOST, 4 * available())
    if threads > most:
        raise ParameterError(
            f"threads={threads}: at most {most}; this machine has {available()} cores, and 0 means all of them."
        )
    return int(threads) or available()
