import copy
from dataclasses import replace

import numpy as np
import pytest

from tastespace.models import DPCML, registry
from tastespace.paper import methods
from tastespace.paper import runner as module
from tastespace.paper.data import load_parts
from tastespace.paper.runner import PlannedRun, ResultCache, RunResult

POPULAR = PlannedRun("town", "popular")


@pytest.fixture
def finished():
    return RunResult({"metrics": {"P@3": 12.5}, "seconds": 1.0}, {"P@3": np.array([0.0, np.nan, 25.0])})


def test_a_finished_run_is_found_again(tmp_path, finished):
    cache = ResultCache(tmp_path / "new" / "folder")
    assert cache.get(POPULAR) is None
    cache.put(POPULAR, finished)
    again = cache.get(POPULAR)
    assert again.result["metrics"] == {"P@3": 12.5}
    assert again.result["planned"]["method"] == "popular"
    np.testing.assert_array_equal(again.per_user["P@3"], finished.per_user["P@3"])


def test_everything_that_decides_the_figures_is_in_the_key(monkeypatch):
    base = PlannedRun("town", "cml+hars")
    others = [
        PlannedRun("town", "cml+unis"),
        PlannedRun("town", "cml+hars", seed=1),
        PlannedRun("town", "cml+hars", split_seed=1),
        PlannedRun("town", "cml+hars", parameters={"dim": 8}),
        PlannedRun("town", "cml+hars", parameters={"seed": 7}),
        PlannedRun("town", "cml+hars", preset="paper"),
        PlannedRun("town", "cml+hars", protocol="full"),
        PlannedRun("town", "cml+hars", metrics=("MAP",)),
    ]
    keys = {planned.key() for planned in (base, *others)}
    assert len(keys) == 1 + len(others)
    assert PlannedRun("town", "CML+HarS", label="another name").key() == base.key()
    before = base.key()
    monkeypatch.setitem(module.MODEL_VERSIONS, "cml", 2)
    assert base.key() != before


def test_defaults_of_the_method_and_what_is_known_of_items_are_in_the_key(monkeypatch):
    planned = PlannedRun("town", "bpa+hars")
    before = planned.key()
    assert PlannedRun("town", "bpa+hars", parameters={"n_interests": 5}).key() == before  # a default, given
    with monkeypatch.context() as patch:
        patch.setitem(methods.SELECTION, "monitor", "MAP")
        assert planned.key() != before
    parts = load_parts("town")
    bare = copy.copy(parts.train)
    object.__setattr__(bare, "item_attributes", None)
    with monkeypatch.context() as patch:
        patch.setattr(module, "load_parts", lambda *_: replace(parts, train=bare))
        assert planned.key() != before
    assert planned.key() == before


def test_a_version_concerns_its_own_runs_only(monkeypatch):
    runs = {name: PlannedRun("town", name) for name in ("popular", "cml+hars", "bpa+hars", "cml+hars+dd")}
    before = {name: planned.key() for name, planned in runs.items()}

    def changed():
        return {name for name, planned in runs.items() if planned.key() != before[name]}

    with monkeypatch.context() as patch:
        patch.setitem(module.MODEL_VERSIONS, "cml", 2)
        assert changed() == {"cml+hars", "cml+hars+dd"}
    with monkeypatch.context() as patch:
        patch.setitem(module.VERSIONS, "reranking", 2)
        assert changed() == {"cml+hars+dd"}
    with monkeypatch.context() as patch:
        patch.setitem(module.VERSIONS, "cold start", 2)
        assert changed() == set()
        assert PlannedRun("town-cold", "popular").key() not in before.values()
    with monkeypatch.context() as patch:
        patch.setitem(module.VERSIONS, "evaluation", 2)
        assert changed() == set(runs)
    assert changed() == set()


def test_every_version_names_a_model():
    assert set(module.MODEL_VERSIONS) <= set(registry())


