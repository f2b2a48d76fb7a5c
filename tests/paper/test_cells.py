import copy
from dataclasses import replace

import numpy as np
import pytest

from tastespace.paper import cells as module
from tastespace.paper import methods
from tastespace.paper.cells import PlannedRun, RunResult, ResultCache
from tastespace.paper.code_version import _reachable, code_version
from tastespace.paper.runs import load_parts

POPULAR = PlannedRun("town", "popular")


@pytest.fixture
def finished():
    return RunResult({"metrics": {"P@3": 12.5}, "seconds": 1.0}, {"P@3": np.array([0.0, np.nan, 25.0])})


def test_a_finished_cell_is_found_again(tmp_path, finished):
    cache = ResultCache(tmp_path / "new" / "folder")
    assert cache.get(POPULAR) is None
    cache.put(POPULAR, finished)
    again = cache.get(POPULAR)
    assert again.result["metrics"] == {"P@3": 12.5}
    assert again.result["cell"]["method"] == "popular"
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
    monkeypatch.setattr(module, "code_version", lambda *_: "other code")
    assert base.key() != before


def test_defaults_of_the_method_and_what_is_known_of_items_are_in_the_key(monkeypatch):
    cell = PlannedRun("town", "bpa+hars")
    before = planned.key()
    assert PlannedRun("town", "bpa+hars", parameters={"n_interests": 5}).key() == before  # said or not, it is the same run
    with monkeypatch.context() as patch:
        patch.setitem(methods._SELECTION, "monitor", "MAP")
        assert planned.key() != before
    parts = load_parts("town")
    bare = copy.copy(parts.train)
    object.__setattr__(bare, "item_attributes", None)
    with monkeypatch.context() as patch:
        patch.setattr(module, "load_parts", lambda *_: replace(parts, train=bare))
        assert planned.key() != before
    assert planned.key() == before


def test_the_code_of_a_model_is_its_own():
    versions = {name: code_version(name) for name in ("popular", "cml", "dpcml")}
    assert versions["popular"] != versions["dpcml"]
    assert versions["cml"] == versions["dpcml"]  # the same file and the same bases
    assert code_version("popular") != code_version("popular", two_stages=True)


def test_the_code_of_a_figure_is_what_its_model_leads_to():
    code = _reachable({"tastespace.models.translation_cml"})
    assert {"tastespace.models.metric_base", "tastespace.models.torch_base", "tastespace.training.loop"} <= code
    assert "tastespace.evaluation" in code  # imported where validation begins, inside a function
    assert not code & {"tastespace.models.dpcml", "tastespace.models.inference", "tastespace.recommend.topk"}


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "rubbish"])
def test_a_damaged_cell_counts_as_not_there(tmp_path, finished, damage):
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
def test_a_file_that_holds_something_else_counts_as_not_there(tmp_path, finished, result, caplog):
    path = ResultCache(tmp_path).put(POPULAR, finished)
    np.savez(path, result=np.array(result))
    assert ResultCache(tmp_path).get(POPULAR) is None
    assert "counts as not there" in caplog.text
