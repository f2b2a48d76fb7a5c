"""A bounded cache: the values that were used last. For values tied to the life of an object see `computed_once`."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """At most ``size`` values by their keys; the one that was used least recently makes room for a new one.

    Threads may share one. None is no value.

    >>> squares = LruCache[int, int](2)
    >>> [squares.get_or_make(n, lambda n=n: n * n) for n in (3, 4, 3, 5)]
    [9, 16, 9, 25]
    >>> squares.get(3), squares.get(4), len(squares)
    (9, None, 2)
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        """The value of this key, which counts as used now; None where there is none."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def put(self, key: Key, value: Value) -> None:
        """Keep a value, in place of an earlier one of the key."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._size:
                self._values.popitem(last=False)

    def discard(self, key: Key) -> None:
        """Forget the value of this key, where there is one."""
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._values.clear()

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of this key, else what ``make`` returns, which is kept; threads may make it at the same time."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found
