"""`tastespace fit` with data in files, on partitions of the users."""

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import tastespace as ts
from tastespace.cli.app import app


@pytest.fixture
def clicks(parts, tmp_path):
    rows = parts[0].to_frame()
    (tmp_path / "clicks").mkdir()
    for number in range(2):
        rows[number::2].write_parquet(tmp_path / "clicks" / f"{number}.parquet")
    return tmp_path / "clicks"


def run(*arguments):
    done = CliRunner().invoke(app, ["fit", *map(str, arguments)])
    return done.exit_code, done.output + (str(done.exception) if done.exception else "")


SMALL = ("--set", "dim=4", "--set", "epochs=2")


def test_a_pattern_and_a_folder_spilled_or_not_give_the_same_model(clicks, parts, tmp_path):
    spilled = ("--spill", tmp_path / "spill", "--memory", "64MB")
    for name, data, more in (("a", clicks / "*.parquet", ()), ("b", clicks, spilled)):
        code, output = run(data, "--out", tmp_path / name, "--model", "cml", "--valid", 0, *SMALL, *more)
        assert code == 0, output
    one, other = (ts.load(tmp_path / name) for name in "ab")
    assert one.train_.fingerprint() == other.train_.fingerprint() == parts[0].fingerprint()
    np.testing.assert_array_equal(one.user_vectors_, other.user_vectors_)


def test_a_cluster_is_the_model_on_partitions(clicks, parts, tmp_path):
    how = ("--cluster", "inline", "--partitions", 3, "--rounds", 2, "--cluster-storage", tmp_path / "run")
    code, output = run(clicks / "*.parquet", "--out", tmp_path / "m", "--valid", 0, *SMALL, *how)
    assert code == 0, output
    options = ts.cluster.ClusterOptions("inline", partitions=3, rounds_per_epoch=2)
    expected = ts.DPCML(dim=4, epochs=2).fit(parts[0], cluster=options)
    np.testing.assert_array_equal(ts.load(tmp_path / "m").user_vectors_, expected.user_vectors_)
    assert (tmp_path / "run" / "final" / "run.json").exists()
    code, output = run(clicks, "--out", tmp_path / "n", *SMALL, *how[:-2], "--compress")  # measured on a part first
    assert code == 0, output
    assert "NDCG@10" in output


def test_flags_that_do_not_fit_together(clicks, tmp_path):
    code, output = run(clicks, "--out", tmp_path / "m", "--model", "ease", "--cluster", "inline")
    assert code
    assert "EASE cannot be trained on a cluster" in output
    code, output = run(clicks, "--out", tmp_path / "m", "--partitions", 3)
    assert code
    assert "--partitions without --cluster" in output
    code, output = run(clicks, "--out", tmp_path / "m", "--compress")
    assert code
    assert "--compress without --cluster" in output
    (tmp_path / "empty").mkdir()
    code, output = run(tmp_path / "empty", "--out", tmp_path / "m")
    assert code
    assert "folder without Parquet files" in output
    assert not (tmp_path / "m").exists()
    pl.DataFrame({"user": [1]}).write_parquet(clicks / "2.parquet")
    code, output = run(clicks, "--out", tmp_path / "m")
    assert code
    assert "2.parquet has no column 'item'" in output
