"""Values that are computed once from an object that does not change, and kept for as long as the object lives.

A fitted model is asked for one list after the other, and what scoring needs of its vectors (that they are finite, their
squares, the items in the order of the kernels) is the same each time. It is kept with the arrays themselves rather than
with the model: a model that learns has new arrays, so nothing kept is ever out of date, models that share arrays (as
after fold-in) share it, and no file holds it.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Value = TypeVar("Value")

_values: dict[int, tuple[weakref.ref[Any], dict[Hashable, Any]]] = {}
_making = threading.RLock()  # of threads that need the same value, one makes it


def _renew_lock() -> None:
    """In a forked child: the thread that held the lock stayed in the parent, and nobody would ever release it."""
    global _making
    _making = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def freeze(array: NDArray[Any]) -> None:
    """Make an array read-only, so that what is computed from it is kept.

    To write to it is then an error (``ValueError: assignment destination is read-only``), as for the arrays of a loaded
    model. What has other values is a new array. A view of an array that others may write to stays as it is, and nothing
    is kept for it.
    """
    if is_frozen(array) or (isinstance(array.base, np.ndarray) and array.base.flags.writeable):
        return
    _values.pop(id(array), None)  # of an array that was writable in between
    array.flags.writeable = False
    _remember(array)


def is_frozen(array: NDArray[Any]) -> bool:
    """Return whether `freeze` was called for this array, and nobody has made it writable again.

    >>> array = np.zeros(3)
    >>> is_frozen(array), freeze(array), is_frozen(array), is_frozen(array.copy())
    (False, None, True, False)
    """
    return not array.flags.writeable and _of(array) is not None


def computed_once(source: Any, key: Hashable, make: Callable[[], Value]) -> Value:
    """The value that ``make`` returns, computed once for each source and key where the source does not change.

    Arrays change unless they are frozen: nothing is kept for those that are not. Frames and `Interactions` do not.

    >>> array = np.arange(3)
    >>> freeze(array)
    >>> computed_once(array, "sum", lambda: array.sum()) is computed_once(array, "sum", lambda: array.sum())
    True
    """
    if isinstance(source, np.ndarray):
        if not is_frozen(source):
            return make()
    elif _of(source) is None:
        _remember(source)
    values = _of(source)
    assert values is not None  # the caller holds the source
    if key not in values:
        with _making:
            if key not in values:
                values[key] = make()
    found: Value = values[key]
    return found


def kept(source: Any, key: Hashable) -> Any:
    """The value that `computed_once` has computed for this source and key before, else None."""
    if isinstance(source, np.ndarray) and not is_frozen(source):
        return None
    return (_of(source) or {}).get(key)


def writable(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself or, where it is read-only, a copy of it: for kernels that ask for more rights than they use.

    Of a frozen array there is one copy for all: nobody may write to it.

    >>> array = np.zeros(3)
    >>> writable(array) is array, freeze(array), writable(array) is writable(array)
    (True, None, True)
    """
    return computed_once(array, "writable copy", lambda: np.require(array, requirements=["C", "W"]))


def _of(source: Any) -> dict[Hashable, Any] | None:
    found = _values.get(id(source))
    return found[1] if found is not None and found[0]() is source else None


def _remember(source: Any) -> None:
    number = id(source)

    # The table as a default: at the end of the interpreter the names of this module are gone before all arrays are.
    def forget(gone: weakref.ref[Any], values: dict[int, Any] = _values) -> None:
        known = values.get(number)
        if known is not None and known[0] is gone:  # not of a later object at the same place
            del values[number]

    with _making:
        if _of(source) is None:
            _values[number] = (weakref.ref(source, forget), {})
