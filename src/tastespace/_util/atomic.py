"""Files that are replaced as a whole: a crash leaves the old file or the new one, never half of one."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import secrets
import zlib
from collections.abc import Iterator
from pathlib import Path

# .NAME.HOST-PROCESS-TOKEN.partial
_TEMPORARY = re.compile(r"\.(?P<name>.+?)\.(?P<host>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{8}\.partial")


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``; when the block ends well, it replaces ``path``.

    The folder is created where it is missing. The file is flushed to disk before the rename and the folder
    after it, so that the new content is still there after a power failure. If the block raises, the temporary file
    is removed and ``path`` is as it was.

    The temporary name is used once, so two writers of one file do not disturb each other: the later one wins. A process
    killed while writing leaves its temporary file; the next write of the same file removes those of dead processes.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "figures.json"
    >>> with atomic_write(path) as temporary:
    ...     _ = temporary.write_text("{}")
    >>> path.read_text(), [file.name for file in path.parent.iterdir()]
    ('{}', ['figures.json'])
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{_host()}-{os.getpid()}-{secrets.token_hex(4)}.partial")
    try:
        yield temporary
        flush(temporary)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _remove_abandoned(path)
    flush(path.parent)


def written_name(temporary: str) -> str | None:
    """The name of the file that a temporary file of `atomic_write` was to become; None for other files.

    >>> written_name(".model.json.0123abcd-77-89abcdef.partial"), written_name("model.json")
    ('model.json', None)
    """
    found = _TEMPORARY.fullmatch(temporary)
    return None if found is None else found["name"]


def flush(path: Path) -> None:
    """Have the system write a file's or folder's content to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_abandoned(path: Path) -> None:
    """Remove temporary files of ``path`` whose writers are dead; those on other machines are left alone."""
    with contextlib.suppress(OSError):  # what is left, the next write removes
        for file in path.parent.iterdir():
            found = _TEMPORARY.fullmatch(file.name)
            if found is None or found["name"] != path.name:
                continue
            if found["host"] == _host() and not _is_alive(int(found["process"])):
                file.unlink(missing_ok=True)


def _host() -> str:
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # of another user
    return True
