"""Ids given on the command line, and titles in what is printed."""

import datetime as dt

import polars as pl
import pytest

import tastespace as ts
from tastespace.cli.arguments import (
    add_titles,
    cast_ids,
    open_model,
    parse_known,
    replace_by_titles,
)
from tastespace.data.ids import IdMap, parse_ids
from tastespace.errors import ModelFileError, UnknownIdError

BERLIN = pl.Datetime("us", "Europe/Berlin")


def ids(values, dtype=None):
    return IdMap(pl.Series(values, dtype=dtype).sort(), "user")


def data(users, items, attributes=None):
    frame = pl.DataFrame({"user": users, "item": items})
    return ts.Interactions.from_frame(frame, item_attributes=attributes, threads=1)


@pytest.mark.parametrize(
    ("known", "typed", "expected"),
    [
        (ids(["ann", "7"]), ["7", " ann"], ["7", " ann"]),
        (ids([7, -3]), ["7", "-3"], [7, -3]),
        (ids([7], pl.UInt8), ["7", "300", "-1"], [7, "300", "-1"]),
        (ids([2**63], pl.UInt64), [str(2**63)], [2**63]),
        (ids([7]), ["7.0", "seven", ""], ["7.0", "seven", ""]),
        (ids([2.5]), ["2.5", "x"], [2.5, "x"]),
        (ids([True, False]), ["true", "false", "yes"], [True, False, "yes"]),
        (ids([dt.date(2024, 2, 29)]), ["2024-02-29", "2023-02-29"], [dt.date(2024, 2, 29), "2023-02-29"]),
        (ids([dt.datetime(2024, 1, 2)]), ["2024-01-02 03:04:05"], [dt.datetime(2024, 1, 2, 3, 4, 5)]),
        (ids([dt.datetime(2024, 1, 2)]), ["2024-01-02"], [dt.datetime(2024, 1, 2)]),
        (ids([dt.time(3, 4)]), ["03:04:00"], [dt.time(3, 4)]),
    ],
)
def test_ids_get_the_type_of_the_models(known, typed, expected):
    found = parse_ids(known, typed)
    assert found == expected
    assert [type(one) for one in found] == [type(one) for one in expected]


def test_no_ids_are_no_ids():
    assert parse_ids(ids([7]), []) == []
    assert parse_ids(ids(["ann"]), []) == []


def test_times_have_their_zone():
    known = ids(pl.Series([dt.datetime(2024, 1, 2, 3)]).dt.replace_time_zone("Europe/Berlin"))
    assert known.index_of(parse_ids(known, ["2024-01-02T03:00:00"])).tolist() == [0]


def test_dates_serve_as_ids_of_a_model(run, stdout_of, error_of, tmp_path):
    days = [dt.date(2024, 1, day) for day in (1, 1, 2, 3)]
    pl.DataFrame({"user": days, "item": [1, 2, 2, 1]}).write_parquet(tmp_path / "days.parquet")
    assert run("fit", "days.parquet", "--model", "popular", "--valid", "0", "--out", "a.model").code == 0
    assert stdout_of("recommend", "a.model", "2024-01-02") == "user,item,rank,score\n2024-01-02,1,1,2.0\n"
    assert "the first is '2024-01-32' (str)" in error_of("recommend", "a.model", "2024-01-32")


def test_unknown_ids_are_an_error_or_left_out():
    known = ids([1, 2, 3])
    assert parse_known(known, ["3", "1"], "error") == [3, 1]
    assert parse_known(known, ["3", "zoe", "9", "1"], "skip") == [3, 1]
    with pytest.raises(UnknownIdError, match="2 of 4 user ids are unknown, the first is 'zoe'"):
        parse_known(known, ["3", "zoe", "9", "1"], "error")


def test_interactions_take_on_the_types_of_the_models():
    text, numbers = data(["1", "2", "10"], ["a", "b", "a"]), data([1, 2, 10], ["a", "b", "a"])
    for own, other in ((text, numbers), (numbers, text)):
        found = cast_ids(other, own)
        assert found.users == own.users
        assert found.items == own.items
        assert found.to_frame().equals(own.to_frame())
    assert cast_ids(text, text) is text


def test_what_has_no_counterpart_in_the_models_type_stays_as_it_is():
    numbers, mixed = data([1, 2], ["a", "b"]), data(["1", "zoe"], ["a", "b"])
    assert cast_ids(mixed, numbers) is mixed
    halves = data([1.5, 2.5], ["a", "b"])
    assert cast_ids(halves, data(["1", "2"], ["a", "b"])) is halves


@pytest.mark.parametrize("column", ["title", "name"])
def test_titles_stand_beside_ids(column):
    about = pl.DataFrame({"item": ["a", "b"], column: ["Apple", None]})
    train = data(["x", "y"], ["a", "b"], about)
    frame = pl.DataFrame({"item": ["b", "a"], "rank": [1, 2]})
    shown = add_titles(frame.clone(), train)
    assert shown.to_dict(as_series=False) == {"item": ["b", "a"], "title": [None, "Apple"], "rank": [1, 2]}
    lists = replace_by_titles(pl.DataFrame({"past": [["b", "a"], []]}), train, ("past",))
    assert lists["past"].to_list() == [["b", "Apple"], []]


def test_items_without_titles_go_by_their_ids():
    train = data(["x", "y"], [1, 2])
    frame = pl.DataFrame({"item": [2]})
    assert add_titles(frame, train).columns == ["item"]
    assert replace_by_titles(pl.DataFrame({"past": [[2, 1]]}), train, ("past",))["past"].to_list() == [["2", "1"]]


def test_a_model_is_opened_by_its_path(shop, tmp_path):
    assert open_model(shop.model).train_.n_users == 60
    with pytest.raises(ModelFileError, match="no such directory"):
        open_model(tmp_path / "none")
