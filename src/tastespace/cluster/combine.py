"""Changes of the shared arrays: what a partition sends, and how those of all partitions are combined.

Each partition starts a round at the same items and sends the difference, for the rows that it touched. Differences are
added, in the order of the partitions. For Adagrad they are scaled: a partition only saw its own gradients, so its steps
were longer than if it had seen all. With G the sum of squared gradients before the round and g_p those of partition p,
a partition's path has about the length sqrt(G + g_p) - sqrt(G); all steps one after the other would have
sqrt(G + sum of g_p) - sqrt(G), and the sum is shortened to that. Sums of squares and numbers of steps are added; the
moments of Adam are averaged by the numbers of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.training.loop import Arrays

_PREFIX = {"items": "item", "bias": "bias"}
_LARGEST = 65504.0  # of half precision


def sparse_change(before: Arrays, after: Arrays) -> Arrays:
    """The rows that differ and their differences, by name; ``rows`` are their numbers.

    >>> change = sparse_change({"items": np.zeros((3, 2))}, {"items": np.array([[0, 0], [1, 0], [0, 0]])})
    >>> change["rows"].tolist(), change["items"].tolist()
    ([1], [[1.0, 0.0]])
    """
    touched = np.zeros(len(before["items"]), dtype=bool)
    for name, old in before.items():
        if old.size:
            differs = old != after[name]
            touched |= differs if differs.ndim == 1 else differs.any(axis=1)
    rows = np.flatnonzero(touched).astype(np.int32)
    changes = {name: after[name][rows] - old[rows] for name, old in before.items() if len(old) == len(touched)}
    return {"rows": rows, **changes}


def halved(change: Arrays, residual: Arrays) -> tuple[Arrays, Arrays]:
    """A change in half precision, and what was lost by that and before, which the next changes take along.

    ``residual`` has the form of a change, or is empty; steps are whole numbers and stay as they are.

    >>> small, lost = halved({"rows": np.array([3]), "items": np.array([[1.0001]], np.float32)}, {})
    >>> float(small["items"][0, 0]), lost["rows"].tolist(), round(float(lost["items"][0, 0]), 5)
    (1.0, [3], 0.0001)
    """
    rows, small = change["rows"], {"rows": change["rows"]}
    before = residual.get("rows", rows[:0])
    all_rows = np.union1d(before, rows).astype(rows.dtype)
    lost: Arrays = {"rows": all_rows}
    old, own = np.searchsorted(all_rows, before), np.searchsorted(all_rows, rows)
    for name, exact in change.items():
        if exact.dtype != np.float32:
            small[name] = exact
            continue
        lost[name] = np.zeros((len(all_rows), *exact.shape[1:]), np.float32)
        if len(before):
            lost[name][old] = residual[name]
        wanted = exact + lost[name][own]
        small[name] = np.clip(wanted, -_LARGEST, _LARGEST).astype(np.float16)
        lost[name][own] = wanted - small[name].astype(np.float32)
    return small, lost


def combine(shared: Arrays, changes: Sequence[Arrays], optimizer: str) -> NDArray[np.int32]:
    """Apply the changes of all partitions, in their order, to the shared arrays in place; gives the rows that changed.

    >>> items = {"items": np.zeros((2, 1), np.float32), "item_first": np.zeros((2, 1), np.float32)}
    >>> one = {"rows": np.array([1]), "items": np.array([[0.5]]), "item_first": np.array([[4.0]])}
    >>> combine(items, [one], "adagrad").tolist(), items["items"].tolist(), items["item_first"].tolist()
    ([1], [[0.0], [0.5]], [[0.0], [4.0]])
    """
    rows = np.unique(np.concatenate([change["rows"] for change in changes])).astype(np.int32)
    places = [np.searchsorted(rows, change["rows"]) for change in changes]
    for name, prefix in _PREFIX.items():
        if name not in shared:
            continue
        total = _sum(rows, places, [change[name] for change in changes])
        if optimizer == "adagrad":
            total *= _shortened(shared[f"{prefix}_first"][rows], rows, places, [c[f"{prefix}_first"] for c in changes])
        shared[name][rows] += total.astype(np.float32)
        if optimizer == "adagrad":
            _add(shared, f"{prefix}_first", rows, places, changes)
        elif optimizer == "adam":
            _average_moments(shared, prefix, rows, places, changes)
    return rows


def _sum(rows: NDArray[np.int32], places: Sequence[NDArray[np.int64]], parts: Sequence[NDArray[Any]]) -> Any:
    total = np.zeros((len(rows), *parts[0].shape[1:]), dtype=np.float64)
    for at, part in zip(places, parts, strict=True):
        total[at] += part
    return total


def _add(
    shared: Arrays,
    name: str,
    rows: NDArray[np.int32],
    places: Sequence[NDArray[np.int64]],
    changes: Sequence[Arrays],
) -> None:
    shared[name][rows] += _sum(rows, places, [change[name] for change in changes]).astype(shared[name].dtype)


def _shortened(
    before: NDArray[np.float32],
    rows: NDArray[np.int32],
    places: Sequence[NDArray[np.int64]],
    squares: Sequence[NDArray[np.float32]],
) -> NDArray[np.float64]:
    """By how much a sum of Adagrad's steps is too long: a factor of at most 1 for each number."""
    start = before.astype(np.float64)
    root = np.sqrt(start)
    length = np.zeros_like(start)
    for at, square in zip(places, squares, strict=True):
        length[at] += np.sqrt(np.maximum(0.0, start[at] + square)) - root[at]
    whole = np.sqrt(np.maximum(0.0, start + _sum(rows, places, squares))) - root
    return np.divide(whole, length, out=np.ones_like(whole), where=length > 0)


def _average_moments(
    shared: Arrays,
    prefix: str,
    rows: NDArray[np.int32],
    places: Sequence[NDArray[np.int64]],
    changes: Sequence[Arrays],
) -> None:
    steps = [change[f"{prefix}_steps"] for change in changes]
    total = np.maximum(1, _sum(rows, places, steps))
    for part in ("first", "second"):
        name = f"{prefix}_{part}"
        wide = (slice(None), *(None,) * (shared[name].ndim - 1))
        weighted = [change[name] * step[wide] for change, step in zip(changes, steps, strict=True)]
        shared[name][rows] += (_sum(rows, places, weighted) / total[wide]).astype(np.float32)
    _add(shared, f"{prefix}_steps", rows, places, changes)
