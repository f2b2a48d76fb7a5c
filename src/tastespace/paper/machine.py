"""On what the results were produced."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path

import tastespace
from tastespace import _native

_PACKAGES = ("numpy", "scipy", "polars", "torch", "matplotlib")


def surroundings() -> dict[str, str]:
    """Processor, memory, versions and date, each in a few words."""
    return {
        "date": datetime.datetime.now(tz=datetime.timezone.utc).strftime("%Y-%m-%d"),
        "tastespace": tastespace.__version__,
        "kernels": f"{_native.SIMD}, sources {_native.SOURCES[:12]}",
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        **{name: version for name in _PACKAGES if (version := _version(name))},
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown"
    return next(
        (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")), "unknown"
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
