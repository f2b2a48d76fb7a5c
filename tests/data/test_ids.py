import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tastespace import _native
from tastespace.data.ids import IdMap, encode, id_series, parse_ids
from tastespace.errors import DataError, ParameterError, UnknownIdError

SORTS_OF_ID = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
    st.lists(st.integers(0, 2**64 - 1).map(np.uint64), min_size=1).map(lambda v: np.array(v, np.uint64)),
    st.lists(st.integers(-100, 100), min_size=1),
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1),
    st.lists(st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)), min_size=1),
    st.lists(st.binary(max_size=5), min_size=1),
)


@given(SORTS_OF_ID)
def test_ids_come_back_as_they_went_in(values):
    ids, codes = encode(id_series(values, "user"), "user")
    assert ids.take(codes).to_list() == list(values)
    assert ids.series.is_sorted()
    assert ids.series.n_unique() == len(ids) == len(set(codes.tolist()))
    assert ids.index_of(values).tolist() == codes.tolist()


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(1, 2**40))
def test_encode_ids_agrees_with_numpy_for_compact_and_scattered_ids(values, scale):
    for array in (np.array(values, np.int64), np.array(values, np.int64) % scale):
        ids, codes = _native.encode_ids(array)
        expected_ids, expected_codes = np.unique(array, return_inverse=True)
        assert ids.tolist() == expected_ids.tolist()
        assert codes.tolist() == expected_codes.tolist()


def test_many_scattered_ids_go_through_a_growing_hash_table():
    values = np.random.default_rng(0).integers(-(2**62), 2**62, 200_000)
    values = np.concatenate([values, values[::-1]])
    ids, codes = _native.encode_ids(values)
    assert np.array_equal(ids[codes], values)
    assert np.all(np.diff(ids) > 0)


def test_unknown_ids_are_minus_one_whatever_their_type():
    ids = IdMap(pl.Series([1, 5, 9]), "item")
    assert ids.find([5, 6, 9.0, 5.5]).tolist() == [1, -1, 2, -1]
    assert ids.find(["5"]).tolist() == [-1]
    assert ids.find([None, 1]).tolist() == [-1, 0]
    assert ids.find(["a", 9]).tolist() == [-1, 2]
    assert ids.find([]).tolist() == []
    assert 5 in ids
    assert "five" not in ids


def test_lookup_of_an_unknown_id_offers_the_nearest():
    ids = IdMap(pl.Series(["alien", "blade runner", "casablanca"]), "item")
    with pytest.raises(UnknownIdError, match="Did you mean casablanca"):
        ids.index_of(["casblanca"])
    with pytest.raises(UnknownIdError, match=r"1 of 2 item ids are unknown, the first is 3 \(int\)"):
        ids.index_of(["alien", 3])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", None], "1 of 2 ids are null, the first in row 1"),
        (["a", 1], r"mixes types: 'a' \(str\), 1 \(int\)"),
        ([1.5, float("nan")], "the id in row 1 is nan"),
        ([[1], [2]], "ids must be whole numbers, strings"),
    ],
)
def test_what_cannot_be_an_id_is_refused(values, message):
    with pytest.raises(DataError, match=message):
        id_series(values, "user")


def test_scalars_of_numpy_are_looked_up_as_what_they_are():
    days = IdMap(pl.Series([dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2)]), "user")
    assert days.find([np.datetime64("2020-01-02", "ns"), dt.datetime(2020, 1, 1)]).tolist() == [1, 0]
    numbers = IdMap(pl.Series([1, 5]), "user")
    assert numbers.find([np.datetime64("2020-01-01"), np.int64(5), "a"]).tolist() == [-1, 1, -1]
    with pytest.raises(UnknownIdError, match="datetime64"):
        numbers.index_of([np.datetime64("2020-01-01")])


def test_maps_are_equal_where_types_and_ids_are():
    ids = IdMap(pl.Series([1, 5, 9]), "item")
    assert ids == IdMap(pl.Series([1, 5, 9]), "item")
    assert ids != IdMap(pl.Series([1, 5, 8]), "item")
    assert ids != IdMap(pl.Series([1, 5, 9], dtype=pl.Int32), "item")
    assert ids != [1, 5, 9]


@pytest.mark.parametrize("own", [pl.Series(range(0, 400, 2)), pl.Series([f"i{n:03d}" for n in range(0, 400, 2)])])
@pytest.mark.parametrize("n", [1, 2, 64, 65, 300])
def test_few_and_many_ids_are_found_alike(own, n):
    ids = IdMap(own, "item")
    wanted = [f"i{at:03d}" for at in range(n)] if own.dtype == pl.String else list(range(n))
    expected = [at // 2 if at % 2 == 0 else -1 for at in range(n)]
    assert ids.find(wanted).tolist() == expected
    outside = ["a", "z"] if own.dtype == pl.String else [-1, 1000]
    assert ids.find(outside).tolist() == [-1, -1]
    assert [ids.find([one]).tolist() for one in outside] == [[-1], [-1]]


def test_text_ids_as_bytes():
    offsets, text = IdMap(pl.Series(["", "jam", "é"]), "item").utf8()
    assert offsets.tolist() == [0, 0, 3, 5]
    assert bytes(text) == "jamé".encode()


def test_categories_of_frames_are_looked_up_as_text():
    given = pl.Series(["rye", "tea"], dtype=pl.Categorical)
    assert IdMap(pl.Series(["jam", "tea"]), "item").find(given).tolist() == [-1, 1]
    assert IdMap(pl.Series([1, 2]), "item").find(given).tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("own", "texts", "expected"),
    [
        (pl.Series([1, 5]), ["5", "x"], [5, "x"]),
        (pl.Series(["1", "5"]), ["5"], ["5"]),
        (pl.Series([False, True]), ["true", "false", "maybe"], [True, False, "maybe"]),
        (pl.Series([dt.date(2020, 1, 2)]), ["2020-01-02", "today"], [dt.date(2020, 1, 2), "today"]),
    ],
)
def test_ids_given_as_text_get_the_type_of_the_known_ones(own, texts, expected):
    assert parse_ids(IdMap(own, "item"), texts) == expected


def test_an_id_that_is_no_text_is_refused():
    with pytest.raises(ParameterError, match="is no valid text"):
        parse_ids(IdMap(pl.Series([1]), "item"), [chr(0xDCFF)])
