"""Memory that is available."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tastespace.errors import Argument, ParameterError


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


_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def bytes_of(size: int | float | str, name: str = "memory") -> int:
    """A size in bytes: a number of bytes, or text such as ``"2GB"`` and ``"500 MiB"``.

    >>> bytes_of("1.5GB"), bytes_of("64 MiB"), bytes_of(4096)
    (1500000000, 67108864, 4096)
    """
    found = re.fullmatch(r"\s*([0-9.]+)\s*([a-zA-Z]*)\s*", str(size)) if not isinstance(size, bool) else None
    try:
        number = float(found[1]) * _UNITS[found[2].lower()] if found else 0.0
    except (ValueError, KeyError):
        number = 0.0
    if not 1 <= number < 2**62:
        raise ParameterError(Argument(name, size), ": expected a number of bytes, or a size such as '2GB' or '500MB'.")
    return int(number)
