"""Frames that are made of arrays: types, text beside numbers, and what is refused."""

import pickle

import numpy as np
import polars as pl
import pytest

from tastespace import _native
from tastespace.data.ids import IdMap
from tastespace.data.reading.tables import frame_of


def test_columns_keep_their_types_order_and_values():
    kinds = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
    arrays = {kind: np.arange(5).astype(kind)[::-1].copy() for kind in kinds}
    frame = frame_of({"name": pl.Series(list("abcde")), **arrays, "last": pl.Series([None] * 5, dtype=pl.Float32)})
    assert frame.columns == ["name", *kinds, "last"]
    assert frame["name"].to_list() == list("abcde")
    assert frame["last"].null_count() == 5
    for kind, values in arrays.items():
        assert frame[kind].to_numpy().dtype == kind
        np.testing.assert_array_equal(frame[kind].to_numpy(), values)


def test_a_frame_has_values_of_its_own():
    values = np.arange(3)
    frame = frame_of({"a": values})
    values[:] = 7
    assert frame["a"].to_list() == [0, 1, 2]
    assert frame_of({"a": np.empty(0, np.int32)}).shape == (0, 1)


def test_columns_that_make_no_frame():
    with pytest.raises(ValueError, match="columns: expected 2 values"):
        _native.ArrowColumns({"a": np.arange(2), "b": np.arange(3)})
    with pytest.raises(ValueError, match="one or more"):
        _native.ArrowColumns({})
    with pytest.raises(TypeError, match="whole numbers, float32 or float64"):
        _native.ArrowColumns({"a": np.zeros(2, np.complex64)})
    columns = _native.ArrowColumns({"a": np.arange(2)})
    columns.__arrow_c_array__()  # released with the capsules that nobody takes
    with pytest.raises(ValueError, match="handed over before"):
        columns.__arrow_c_array__()


@pytest.mark.parametrize("kind", [pl.Int8, pl.Int64, pl.UInt64, pl.UInt16])
def test_one_whole_number_is_found_within_its_type_only(kind):
    ids = IdMap(pl.Series([3, 5, 90], dtype=kind))
    for asked, row in ((3, 0), (5, 1), (90, 2), (4, -1), (-1, -1), (91, -1), (2**70, -1), (-(2**70), -1), (259, -1)):
        assert ids.find([asked]).tolist() == [row]
    assert IdMap(pl.Series([], dtype=kind)).find([3]).tolist() == [-1]
    assert pickle.loads(pickle.dumps(ids)) == ids
