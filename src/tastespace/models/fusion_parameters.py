"""Parameters of the models with fusion networks, and what a batch of theirs holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tastespace.checks import require_number, require_whole
from tastespace.data.feature_columns import Kind
from tastespace.errors import ParameterError
from tastespace.models.extractors import find_extractor
from tastespace.models.torch_base import Batch


@dataclass(kw_only=True, eq=False, repr=False)
class FusionParameters:
    """Everything that can be set besides what all neural models have."""

    dim: int = 100
    batch_size: int = 1024
    n_negatives: int = 10
    """Negatives drawn for each positive: U of UniS and PopS, S of 2stS and HarS, J_2 of (N)DiHarS."""
    pool: int = 1000
    """Items from which the negatives of one batch are drawn; the networks run once for each of them."""
    training: Literal["joint", "pretrained"] = "joint"
    """Whether preference inputs are learned together with the networks (JT) or are the vectors of a model that was
    trained before and stands still (PT)."""
    latent: dict[str, Any] | None = None
    """Parameters of the model that PT trains first, where `fit` is not given one."""
    layers: tuple[int, ...] = (800, 400, 200)
    """Units of the hidden layers of every network."""
    known: Literal["fused", "anchored"] = "fused"
    """Where those stand whose preference is known: at what the network makes of preference and content (the paper), or
    at their preference, so that networks place strangers only: half the work, and nothing is lost for the known. In
    joint training the anchored learn from every pair as it is known, besides from the pairs with dropout, unless
    `both_hidden` says otherwise."""
    both_hidden: bool = True
    """Whether both sides of a pair may be hidden at once, as in the paper. Without, for the anchored alone, every pair
    is shown with users hidden at times, and once more with items, as strangers are met among the known; a side without
    content is never hidden then."""
    dropout: float = 0.5
    """Share of the users and of the items of a batch whose preference input is hidden."""
    network_decay: float = 0.0
    """L2 penalty on the weights of the fusion networks alone; `weight_decay` pulls at learned preferences and at
    extractors, too."""
    user_columns: dict[str, Kind] | None = None
    """Columns of user content and their kinds; None: all, by type. See `tastespace.data.features`."""
    item_columns: dict[str, Kind] | None = None
    """The same for items."""
    min_count: int = 1
    """Users or items that must have a category, tag or word for it to become a feature."""
    max_vocabulary: int = 20_000
    """Most features of one column."""
    user_extractor: str = "identity"
    """Phi_u; see `tastespace.models.extractors`."""
    item_extractor: str = "identity"
    """Phi_i."""

    def _check_fusion(self) -> None:
        """Every parameter that makes no sense."""
        for name in ("pool", "min_count", "max_vocabulary"):
            require_whole(name, getattr(self, name))
        if self.training not in ("joint", "pretrained"):
            raise ParameterError(f"training={self.training!r}: expected 'joint' or 'pretrained'.")
        if not isinstance(self.layers, (tuple, list)) or not self.layers:
            raise ParameterError(f"layers={self.layers!r}: expected the units of each hidden layer, one or more.")
        for width in self.layers:
            require_whole("layers", width)
        share = isinstance(self.dropout, (int, float)) and not isinstance(self.dropout, bool)
        if not share or not 0 <= self.dropout < 1:
            raise ParameterError(f"dropout={self.dropout!r}: expected a share in [0, 1).")
        require_number("network_decay", self.network_decay, least=0.0)
        if self.known not in ("fused", "anchored"):
            raise ParameterError(f"known={self.known!r}: expected 'fused' or 'anchored'.")
        if not isinstance(self.both_hidden, bool):
            raise ParameterError(f"both_hidden={self.both_hidden!r}: expected True or False.")
        if not self.both_hidden and self.known != "anchored":
            raise ParameterError("both_hidden=False shows strangers among the known: it needs known='anchored'.")
        if not isinstance(self.latent, (Mapping, type(None))):
            raise ParameterError(f"latent={self.latent!r}: expected a dict of parameters, or None.")
        for name in (self.user_extractor, self.item_extractor):
            find_extractor(name)


@dataclass(frozen=True)
class Places:
    """Users and items of a batch, each once, and where the pairs stand among them."""

    people: NDArray[np.int64]
    """Users of the batch, ascending."""
    things: NDArray[np.int64]
    """Items of the batch, ascending."""
    users: NDArray[np.int64]
    """Place of each positive's user in ``people``, shape ``(n,)``."""
    items: NDArray[np.int64]
    """Place of each positive's item in ``things``, shape ``(n,)``."""
    negatives: NDArray[np.int64]
    """Places of its negatives in ``things``, shape ``(n, n_negatives)``."""

    @classmethod
    def of(cls, users: NDArray[Any], items: NDArray[Any], negatives: NDArray[Any]) -> Places:
        """From rows of users and items."""
        people, user_at = np.unique(users, return_inverse=True)
        things, at = np.unique(np.concatenate([items, negatives.ravel()]), return_inverse=True)
        n = len(items)
        whole = people.astype(np.int64), things.astype(np.int64)
        return cls(*whole, user_at, at[:n], at[n:].reshape(n, -1))


@dataclass(frozen=True)
class PairBatch(Batch):
    """Positives whose users, items and negatives are places among the batch's own ``people`` and ``things``."""

    people: NDArray[np.int64]
    """Users of the batch, each once."""
    things: NDArray[np.int64]
    """Items of the batch, each once."""
    usable: Any
    """Which negatives are none of the user's own, shape ``(n, n_negatives)``."""
    positives: Any
    """Numbers of the positives in the training data, shape ``(n,)``."""
