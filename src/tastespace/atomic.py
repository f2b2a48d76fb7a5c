"""Files that are replaced as a whole: a crash leaves the old file or the new one, never half of one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``; when the block ends well, it replaces ``path``.

    The folder is created where it is missing. The file is flushed to disk before the rename and the folder
    after it, so that the new content is still there after a power failure. If the block raises, the temporary file
    is removed and ``path`` is as it was.

    The temporary name depends on ``path`` alone: a process killed while writing leaves one such file at most, and the
    next write takes it over. Two writers of one file at the same time therefore need a lock.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "figures.json"
    >>> with atomic_write(path) as temporary:
    ...     _ = temporary.write_text("{}")
    >>> path.read_text(), [file.name for file in path.parent.iterdir()]
    ('{}', ['figures.json'])
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.partial")
    try:
        yield temporary
        flush(temporary)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    flush(path.parent)


def flush(path: Path) -> None:
    """Have the system write a file's or folder's content to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
