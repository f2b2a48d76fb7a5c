"""One process at a time: a lock on a file, which the system takes back from a process that has died."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tastespace.errors import BusyError


@contextlib.contextmanager
def only_one(path: Path, what: str) -> Iterator[IO[str]]:
    """Hold the lock on a file, which is made where it is missing; gives the file, open for reading and writing.

    The lock ends with the process, however it ends: a file that a killed one has left does not stop the next.

    >>> import tempfile
    >>> with only_one(Path(tempfile.mkdtemp()) / "job", "the job") as file:
    ...     file.read()
    ''
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            raise BusyError(
                f"{what} is going on already: another process holds {path}. Wait until it has ended."
            ) from problem
        file.seek(0)
        yield file
