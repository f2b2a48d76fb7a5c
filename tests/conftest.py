"""What all tests share: where the real data is, and quiet, deterministic surroundings."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

import tastespace as ts
from tastespace.data.synthetic import SyntheticData

# Timings of a busy machine say nothing about correctness.
settings.register_profile("tastespace", deadline=None, max_examples=60)
settings.load_profile("tastespace")

# The folders may be given relative to where pytest was started; tests move to folders of their own.
if folders := os.environ.get("TASTESPACE_DATA"):
    os.environ["TASTESPACE_DATA"] = os.pathsep.join(map(os.path.abspath, filter(None, folders.split(os.pathsep))))

# Shells start what runs in the background with SIGINT ignored, and tests send it to this process and to others.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def dataset_dir() -> Callable[[str], Path]:
    """The folder of a real data set in TASTESPACE_DATA; a test is skipped, or fails in CI, where it is absent."""

    def find(name: str) -> Path:
        for folder in filter(None, os.environ.get("TASTESPACE_DATA", "").split(os.pathsep)):
            if (Path(folder) / name).is_dir():
                return (Path(folder) / name).resolve()
        reason = f"data set {name} is not in TASTESPACE_DATA"
        if os.environ.get("TASTESPACE_REQUIRE_DATA") == "1":
            pytest.fail(f"{reason}, and TASTESPACE_REQUIRE_DATA=1")
        pytest.skip(reason)

    return find


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """The command line puts a handler on the library's logger; the next test shall not find it there."""
    logger = logging.getLogger("tastespace")
    handlers, level = logger.handlers[:], logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.fixture
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that share a busy core wait for each other more than they work; who wants two says so."""
    monkeypatch.setattr("tastespace._util.threads.available", lambda: 1)


@pytest.fixture(scope="session")
def town() -> SyntheticData:
    """A small synthetic town."""
    return ts.synthetic.multi_interest(n_users=300, n_items=200, n_interactions=8_000, seed=11)


@pytest.fixture(scope="session")
def colors() -> Callable[[Path], set[str]]:
    """The colors of a .png, as #RRGGBB."""
    image = pytest.importorskip("matplotlib.image")

    def find(path: Path) -> set[str]:
        dots = np.rint(255 * image.imread(path)[..., :3]).astype(np.int64).reshape(-1, 3)
        packed = np.unique((dots[:, 0] << 16) | (dots[:, 1] << 8) | dots[:, 2])
        return {f"#{value:06X}" for value in packed}

    return find
