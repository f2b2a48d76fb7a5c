"""Everything that tastespace raises on purpose.

Each message says what was given, what was expected and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TastespaceError(Exception):
    """Base of every error that the library raises on purpose."""


class DataError(TastespaceError, ValueError):
    """The data given cannot be used as it is."""


class ParameterError(TastespaceError, ValueError):
    """A parameter has a value that makes no sense."""


class UnknownIdError(TastespaceError, KeyError):
    """A user or item that the data or the model has never seen."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0]) if self.args else ""


class DatasetError(TastespaceError):
    """A named data set is unknown, or none of its sources could deliver it."""


class TrainingError(TastespaceError, RuntimeError):
    """Training cannot go on: it diverged, or its checkpoint does not fit."""


class ModelFileError(TastespaceError):
    """A saved model cannot be written or read: missing, foreign, damaged, of a newer format, or a full disk."""


class NotFittedError(TastespaceError, AttributeError):
    """A model was asked for answers before `fit`."""


def nearest(name: object, known: Iterable[object], n: int = 3) -> str:
    """A sentence with the known names nearest to ``name``, or an empty string.

    >>> nearest("ml-1n", ["ml-1m", "anime"])
    ' Did you mean ml-1m?'
    """
    by_lower = {str(k).lower(): str(k) for k in known}
    matches = [by_lower[m] for m in difflib.get_close_matches(str(name).lower(), list(by_lower), n=n)]
    return f" Did you mean {' or '.join(matches)}?" if matches else ""
