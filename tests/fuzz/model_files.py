"""Saved models with damaged or forged files: `python -m tests.fuzz.model_files --cases 2000 --seed 0`.

Each case changes one thing in a saved model: a bit, a type, a shape, an offset, an index, a name, a value of
model.json. Mostly the checksums are computed again, as one who forges a file would. Then the model is opened and
recommends, in a process of its own, because it may crash. Only our own errors and success are good ends.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tests.fuzz.tables import Outcome

from tastespace import Interactions, models, synthetic
from tastespace._util.model_files import checksum
from tastespace.models import Recommender
from tastespace.store._tensors import map_tensors, safetensors_chunks, type_name

QUICK = (
    "popular", "category-popular", "ease", "sparse-ease", "spectral", "itemknn", "contentknn", "als", "bpr", "dpcml",
    "blend",
)  # fmt: skip
"""Models of each way to store what was learned, that are fitted and opened without torch."""
_PARAMETERS = {"dim": 4, "epochs": 1, "threads": 1, "n_layers": 2, "n_hidden": 8, "layers": (8, 4)}
DAMAGED = "damaged bit"
_SECONDS = 120.0  # a case that takes longer hangs
_VALUES: list[Any] = [None, True, -1, 0, 7, 10**30, 0.5, "x", "", [], {}, [1], {"a": 1}, {"$float": "nan"}, "__dict__"]
_NAMES = ["train_", "valid_", "recommend", "__dict__", "__class__", "_profiles", "user_vectors_", "more_", "fit", "x"]


def training_data() -> Interactions:
    """Few users and items, with attributes of both."""
    data = synthetic.multi_interest(n_users=17, n_items=23, n_interactions=150, seed=3).interactions
    from dataclasses import replace

    items = pl.DataFrame({"item": data.items.series, "genres": ["a", "b|a", "c"] * 7 + ["b", "a"], "year": range(23)})
    users = pl.DataFrame({"user": data.users.series, "age": range(17)})
    return replace(data, item_attributes=items, user_attributes=users)


def fitted(name: str, data: Interactions) -> Recommender:
    """A small fitted model of that name; ``ease-items`` is EASE from the other side."""
    if name == "blend":
        return models.create("blend:cml+itemknn", cml__epochs=1, cml__dim=4, cml__threads=1).fit(data)
    if name == "ease-items":
        return models.create("ease", side="items", threads=1).fit(data)
    accepted = models.registry()[name]._parameter_names()
    return models.create(name, **{key: one for key, one in _PARAMETERS.items() if key in accepted}).fit(data)


class ModelFiles:
    """Case ``number`` of a seed is always the same. Close it at the end."""

    def __init__(self, folder: Path, seed: int = 0, names: tuple[str, ...] = QUICK) -> None:
        self._folder, self._seed, self._names = folder, seed, names
        self._worker: subprocess.Popen[str] | None = None
        data = training_data()
        for name in names:
            fitted(name, data).save(folder / name)

    def run(self, number: int) -> Outcome:
        """Make the files of a case and open them in the other process."""
        rng = np.random.default_rng([self._seed, 3, number])
        name = self._names[number % len(self._names)]
        case = self._folder / f"case{number}"
        shutil.copytree(self._folder / name, case)
        change = _change(case, rng)
        what = f"{name}: {change}"
        try:
            outcome = self._open(case, what)
            if outcome.kind == "opened" and change.startswith(DAMAGED):
                return Outcome("accepted", what, "a damaged file was opened")
            return outcome
        finally:
            shutil.rmtree(case)

    def close(self) -> None:
        """End the other process."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.wait()
            self._worker = None

    def _open(self, case: Path, what: str) -> Outcome:
        worker = self._worker = self._worker or _start()
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(f"{case}\n")
        worker.stdin.flush()
        if not select.select([worker.stdout], [], [], _SECONDS)[0]:
            self.close()
            return Outcome("hang", what, f"no end after {_SECONDS:g} seconds")
        answer = worker.stdout.readline()
        if not answer:
            code = worker.wait()
            self._worker = None
            return Outcome("signal", what, f"the process ended with {code}")
        kind, raw = json.loads(answer)
        return Outcome(kind, what, raw)


def _start() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.fuzz.model_files", "--open"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "0"}
    root = Path(__file__).parents[2]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, cwd=root, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    )


def open_models() -> None:
    """Open each directory named on standard input, recommend, and write how that ended."""
    import warnings

    from tastespace import load
    from tastespace.errors import TastespaceError

    warnings.simplefilter("ignore")
    for line in sys.stdin:
        try:
            model = load(line.rstrip("\n"))
            model.recommend(k=5)
            model.recommend([model.train_.users[0]], k=30)
            answer: tuple[str, str | None] = ("opened", None)
        except TastespaceError as problem:
            answer = (type(problem).__name__, None)
        except Exception as problem:
            answer = ("raw", f"{type(problem).__name__}: {str(problem)[:200]}")
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


# ---- the changes -------------------------------------------------------------------------------------------


def _change(folder: Path, rng: np.random.Generator) -> str:
    """Change one thing in a model directory; gives what it was."""
    chosen: Callable[[Path, np.random.Generator], str] = rng.choice(
        np.array([_flip_sealed, _flip_bit, _change_array, _change_array, _change_json], dtype=object)
    )
    return chosen(folder, rng)


def _flip_sealed(folder: Path, rng: np.random.Generator) -> str:
    """A bit of any file, found by a checksum."""
    path = sorted(folder.iterdir())[int(rng.integers(5))]
    return f"{DAMAGED} {_flip(path, rng)} of {path.name.partition('-')[0]}"


