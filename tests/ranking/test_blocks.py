"""The kernels that rank, against a plain sort."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tastespace import Interactions, _native
from tastespace._util.csr import no_items
from tastespace.errors import DataError
from tastespace.models import Recommender, VectorSpace
from tastespace.ranking.blocks import BlockRanker
from tastespace.ranking.source import ScoreSource


def lists(rows):
    offsets = np.concatenate([[0], np.cumsum([len(r) for r in rows])]).astype(np.int64)
    return offsets, np.concatenate([np.asarray(r, np.int32) for r in rows] or [np.empty(0, np.int32)]).astype(np.int32)


def brute(scores, excluded, test, k):
    """Places and top list by sorting: larger score first, then smaller index."""
    candidates = [i for i in range(len(scores)) if i not in set(excluded)]
    order = sorted(candidates, key=lambda i: (-scores[i], i))
    negatives = [i for i in candidates if i not in set(test)]
    places = [
        (
            order.index(t) + 1,
            sum(scores[n] > scores[t] for n in negatives),
            sum(scores[n] == scores[t] for n in negatives),
        )
        for t in test
    ]
    return places, (order + [-1] * k)[:k]


@given(st.data(), st.integers(1, 90), st.integers(0, 12), st.integers(1, 4), st.booleans())
def test_ranks_and_top_lists_agree_with_a_sort(draw, n_items, k, n_users, ties):
    rng = np.random.default_rng(draw.draw(st.integers(0, 2**32)))
    k = min(k, n_items)
    scores = rng.integers(-3, 3, (n_users, n_items)) if ties else rng.normal(size=(n_users, n_items))
    scores = scores.astype(np.float32)
    if ties:
        scores[rng.random(scores.shape) < 0.1] = -np.inf  # the worst score, but still a candidate
    shuffled = [rng.permutation(n_items) for _ in range(n_users)]
    excluded = [np.sort(s[: n_items // 4]) for s in shuffled]
    test = [np.sort(s[n_items // 4 : n_items // 2]) for s in shuffled]
    users = np.arange(n_users, dtype=np.int32)
    for threads in (1, 2, 3, 8):
        places, top, nan = _native.rank_with_scores(
            scores, users, _native.ItemLists(*lists(excluded)), _native.ItemLists(*lists(test)), k=k, threads=threads
        )
        assert nan == -1
        at = 0
        for u in users:
            expected_places, expected_top = brute(scores[u].tolist(), excluded[u], test[u], k)
            assert places[at : at + len(test[u])].tolist() == [list(p) for p in expected_places]
            assert top[u].tolist() == expected_top
            at += len(test[u])


class Vectors(Recommender):
    """A model with given vectors."""

    def __init__(self, space):
        self.space = space

    def _fit(self, train, valid, progress):
        pass

    def vectors(self):
        return self.space


@pytest.mark.parametrize("metric", ["l2", "dot"])
@pytest.mark.parametrize("dim", [1, 7, 64, 100])
def test_the_direct_path_for_vectors_agrees_with_numpy(metric, dim):
    rng = np.random.default_rng(dim)
    n_users, n_items = 37, 211  # neither fills whole tiles
    counts = rng.integers(1, 7, n_users)
    space = VectorSpace(
        rng.normal(size=(counts.sum(), dim)).astype(np.float32),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        rng.normal(size=(n_items, dim)).astype(np.float32),
        metric,
        rng.normal(size=n_items).astype(np.float32) if metric == "dot" else None,
    )
    data = Interactions.from_scipy(sp.random_array((n_users, n_items), density=0.1, rng=rng))
    model = Vectors(space).fit(data)
    ranker = BlockRanker(ScoreSource.of(model), 10, (data.offsets, data.indices), threads=2)
    (block,) = ranker.blocks(np.arange(n_users, dtype=np.int32))
    for user in range(n_users):
        mine = space.user_vectors[space.user_offsets[user] : space.user_offsets[user + 1]].astype(np.float64)
        if metric == "l2":
            scores = -((mine[:, None] - space.item_vectors[None]) ** 2).sum(axis=2)
        else:
            scores = mine @ space.item_vectors.T + space.item_bias
        best = scores.max(axis=0)
        row = best.copy()
        row[data.indices[data.offsets[user] : data.offsets[user + 1]]] = -np.inf
        # Single precision: neighbors in the list may swap where they differ by rounding only.
        assert np.allclose(row[block.top[user]], np.sort(row)[::-1][:10], rtol=1e-5, atol=1e-5)
        assert len(set(block.top[user].tolist())) == 10
        found, which = space.pair_scores(np.full(10, user), block.top[user])
        assert np.allclose(found, best[block.top[user]], atol=1e-4)
        assert which.tolist() == scores[:, block.top[user]].argmax(axis=0).tolist()
        assert np.allclose(space.scores(np.array([user]))[0], best, atol=1e-3)


class Scores(Recommender):
    """A model with given scores."""

    def __init__(self, scores):
        self.scores = scores

    def _fit(self, train, valid, progress):
        pass

    def score_block(self, users):
        return self.scores[users]


@given(st.data(), st.integers(2, 40), st.integers(1, 12), st.sampled_from(["l2", "dot", "scores"]))
def test_candidates_are_ranked_as_if_nothing_else_existed(draw, n_items, k, kind):
    rng = np.random.default_rng(draw.draw(st.integers(0, 2**32)))
    n_users = 5
    counts = rng.integers(1, 4, n_users)
    user_vectors = [rng.integers(-4, 5, (count, 3)) for count in counts]  # whole numbers: exact, and with ties
    items, bias = rng.integers(-4, 5, (n_items, 3)), rng.integers(-4, 5, n_items)
    if kind == "l2":
        scores = np.array([-((mine[:, None] - items[None]) ** 2).sum(axis=2).min(axis=0) for mine in user_vectors])
    else:
        scores = np.array([(mine @ items.T).max(axis=0) + bias for mine in user_vectors])
    model = Scores(scores.astype(np.float32))
    if kind != "scores":
        flat = np.concatenate(user_vectors).astype(np.float32)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        model = Vectors(
            VectorSpace(
                flat, offsets, items.astype(np.float32), kind, bias.astype(np.float32) if kind == "dot" else None
            )
        )
    excluded = [np.flatnonzero(rng.random(n_items) < 0.3).tolist() for _ in range(n_users)]
    candidates = np.sort(rng.permutation(n_items)[: rng.integers(1, n_items + 1)]).astype(np.int32)
    model.fit(Interactions.from_scipy(sp.csr_array(np.eye(n_users, n_items, dtype=int))))
    users = np.array([3, 0, 4, 1], dtype=np.int32)
    for threads in (1, 2, 3, 8):
        ranker = BlockRanker(ScoreSource.of(model), k, lists(excluded), threads=threads, candidates=candidates)
        (block,) = ranker.blocks(users)
        for user, top in zip(users, block.top, strict=True):
            others = [item for item in range(n_items) if item not in candidates]
            assert top.tolist() == brute(scores[user].tolist(), [*excluded[user], *others], [], k)[1]
        owner, place = np.nonzero(block.top >= 0)
        found, _ = block.scores_of(owner, block.top[owner, place], threads)
        assert found.tolist() == scores[users[owner], block.top[owner, place]].tolist()


def test_candidates_of_more_people_than_a_block_holds():
    rng = np.random.default_rng(6)
    n_users, candidates = 4_100, np.array([1, 4, 5, 8], dtype=np.int32)
    scores = rng.normal(size=(n_users, 10)).astype(np.float32)
    source = ScoreSource(lambda users: scores[users], n_users, 10, "table")
    ranker = BlockRanker(source, 3, no_items(n_users), threads=1, candidates=candidates)
    blocks = list(ranker.blocks(np.arange(n_users, dtype=np.int32)))
    assert len(blocks) == 2
    top = np.concatenate([block.top for block in blocks])
    assert np.array_equal(top, candidates[np.argsort(-scores[:, candidates], axis=1)[:, :3]])


def test_spread_of_lists_against_pairs():
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(50, 9)).astype(np.float32)
    top = np.array([rng.permutation(50)[:8] for _ in range(6)], dtype=np.int32)
    top[4, 5:] = -1  # a short list
    found = _native.list_pair_distances(top, vectors, np.array([2, 5, 8], np.int64), 2)
    for row, items in enumerate(top):
        for column, cut in enumerate((2, 5, 8)):
            mine = vectors[[i for i in items[:cut] if i >= 0]].astype(np.float64)
            assert found[row, column] == pytest.approx(((mine[:, None] - mine[None]) ** 2).sum())


def test_nan_scores_name_the_user(town):
    class Broken(Recommender):
        def _fit(self, train, valid, progress):
            pass

        def score_block(self, users):
            scores = np.zeros((len(users), 200), np.float32)
            scores[np.asarray(users) == 42, 3] = np.nan
            return scores

    class Misshapen(Broken):
        def score_block(self, users):
            return np.zeros((len(users), 7), np.float32)

    with pytest.raises(DataError, match="Broken gave a NaN score for user 42"):
        Broken().fit(town.interactions).recommend()
    with pytest.raises(DataError, match=r"gave shape \(300, 7\), expected \(300, 200\)"):
        Misshapen().fit(town.interactions).recommend()


def test_vectors_that_diverged_are_refused():
    with pytest.raises(DataError, match="item_vectors: 1 rows hold NaN or infinite values, the first is row 1"):
        VectorSpace(np.ones((2, 2), np.float32), np.arange(3), np.array([[1, 1], [np.nan, 1]], np.float32))


@pytest.mark.parametrize("variant", ["generic", "v3", "v4"])
def test_every_simd_variant_that_runs_here_passes(variant):
    order = ("generic", "v3", "v4")
    environment = {**os.environ, "TASTESPACE_SIMD": variant}
    if variant not in _native.VARIANTS:
        runs_here = order.index(variant) <= order.index(_native.best_simd_variant())
        assert not (runs_here and os.environ.get("TASTESPACE_REQUIRE_EXTRAS")), "`make test` builds all variants"
        done = subprocess.run(
            [sys.executable, "-c", "import tastespace"], env=environment, capture_output=True, text=True
        )
        assert ("built was" if runs_here else "this processor runs") in done.stderr
        return
    chosen = (
        "test_the_direct_path or test_ranks_and_top or test_candidates or test_spread or test_encode_ids or test_pairs "
        "or test_gradient_for_every_width or test_the_running_mean or another_type"
    )
    here = Path(__file__).parent
    others = ("models/test_vector_space.py", "data/test_ids.py", "training/test_native_dpcml.py")
    files = [__file__, *(str(here.parent / file) for file in (*others, "training/test_native_trainer.py"))]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", chosen]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
