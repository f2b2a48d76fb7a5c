"""The kernel of mixed lists: against plain Python, from vectors and from scores."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tastespace import Interactions, _native
from tastespace._util.csr import no_items
from tastespace.errors import DataError, ParameterError
from tastespace.models import Recommender, VectorSpace
from tastespace.ranking.blocks import InterestRanker
from tastespace.ranking.source import ScoreSource


class Toy(Recommender):
    """A model of given vectors that ranks by them, or by a given table."""

    def __init__(self, space, table=None):
        self.space = space
        self.table = table

    def _fit(self, train, valid, progress):
        pass

    def vectors(self):
        return self.space if self.table is None else None

    def interest_space(self):
        return self.space

    def score_block(self, users):
        return super().score_block(users) if self.table is None else self.table[users]


def on_a_grid(draw_from, n_users, n_items, n_vectors):
    """Whole numbers: all distances are exact, and ties are frequent."""
    rng = np.random.default_rng(draw_from)
    offsets = np.concatenate([[0], np.cumsum(n_vectors)]).astype(np.int64)
    users = rng.integers(-4, 5, (offsets[-1], 2)).astype(np.float32)
    return VectorSpace(users, offsets, rng.integers(-4, 5, (n_items, 2)).astype(np.float32))


def places_by_hand(weights, queues, k):
    """Sainte-Lague with fractions: items and interests."""
    queues, given_places, found = [list(queue) for queue in queues], [0] * len(weights), []
    while len(found) < k and any(queues):
        x = max(
            (x for x, queue in enumerate(queues) if queue),
            key=lambda x: (Fraction(weights[x]) / (2 * given_places[x] + 1), weights[x], -x),
        )
        found.append((queues[x].pop(0), x))
        given_places[x] += 1
    return found


@given(st.integers(0, 10_000), st.integers(1, 12), st.booleans(), st.booleans())
def test_lists_are_those_of_the_rule(seed, k, by_table, some):
    rng = np.random.default_rng(seed)
    n_users, n_items = 5, 23
    space = on_a_grid(seed, n_users, n_items, rng.integers(1, 5, n_users))
    table = rng.integers(-6, 6, (n_users, n_items)).astype(np.float32) if by_table else None
    taken = rng.random((n_users, n_items)) < 0.3
    taken[:, 0] = True
    data = Interactions.from_scipy(sp.csr_array(taken.astype(int)))
    model = Toy(space, table).fit(data)
    candidates = np.flatnonzero(rng.random(n_items) < 0.6).astype(np.int32) if some else None
    candidates = None if candidates is not None and not len(candidates) else candidates
    weights = rng.integers(0, 6, space.user_offsets[-1]).astype(np.float64)
    users = np.array([4, 0, 2], dtype=np.int32)

    def of(part):
        return np.concatenate([weights[space.user_offsets[u] : space.user_offsets[u + 1]] for u in part])

    lists = []
    for threads in (1, 2):
        seen = data.offsets, data.indices
        ranker = InterestRanker(ScoreSource.of(model), space, k, seen, threads=threads, candidates=candidates)
        ((block, interests),) = ranker.mixed_blocks(users, of)
        lists.append((block.top.tolist(), interests.tolist()))
    assert lists[0] == lists[1]
    for at, user in enumerate(users):
        own = space.user_vectors[space.user_offsets[user] : space.user_offsets[user + 1]]
        by_vector = -((own[:, None, :] - space.item_vectors) ** 2).sum(axis=2)
        scores = by_vector.max(axis=0) if table is None else table[user]
        allowed = [i for i in (range(n_items) if candidates is None else candidates) if not taken[user, i]]
        queues = [
            sorted((i for i in allowed if by_vector[:, i].argmax() == x), key=lambda i: (-scores[i], i))
            for x in range(len(own))
        ]
        expected = places_by_hand(of([user]).tolist(), queues, k)
        expected += [(-1, -1)] * (k - len(expected))
        assert list(zip(block.top[at].tolist(), interests[at].tolist(), strict=True)) == expected


def test_models_without_vectors_have_no_interests(town):
    from tastespace import EASE

    with pytest.raises(ParameterError, match="EASE has no vectors, so users have no interests"):
        InterestRanker(ScoreSource.of(EASE(threads=1).fit(town.interactions)), None, 3, no_items(300), threads=1)


def test_vectors_that_do_not_fit_the_data_are_refused(town):
    space = on_a_grid(0, 3, 200, [1, 1, 1])
    for table in (None, np.zeros((300, 200), dtype=np.float32)):
        with pytest.raises(DataError, match=r"Toy.vectors gave 3 users .* expected 300 users"):
            InterestRanker(ScoreSource.of(Toy(space, table).fit(town.interactions)), space, 3, no_items(300), threads=1)


def test_the_kernel_needs_a_weight_for_each_vector():
    space = on_a_grid(0, 2, 5, [2, 1])
    with pytest.raises(ValueError, match="weights: expected 3 values"):
        _native.mix_with_vectors(
            space.for_scoring(),
            np.array([0, 1], dtype=np.int32),
            np.ones(2),
            _native.ItemLists(*no_items(2)),
            _native.MixSettings(diversity=1.0, depth=10, k=3),
            1,
        )
