"""Which mix of interests a request asks for, and whether the model has it."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

from tastespace.data.categories import category_column, require_category_column
from tastespace.errors import ParameterError, nearest
from tastespace.recommend.interest_choices import is_given
from tastespace.recommend.request import Request
from tastespace.recommend.scoring import ScoringIndex

MIXES = ("nearest", "scaled", "proportional", "calibrated")
BY_INTEREST = "interest"
"""The value of ``column`` that calibrates against the mix of interests."""


@dataclass(frozen=True)
class Mix:
    """How the interests of a user share a list; see `Recommender.recommend`."""

    name: str = "nearest"
    diversity: float = 0.0
    """Strength in [0, 1]; 0 is the plain list."""
    column: str | None = None
    """For ``"calibrated"``: the item attribute with categories (None: found by itself), or `BY_INTEREST`."""


PLAIN = Mix()


def mixes_of(index: ScoringIndex) -> list[str]:
    """The mixes that a model has.

    >>> from tastespace import CML, synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> mixes_of(ScoringIndex(CML(dim=8, epochs=2).fit(town)))
    ['nearest', 'scaled', 'proportional', 'calibrated']
    """
    found = ["nearest"]
    if index.space is not None and index.space.metric == "l2":
        found.append("scaled")
    if index.interest_space is not None:
        found.append("proportional")
    if index.interest_space is not None or _has_categories(index):
        found.append("calibrated")
    return found


def resolve_mix(index: ScoringIndex, request: Request) -> Mix:
    """The mix of a request, with what it leaves open filled in; what the model does not have is an error."""
    mix, diversity, column, boosted = request.mix, request.diversity, request.column, is_given(request.boost)
    if mix is None and diversity is None and column is None and not boosted:
        return PLAIN
    if mix is not None and mix not in MIXES:
        raise ParameterError(f"mix={mix!r}: expected one of {', '.join(MIXES)}.{nearest(mix, MIXES)}")
    check_diversity(diversity)
    if mix is None and column is None and not boosted and diversity == 0:
        return PLAIN
    if mix is None:
        mix = _default(index, column, boosted)
    if mix == "nearest" and diversity:
        raise ParameterError(
            f"mix='nearest' is the plain list, which has no diversity={diversity!r}. Choose another mix "
            f"({_listed(index, without='nearest')}), or leave mix out."
        )
    if column is not None and mix != "calibrated":
        raise ParameterError(f"column={column!r} belongs to mix='calibrated', given mix={mix!r}.")
    by_weight = mix == "proportional" or (mix == "calibrated" and column == BY_INTEREST)
    if boosted and not by_weight:
        raise ParameterError(
            f"boost= multiplies the weights of interests, which mix={mix!r} does not use. Use mix='proportional', or "
            "mix='calibrated' with column='interest'."
        )
    _require_supported(index, mix, column)
    strength = 1.0 if diversity is None else float(diversity)
    return PLAIN if mix == "nearest" or strength == 0 else Mix(mix, strength, column)


def boosted_mix(mix: Mix, request: Request) -> Mix:
    """The mix for users whose profile boosts an interest: proportional where the request asks for nothing else."""
    free = request.mix is None and request.diversity is None and request.column is None
    return Mix("proportional", 1.0) if free and mix == PLAIN else mix


def check_diversity(diversity: Any) -> None:
    """Raise unless this is None or a number from 0 to 1."""
    if diversity is None:
        return
    if not isinstance(diversity, Real) or isinstance(diversity, bool) or not 0 <= float(diversity) <= 1:
        raise ParameterError(
            f"diversity={diversity!r}: expected a number from 0 (the plain list) to 1 (the mix in its pure form)."
        )


def _default(index: ScoringIndex, column: str | None, boosted: bool) -> str:
    if boosted:
        return "proportional"
    if column is not None:
        return "calibrated"
    if index.model.has_interests:
        return "proportional"
    if _has_categories(index):
        return "calibrated"
    raise ParameterError(
        f"diversity= needs several interests per user or categories of items: {type(index.model).__name__} does not "
        "have the former, and no item attribute looks like categories. Use a model with interests, such as DPCML, or "
        "build the Interactions with item_attributes=."
    )


def _require_supported(index: ScoringIndex, mix: str, column: str | None) -> None:
    name = type(index.model).__name__
    if mix == "scaled" and (index.space is None or index.space.metric != "l2"):
        by = "inner products" if index.space is not None else "other scores than distances"
        raise ParameterError(
            f"mix='scaled' divides squared distances, and {name} ranks by {by}. Its mixes are {_listed(index)}."
        )
    if index.interest_space is None and (mix == "proportional" or column == BY_INTEREST):
        how = f"mix={mix!r}" + (f" with column={column!r}" if column else "")
        raise ParameterError(
            f"{how} needs interests, and {name} has no vectors, so its users have none. Its mixes are {_listed(index)}."
        )
    if mix != "calibrated" or column == BY_INTEREST:
        return
    attributes = index.model.popularity_source.item_attributes
    if column is None and not _has_categories(index):
        instead = (
            "Use mix='proportional' or column='interest', which need none, or build the Interactions with "
            "item_attributes=."
            if index.interest_space is not None
            else "Build the Interactions with item_attributes=."
        )
        raise ParameterError(f"mix='calibrated' needs categories of items, and there are none. {instead}")
    require_category_column(attributes, column, purpose="mix='calibrated'", argument="column")


def _has_categories(index: ScoringIndex) -> bool:
    return category_column(index.model.popularity_source.item_attributes) is not None


def _listed(index: ScoringIndex, without: str = "") -> str:
    return ", ".join(one for one in mixes_of(index) if one != without) or "none"
