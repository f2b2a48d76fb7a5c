"""`tastespace evaluate`, `export` and `inspect`."""

import json
import shutil

import numpy as np
import polars as pl
import pytest

import tastespace as ts

COLUMNS = ("--user", "who", "--item", "what")


def test_figures_are_the_librarys(stdout_of, shop):
    rows = pl.read_csv(
        stdout_of("evaluate", shop.model, shop.later, *COLUMNS, "--metric", "NDCG", "-k", 5, "-k", 7).encode()
    )
    held_out = ts.Interactions.from_file(shop.later, user="who", item="what", threads=1)
    expected = ts.evaluate(ts.load(shop.model), held_out, k=[5, 7], metrics=["NDCG"], threads=1)
    assert dict(rows.select("metric", "value").rows()) == pytest.approx(dict(expected.metrics))
    assert rows["metric"].to_list() == ["NDCG@5", "NDCG@7"]


def test_metrics_as_a_table_and_in_json(stdout_of, shop):
    rows = json.loads(
        stdout_of("evaluate", shop.model, shop.later, *COLUMNS, "--protocol", "paper", "--format", "json")
    )
    table = stdout_of("evaluate", shop.model, shop.later, *COLUMNS, "--protocol", "paper", "--format", "table")
    for row in rows:
        assert row["metric"] in table
        assert f"{row['value']:.2f}" in table


def test_ids_of_a_later_file_may_look_like_another_type(run, stdout_of, tmp_path):
    def write(name, *rows):
        (tmp_path / name).write_text("\n".join(["user,item", *rows]), encoding="utf-8")

    write("clicks.csv", *(f"{user},{item}" for user in ("1", "2", "x") for item in ("10", "11", "y")), "2,12", "1,13")
    flags = ("--model", "ease", "--out", "a.model", "--valid", "0")
    assert run("fit", "clicks.csv", *flags).code == 0
    write("later.csv", "1,12", "2,13")  # whole numbers, where the model has text
    assert "MRR,1.0,fraction,2\n" in stdout_of("evaluate", "a.model", "later.csv")

    write("clicks.csv", *(f"{user},{item}" for user in (1, 2, 3) for item in (10, 11)), "2,12", "1,13")
    assert run("fit", "clicks.csv", *flags).code == 0
    pl.DataFrame({"user": ["1", "2"], "item": ["12", "13"]}).write_parquet(
        "later.parquet"
    )  # text, where it has numbers
    assert "MRR,1.0,fraction,2\n" in stdout_of("evaluate", "a.model", "later.parquet")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--user", "woh"), "has no column 'woh'"),
        (("--metric", "NDGC"), "Did you mean NDCG"),
        (("--protocol", "papre"), "Did you mean paper"),
        (("-k", "0"), "k=0: expected a length of list"),
        (("--on-unknown", "ignore"), "on_unknown='ignore'"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(error_of, shop, flags, message):
    assert message in error_of("evaluate", shop.model, shop.later, *COLUMNS, *flags)


def test_unknown_ids_in_the_test_are_an_error_or_skipped(stdout_of, error_of, shop, tmp_path):
    more = tmp_path / "more.csv"
    more.write_text(shop.later.read_text(encoding="utf-8") + "zoe,i03\n", encoding="utf-8")
    assert "1 users and 0 items that the model has never seen (for example 'zoe')" in error_of(
        "evaluate", shop.model, more, *COLUMNS
    )
    without = stdout_of("evaluate", shop.model, shop.later, *COLUMNS)
    assert stdout_of("evaluate", shop.model, more, *COLUMNS, "--on-unknown", "skip") == without


def test_a_test_that_was_seen_gives_a_warning(run, shop):
    done = run("evaluate", shop.model, shop.clicks, *COLUMNS)
    assert (done.code, done.raw) == (2, b"")
    warned, error = done.err.splitlines()
    assert warned.startswith("warning: ")
    assert "are among the seen ones" in warned
    assert error.startswith("error: ")


def test_vectors_are_exported_and_the_files_named(stdout_of, shop, tmp_path):
    space = ts.load(shop.model).vectors()
    assert stdout_of("export", shop.model, "vectors.npz") == "vectors.npz\n"
    with np.load("vectors.npz") as arrays:
        assert any(np.array_equal(one, space.item_vectors) for one in arrays.values())
        assert any(np.array_equal(one, space.user_vectors) for one in arrays.values())
    named = stdout_of("export", shop.model, "folder", "--kind", "parquet").splitlines()
    assert named
    assert all((tmp_path / name).is_file() for name in named)
    tables = [pl.read_parquet(name) for name in named if name.endswith(".parquet")]
    assert sorted(len(table) for table in tables) == sorted([50, len(space.user_vectors)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("vectors", "--kind", "parqet"), "Did you mean parquet?"),
        (("/proc/none/vectors.npz",), "could not be written"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_line(error_of, shop, words, message):
    assert message in error_of("export", shop.model, *words)


def test_inspect_tells_what_is_in_a_model(stdout_of, shop):
    facts = json.loads(stdout_of("inspect", shop.model))
    assert (facts["class"], facts["users"], facts["items"], facts["dimension"]) == ("dpcml", 60, 50, 8)
    assert facts["parameters"]["dim"] == 8
    assert set(facts["metrics"]) == {"P@10", "R@10", "NDCG@10", "MRR"}
    assert facts == json.loads(stdout_of("inspect", shop.model, "--verify", "--format", "json"))
    table = stdout_of("inspect", shop.model, "--format", "table")
    for word in ("dpcml", "dim: 8", "NDCG@10: ", f"{facts['interactions']:,}", facts["fingerprint"]):
        assert word in table


def test_inspect_has_two_formats(error_of, shop):
    assert "--format csv: inspect supports table and json" in error_of("inspect", shop.model, "--format", "csv")


def test_verify_reads_every_byte(stdout_of, error_of, shop, tmp_path):
    copy = tmp_path / "copy.model"
    shutil.copytree(shop.model, copy)
    weights = next(copy.glob("learned-*"))
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(raw)
    assert json.loads(stdout_of("inspect", copy))["class"] == "dpcml"
    assert "is damaged" in error_of("inspect", copy, "--verify")


def test_a_model_that_is_not_there(error_of, shop):
    for words in (("inspect",), ("export", "a.npz"), ("evaluate", shop.later)):
        assert "no such directory" in error_of(words[0], "none.model", *words[1:])
