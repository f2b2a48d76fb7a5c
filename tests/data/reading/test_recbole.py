"""Atomic files of RecBole."""

from __future__ import annotations

import pytest

import tastespace as ts
from tastespace.errors import DataError

EVENTS = """user_id:token\titem_id:token\trating:float\ttimestamp:float
7\t10\t4\t100
7\t11\t1\t101
8\t10\t5\t102
9\t12\t3.5\t103
"""
ITEMS = """item_id:token\ttitle:token_seq\tgenre:token_seq\tyear:float
10\tToy Story\tComedy Animation\t1995
11\t"Quoted" Title\t\t
12\tHeat\tCrime\t1996
99\tNever taken\tCrime\t1999
"""
USERS = "user_id:token\tage:token\tlikes:float_seq\n7\tyoung\t0.5 1\n8\told\t\n9\told\t2\n"


@pytest.fixture
def folder(tmp_path):
    for ending, text in (("inter", EVENTS), ("item", ITEMS), ("user", USERS)):
        (tmp_path / f"tiny.{ending}").write_text(text, encoding="utf-8")
    return tmp_path


def test_interactions_and_attributes_are_read(folder):
    for path in (folder, folder / "tiny.inter", str(folder)):
        data = ts.Interactions.from_recbole(path)
        assert data.to_frame().select("user", "item").rows() == [(7, 10), (7, 11), (8, 10), (9, 12)]
        assert data.timestamps.tolist() == [100, 101, 102, 103]
        assert data.weights is None
    items = data.item_attributes
    assert items["item"].to_list() == [10, 11, 12]
    assert items["genre"].to_list() == [["Comedy", "Animation"], [], ["Crime"]]
    assert items["title"].to_list()[1] == '"Quoted" Title'
    assert items["year"].to_list() == [1995, None, 1996]
    assert data.user_attributes["likes"].to_list() == [[0.5, 1.0], [], [2.0]]
    liked = ts.Interactions.from_recbole(folder, rating="rating", min_rating=3, weight="rating")
    assert liked.weights.tolist() == [4, 5, 3.5]


def test_ids_are_numbers_only_where_all_are(folder):
    (folder / "tiny.item").write_text(ITEMS.replace("99\t", "sale\t"))
    data = ts.Interactions.from_recbole(folder)
    assert data.items.series.to_list() == ["10", "11", "12"]
    assert data.item_attributes["item"].to_list() == ["10", "11", "12"]
    assert data.users.series.to_list() == [7, 8, 9]
    (folder / "tiny.user").unlink()
    (folder / "tiny.inter").write_text(EVENTS.replace("7\t1", "007\t1"))
    assert ts.Interactions.from_recbole(folder).users.series.to_list() == ["007", "8", "9"]


def test_other_names_of_fields(folder):
    text = EVENTS.replace("user_id", "session_id").replace("timestamp", "when")
    (folder / "tiny.inter").write_text(text)
    (folder / "tiny.user").unlink()
    data = ts.Interactions.from_recbole(folder, user="session_id", timestamp="when")
    assert (data.n_users, data.timestamps.tolist()) == (3, [100, 101, 102, 103])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            EVENTS.replace("user_id:token", "user_id"),
            r"the field 'user_id' has no type of RecBole.*Interactions.from_file",
        ),
        (EVENTS.replace("rating:float", "rating:number"), "'rating:number' has no type of RecBole"),
        (EVENTS.replace("user_id", "usr_id"), r"has no field 'user_id' for user; .* Did you mean usr_id\?"),
        (EVENTS.replace("\t4\t", "\tfour\t"), r"the field 'rating:float' holds what is no number .*four\S*\)\.$"),
        (EVENTS.splitlines()[0] + "\n", "tiny.inter has no rows"),
        (EVENTS.replace("rating:float", "item_id:float"), "two fields have the same name"),
        ("", "cannot be read as an atomic file"),
    ],
)
def test_files_that_are_none_are_refused(folder, text, message):
    (folder / "tiny.inter").write_text(text)
    with pytest.raises(DataError, match=message):
        ts.Interactions.from_recbole(folder)


def test_a_folder_names_one_data_set(folder):
    (folder / "other.inter").write_text(EVENTS)
    with pytest.raises(DataError, match=r"one .inter file, found other.inter, tiny.inter"):
        ts.Interactions.from_recbole(folder)
    with pytest.raises(DataError, match="no such file"):
        ts.Interactions.from_recbole(folder / "nothing.inter")
    (folder / "tiny.item").write_text("id:token\n1\n")
    with pytest.raises(DataError, match="has no field 'item_id', the ids of items; it has id"):
        ts.Interactions.from_recbole(folder / "tiny.inter")
