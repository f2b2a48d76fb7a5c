"""One place that decides how many threads a computation may use, also in a forked child.

Threads do not survive a fork. GNU OpenMP waits forever for a team that the parent had started, so that our kernels use
one thread in a child, which needs no team. The pool of polars cannot be replaced: where it is needed and the parent has
started it, `require_polars` raises.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from tastespace._util.checks import is_whole
from tastespace.errors import Argument, ForkError, ParameterError

log = logging.getLogger(__name__)

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
        raise ParameterError(Argument("threads", threads), ": expected 0 (all cores) or a positive whole number.")
    if threads > _MOST and threads > 4 * available():
        most = max(_MOST, 4 * available())
        raise ParameterError(
            Argument("threads", threads),
            f": at most {most}; this machine has {available()} cores, and 0 means all of them.",
        )
    wanted = int(threads) or available()
    if _after_fork.forked and wanted > 1:
        _after_fork.note()
        return 1
    return wanted


class _AfterFork:
    """Return whether this process is a forked child, and whether the parent had started the threads of polars."""

    def __init__(self) -> None:
        self.forked = self.without_polars = self._polars_started = self._noted = False

    def before(self) -> None:
        """Called in the parent before each fork."""
        self._polars_started = self.without_polars or _polars_has_threads()

    def in_child(self) -> None:
        """Called in each forked child."""
        self.forked, self.without_polars, self._noted = True, self._polars_started, False

    def note(self) -> None:
        """Say once that one thread is used."""
        if not self._noted:
            self._noted = True
            log.warning(
                "process %d was forked: it uses one thread, because threads of the parent do not survive a fork. "
                "Processes that were started (multiprocessing: spawn or forkserver) use all of them.",
                os.getpid(),
            )


def _polars_has_threads() -> bool:
    """Return whether polars has started its pool; where the system does not tell, it is taken for started."""
    try:
        names = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    except OSError:
        return True
    return any(name.startswith("polars-") and name.strip()[7:].isdigit() for name in names)


_after_fork = _AfterFork()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_after_fork.before, after_in_child=_after_fork.in_child)


def has_polars() -> bool:
    """Return whether polars can compute in this process: not in a forked child whose parent had started its threads."""
    return not _after_fork.without_polars


def require_polars(what: str) -> None:
    """Raise in a forked child where ``what`` would wait forever for threads of polars that stayed in the parent."""
    if not has_polars():
        raise ForkError(
            f"{what} needs the threads of polars, and process {os.getpid()} was forked from one that had started them: "
            "threads do not survive a fork. Start processes by spawn or forkserver (multiprocessing.get_context"
            '("spawn"), or preload off in a pre-fork server), or do this before the fork.'
        )
