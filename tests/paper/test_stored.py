import json

import pytest

from tastespace.data import datasets
from tastespace.paper.methods import find_method
from tastespace.paper.stored import store, stored_entries, stored_parameters


def test_storing_adds_and_replaces(tmp_path):
    file = tmp_path / "parameters.json"
    store("ml-1m", "cml+hars", {"parameters": {"margin": 1.0}}, file)
    store("ml-1m", "cml+hars", {"parameters": {"margin": 0.5}}, file)
    store("anime", "ease", {"parameters": {"regularization": 50.0}}, file)
    table = json.loads(file.read_text())
    assert list(table) == ["anime", "ml-1m"]
    assert table["ml-1m"]["cml+hars"]["parameters"] == {"margin": 0.5}


def test_nothing_stored_means_no_parameters():
    assert stored_parameters("no such data", "cml+hars") == {}


def test_data_with_strangers_has_parameters_that_were_found_without_them(monkeypatch):
    table = {name: {"bpa+hars": {"parameters": {"margin": 0.5}}} for name in ("ml-1m", "xing-2017")}
    table["ml-1m"]["dpcml+dn"] = {"parameters": {"epochs": 3}}
    monkeypatch.setattr("tastespace.paper.stored._read", lambda: table)
    assert stored_parameters("ml-1m", "bpa+hars") == {"margin": 0.5}
    assert stored_parameters("ml-1m-cold", "bpa+hars") == {}  # another split: what is a stranger here was seen there
    assert stored_parameters("xing-2017-cold", "bpa+hars") == {"margin": 0.5}  # the same split
    assert stored_parameters("ml-1m-cold", "dpcml+dn") == {"epochs": 3}  # always searched with strangers


def test_pre_training_has_its_own_parameters_or_those_of_joint_training(monkeypatch):
    table = {"xing-2017": {"dpcml+dn": {"parameters": {"training": "joint", "epochs": 3}}}}
    monkeypatch.setattr("tastespace.paper.stored._read", lambda: table)
    assert stored_parameters("xing-2017-cold", "dpcml+dn+pt") == {"epochs": 3}
    table["xing-2017"]["dpcml+dn+pt"] = {"parameters": {"epochs": 7}}
    assert stored_parameters("xing-2017-cold", "dpcml+dn+pt") == {"epochs": 7}
    assert stored_parameters("xing-2017-cold", "dpcml+dn") == {"training": "joint", "epochs": 3}


ENTRIES = [(d, m) for d, methods in stored_entries().items() for m in methods]


@pytest.mark.parametrize(("dataset", "method"), ENTRIES)
def test_stored_parameters_belong_to_their_method_and_tell_their_budget(dataset, method):
    entry = stored_entries()[dataset][method]
    assert dataset in datasets.names()
    find_method(method).build(entry["parameters"], seed=0)  # raises if they would make it another method
    assert entry["trials"] >= 1
    assert entry["seconds"] > 0
    strangers = "+dn" in method or method == "contentknn"
    wanted = {"warm P@3", "cold item P@3"} if strangers else {"P@3", "MAP", "MRR"}
    assert wanted <= set(entry["validation"])
