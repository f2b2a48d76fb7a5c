"""`tastespace update`."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.errors import DataError

COLUMNS = ("--user", "who", "--item", "what")


@pytest.fixture
def update(run, shop):
    """Update the shop's model with these rows; gives the opened model and the messages."""

    def call(rows, *flags, model=shop.model, out="new.model"):
        pl.DataFrame(rows).write_csv("new.csv")
        done = run("update", model, "new.csv", *COLUMNS, "--out", out, *flags)
        assert (done.code, done.raw) == (0, b""), done.err
        return ts.load(out), done.err

    return call


def test_new_users_items_rows_and_repeats_are_counted_and_learned(update, shop):
    old = ts.load(shop.model)
    known = old.train_.items_of("u05")[0]
    other = next(item for item in old.train_.items.series if item not in old.train_.items_of("u05"))
    rows = {"who": ["u05", "u05", "u05", "zoe", "zoe"], "what": [known, other, other, "i07", "new"]}
    model, messages = update(rows)
    assert "added 3 new interactions, 1 new users, 1 new items; 1 interactions were known" in messages
    assert "1 rows repeated in the file" in messages
    assert "updated in " in messages
    assert "DPCML(" in messages
    assert "61 users x 51 items" in messages
    assert "saved to new.model" in messages
    assert other in model.train_.items_of("u05")
    assert len(model.recommend("zoe", k=3)) == 3
    assert ts.load(shop.model).train_.n_interactions == old.train_.n_interactions  # the old file stays as it was


def test_one_new_row_and_known_rows(update, shop):
    old = ts.load(shop.model)
    model, messages = update({"who": ["zoe"], "what": ["i07"]})
    assert "added 1 new interactions, 1 new users" in messages
    row = {"who": ["u05"], "what": [old.train_.items_of("u05")[0]]}
    model, messages = update(row, out="same.model")
    assert "added nothing: all 1 interactions were known" in messages
    assert "kept as it was" in messages
    assert model.train_.fingerprint() == old.train_.fingerprint()
    assert model.recommend("u05", k=5).equals(old.recommend("u05", k=5))


def test_a_blend_says_what_is_fitted_again_and_may_replace_itself(run, update, shop):
    fitted = run("fit", shop.clicks, *COLUMNS, "--out", "b.model", "--model", "blend:als+ease", "--valid", 0)
    assert fitted.code == 0, fitted.err
    model, messages = update({"who": ["zoe", "u01"], "what": ["i07", "new"]}, model="b.model", out="b.model")
    assert "fitted again, because a new interaction changes all of them: EASE" in messages
    assert [type(member).__name__ for member in model.members_] == ["ALS", "EASE"]
    assert model.train_.n_users == 61


def test_ids_as_numbers_become_the_text_of_the_model(run, update):
    pl.DataFrame({"who": ["1", "2", "x"], "what": ["7", "8", "y"], "n": [1.0, 2.0, 3.0]}).write_csv("old.csv")
    flags = ("--model", "als", "--set", "dim=2", "--weight", "n", "--valid", 0)
    assert run("fit", "old.csv", *COLUMNS, "--out", "a.model", *flags).code == 0
    pl.DataFrame({"item": [9], "title": ["nine"]}).write_csv("items.csv")
    model, messages = update(
        {"who": [1, 1], "what": [8, 9], "n": [5.0, 6.0]}, "--weight", "n", "--items", "items.csv", model="a.model"
    )
    assert "added 2 new interactions, 0 new users, 1 new items" in messages
    assert model.train_.items_of("1") == ["7", "8", "9"]
    assert sorted(model.train_.weights.tolist()) == [1.0, 2.0, 3.0, 5.0, 6.0]
    assert model.train_.item_attributes.filter(pl.col("item") == "9")["title"].to_list() == ["nine"]


def test_files_as_fit_reads_them(run, shop):
    old = ts.load(shop.model)
    other = next(item for item in old.train_.items.series if item not in old.train_.items_of("u05"))
    Path("new.txt").write_text(f"01/02/2024|u05|{other}\n01/03/2024|Zoé|neu\n", encoding="cp1252")
    Path("items.csv").write_text("sku;title\nneu;Café\n", encoding="cp1252")
    flags = ("--no-header", "--delimiter", "pipe", "--encoding", "cp1252", "--date-format", "%m/%d/%Y")
    ids = ("--timestamp", 1, "--user", 2, "--item", 3, "--items", "items.csv", "--items-id", "sku")
    done = run("update", shop.model, "new.txt", *ids, *flags, "--out", "new.model")
    assert done.code == 0, done.err
    assert "two ways" not in done.err
    train = ts.load("new.model").train_
    assert other in train.items_of("u05")
    assert train.items_of("Zoé") == ["neu"]
    assert train.item_attributes.filter(pl.col("item") == "neu")["title"].to_list() == ["Café"]


