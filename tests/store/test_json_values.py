"""Values as JSON: what goes in comes out, type for type, in JSON that every parser reads."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.store.model_equality import assert_same_value

from tastespace.errors import DataError, ModelFileError
from tastespace.store._json_values import decode, encode


def there_and_back(value):
    tensors = {}
    text = json.dumps(encode(value, "value", tensors), allow_nan=False)
    return decode(json.loads(text), tensors, "value")


NUMBERS = [
    np.dtype(name) for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
]
FLOATS = [np.dtype(name) for name in ("float16", "float32", "float64")]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.text().map(np.str_),
    st.builds(lambda dtype, n: dtype.type(n), st.sampled_from(NUMBERS), st.integers(0, 127)),
    st.builds(lambda dtype, x: dtype.type(x), st.sampled_from(FLOATS), st.floats(width=16)),
    st.text("abc/.", min_size=1).map(Path),
)
keys = st.one_of(st.text(), st.text().map("$".__add__), st.integers(), st.tuples(st.integers(), st.text()))
arrays = st.builds(
    lambda dtype, shape: np.arange(math.prod(shape)).reshape(shape).astype(dtype),
    st.sampled_from(NUMBERS + FLOATS),
    st.lists(st.integers(0, 3), max_size=3),
)
values = st.recursive(
    st.one_of(scalars, arrays),
    lambda inner: st.one_of(st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(keys, inner)),
    max_leaves=12,
)


@given(values)
def test_what_goes_in_comes_out(value):
    assert_same_value(there_and_back(value), value)


@pytest.mark.parametrize("value", [-0.0, 5e-324, 1e308, math.inf, -math.inf, 2**70, np.float32("-inf"), "\ud800\0é"])
def test_odd_numbers_and_texts(value):
    again = there_and_back(value)
    assert_same_value(again, value)
    assert str(again) == str(value)  # the sign of zero


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (3, 0)])
def test_sparse_matrices(kind, shape):
    dense = np.arange(math.prod(shape), dtype=np.float32).reshape(shape) % 3
    assert_same_value(there_and_back({"similar": kind(dense)}), {"similar": kind(dense)})


def test_arrays_of_one_name_are_kept_apart():
    value = {"a": {"b": np.zeros(1)}, "a.b": np.ones(2), "c": [np.arange(3)], "c[0]": np.arange(4)}
    assert_same_value(there_and_back(value), value)
    tensors = {}
    encode(np.ones(1), "__metadata__", tensors)
    assert list(tensors) == ["__metadata__#2"]


class Thing:
    pass


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Thing(), "Thing"),
        ({1, 2}, "set"),
        (b"bytes", "bytes"),
        (1j, "complex"),
        (sp.coo_array(np.eye(2)), "coo_array"),
        (np.ma.masked_array([1]), "MaskedArray"),
        (np.datetime64("2024-01-01"), "datetime64"),
        (np.longdouble(1), "longdouble"),
        (lambda: 0, "function"),
    ],
)
def test_what_no_file_can_hold_is_refused_by_name(value, kind):
    with pytest.raises(DataError, match=rf"learned_\.deep\[0\] is of type .*{kind}.*Convert it"):
        encode({"deep": [value]}, "learned_", {})


@pytest.mark.parametrize(
    "array", [np.array([object()]), np.array(["text"]), np.array([1j]), np.array(["2024"], "M8[Y]")]
)
def test_arrays_of_other_things_than_numbers_are_refused(array):
    with pytest.raises(DataError, match=r"names_ is an array of .*numbers of up to 64 bits"):
        encode(array, "names_", {})


def test_arrays_need_a_place():
    with pytest.raises(DataError, match=r"parameter x is of type numpy\.ndarray"):
        encode(np.ones(2), "parameter x")


@pytest.mark.parametrize(
    "value",
    [
        {"$unheard": 1},
        {"$tuple": 5},
        {"$dict": [[[], 1]]},
        {"$numpy": "float128", "value": 1},
        {"$numpy": "int8", "value": "x"},
        {"$numpy": "int8"},
        {"$path": 3},
        {"$float": []},
        {"$array": "a"},
        {"$array": "nowhere", "dtype": "F64", "shape": [1]},
        {"$array": "a", "dtype": "F64", "shape": [2]},
        {"$csr": {"data": 1}, "shape": [1, 1], "matrix": False},
    ],
)
def test_what_cannot_be_read_is_said(value):
    with pytest.raises(ModelFileError, match=r"^here"):
        decode([value], {"a": np.zeros(1)}, "here")
