"""Commands that read and write elsewhere; what they print shows no password."""

import sqlite3

import polars as pl
import pytest

from tastespace.store import load

COLUMNS = ("--user", "who", "--item", "what")
SECRET = "hunter2x"


@pytest.fixture
def database(shop, tmp_path):
    """The clicks of the shop in a file of SQLite."""
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as opened:
        for table, file in (("clicks", pl.read_parquet(shop.clicks)), ("later", pl.read_csv(shop.later))):
            opened.execute(f"CREATE TABLE {table} (who TEXT, what TEXT)")
            opened.executemany(f"INSERT INTO {table} VALUES (?, ?)", file.select("who", "what").rows())
    opened.close()
    return f"sqlite://{path}"


def test_fit_update_and_evaluate_read_queries(run, shop, database):
    done = run("fit", database, "--query", "SELECT who, what FROM clicks", *COLUMNS, "--out", "q.model", "--card",
               "--model", "ease", "--valid", 0)  # fmt: skip
    assert done.code == 0, done.err
    assert load("q.model").train_.fingerprint() == load(shop.model).train_.fingerprint()
    later = ("--query", "SELECT who, what FROM later")
    done = run("evaluate", "q.model", database, *later, *COLUMNS, "-k", 5, "--format", "csv")
    assert (done.code, done.out) == (
        0,
        run("evaluate", "q.model", shop.later, *COLUMNS, "-k", 5, "--format", "csv").out,
    )
    done = run("update", "q.model", database, *later, *COLUMNS, "--out", "q.model")
    assert done.code == 0, done.err
    assert load("q.model").train_.n_interactions > load(shop.model).train_.n_interactions
    done = run("update", "q.model", database, "--query", "SELECT who, what FROM later WHERE 0", *COLUMNS, "--out", "x")
    assert done.code == 2
    assert "the query returned no rows" in done.err
    assert "--query" in run("fit", database, "--out", "x").err


def test_folders_of_parquet_files(run, shop, tmp_path):
    later = pl.read_csv(shop.later)
    for at, part in enumerate((later[:20], later[20:])):
        (tmp_path / "log" / f"day={at}").mkdir(parents=True)
        part.write_parquet(tmp_path / "log" / f"day={at}" / "0.parquet")
    flags = (*COLUMNS, "-k", 5, "--format", "csv")
    done = run("evaluate", shop.model, "log", *flags)
    assert (done.code, done.out) == (0, run("evaluate", shop.model, shop.later, *flags).out), done.err
    assert run("update", shop.model, "log", *COLUMNS, "--out", "l.model").code == 0
    assert load("l.model").train_.n_interactions == load(shop.model).train_.n_interactions + later.height


def test_nothing_prints_a_password(run, shop, tmp_path):
    address = f"postgresql://ann:{SECRET}@127.0.0.1:1/shop"
    query = ("--query", "SELECT 1")
    for command in (
        ("fit", address, *query, "--out", "x.model", "--model", "ease"),
        ("fit", address, *query, "--out", "x.model", "--print-config"),
        ("fit", shop.clicks, *COLUMNS, "--items", address, "--out", "x.model"),
        ("update", shop.model, address, *query, "--out", "x.model"),
        ("update", shop.model, "--feedback", address, "--out", "x.model", "--print-config"),
        ("evaluate", shop.model, address, *query),
        ("tune", address, *query, "--model", "ease"),
        ("recommend", shop.model, "--to", address),
        ("recommend", shop.model, "--to", address, "--out", "lists.csv"),
        ("recommend", shop.model, "--to", f"redis://:{SECRET}@127.0.0.1:1/0"),
        ("recommend", shop.model, "--out", address),
        ("fit", shop.clicks, *COLUMNS, "--out", address, "--model", "ease"),
    ):
        done = run(*command)
        assert SECRET not in done.out + done.err, command
        assert done.code == (0 if "--print-config" in command else 2), (command, done.err)
    assert not any(path.name.startswith("postgresql") for path in tmp_path.iterdir())
