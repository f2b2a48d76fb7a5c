"""Protocols: which users count, what is ranked and what the divisors are."""

from __future__ import annotations

from dataclasses import dataclass

from tastespace.errors import Argument, ParameterError, nearest


@dataclass(frozen=True)
class Protocol:
    """The choices in which evaluations differ."""

    name: str
    cutoffs: tuple[int, ...]
    """The k that are used unless others are given."""
    exclude_validation: bool
    """True if validation items leave the ranking too; training items always do."""
    needs_k_test_items: bool
    """True if metrics at k are averaged only over users with at least k test items."""
    min_test_items: int
    """Test items a user needs to count for metrics without a k (MAP, MRR, AUC, ...)."""
    ideal_uses_all_k: bool
    """True if the ideal DCG assumes k hits even for users with fewer test items."""

    def required_test_items(self, k: int | None) -> int:
        """Test items that a user needs to count for a metric at ``k``, or for one without a k (None)."""
        if k is None:
            return self.min_test_items
        return k if self.needs_k_test_items else 1


PAPER = Protocol(
    name="paper",
    cutoffs=(3, 5),
    exclude_validation=False,
    needs_k_test_items=True,
    min_test_items=3,
    ideal_uses_all_k=True,
)
"""The paper's published evaluation: only training items leave the ranking (validation items stay and
compete); P, R, NDCG and HitRate at k average over users with at least k test items, so @3 and @5 cover different
users; MAP, MRR and AUC over users with at least 3; the ideal DCG has k hits."""

FULL = Protocol(
    name="full",
    cutoffs=(5, 10),
    exclude_validation=True,
    needs_k_test_items=False,
    min_test_items=1,
    ideal_uses_all_k=False,
)
"""The default: every user with a test item counts, training and validation items leave the ranking, and
P, R, NDCG, MAP and MRR are trec_eval's."""

_PROTOCOLS = {protocol.name: protocol for protocol in (PAPER, FULL)}


def find_protocol(protocol: str | Protocol) -> Protocol:
    """A protocol by name; one of your own passes through.

    >>> find_protocol("paper").required_test_items(5), find_protocol("full").required_test_items(5)
    (5, 1)
    """
    if isinstance(protocol, Protocol):
        return protocol
    if protocol not in _PROTOCOLS:
        raise ParameterError(
            Argument("protocol", protocol),
            f": expected {' or '.join(map(repr, _PROTOCOLS))}.{nearest(protocol, _PROTOCOLS)}",
        )
    return _PROTOCOLS[protocol]
