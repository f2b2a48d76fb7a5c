"""Formats for programs, and formatted tables."""

import datetime as dt
import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from tastespace.cli.output import (
    Format,
    emit,
    is_table_output,
    progress_bar,
    show,
    write_file,
)
from tastespace.errors import DataError, ParameterError


@pytest.fixture
def frame():
    return pl.DataFrame(
        {
            "item": ["jam, sweet", 'the "best" tea', "Öl\nund Essig"],
            "score": pl.Series([0.5, None, -1.25], dtype=pl.Float32),
            "since": [dt.date(2024, 2, 29), None, dt.date(1999, 12, 31)],
            "past": pl.Series([[1, 2], [], None], dtype=pl.List(pl.Int64)),
        }
    )


@pytest.fixture
def written(frame, capfdbinary):
    def write(format):
        emit(frame, format)
        raw, err = capfdbinary.readouterr()
        assert err == b""
        return raw

    return write


def test_json_is_a_list_of_rows(written):
    assert json.loads(written(Format.json)) == [
        {"item": "jam, sweet", "score": 0.5, "since": "2024-02-29", "past": [1, 2]},
        {"item": 'the "best" tea', "score": None, "since": None, "past": []},
        {"item": "Öl\nund Essig", "score": -1.25, "since": "1999-12-31", "past": None},
    ]
    assert "Öl" in written(Format.json).decode()


def test_jsonl_is_a_row_per_line(written):
    rows = [json.loads(line) for line in written(Format.jsonl).decode().splitlines()]
    assert [row["item"] for row in rows] == ["jam, sweet", 'the "best" tea', "Öl\nund Essig"]
    assert rows[0]["past"] == [1, 2]


def test_csv_quotes_what_needs_it_and_joins_lists(written):
    back = pl.read_csv(written(Format.csv), try_parse_dates=True)
    assert back["item"].to_list() == ["jam, sweet", 'the "best" tea', "Öl\nund Essig"]
    assert back["since"].to_list() == [dt.date(2024, 2, 29), None, dt.date(1999, 12, 31)]
    assert back["past"].to_list() == ["1|2", "", None]
    assert written(Format.auto) == written(Format.csv)


def test_parquet_keeps_every_type(written, frame):
    assert pl.read_parquet(io.BytesIO(written(Format.parquet))).equals(frame)


@pytest.mark.parametrize("ending", ["json", "jsonl", "csv", "parquet"])
def test_the_ending_of_a_file_says_its_format(frame, written, tmp_path, ending):
    path = tmp_path / "new" / f"rows.{ending}"
    emit(frame, Format.auto, path)
    assert path.read_bytes() == written(Format(ending))


def test_files_that_cannot_be_written(frame, tmp_path):
    with pytest.raises(ParameterError, match=r"ends in \.json, \.jsonl, \.csv, \.parquet, or --format"):
        emit(frame, Format.auto, tmp_path / "rows.xlsx")
    with pytest.raises(ParameterError, match="a table is formatted for a terminal"):
        emit(frame, Format.table, tmp_path / "rows.csv")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"file/rows\.csv: cannot be written"):
        emit(frame, Format.auto, tmp_path / "file" / "rows.csv")
    assert not (tmp_path / "rows.csv").exists()


@pytest.mark.parametrize(
    ("format", "terminal", "out", "expected"),
    [
        (Format.auto, True, None, True),
        (Format.auto, False, None, False),
        (Format.table, False, None, True),
        (Format.csv, True, None, False),
        (Format.auto, True, Path("rows.csv"), False),
    ],
)
def test_a_table_is_for_terminals_or_on_request(monkeypatch, format, terminal, out, expected):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    assert is_table_output(format, out) is expected


def test_a_table_shows_values_as_they_are(capsys, frame):
    show(frame.with_columns(item=pl.lit("[red]x[/red] [1]")), title="rows")
    output = capsys.readouterr().out
    for word in ("rows", "item", "score", "[red]x[/red] [1]", "0.500", "2024-02-29", "1, 2", "-1.250", " - "):
        assert word in output


def test_an_empty_frame_is_a_table_and_a_header(capfdbinary):
    empty = pl.DataFrame(schema={"user": pl.String, "past": pl.List(pl.String)})
    emit(empty, Format.csv)
    assert capfdbinary.readouterr().out == b"user,past\n"
    emit(empty, Format.json)
    assert json.loads(capfdbinary.readouterr().out) == []
    show(empty)
    assert b"past" in capfdbinary.readouterr().out


def test_a_progress_bar_leaves_pipes_alone(capfd):
    with progress_bar("training") as bar:
        task = bar.add_task("a model", total=2)
        bar.advance(task)
    assert capfd.readouterr() == ("", "")


def test_a_file_is_replaced_only_when_the_new_one_is_complete(tmp_path, monkeypatch):
    path = tmp_path / "folder" / "list.csv"
    write_file(path, b"old")

    def fail(self, content):
        with self.open("wb") as file:
            file.write(content[:1])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", fail)
        with pytest.raises(OSError, match="No space left"):
            write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]
    write_file(path, b"new")
    assert path.read_bytes() == b"new"


def test_links_stay_links_and_devices_stay_devices(tmp_path):
    path, link = tmp_path / "list.csv", tmp_path / "link.csv"
    path.write_bytes(b"old")
    link.symlink_to(path)
    write_file(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(pipe.read_bytes)
        write_file(pipe, b"rows")
        assert reader.result(timeout=60) == b"rows"
    assert pipe.is_fifo()


LIMITED = """
import resource, sys
from tastespace.cli.app import main
limit = int(sys.argv.pop(1))
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # as on a full disk: the first bytes are written
main()
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_does_not_fit_on_the_disk_is_an_error(shop, tmp_path, unbuffered):
    for command in (["recommend", str(shop.model), "-k", "40"], ["explain", str(shop.model), "u07", "i03"]):
        with (tmp_path / "rows").open("wb") as file:
            done = subprocess.run(
                [sys.executable, "-c", LIMITED, "100", *command],
                stdout=file,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONDONTWRITEBYTECODE": "1"},
                timeout=120,
            )
        assert done.returncode == 2, done.stderr
        assert "error: File too large." in done.stderr
