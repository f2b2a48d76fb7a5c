"""Ctrl-C while a kernel runs: every native training loop notices it within a second, whatever its settings."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from tests.training.reference import BprKernel, DpcmlKernel

import tastespace as ts
from tastespace import Interactions, _native

SECONDS = 1.0


def random_interactions(n_users: int, n_items: int, per_user: int) -> Interactions:
    """Users with this many items each, or a few less."""
    random = np.random.default_rng(0)
    rows = np.repeat(np.arange(n_users), per_user)
    table = sp.csr_matrix((np.ones(len(rows)), (rows, random.integers(0, n_items, len(rows)))), (n_users, n_items))
    return Interactions.from_scipy(table)


def seconds_until_stopped(run) -> float:
    """Processor time from Ctrl-C to its exception: other processes of the machine do not count."""
    sent = []

    def press() -> None:
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.3, press)
    try:
        timer.start()
        run()
        timer.join()
    except KeyboardInterrupt:
        return time.process_time() - sent[0]
    pytest.fail("it was done before Ctrl-C, or went on to its end")


@pytest.mark.parametrize("block_size", [1024, 100_000])
def test_training_with_many_negatives(block_size):
    train = random_interactions(2000, 5000, 50)  # minutes of work
    kernel = DpcmlKernel(ts.DPCML(dim=64, n_interests=4, n_negatives=2000, block_size=block_size), train)
    assert seconds_until_stopped(lambda: kernel.learn()) < SECONDS


def test_training_of_bpr():
    kernel = BprKernel(random_interactions(1000, 3000, 1000), dim=1000, block_size=1024)  # ten seconds or more
    assert seconds_until_stopped(lambda: [kernel.learn(epoch=epoch) for epoch in range(20)]) < SECONDS


def test_training_of_softmax_mf():
    train = random_interactions(4000, 3000, 50)
    random = np.random.default_rng(0)
    state = {}
    for side, n in (("user", train.n_users), ("item", train.n_items)):
        state[f"{side}_rows"] = random.normal(size=(n, 1000)).astype(np.float32)
        state[f"{side}_first"], state[f"{side}_second"] = np.zeros((n, 1000), np.float32), np.zeros(n, np.float32)
    kernel = {"offsets": train.offsets, "positives": train.indices, "temperature": 0.1, "learning_rate": 0.01, **state}

    def run() -> None:
        _native.train_softmax_mf(
            **kernel,
            users=np.arange(4000, dtype=np.int32),
            pools=np.tile(np.arange(3000, dtype=np.int32), (2, 1)),
            batch_size=2000,
            first_step=0,
            threads=1,
        )

    assert seconds_until_stopped(lambda: [run() for _ in range(20)]) < SECONDS


def test_als():
    train = random_interactions(40_000, 2000, 5)
    random = np.random.default_rng(0)
    fixed = random.normal(size=(train.n_items, 400)).astype(np.float32)
    vectors = random.normal(size=(train.n_users, 400)).astype(np.float32)

    def half_step() -> None:
        _native.als_half_step(
            offsets=train.offsets,
            columns=train.indices,
            extra=np.ones(train.n_interactions, dtype=np.float32),
            fixed=fixed,
            gram=fixed.T @ fixed,
            regularization=np.full(train.n_users, 0.1, dtype=np.float32),
            n_steps=50,
            vectors=vectors,
            threads=1,
        )

    assert seconds_until_stopped(half_step) < SECONDS


@pytest.mark.parametrize("name", ["dpcml", "bpr"])
def test_fold_in(name):
    train = random_interactions(50, 3000, 20)
    many = {"n_interests": 4, "n_negatives": 1500} if name == "dpcml" else {}
    model = ts.models.create(name, dim=512, epochs=1, threads=1, **many).fit(train)
    new = random_interactions(3000, 3000, 400)
    assert seconds_until_stopped(lambda: model._fold_in(new)) < SECONDS


def test_a_model_that_was_interrupted_can_be_used():
    train = random_interactions(500, 3000, 40)
    model = ts.DPCML(dim=32, n_interests=2, n_negatives=1000, block_size=50_000, epochs=100_000, threads=1)
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    model.fit(train, callbacks=[lambda row: timer.start() if row["epoch"] == 1 else None])
    timer.join()
    assert model.stopped_ == "interrupted"
    assert np.isfinite(model.user_vectors_).all()
    assert np.isfinite(model.item_vectors_).all()
    assert len(model.recommend_indices(np.array([0, 1]), k=5)[0]) == 2
