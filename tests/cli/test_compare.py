"""`tastespace compare`: models side by side on a file."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import tastespace as ts

COLUMNS = ("--user", "who", "--item", "what")


@pytest.fixture(scope="module")
def timed(shop, tmp_path_factory):
    rows = pl.read_parquet(shop.clicks)
    order = np.random.default_rng(5).permutation(len(rows))
    path = tmp_path_factory.mktemp("timed") / "timed.csv"
    rows.with_columns(t=1_600_000_000 + 3600 * pl.Series(order)).write_csv(path)
    return path


def test_rows_are_those_of_cross_validate(run, timed):
    flags = (
        "--models",
        "popular,ease",
        "--timestamp",
        "t",
        "--windows",
        2,
        "--metric",
        "NDCG@10",
        "--metric",
        "Gini@5",
    )
    done = run("compare", timed, *COLUMNS, *flags)
    assert done.code == 0, done.err
    rows = pl.read_csv(done.raw)
    data = ts.Interactions.from_file(timed, user="who", item="what", timestamp="t")
    found = ts.cross_validate(["popular", "ease"], data, ts.split.rolling(data, 2), ["NDCG@10", "Gini@5"])
    assert rows["mean"].to_list() == pytest.approx(found.to_frame()["mean"].to_list())
    assert rows["metric"].to_list() == ["Gini@5", "NDCG@10"] * 2  # by the length of list, as in every report
    assert rows["p"].null_count() == 3  # the reference, and Gini, which is no value of a user
    assert f"tested against {found.reference}" in done.err


def test_a_table_for_people_and_the_recipe_as_a_model(run, shop):
    done = run(
        "compare", shop.clicks, *COLUMNS, "--models", "popular,recipe", "--minutes", "0.02", "--format", "table",
        "--metric", "NDCG@10", "--metric", "Coverage@10",
    )  # fmt: skip
    assert done.code == 0, done.err
    for part in ("recipe", "popular", "NDCG@10", "Coverage@10 [share of the catalog]", "1 window, 60 users"):
        assert part in done.out


def test_folds_without_times(run, shop):
    done = run("compare", shop.clicks, *COLUMNS, "--models", "popular,itemknn", "--windows", 3, "--out", "rows.json")
    assert done.code == 0, done.err
    assert set(pl.read_json("rows.json")["windows"]) == {3}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--models", "popular,eese"), "Did you mean ease"),
        (("--models", ","), "expected names joined by commas"),
        (("--models", "ease,ease"), "ease is there twice"),
        (("--models", "ease", "--metric", "NCDG@10"), "Did you mean NDCG"),
        (("--models", "ease", "--metric", "InterestCoverage@5"), "ease: "),
        (("--models", "ease", "--windows", "0"), "--windows 0"),
        (("--models", "ease", "--test-span", "7d"), "give --timestamp as well"),
        (("--models", "ease", "--reference", "als"), "--reference als"),
        (("--models", "ease", "--min-history", "4"), "--min-history 4: give --timestamp"),
        (("--models", "ease", "--timestamp", "t", "--windows", "2", "--test-share", "0.6"), "leaves something before"),
        (("--models", "ease", "--timestamp", "t", "--test-span", "9y"), "no interactions before the first window"),
    ],
)
def test_what_cannot_be_compared_is_refused(run, shop, timed, flags, message):
    done = run("compare", timed if "--timestamp" in flags else shop.clicks, *COLUMNS, *flags)
    assert done.code == 2
    assert message in done.err.splitlines()[-1]
