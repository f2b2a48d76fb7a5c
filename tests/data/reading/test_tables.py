import gzip
from decimal import Decimal

import polars as pl
import pytest
from tests.required_services import optional_package

from tastespace import EASE, Interactions
from tastespace.cli.arguments import TextFlags, read_attributes
from tastespace.data.reading.tables import open_file
from tastespace.errors import DataError

ROWS = [(1, 10, 4.0), (1, 11, 5.0), (2, 10, 3.5), (3, 12, 1.0)]


@pytest.fixture
def frame():
    return pl.DataFrame(ROWS, schema=["user", "item", "rating"], orient="row")


@pytest.mark.parametrize("separator", [",", "\t", ";", "|", " "])
@pytest.mark.parametrize("header", [True, False])
def test_text_files_are_recognized(tmp_path, frame, separator, header):
    path = tmp_path / "clicks.txt"
    frame.write_csv(path, separator=separator, include_header=header)
    names = {} if header else {"user": "column_1", "item": "column_2"}
    data = Interactions.from_file(path, **names)
    assert data.to_frame().rows() == [row[:2] for row in ROWS]


def test_what_is_given_beats_what_is_recognized(tmp_path):
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


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_a_path_is_a_path_and_not_a_pattern(tmp_path, ending):
    texts = {"clicks[1]": "user,item,n\n1,1,7\n2,2,8\n", "clicks1": "user,item\n9,9\n8,8\n"}
    for name, text in texts.items():
        path = tmp_path / f"{name}.{ending}"
        if ending == "parquet":
            pl.read_csv(text.encode()).write_parquet(path)
        else:
            path.write_bytes(gzip.compress(text.encode()) if ending.endswith("gz") else text.encode())
    data = Interactions.from_file(tmp_path / f"clicks[1].{ending}", weight="n")
    assert data.users.series.to_list() == [1, 2]
    assert data.weights.tolist() == [7, 8]
    with pytest.raises(DataError, match="no such file"):
        Interactions.from_file(tmp_path / f"clicks*.{ending}")


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


def lists(data):
    return {user: data.items_of(user) for user in data.users.series}


def written(tmp_path, text, name="t.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def test_ids_in_text_files_stay_as_they_are_written(tmp_path):
    data = Interactions.from_file(written(tmp_path, "user,item\n007,a\n7,b\n8,c\n"))
    assert lists(data) == {"007": ["a"], "7": ["b"], "8": ["c"]}
    data = Interactions.from_file(written(tmp_path, "user,item\n1.10,1\n1.1,2\n1e5,2\n"))
    assert lists(data) == {"1.1": [2], "1.10": [1], "1e5": [2]}
    data = Interactions.from_file(written(tmp_path, "01::5::3\n1::6::3\n"), user="column_1", item="column_2")
    assert lists(data) == {"01": [5], "1": [6]}


def test_a_byte_order_mark_blank_lines_and_windows_line_ends(tmp_path):
    text = "\ufeffuser,item\r\n1,10\r\n\r\n2,11\r\n\r\n"
    assert lists(Interactions.from_file(written(tmp_path, text))) == {1: [10], 2: [11]}
    assert lists(Interactions.from_file(written(tmp_path, "1::10\n\n2::11\n\n"), user="column_1", item="column_2"))


def test_a_header_is_known_by_the_columns_asked_for(tmp_path):
    path = written(tmp_path, 'who,what,"title, long"\nann,tea,x\nbob,jam,y\n')
    assert lists(Interactions.from_file(path, user="who", item="what")) == {"ann": ["tea"], "bob": ["jam"]}


def test_a_type_that_shows_late_and_dates_as_text(tmp_path):
    rows = "".join(f"{i % 50},{i},3,2024-01-{1 + i % 28:02}\n" for i in range(12_000))
    path = written(tmp_path, "user,item,stars,day\n" + rows + "1,x1,2.5,2024-02-01\n")
    data = Interactions.from_file(path, rating="stars", min_rating=2, timestamp="day")
    assert data.n_interactions == 12_001
    assert "x1" in data.items
    assert data.timestamps.max() == 1_706_745_600_000_000


def test_compressed_text(tmp_path):
    import gzip

    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"user,item\n1,2\n3,4\n"))
    assert lists(Interactions.from_file(path)) == {1: [2], 3: [4]}


def test_latin_letters_do_not_merge(tmp_path):
    path = written(tmp_path, "1::café\n2::cafè\n", encoding="latin-1")
    assert lists(Interactions.from_file(path, user="column_1", item="column_2")) == {1: ["café"], 2: ["cafè"]}


def test_a_cut_in_a_column_that_is_not_used_is_noticed(tmp_path):
    path = written(tmp_path, "user,item,rating\n1,a,4\n2,b,5\n1,c")
    with pytest.raises(DataError, match=r"line 4: 2 fields, expected 3. Was the file cut off"):
        Interactions.from_file(path)


def test_headers_that_repeat_and_folders(tmp_path):
    with pytest.raises(DataError, match="two columns have the same name"):
        Interactions.from_file(written(tmp_path, "user,user\n1,2\n"))
    with pytest.raises(DataError, match="this is a folder"):
        Interactions.from_file(tmp_path)


def test_pandas_times_in_seconds_are_ids_too():
    pd = optional_package("pandas")
    days = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-01"]).astype("datetime64[s]")
    data = Interactions.from_frame(pd.DataFrame({"user": days, "item": ["a", "b", "b"]}))
    assert data.n_users == 2
    assert data.items_of(data.users[0]) == ["a", "b"]


def test_long_values_and_unnamed_columns_in_messages(tmp_path):
    (tmp_path / "long.csv").write_text("user,item,time\na,b,2024-01-01\na,c," + "x" * 100_000 + "\n")
    with pytest.raises(DataError, match="cannot be used as timestamps") as caught:
        Interactions.from_file(tmp_path / "long.csv", timestamp="time")
    assert len(str(caught.value)) < 1_000
    (tmp_path / "unnamed.csv").write_bytes("u::0::::z\n1::2::3::4\n".encode("shift_jis"))
    with pytest.raises(DataError, match="Give every column a name of its own"):
        read_attributes(tmp_path / "unnamed.csv", "user", "item", TextFlags(encoding="shift_jis"))


@pytest.mark.parametrize("ids", [[2**70, 2**70 + 1], [Decimal("1.50"), Decimal("2.25")]])
def test_lists_for_pandas_hold_ids_that_numpy_has_no_type_for(ids):
    pd = optional_package("pandas")
    frame = pd.DataFrame({"user": pd.Series([*ids, ids[0]], dtype=object), "item": [1, 2, 2]})
    found = EASE(threads=1).fit(Interactions.from_frame(frame)).recommend(ids[1], k=1)
    assert found["user"].tolist() == [ids[1]]
