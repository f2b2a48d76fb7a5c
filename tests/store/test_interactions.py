"""Interactions in a model directory: ids of every type, attributes, weights, times, and counts that must agree."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.store.model_equality import assert_same_data

from tastespace import Interactions, MostPopular
from tastespace.errors import DataError, ModelFileError
from tastespace.store import load, save
from tastespace.store._interactions import (
    read_table,
    restore,
    seen_tensors,
    summary_of,
    table_bytes,
)

N = 6
NUMBERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.Float32, pl.Float64)
DAYS = pl.Series([dt.date(1900 + 20 * i, 2, 3) for i in range(N)])
TEXT = pl.Series(["", "a", "é", "日本", "a\0b", "x" * 500])
IDS = {
    **{str(dtype): pl.Series([3, 1, 4, 15, 9, 2], dtype=dtype) for dtype in NUMBERS},
    "large": pl.Series([2**64 - 1 - i for i in range(N)], dtype=pl.UInt64),
    "negative": pl.Series([-(2**63) + i for i in range(N)]),
    "text": TEXT,
    "categories": TEXT.cast(pl.Categorical),
    "enum": TEXT.cast(pl.Enum(TEXT)),
    "bytes": TEXT.cast(pl.Binary),
    "dates": DAYS,
    **{f"times in {unit}": DAYS.cast(pl.Datetime(unit)) for unit in ("ms", "us", "ns")},
    "times of a zone": DAYS.cast(pl.Datetime("us", "Europe/Berlin")),
    "time of day": pl.Series([dt.time(i, 2, 3, 4) for i in range(N)]),
    "duration": pl.Series([dt.timedelta(microseconds=i) for i in range(N)]),
}


def again(data, path):
    save(MostPopular().fit(data), path)
    return load(path, verify=True).train_


@pytest.mark.parametrize("name", IDS)
def test_ids_of_every_type_come_back_in_their_type(tmp_path, name):
    frame = pl.DataFrame({"user": IDS[name], "item": IDS[name].reverse()})
    data = Interactions.from_frame(pl.concat([frame, frame.with_columns(item=IDS[name])]).unique())
    found = again(data, tmp_path / "model")
    assert_same_data(found, data)
    assert found.users.series.dtype == data.users.series.dtype
    assert found.users.index_of(data.users.series).tolist() == list(range(data.n_users))
    assert found.to_frame().equals(data.to_frame())


def test_weights_times_and_attributes(tmp_path):
    frame = pl.DataFrame({"u": ["b", "a", "b"], "i": [3, 3, 1], "w": [0.5, 2.0, 1.5], "t": [10, 20, 30]})
    films = pl.DataFrame(
        {
            "i": [1, 3],
            "title": ["One", None],
            "genres": [["a", "b"], []],
            "kind": pl.Series(["x", "y"], dtype=pl.Categorical),
            "cast": [{"lead": "A", "age": 3}, {"lead": None, "age": None}],
            "nothing": [None, None],
        }
    )
    people = pl.DataFrame({"u": ["a"], "born": [dt.date(1990, 1, 1)]})
    for columns in ({}, {"weight": "w"}, {"timestamp": "t"}, {"weight": "w", "timestamp": "t"}):
        data = Interactions.from_frame(
            frame, user="u", item="i", item_attributes=films, user_attributes=people, **columns
        )
        found = again(data, tmp_path / "model")
        assert_same_data(found, data)
        for name in ("weights", "timestamps"):
            mine, theirs = getattr(data, name), getattr(found, name)
            assert (mine is None) == (theirs is None) == (name[:-1] not in columns)
            assert mine is None or (mine.dtype == theirs.dtype and mine.tolist() == theirs.tolist())


def test_times_as_fractions(tmp_path):
    data = Interactions.from_frame(pl.DataFrame({"user": [1, 2], "item": [1, 2], "t": [0.5, 1.25]}), timestamp="t")
    assert again(data, tmp_path / "model").timestamps.dtype == data.timestamps.dtype


def test_users_without_interactions_and_items_nobody_took(tmp_path):
    whole = Interactions.from_frame(pl.DataFrame({"user": [1, 2, 3], "item": [5, 6, 5]}), catalog=[4, 5, 6, 7])
    data = whole.subset([True, False, True])
    assert_same_data(again(data, tmp_path / "model"), data)


@pytest.mark.parametrize("library", ["pandas", "pyarrow", "polars"])
def test_frames_come_back_in_the_users_library(tmp_path, library):
    columns = {"user": ["a", "b", "b"], "item": [1, 2, 1]}
    make = {"pandas": pd.DataFrame, "pyarrow": pa.table, "polars": pl.DataFrame}[library]
    model = MostPopular().fit(Interactions.from_frame(make(columns)))
    save(model, tmp_path / "model")
    lists = load(tmp_path / "model").recommend(["a"], k=1)
    assert type(lists) is type(make(columns))
    assert lists.equals(model.recommend(["a"], k=1))


def test_attributes_that_parquet_cannot_hold_are_an_error(tmp_path):
    data = Interactions.from_frame(pl.DataFrame({"user": [1, 2], "item": [1, 2]}))
    things = pl.DataFrame({"item": [1, 2]}).with_columns(pl.Series("thing", [object(), object()], dtype=pl.Object))
    object.__setattr__(data, "item_attributes", things)
    with pytest.raises(DataError, match=r"the items cannot be written as Parquet.*thing \(Object"):
        save(MostPopular().fit(data), tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("content", [b"", b"user,name", b"PAR1" + bytes(40) + b"PAR1"])
def test_what_is_no_parquet_is_an_error(tmp_path, content):
    (tmp_path / "users.parquet").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"users\.parquet is damaged: it cannot be read as Parquet \(.+\)"):
        read_table(tmp_path / "users.parquet", "user", {"users": 3, "user_attributes": None})


def test_ids_that_are_missing_are_an_error(tmp_path):
    pl.DataFrame({"user": [1, None, 3]}).write_parquet(tmp_path / "users.parquet")
    for count in (3, 4):
        with pytest.raises(ModelFileError, match=rf"holds 2 user ids, model\.json says {count}"):
            read_table(tmp_path / "users.parquet", "user", {"users": count, "user_attributes": None})


# ---- counts that do not fit --------------------------------------------------------------------------------


@pytest.fixture
def stored():
    """Facts, arrays and frames of small data, as `restore` takes them."""
    data = Interactions.from_frame(pl.DataFrame({"user": [1, 1, 2, 3], "item": [10, 20, 10, 30]}))
    frames = [pl.read_parquet(table_bytes(data, kind)) for kind in ("user", "item")]
    return summary_of(data), dict(seen_tensors(data)), *frames


def refused(stored, what, verify=False, **changes):
    summary, tensors, users, items = stored
    tensors = {name: array for name, array in {**tensors, **changes}.items() if array is not None}
    with pytest.raises(ModelFileError, match=rf"^here: .*{what}"):
        restore(summary, tensors, users, items, "here", verify)


def test_what_fits_is_taken(stored):
    assert restore(*stored, "here", verify=True).n_interactions == 4


def test_missing_and_strange_arrays(stored):
    refused(stored, "'indices' of the seen interactions is missing", indices=None)
    refused(stored, "expected no such array", colors=np.zeros(4))
    refused(stored, "expected int32 of shape", indices=stored[1]["indices"].astype(np.int64))
    refused(stored, "expected float32 of shape", weights=np.ones(4))


def test_arrays_of_another_length(stored):
    refused(stored, r"'offsets' .* shape \(3,\); expected int64 of shape \(4,\) for 3 users", offsets=np.arange(3))
    refused(stored, "'indices'", indices=stored[1]["indices"][:-1])
    refused(stored, "'timestamps'", timestamps=np.arange(5))


@pytest.mark.parametrize("offsets", [[0, 2, 3, 5], [1, 2, 3, 4], [0, 3, 2, 4], [0, 2, 99, 4], [0, -7, 3, 4]])
def test_offsets_that_would_lead_outside(stored, offsets):
    refused(stored, "do not ascend from 0 to 4", offsets=np.array(offsets))


@pytest.mark.parametrize("bad", [-1, 3, 2**31 - 1])
def test_indices_that_would_lead_outside(stored, bad):
    refused(stored, r"outside of 0 \.\.\. 2", indices=np.array([0, bad, 0, 2], dtype=np.int32))


def test_verify_looks_at_the_order(stored):
    refused(stored, "items of a user", verify=True, indices=np.array([1, 0, 0, 2], dtype=np.int32))
    refused(stored, "items of a user", verify=True, indices=np.array([1, 1, 0, 2], dtype=np.int32))
    summary, tensors, users, items = stored
    refused((summary, tensors, users.reverse(), items), "user ids are not in ascending order", verify=True)
    refused((summary, tensors, users, items.with_columns(item=10)), "item ids are not in ascending order", verify=True)


def test_arrays_are_checked_before_they_are_written():
    data = Interactions.from_frame(pl.DataFrame({"user": [1, 2], "item": [1, 2]}))
    object.__setattr__(data, "indices", np.array([0, 5], dtype=np.int32))
    with pytest.raises(ModelFileError, match="train_: the item indices"):
        seen_tensors(data)
