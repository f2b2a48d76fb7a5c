"""Changes of profiles: what a user mutes and boosts for good, checked against the user's interests."""

from __future__ import annotations

from typing import Any

from tastespace.errors import DataError
from tastespace.models.base import Recommender
from tastespace.models.profiles import Profile
from tastespace.recommend.interest_choices import checked_boost, checked_mute
from tastespace.recommend.request import require_history, row_of
from tastespace.recommend.scoring import require_interest_space


def mute(model: Recommender, user: Any, interests: Any) -> None:
    """`Recommender.mute`."""
    key, n_interests, profile = _of(model, user)
    muted = profile.muted | checked_mute(interests, n_interests, f"user {key!r}")
    if len(muted) >= n_interests:
        raise DataError(
            f"user {key!r} has {n_interests} interests and would have muted all of them: nothing would be left to "
            f"recommend. Muted before are {sorted(profile.muted)}; model.unmute takes that back."
        )
    model.profiles.put(key, Profile(muted, profile.boosts))


def unmute(model: Recommender, user: Any, interests: Any) -> None:
    """`Recommender.unmute`."""
    key, n_interests, profile = _of(model, user)
    taken_back = checked_mute(interests, n_interests + 1, f"user {key!r}")  # here all of them may be named
    checked_mute([x for x in taken_back if x >= n_interests], n_interests, f"user {key!r}")
    model.profiles.put(key, Profile(profile.muted - taken_back, profile.boosts))


def boost(model: Recommender, user: Any, factors: Any) -> None:
    """`Recommender.boost`."""
    key, n_interests, profile = _of(model, user)
    boosts = {**profile.boosts, **checked_boost(factors, n_interests, f"user {key!r}")}
    model.profiles.put(key, Profile(profile.muted, {x: boosts[x] for x in sorted(boosts) if boosts[x] != 1}))


def clear(model: Recommender, user: Any) -> None:
    """`Recommender.clear_profile`."""
    model.require_fitted()
    model.profiles.put(model.train_.users[row_of(model.train_.users, user)], Profile())


def _of(model: Recommender, user: Any) -> tuple[Any, int, Profile]:
    """The user's id as the model has it, the number of interests, and the profile so far."""
    offsets = require_interest_space(model, "interests to mute or boost").user_offsets
    row = row_of(model.train_.users, user)
    require_history(model, row, "interests to mute or boost")
    key = model.train_.users[row]
    return key, int(offsets[row + 1] - offsets[row]), model.profiles.get(key, Profile())
