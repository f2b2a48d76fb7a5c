"""Lists in which some places are drawn from the items below, with probabilities that are logged.

Each place but the first is drawn with the probability of `--explore`, and then gets one of the next items, each with
the same probability and none twice. So at each of these places the item of the list stands with probability 1 - e, and
each of the m next items with e / m, exactly: what other policies are worth can be estimated from the clicks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tastespace.answers.lists import AnswerOptions
from tastespace.answers.types import AnswerError, Recommendations
from tastespace.serve.impressions import Shown, shown_list
from tastespace.serve.lists import ServedLists

_HEAD = 1
_FEWEST = 10
_RNG = np.random.default_rng()


def can_explore(options: AnswerOptions) -> bool:
    """Return whether a list may be explored: it has more than its head, and no places that somebody has chosen."""
    is_pinned = options.rules is not None and bool(options.rules.pinned)
    return options.k > _HEAD and not options.items and not is_pinned


def explored_list(
    lists: ServedLists, user: Any, options: AnswerOptions, share: float, rng: np.random.Generator = _RNG
) -> tuple[Recommendations, Shown]:
    """Return a list with drawn places, and what is logged of it; raises where there is none for the user."""
    n_below = max(options.k, _FEWEST)
    (found,) = lists.for_users([user], replace(options, k=options.k + n_below))
    if isinstance(found, AnswerError):
        raise found
    own, below = found.items[: options.k], found.items[options.k :]
    propensities, drawn = [1.0] * len(own), list[int]()
    if below and found.fallback is None and len(own) > _HEAD:
        places = np.flatnonzero(rng.random(len(own)) < share)
        # More places than items below would change the probabilities; there are as many items as places, or no list.
        places = places[places >= _HEAD] if len(below) >= len(own) - _HEAD else places[:0]
        if len(below) >= len(own) - _HEAD:
            propensities[_HEAD:] = [1 - share] * (len(own) - _HEAD)
        chosen = rng.choice(len(below), size=len(places), replace=False).tolist()
        for place, at in zip(places.tolist(), chosen, strict=True):
            own[place] = below[at]
            propensities[place] = share / len(below)
            drawn.append(place + 1)
        for at, one in enumerate(own):
            one.rank = at + 1
    found.items = own
    source = lists.source
    if min(propensities, default=1.0) < 1:
        source = replace(source, propensities=propensities, candidates=len(below), explored=drawn)
    return found, shown_list(source, found)
