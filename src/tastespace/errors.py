"""Everything that tastespace raises on purpose.

Each message says what was given, what was expected and what to do.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class TastespaceError(Exception):
    """Base of every error that the library raises on purpose."""


class DataError(TastespaceError, ValueError):
    """The data given cannot be used as it is."""


class ParameterError(TastespaceError, ValueError):
    """A parameter is unknown or has a value that is not allowed, or a model does not support what was asked for."""


class UnknownIdError(TastespaceError, KeyError):
    """A user or item that the data or the model does not have."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0]) if self.args else ""


class DatasetError(TastespaceError):
    """A named data set is unknown, or none of its sources could deliver it."""


class TrainingError(TastespaceError, RuntimeError):
    """Training cannot go on: it diverged, or its checkpoint does not fit."""


class ClusterError(TastespaceError, RuntimeError):
    """A cluster cannot be reached or used, or a run on it cannot go on."""


class InterruptedRunError(ClusterError):
    """A cluster or its storage failed, not the run: when they work again, the same call goes on."""


class ModelFileError(TastespaceError):
    """A saved model cannot be written or read: missing, foreign, damaged, of a newer format, or a full disk."""


class ModelChangedError(ModelFileError):
    """A file of a loaded model was changed by another program while the model was in use."""


class ForkError(TastespaceError, RuntimeError):
    """Something that needs threads of the parent process was called in a forked child, where it would never return."""


class NotFittedError(TastespaceError, AttributeError):
    """A method that needs a fitted model was called before `fit`."""


def require_path(path: Any, name: str | None = None) -> Path:
    """A name of a file or folder as a path, with ``~`` resolved; anything else is an error.

    ``name`` is that of the parameter, for the message.

    >>> require_path("models/shop").name
    'shop'
    """
    given = "" if name is None else f"{name}: "
    if not isinstance(path, (str, os.PathLike)):
        raise ParameterError(f"{given}expected the name of a file or folder, given {path!r}.")
    try:
        found = Path(path).expanduser()
        found.exists()
    except (OSError, ValueError, TypeError, RuntimeError) as problem:  # too long, a zero byte, ~nobody, bytes
        raise ParameterError(
            f"{given}{str(path)[:100]!r} cannot be the name of a file: {str(problem).rstrip('.')}."
        ) from problem
    return found


def nearest(name: object, known: Iterable[object], n: int = 3) -> str:
    """A sentence with the known names nearest to ``name``, or an empty string.

    >>> nearest("ml-1n", ["ml-1m", "anime"])
    ' Did you mean ml-1m?'
    """
    by_lower = {str(k).lower(): str(k) for k in known}
    matches = [by_lower[m] for m in difflib.get_close_matches(str(name).lower(), list(by_lower), n=n)]
    return f" Did you mean {' or '.join(matches)}?" if matches else ""
