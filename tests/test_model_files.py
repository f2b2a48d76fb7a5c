"""Files of a model that another program changes while the model is in use: an error, and not the end of the process."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import tastespace as ts
from tastespace._util import model_files as mapped_files
from tastespace.errors import ModelChangedError


@pytest.fixture
def mapped(tmp_path, monkeypatch):
    """A model whose arrays stay in its files, and the larger of these."""
    monkeypatch.setattr(mapped_files, "READ_BYTES", 1)
    data = ts.synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    ts.DPCML(dim=16, epochs=2, threads=1).fit(data).save(tmp_path / "model")
    return ts.load(tmp_path / "model"), next((tmp_path / "model").glob("learned-*"))


VERBS = {
    "recommend": lambda model: model.recommend(3, k=5),
    "recommend everybody": lambda model: model.recommend(k=5),
    "recommend_for": lambda model: model.recommend_for([[3, 7]], k=5),
    "shelves": lambda model: model.shelves(3, k=3),
    "interests": lambda model: model.interests(3),
    "explain": lambda model: model.explain(3, 5),
    "similar": lambda model: model.similar_items(3),
    "evaluate": lambda model: ts.evaluate(model, model.train_, seen=[model.train_.subset(model.train_.indices < 0)]),
    "save": lambda model: model.save("elsewhere"),
}


def write_over(path):
    """As `cp` does: the same file, other bytes."""
    os.utime(path, ns=(1, 1))


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("harm", [lambda path: os.truncate(path, 100), write_over], ids=["cut off", "written over"])
def test_every_verb_raises(mapped, verb, harm, tmp_path, monkeypatch):
    model, path = mapped
    monkeypatch.chdir(tmp_path)
    harm(path)
    with pytest.raises(ModelChangedError, match=r"learned-.* was cut off or written to .* Load the model again"):
        VERBS[verb](model)
    assert not (tmp_path / "elsewhere").exists()


def test_models_made_of_it_know_the_file_too(mapped):
    model, path = mapped
    new = model.fold_in([[3, 7]])
    sent, copied = pickle.loads(pickle.dumps(model)), copy.deepcopy(model)  # these have memory of their own
    expected = model.recommend(3, k=5)
    os.truncate(path, 100)
    with pytest.raises(ModelChangedError):
        new.recommend(0, k=5)
    for other in (sent, copied):
        assert other.recommend(3, k=5).equals(expected)


def test_a_save_and_a_deleted_directory_change_nothing(mapped):
    model, path = mapped
    expected = model.recommend(3, k=5)
    ts.EASE().fit(model.train_).save(path.parent)
    assert not path.exists()
    assert model.recommend(3, k=5).equals(expected)
    model.fit(ts.load(path.parent).train_)
    assert model._mapped_files == ()


def test_small_files_are_in_memory(tmp_path):
    data = ts.synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    ts.DPCML(dim=16, epochs=2, threads=1).fit(data).save(tmp_path / "model")
    model = ts.load(tmp_path / "model")
    expected = model.recommend(3, k=5)
    for path in (tmp_path / "model").iterdir():
        os.truncate(path, 0)
    assert model.recommend(3, k=5).equals(expected)
    assert model.item_vectors_.ctypes.data % 4 == 0
    assert not model.item_vectors_.flags.writeable


CHILD = """
import os, sys
import tastespace as ts
model = ts.load(sys.argv[1])
assert len(model._mapped_files) == 1  # more than 16 MB
for name in os.listdir(sys.argv[1]):
    os.truncate(os.path.join(sys.argv[1], name), 4096)
try:
    model.recommend(3, k=5)
except ts.errors.ModelChangedError:
    print("refused")
"""


def test_a_large_file_that_is_cut_off_does_not_end_the_process(tmp_path):
    data = ts.synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    model = ts.CML(dim=8, epochs=1, threads=1).fit(data)
    model.user_vectors_ = np.resize(model.user_vectors_, (60, 40_000))
    model.item_vectors_ = np.resize(model.item_vectors_, (50, 40_000))
    model.dim = 40_000
    model.save(tmp_path / "model")
    done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path / "model")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
