"""The name of each interest of a user: one for shelves, interests, explanations and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.recommend.interest_labels import Labeler
from tastespace.recommend.user_interests import UserInterests
from tastespace.recommend.wording import Wording


def interest_names(view: UserInterests, titles_at: Callable[[NDArray[np.int32]], list[Any]]) -> list[str]:
    """By categories where they fit, else by past items; no name twice, and the same whatever is filtered or muted.

    Args:
        view: The user's interests.
        titles_at: Titles of the items at these rows, or their ids.
    """
    model = view.index.model
    labels = view.labels(Labeler(model.train_, None, model.popularity_source), [[x] for x in range(view.n_interests)])
    names = []
    for x, label in enumerate(labels):
        titles = list(dict.fromkeys(str(one) for one in titles_at(view.past_of([x])[:2])))
        names.append(label or (Wording().shelf_name(titles) if titles else f"interest {x}"))
    often = Counter(names)
    return [name if often[name] == 1 else f"{name} ({x})" for x, name in enumerate(names)]
