"""Why an item is recommended to a person."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.models.base import Recommender
from tastespace.recommend.labels import Labeler
from tastespace.recommend.request import check_k, row_of
from tastespace.recommend.similar import closeness
from tastespace.recommend.user_view import label_of, meet


@dataclass(frozen=True)
class Explanation:
    """An item's place in a person's world."""

    user: Any
    item: Any
    title: str
    seen: bool
    """Whether the person had it in training."""
    interest: int
    """Number of the interest that the item is nearest to."""
    label: str | None
    """That interest in words, where the items have attributes."""
    score: float
    distance: float | None
    """Squared distance to the interest; None where the model is not of distances."""
    rank: int
    """Among everything that the person does not have, from 1."""
    rank_without: int | None
    """The same if the person did not have that interest; None where it is the only one."""
    beside: list[tuple[Any, str, float]]
    """Past items that stand nearest to the item: id, title, and squared distance (or minus the similarity)."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        found = asdict(self)
        found["beside"] = [{"item": item, "title": title, "distance": gap} for item, title, gap in self.beside]
        return found

    def __str__(self) -> str:
        of = f"interest {self.interest}" + (f" ({self.label})" if self.label else "")
        how = f"squared distance {self.distance:.3f}" if self.distance is not None else f"score {self.score:.3f}"
        lines = [f"{self.title} for {self.user}: rank {self.rank}, serves {of}, {how}."]
        if self.rank_without is not None:
            lines.append(f"Without that interest it would be rank {self.rank_without}.")
        if self.beside:
            lines.append("Beside it: " + ", ".join(title for _, title, _ in self.beside) + ".")
        if self.seen:
            lines.append("The person already has it.")
        return "\n".join(lines)


def explain(model: Recommender, user: Any, item: Any, k: int = 5, *, column: str | None = None) -> Explanation:
    """`Recommender.explain`."""
    k = check_k(k)
    person = meet(model, user, "explanations")
    train = model.train_
    row = row_of(train.items, item)
    labeler = Labeler(train, column, model.popularity_source)
    unseen = person.allowed(train.n_items, None, exclude_seen=True)
    interest = int(person.scores[:, row].argmax())
    others = [x for x in range(person.n_vectors) if x != interest]
    others_past = person.past[person.past != row]
    space = model.vectors()
    assert space is not None  # `meet` has seen to it
    gaps = -closeness(space, np.array([row]), others_past)[0]
    nearest = np.argsort(gaps, kind="stable")[:k]
    ids, titles = train.items.take(others_past[nearest]).to_list(), labeler.titles(others_past[nearest])
    score = float(person.scores[interest, row])
    return Explanation(
        user=train.users[person.row],
        item=train.items[row],
        title=labeler.titles(np.array([row]))[0],
        seen=bool((person.past == row).any()),
        interest=interest,
        label=label_of(person, labeler, [interest]),
        score=score,
        distance=-score if person.by_distance else None,
        rank=_rank(person.scores.max(axis=0), row, unseen),
        rank_without=_rank(person.scores[others].max(axis=0), row, unseen) if others else None,
        beside=[(one, title, float(gaps[at])) for one, title, at in zip(ids, titles, nearest, strict=True)],
    )


def _rank(scores: NDArray[np.float32], row: int, unseen: NDArray[np.bool_]) -> int:
    mine = scores[row]
    above = (scores > mine) | ((scores == mine) & (np.arange(len(scores)) < row))
    return int((above & unseen).sum()) + 1
