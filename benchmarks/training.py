"""Training speed: the native kernels against PyTorch, against implicit's BPR, and against themselves.

    python benchmarks/training.py torch      # one epoch of the same work as dense Adam and SparseAdam (needs torch)
    python benchmarks/training.py implicit   # distances, and our own BPR, against implicit's BPR (needs implicit)
    python benchmarks/training.py scaling    # threads, and the cost against positives, negatives, C and d
    python benchmarks/training.py memory     # peak memory against what must be held
    python benchmarks/training.py large      # synthetic data of the size of MovieLens-10M

BPA with C = 5, HarS with 10 negatives, d = 100 on ML-1M (TASTESPACE_DATA) unless said otherwise. Run it on an idle
machine. PyTorch epochs are long: as many steps as fit into a minute are timed and scaled to the epoch.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from pathlib import Path

import numpy as np

import tastespace as ts
from tastespace.models import create

C, N_NEGATIVES, DIM = 5, 10, 100


def ml_1m() -> ts.Interactions:
    return ts.split.per_user(ts.datasets.load("ml-1m"), (0.6, 0.2, 0.2), seed=0)[0]


def epoch_seconds(train: ts.Interactions, epochs: int = 4, **changes) -> float:
    """Seconds of the quickest epoch but the first."""
    parameters = {"dim": DIM, "n_interests": C, "sampler": "hard", "n_negatives": N_NEGATIVES, "average": 1, **changes}
    model = ts.DPCML(epochs=epochs, **parameters).fit(train)
    return min(row["seconds"] for row in model.history_[1:])


def distances(train: ts.Interactions, n_negatives: int = N_NEGATIVES, c: int = C) -> int:
    """Distance evaluations of an epoch: every positive and its negatives against all vectors of the user."""
    return train.n_interactions * (1 + n_negatives) * c


# ---- PyTorch: the same step, written plainly ---------------------------------------------------------------


def torch_epoch_seconds(train: ts.Interactions, batch: int, sparse: bool, budget: float) -> float:
    """One epoch in PyTorch: embeddings, minimum over C, hardest of the negatives, DCRS of the batch's users."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(os.cpu_count() or 1)
    users = torch.nn.Embedding(train.n_users, C * DIM, sparse=sparse)
    items = torch.nn.Embedding(train.n_items, DIM, sparse=sparse)
    torch.nn.init.normal_(users.weight, std=0.01)
    torch.nn.init.normal_(items.weight, std=DIM**-0.5)
    parameters = [*users.parameters(), *items.parameters()]
    optimizer = torch.optim.SparseAdam(parameters, lr=1e-3) if sparse else torch.optim.Adam(parameters, lr=1e-3)
    rows = torch.from_numpy(train.row_of_each().astype(np.int64))
    columns = torch.from_numpy(train.indices.astype(np.int64))
    # Negatives are given for free, by the native sampler, outside the clock: the ratio is about the step alone.
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    sampler = ts.training.samplers.NegativeDrawer(train)
    n_steps = -(-len(rows) // batch)
    spent, done = 0.0, 0
    for step in range(n_steps):
        chosen = order[step * batch : (step + 1) * batch]
        u, v = rows[chosen], columns[chosen]
        drawn = torch.from_numpy(sampler.draw(u.numpy(), N_NEGATIVES, first=step * batch).astype(np.int64))
        start = time.perf_counter()
        own = users(u).view(-1, C, DIM)
        near = ((own - items(v)[:, None]) ** 2).sum(-1).min(1).values
        far = ((own[:, :, None] - items(drawn)[:, None]) ** 2).sum(-1).min(1).values.min(1).values
        spread = ((own[:, :, None] - own[:, None]) ** 2).sum((-1, 1, 2)) / (2 * C * (C - 1))
        penalty = (0.05 - spread).clamp(min=0) + (spread - 0.25).clamp(min=0)
        loss = (1.0 + near - far).clamp(min=0).mean() + 10 * penalty.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():  # the geometry: users on the sphere, items in the ball
            if sparse:
                moved = users.weight[u].view(-1, C, DIM)
                users.weight[u] = (moved / moved.norm(dim=-1, keepdim=True)).view(-1, C * DIM)
                touched = torch.cat([v, drawn.flatten()])
                items.weight[touched] = torch.renorm(items.weight[touched], 2, 0, 1.0)
            else:
                whole = users.weight.view(-1, C, DIM)
                whole /= whole.norm(dim=-1, keepdim=True)
                items.weight.copy_(torch.renorm(items.weight, 2, 0, 1.0))
        spent += time.perf_counter() - start
        done += 1
        if spent > budget:
            break
    return spent / done * n_steps


def against_torch() -> None:
    train = ml_1m()
    ours = epoch_seconds(train)
    print(f"tastespace, Adagrad                  {ours:8.2f} s an epoch")
    for name, batch, sparse in (("dense Adam, batch 256", 256, False), ("SparseAdam, batch 4096", 4096, True)):
        theirs = torch_epoch_seconds(train, batch, sparse, budget=60.0)
        print(f"PyTorch, {name:27} {theirs:8.2f} s an epoch   {theirs / ours:7.1f} x ours")


# ---- implicit's BPR ----------------------------------------------------------------------------------------


def against_implicit() -> None:
    import scipy.sparse as sp
    from implicit.bpr import BayesianPersonalizedRanking

    train = ml_1m()
    matrix = sp.csr_matrix(train.matrix)
    seconds = []
    for _ in range(3):
        model = BayesianPersonalizedRanking(factors=DIM, iterations=5, num_threads=0, verify_negative_samples=True)
        start = time.perf_counter()
        model.fit(matrix, show_progress=False)
        seconds.append((time.perf_counter() - start) / 5)
    pairs = 2 * train.n_interactions  # a positive and a negative dot product per sample
    theirs = pairs / min(seconds)
    print(f"implicit, BPR (SGD, not repeatable)   {theirs / 1e6:7.1f} million dot products per second")
    for what, ours in (
        ("tastespace, DPCML (distances)", distances(train) / epoch_seconds(train)),
        ("tastespace, BPR with SGD", pairs / bpr_epoch_seconds(train, optimizer="sgd")),
        ("tastespace, BPR with Adagrad", pairs / bpr_epoch_seconds(train)),
    ):
        print(f"{what:37} {ours / 1e6:7.1f} million per second   {ours / theirs:.2f} x implicit")


def bpr_epoch_seconds(train: ts.Interactions, **changes) -> float:
    """Seconds of our BPR's quickest epoch but the first: true negatives, item biases and L2, as implicit's."""
    model = create("bpr", dim=DIM, epochs=15, average=1, **changes).fit(train)
    return min(row["seconds"] for row in model.history_[1:])


# ---- scaling -----------------------------------------------------------------------------------------------


def scaling() -> None:
    train = ml_1m()
    one, two = epoch_seconds(train, threads=1), epoch_seconds(train, threads=2)
    print(f"1 thread {one:.3f} s, 2 threads {two:.3f} s an epoch: {one / two:.2f} x")
    print(f"{distances(train) / two / 1e6:.1f} million distance evaluations per second with 2 threads")
    print("\n  what           value   s/epoch   ns per distance and coordinate")
    base = {"n_negatives": N_NEGATIVES, "n_interests": C, "dim": DIM}
    for name, values in (
        ("n_negatives", (10, 20, 50, 100)),
        ("n_interests", (1, 2, 5, 10)),
        ("dim", (25, 50, 100, 200)),
    ):
        for value in values:
            seconds = epoch_seconds(train, epochs=3, threads=2, **{name: value})
            setting = {**base, name: value}
            work = distances(train, setting["n_negatives"], setting["n_interests"]) * setting["dim"]
            print(f"  {name:12} {value:7} {seconds:9.3f} {1e9 * seconds / work:12.3f}")
    for share in (0.25, 0.5, 1.0):
        part = train.subset(np.random.default_rng(0).random(train.n_interactions) < share)
        seconds = epoch_seconds(part, epochs=3, threads=2)
        print(
            f"  {'positives':12} {part.n_interactions:7} {seconds:9.3f} {1e9 * seconds / distances(part) / DIM:12.3f}"
        )


# ---- memory ------------------------------------------------------------------------------------------------


def peak_mb() -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found.group(1)) / 1e3


