"""Lists as JSON, written from arrays: the same text as that of `Listing`, without an object for each item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tastespace.recommend.reasons import list_reasons
from tastespace.recommend.scoring import TopK
from tastespace.serve.served_model import ServedModel

_JSON = msgspec.json.Encoder()


class ListText:
    """Writes lists of one served model. What is said of an item is encoded once, when it is first listed."""

    def __init__(self, served: ServedModel) -> None:
        self._served = served
        self._heads: dict[int, str] = {}
        self._past: dict[int, str] = {}

    def lists(self, users: Sequence[Any], rows: NDArray[np.int32], found: TopK, because: bool) -> list[bytes | None]:
        """The lists of a block: of users with these ids, at these rows of the model.

        None where a number is not finite: JSON has no word for it.
        """
        ends = np.searchsorted(found.query, np.arange(len(users) + 1))
        items = self._items(found, because, np.repeat(rows, np.diff(ends)))
        is_finite = np.isfinite(found.scores)
        generation, made = self._served.generation, []
        for user, start, end in zip(users, ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            listed = ",".join(items[start:end])
            text = f'{{"user":{_json(user)},"model":{generation},"items":[{listed}],"fallback":null}}'
            made.append(text.encode() if is_finite[start:end].all() else None)
        return made

    def _items(self, found: TopK, because: bool, users: NDArray[np.int32]) -> list[str]:
        """Each entry of the lists; ``users`` are the rows of the users whose they are."""
        rows, nothing = found.rows.tolist(), ["null"] * len(found.rows)
        heads, interests = self._heads, found.interests if self._served.model.has_interests else None
        for item in set(rows) - heads.keys():
            heads[item] = self._head(item)
        return [
            f'{heads[item]}{rank},"score":{score!r},"interest":{interest},"distance":{distance}{behind}}}'
            for item, rank, score, interest, distance, behind in zip(
                rows,
                found.rank.tolist(),
                found.scores.tolist(),
                nothing if interests is None else interests.tolist(),
                nothing if found.distances is None else found.distances.tolist(),
                self._because(users, found.rows) if because else [',"because":null'] * len(rows),
                strict=True,
            )
        ]

    def _because(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> list[str]:
        rows, weights = list_reasons(self._served.index, users, items)
        past = self._past
        for item in set(rows.ravel().tolist()) - past.keys():
            past[item] = self._past_item(item)
        if len(rows) and rows.min() >= 0:  # nearly always: everybody has three past items
            return [
                f',"because":[{past[a]}{x!r}}},{past[b]}{y!r}}},{past[c]}{z!r}}}]'
                for (a, b, c), (x, y, z) in zip(rows.tolist(), weights.tolist(), strict=True)
            ]
        found = []
        for some, own in zip(rows.tolist(), weights.tolist(), strict=True):
            named = [f"{past[item]}{weight!r}}}" for item, weight in zip(some, own, strict=True) if item >= 0]
            found.append(f',"because":[{",".join(named)}]')
        return found

    def _head(self, row: int) -> str:
        """What comes before the rank of an item."""
        at = np.array([row])
        item, title, category = (
            one[0] for one in (self._served.ids_at(at), self._served.titles_at(at), self._served.categories_at(at))
        )
        return _json({"item": item, "title": title, "category": category})[:-1] + ',"rank":'

    def _past_item(self, row: int) -> str:
        """What comes before the weight of a past item."""
        if row < 0:
            return ""
        at = np.array([row])
        return _json({"item": self._served.ids_at(at)[0], "title": self._served.titles_at(at)[0]})[:-1] + ',"weight":'


def _json(value: Any) -> str:
    return _JSON.encode(value).decode()
