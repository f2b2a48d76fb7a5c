"""Driver and workers must have the same version of the library: others would compute something else."""

from __future__ import annotations

import os
import socket
from functools import lru_cache

from tastespace.errors import InterruptedRunError

PROTOCOL = 3
"""Raised where a task computes something else, so that workers of another version are refused."""


@lru_cache(maxsize=1)
def library_version() -> str:
    """The version that driver and workers must share."""
    from importlib.metadata import version

    return f"{version('tastespace')}/{PROTOCOL}"


def require_version(wanted: str) -> None:
    """Raise where this worker has another version of the library than the driver, ``wanted``."""
    own = library_version()
    if own != wanted:
        raise InterruptedRunError(
            f"the worker on {socket.gethostname()} (process {os.getpid()}) has tastespace {own}, the driver {wanted}: "
            "their results would differ. Install the same version on all of them."
        )
