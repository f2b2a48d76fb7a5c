"""Opening a saved model of about 100 MB: `store.load` against `np.load` of the same arrays.

    python benchmarks/model_file.py [--megabytes 100] [--repeats 7]

The model is a DPCML with 4 random vectors of 100 dimensions per user and 40 interactions each; text ids.

* numpy: `np.load` of one uncompressed .npz with all arrays and the ids as fixed-width text, each array read: how
  factor models are usually kept (implicit's `save`, for one). No checks, no id map.
* tastespace: `store.load`, with `verify=True` in a row of its own. The last column is the time from start to the
  first list of ten for one user.

Each measurement runs in a process of its own, after the imports, alternating between the libraries; files are in the
page cache. The best of the repeats counts. All arrays are compared before any time is shown.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from tastespace import DPCML, Interactions, store
from tastespace.data.ids import IdMap

DIM, INTERESTS, EACH, ITEMS = 100, 4, 40, 10_000


def make(folder: Path, megabytes: int) -> None:
    """The same model in both forms."""
    rng = np.random.default_rng(0)
    users = int((megabytes * 1e6 - 4 * ITEMS * DIM) / (4 * DIM * INTERESTS + 4 * EACH + 16))
    ids = {kind: pl.Series([f"{kind}-{i:07d}" for i in range(n)]) for kind, n in (("user", users), ("item", ITEMS))}
    taken = np.sort(rng.integers(0, ITEMS - EACH, (users, EACH), dtype=np.int32), axis=1) + np.arange(
        EACH, dtype=np.int32
    )
    model = DPCML(dim=DIM, n_interests=INTERESTS)
    model.train_ = Interactions(
        IdMap(ids["user"], "user"),
        IdMap(ids["item"], "item"),
        np.arange(users + 1, dtype=np.int64) * EACH,
        taken.reshape(-1),
    )
    model.valid_ = None
    model.user_vectors_ = rng.normal(size=(users * INTERESTS, DIM)).astype(np.float32)
    model.item_vectors_ = rng.normal(size=(ITEMS, DIM)).astype(np.float32)
    model.user_offsets_ = np.arange(users + 1, dtype=np.int64) * INTERESTS
    store.save(model, folder / "model")
    np.savez(
        folder / "arrays.npz",
        **arrays_of(model),
        users=ids["user"].to_numpy().astype("U"),
        items=ids["item"].to_numpy().astype("U"),
    )


def arrays_of(model: DPCML) -> dict[str, np.ndarray]:
    return {
        "user_vectors": model.user_vectors_,
        "item_vectors": model.item_vectors_,
        "user_offsets": model.user_offsets_,
        "offsets": model.train_.offsets,
        "indices": model.train_.indices,
    }


def child(library: str, folder: Path) -> dict[str, float]:
    start = time.perf_counter()
    if library == "numpy":
        with np.load(folder / "arrays.npz") as file:
            _ = {name: file[name] for name in file.files}
        return {"load": time.perf_counter() - start}
    model = store.load(folder / "model", verify=library == "tastespace, verify")
    loaded = time.perf_counter() - start
    assert len(model.recommend(["user-0000007"], k=10)) == 10
    return {"load": loaded, "first": time.perf_counter() - start}


def compare(folder: Path) -> None:
    model = store.load(folder / "model", verify=True)
    assert isinstance(model, DPCML)
    with np.load(folder / "arrays.npz") as file:
        for name, array in arrays_of(model).items():
            np.testing.assert_array_equal(array, file[name])
        assert file["users"].tolist() == model.train_.users.series.to_list()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--child", nargs=2)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(arguments.child[0], Path(arguments.child[1]))))
        return
    runs: dict[str, list[dict[str, float]]] = {"numpy": [], "tastespace": [], "tastespace, verify": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, arguments.megabytes)
        compare(folder)
        found = store.inspect(folder / "model")
        size = sum(found["files"].values()) / 1e6
        print(f"{size:.0f} MB: {found['users']:,} users, {found['vectors']:,} vectors, {found['interactions']:,} seen")
        for _ in range(arguments.repeats):
            for library, results in runs.items():
                command = [sys.executable, __file__, "--child", library, name]
                results.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    print(f"{'library':20} {'load':>10} {'ratio':>7} {'to the first list':>18}")
    baseline = min(run["load"] for run in runs["numpy"])
    for library, results in runs.items():
        load = min(run["load"] for run in results)
        first = f"{1e3 * min(run['first'] for run in results):.1f} ms" if "first" in results[0] else "-"
        print(f"{library:20} {1e3 * load:7.1f} ms {baseline / load:6.1f}x {first:>18}")


if __name__ == "__main__":
    main()
