import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tastespace.data import datasets
from tastespace.errors import DataError, ParameterError
from tastespace.models.dpcml.model import DPCML
from tastespace.paper import methods as module
from tastespace.paper.methods import find_method, store_parameters, stored_entries, stored_parameters
from tastespace.recommend.rerank.reranked import Reranked


def test_storing_adds_and_replaces(tmp_path):
    file = tmp_path / "parameters.json"
    store_parameters("ml-1m", "cml+hars", {"parameters": {"margin": 1.0}}, file)
    store_parameters("ml-1m", "cml+hars", {"parameters": {"margin": 0.5}}, file)
    store_parameters("anime", "ease", {"parameters": {"regularization": 50.0}}, file)
    table = json.loads(file.read_text())
    assert list(table) == ["anime", "ml-1m"]
    assert table["ml-1m"]["cml+hars"]["parameters"] == {"margin": 0.5}


def test_the_users_file_is_read_on_top_of_the_library_and_only_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("TASTESPACE_PARAMETERS", str(tmp_path / "mine" / "parameters.json"))
    library = module._PACKAGE_FILE.read_bytes()
    before = stored_entries()
    own = {"parameters": {"regularization": 1.0}, "trials": 1}
    assert store_parameters("steam-200k", "ease", own) == tmp_path / "mine" / "parameters.json"
    assert (
        stored_parameters("steam-200k", "ease") == {"regularization": 1.0} != before["steam-200k"]["ease"]["parameters"]
    )
    assert stored_parameters("steam-200k", "bpr") == before["steam-200k"]["bpr"]["parameters"]
    assert module._PACKAGE_FILE.read_bytes() == library


def test_the_users_file_is_in_the_data_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("TASTESPACE_PARAMETERS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert module.user_file() == tmp_path / "tastespace" / "parameters.json"


def test_a_damaged_file_is_named(tmp_path, monkeypatch):
    file = tmp_path / "parameters.json"
    file.write_text("no json")
    monkeypatch.setenv("TASTESPACE_PARAMETERS", str(file))
    with pytest.raises(DataError, match=r"parameters\.json should hold stored parameters"):
        stored_parameters("steam-200k", "ease")


def test_searches_at_the_same_time_do_not_lose_each_other(tmp_path):
    file = tmp_path / "parameters.json"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store_parameters("ml-1m", f"method {n}", {"parameters": {}}, file), range(40)))
    assert len(json.loads(file.read_text())["ml-1m"]) == 40


def test_nothing_stored_means_no_parameters():
    assert stored_parameters("no such data", "cml+hars") == {}


def test_cold_start_data_has_parameters_that_were_found_without_its_cold_start_part(monkeypatch):
    table = {name: {"bpa+hars": {"parameters": {"margin": 0.5}}} for name in ("ml-1m", "xing-2017")}
    table["ml-1m"]["dpcml+dn"] = {"parameters": {"epochs": 3}}
    monkeypatch.setattr("tastespace.paper.methods.stored_entries", lambda: table)
    assert stored_parameters("ml-1m", "bpa+hars") == {"margin": 0.5}
    assert stored_parameters("ml-1m-cold", "bpa+hars") == {}  # another split: its cold-start users had a history
    assert stored_parameters("xing-2017-cold", "bpa+hars") == {"margin": 0.5}  # the same split
    assert stored_parameters("ml-1m-cold", "dpcml+dn") == {"epochs": 3}  # searched on the cold-start split


def test_pre_training_has_its_own_parameters_or_those_of_joint_training(monkeypatch):
    table = {"xing-2017": {"dpcml+dn": {"parameters": {"training": "joint", "epochs": 3}}}}
    monkeypatch.setattr("tastespace.paper.methods.stored_entries", lambda: table)
    assert stored_parameters("xing-2017-cold", "dpcml+dn+pt") == {"epochs": 3}
    table["xing-2017"]["dpcml+dn+pt"] = {"parameters": {"epochs": 7}}
    assert stored_parameters("xing-2017-cold", "dpcml+dn+pt") == {"epochs": 7}
    assert stored_parameters("xing-2017-cold", "dpcml+dn") == {"training": "joint", "epochs": 3}


ENTRIES = [(d, m) for d, methods in stored_entries().items() for m in methods]


@pytest.mark.parametrize(("dataset", "method"), ENTRIES)
def test_stored_parameters_belong_to_their_method_and_tell_their_budget(dataset, method):
    entry = stored_entries()[dataset][method]
    assert dataset in datasets.names()
    model = find_method(method).build(entry["parameters"], seed=0)  # raises if they would make it another method
    if hasattr(model, "_check") and not isinstance(model, Reranked):
        model._check()  # nothing that fit would refuse
    for value in entry["parameters"].values():
        assert not isinstance(value, dict) or set(value) <= set(DPCML._parameter_names())
    assert entry["trials"] >= 1
    assert entry["seconds"] > 0
    cold_start = "+dn" in method or method == "contentknn"
    wanted = {"warm P@3", "cold item P@3"} if cold_start else {"P@3", "MAP", "MRR"}
    assert wanted <= set(entry["validation"])


def test_stored_parameters_that_no_longer_fit_are_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("TASTESPACE_PARAMETERS", str(tmp_path / "parameters.json"))
    store_parameters("town", "cml+hars", {"parameters": {"margin": 1.0, "sharpness": 3.0}, "trials": 1})
    with pytest.raises(ParameterError, match=r"stored for cml\+hars on town hold sharpness, which cml does not take"):
        stored_parameters("town", "cml+hars")
    store_parameters("town", "cml+hars+dd", {"parameters": {"weight": 0.3}, "trials": 1})
    assert stored_parameters("town", "cml+hars+dd") == {"weight": 0.3}


def test_everything_that_comes_with_the_library_fits():
    for dataset, methods in stored_entries().items():
        for name in methods:
            find_method(name).build(stored_parameters(dataset, name), seed=0)
