"""Opening files of a model directory: regular ones only, because a pipe or a device in their place never ends."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from tastespace.errors import ModelFileError


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; a folder, pipe, socket or device is an error, and nothing is waited for.

    >>> open_regular(Path("/dev/null"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tastespace.errors.ModelFileError: /dev/null is no regular file, but a device; ...
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise ModelFileError(
                f"{path} is no regular file, but a {_kind(mode)}; a model is a directory of regular files. Restore "
                "a copy."
            )
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path) -> bytes:
    """All bytes of a regular file."""
    with open_regular(path) as file:
        return file.read()


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "pipe"
    return "folder" if stat.S_ISDIR(mode) else "device"
