"""A shop on disk, a model fitted to it by the command line, and the command line in this process."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

import tastespace as ts
from tastespace.cli import main

TRAINING = ("--model", "dpcml", "--set", "dim=8", "--set", "epochs=6", "--threads", "1")
"""Flags that make a training short."""


@dataclass(frozen=True)
class Shop:
    """Files of a small synthetic data set: ids are text, u00 ... and i00 ..., in the columns who and what."""

    folder: Path
    clicks: Path
    clicks_csv: Path
    later: Path
    """Held-out interactions: one item of every user."""
    items: Path
    model: Path
    fitting: subprocess.CompletedProcess[str]
    """The command that made the model."""


@dataclass(frozen=True)
class CommandResult:
    """Exit code and output of a command."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    folder = tmp_path_factory.mktemp("shop")
    town = ts.synthetic.multi_interest(n_users=60, n_items=50, n_interactions=1_500, n_categories=5, seed=3)
    rows = town.interactions.to_frame().select(
        who=pl.format("u{}", pl.col("user").cast(pl.String).str.zfill(2)),
        what=pl.format("i{}", pl.col("item").cast(pl.String).str.zfill(2)),
    )
    # Another position in every user's history, so that every item is still in the training data.
    place, number = pl.int_range(pl.len()).over("who"), pl.col("who").str.slice(1).cast(pl.Int64)
    last = rows.filter(place == (7 * number) % pl.len().over("who"))
    before = rows.join(last, on=["who", "what"], how="anti").sort("who", "what")
    before.write_parquet(folder / "clicks.parquet")
    before.write_csv(folder / "clicks.csv")
    last.write_csv(folder / "later.csv")
    kinds = ("tea", "jam", "rye", "oil", "fig")
    about = pl.DataFrame(
        {
            "what": [f"i{row:02d}" for row in range(50)],
            "title": [f"{kinds[kind]} no. {row}" for row, kind in enumerate(town.item_category)],
            "genres": [f"{kinds[kind]}|food" for kind in town.item_category],
            "year": [1980 + row for row in range(50)],
        }
    )
    about.write_csv(folder / "items.csv")
    command = [
        "fit",
        "clicks.parquet",
        "--user",
        "who",
        "--item",
        "what",
        "--items",
        "items.csv",
        "--out",
        "shop.model",
    ]
    fitting = subprocess.run(
        [sys.executable, "-c", "from tastespace.cli import main; main()", *command, *TRAINING],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    return Shop(
        folder,
        folder / "clicks.parquet",
        folder / "clicks.csv",
        folder / "later.csv",
        folder / "items.csv",
        folder / "shop.model",
        fitting,
    )


@pytest.fixture
def run(
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    one_core: None,
) -> Callable[..., CommandResult]:
    """The command line in this process, as in a pipe, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")

    def call(*arguments: object) -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["tastespace", *map(str, arguments)])
        capfdbinary.readouterr()
        with warnings.catch_warnings(), pytest.raises(SystemExit) as leaving:
            main()
        raw, err = capfdbinary.readouterr()
        code = leaving.value.code
        return CommandResult(code if isinstance(code, int) else 0, raw, err.decode())

    return call


@pytest.fixture
def stdout_of(run: Callable[..., CommandResult]) -> Callable[..., str]:
    """What a command that ends well writes to standard output; nothing else may be written anywhere."""

    def call(*arguments: object) -> str:
        done = run(*arguments)
        assert (done.code, done.err) == (0, "")
        return done.out

    return call


@pytest.fixture
def error_of(run: Callable[..., CommandResult]) -> Callable[..., str]:
    """The one-line error message of a command that fails."""

    def call(*arguments: object) -> str:
        done = run(*arguments)
        assert (done.code, done.raw) == (2, b"")
        assert done.err.startswith("error: ")
        assert done.err.count("\n") == 1, done.err
        return done.err.removeprefix("error: ").rstrip()

    return call