def fit_synthetic(epochs: int) -> None:
    """MovieLens-10M in size: 69,167 users, 10,019 items, 3 million train positives."""
    start = time.perf_counter()
    data = ts.synthetic.multi_interest(69_167, 10_019, 5_003_437, n_categories=18, seed=0)
    train = ts.split.per_user(data.interactions, (0.6, 0.2, 0.2), seed=0)[0]
    del data
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making the data
    before = peak_mb()
    print(f"{train!r} after {time.perf_counter() - start:.0f} s; {before:.0f} MB held before training")
    model = ts.DPCML(dim=DIM, n_interests=C, sampler="hard", n_negatives=N_NEGATIVES, epochs=epochs).fit(train)
    vectors = (model.user_vectors_.nbytes + model.item_vectors_.nbytes) / 1e6
    held = 4 * vectors  # vectors, Adagrad's sums, the running mean, the result
    peak = peak_mb() - before
    print(f"an epoch in {min(r['seconds'] for r in model.history_):.2f} s")
    print(
        f"peak above what was held before: {peak:.0f} MB; vectors {vectors:.0f} MB, x 4 (optimizer, running mean, "
        f"result) = {held:.0f} MB: ratio {peak / held:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("torch", "implicit", "scaling", "memory", "large"))
    what = parser.parse_args().what
    actions = {"torch": against_torch, "implicit": against_implicit, "scaling": scaling}
    if what in actions:
        actions[what]()
    else:
        fit_synthetic(epochs=2 if what == "memory" else 3)


if __name__ == "__main__":
    main()
