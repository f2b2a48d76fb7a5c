"""Members of a blend and their weights: checks, names, and how each is fitted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.checks import require_number
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, ParameterError
from tastespace.interrupts import interrupts_end_task
from tastespace.models.base import Recommender

_SUM_TOLERANCE = 1e-6


def checked_members(members: Any) -> list[Recommender]:
    """The members as a list; an error unless they are models."""
    if isinstance(members, Recommender) or not isinstance(members, Sequence):
        raise ParameterError(f"members={members!r}: expected a list of models, such as [DPCML(), EASE()].")
    found = list(members)
    for member in found:
        if not isinstance(member, Recommender):
            raise ParameterError(f"members={found!r}: {member!r} is not a model. Expected a list of models.")
    if not found:
        raise ParameterError("members=[]: expected at least one model.")
    if len({id(member) for member in found}) < len(found):
        raise ParameterError(f"members={found!r}: the same model twice. Give it once, with the sum of the weights.")
    return found


def checked_weights(weights: Any, n_members: int) -> NDArray[np.float64] | None:
    """The weights with the sum 1, None where none are given; an error unless there is one for each member.

    >>> checked_weights([0.25, 0.75], 2)
    array([0.25, 0.75])
    """
    if weights is None:
        return None
    if not isinstance(weights, (list, tuple)):
        raise ParameterError(f"weights={weights!r}: expected a list of numbers, such as [0.7, 0.3].")
    given = list(weights)
    if len(given) != n_members:
        raise ParameterError(f"weights={given!r}: {len(given)} weights for {n_members} members, expected one each.")
    for weight in given:
        require_number("weights", weight, least=0.0)
    if abs(sum(given) - 1.0) > _SUM_TOLERANCE:
        raise ParameterError(
            f"weights={given!r} sum to {sum(given):g}, expected 1. Divide each by their sum, or leave weights out to "
            "have them chosen on validation data."
        )
    return np.asarray(given, dtype=np.float64) / math.fsum(given)  # sum() of 0.3, 0.3, 0.3 and 0.1 is not 1


def named_members(members: Sequence[Recommender]) -> dict[str, Recommender]:
    """The members by the names of their parameters: as in `tastespace.models.create`, a second DPCML is dpcml_2.

    >>> from tastespace.models import DPCML, EASE
    >>> list(named_members([DPCML(), EASE(), DPCML()]))
    ['dpcml', 'ease', 'dpcml_2']
    """
    from tastespace.models import name_of

    found: dict[str, Recommender] = {}
    for member in members:
        kind = name = name_of(type(member))
        number = 1
        while name in found:
            number += 1
            name = f"{kind}_{number}"
        found[name] = member
    return found


def require_same_data(members: Sequence[Recommender]) -> None:
    """Raise unless all members are fitted to the same users, items and interactions."""
    first = members[0]
    for member in members:
        member.require_fitted()
        for kind in ("users", "items"):
            ours, theirs = getattr(first.train_, kind), getattr(member.train_, kind)
            if ours != theirs:
                other_ids = " with other ids" if len(ours) == len(theirs) else ""
                raise DataError(
                    f"the members of a blend must be fitted on the same users and items: {type(first).__name__} has "
                    f"{len(ours):,} {kind}, {type(member).__name__} {len(theirs):,}{other_ids}. Fit all of them on the "
                    "same data."
                )
        ours, theirs = first.train_, member.train_
        if not (np.array_equal(ours.offsets, theirs.offsets) and np.array_equal(ours.indices, theirs.indices)):
            raise DataError(
                f"the members of a blend must be fitted on the same interactions: {type(first).__name__} has "
                f"{ours.n_interactions:,}, {type(member).__name__} {theirs.n_interactions:,}"
                f"{' others' if ours.n_interactions == theirs.n_interactions else ''}. Fit all on the same data."
            )


@interrupts_end_task()
def fitted_member(
    member: Recommender, train: Interactions, valid: Interactions | None, progress: bool | None
) -> Recommender:
    """The member, fitted; one that does not use weights is given the data without them."""
    if train.weights is not None and not member.uses_weights:
        train, valid = train.without_weights(), None if valid is None else valid.without_weights()
    return member.fit(train, valid, progress)
