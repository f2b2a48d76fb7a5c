"""How much memory there is."""

from __future__ import annotations

import os
from pathlib import Path

from tastespace.errors import ParameterError


def require_memory(what: str, n_bytes: float, advice: str) -> None:
    """Raise `ParameterError`, with what is needed and what there is, where ``n_bytes`` is more than is free.

    >>> require_memory("a table of 10**9 x 10**9 numbers", 8e18, "Lower k.")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tastespace.errors.ParameterError: a table of 10**9 x 10**9 numbers takes about 8e+09 GB of memory, ... Lower k.
    """
    free = available_gb()
    if n_bytes > 1e9 * free:
        raise ParameterError(f"{what} takes about {n_bytes / 1e9:.3g} GB of memory, {free:.3g} GB are free. {advice}")


def available_gb() -> float:
    """Memory that a new computation may take, in gigabytes, as the system reports it."""
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as facts:
            found = {line.split(":")[0]: int(line.split()[1]) for line in facts}
        return found["MemAvailable"] * 1024 / 1e9
    except (OSError, KeyError, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
