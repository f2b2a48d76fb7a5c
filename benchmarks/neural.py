"""Seconds per epoch of NeuMF and LightGCN on ML-1M, against RecBole on the same machine and in the same setting.

RecBole needs an environment of its own, because it needs older packages than this library:

    python3 -m venv recbole-venv
    recbole-venv/bin/pip install torch==2.13.0 "numpy<2" "scipy<1.12" "pandas<2.3" scikit-learn tqdm pyyaml \
        colorlog==4.7.2 colorama==0.4.4 tensorboard thop tabulate plotly texttable psutil
    recbole-venv/bin/pip install --no-deps recbole==1.2.1
    python benchmarks/neural.py --recbole recbole-venv/bin/python

(ray, which RecBole also lists, is for its parameter search and not needed here.) Same train interactions, batch
of positives, dimension, layers, optimizer (Adam), one negative per positive, the same threads and version of torch.
The fastest epoch but the first counts; both sides include the drawing of negatives. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

DIM, LAYERS = 64, 3
MODELS = ("NeuMF", "LightGCN")


# ---- ours --------------------------------------------------------------------------------------------------


def ours(train, name: str, batch: int, epochs: int, threads: int) -> list[float]:
    from tastespace.models import create

    sizes = {"dim": DIM, "n_layers": LAYERS, "batch_size": batch, "n_negatives": 1}
    model = create(name.lower(), learning_rate=1e-3, epochs=epochs, threads=threads, **sizes).fit(train, progress=False)
    return [row["seconds"] for row in model.history_]


# ---- RecBole: runs in its own environment ------------------------------------------------------------------


def write_atomic_files(train, folder: Path) -> None:
    """RecBole's format, with the split made here; it needs some validation and test rows, which are not used."""
    (folder / "films").mkdir()
    users, items = train.row_of_each(), train.indices
    for part, stop in (("train", len(users)), ("valid", 100), ("test", 100)):
        rows = "".join(f"{u}\t{i}\n" for u, i in zip(users[:stop].tolist(), items[:stop].tolist(), strict=True))
        (folder / "films" / f"films.{part}.inter").write_text(f"user_id:token\titem_id:token\n{rows}")


def theirs(python: str, folder: Path, name: str, batch: int, epochs: int, threads: int) -> list[float]:
    command = [python, str(Path(__file__).resolve()), "--worker", name, "--folder", str(folder)]
    command += ["--batch", str(batch), "--epochs", str(epochs), "--threads", str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise SystemExit(f"RecBole failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def recbole_epochs(name: str, folder: str, batch: int, epochs: int, threads: int) -> list[float]:
    import torch
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, get_trainer, init_seed

    torch.set_num_threads(threads)
    # With pointwise losses RecBole counts negatives into the batch.
    rows = 2 * batch if name == "NeuMF" else batch
    settings = {
        "data_path": folder,
        "benchmark_filename": ["train", "valid", "test"],
        "load_col": {"inter": ["user_id", "item_id"]},
        "train_batch_size": rows,
        "train_neg_sample_args": {"distribution": "uniform", "sample_num": 1, "alpha": 1.0, "dynamic": False,
                                  "candidate_num": 0},
        "epochs": epochs,
        "learning_rate": 1e-3,
        "use_gpu": False,
        "gpu_id": "",
        "show_progress": False,
        "embedding_size": DIM,
        "mf_embedding_size": DIM,
        "mlp_embedding_size": DIM,
        "mlp_hidden_size": [DIM >> level for level in range(LAYERS)],
        "dropout_prob": 0.0,
        "n_layers": LAYERS,
        "reg_weight": 1e-4,
    }  # fmt: skip
    config = Config(model=name, dataset="films", config_dict=settings)
    init_seed(0, True)
    dataset = create_dataset(config)
    train_data, _, _ = data_preparation(config, dataset)
    model = get_model(name)(config, train_data.dataset).to(config["device"])
    trainer = get_trainer(config["MODEL_TYPE"], name)(config, model)
    seconds = []
    for epoch in range(epochs):
        start = time.perf_counter()
        trainer._train_epoch(train_data, epoch, show_progress=False)
        seconds.append(time.perf_counter() - start)
    return seconds


# ---- both --------------------------------------------------------------------------------------------------


def compare(python: str | None, batches: list[int], epochs: int, threads: int, names: list[str]) -> None:
    import tastespace as ts

    train = ts.split.per_user(ts.datasets.load("ml-1m"), (0.6, 0.2, 0.2), seed=0)[0]
    print(f"{train!r}, d = {DIM}, {LAYERS} layers, {threads} threads")
    print(f"{'model':10} {'batch':>6} {'tastespace':>11} {'RecBole':>9} {'ratio':>7}   seconds an epoch")
    with tempfile.TemporaryDirectory() as folder:
        if python is not None:
            write_atomic_files(train, Path(folder))
        for name in names:
            for batch in batches:
                mine = min(ours(train, name, batch, epochs, threads)[1:])
                line = f"{name:10} {batch:6} {mine:11.2f}"
                if python is not None:
                    other = min(theirs(python, Path(folder), name, batch, epochs, threads)[1:])
                    line += f" {other:9.2f} {other / mine:6.1f}x"
                print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recbole", metavar="PYTHON", help="Python of RecBole's environment; without it, ours alone")
    parser.add_argument("--batch", type=int, nargs="+", default=[2048, 8192], help="positives per step")
    parser.add_argument("--epochs", type=int, default=4, help="two or more: the first is ignored")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--worker", choices=MODELS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(
            json.dumps(
                recbole_epochs(
                    arguments.worker, arguments.folder, arguments.batch[0], arguments.epochs, arguments.threads
                )
            )
        )
    else:
        compare(arguments.recbole, arguments.batch, arguments.epochs, arguments.threads, arguments.models)


if __name__ == "__main__":
    main()
