"""A clean virtual environment for each library: versions, size on disk, time to import."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMPORTS = 5  # fresh processes; the fastest counts
PYARROW = "pyarrow==20.0.0"  # works with NumPy 1.26, which some of the libraries need, and with NumPy 2


@dataclass(frozen=True)
class Library:
    """What to install, in this order, and what a program that fits a model has to import."""

    install: tuple[tuple[str, ...], ...]
    imports: str
    methods: tuple[str, ...]


TORCH = ("torch==2.13.0",)  # by its exact version: a range may take a build for graphics cards
LIBRARIES = {
    "tastespace": Library((), "import tastespace; tastespace.DPCML", ("fit", "dpcml", "ease")),
    "implicit": Library(
        (("implicit==0.7.3",),), "from implicit.als import AlternatingLeastSquares", ("als", "bpr", "cosine")
    ),
    "lenskit": Library(
        (TORCH, ("lenskit==2025.8.1",)),
        "from lenskit.als import ImplicitMFScorer; from lenskit.pipeline import topn_pipeline",
        ("ease", "als", "itemknn"),
    ),
    "rectools": Library(
        (("rectools==0.19.0",),),
        "from rectools.dataset import Dataset; from rectools.models import EASEModel",
        ("ease", "als", "knn"),
    ),
    "recbole": Library(
        (
            TORCH,
            # 1.2.1 of November 2024 uses what NumPy 2 and SciPy 1.11 no longer have, and pkg_resources.
            ("recbole==1.2.1", "numpy==1.26.4", "scipy==1.10.1", "pandas==2.2.3", "setuptools==80.9.0"),
        ),
        "from recbole.config import Config; from recbole.utils import get_model",
        ("ease", "bpr", "lightgcn"),
    ),
    "cornac": Library((("cornac==3.0.1",),), "from cornac.models import BPR", ("ease", "bpr")),
}


def environment(library: str, folder: Path, log_file: Path, wheel: Path | None) -> None:
    """Make the environment and its log (versions, size), unless both are there."""
    python = folder / library / "bin" / "python"
    if log_file.exists() and python.exists():
        return
    print(f"environment of {library}", flush=True)
    empty = _made(folder, "empty")
    _made(folder, library)
    what = LIBRARIES[library]
    steps = what.install or ((str(wheel or ROOT),),)
    for step in steps:
        _pip(python, "install", "-q", *step)
    versions = {one["name"]: one["version"] for one in json.loads(_pip(python, "list", "--format", "json"))}
    log = {
        "library": library,
        "install": [" ".join(step) if what.install else "tastespace (a wheel of this repository)" for step in steps],
        "size_mb": round((_size(folder / library) - _size(empty)) / 1e6, 1),
        "versions": {name: number for name, number in versions.items() if name not in ("pip", "setuptools")},
    }
    if log_file.exists() and (before := json.loads(log_file.read_text()))["versions"] == log["versions"]:
        log |= {name: value for name, value in before.items() if name not in log}  # the import was timed already
    log_file.write_text(json.dumps(log, indent=1) + "\n")


def exchange_folder(folder: Path) -> Path:
    """pyarrow, which the runners read and write with, apart from the environments: it does not count as theirs."""
    target = folder / "exchange"
    if not (target / "pyarrow").exists():
        _made(folder, "empty")
        _pip(folder / "empty" / "bin" / "python", "install", "-q", "--no-deps", "--target", str(target), PYARROW)
    return target


def time_import(library: str, folder: Path, log_file: Path) -> None:
    """Add the time that fresh processes need to import the library to its log, unless it is there."""
    log = json.loads(log_file.read_text())
    if "import_ms" in log:
        return
    python, code = folder / library / "bin" / "python", LIBRARIES[library].imports
    _run(str(python), "-c", code)  # reads files from disk and writes .pyc files
    log |= {"import": code, "import_ms": _fastest_ms(python, code), "start_ms": _fastest_ms(python, "pass")}
    log_file.write_text(json.dumps(log, indent=1) + "\n")


def _made(folder: Path, name: str) -> Path:
    if not (folder / name / "bin" / "python").exists():
        _run(sys.executable, "-m", "venv", str(folder / name))
    return folder / name


def _size(folder: Path) -> int:
    (packages,) = folder.glob("lib/python*/site-packages")
    return sum(file.lstat().st_size for file in packages.rglob("*") if file.is_file())


def _pip(python: Path, *arguments: str) -> str:
    return _run(str(python), "-m", "pip", "--disable-pip-version-check", *arguments)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _fastest_ms(python: Path, code: str) -> int:
    """Of some fresh processes."""
    times = []
    for _ in range(IMPORTS):
        start = time.perf_counter()
        _run(str(python), "-c", code)
        times.append(time.perf_counter() - start)
    return round(1000 * min(times))
