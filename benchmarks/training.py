"""Training speed: the native kernels against PyTorch, against implicit's BPR, and against themselves.

    python benchmarks/training.py torch      # one epoch of the same work as dense Adam and SparseAdam (needs torch)
    python benchmarks/training.py implicit   # distances, and our own BPR, against implicit's BPR (needs implicit)
    python benchmarks/training.py scaling    # threads, and the cost against positives, negatives, C and d
    python benchmarks/training.py memory     # peak memory against what must be held
    python benchmarks/training.py large      # synthetic data of the size of MovieLens-10M
    python benchmarks/training.py busy       # threads while another process keeps a core busy
    python benchmarks/training.py --against REV   # builds that revision of the kernels, and runs both in turn

BPA with C = 5, HarS with 10 negatives, d = 100 on ML-1M (TASTESPACE_DATA) unless said otherwise. Run it on an idle
machine. PyTorch epochs are long: as many steps as fit into a minute are timed and scaled to the epoch.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import site
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import tastespace as ts
from tastespace.models import create

C, N_NEGATIVES, DIM = 5, 10, 100


def ml_1m() -> ts.Interactions:
    return ts.split.per_user(ts.datasets.load("ml-1m"), (0.6, 0.2, 0.2), seed=0)[0]


def epoch_seconds(train: ts.Interactions, epochs: int = 4, **changes) -> float:
    """Seconds of the quickest epoch but the first."""
    parameters = {"dim": DIM, "n_interests": C, "sampler": "hard", "n_negatives": N_NEGATIVES, "average": 1}
    parameters |= {**ts.DPCML.paper_form(), **changes}
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
    matrix = sp.csr_matrix(train.matrix).copy()  # implicit wants arrays that can be written to
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
    print(f"1 thread {one:.3f} s, 2 threads {two:.3f} s an epoch: {one / two:.2f} x, efficiency {one / two / 2:.2f}")
    serial = serial_share(train)
    print(f"serial part of an epoch with 1 thread: {100 * serial:.2f} %; by Amdahl's law alone that allows", end=" ")
    print(", ".join(f"{1 / (serial + (1 - serial) / n):.1f} x with {n} cores" for n in (2, 16, 64)))
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


def serial_share(train: ts.Interactions) -> float:
    """Share of an epoch in which one thread works and the others would wait: allocation and sums."""
    from tastespace.training import native_trainer

    found = []
    train_range = native_trainer.DpcmlTrainer._train_range

    def recorded(self, epoch: int, first: int, last: int):
        totals = train_range(self, epoch, first, last)
        found.append((totals.serial_seconds, totals.seconds))
        return totals

    native_trainer.DpcmlTrainer._train_range = recorded  # type: ignore[method-assign]
    try:
        epoch_seconds(train, epochs=2, threads=1)
    finally:
        native_trainer.DpcmlTrainer._train_range = train_range  # type: ignore[method-assign]
    serial, all_seconds = np.sum(found, axis=0)
    return float(serial / all_seconds)


def busy() -> None:
    """One and two threads in turn, while another process keeps one core busy."""
    train = ml_1m()
    seconds: dict[int, list[float]] = {1: [], 2: []}
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        for _ in range(5):
            for threads, found in seconds.items():
                found.append(epoch_seconds(train, epochs=3, threads=threads))
    finally:
        other.kill()
    one, two = (statistics.median(seconds[threads]) for threads in (1, 2))
    print(f"with a busy core: 1 thread {one:.3f} s, 2 threads {two:.3f} s an epoch, {two / one:.2f} x (median of 5)")


# ---- an earlier revision -----------------------------------------------------------------------------------

CASES = {
    "ML-1M, C = 5": ("ml-1m", {"n_interests": 5}),
    "ML-1M, C = 1": ("ml-1m", {"n_interests": 1}),
    "size of ML-10M, C = 5": ("ml-10m-size", {"n_interests": 5}),
    "40,000 items, 50 negatives, C = 1": ("catalog", {"n_interests": 1, "n_negatives": 50}),
    "40,000 items, 50 negatives, C = 4": ("catalog", {"n_interests": 4, "n_negatives": 50}),
    "ML-1M, BPR, Adagrad": ("ml-1m", {"model": "bpr"}),
    "ML-1M, BPR, SGD": ("ml-1m", {"model": "bpr", "optimizer": "sgd"}),
}


def make_data(name: str, folder: Path) -> None:
    """Write offsets and items of the training data once, so that both revisions learn from the same."""
    if name == "ml-1m":
        train = ml_1m()
    else:
        size = (69_167, 10_019, 5_003_437) if name == "ml-10m-size" else (30_000, 40_000, 800_000)
        data = ts.synthetic.multi_interest(*size, n_categories=18, seed=0)
        train = ts.split.per_user(data.interactions, (0.6, 0.2, 0.2), seed=0)[0]
    np.savez(folder / name, offsets=train.offsets, indices=train.indices, n_items=train.n_items)


def run_case(name: str, folder: Path, threads: int) -> None:
    """In a process of its own: print the seconds of the epochs but the first, as JSON."""
    import scipy.sparse as sp

    data_name, settings = CASES[name]
    stored = np.load(folder / f"{data_name}.npz")
    indices, n_users = stored["indices"], len(stored["offsets"]) - 1
    values = np.ones(len(indices), dtype=np.float32)
    train = ts.Interactions.from_scipy(
        sp.csr_matrix((values, indices, stored["offsets"]), (n_users, int(stored["n_items"])))
    )
    kind = settings.get("model", "dpcml")
    base = {"dim": DIM, "average": 1, "epochs": 3, "threads": threads}
    if kind == "dpcml":
        base |= {"sampler": "hard", "n_negatives": N_NEGATIVES}
    model = create(kind, **{**base, **{k: v for k, v in settings.items() if k != "model"}}).fit(train)
    print(json.dumps([row["seconds"] for row in model.history_[1:]]))


def against(revision: str, threads: int, repeats: int, only: str) -> None:
    """Build a revision beside this one and run the cases with both in turn; ratios above 1: this one is faster."""
    root = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source, target = folder / "source", folder / "old"
        subprocess.run(["git", "worktree", "add", "--detach", "-q", str(source), revision], cwd=root, check=True)
        try:
            isolation = ["--no-build-isolation"] if _has_build_tools() else []
            pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", *isolation, "--target", str(target)]
            subprocess.run([*pip, str(source)], check=True)
            _compare(folder, target, threads, repeats, only)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(source)], cwd=root, check=True)


def _has_build_tools() -> bool:
    """Whether this environment holds what builds the kernels; otherwise pip fetches it."""
    return find_spec("scikit_build_core") is not None and find_spec("nanobind") is not None


def _compare(folder: Path, old: Path, threads: int, repeats: int, only: str) -> None:
    # Without site (-S) an editable install of this revision does not come before the path of the old one.
    old_path = os.pathsep.join([str(old), *site.getsitepackages()])
    command = [str(Path(__file__).resolve()), "--folder", str(folder), "--threads", str(threads)]
    contestants = {
        "old": ([sys.executable, "-S", *command], {**os.environ, "PYTHONPATH": old_path}),
        "new": ([sys.executable, *command], dict(os.environ)),
    }
    print(f"{threads} threads, {repeats} runs of each in turn\n{'':36} old s  new s  best  median")
    for case in (name for name in CASES if only in name):
        if not (folder / f"{CASES[case][0]}.npz").exists():
            make_data(CASES[case][0], folder)
        seconds: dict[str, list[float]] = {"old": [], "new": []}
        for _ in range(repeats):
            for who, (program, environment) in contestants.items():
                done = subprocess.run(
                    [*program, "--case", case], env=environment, check=True, capture_output=True, text=True
                )
                seconds[who].append(min(json.loads(done.stdout.splitlines()[-1])))
        best = {who: min(found) for who, found in seconds.items()}
        middle = {who: statistics.median(found) for who, found in seconds.items()}
        print(
            f"{case:36} {best['old']:5.2f}  {best['new']:5.2f}  {best['old'] / best['new']:4.2f}  "
            f"{middle['old'] / middle['new']:4.2f}",
            flush=True,
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
    model = ts.DPCML(
        dim=DIM, n_interests=C, sampler="hard", n_negatives=N_NEGATIVES, epochs=epochs, **ts.DPCML.paper_form()
    ).fit(train)
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
    what = ("torch", "implicit", "scaling", "busy", "memory", "large")
    parser.add_argument("what", nargs="?", choices=what)
    parser.add_argument("--against", metavar="REV", help="an earlier revision, which is built in a temporary folder")
    parser.add_argument("--threads", type=int, default=2, help="of --against")
    parser.add_argument("--repeats", type=int, default=3, help="of --against")
    parser.add_argument("--only", default="", help="cases of --against whose names hold this")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    actions = {"torch": against_torch, "implicit": against_implicit, "scaling": scaling, "busy": busy}
    if given.case:
        run_case(given.case, given.folder, given.threads)
    elif given.against:
        against(given.against, given.threads, given.repeats, given.only)
    elif given.what in actions:
        actions[given.what]()
    elif given.what:
        fit_synthetic(epochs=2 if given.what == "memory" else 3)
    else:
        parser.error("say what to measure, or --against REV")


if __name__ == "__main__":
    main()
