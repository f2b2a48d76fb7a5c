"""How much memory there is."""

from __future__ import annotations

import os
from pathlib import Path


def available_gb() -> float:
    """Memory that a new computation may take, in gigabytes, as the system reports it."""
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as facts:
            found = {line.split(":")[0]: int(line.split()[1]) for line in facts}
        return found["MemAvailable"] * 1024 / 1e9
    except (OSError, KeyError, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