def test_a_parameter_that_was_added_keeps_keys_where_it_changes_nothing(monkeypatch):
    base = PlannedRun("town", "bpa+hars")
    before = base.key()
    assert PlannedRun("town", "bpa+hars", parameters={"anchor": 0.0}).key() == before
    assert PlannedRun("town", "bpa+hars", parameters={"anchor": 0.5}).key() != before
    assert "anchor" not in module._effective_parameters(methods.find_method("bpa+hars"), {}, 0)
    monkeypatch.setattr(module, "_ADDED_PARAMETERS", {})
    assert base.key() != before


def test_what_does_not_decide_the_figures_is_not_in_the_key():
    base = PlannedRun("town", "dpcml", parameters={"sampler": "hars"})
    assert PlannedRun("town", "dpcml", parameters={"sampler": "hard"}).key() == base.key()
    files = {"log_file": "log.jsonl", "checkpoint": "folder", "checkpoint_epochs": 1}
    assert PlannedRun("town", "dpcml", parameters={"sampler": "HarS", **files}).key() == base.key()


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "rubbish"])
def test_a_damaged_result_counts_as_absent(tmp_path, finished, damage):
    cache = ResultCache(tmp_path)
    path = cache.put(POPULAR, finished)
    whole = path.read_bytes()
    if damage == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "flip":
        middle = len(whole) // 3
        path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1 :])
    else:
        path.write_bytes(b"" if damage == "empty" else b"no archive at all")
    assert cache.get(POPULAR) is None
    cache.put(POPULAR, finished)
    assert cache.get(POPULAR) is not None


@pytest.mark.parametrize("result", ["no json", "{}", "[1]"])
def test_a_file_that_holds_something_else_counts_as_absent(tmp_path, finished, result, caplog):
    path = ResultCache(tmp_path).put(POPULAR, finished)
    np.savez(path, result=np.array(result))
    assert ResultCache(tmp_path).get(POPULAR) is None
    assert "counts as absent" in caplog.text


def test_a_result_of_another_revision_is_not_read(tmp_path, finished, monkeypatch, caplog):
    cache = ResultCache(tmp_path)
    path = cache.put(POPULAR, finished)
    assert cache.get(POPULAR).result["versions"]["kernels"] == module.VERSIONS["kernels"]
    with monkeypatch.context() as patch:
        patch.setitem(module.VERSIONS, "kernels", 99)
        assert cache.get(POPULAR) is None  # it has another key
        path.rename(tmp_path / f"{POPULAR.key()}.npz")
        assert cache.get(POPULAR) is None  # and says itself what made it
        assert "another revision" in caplog.text


TRAINED = {
    3: {
        "adagrad": [0.37621, -0.28997, 0.11433, 0.03854, -0.01779, -0.06391],
        "dihars": [0.37746, -0.27695, 0.16852, 0.06677, 0.06136, -0.02915],
        "adam": [0.47419, -0.64736, 0.15011, 0.08921, -0.09968, -0.11094],
        "batches": [0.4558, -0.4696, 0.21202, 0.1258, -0.00601, -0.06125],
    },
}
"""Version of the kernels -> coordinates after a small fit with each rule: a part of what they learn."""


def test_what_kernels_learn_does_not_change_without_a_new_version():
    parts = load_parts("town")
    found = {}
    for name, changes in {
        "adagrad": {"sampler": "hars"},
        "dihars": {"sampler": "dihars", "n_negatives": 20},
        "adam": {"sampler": "unis", "optimizer": "adam", "learning_rate": 0.01},
        "batches": {"sampler": "hars", "optimizer": "dense-adam", "learning_rate": 0.01, "block_size": 64},
    }.items():
        form = {**DPCML.paper_form(), "dim": 8, "n_interests": 2, "epochs": 2, "average": 1, "seed": 3, "threads": 1}
        model = DPCML(**{**form, **changes}).fit(parts.train)
        found[name] = [*model.user_vectors_[0, :3].tolist(), *model.item_vectors_[7, :3].tolist()]
    expected = TRAINED.get(module.VERSIONS["kernels"])
    assert expected is not None, "a new version of the kernels: write down what they learn now"
    assert found.keys() == expected.keys()
    for name, values in found.items():
        message = f"{name} learns something else: raise VERSIONS['kernels'], so that older results are not read"
        np.testing.assert_allclose(values, expected[name], atol=2e-4, err_msg=message)
