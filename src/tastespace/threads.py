"""One place that decides how many threads a computation may use."""

from __future__ import annotations

import os

from tastespace.checks import is_whole
from tastespace.errors import ParameterError


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
    return threads or available()
