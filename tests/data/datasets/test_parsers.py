"""The publishers' formats, line by line, and what is said of damaged ones."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tastespace.data.datasets import _parsers as parquet_parsers
from tastespace.data.datasets import _parsers as publisher_parsers
from tastespace.data.datasets._views import Tables, View
from tastespace.data.datasets.files import Archive, Folder
from tastespace.errors import DataError


def folder(path: Path, **files: str | bytes) -> Folder:
    """A folder with files; ``__`` in a name stands for the dot."""
    for name, body in files.items():
        (path / name.replace("__", ".")).write_bytes(body if isinstance(body, bytes) else body.encode())
    return Folder(path)


def test_movielens_dat_with_latin_1_titles_and_half_stars(tmp_path: Path) -> None:
    tables = publisher_parsers.movielens_dat(
        folder(
            tmp_path,
            ratings__dat="7::122::4.5::838985046\n7::3::5::838985047\n",
            movies__dat='122::Amélie: a "film" (2001)::Comedy|Romance\n3::None (1990)::Drama\n'.encode("latin-1"),
            users__dat="7::F::25::10::02139-1955\n",
        )
    )
    assert tables.events is not None
    assert tables.events.rows() == [(7, 122, 4.5, 838985046), (7, 3, 5.0, 838985047)]
    assert tables.items is not None
    assert tables.items.rows() == [
        (122, 'Amélie: a "film" (2001)', ["Comedy", "Romance"]),
        (3, "None (1990)", ["Drama"]),
    ]
    assert tables.users is not None
    assert tables.users.rows() == [(7, "F", 25, 10, "02139-1955")]


@pytest.mark.parametrize("last", ["8::122::4", "8::122", "8::122::4::", "8::x::4::1"])
def test_a_cut_off_line_of_ratings_is_named(last: str, tmp_path: Path) -> None:
    files = folder(tmp_path, ratings__dat=f"7::122::5::838985046\n{last}")
    with pytest.raises(DataError, match=r"ratings\.dat, row 2 of 2: .*expected a number for each of user, item"):
        publisher_parsers.movielens_dat(files)


@pytest.mark.parametrize("body", [b"", b"\x00\x01binary", b"a,b\n1,2\n"])
def test_what_is_no_ratings_file_is_refused(body: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"ratings\.dat"):
        publisher_parsers.movielens_dat(folder(tmp_path, ratings__dat=body))


def test_movielens_100k_flags_become_genres(tmp_path: Path) -> None:
    flags = ["0"] * 19
    flags[1] = flags[18] = "1"
    tables = publisher_parsers.movielens_100k(
        folder(
            tmp_path,
            u__data="196\t242\t3\t881250949\n",
            u__item=f"242|Kolya (1996)|24-Jan-1997||http://x|{'|'.join(flags)}\n",
            u__user="196|49|M|writer|55105\n",
        )
    )
    assert tables.events is not None
    assert tables.events.rows() == [(196, 242, 3.0, 881250949)]
    assert tables.items is not None
    assert tables.items.rows() == [(242, "Kolya (1996)", "24-Jan-1997", ["Action", "Western"])]
    assert tables.users is not None
    assert tables.users.rows() == [(196, 49, "M", "writer", "55105")]


def test_steam_purchases_count_once_and_hours_add_up(tmp_path: Path) -> None:
    rows = (
        '5,"Sid, the Game",purchase,1.0,0\n5,"Sid, the Game",play,2.5,0\n5,"Sid, the Game",play,1,0\n'
        '5,"Sid, the Game",purchase,1.0,0\n4,Portal,purchase,1.0,0\n'
    )
    events = publisher_parsers.steam_csv(folder(tmp_path, **{"steam-200k__csv": rows})).events
    assert events is not None
    assert sorted(events.rows()) == [(4, "Portal", 1.0), (5, "Sid, the Game", 4.5)]


def test_citeulike_lines_are_users(tmp_path: Path) -> None:
    events = publisher_parsers.citeulike_users(folder(tmp_path, users__dat="2 10 3\n0\n1 7\n\n")).events
    assert events is not None
    assert events.rows() == [(0, 10), (0, 3), (2, 7)]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("2 10 3\n3 7 8", r"users\.dat, line 2: 2 articles, but its first number says 3"),
        ("2 10 3\n\n1 7\n", r"line 2: 0 articles, but its first number says nothing"),
        ("1::F::1::10::48067\n", r"line 1: expected whole numbers only"),
    ],
)
def test_citeulike_damage_is_named(body: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        publisher_parsers.citeulike_users(folder(tmp_path, users__dat=body))


def test_lastfm_dat(tmp_path: Path) -> None:
    tables = publisher_parsers.lastfm_dat(
        folder(
            tmp_path,
            user_artists__dat="userID\tartistID\tweight\n2\t51\t13883\n",
            artists__dat='id\tname\turl\tpictureURL\n51\tDuran "2" Duran\thttp://a\thttp://b\n',
        )
    )
    assert tables.events is not None
    assert tables.events.rows() == [(2, 51, 13883.0)]
    assert tables.items is not None
    assert tables.items.rows() == [(51, 'Duran "2" Duran')]


def test_a_package_with_another_number_of_movies_is_refused(tmp_path: Path) -> None:
    files = folder(tmp_path, **{"ml-1m__item": "a\tb\tc\td\nFilm (1)\tFilm\t1\tDrama\n"})
    with pytest.raises(DataError, match=r"ml-1m\.item has 1 movies, expected 3,883"):
        publisher_parsers.movielens_1m_package(files)


def test_a_parquet_table_without_a_column_or_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "interactions.parquet"
    pl.DataFrame({"user": [1], "thing": [2]}).write_parquet(path)
    with pytest.raises(DataError, match=r"no column item; its columns are user, thing"):
        parquet_parsers.pairs(Folder(tmp_path))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"interactions\.parquet cannot be read as Parquet"):
        parquet_parsers.pairs(Folder(tmp_path))


def test_of_files_with_one_name_the_archive_gives_the_upper_one(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("deep/er/x.txt", "lower")
        archive.writestr("top/x.txt", "upper")
    files = Archive(tmp_path / "a.zip")
    assert files.read("x.txt") == b"upper"
    assert not files.has("y.txt")
    with pytest.raises(DataError, match=r"y\.txt is not in the archive"):
        files.read("y.txt")


EVENTS = pl.DataFrame(
    {"user": [1, 1, 1, 2, 2, 3], "item": [1, 2, 3, 1, 2, 4], "weight": [5.0, 4.0, 3.0, 4.0, 5.0, 5.0]}
)


def test_a_view_counts_after_its_threshold_and_keeps_unused_items() -> None:
    data = View("", min_rating=4, min_user=2, n_items=6).build(Tables(EVENTS))
    assert data.to_frame().rows() == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert data.items.series.to_list() == [0, 1, 2, 3, 4, 5]


def test_a_view_leaves_one_pair_out_and_no_other() -> None:
    data = View("", without_pair=(1, 2)).build(Tables(EVENTS))
    assert data.to_frame().rows() == [(1, 1), (1, 3), (2, 1), (2, 2), (3, 4)]


def test_the_authors_list_wins_where_it_is_there() -> None:
    authors = pl.DataFrame({"user": [1, 2], "item": [2, 1]})
    rule = View("", min_rating=4, min_user=2, from_authors=True)
    assert rule.build(Tables(EVENTS, authors)).n_interactions == 2
    assert rule.build(Tables(EVENTS)).n_interactions == 4
    with pytest.raises(DataError, match="only the authors' list is here"):
        View("").build(Tables(None, authors))


def test_a_split_follows_its_labels_in_any_row_order() -> None:
    listed = pl.DataFrame({"user": [2, 1, 1, 2], "item": [5, 9, 5, 9], "split": ["test", "val", "train", "train"]})
    train, valid, test = View("").split(Tables(authors=listed))
    assert train.to_frame().rows() == [(1, 5), (2, 9)]
    assert valid.to_frame().rows() == [(1, 9)]
    assert test.to_frame().rows() == [(2, 5)]
    assert train.users == valid.users == test.users
    with pytest.raises(DataError, match="unknown parts in column 'split'"):
        View("").split(Tables(authors=listed.with_columns(split=pl.lit("dev"))))
    with pytest.raises(DataError, match="split is not part of this source"):
        View("").split(Tables(EVENTS))
