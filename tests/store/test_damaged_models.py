"""Models whose files hold something else than their class stores: an error of ours, before anything uses it.

`tests.fuzz.model_files` has generated ones, in processes of their own.
"""

import json
import os

import numpy as np
import pytest
from tests.fuzz.model_files import declare_array, seal

from tastespace import DPCML, load, models
from tastespace.errors import ModelFileError, ParameterError
from tastespace.models.neural.base import NeuralRecommender
from tastespace.store import save
from tastespace.store._tensors import map_tensors, safetensors_chunks


def forge(folder, arrays=None, change=None):
    """Put other arrays into the learned file, change model.json, and compute all checksums again."""
    content = json.loads((folder / "model.json").read_text())
    path = folder / content["files"]["learned"]["name"]
    tensors = {name: array.copy() for name, array in map_tensors(path)[0].items()}
    for name, make in (arrays or {}).items():
        tensors[name] = make(tensors[name])
        declare_array(content["learned"], name, tensors[name])
    path.write_bytes(b"".join(safetensors_chunks(tensors)))
    if change is not None:
        change(content["learned"])
    seal(folder, content)


def number(at, value):
    def change(array):
        array.reshape(-1)[at] = value
        return array

    return change


@pytest.mark.parametrize("verify", [None, True, False])
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("user_offsets_", number(0, -(10**6)), r"user_offsets_ does not fit: its numbers go from -1,000,000"),
        ("user_offsets_", number(5, 10**6), "user_offsets_ does not fit"),
        ("user_offsets_", lambda array: array[:-1], "expected shape"),
        ("user_offsets_", lambda array: array.astype(np.int32), "expected int64 offsets"),
        ("user_vectors_", lambda array: array[:-1], "user_vectors_ does not fit"),
        ("item_vectors_", lambda array: array[:, :-1], "item_vectors_ does not fit"),
        ("item_vectors_", lambda array: array.astype(np.float64), "float64 of shape .*, expected float32"),
        ("item_vectors_", lambda array: array.reshape(-1), "item_vectors_ does not fit"),
    ],
)
def test_arrays_of_vectors(folder, name, change, message, verify):
    forge(folder, {name: change})
    with pytest.raises(ModelFileError, match=message):
        load(folder, verify=verify)


def test_nan_is_found_where_the_arrays_are_read(folder):
    forge(folder, {"item_vectors_": number(3, np.nan)})
    for verify in (None, True):
        with pytest.raises(ModelFileError, match="item_vectors_ does not fit: it holds NaN or infinite numbers"):
            load(folder, verify=verify)
    assert isinstance(load(folder, verify=False), DPCML)


@pytest.mark.parametrize("name", ["itemknn", "contentknn", "sparse-ease", "spectral", "category-popular"])
@pytest.mark.parametrize("part", ["indices", "indptr"])
@pytest.mark.parametrize("value", [-1, 10**6])
def test_sparse_matrices(tmp_path, fitted, name, part, value):
    save(fitted(name), tmp_path / "model")
    content = json.loads((tmp_path / "model" / "model.json").read_text())
    tensors, _ = map_tensors(tmp_path / "model" / content["files"]["learned"]["name"])
    chosen = next(one for one in sorted(tensors) if one.endswith(part) and len(tensors[one]))
    forge(tmp_path / "model", {chosen: number(-1, value)})
    with pytest.raises(ModelFileError, match="of a CSR array"):
        load(tmp_path / "model", verify=False)


@pytest.mark.parametrize(
    "name", ["train_", "valid_", "recommend", "__dict__", "__class__", "_profiles", "item_vector_", "x"]
)
def test_names_that_are_not_stored(folder, name):
    forge(folder, change=lambda learned: learned.update({name: 3}))
    with pytest.raises(ModelFileError, match=f"has no {name!r}; it has"):
        load(folder)


def test_names_that_are_missing(folder):
    forge(folder, change=lambda learned: learned.pop("item_vectors_"))
    with pytest.raises(ModelFileError, match="item_vectors_ is missing"):
        load(folder)


@pytest.mark.parametrize("value", [None, "x", [], {"a": 1}, 3.5, True, -1])
def test_values_of_other_kinds(folder, value):
    forge(folder, change=lambda learned: learned.update(best_epoch_=value))
    with pytest.raises(ModelFileError, match="best_epoch_ does not fit: it is"):
        load(folder)


def test_one_flipped_bit_is_found_unless_verify_is_off(folder):
    path = next(folder.glob("learned-*"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1  # of a number that stays a number
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match="its checksum differs"):
        load(folder)
    assert isinstance(load(folder, verify=False), DPCML)
    with pytest.raises(ParameterError, match="verify="):
        load(folder, verify="yes")


def test_large_models_are_read_on_request_only(folder, monkeypatch):
    path = next(folder.glob("learned-*"))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    monkeypatch.setattr("tastespace.store.VERIFIED_BYTES", 1000)
    assert isinstance(load(folder), DPCML)
    with pytest.raises(ModelFileError, match="its checksum differs"):
        load(folder, verify=True)


@pytest.mark.parametrize("pattern", ["model.json", "learned-*", "seen-*", "users-*", "items-*"])
def test_pipes_are_not_waited_for(folder, pattern):
    path = next(folder.glob(pattern))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ModelFileError, match=r"no regular file, but a pipe|bytes"):
        load(folder)


@pytest.mark.parametrize(
    "name",
    [name for name, cls in models.registry().items() if issubclass(cls, NeuralRecommender) and "+dn" not in name],
)
def test_declared_weights_are_those_that_training_starts_from(parts, name):
    model = models.create(name)
    found = {key: array.shape for key, array in model._initial_weights(parts[0], np.random.default_rng(0)).items()}
    assert model._weight_shapes(parts[0]) == found


@pytest.mark.parametrize("part", ["model.json", "learned", "seen", "users", "items"])
def test_links_out_of_the_folder_are_not_followed(folder, tmp_path, part):
    name = part if part == "model.json" else json.loads((folder / "model.json").read_text())["files"][part]["name"]
    (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelFileError, match="is a symbolic link"):
        load(folder)
    (tmp_path / "link").symlink_to(folder)  # the folder itself may be one
    (folder / name).unlink()
    (tmp_path / "elsewhere").rename(folder / name)
    assert load(tmp_path / "link").is_fitted


@pytest.mark.parametrize("forge", ["turned", "one user", "twice"])
def test_forged_histories_are_an_error_before_anything_uses_them(folder, forge):
    content = json.loads((folder / "model.json").read_text())
    path = folder / content["files"]["seen"]["name"]
    seen = {name: np.array(array) for name, array in map_tensors(path, None)[0].items()}
    if forge == "turned":
        seen["indices"] = seen["indices"][::-1].copy()
    elif forge == "one user":
        seen["offsets"][1:] = seen["offsets"][-1]
    else:
        seen["indices"][1] = seen["indices"][0]
    path.write_bytes(b"".join(map(bytes, safetensors_chunks(seen))))
    seal(folder, content)
    with pytest.raises(ModelFileError, match="not in ascending order"):
        load(folder, verify=False)
