"""A user's session from one end to the other."""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest


def test_from_clicks_to_recommendations_reasons_figures_and_files(run, shop):
    def ask(*arguments):
        done = run(*arguments)
        assert (done.code, done.err) == (0, ""), done.err
        return done.out

    fitted = run(
        "fit", shop.clicks_csv, "--user", "who", "--item", "what", "--items", shop.items, "--out", "my.model",
        "--model", "dpcml", "--set", "dim=8", "--set", "epochs=3",
    )  # fmt: skip
    assert (fitted.code, fitted.out) == (0, "")
    assert "60 users x 50 items" in fitted.err
    assert "saved DPCML" in fitted.err

    rows = pl.read_csv(ask("recommend", "my.model", "u07", "-k", 5).encode())
    assert rows["user"].unique().to_list() == ["u07"]
    assert rows["rank"].to_list() == [1, 2, 3, 4, 5]
    first = rows["item"][0]

    reason = json.loads(ask("explain", "my.model", "u07", first))
    assert (reason["rank"], reason["seen"], reason["interest"]) == (1, False, rows["interest"][0])

    shelved = pl.read_csv(ask("shelves", "my.model", "u07").encode())
    assert first in shelved.filter(rank=1)["item"].to_list()
    weights = pl.read_csv(ask("interests", "my.model", "u07").encode())["weight"]
    assert weights.sum() == pytest.approx(1)

    like = pl.read_csv(ask("similar", "my.model", first, "-k", 3).encode())
    assert first not in like["similar"].to_list()
    people = pl.read_csv(ask("similar", "my.model", "u07", "--users", "-k", 3).encode())
    assert people["similar"].str.starts_with("u").all()

    metrics = pl.read_csv(ask("evaluate", "my.model", shop.later, "--user", "who", "--item", "what").encode())
    assert set(metrics["users"]) == {60}

    assert ask("export", "my.model", "vectors.npz") == "vectors.npz\n"
    with np.load("vectors.npz") as arrays:
        assert any(array.shape == (50, 8) for array in arrays.values())

    assert ask("map", "my.model", "u07", "--out", "map.svg") == "map.svg\n"
    assert json.loads(ask("inspect", "my.model", "--verify"))["interactions"] == pl.read_csv(shop.clicks_csv).height


def test_a_closed_pipe_is_no_error(shop):
    command = f"recommend {shop.model} -k 50 --include-seen --format json"  # more than a pipe holds
    pipe = f"{sys.executable} -c 'from tastespace.cli import main; main()' {command} | head -c 10"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", pipe], capture_output=True, text=True)
    assert (done.returncode, done.stderr, len(done.stdout)) == (0, "", 10)


def test_data_goes_to_stdout_and_messages_to_stderr(shop):
    assert shop.fitting.returncode == 0, shop.fitting.stderr
    assert shop.fitting.stdout == ""
    output = shop.fitting.stderr.splitlines()
    rows = [line.split()[0] for line in output]  # six epochs are few: a warning says so
    assert (rows[0], rows[-1]) == ("clicks.parquet:", "saved")
    assert "on" in rows
    table = shop.fitting.stderr
    assert all(name in table for name in ("MostPopular", "EASE", "NDCG@10"))  # what the figures compare with
    assert "\x1b" not in shop.fitting.stderr
