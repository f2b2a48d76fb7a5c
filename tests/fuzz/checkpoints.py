"""Checkpoints with damaged bytes, or forged ones with a right checksum, from which training is resumed.

A damaged file is an error of ours. A forged one may be continued, or is an error of ours as well.
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz.tables import Outcome, outcome_of

from tastespace import models, synthetic
from tastespace.training._checkpoint import _NO_CHECKSUM, _checksum_place

NAMES = ("dpcml", "cml", "bpr")
_VALUES: list[Any] = [None, True, -1, 10**30, 0.5, "x", [], {}, [1], [{}], {"a": 1}, [{"epoch": "x"}], "NaN"]


class Checkpoints:
    """Case ``number`` of a seed is always the same."""

    def __init__(self, folder: Path, seed: int = 0, names: tuple[str, ...] = NAMES) -> None:
        self._folder, self._seed, self._names = folder, seed, names
        folder.mkdir(parents=True, exist_ok=True)
        self._data = synthetic.multi_interest(n_users=15, n_items=20, n_interactions=120, seed=3).interactions
        self._bytes = {}
        for name in names:
            path = folder / f"{name}.run"
            self._fit(name, path, [lambda row: False])
            self._bytes[name] = path.read_bytes()
            self._fit(name, path)  # the untouched file is accepted

    def _fit(self, name: str, path: Path, callbacks: Any = ()) -> Any:
        parameters = {"dim": 4, "epochs": 2, "threads": 1, "checkpoint_epochs": 1, "checkpoint": str(path)}
        return models.create(name, **parameters).fit(self._data, progress=False, callbacks=callbacks)

    def run(self, number: int) -> Outcome:
        """Change a checkpoint and resume from it."""
        rng = np.random.default_rng([self._seed, 4, number])
        name = self._names[number % len(self._names)]
        sealed = rng.random() < 0.5
        raw = bytearray(self._bytes[name])
        what = _forge(raw, rng) if sealed else _damage(raw, rng)
        path = self._folder / f"case{number % 50}.run"
        path.write_bytes(raw)
        outcome = outcome_of(f"{name}: {what}", lambda: self._fit(name, path))
        if outcome.kind == "read":
            if not sealed and bytes(raw) != self._bytes[name]:
                return Outcome("accepted", outcome.what, "a damaged checkpoint was continued")
            return Outcome("continued", outcome.what)
        return outcome


def _damage(raw: bytearray, rng: np.random.Generator) -> str:
    """A bit, some bytes, or the end."""
    kind = str(rng.choice(["bit", "bit", "bytes", "cut", "more", "zeros"]))
    at = int(rng.integers(len(raw)))
    if kind == "bit":
        raw[at] ^= 1 << int(rng.integers(8))
    elif kind == "bytes":
        raw[at : at + 4] = rng.bytes(4)
    elif kind == "cut":
        del raw[at:]
    elif kind == "more":
        raw += rng.bytes(8)
    else:
        raw[at : at + 64] = bytes(len(raw[at : at + 64]))
    return f"{kind} at {at}"


def _forge(raw: bytearray, rng: np.random.Generator) -> str:
    """Another value in the metadata, another type or shape of an array, or other numbers, with a new checksum."""
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    arrays = [name for name in header if name != "__metadata__"]
    kind = str(rng.choice(["metadata", "metadata", "gone", "shape", "dtype", "numbers", "rename"]))
    name = str(rng.choice(arrays))
    if kind == "metadata":
        metadata = json.loads(header["__metadata__"]["tastespace-checkpoint"])
        name = str(rng.choice(sorted(metadata)))
        if rng.random() < 0.3:
            del metadata[name]
        else:
            metadata[name] = _VALUES[int(rng.integers(len(_VALUES)))]
        header["__metadata__"]["tastespace-checkpoint"] = json.dumps(metadata)
    elif kind == "gone":
        del header[name]
    elif kind == "rename":
        header["x"] = header.pop(name)
    elif kind == "shape":
        header[name]["shape"] = [*header[name]["shape"][::-1], 1]
    elif kind == "dtype":
        header[name]["dtype"] = {"F32": "I32", "I32": "F32", "F64": "I64", "I64": "F64"}.get(
            header[name]["dtype"], "U8"
        )
    else:
        first, last = header[name]["data_offsets"]
        value = float(rng.choice([np.nan, np.inf, 1e38, -1.0]))
        at = 8 + size + first + 4 * int(rng.integers(max(1, (last - first) // 4)))
        raw[at : at + 4] = struct.pack("<f", value)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    raw[: 8 + size] = len(text).to_bytes(8, "little") + text
    first, last = _checksum_place(raw)
    raw[first:last] = _NO_CHECKSUM
    raw[first:last] = f"{zlib.crc32(raw):08x}".encode()
    return f"{kind} of {name}"
