"""What is killed: each action runs in a process of its own, in a folder of its own, and can be started again.

An action ends by giving a digest of what it made. However often it was killed before, it must be that of an
uninterrupted one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tastespace import (
    EASE,
    Interactions,
    load,
    models,
    synthetic,
)
from tastespace._util.atomic import written_name
from tastespace.data.datasets.cache import Cache, download

CONTENT = np.random.default_rng(0).bytes(400_000)
"""Of the file that is downloaded."""


def _data(n_users: int = 150, n_items: int = 120, n_interactions: int = 3_000) -> Interactions:
    found = synthetic.multi_interest(n_users, n_items, n_interactions, seed=3).interactions
    kinds = pl.DataFrame({"item": found.items.series, "kind": ["abcde"[i % 5] for i in range(n_items)]})
    return Interactions.from_frame(found.to_frame(), item_attributes=kinds)


def _digest(parts: Any) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[:16]


def _train(name: str, folder: Path, **parameters: Any) -> str:
    """Train with a checkpoint after every epoch, from where an earlier process was killed."""
    path = str(folder / "run")
    model = models.create(name, **parameters, threads=1, checkpoint=path, checkpoint_epochs=1)
    model.fit(_data(), progress=False)
    return _digest([*model.vectors().item_vectors, *model.vectors().user_vectors])


def train_native(folder: Path) -> str:
    """DPCML."""
    return _train("dpcml", folder, dim=16, epochs=25)


def train_neural(folder: Path) -> str:
    """GMF, with torch."""
    return _train("gmf", folder, dim=16, epochs=15, batch_size=256)


def train_dropoutnet(folder: Path) -> str:
    """CML with DropoutNet."""
    return _train("cml+dn", folder, dim=8, epochs=8, layers=(16, 8), latent={"epochs": 2})


def save(folder: Path) -> str:
    """Save two models over each other, again and again; whatever is there in between is one of them."""
    path = folder / "model"
    fitted = [EASE(regularization=value, threads=1).fit(_data(60, 40, 600)) for value in (1.0, 9.0)]
    scores = [_digest(one.score_block(np.arange(60))) for one in fitted]
    if path.exists() and any(written_name(one.name) is None for one in path.iterdir()):
        assert _digest(load(path, verify=True).score_block(np.arange(60))) in scores
    for _ in range(12):
        for model in fitted:
            model.save(path)
    left = [one.name for one in path.iterdir() if written_name(one.name) is not None]
    assert not left, f"temporary files are left: {left}"
    assert len(list(path.iterdir())) == 5, "files of killed saves are left"
    return _digest(load(path, verify=True).score_block(np.arange(60)))


def fetch(folder: Path) -> str:
    """Download a file from the server whose address is in the folder; a cached file is the whole file."""
    cache, checksum = Cache(folder / "cache"), f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    found = cache.find("town", "town.bin")
    assert found is None or found.read_bytes() == CONTENT
    url = (folder / "address").read_text()
    path = cache.fetch(
        "town", "town.bin", url, checksum, lambda target: download(url, target, timeout=20, progress=False)
    )
    content = path.read_bytes()
    path.unlink()
    return _digest([np.frombuffer(content, np.uint8)])


def paper(folder: Path) -> str:
    """Three runs of the paper's runner; what was finished before is kept."""
    from tastespace.paper.runner import PlannedRun, run_all

    parameters = {"dim": 8, "epochs": 3}
    planned = [
        PlannedRun("town", name, parameters=given) for name, given in (("popular", {}), ("cml+hars", parameters))
    ]
    rows = run_all(planned, folder / "results", workers=1, progress=False)
    assert {row.state for row in rows} <= {"done", "kept"}, [row.problem for row in rows]
    return _digest([[row.found.result["metrics"]["P@3"]] for row in rows if row.found is not None])


ACTIONS: dict[str, tuple[Callable[[Path], str], float]] = {
    "train_native": (train_native, 0.25),
    "train_neural": (train_neural, 0.2),
    "train_dropoutnet": (train_dropoutnet, 0.2),
    "save": (save, 0.25),
    "fetch": (fetch, 0.08),
    "paper": (paper, 0.02),
}
"""Action and its share of the kills."""
