"""Flags that say how tables are written, notes about their rows, and histories with commas."""

import pytest

import tastespace as ts

EASE = ("--model", "ease", "--valid", "0", "--threads", "1")
PAIRS = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("bob", "rye, dark"), ("cat", "jam"), ("cat", "Käse")]


@pytest.fixture
def fit(run, tmp_path):
    def call(text, *flags, encoding="utf-8", name="clicks.csv"):
        (tmp_path / name).write_bytes(text.encode(encoding))
        done = run("fit", name, "--out", "a.model", *EASE, *flags)
        assert (done.code, done.raw) == (0, b""), done.err
        return ts.load("a.model"), done.err

    return call


def table(delimiter, header=None, pairs=PAIRS):
    quoted = [[f'"{one}"' if delimiter in one else one for one in pair] for pair in pairs]
    return "".join(f"{delimiter.join(row)}\n" for row in ([] if header is None else [header]) + quoted)


def test_delimiter_and_encoding(fit):
    model, _ = fit(table(";", ["user", "item"]), "--delimiter", ";", "--encoding", "cp1252", encoding="cp1252")
    assert model.train_.items.series.to_list() == ["Käse", "jam", "rye, dark", "tea"]
    model, _ = fit(table("\t", ["user", "item"]), "--delimiter", "tab")
    assert model.train_.n_items == 4
    model, _ = fit(table("~", ["user", "item"]), "--delimiter", "~")
    assert model.train_.items_of("bob") == ["rye, dark", "tea"]


def test_the_encoding_is_named(run, tmp_path):
    (tmp_path / "a.csv").write_bytes(table(";", ["user", "item"]).encode("cp1252"))
    done = run("fit", "a.csv", "--out", "a.model", *EASE)
    assert done.code == 2
    assert "most likely cp1252" in done.err
    assert "--encoding cp1252" in done.err


def test_columns_by_number(fit, error_of):
    model, _ = fit(table(";"), "--no-header")  # users first, items second
    assert model.train_.users.series.to_list() == ["ann", "bob", "cat"]
    model, _ = fit(table(";"), "--no-header", "--user", "2", "--item", "1")
    assert model.train_.users.series.to_list() == ["Käse", "jam", "rye, dark", "tea"]
    message = error_of("fit", "clicks.csv", "--out", "b.model", "--no-header", "--user", "who", *EASE)
    assert "--user who: with --no-header columns are numbers" in message


def test_the_id_column_of_the_items(fit, error_of, tmp_path):
    (tmp_path / "items.csv").write_text("sku,item,title\ntea,5,Tea\njam,6,Jam\n")
    model, _ = fit(table(";", ["user", "item"]), "--items", "items.csv", "--items-id", "sku", "--delimiter", ";")
    assert model.train_.item_attributes.filter(ts.data.interactions.pl.col("item") == "tea")["title"].to_list() == [
        "Tea"
    ]
    message = error_of("fit", "clicks.csv", "--out", "b.model", "--items", "items.csv", "--items-id", "skv", *EASE)
    assert (
        message
        == "--items-id skv: items.csv has no such column; its columns are 'sku', 'item', 'title'. Did you mean sku?"
    )
    assert "give that file" in error_of("fit", "clicks.csv", "--out", "b.model", "--items-id", "sku", *EASE)


def test_notes(fit):
    header = ["user", "item", "time"]
    rows = [(*pair, "01/02/2024") for pair in PAIRS]
    _, messages = fit(table(";", header, [*rows, *rows[:2]]), "--timestamp", "time")
    assert "note: 2 of 8 rows repeat a pair of user and item, which counts once." in messages
    assert "can be read in two ways. Taken as day/month/year: 1 February" in messages.replace("\n", " ")
    _, messages = fit(table(";", header, rows), "--timestamp", "time", "--date-format", "%m/%d/%Y")
    assert "note:" not in messages
    assert "two ways" not in messages


def test_several_files(run, fit, tmp_path):
    (tmp_path / "more.csv").write_text("user,item\ndan,tea\ndan,jam\n")
    model, _ = fit(table(",", ["user", "item"]), "more.csv")
    assert model.train_.users.series.to_list() == ["ann", "bob", "cat", "dan"]


def test_evaluate_reads_the_same_flags(fit, run, tmp_path):
    fit(table(";", ["user", "item"]))
    (tmp_path / "later.csv").write_bytes("bob~Käse\nann~rye, dark\nann~rye, dark\n".encode("cp1252"))
    (tmp_path / "items.csv").write_bytes("sku,genres\ntea,drink\njam,sweet\nKäse,salty\n".encode("cp1252"))
    flags = ("--no-header", "--delimiter", "~", "--encoding", "cp1252", "--items", "items.csv", "--items-id", "sku")
    done = run("evaluate", "a.model", "later.csv", *flags, "-k", "2", "--metric", "R@2", "--metric", "CategoryILD@2")
    assert (done.code, done.out.count("\n")) == (0, 3), done.err
    assert "note: 1 of 3 rows repeat" in done.err


def test_histories_with_commas(fit, stdout_of, error_of, tmp_path):
    fit(table(";", ["user", "item"]))
    one = stdout_of("recommend", "a.model", "--history", '"rye, dark",tea', "-k", "1")
    (tmp_path / "h.txt").write_text('"rye, dark",tea\njam\n')
    both = stdout_of("recommend", "a.model", "--history-file", "h.txt", "-k", "1")
    assert both.splitlines()[:2] == one.splitlines()
    assert len(both.splitlines()) == 3
    (tmp_path / "h.txt").write_bytes("Käse;jam\n".encode("cp1252"))
    flags = ("--history-file", "h.txt", "--delimiter", ";", "--encoding", "cp1252")
    assert stdout_of("recommend", "a.model", *flags, "-k", "1").startswith("user,item,rank,score\n0,tea,1,")
    assert "stands in quotes" in error_of("recommend", "a.model", "--history", '"rye, dark')
    assert "most likely cp1252" in error_of("recommend", "a.model", "--history-file", "h.txt")
    assert "are for the files" in error_of("recommend", "a.model", "ann", "--delimiter", ";")


def test_a_user_who_has_every_item(fit, run):
    items = sorted({item for _, item in PAIRS})
    fit(table(";", ["user", "item"], [*PAIRS, *(("all", item) for item in items)]))
    done = run("recommend", "a.model", "all")
    assert done.code == 0
    assert done.err == (
        "note: nothing is left to recommend to user 'all', who has every item. --include-seen recommends items that a "
        "user has, too.\n"
    )
    assert run("recommend", "a.model", "all", "--include-seen").err == ""
    done = run("recommend", "a.model", "ann", "--item", "tea")
    assert "user 'ann', who has every item that --item leaves" in done.err
    assert "user 'all'" in run("recommend", "a.model", "-k", "1").err


def test_arguments_that_are_no_text(fit, error_of):
    fit(table(";", ["user", "item"]))
    assert "is no valid text" in error_of("recommend", "a.model", "\udcff")
    assert "no such file" in error_of("fit", "\udcff.csv", "--out", "b.model", *EASE)
    assert "--threads 50000: at most" in error_of("recommend", "a.model", "ann", "--threads", "50000")
