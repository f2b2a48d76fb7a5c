import json

import pytest

from tastespace.data import datasets
from tastespace.paper.methods import find_method
from tastespace.paper.stored import store, stored_entries, stored_parameters


def test_storing_adds_and_replaces(tmp_path):
    file = tmp_path / "parameters.json"
    store("ml-1m", "cml+hars", {"parameters": {"margin": 1.0}}, file)
    store("ml-1m", "cml+hars", {"parameters": {"margin": 0.5}}, file)
    store("anime", "ease", {"parameters": {"regularisation": 50.0}}, file)
    table = json.loads(file.read_text())
    assert list(table) == ["anime", "ml-1m"]
    assert table["ml-1m"]["cml+hars"]["parameters"] == {"margin": 0.5}


def test_nothing_stored_means_no_parameters():
    assert stored_parameters("no such data", "cml+hars") == {}


ENTRIES = [(d, m) for d, methods in stored_entries().items() for m in methods]


@pytest.mark.parametrize(("dataset", "method"), ENTRIES)
def test_stored_parameters_belong_to_their_method_and_tell_their_budget(dataset, method):
    entry = stored_entries()[dataset][method]
    assert dataset in datasets.names()
    find_method(method).build(entry["parameters"], seed=0)  # raises if they would make it another method
    assert entry["trials"] >= 1
    assert entry["seconds"] > 0
    wanted = {"P@3, known and by content"} if method.endswith("+dn") else {"P@3", "MAP", "MRR"}
    assert wanted <= set(entry["validation"])
