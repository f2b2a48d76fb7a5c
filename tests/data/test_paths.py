"""A path is a path: names with characters of patterns, and patterns where they are asked for."""

import gzip

import polars as pl
import pytest

import tastespace as ts
from tastespace import Interactions
from tastespace.cli.arguments import read_attributes
from tastespace.errors import DataError, ParameterError

NAMES = ["clicks[1]", "c*", "d[1]/f", "a%20b", "q?", "~x", "{a,b}", "**"]


def write(path, users, ending):
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pl.DataFrame({"user": users, "item": ["a", "b"]})
    if ending == "parquet":
        with path.open("wb") as file:
            frame.write_parquet(file)
    elif ending == "jsonl":
        path.write_text(frame.write_ndjson())
    else:
        path.write_text(frame.write_csv())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_names_are_no_patterns(tmp_path, name, ending):
    decoy = name.replace("[1]", "1").replace("*", "1").replace("?", "1").replace("%20", " ").replace("{a,b}", "a")
    if decoy != name:
        write(tmp_path / f"{decoy}.{ending}", ["other", "others"], ending)
        with pytest.raises(DataError, match="no such file"):
            Interactions.from_file(tmp_path / f"{name}.{ending}")
    write(tmp_path / f"{name}.{ending}", ["mine", "ours"], ending)
    assert Interactions.from_file(tmp_path / f"{name}.{ending}").users.series.to_list() == ["mine", "ours"]
    assert Interactions.from_file(str(tmp_path / f"{name}.{ending}")).n_users == 2
    assert read_attributes(tmp_path / f"{name}.{ending}", "user", "item")["user"].to_list() == ["mine", "ours"]


@pytest.mark.parametrize("name", ["m[1]", "m*", "m%20x", "m?"])
def test_models_and_lists_are_written_and_read_by_such_names(tmp_path, name):
    data = ts.synthetic.multi_interest(n_users=20, n_items=15, n_interactions=100).interactions
    model = ts.EASE(threads=1).fit(data)
    model.save(tmp_path / f"{name}.model")
    again = ts.load(tmp_path / f"{name}.model")
    assert again.train_.users == data.users
    for ending in ("csv", "parquet", "jsonl"):
        again.recommend_to(tmp_path / f"{name}.{ending}", k=2)
        assert Interactions.from_file(tmp_path / f"{name}.{ending}").n_users == 20


def test_names_that_are_no_text(tmp_path):
    path = tmp_path / "a\udcff.csv"
    write(path, ["x", "y"], "csv")
    assert Interactions.from_file(path).users.series.to_list() == ["x", "y"]


def test_patterns_are_asked_for_by_name(tmp_path):
    for month, users in (("01", ["x", "y"]), ("02", ["x", "z"])):
        write(tmp_path / "logs" / f"2024-{month}.csv", users, "csv")
    write(tmp_path / "logs" / "other.csv", ["q", "r"], "csv")
    for pattern in (str(tmp_path / "logs" / "2024-*.csv"), tmp_path / "**" / "2024-*.csv"):
        data = Interactions.from_files(pattern)
        assert (data.users.series.to_list(), data.cleaning.rows) == (["x", "y", "z"], 4)
    both = Interactions.from_files([tmp_path / "logs" / "2024-02.csv", tmp_path / "logs" / "other.csv"])
    assert both.users.series.to_list() == ["q", "r", "x", "z"]
    with pytest.raises(DataError, match="no file matches this pattern"):
        Interactions.from_files(str(tmp_path / "2025-*.csv"))
    with pytest.raises(DataError, match=r"no such file.*for several give a pattern to Interactions.from_files"):
        Interactions.from_file(tmp_path / "logs" / "2025-*.csv")
    with pytest.raises(ParameterError, match="expected a list of one or more files"):
        Interactions.from_files([])


def test_files_that_do_not_fit_together(tmp_path):
    write(tmp_path / "a.csv", ["x", "y"], "csv")
    (tmp_path / "b.csv").write_text("user,thing\nx,1\ny,2\n")
    with pytest.raises(DataError, match=r"b\.csv has no column 'item'"):
        Interactions.from_files(str(tmp_path / "*.csv"))
    (tmp_path / "b.csv").write_text("user,item\n1,a\n2,\n")
    with pytest.raises(DataError, match=r"column 'item'"):
        Interactions.from_files(str(tmp_path / "*.csv"))


def test_columns_by_number(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("5;x;ann\n3;y;bob\n")
    data = Interactions.from_file(path, user=3, item=2, weight=1, header=False)
    assert (data.users.series.to_list(), data.weights.tolist()) == (["ann", "bob"], [5.0, 3.0])
    with pytest.raises(DataError, match="no column 'column_4'"):
        Interactions.from_file(path, user=4, item=2, header=False)


def test_cut_and_damaged_gzip(tmp_path):
    whole = gzip.compress(b"user,item\n" + b"".join(b"u%d,i%d\n" % (i, i % 97) for i in range(20_000)))
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    for raw in (whole[: len(whole) // 2], whole[:-4], bytes(damaged), whole[:12]):
        path = tmp_path / "a.csv.gz"
        path.write_bytes(raw)
        with pytest.raises(DataError, match=r"the gzip file is cut off or damaged|cannot be read"):
            Interactions.from_file(path)


def test_long_fields_are_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f'user,item,about\nann,a,"{"long " * 40_000}"\nbob,b,"short, too"\n')
    assert Interactions.from_file(path).n_users == 2
    assert len(read_attributes(path, "item", "item")["about"][0]) > 190_000


@pytest.mark.parametrize("delimiter", ["", '"', "\n", "é", 5])
def test_delimiters_that_cannot_be(tmp_path, delimiter):
    write(tmp_path / "a.csv", ["x", "y"], "csv")
    with pytest.raises(ParameterError, match="delimiter="):
        Interactions.from_file(tmp_path / "a.csv", delimiter=delimiter)
