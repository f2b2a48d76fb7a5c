"""Types of the compiled kernels. Arrays must be C-contiguous and of exactly the type given."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

SIMD: str
"""The twin in use: ``"generic"``, ``"v3"`` or ``"v4"``."""

SOURCES: str
"""Hash of the sources that the kernels were built from."""

def best_twin() -> str: ...
def factorize(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """``(ids, codes)``: the distinct values in ascending order and each value's place among them."""

def build_csr(
    rows: NDArray[np.int32], columns: NDArray[np.int32], n_rows: int, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """``(offsets, columns)`` of the distinct pairs, columns ascending within a row."""

def build_csr_with_sources(
    rows: NDArray[np.int32], columns: NDArray[np.int32], n_rows: int, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """As `build_csr`, with ``(sources, starts)``: cell ``c`` was built from the input positions
    ``sources[starts[c]:starts[c + 1]]``, ascending.
    """

def rank_with_vectors(
    user_vectors: NDArray[np.float32],
    vector_terms: NDArray[np.float32],
    vector_offsets: NDArray[np.int64],
    item_vectors: NDArray[np.float32],
    item_terms: NDArray[np.float32],
    scale: float,
    users: NDArray[np.int32],
    excluded_offsets: NDArray[np.int64],
    excluded_items: NDArray[np.int32],
    test_offsets: NDArray[np.int64],
    test_items: NDArray[np.int32],
    k: int,
    threads: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """``(places, top, nan_user)`` for a block of users.

    ``places`` has a row ``(rank, negatives above, negatives tied)`` for every test item of every user in turn,
    ``top`` a row of k item indices per user (-1 where there are fewer candidates). ``nan_user`` is the position
    in ``users`` of the first user with a NaN score, or -1. Scores are the largest, over the user's vectors, of
    ``scale * <x, v> + vector_term + item_term``.
    """

def rank_with_scores(
    scores: NDArray[np.float32],
    users: NDArray[np.int32],
    excluded_offsets: NDArray[np.int64],
    excluded_items: NDArray[np.int32],
    test_offsets: NDArray[np.int64],
    test_items: NDArray[np.int32],
    k: int,
    threads: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """As `rank_with_vectors`, from a block of scores of shape ``(len(users), n_items)``."""

def pair_scores(
    user_vectors: NDArray[np.float32],
    offsets: NDArray[np.int64],
    item_vectors: NDArray[np.float32],
    by_distance: bool,
    item_bias: NDArray[np.float32],
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    threads: int,
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """``(scores, interests)`` of single pairs, both of shape ``(n,)``: minus the smallest squared distance, or the
    largest inner product plus the item's bias (an empty array: none), and the first vector that reaches it.
    """

def list_spread(
    top: NDArray[np.int32], vectors: NDArray[np.float32], cuts: NDArray[np.int64], threads: int
) -> NDArray[np.float64]:
    """Sum of squared distances over ordered pairs of each list's first ``cut`` items, shape ``(n, n_cuts)``."""

def train_range(
    arrays: dict[str, NDArray[Any]],
    settings: dict[str, Any],
    seed: int,
    epoch: int,
    first: int,
    last: int,
    threads: int,
) -> tuple[float, float, int, int, int]:
    """Learn from the positives number ``first ... last - 1`` of this epoch's order, changing the arrays in place.

    Returns the summed hinge loss, the summed DCRS penalty, and the numbers of positives visited and skipped and of
    pulls and pushes. ``first`` must be a multiple of the block for the same bits as one call.
    """

def learn_newcomers(
    arrays: dict[str, NDArray[Any]],
    settings: dict[str, Any],
    seed: int,
    epochs: int,
    average: int,
    mean_users: NDArray[np.float32],
    threads: int,
) -> None:
    """Learn the vectors of new users against items that stand still, each user alone, changing the arrays in place.

    ``mean_users`` receives the running mean over ``average`` epochs, which is what a model would use.
    """

def probe(
    arrays: dict[str, NDArray[Any]],
    settings: dict[str, Any],
    seed: int,
    epoch: int,
    positive: int,
    user_gradient: NDArray[np.float32],
    item_gradient: NDArray[np.float32],
) -> tuple[float, float, float, NDArray[np.int32]]:
    """``(hinge, dcrs, slope in gamma, candidates)`` of one positive; the gradients are written into the arrays."""

def bpr_range(
    arrays: dict[str, NDArray[Any]],
    settings: dict[str, Any],
    seed: int,
    epoch: int,
    first: int,
    last: int,
    threads: int,
) -> tuple[float, int, int]:
    """As `train_range`, for Bayesian personalized ranking.

    Returns the summed loss without the regularization, the number of pairs that were in the right order when visited,
    and the number of positives visited.
    """

def bpr_newcomers(
    arrays: dict[str, NDArray[Any]],
    settings: dict[str, Any],
    seed: int,
    epochs: int,
    average: int,
    mean_users: NDArray[np.float32],
    threads: int,
) -> None:
    """As `learn_newcomers`, for Bayesian personalized ranking."""

def draw_negatives(
    offsets: NDArray[np.int64],
    positives: NDArray[np.int32],
    n_items: int,
    alias_keep: NDArray[np.float32],
    alias_other: NDArray[np.int32],
    users: NDArray[np.int32],
    n: int,
    seed: int,
    epoch: int,
    first: int,
    threads: int,
) -> NDArray[np.int32]:
    """N distinct negatives per user, -1 where there are fewer. Shape ``(len(users), n)``."""
