"""Saving, opening and looking at models, and a reader that knows nothing but docs/model-format.md."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from tests.store.model_equality import assert_same_model

import tastespace
from tastespace import evaluate
from tastespace.errors import DataError, ModelFileError
from tastespace.store import (
    _manifest as manifest,
)
from tastespace.store import (
    inspect,
    load,
    save,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "model-format.md"


def test_a_report_or_any_figures_are_kept_beside_the_model(tmp_path, parts, old):
    train, _, test = parts
    report = evaluate(old, test, seen=train, k=3, metrics=["P", "MRR"])
    save(old, tmp_path / "model", metrics=report)
    assert inspect(tmp_path / "model")["metrics"] == report.metrics
    save(old, tmp_path / "model", metrics={"P@3": np.float32(0.5), "by user": [1, None]})
    assert inspect(tmp_path / "model")["metrics"] == {"P@3": np.float32(0.5), "by user": [1, None]}
    save(old, tmp_path / "model")
    assert inspect(tmp_path / "model")["metrics"] is None
    with pytest.raises(DataError, match="a report in percent; a model file holds fractions"):
        save(old, tmp_path / "model", metrics=report.in_percent())
    with pytest.raises(DataError, match=r"metrics=12\.5: expected the report"):
        save(old, tmp_path / "model", metrics=12.5)


@pytest.mark.parametrize("verify", [False, True])
def test_inspect_tells_what_is_there(tmp_path, old, verify):
    save(old, tmp_path / "model", metrics={"P@3": 1.0})
    found = inspect(tmp_path / "model", verify=verify)
    files = found.pop("files")
    assert files == {path.name: path.stat().st_size for path in (tmp_path / "model").iterdir() if "-" in path.name}
    assert found.pop("created").endswith("Z")
    assert found == {
        "path": str(tmp_path / "model"),
        "class": "dpcml",
        "parameters": {
            name: value for name, value in old.get_params().items() if name not in ("checkpoint", "log_file", "spill")
        },
        "served_diversity": 0.0,
        "metrics": {"P@3": 1.0},
        "evaluation": None,
        "users": 40,
        "items": 30,
        "interactions": old.train_.n_interactions,
        "vectors": 80,
        "dimension": 6,
        "fingerprint": old.train_.fingerprint(),
        "backend": "polars",
        "version": tastespace.__version__,
        "format_version": 1,
        "profiles": 0,
        "index": None,
    }


def test_arrays_stay_in_the_file(tmp_path, old, monkeypatch):
    monkeypatch.setattr("tastespace._util.model_files.READ_BYTES", 1)
    save(old, tmp_path / "model")
    loaded = load(tmp_path / "model")
    for array in (loaded.user_vectors_, loaded.item_vectors_, loaded.train_.offsets, loaded.train_.indices):
        assert type(array) is np.ndarray
        assert not array.flags.writeable
        assert not array.flags.owndata
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert sum(str(tmp_path / "model") in line for line in maps.read_text().splitlines()) == 2


def test_a_copy_of_a_copy_is_the_same_model(tmp_path, old):
    save(old, tmp_path / "first")
    save(load(tmp_path / "first"), tmp_path / "second")
    assert_same_model(load(tmp_path / "second", verify=True), old)
    one, other = (json.loads((tmp_path / name / "model.json").read_text()) for name in ("first", "second"))
    for part in ("learned", "seen", "users", "items"):
        assert one["files"][part]["crc32"] == other["files"][part]["crc32"]


def document_reader():
    (block,) = DOCUMENT.read_text(encoding="utf-8").split("```python\n")[1:]
    names = {}
    exec(compile(block.partition("```")[0], str(DOCUMENT), "exec"), names)
    return names["recommend"]


@pytest.mark.parametrize("name", ["dpcml", "cml"])
def test_the_documented_format_is_enough_to_recommend(tmp_path, fitted, name):
    model = fitted(name)
    save(model, tmp_path / "model")
    recommend = document_reader()
    for user in model.train_.users.series.head(10):
        assert recommend(tmp_path / "model", user, 5) == model.recommend([user], k=5)["item"].to_list()


def test_the_document_names_every_field(tmp_path, old):
    save(old, tmp_path / "model")
    text = DOCUMENT.read_text(encoding="utf-8")
    content = json.loads((tmp_path / "model" / "model.json").read_text())
    fields = [*content, *content["data"], *content["vectors"], *content["files"], *content["files"]["seen"]]
    assert [name for name in fields if f"`{name}`" not in text] == []


def test_profiles_are_saved_and_loaded(tmp_path, old):
    users = old.train_.users
    first, last = users[0], users[len(users) - 1]
    model = copy.copy(old)
    model._profiles = None
    model.mute(last, [0]).boost(first, {1: 2.5, 0: 0.5})
    save(model, tmp_path / "model")
    assert inspect(tmp_path / "model", verify=True)["profiles"] == 2
    again = load(tmp_path / "model")
    assert dict(again.profiles) == dict(model.profiles)
    assert again.recommend(k=5).equals(model.recommend(k=5))
    assert not again.recommend(last, k=5).equals(old.recommend(last, k=5))
    again.clear_profile(first).clear_profile(last).save(tmp_path / "model")
    assert len(load(tmp_path / "model").profiles) == 0


@pytest.mark.parametrize(
    "stored",
    [
        5,
        [5],
        [{"user": 0}],
        [{"user": 4000, "mute": [0], "boost": {}}],
        [{"user": 0, "mute": ["x"], "boost": {}}],
        [{"user": 0, "mute": [0], "boost": {"1": 0}}],
    ],
)
def test_profiles_that_make_no_sense(tmp_path, old, stored, monkeypatch):
    save(old, tmp_path / "model")
    parse = manifest.parse
    monkeypatch.setattr(manifest, "parse", lambda *given: {**parse(*given), "profiles": stored})
    with pytest.raises(ModelFileError, match="the stored user profiles are invalid"):
        load(tmp_path / "model")
