"""Training on partitions in this process: the same bits again, after a stop, a damaged file, a failing storage."""

import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from tests.cluster.same_models import same

import tastespace as ts
from tastespace.cluster import ClusterOptions, fit_on_cluster, lists_on_cluster
from tastespace.cluster.fit import begin
from tastespace.cluster.partitions import partition_of, read_ids
from tastespace.cluster.storage import DamagedFileError, Storage
from tastespace.errors import ClusterError, ParameterError, TrainingError
from tastespace.models.bpr import BPR

DPCML = ts.DPCML(dim=6, epochs=3, average=2, seed=4)
MODELS = [
    DPCML,
    ts.DPCML(dim=4, epochs=2, sampler="hard-differentiable", gamma="random", optimizer="adam", learning_rate=0.01),
    ts.CML(dim=4, epochs=2, sampler="popularity", optimizer="sgd"),
    BPR(dim=6, epochs=3),
]


def inline(tmp_path=None, **more):
    return ClusterOptions(
        "inline", **{"partitions": 3, "rounds_per_epoch": 2, "storage": tmp_path and str(tmp_path), **more}
    )


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_same_seed_and_partitions_same_bits_and_a_usable_model(model, parts, tmp_path):
    train, valid, test = parts
    first, second = (model.clone().fit(train, valid=valid, cluster=inline()) for _ in range(2))
    same(first, second)
    other = model.clone().fit(train, valid=valid, cluster=inline(partitions=2))
    assert not np.array_equal(first.item_vectors_, other.item_vectors_)
    assert first.stopped_ == "finished"
    assert [row["epoch"] for row in first.history_] == list(range(1, model.epochs + 1))
    value = ts.evaluate(first, valid, seen=[train])["NDCG@10"]
    assert value == pytest.approx(first.history_[first.best_epoch_ - 1]["NDCG@10"])  # reduced over partitions
    assert first.best_epoch_ == 1 + int(np.argmax([row["NDCG@10"] for row in first.history_]))
    first.save(tmp_path / "model")
    users = train.users.series.to_list()[:5]
    assert ts.load(tmp_path / "model").recommend(users).equals(first.recommend(users))
    assert len(first.recommend_for([train.items.series.to_list()[:4]], k=3)) == 3
    if not isinstance(model, BPR):
        first.partial_fit(test.subset(test.row_of_each() < 10), epochs=1)  # the optimizer's state is there


def test_the_default_number_of_rounds_follows_from_the_epochs(parts, tmp_path):
    train, _, _ = parts
    for epochs, expected in ((40, 10), (60, 8)):
        model = BPR(dim=2, epochs=epochs)
        storage = Storage(str(tmp_path / str(epochs)))
        begin(storage, model, train, None, ClusterOptions("inline", partitions=2))
        assert storage.read_facts("run.json")["rounds_per_epoch"] == expected


def test_partitions_learn_what_one_process_learns(parts):
    """Not the same bits, but about the same quality, however many partitions there are."""
    train, valid, _ = parts
    model = BPR(dim=8, epochs=8, patience=0)
    alone = max(row["NDCG@10"] for row in model.clone().fit(train, valid=valid).history_)
    for partitions in (1, 4):
        options = inline(partitions=partitions, rounds_per_epoch=4)
        found = model.clone().fit(train, valid=valid, cluster=options)
        assert max(row["NDCG@10"] for row in found.history_) > 0.9 * alone


@pytest.mark.parametrize("last", [1, 2])  # before users get several vectors, and after
def test_a_stopped_run_goes_on_in_the_same_bits(parts, tmp_path, last):
    train, valid, _ = parts
    whole = DPCML.clone().fit(train, valid=valid, cluster=inline())

    def stop(row):
        if row["epoch"] == last:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DPCML.clone().fit(train, valid=valid, cluster=inline(tmp_path), callbacks=[stop])
    same(DPCML.clone().fit(train, valid=valid, cluster=inline(tmp_path)), whole)
    same(DPCML.clone().fit(train, valid=valid, cluster=inline(tmp_path)), whole)  # finished: nothing is computed again
    with pytest.raises(ClusterError, match="holds another run: its dim is 6, now it is 5"):
        DPCML.clone().set_params(dim=5).fit(train, valid=valid, cluster=inline(tmp_path))
    with pytest.raises(ClusterError, match="its partitions is 3, now it is 4"):
        DPCML.clone().fit(train, valid=valid, cluster=inline(tmp_path, partitions=4))


