"""Why an item is recommended to a user."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tastespace.checks import require_k
from tastespace.models.base import Recommender
from tastespace.recommend.interest_labels import Labeler
from tastespace.recommend.request import row_of
from tastespace.recommend.user_interests import user_interests


@dataclass(frozen=True)
class Explanation:
    """Why an item has its rank in a user's list."""

    user: Any
    item: Any
    title: str
    seen: bool
    """Whether the user had it in training."""
    interest: int
    """Number of the interest that the item is nearest to."""
    label: str | None
    """That interest in words, where the items have attributes."""
    score: float
    distance: float | None
    """Squared distance to the interest; None where vectors are compared by inner products."""
    rank: int
    """Among all items that the user does not have, from 1."""
    rank_without: int | None
    """The same if the user did not have that interest; None where it is the only one."""
    beside: list[tuple[Any, str, float]]
    """Past items nearest to the item: id, title, and squared distance (or minus the similarity)."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        found = asdict(self)
        found["beside"] = [{"item": item, "title": title, "distance": gap} for item, title, gap in self.beside]
        return found

    def __str__(self) -> str:
        of = f"interest {self.interest}" + (f" ({self.label})" if self.label else "")
        how = [f"score {self.score:.3f}"] if self.distance is None or self.distance != -self.score else []
        how += [] if self.distance is None else [f"squared distance {self.distance:.3f}"]
        lines = [f"{self.title} for {self.user}: rank {self.rank}, matches {of}, {', '.join(how)}."]
        if self.rank_without is not None:
            lines.append(f"Without that interest it would be rank {self.rank_without}.")
        if self.beside:
            lines.append("Beside it: " + ", ".join(title for _, title, _ in self.beside) + ".")
        if self.seen:
            lines.append("The user already has it.")
        return "\n".join(lines)


def explain(model: Recommender, user: Any, item: Any, k: int = 5, *, column: str | None = None) -> Explanation:
    """`Recommender.explain`."""
    k = require_k(k)
    view = user_interests(model, user, "explanations")
    index, train = view.index, model.train_
    row = row_of(train.items, item)
    labeler = Labeler(train, column, model.popularity_source)
    scores = index.interest_scores(view.row, np.array([row]))[:, 0]
    interest = int(scores.argmax())
    everything = list(range(view.n_interests))
    others = [x for x in everything if x != interest]
    other_past = view.past[view.past != row]
    gaps = -index.item_closeness(row, other_past)
    nearest = np.argsort(gaps, kind="stable")[:k]
    ids, titles = train.items.take(other_past[nearest]).to_list(), labeler.titles(other_past[nearest])
    return Explanation(
        user=train.users[view.row],
        item=train.items[row],
        title=labeler.titles(np.array([row]))[0],
        seen=bool((view.past == row).any()),
        interest=interest,
        label=view.labels(labeler, [[interest]])[0],
        score=index.score(view.row, row),
        distance=-float(scores[interest]) if index.has_distances else None,
        rank=index.rank(view.row, row, everything),
        rank_without=index.rank(view.row, row, others) if others else None,
        beside=[(one, title, float(gaps[at])) for one, title, at in zip(ids, titles, nearest, strict=True)],
    )