def _flip_bit(folder: Path, rng: np.random.Generator) -> str:
    """A bit of the arrays or their header, with a new checksum."""
    part = str(rng.choice(["learned", "seen"]))
    content = _read(folder)
    bit = _flip(folder / content["files"][part]["name"], rng)
    seal(folder, content)
    return f"bit {bit} of {part}, sealed again"


def _flip(path: Path, rng: np.random.Generator) -> int:
    data = bytearray(path.read_bytes())
    bit = int(rng.integers(8 * len(data)))
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    return bit


def _change_array(folder: Path, rng: np.random.Generator) -> str:
    """Another type, shape or number in one of the arrays."""
    content = _read(folder)
    part = "learned" if rng.random() < 0.8 else "seen"
    path = folder / content["files"][part]["name"]
    tensors = {name: array.copy() for name, array in map_tensors(path)[0].items()}
    name = str(rng.choice(sorted(tensors)))
    array = tensors[name]
    change = str(rng.choice(["dtype", "shape", "number", "number", "number", "all", "order", "gone"]))
    if change == "gone":
        del tensors[name]
    else:
        tensors[name] = _changed(array, change, rng)
        declare_array(content, name, tensors[name])
    path.write_bytes(b"".join(safetensors_chunks(tensors)))
    seal(folder, content)
    return f"{change} of {part} {name}, {array.dtype} {array.shape}"


def _changed(array: np.ndarray, change: str, rng: np.random.Generator) -> np.ndarray:
    if change == "dtype":
        with np.errstate(all="ignore"):
            return array.astype(rng.choice(["f8", "f4", "f2", "i8", "i4", "u1", "?"]))
    if change == "shape":
        shapes = [array[:-1], array[:0], array[None], array.reshape(-1), array.T, np.concatenate([array, array])]
        return np.ascontiguousarray(shapes[int(rng.integers(len(shapes)))])
    if change == "order":
        return np.ascontiguousarray(array[::-1])
    if array.dtype.kind == "f":
        value: Any = rng.choice([np.nan, np.inf, -np.inf, 1e38, -1e38, 0.0])
    elif array.dtype.kind == "b":
        value = True
    else:
        limits = np.iinfo(array.dtype)
        value = rng.choice([-1, -(10**6), 10**6, 10**9, limits.min, limits.max, 5, 0])
    if change == "all":
        array[...] = value
    elif array.size:
        array.reshape(-1)[int(rng.choice([0, array.size - 1, int(rng.integers(array.size))]))] = value
    return array


def declare_array(value: Any, name: str, array: np.ndarray) -> None:
    """Say in model.json what type and shape the array has now."""
    if isinstance(value, dict):
        if value.get("$array") == name:
            value.update(dtype=type_name(array.dtype), shape=list(array.shape))
        for part in value.values():
            declare_array(part, name, array)
    elif isinstance(value, list):
        for part in value:
            declare_array(part, name, array)


def _change_json(folder: Path, rng: np.random.Generator) -> str:
    """A name or value of model.json."""
    content = _read(folder)
    section = str(rng.choice(["learned", "learned", "learned", "parameters", "data", "vectors", "class"]))
    if section == "class":
        content["class"] = str(
            rng.choice(["ease", "dpcml", "helpers:Model", "os:system", "builtins:dict", "", ":", "x:y"])
        )
        seal(folder, content)
        return f"class {content['class']!r}"
    inside = content[section]
    where = section
    while isinstance(inside, dict) and inside:
        key = str(rng.choice(sorted(inside)))
        where += f".{key}"
        if isinstance(inside[key], dict) and inside[key] and rng.random() < 0.6:
            inside = inside[key]
            continue
        kind = rng.random()
        if kind < 0.2:
            del inside[key]
            where += " gone"
        elif kind < 0.45:
            new = str(rng.choice(_NAMES))
            inside[new] = _VALUES[int(rng.integers(len(_VALUES)))]
            where += f" and {new}={inside[new]!r}"
        else:
            inside[key] = _VALUES[int(rng.integers(len(_VALUES)))]
            where += f"={inside[key]!r}"
        break
    seal(folder, content)
    return where


def _read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "model.json").read_text())
    return found


def seal(folder: Path, content: dict[str, Any]) -> None:
    """Write model.json with the right sizes and checksums of all files."""
    for entry in content["files"].values():
        data = (folder / entry["name"]).read_bytes()
        entry.update(bytes=len(data), crc32=checksum(data))
    content["crc32"] = "0" * 8
    text = json.dumps(content, indent=1) + "\n"
    crc32 = checksum(text.encode())
    (folder / "model.json").write_text(text.replace('"crc32": "00000000"', f'"crc32": "{crc32}"', 1))


def main() -> int:
    """Run cases and print how they ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", nargs="*", default=[*models.registry(), "ease-items"])
    parser.add_argument("--open", action="store_true", help="the process that opens models")
    given = parser.parse_args()
    if given.open:
        open_models()
        return 0
    ends: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        cases = ModelFiles(Path(folder), given.seed, tuple(given.models))
        for number in range(given.cases):
            outcome = cases.run(number)
            ends[outcome.kind] += 1
            if outcome.raw is not None:
                sys.stdout.write(f"model files {number}: {outcome.what}\n  {outcome.raw}\n")
        cases.close()
    sys.stdout.write(f"model files: {given.cases} cases, {dict(ends)}\n")
    return int(any(kind in ends for kind in ("raw", "signal", "hang", "accepted")))


if __name__ == "__main__":
    sys.exit(main())
