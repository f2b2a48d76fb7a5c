"""`tastespace tune` on a file of one's own; `run` on files. Methods of the paper: tests/paper/test_tuning.py."""

from __future__ import annotations

import json
import shlex

import polars as pl
import pytest
from tests.models.formulas import plain_ease

import tastespace as ts

COLUMNS = ("--user", "who", "--item", "what")


def test_what_a_search_finds_is_what_fit_takes(run, shop, tmp_path):
    done = run("tune", shop.clicks, *COLUMNS, "--model", "ease", "--trials", 3, "--out", "params.toml")
    assert done.code == 0, done.err
    rows = pl.read_csv(done.raw)
    assert rows.columns == ["trial", "NDCG@10", "seconds", "best_epoch", "parameters"]
    assert len(rows) == 3
    assert "best so far" in done.err
    fit = shlex.split(done.err.split("fit it with: tastespace ")[1].splitlines()[0].replace("MODEL", "b.model"))
    assert run(*fit).code == 0, "the command that is shown works, with the columns of the table"
    best = json.loads(rows.sort("NDCG@10", descending=True)["parameters"][0])
    assert run("fit", shop.clicks, *COLUMNS, "--params", "params.toml", "--out", "a.model").code == 0
    assert ts.load("a.model").regularization == best["regularization"]
    again = run("tune", "--dataset", shop.clicks, *COLUMNS, "--model", "ease", "--trials", 4, "--out", "params.toml")
    assert again.err.count("journal  regularization") == 3, "the trials of the journal are not made again"
    assert pl.read_csv(again.raw)["NDCG@10"].to_list()[:3] == rows["NDCG@10"].to_list()
    assert (tmp_path / "params.toml.journal").exists()


def test_a_table_for_people(run, shop):
    done = run(
        "tune", shop.clicks, *COLUMNS, "--model", "itemknn", "--trials", 2, "--metric", "R@5", "--format", "table"
    )
    assert "2 trials of itemknn, the best 2" in done.out
    assert "n_neighbors=" in done.out
    assert "itemknn: R@5 0." in done.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--trials", "1"), "give --model NAME"),
        (("--model", "ease", "--method", "ease"), "give --model NAME"),
        (("--method", "apa+hars"), "For a file of your own give --model NAME"),
        (("--model", "eese"), "Did you mean ease"),
        (("--model", "ease", "--set", "regulation=3"), "EASE has no parameter 'regulation'"),
        (("--model", "ease", "--metric", "NCDG@10"), "Did you mean NDCG"),
        (("--model", "ease", "--split", "tmie"), "--split tmie"),
        (("--model", "ease", "--split", "time"), "the data has no timestamps"),
        (("--model", "ease", "--trials", "0"), "--trials 0"),
        (("--model", "ease", "--minutes", "0"), "--minutes 0.0"),
        (("--model", "ease", "--store"), "are for --method; for --model give --out FILE"),
        (("--model", "ease", "--dataset", "town"), "given the data twice"),
        (("--model", "ease", "--half-life", "9d"), "give --timestamp as well"),
    ],
)
def test_what_cannot_be_searched_is_refused(run, shop, flags, message):
    done = run("tune", shop.clicks, *COLUMNS, *flags)
    assert done.code == 2
    assert message in done.err.splitlines()[-1]


def test_no_data_and_no_file(error_of):
    assert "given no data" in error_of("tune", "--model", "ease")
    assert "no such file" in error_of("tune", "nothing.tsv", "--model", "ease")


def test_run_takes_a_file(run, shop, error_of):
    done = run("run", shop.clicks, *COLUMNS, "--model", "ease", "--metric", "P@3", "--protocol", "full")
    assert done.code == 0, done.err
    whole = ts.Interactions.from_file(shop.clicks, user="who", item="what")
    train, valid, test = ts.split.per_user(whole, (0.6, 0.2, 0.2), seed=0)
    report = ts.evaluate(plain_ease().fit(train), test, seen=[train, valid], metrics="P@3").in_percent()
    assert json.loads(done.out)["metrics"] == {"P@3": pytest.approx(report["P@3"])}
    assert "--method NAME" in error_of("run", shop.clicks, *COLUMNS)
