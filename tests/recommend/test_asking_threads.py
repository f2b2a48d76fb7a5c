"""Many threads that ask one model at once get the answers of one thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

import tastespace as ts

THREADS = 8


@pytest.mark.parametrize("index", ["exact", "ann"])
def test_the_first_requests_of_eight_threads_at_once(shop, index):
    """Nothing is computed yet when they start: of what all need, each is computed once and complete."""
    model = ts.DPCML(dim=8, n_interests=3, epochs=3, threads=1, seed=1).fit(shop)
    users = shop.users.series.to_list()
    histories = [list(shop.items_of(user)) for user in users[:4]]

    def ask(at):
        mine = users[7 * at : 7 * at + 7]
        return [
            *(model.recommend(user, k=10, index=index) for user in mine),
            model.recommend(mine, k=5, filter="year > 1980", index=index),
            model.recommend_for(histories, k=5, index=index),
            model.shelves(mine[0], k=4).to_frame(),
            model.similar_items(shop.items[at], k=3),
            model.explain(mine[1], shop.items[at]).to_dict(),
        ]

    together = Barrier(THREADS)

    def at_once(at):
        together.wait(60)
        return ask(at)

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(at_once, range(THREADS)))
    for at, answers in enumerate(found):
        for answer, expected in zip(answers, ask(at), strict=True):
            assert answer == expected if isinstance(answer, dict) else answer.equals(expected)


@pytest.mark.parametrize("options", [{}, {"mask": True}, {"exclude_seen": False}], ids=["plain", "mask", "with seen"])
def test_one_user_after_the_other_from_eight_threads(shop, options):
    """The list of one user is one native call, that of several another: what threads get at once, both give."""
    model = ts.DPCML(dim=8, n_interests=3, epochs=3, threads=1, seed=1).fit(shop)
    users = shop.users.series.to_list()
    if options.pop("mask", False):
        options["filter"] = np.arange(shop.n_items) % 3 > 0
    together = Barrier(THREADS)

    def ask(at):
        together.wait(60)
        return [model.recommend(user, k=7, **options) for user in users[at:] + users[:at]]

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(ask, range(THREADS)))
    everybody = model.recommend(users, k=7, **options)
    expected = [everybody.filter(user=user) for user in users]
    for at, lists in enumerate(found):
        assert all(one.equals(other) for one, other in zip(lists, expected[at:] + expected[:at], strict=True))
