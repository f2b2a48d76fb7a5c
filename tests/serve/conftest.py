"""What tests of the server share: small models, an application with a client, a server in a process of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from starlette.testclient import TestClient
from tests.postgresql import binaries, running_postgresql
from tests.required_services import skip_without_service

import tastespace as ts
from tastespace.serve.app import create_app
from tastespace.serve.settings import Limits, ServerSettings

START_SECONDS = 60
PATIENT = Limits(seconds=300.0, read_seconds=300.0)  # a busy machine is no reason to fail


@pytest.fixture(scope="session")
def town_data(town: Any) -> ts.Interactions:
    """The town, with years and titles, one of them with HTML and control characters, and names of users."""
    data = town.interactions
    titles = [f"Film no. {n}" for n in range(data.n_items)]
    titles[3] = "<script>alert('3')</script> \x00\x1b[31m \u2028 \U0001f3ac"
    attributes = data.item_attributes.with_columns(
        pl.Series("title", titles), pl.Series("year", [1950 + n % 70 for n in range(data.n_items)])
    )
    people = pl.DataFrame({"user": data.users.series, "name": [f"Person {n}" for n in range(data.n_users)]})
    return replace(data, item_attributes=attributes, user_attributes=people)


@pytest.fixture(scope="session")
def saved_models(town_data: ts.Interactions, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models of different kinds on disk: several interests, linear, without fold-in, with ids that are text."""
    folder = tmp_path_factory.mktemp("models")
    text = ts.Interactions.from_frame(
        pl.DataFrame(town_data.to_frame()).with_columns(
            ("u/" + pl.col("user").cast(pl.String)).alias("user"), ("i " + pl.col("item").cast(pl.String)).alias("item")
        )
    )
    models = {
        # In the paper's form vectors stand apart after three epochs: each interest has a shelf of its own.
        "dpcml": ts.DPCML(**ts.DPCML.paper_form(), dim=8, n_interests=3, epochs=3, learning_rate=0.1, seed=1).fit(
            town_data
        ),
        "anchored": ts.DPCML(dim=8, n_interests=3, epochs=3, anchor=0.5, seed=1).fit(town_data),
        "ease": ts.EASE().fit(town_data),
        "popular": ts.MostPopular().fit(town_data),
        "text": ts.DPCML(dim=8, n_interests=2, epochs=2, seed=1).fit(text),
    }
    models["blend"] = ts.Blend.of([models["anchored"], models["ease"]], [0.5, 0.5])
    for name, model in models.items():
        model.save(folder / f"{name}.model", metrics={"NDCG@10": 0.5})
    return {name: folder / f"{name}.model" for name in models}


@pytest.fixture
def model_at(saved_models: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a saved model that a test may change."""

    def copied(name: str = "dpcml", as_name: str | None = None) -> Path:
        target = tmp_path / "models" / f"{as_name or name}.model"
        if not target.exists():
            shutil.copytree(saved_models[name], target)
        return target

    return copied


@pytest.fixture
def client_of(model_at: Callable[..., Path]) -> Iterator[Callable[..., TestClient]]:
    """A client of an application in this process, with a store of its own."""
    with contextlib.ExitStack() as opened:

        def make(name: str = "dpcml", **settings: Any) -> TestClient:
            given = {"watch_seconds": 0.0, "limits": PATIENT, "impressions": False, **settings}  # answers are compared
            app = create_app(ServerSettings(model_at(name), **given))
            return opened.enter_context(TestClient(app, raise_server_exceptions=False))

        yield make


@pytest.fixture(scope="session")
def shared_client(saved_models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client for tests that change nothing."""
    store = str(tmp_path_factory.mktemp("shared") / "feedback.sqlite")
    settings = ServerSettings(saved_models["dpcml"], store=store, watch_seconds=0.0, limits=PATIENT, impressions=False)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def client(client_of: Callable[..., TestClient]) -> TestClient:
    """A client of a server of the model with interests."""
    return client_of()


class RunningServer:
    """`tastespace serve` in a process of its own."""

    def __init__(self, *arguments: Any, env: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-c", "from tastespace.cli import main; main()", "serve", *map(str, arguments)]
        self.process = subprocess.Popen(
            [*command, "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "serving" in line, line + self.process.stdout.read()
        self.address = line.split()[-1].rstrip("/")
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.address}/health/ready", timeout=5).status_code == 200:
                    return
            time.sleep(0.05)
        raise AssertionError("the server did not become ready")

    def stop(self) -> str:
        """End the server as an operator does, and give what it printed."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.communicate(timeout=40)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def kill(self) -> None:
        """End the server at once, as a power cut would."""
        self.process.kill()
        self.process.communicate(timeout=20)


@pytest.fixture
def running() -> Iterator[Callable[..., RunningServer]]:
    """Starts servers, and ends those that are left."""
    started: list[RunningServer] = []

    def start(*arguments: Any, **options: Any) -> RunningServer:
        started.append(RunningServer(*arguments, **options))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.kill()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Callable[[], str]]:
    """A real PostgreSQL of its own; gives addresses of new, empty databases."""
    pytest.importorskip("psycopg")
    if binaries() is None:
        skip_without_service("PostgreSQL is not installed (.ci/install-services)")
    with running_postgresql() as new_database:
        yield new_database
