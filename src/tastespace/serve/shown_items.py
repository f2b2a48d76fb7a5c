"""Counts of items in answered lists: coverage and concentration, of all workers.

Each worker counts in an array of at most `_MOST` numbers below the folder that workers share; of larger catalogs every
n-th item is counted, which leaves shares as they are. Counts are of one generation of the model.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tastespace.answers.catalog import Catalog
from tastespace.serve.schemas import Recommended, ShownItem

_MOST = 100_000
_TOP_SHARE = 0.01
_NAMED = 8


class _Item(msgspec.Struct, gc=False):
    item: Any


class _Listed(msgspec.Struct):
    items: list[_Item]


_LISTED = msgspec.json.Decoder(_Listed)


class ShownItems:
    """Counts of one generation in this worker.

    >>> from tastespace import EASE, synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> shown = ShownItems(Catalog(EASE().fit(town)))
    >>> shown.add(b'{"items": [{"item": 3, "rank": 1}, {"item": 5, "rank": 2}]}')
    >>> found = shown.summary()
    >>> found.places, found.items, found.coverage
    (2, 40, 0.05)
    """

    def __init__(self, catalog: Catalog, folder: Path | None = None) -> None:
        self._catalog = catalog
        self._step = -(-catalog.train.n_items // _MOST)
        rows = np.arange(0, catalog.train.n_items, self._step)
        self._place = {item: at for at, item in enumerate(catalog.ids_at(rows))}
        self._file: Path | None = None
        if folder is None:
            self._counts = np.zeros(len(rows), dtype=np.uint32)
            self._numbers = self._counts.data
            return
        self._file = folder / f"shown-{catalog.generation}-{os.getpid()}-{os.urandom(4).hex()}"
        with self._file.open("xb+") as file:
            file.truncate(max(4 * len(rows), 1))
            self._counts = np.frombuffer(mmap.mmap(file.fileno(), 0), dtype=np.uint32, count=len(rows))
        self._numbers = self._counts.data  # the fastest to add 1 to a few

    def add(self, answer: bytes) -> None:
        """Count the items of a list, by its answer as it is sent."""
        place, counts = self._place, self._numbers
        for one in _LISTED.decode(answer).items:
            at = place.get(one.item)
            if at is not None:
                counts[at] += 1

    def add_items(self, items: Iterable[Any]) -> None:
        """Count the items of a list, by their ids as JSON has them."""
        for item in items:
            at = self._place.get(item)
            if at is not None:
                self._numbers[at] += 1

    def totals(self) -> NDArray[np.int64]:
        """Counts of all workers, those that have ended as well."""
        if self._file is None:
            return self._counts.astype(np.int64)
        total = np.zeros(len(self._counts), dtype=np.int64)
        for path in self._file.parent.glob(f"shown-{self._catalog.generation}-*"):
            own = np.fromfile(path, dtype=np.uint32, count=len(total))
            if len(own) == len(total):  # else it is just being made
                total += own
        return total

    def summary(self) -> Recommended:
        """Coverage and concentration of what was recommended, and what was shown most."""
        total = self.totals()
        places = int(total.sum())
        n_items, n_counted = self._catalog.train.n_items, len(total)
        if not places:
            return Recommended(places=0, items=n_items)
        ordered = np.sort(total)[::-1]
        top = ordered[: max(1, round(_TOP_SHARE * n_counted))].sum() / places
        most = np.argsort(-total, kind="stable")[:_NAMED]
        most = most[total[most] > 0]
        named = self._catalog.named(most * self._step)
        return Recommended(
            places=places,
            items=n_items,
            coverage=float((total > 0).mean()),
            top_share=float(top),
            gini=gini(ordered[::-1]),
            most=[
                ShownItem(one.item, one.title, int(total[at]) / places)
                for one, at in zip(named, most.tolist(), strict=True)
            ],
        )

    def close(self) -> None:
        """Forget the counts: another generation is served."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)


def gini(counts: NDArray[np.integer[Any]]) -> float:
    """Gini coefficient of ascending counts: 0 where all are the same, nearly 1 where one has everything.

    >>> gini(np.array([2, 2, 2, 2])), gini(np.array([0, 0, 0, 8]))
    (0.0, 0.75)
    """
    n, total = len(counts), float(counts.sum())
    if not total:
        return 0.0
    return float((2 * np.arange(1, n + 1) - n - 1) @ counts / (n * total))
