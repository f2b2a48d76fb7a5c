"""A cell of a table: one run of one method on one data set with one seed, and the folder of finished cells.

A finished cell is found again by a key of everything that decides its figures: the method's effective parameters, the
data's fingerprint with what is known of the items, the seeds, the protocol and metrics, and the code that computed it.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace.errors import ParameterError
from tastespace.paper.code_version import code_version
from tastespace.paper.methods import Method, find_method
from tastespace.paper.runs import ACCURACY, Setting, chosen_parameters, load_parts, plain_parameters
from tastespace.paper.strangers import dataset_for

log = logging.getLogger(__name__)

SPREAD = tuple(f"{name}@{k}" for name in ("MaxDiv", "ILS", "Coverage") for k in (3, 5, 10, 20))
EVERYTHING = (*ACCURACY, *(f"{name}?" for name in SPREAD), "CategoryMAP?")
"""What a cell measures, as far as model and data can give it: training is what costs, so one run serves all tables."""
_RECORD = 2  # what a finished cell holds; with another number older ones count as not there


@dataclass(frozen=True)
class Cell(Setting):
    """What to run, and how it is called."""

    metrics: tuple[str, ...] = EVERYTHING
    label: str | None = None
    """Name of the row, where it is not the method's."""
    quick: bool = False
    """Whether this is a run of few epochs, only to see that it works; its row is marked."""

    @property
    def title(self) -> str:
        """How the cell's row is called."""
        return self.label or find_method(self.method).name

    def key(self) -> str:
        """Of everything that decides the figures, 20 hexadecimal digits."""
        method = find_method(self.method)
        parts = load_parts(dataset_for(self.dataset, method.model), self.split_seed)
        chosen = chosen_parameters(method, self.dataset, self.preset, dict(self.parameters))
        facts = {
            "method": method.name,
            "parameters": _effective(method, chosen, self.seed),
            "data": parts.fingerprints,
            "seed": self.seed,
            "protocol": self.protocol,
            "metrics": list(self.metrics),
            "code": code_version(method.model, method.second_stage is not None, parts.strangers is not None),
            "record": _RECORD,
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:20]


def _effective(method: Method, chosen: dict[str, Any], seed: int) -> dict[str, Any]:
    """Every parameter of the model, whether it was chosen or is a default of the method or the model."""
    try:
        found = plain_parameters(method.build(chosen, seed))
        return {**found, "seed": chosen["seed"]} if "seed" in chosen else found
    except ParameterError:
        return chosen  # such a run fails and says why; there will be no figures


@dataclass(frozen=True, eq=False)
class Finished:
    """What a run found."""

    result: dict[str, Any]
    """As `runs.run` gives it."""
    per_user: dict[str, NDArray[np.float64]]
    """Figures of each user, for paired tests."""


class Shelf:
    """The folder of finished cells. Files are whole or not there; one that was damaged counts as not there."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser()

    def get(self, cell: Cell) -> Finished | None:
        """A finished cell, or None."""
        path = self.folder / f"{cell.key()}.npz"
        try:
            with np.load(path, allow_pickle=False) as stored:
                text = str(stored["result"])
                per_user = {name.removeprefix("user."): stored[name] for name in stored.files if name != "result"}
                result = json.loads(text)
                whole = isinstance(result, dict) and {"metrics", "seconds"} <= set(result)
        except FileNotFoundError:
            return None
        except Exception as problem:  # a damaged file raises whatever its reader meets
            log.warning("%s is damaged (%r) and counts as not there", path, problem)
            return None
        if not whole:
            log.warning("%s is no finished cell and counts as not there", path)
            return None
        day = datetime.datetime.fromtimestamp(path.stat().st_mtime, tz=datetime.timezone.utc).strftime("%Y-%m-%d")
        result.setdefault("made", {"date": day})
        return Finished(result, per_user)

    def put(self, cell: Cell, finished: Finished) -> Path:
        """Keep a finished cell."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{cell.key()}.npz"
        partial = path.with_suffix(f".{os.getpid()}.partial")
        content = {f"user.{name}": values.astype(np.float32) for name, values in finished.per_user.items()}
        stored = {**finished.result, "cell": {**asdict(cell), "parameters": dict(cell.parameters)}}
        with partial.open("wb") as file:
            everything: dict[str, Any] = {"result": np.array(json.dumps(stored, default=str)), **content}
            np.savez_compressed(file, **everything)
        partial.replace(path)
        return path
