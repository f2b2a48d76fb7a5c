"""Mapped safetensors: what the library writes is read, what is written the library reads, damage is found."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from tastespace.errors import ModelFileError
from tastespace.store._tensors import (
    DTYPES,
    map_tensors,
    safetensors_chunks,
    type_name,
)

ARRAYS = {
    **{f"of {name}": np.arange(5).astype(dtype) for name, dtype in DTYPES.items()},
    "matrix": np.arange(12, dtype=np.float32).reshape(3, 4),
    "empty": np.empty((0, 7), dtype=np.int32),
    "also empty": np.empty(0, dtype=np.float64),
    "one": np.array(3.5),
    "é": np.ones(1, dtype=np.uint8),
}


def write(path, arrays):
    path.write_bytes(b"".join(safetensors_chunks(arrays)))
    return path


def assert_same_arrays(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype, name
        assert array.shape == other[name].shape, name
        np.testing.assert_array_equal(array, other[name])


def test_arrays_come_back_and_the_library_agrees(tmp_path):
    path = write(tmp_path / "a.safetensors", ARRAYS)
    assert_same_arrays(map_tensors(path)[0], ARRAYS)
    assert_same_arrays(load_file(path), ARRAYS)
    save_file(ARRAYS, tmp_path / "b.safetensors", metadata={"note": "by the library"})
    assert_same_arrays(map_tensors(tmp_path / "b.safetensors")[0], ARRAYS)


def test_no_arrays_at_all(tmp_path):
    path = write(tmp_path / "none.safetensors", {})
    assert map_tensors(path)[0] == load_file(path) == {}


def test_arrays_are_read_only_aligned_views_of_the_file(tmp_path):
    found = map_tensors(write(tmp_path / "a.safetensors", ARRAYS))[0]
    for array in found.values():
        assert type(array) is np.ndarray
        assert not array.flags.writeable
        assert array.flags.aligned
        assert array.flags.c_contiguous
        assert array.size == 0 or not array.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        found["matrix"][0, 0] = 1


def test_every_layout_in_memory_is_written_in_rows(tmp_path):
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    arrays = {"columns": np.asfortranarray(whole), "every other": whole[::2, ::-1], "big end": whole.astype(">f4")}
    found = map_tensors(write(tmp_path / "a.safetensors", arrays))[0]
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    assert found["big end"].dtype == np.float32


def test_types_have_names():
    assert {type_name(dtype) for dtype in DTYPES.values()} == set(DTYPES)
    assert type_name(np.dtype(object)) is None


def tensor(dtype="F32", shape=(2,), span=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(span)}


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "a header of 0 bytes does not fit into a file of 0"),
        (b"\x05", "a header of 5 bytes does not fit"),
        ((2**63).to_bytes(8, "little") + b"{}", "a header of 9223372036854775808 bytes does not fit"),
        ((99).to_bytes(8, "little") + b"{}", "a header of 99 bytes does not fit"),
        ((10).to_bytes(8, "little") + b"{not json}", "not JSON"),
        ((2).to_bytes(8, "little") + b"\xff\xfe", "not JSON"),
        ((100_000).to_bytes(8, "little") + b"[" * 100_000, "not JSON"),
        ((2).to_bytes(8, "little") + b"[]", "not a JSON object"),
    ],
)
def test_a_file_without_a_header_is_refused(tmp_path, content, what):
    path = tmp_path / "wrong.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=what):
        map_tensors(path)


@pytest.mark.parametrize(
    ("entries", "what"),
    [
        ({"a": 3}, "unknown type None"),
        ({"a": tensor(dtype="F31")}, "unknown type 'F31'"),
        ({"a": tensor(dtype=[])}, r"unknown type \[\]"),
        ({"a": tensor(shape=(-2,))}, r"shape \[-2\]"),
        ({"a": tensor(shape=(True, 2))}, r"shape \[True, 2\]"),
        ({"a": {"dtype": "F32", "shape": "2", "data_offsets": [0, 8]}}, "shape '2'"),
        ({"a": tensor(span=(0, 8, 9))}, "at bytes"),
        ({"a": tensor(span=(8, 0))}, "at bytes"),
        ({"a": tensor(shape=(3,), span=(0, 12))}, r"at bytes \[0, 12\] of 8"),
        ({"a": tensor(shape=(3,))}, "does not take 8 bytes"),
        ({"a": tensor(shape=(2**40, 2**40, 0), span=(0, 0))}, "impossible shape"),
        ({"a": tensor(shape=(0,) * 99, span=(0, 0))}, "impossible shape"),
        ({"a": tensor("F32", (1,), (0, 4))}, "end at byte 4, the file at 8"),
        ({"a": tensor("F32", (1,), (4, 8))}, "gap at byte 0"),
        ({"a": tensor(), "b": tensor("F32", (1,), (4, 8))}, "overlap or leave a gap"),
        ({"a": tensor("U8", (4,), (0, 4)), "b": tensor("F32", (1,), (3, 7))}, "within a number"),
    ],
)
def test_a_wrong_header_is_refused(tmp_path, entries, what):
    path = tmp_path / "wrong.safetensors"
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(ModelFileError, match=what):
        map_tensors(path)


@given(st.data())
def test_any_change_of_a_header_is_refused_or_harmless(tmp_path_factory, data):
    arrays = {"a": np.arange(6, dtype=np.float32), "b": np.arange(4, dtype=np.int64).reshape(2, 2)}
    raw = bytearray(b"".join(safetensors_chunks(arrays)))
    end = 8 + int.from_bytes(raw[:8], "little")
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, end - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(raw))))
    path = tmp_path_factory.mktemp("flipped") / "x.safetensors"
    path.write_bytes(bytes(raw[:cut]))
    try:
        found = map_tensors(path)[0]
    except ModelFileError:
        return
    assert sum(array.nbytes for array in found.values()) <= sum(array.nbytes for array in arrays.values())
