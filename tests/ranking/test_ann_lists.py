"""Lists by approximate search: what they must hold whatever the index finds."""

from __future__ import annotations

import logging

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.ranking.ann import AnnIndex

pytestmark = pytest.mark.usefixtures("one_core")
N_ITEMS = 6_000


@pytest.fixture(scope="module")
def catalog():
    town = ts.synthetic.multi_interest(n_users=150, n_items=N_ITEMS, n_interactions=9_000, seed=4).interactions
    return ts.DPCML(dim=8, n_interests=3, epochs=3, threads=1, seed=1).fit(town)


def overlap(exact, found):
    return exact.join(found, on=["user", "item"]).height / exact.height


@pytest.mark.parametrize("threads", [1, 2])
def test_nearly_the_exact_lists_with_exact_scores(catalog, threads):
    exact, found = (catalog.recommend(k=30, index=index, threads=threads) for index in ("exact", "ann"))
    assert found.height == exact.height == 150 * 30
    assert overlap(exact, found) >= 0.98
    both = exact.join(found, on=["user", "item"], suffix="_ann")
    assert both["score"].equals(both["score_ann"].alias("score"))
    assert both["interest"].equals(both["interest_ann"].alias("interest"))
    assert found.columns == exact.columns
    ordered = found.sort("user", "score", descending=[False, True], maintain_order=True)
    assert ordered["rank"].to_list() == found.sort("user", "rank")["rank"].to_list()


def test_indices_files_and_new_users_take_the_same_way(catalog, tmp_path):
    top, scores = catalog.recommend_indices(k=5, index="ann")
    frame = catalog.recommend(k=5, index="ann")
    assert top.ravel().tolist() == catalog.train_.items.index_of(frame["item"]).tolist()
    assert scores.ravel().tolist() == frame["score"].to_list()
    assert catalog.recommend_to(tmp_path / "all.parquet", k=5, index="ann") == len(frame)
    assert pl.read_parquet(tmp_path / "all.parquet").equals(frame)
    histories = [catalog.train_.items_of(user) for user in range(20)]
    exact, found = (catalog.recommend_for(histories, k=20, index=index) for index in ("exact", "ann"))
    assert overlap(exact, found) >= 0.95


def test_seen_items_and_filters_are_respected(catalog):
    users = list(range(30))
    seen = {(user, item) for user in users for item in catalog.train_.items_of(user)}
    found = catalog.recommend(users, k=50, index="ann")
    assert not seen & set(zip(found["user"], found["item"], strict=True))
    with_seen = catalog.recommend(users, k=50, exclude_seen=False, index="ann")
    assert seen & set(zip(with_seen["user"], with_seen["item"], strict=True))
    assert overlap(catalog.recommend(users, k=50, exclude_seen=False), with_seen) >= 0.98
    for share in (0.5, 0.15):
        mask = np.random.default_rng(1).random(N_ITEMS) < share
        filtered = catalog.recommend(users, k=20, filter=mask, index="ann")
        assert mask[catalog.train_.items.index_of(filtered["item"])].all()
        assert overlap(catalog.recommend(users, k=20, filter=mask), filtered) >= 0.97


def test_narrow_filters_and_long_lists_of_left_out_items_are_exact_and_say_so(catalog, caplog):
    narrow = np.arange(N_ITEMS) % 50 == 0
    with caplog.at_level(logging.INFO):
        found = catalog.recommend(k=5, filter=narrow, index="ann")
        assert "120 candidates are compared one by one" in caplog.text
        assert found.equals(catalog.recommend(k=5, filter=narrow))
        caplog.clear()
        muted = catalog.recommend(3, k=5, mute=[0], index="ann")
        assert muted.equals(catalog.recommend(3, k=5, mute=[0]))
        assert "all items are compared for 1 of 1 users" in caplog.text


def test_mixes(catalog, caplog):
    with caplog.at_level(logging.WARNING):
        found = catalog.recommend(3, k=10, mix="proportional", index="ann")
    assert "mix='proportional' needs the distances to all items" in caplog.text
    assert found.equals(catalog.recommend(3, k=10, mix="proportional"))
    options = {"mix": "calibrated", "column": "interest"}
    exact, found = (catalog.recommend(k=10, index=index, **options) for index in ("exact", "ann"))
    assert overlap(exact, found) >= 0.95


def test_searches_that_find_too_little_do_not_shorten_lists(catalog, monkeypatch):
    search = AnnIndex.search

    def few(self, queries, k, *rest):
        found = search(self, queries, k, *rest)
        found[:, 2:] = -1
        return found

    monkeypatch.setattr(AnnIndex, "search", few)
    assert catalog.recommend([3, 9], k=20, index="ann").equals(catalog.recommend([3, 9], k=20))
    everything = catalog.recommend(3, k=2 * N_ITEMS, index="ann")
    assert everything.height == N_ITEMS - len(catalog.train_.items_of(3))


def test_rows_outside_the_catalog_are_not_recommended(catalog, monkeypatch):
    search = AnnIndex.search

    def foreign(self, queries, k, *rest):
        found = search(self, queries, k, *rest)
        found[:, 0] = N_ITEMS + 5
        return found

    monkeypatch.setattr(AnnIndex, "search", foreign)
    assert catalog.recommend([3, 9], k=20, index="ann").height == 40
