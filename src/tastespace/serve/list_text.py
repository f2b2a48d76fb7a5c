"""Lists as JSON, written from arrays: the same answers as `Recommendations`, without an object for each item."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.recommend.reasons import list_reasons
from tastespace.recommend.scoring import TopK
from tastespace.serve.served_model import ServedModel

_JSON = msgspec.json.Encoder()
_END = b'],"fallback":null}'


class ListText:
    """Writes lists of one served model. What is said of an item is encoded once."""

    def __init__(self, served: ServedModel) -> None:
        self._served = served

    def lists(self, users: Sequence[Any], rows: NDArray[np.int32], found: TopK, because: bool) -> list[bytes | None]:
        """The lists of a block: of users with these ids, at these rows of the model.

        None where a number is not finite: JSON has no word for it.
        """
        ends = np.searchsorted(found.query, np.arange(len(users) + 1))
        reasons, weights = None, None
        if because:
            reasons, weights = list_reasons(self._served.index, np.repeat(rows, np.diff(ends)), found.rows)
        texts, offsets, cuts = self._item_texts
        listed = _native.list_texts(
            texts, offsets, cuts, ends, found.rows, found.rank, found.scores,
            found.interests if self._served.model.has_interests else None, found.distances, reasons, weights,
        )  # fmt: skip
        middle = b',"model":%d,"items":[' % self._served.generation
        return [
            None if text is None else b'{"user":%b%b%b%b' % (_JSON.encode(user), middle, text, _END)
            for user, text in zip(users, listed, strict=True)
        ]

    @cached_property
    def _item_texts(self) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
        """Id, title and category of all items as JSON, where each begins, and where its category begins.

        Objects without their closing brace: rank, score and the rest follow.
        """
        served, rows = self._served, np.arange(self._served.train.n_items)
        texts, ends, cuts = [], [0], []
        for item, title, category in zip(
            served.ids_at(rows), served.titles_at(rows), served.categories_at(rows), strict=True
        ):
            named = _JSON.encode({"item": item, "title": title})[:-1]
            texts += [named, b',"category":', _JSON.encode(category)]
            cuts.append(ends[-1] + len(named))
            ends.append(cuts[-1] + len(texts[-2]) + len(texts[-1]))
        return b"".join(texts), np.array(ends, dtype=np.int64), np.array(cuts, dtype=np.int64)

    def prepare(self) -> None:
        """Encode what is said of items now, rather than with the first list."""
        _ = self._item_texts