def test_a_killed_driver_goes_on_in_the_same_bits(parts, tmp_path):
    train, valid, _ = parts
    whole = DPCML.clone().fit(train, valid=valid, cluster=inline())
    script = f"""
import os, signal
import tastespace as ts
from tastespace.cluster import ClusterOptions
town = ts.synthetic.multi_interest(n_users=120, n_items=60, n_interactions=2500, seed=2).interactions
train, valid, test = ts.split.per_user(town, seed=0)
options = ClusterOptions("inline", partitions=3, rounds_per_epoch=2, storage={str(tmp_path)!r})
stop = lambda row: os.kill(os.getpid(), signal.SIGKILL) if row["epoch"] == 2 else None
ts.DPCML(dim=6, epochs=3, average=2, seed=4).fit(train, valid=valid, cluster=options, callbacks=[stop])
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    same(DPCML.clone().fit(train, valid=valid, cluster=inline(tmp_path)), whole)


def test_a_program_without_a_guard_starts_processes_once(parts, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import tastespace as ts\n"
        "print('started')\n"
        "town = ts.synthetic.multi_interest(n_users=40, n_items=20, n_interactions=300, seed=2).interactions\n"
        "ts.DPCML(dim=2, epochs=1).fit(town, cluster=ts.cluster.ClusterOptions('processes:1', 2, 1))\n"
    )
    done = subprocess.run([sys.executable, str(program)], timeout=120, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["started"]


def test_a_state_that_is_cut_off_is_computed_again(parts, tmp_path):
    train, _, _ = parts
    whole = DPCML.clone().fit(train, cluster=inline())
    damaged = []

    def cut(row):
        if row["epoch"] == 2:  # before the third epoch's first round is read
            for file in sorted((tmp_path / "state").glob("00001-*"))[-1:]:
                file.write_bytes(file.read_bytes()[:50])
                damaged.append(file.name)

    same(DPCML.clone().fit(train, cluster=inline(tmp_path), callbacks=[cut]), whole)
    assert damaged == ["00001-0000004"]


def test_rows_that_are_cut_off_are_named_and_nothing_learned_is_lost(parts, tmp_path):
    train, _, _ = parts
    whole = DPCML.clone().fit(train, cluster=inline())
    content = []

    def cut(row):
        if row["epoch"] == 1:
            file = tmp_path / "data" / "00002"
            content.append(file.read_bytes())
            file.write_bytes(content[0][:-9])

    with pytest.raises(ClusterError, match=r"partition 2 cannot be read .*data/00002 is damaged.*restore the file"):
        DPCML.clone().fit(train, cluster=inline(tmp_path), callbacks=[cut])
    (tmp_path / "data" / "00002").write_bytes(content[0])
    same(DPCML.clone().fit(train, cluster=inline(tmp_path)), whole)


@pytest.mark.parametrize("name", ["users/00001", "item-ids"])
def test_one_changed_bit_among_the_ids_is_found(parts, tmp_path, name):
    train, _, _ = parts
    whole = DPCML.clone().fit(train, cluster=inline())

    def stop(row):
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        DPCML.clone().fit(train, cluster=inline(tmp_path), callbacks=[stop])
    content = (tmp_path / name).read_bytes()
    for at in range(0, len(content), 37):
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        (tmp_path / name).write_bytes(changed)
        with pytest.raises(DamagedFileError, match="damaged"):
            read_ids(Storage(str(tmp_path)), name)
    if name != "item-ids":  # which lists need, and training does not
        with pytest.raises(ClusterError, match="damaged"):
            DPCML.clone().fit(train, cluster=inline(tmp_path))
    (tmp_path / name).write_bytes(content)
    same(DPCML.clone().fit(train, cluster=inline(tmp_path)), whole)


@pytest.mark.parametrize("folder", ["shared", "items"])
def test_a_damaged_file_of_items_is_replaced_by_the_round_before(folder, parts, tmp_path):
    train, _, _ = parts
    whole = DPCML.clone().fit(train, cluster=inline())

    def stop(row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DPCML.clone().fit(train, cluster=inline(tmp_path), callbacks=[stop])
    last = sorted((tmp_path / folder).iterdir())[-1]
    last.write_bytes(last.read_bytes()[:40])
    same(DPCML.clone().fit(train, cluster=inline(tmp_path)), whole)


def test_storage_that_fails_once_and_then_works(parts, tmp_path, monkeypatch):
    train, _, _ = parts
    whole = DPCML.clone().fit(train, cluster=inline())
    failures = iter([True] * 2)
    read = Storage.read

    def failing(self, name):
        path = self._path / name
        real = type(path).read_bytes

        def once(where):
            if "state" in str(where) and next(failures, False):
                raise OSError(5, "Input/output error")
            return real(where)

        with monkeypatch.context() as patch:
            patch.setattr(type(path), "read_bytes", once)
            return read(self, name)

    monkeypatch.setattr(Storage, "read", failing)
    monkeypatch.setattr("time.sleep", lambda _: None)
    same(DPCML.clone().fit(train, cluster=inline(tmp_path)), whole)
    assert next(failures, "used") == "used"
    failures = iter([True] * 100)
    with pytest.raises(ClusterError, match=r"in 4 attempts .*Input/output error.*What is finished is kept in "):
        DPCML.clone().fit(train, cluster=inline(tmp_path / "other"))


def test_an_address_of_fsspec(parts):
    train, valid, _ = parts
    whole = DPCML.clone().fit(train, valid=valid, cluster=inline())
    options = inline("memory://run", item_shards=2)
    same(DPCML.clone().fit(train, valid=valid, cluster=options), whole)
    same(DPCML.clone().fit(train, valid=valid, cluster=options), whole)


def test_compressed_changes_are_smaller_and_learn_as_much(parts):
    train, valid, _ = parts
    sizes, figures = [], []
    for compress in (False, True):
        model = BPR(dim=8, epochs=8, patience=0)
        costs = fit_on_cluster(model, train, valid, inline(compress=compress))
        sizes.append(sum(one.n_bytes for one in costs))
        figures.append(max(row["NDCG@10"] for row in model.history_))
    assert sizes[1] < 0.6 * sizes[0]
    assert figures[1] == pytest.approx(figures[0], rel=0.05)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_item_shards_change_the_cost_and_not_the_result(model, parts, tmp_path):
    train, valid, _ = parts
    whole = model.clone().fit(train, valid=valid, cluster=inline(compress=True))
    same(model.clone().fit(train, valid=valid, cluster=inline(tmp_path, compress=True, item_shards=4)), whole)
    assert len(list((tmp_path / "items").iterdir())) == 8  # of the last two rounds
    assert not list((tmp_path / "changes").iterdir())


def test_partitions_read_only_the_items_that_they_need(tmp_path):
    random = np.random.default_rng(0)
    rows = {"user": random.integers(0, 30, 200), "item": random.permutation(np.arange(4000))[:200]}
    data = ts.Interactions.from_frame(pl.DataFrame(rows), catalog=range(4000))
    costs, models = [], []
    for item_shards in (1, 5):
        models.append(ts.DPCML(dim=4, epochs=2, n_negatives=2, seed=1))
        costs.append(
            fit_on_cluster(models[-1], data, None, inline(tmp_path / str(item_shards), item_shards=item_shards))
        )
    same(*models)
    everything = 3 * 2 * 4000 * 4 * 4  # partitions, vectors and squares, items, dimensions, bytes
    assert [cost.n_fetched for cost in costs[0]] == [everything] * 4
    # Each has 200 positives with two negatives; before the second, vectors start at clusters of all own items.
    for epoch, most in ((costs[1][:2], 600), (costs[1][2:], 800)):
        assert 0 < sum(cost.n_fetched for cost in epoch) <= most * 2 * 4 * 4
    assert [cost.n_rows for cost in costs[0]] == [cost.n_rows for cost in costs[1]]


def test_rows_of_a_file_are_those_of_its_arrays(tmp_path):
    arrays = {"items": np.arange(12, dtype=np.float32).reshape(6, 2), "item_steps": np.arange(6, dtype=np.int32)}
    for root in (str(tmp_path), "memory://rows"):
        storage = Storage(root)
        storage.write_arrays("x", arrays | {"none": np.zeros(0, np.float32)})
        found = storage.read_rows("x", np.array([1, 4]))
        assert set(found) == set(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array[[1, 4]])
    whole = (tmp_path / "x").read_bytes()
    for cut in (0, 12, 60, len(whole) - 1):
        (tmp_path / "x").write_bytes(whole[:cut])
        with pytest.raises(DamagedFileError, match="damaged"):
            Storage(str(tmp_path)).read_rows("x", np.array([1]))


def test_lists_are_written_where_the_users_are(parts, tmp_path):
    train, valid, _ = parts
    model = DPCML.clone().fit(train, valid=valid, cluster=inline(tmp_path / "run"))
    n_rows = lists_on_cluster(str(tmp_path / "run"), str(tmp_path / "lists"), "inline", k=4)
    files = sorted((tmp_path / "lists").glob("*.parquet"))
    assert len(files) == 3
    found = pl.concat([pl.read_parquet(file) for file in files]).sort("user", "rank")
    expected = model.recommend(k=4).sort("user", "rank")
    assert n_rows == len(found) == len(expected)
    assert found.select("user", "item", "rank").equals(expected.select("user", "item", "rank"))


def test_partitions_without_users_or_interactions_and_items_of_one_partition(tmp_path):
    users = list(range(40))
    where = partition_of(pl.Series(users), 5)
    rows = [(user, item) for user in users for item in range(user % 4 + 1) if where[user] != 3]
    rows += [(users[int(np.flatnonzero(where == 1)[0])], 99)]  # an item of one partition
    data = ts.Interactions.from_frame(pl.DataFrame(rows, schema=["user", "item"], orient="row"))
    model = DPCML.clone().fit(data, cluster=inline(partitions=5))
    same(DPCML.clone().fit(data, cluster=inline(partitions=5, item_shards=2)), model)
    assert set(model.train_.items.series.to_list()) == {0, 1, 2, 3, 99}
    assert np.isfinite(model.item_vectors_).all()
    train = data.subset(partition_of(data.users.series, 2)[data.row_of_each()] == 1)  # one has users, but no rows
    assert DPCML.clone().fit(train, cluster=inline(partitions=2)).is_fitted
    with pytest.raises(ParameterError, match=r"partitions=999: the data has \d+ users. Take fewer"):
        DPCML.clone().fit(data, cluster=inline(partitions=999))


def test_what_cannot_be_is_refused(parts, tmp_path):
    train, _, _ = parts
    for cluster, message in (
        ("local:0", "expected a number of processes, such as local:4"),
        ("processes:many", "expected a number of processes"),
        ("somewhere", "expected an address such as tcp://host:8786"),
        (7, "expected a Dask client"),
    ):
        with pytest.raises(ParameterError, match=message):
            DPCML.clone().fit(train, cluster=cluster)
    with pytest.raises(ClusterError, match=r"no such scheduler file.*dask scheduler"):
        DPCML.clone().fit(train, cluster=str(tmp_path / "scheduler.json"))
    with pytest.raises(ParameterError, match=r"anchor=0\.5 is for training in one process"):
        ts.DPCML(dim=4, anchor=0.5).fit(train, cluster=inline())
    with pytest.raises(ParameterError, match="spill="):
        ts.DPCML(dim=4, spill=str(tmp_path)).fit(train, cluster=inline())
    with pytest.raises(ParameterError, match="cluster="):
        ts.EASE().fit(train, cluster=inline())
    for name in ("partitions", "rounds_per_epoch", "item_shards"):
        with pytest.raises(ParameterError, match=f"{name}=0"):
            ClusterOptions("inline", **{name: 0})
    with pytest.raises(TrainingError, match=r"diverged in epoch 1.*Lower learning_rate"):
        BPR(dim=4, learning_rate=1e30, optimizer="sgd").fit(train, cluster=inline())


def test_files_that_were_changed_are_noticed(tmp_path):
    storage = Storage(str(tmp_path))
    arrays = {"a": np.arange(6).reshape(2, 3), "none": np.zeros((0, 4), np.float32)}
    storage.write_arrays("x/y", arrays, {"n": 1})
    found, facts = storage.read_arrays("x/y")
    assert facts == {"n": 1}
    assert found["none"].shape == (0, 4)
    np.testing.assert_array_equal(found["a"], arrays["a"])
    content = bytearray((tmp_path / "x" / "y").read_bytes())
    for at in range(0, len(content), 7):
        changed = content.copy()
        changed[at] ^= 1
        (tmp_path / "x" / "y").write_bytes(changed)
        with pytest.raises(DamagedFileError, match="damaged"):
            storage.read_arrays("x/y")


def test_the_partition_of_an_id_never_changes():
    """Written down: a run that goes on with another version must find its users."""
    assert partition_of(pl.Series([0, 1, 2, -5, 2**40]), 7).tolist() == PARTITIONS_OF_NUMBERS
    assert partition_of(pl.Series(["ann", "bob", "é", ""]), 7).tolist() == PARTITIONS_OF_TEXT
    spread = np.bincount(partition_of(pl.Series(np.arange(10_000)), 8), minlength=8)
    assert spread.min() > 1100


PARTITIONS_OF_NUMBERS = [2, 2, 4, 5, 5]
PARTITIONS_OF_TEXT = [5, 2, 4, 0]


def test_vectors_grow_on_partitions_as_in_one_process(parts):
    """Those of an epoch with one vector are equal, later they part."""
    train = parts[0]
    one = ts.DPCML(dim=6, n_interests=3, epochs=2, one_vector_epochs=2, seed=4).fit(train, cluster=inline())
    vectors = one.user_vectors_.reshape(train.n_users, 3, 6)
    np.testing.assert_array_equal(vectors, np.repeat(vectors[:, :1], 3, axis=1))
    several = ts.DPCML(dim=6, n_interests=3, epochs=8, seed=4).fit(train, cluster=inline())
    vectors = several.user_vectors_.reshape(train.n_users, 3, 6)
    assert (np.ptp(vectors, axis=1).max(axis=1) > 1e-4).all()
    assert several.temperature_ == pytest.approx(0.1)
