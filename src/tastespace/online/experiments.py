"""Arms of an experiment, and in which of them somebody is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tastespace.errors import ParameterError

_EXACT = 1e-6


@dataclass(frozen=True)
class Arm:
    """A model, and the share of people who get its lists."""

    name: str
    path: Path
    share: float
    """Above 0; the shares of an experiment have the sum 1."""


def arms_of(given: Sequence[str]) -> tuple[Arm, ...]:
    """Return the arms of texts such as ``A.model=50``, whose shares add up to 100, or to 1.

    >>> [(arm.name, arm.share) for arm in arms_of(["new/B.model=10", "A.model=90"])]
    [('B.model', 0.1), ('A.model', 0.9)]
    >>> arms_of(["A.model=50", "B.model=40"])
    Traceback (most recent call last):
    tastespace.errors.ParameterError: the shares of --experiment add up to 90: expected 100, or 1. Change one of them.
    """
    found = []
    for text in given:
        path, is_given, number = text.rpartition("=")
        try:
            share = float(number) if is_given and path else -1.0
        except ValueError:
            share = -1.0
        if not 0 < share <= 100:
            raise ParameterError(
                f"--experiment {text}: expected a model and a share above 0, such as A.model=50 for half of the people."
            )
        found.append((Path(path), share))
    if len(found) == 1:
        raise ParameterError("--experiment is given once: expected two arms or more, such as --experiment B.model=50.")
    total = sum(share for _, share in found)
    whole = next((one for one in (100.0, 1.0) if abs(total - one) <= _EXACT * one), None)
    if found and whole is None:
        raise ParameterError(f"the shares of --experiment add up to {total:g}: expected 100, or 1. Change one of them.")
    names = [path.name for path, _ in found]
    if len(set(names)) < len(names):
        names = [str(path) for path, _ in found]
    if len(set(names)) < len(names):
        raise ParameterError("--experiment names the same model twice: expected different ones.")
    return tuple(Arm(name, path, share / (whole or 1)) for name, (path, share) in zip(names, found, strict=True))


def assigned(unit: str, shares: Sequence[float], salt: str) -> int:
    """Return the place of the arm of a user or session: always the same one, as if drawn with these probabilities.

    Another salt draws anew, so that experiments one after the other do not share their groups.

    >>> places = [assigned(str(user), [0.2, 0.8], "spring") for user in range(10_000)]
    >>> round(sum(places) / 10_000, 2), places[:5] == [assigned(str(user), [0.2, 0.8], "spring") for user in range(5)]
    (0.8, True)
    """
    digest = hashlib.blake2b(unit.encode("utf-8", "surrogatepass"), digest_size=8, salt=_salt(salt)).digest()
    point, end = int.from_bytes(digest, "big") / 2**64, 0.0
    for place, share in enumerate(shares):
        end += share
        if point < end:
            return place
    return len(shares) - 1


def _salt(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
