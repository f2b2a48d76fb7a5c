"""Vectors of users in files and users in blocks: the same bits as in memory."""

import numpy as np
import pytest

import tastespace as ts
from tastespace.data.out_of_core.mapped_arrays import is_mapped, row_blocks
from tastespace.errors import DataError, ParameterError
from tastespace.models.bpr import BPR
from tastespace.training import native_trainer
from tastespace.training.visits import user_blocks

MODELS = [
    ts.DPCML(dim=6, epochs=3, average=2, seed=4),
    ts.DPCML(dim=6, epochs=2, sampler="hard-differentiable", gamma="random", optimizer="adam", learning_rate=0.01),
    ts.CML(dim=5, epochs=3, sampler="uniform", optimizer="sgd"),
    BPR(dim=6, epochs=3),
]


@pytest.fixture(scope="module")
def parts():
    town = ts.synthetic.multi_interest(n_users=90, n_items=40, n_interactions=1500, seed=2).interactions
    return ts.split.per_user(town, seed=0)


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("at_once", [None, 17])
def test_files_give_the_bits_of_memory(model, at_once, parts, tmp_path, monkeypatch):
    train, valid, test = parts
    in_memory = model.clone().set_params(users_at_once=at_once).fit(train, valid=valid)
    # Many small blocks of rows, so that what is done block by block is done in several.
    for place in ("tastespace.training.visits", "tastespace.training.native_trainer", "tastespace.models.dpcml.kernel"):
        if place != "tastespace.models.dpcml.kernel" or not isinstance(model, BPR):
            monkeypatch.setattr(f"{place}.row_blocks", lambda *arrays: row_blocks(*arrays, n_bytes=500))
    spilled = model.clone().set_params(users_at_once=at_once, spill=str(tmp_path)).fit(train, valid=valid)
    for name in ("user_vectors_", "item_vectors_"):
        np.testing.assert_array_equal(getattr(spilled, name), getattr(in_memory, name))
    same = ("epoch", "loss", "NDCG@10")
    assert [[row[k] for k in same] for row in spilled.history_] == [[r[k] for k in same] for r in in_memory.history_]
    assert is_mapped(spilled.user_vectors_)
    assert not is_mapped(spilled.item_vectors_)
    assert not list(tmp_path.iterdir())  # the files have no names: nothing is left, whatever happens
    figures = [ts.evaluate(one, test, seen=[train, valid]).metrics for one in (spilled, in_memory)]
    assert figures[0] == figures[1]
    spilled.save(tmp_path / "model")
    users = train.users.series.to_list()
    assert ts.load(tmp_path / "model").recommend(users).equals(in_memory.recommend(users))


def test_blocks_visit_every_positive_once_in_another_order_each_epoch(parts):
    train = parts[0]
    orders = []
    for epoch in (0, 1):
        blocks = list(user_blocks(train.offsets, 20, 5, epoch))
        assert sorted(np.concatenate([at for _, _, at in blocks])) == list(range(train.n_interactions))
        assert all(train.offsets[first] == at[0] and train.offsets[last] == at[-1] + 1 for first, last, at in blocks)
        orders.append([first for first, _, _ in blocks])
    assert orders[0] != orders[1]
    whole = ts.DPCML(dim=4, epochs=2).fit(train)
    one_block = ts.DPCML(dim=4, epochs=2, users_at_once=train.n_users).fit(train)
    np.testing.assert_array_equal(whole.user_vectors_, one_block.user_vectors_)
    blocks = ts.DPCML(dim=4, epochs=2, users_at_once=20).fit(train)
    assert not np.array_equal(whole.user_vectors_, blocks.user_vectors_)


def test_what_needs_memory_is_refused_and_a_full_disk_is_an_error(parts, tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match=r"checkpoint=.*leave one of them out"):
        ts.DPCML(spill=str(tmp_path), checkpoint=str(tmp_path / "c"))
    with pytest.raises(ParameterError, match="anchor="):
        ts.DPCML(spill=str(tmp_path), anchor=0.5)
    with pytest.raises(ParameterError, match="users_at_once"):
        BPR(users_at_once=0)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(DataError, match=r"no room for an array.*No space left"):
        ts.DPCML(dim=4, spill=str(tmp_path)).fit(parts[0])


def test_the_memory_that_a_fit_needs_does_not_count_spilled_vectors(parts, monkeypatch, tmp_path):
    monkeypatch.setattr("tastespace._util.memory.available_gb", lambda: 0.0001)
    monkeypatch.setattr(native_trainer, "release", lambda *_: None)
    with pytest.raises(ParameterError, match="GB are free"):
        ts.CML(dim=40, epochs=1).fit(parts[0])
    assert ts.CML(dim=40, epochs=1, block_size=64, spill=str(tmp_path)).fit(parts[0]).is_fitted
