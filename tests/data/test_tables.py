import polars as pl
import pytest

from tastespace import Interactions
from tastespace.data.tables import open_file
from tastespace.errors import DataError

ROWS = [(1, 10, 4.0), (1, 11, 5.0), (2, 10, 3.5), (3, 12, 1.0)]


@pytest.fixture
def frame():
    return pl.DataFrame(ROWS, schema=["user", "item", "rating"], orient="row")


@pytest.mark.parametrize("separator", [",", "\t", ";", "|", " "])
@pytest.mark.parametrize("header", [True, False])
def test_text_files_are_recognised(tmp_path, frame, separator, header):
    path = tmp_path / "clicks.txt"
    frame.write_csv(path, separator=separator, include_header=header)
    names = {} if header else {"user": "column_1", "item": "column_2"}
    data = Interactions.from_file(path, **names)
    assert data.to_frame().rows() == [row[:2] for row in ROWS]


def test_what_is_given_beats_what_is_recognised(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text("ann,cat\nbob,dog\n")
    data = Interactions.from_file(path, user="column_1", item="column_2", delimiter=",", header=False)
    assert data.items_of("ann") == ["cat"]


def test_quoted_fields_and_text_ids(tmp_path):
    path = tmp_path / "quoted.csv"
    path.write_text('user,item\n"ann","a, b"\n"bob","c"\n')
    assert Interactions.from_file(path).items_of("ann") == ["a, b"]


def test_movielens_double_colons(tmp_path):
    path = tmp_path / "ratings.dat"
    path.write_text("1::10::4\n2::11::5\n")
    table = open_file(path)
    assert table.columns == ["column_1", "column_2", "column_3"]
    assert table.read("column_2").to_list() == [10, 11]
    path.write_text("1::10::4\n2::11\n")
    with pytest.raises(DataError, match=r"ratings.dat, line 2: 2 fields, expected 3"):
        open_file(path).read("column_1")


def test_parquet_is_known_by_its_first_bytes(tmp_path, frame):
    path = tmp_path / "clicks.data"
    frame.write_parquet(path)
    assert Interactions.from_file(path, rating="rating", min_rating=3).n_interactions == 3


def test_a_truncated_parquet_names_the_file(tmp_path, frame):
    path = tmp_path / "cut.parquet"
    frame.write_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"cut\.parquet: cannot be read as a Parquet file.*cut off"):
        Interactions.from_file(path)


def test_a_truncated_csv_names_file_and_line(tmp_path):
    path = tmp_path / "cut.csv"
    path.write_text("user,item\n1,10\n2,11\n3")
    with pytest.raises(DataError, match=r"cut\.csv, line 4: "):
        Interactions.from_file(path)
    path.write_text("user,item\n1,10\n2,11,12,13\n3,4\n")
    with pytest.raises(DataError, match=r"cut\.csv, line 3: 4 fields, expected 2"):
        Interactions.from_file(path)


def test_files_that_are_no_tables(tmp_path):
    (tmp_path / "empty.csv").touch()
    with pytest.raises(DataError, match="the file is empty"):
        Interactions.from_file(tmp_path / "empty.csv")
    (tmp_path / "binary.bin").write_bytes(b"\x00\x01" * 100)
    with pytest.raises(DataError, match="neither Parquet nor text"):
        Interactions.from_file(tmp_path / "binary.bin")
    with pytest.raises(DataError, match=r"no such file. Did you mean empty.csv"):
        Interactions.from_file(tmp_path / "emty.csv")
