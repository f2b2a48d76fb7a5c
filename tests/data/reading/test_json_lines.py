"""Interactions and attributes from files with a JSON object in each line."""

import gzip
import os

import polars as pl
import pytest

from tastespace import Interactions
from tastespace.cli.arguments import TextFlags, read_attributes
from tastespace.errors import DataError, ForkError

ROWS = [("ann", 7, 4.5, "2024-01-02"), ("ann", 9, 2.0, "2024-01-03"), ("bob", 7, 5.0, "2024-01-04")]
FRAME = pl.DataFrame(ROWS, schema=["who", "what", "stars", "when"], orient="row")
COLUMNS = {"user": "who", "item": "what", "rating": "stars", "min_rating": 3, "weight": "stars", "timestamp": "when"}
COLUMNS["date_format"] = "%Y-%m-%d"


@pytest.mark.parametrize("ending", ["jsonl", "ndjson", "json", "jsonl.gz"])
def test_the_same_as_from_parquet(tmp_path, ending):
    raw = FRAME.write_ndjson().encode()
    path = tmp_path / f"clicks.{ending}"
    path.write_bytes(gzip.compress(raw) if ending.endswith("gz") else raw)
    FRAME.write_parquet(tmp_path / "clicks.parquet")
    expected = Interactions.from_file(tmp_path / "clicks.parquet", part=True, **COLUMNS)
    for spill in (None, tmp_path / "spilled"):
        data = Interactions.from_file(path, part=True, spill=spill, **COLUMNS)
        assert data.fingerprint() == expected.fingerprint()
        assert data.to_frame().equals(expected.to_frame())


def test_files_are_read_as_one(tmp_path):
    for name, part in (("a", FRAME[:2]), ("b", FRAME[2:])):
        part.write_ndjson(tmp_path / f"{name}.jsonl")
    assert Interactions.from_files(str(tmp_path / "*.jsonl"), user="who", item="what").n_interactions == 3


def test_values_keep_their_types(tmp_path):
    path = tmp_path / "clicks.jsonl"
    path.write_text('{"user": "007", "item": 1}\n\n{"item": 2, "user": "8", "more": {"a": [1]}}\n')
    data = Interactions.from_file(path)
    assert data.users.series.to_list() == ["007", "8"]
    assert data.items.series.to_list() == [1, 2]
    path.write_text('{"user": "a", "item": "7"}\n{"user": "b", "item": 8}\n')
    assert Interactions.from_file(path).items.series.to_list() == ["7", "8"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_encodings(tmp_path, encoding):
    path = tmp_path / "clicks.jsonl"
    path.write_bytes('{"user": "é", "item": 1}\n{"user": "b", "item": 2}\n'.encode(encoding))
    given = encoding if encoding == "cp1252" else None
    assert Interactions.from_file(path, encoding=given).users.series.to_list() == ["b", "é"]
    assert read_attributes(path, "user", "user", TextFlags(encoding=given))["user"].to_list() == ["é", "b"]
    if given:
        with pytest.raises(DataError, match=r"line 1 holds the byte 0xe9\), most likely cp1252"):
            Interactions.from_file(path)


GOOD = '{"user": 1, "item": 1}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("\n \n", "holds only blank lines"),
        ("{}\n{}\n", "have no fields"),
        (GOOD + '\n{"user": 2, "it', r"line 3: cannot be read as JSON lines \(Unterminated string"),
        (GOOD + '{"user": 2, "item": NaN}', r"line 2: .*NaN is no value of JSON"),
        (GOOD + "5\n", "line 2: .*the line holds a int"),
        ("[" + GOOD.strip() + "]", "line 1: .*the line holds an array.*expected an object in each line"),
        ('{"user": 1}{"user": 2}\n', "line 1: .*Extra data"),
        (GOOD + '{"user": 2, "item": "\\ud83d"}\n', "line 2: .*surrogates not allowed"),
        (GOOD + '{"user": 2, "item": ' + "[" * 100_000, "line 2: cannot be read"),
        (GOOD + '{"user": true, "item": 2}\n', "values of one type in each field"),
        (GOOD + '{"user": ' + "9" * 60 + ', "item": 2}\n', "InvalidNumber"),
        (GOOD + '\n{"user": 2, "item": null}\n', r"clicks\.jsonl, line 3: the id in column 'item' is null"),
        (GOOD + '{"user": 2}\n', r"line 2: the id in column 'item' is null"),
        ('{"user": 1, "item": [1]}\n', "ids must be whole numbers, strings"),
        ('{"usr": 1, "item": 1}\n', r"no column 'user' .* its columns are 'usr', 'item'"),
    ],
)
def test_what_cannot_be_read(tmp_path, text, message):
    path = tmp_path / "clicks.jsonl"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        Interactions.from_file(path)


def test_a_gzip_file_that_is_cut_off(tmp_path):
    path = tmp_path / "clicks.jsonl.gz"
    path.write_bytes(gzip.compress(GOOD.encode() * 100)[:-12])
    with pytest.raises(DataError, match="gzip file is cut off or damaged"):
        Interactions.from_file(path)


def test_a_forked_process_is_told_so(tmp_path):
    path = tmp_path / "clicks.jsonl"
    FRAME.write_ndjson(path)
    FRAME.lazy().select(pl.col("what").sum()).collect()
    child = os.fork()
    if child == 0:
        try:
            Interactions.from_file(path, user="who", item="what")
        except ForkError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