def test_times_and_half_life_continue_those_of_the_model(run, error_of):
    days = [f"2024-01-{day:02d}" for day in range(1, 13)]
    rows = pl.DataFrame({"who": ["a", "b", "c"] * 4, "what": ["x", "y", "z", "z", "x", "y"] * 2, "day": days})
    rows.unique(["who", "what"], keep="first").write_csv("old.csv")
    pl.DataFrame({"who": ["a", "c"], "what": ["y", "x"], "day": ["2024-01-16", "2024-01-26"]}).write_csv("new.csv")
    als = ("--model", "als", "--set", "dim=2", "--valid", 0, "--timestamp", "day")
    assert run("fit", "old.csv", *COLUMNS, *als, "--half-life", "10d", "--out", "h.model").code == 0
    update = ("update", "h.model", "new.csv", *COLUMNS, "--out", "new.model")
    assert "those of a half-life" in error_of(*update, "--timestamp", "day")
    assert "give --timestamp as well" in error_of(*update, "--half-life", "10d")
    done = run(*update, "--timestamp", "day", "--half-life", "10d")
    assert done.code == 0, done.err
    train = ts.load("new.model").train_
    expected = 0.5 ** ((train.timestamps.max() - train.timestamps) / (10 * 86_400 * 1e6)).astype(float)
    np.testing.assert_allclose(train.weights / train.weights.max(), expected, rtol=1e-5)

    assert run("fit", "old.csv", *COLUMNS, *als, "--out", "t.model").code == 0
    update = ("update", "t.model", "new.csv", *COLUMNS, "--out", "new.model")
    done = run(*update)
    assert done.code == 0
    assert "the model's interactions have some, which are dropped" in " ".join(done.err.split())
    assert run("fit", "old.csv", *COLUMNS, *als[:6], "--out", "n.model").code == 0
    without = ("update", "n.model", "new.csv", *COLUMNS, "--timestamp", "day", "--half-life", "10d", "--out", "a.model")
    assert "the model was fitted without times" in error_of(*without)


def test_bad_updates_leave_everything_as_it_was(error_of, run, shop, monkeypatch, tmp_path):
    before = {path.name: path.read_bytes() for path in shop.model.iterdir()}
    pl.DataFrame({"who": ["u01"], "what": ["i07"], "n": [2.0]}).write_csv("new.csv")
    pl.DataFrame({"who": [], "what": []}, schema={"who": pl.String, "what": pl.String}).write_csv("empty.csv")
    assert "no rows" in error_of("update", shop.model, "empty.csv", *COLUMNS, "--out", "a.model")
    assert "has no column 'user'" in error_of("update", shop.model, "new.csv", "--out", "a.model")
    assert "does not use weights" in error_of("update", shop.model, "new.csv", *COLUMNS, "--weight", "n", "--out", "a")
    numbers = ts.EASE().fit(ts.synthetic.multi_interest(n_users=40, n_items=30, n_interactions=300).interactions)
    numbers.save("numbers.model")
    assert "ids have type Int" in error_of("update", "numbers.model", "new.csv", *COLUMNS, "--out", "a.model")
    pl.DataFrame({"who": ["zoe", "u01"], "what": ["i07", "i30"]}).write_csv("good.csv")
    kept = ts.load(shop.model)
    kept.save("kept.model")

    def fail(*_, **__):
        raise DataError("the disk is full")

    monkeypatch.setattr("tastespace.cli.update.updated", fail)
    failed = run("update", shop.model, "good.csv", *COLUMNS, "--out", "kept.model")
    assert failed.code == 2
    assert "error: the disk is full" in failed.err
    assert ts.load("kept.model").train_.fingerprint() == kept.train_.fingerprint()
    assert not (tmp_path / "a.model").exists()
    assert {path.name: path.read_bytes() for path in shop.model.iterdir()} == before
    assert json.loads(run("inspect", shop.model, "--verify").out)["interactions"] == kept.train_.n_interactions
