"""Checkpoints: atomic, checked, and worth resuming from: killed runs end in the same bits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.training.reference import from_lists

from tastespace import (
    CML,
    DPCML,
    split,
    synthetic,
)
from tastespace.errors import TrainingError
from tastespace.training._checkpoint import read_checkpoint, write_checkpoint

ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "steps": np.array([1, 2], np.int32)}


pytestmark = pytest.mark.usefixtures("one_core")


@pytest.fixture(scope="module")
def parts():
    town = synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1500, seed=1).interactions
    return split.per_user(town, seed=0)


def same_bits(one, other):
    np.testing.assert_array_equal(one.user_vectors_, other.user_vectors_)
    np.testing.assert_array_equal(one.item_vectors_, other.item_vectors_)
    np.testing.assert_array_equal(one.user_offsets_, other.user_offsets_)
    assert one.best_epoch_ == other.best_epoch_
    assert one.stopped_ == other.stopped_
    assert [without_time(row) for row in one.history_] == [without_time(row) for row in other.history_]


def without_time(row):
    return {name: value for name, value in row.items() if name != "seconds"}


# ---- the file ----------------------------------------------------------------------------------------------


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "new" / "folder" / "run.ckpt"
    write_checkpoint(path, {**ARRAYS, "empty": np.empty(0)}, {"history": [{"loss": 0.1}], "best": None})
    arrays, metadata = read_checkpoint(path)
    assert set(arrays) == {"a", "steps"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, ARRAYS[name])
        assert array.dtype == ARRAYS[name].dtype
    assert metadata["history"] == [{"loss": 0.1}]
    assert metadata["best"] is None
    assert [p.name for p in path.parent.iterdir()] == ["run.ckpt"]


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failing_write_keeps_the_old_file_and_leaves_nothing_else(tmp_path, monkeypatch, broken):
    path = tmp_path / "run.ckpt"
    write_checkpoint(path, ARRAYS, {"epoch": 1})
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*(("os.fsync", full) if broken == "fsync" else ("pathlib.Path.replace", full)))
    with pytest.raises(OSError, match="No space left"):
        write_checkpoint(path, {"a": np.ones(1000)}, {"epoch": 2})
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run.ckpt"]


def test_ctrl_c_while_writing_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    write_checkpoint(path, ARRAYS, {"epoch": 1})

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_checkpoint(path, ARRAYS, {"epoch": 2})
    monkeypatch.undo()
    assert read_checkpoint(path)[1]["epoch"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["run.ckpt"]


def test_the_new_file_is_complete_on_disk_before_it_takes_the_name(tmp_path, monkeypatch):
    path, events = tmp_path / "run.ckpt", []
    fsync, replace = os.fsync, type(path).replace
    monkeypatch.setattr("os.fsync", lambda handle: (events.append("fsync"), fsync(handle)))
    monkeypatch.setattr("pathlib.Path.replace", lambda self, to: (events.append("rename"), replace(self, to)))
    write_checkpoint(path, ARRAYS, {})
    assert events == ["fsync", "rename", "fsync"]  # the file, then its name, then the folder


def damage(path, how):
    content = bytearray(path.read_bytes())
    if how == "empty":
        content = bytearray()
    elif how == "short":
        content = content[: len(content) // 2]
    elif how == "header":
        content[10] ^= 0xFF
    elif how == "numbers":
        content[-5] ^= 0x01
    elif how == "text":
        content = bytearray(b"epoch,loss\n1,0.5\n")
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("how", ["empty", "short", "header", "numbers", "text"])
def test_damaged_files_are_refused(tmp_path, how):
    path = tmp_path / "run.ckpt"
    write_checkpoint(path, ARRAYS, {})
    damage(path, how)
    with pytest.raises(TrainingError, match=r"run\.ckpt (is no readable checkpoint|is damaged).*Delete it to train"):
        read_checkpoint(path)


def test_files_of_others_are_refused(tmp_path):
    path = tmp_path / "weights.safetensors"
    save_file(ARRAYS, path)
    with pytest.raises(TrainingError, match="no readable checkpoint"):
        read_checkpoint(path)
    save_file(ARRAYS, path, metadata={"tastespace-checkpoint": json.dumps({"format": 99})})
    with pytest.raises(TrainingError, match=r"checkpoint format 99, this version reads 3"):
        read_checkpoint(path)
    with pytest.raises(TrainingError, match="no readable checkpoint"):
        read_checkpoint(tmp_path)


# ---- resuming ----------------------------------------------------------------------------------------------

RUNS = {
    "dihars, adagrad, mean, early stop": {"sampler": "dihars", "n_interests": "adaptive", "average": 4, "patience": 4},
    "hars, adam, cosine": {"sampler": "hars", "optimizer": "adam", "learning_rate": 0.01, "schedule": "cosine"},
    "pops, sgd, linear": {"sampler": "pops", "optimizer": "sgd", "schedule": "linear", "average": 1, "n_interests": 2},
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("validated", [True, False])
def test_a_stopped_run_resumes_to_the_same_bits(tmp_path, parts, run, validated):
    train, valid, _ = parts
    valid = valid if validated else None
    settings = {"dim": 8, "epochs": 9, "n_negatives": 6, "seed": 3, "threads": 1, **RUNS[run]}
    whole = DPCML(**settings).fit(train, valid)
    stopping = {**settings, "checkpoint": str(tmp_path / "run.ckpt"), "checkpoint_epochs": 2}
    for last in (3, 5):  # one after a checkpoint, which repeats an epoch; both in the middle
        stopped = DPCML(**stopping).fit(train, valid, callbacks=[lambda row, last=last: row["epoch"] < last])
        assert stopped.stopped_ == "callback"
    resumed = DPCML(**{**stopping, "threads": 2}).fit(train, valid)
    same_bits(resumed, whole)
    # A run that is finished resumes to its end.
    same_bits(DPCML(**stopping).fit(train, valid), whole)


def test_a_resumed_run_starts_where_the_checkpoint_was(tmp_path, parts):
    train, _, _ = parts
    settings = {"dim": 4, "epochs": 6, "checkpoint": str(tmp_path / "c"), "checkpoint_epochs": 2}
    seen = []
    DPCML(**settings).fit(train, callbacks=[lambda row: row["epoch"] < 5])
    DPCML(**settings).fit(train, callbacks=[lambda row: seen.append(row["epoch"])])
    assert seen == [5, 6]


def test_resuming_counts_who_was_skipped(tmp_path):
    train = from_lists([list(range(8)), [0, 1], [2, 5]], 8)
    settings = {"dim": 4, "epochs": 4, "checkpoint": str(tmp_path / "c"), "n_interests": 2}
    assert DPCML(**settings).fit(train).skipped_positives_ == 8
    assert DPCML(**settings).fit(train).skipped_positives_ == 8


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dim": 5}, "dim was 4, now it is 5"),
        ({"seed": 1}, "seed was 0, now it is 1"),
        ({"epochs": 9}, "epochs was 3, now it is 9"),
        ({"sampler": "unis"}, "sampler was 'dihars', now it is 'unis'"),
        ({"min_spread": None}, "min_spread was 0.05, now it is None"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, parts, changes, words):
    train, _, _ = parts
    settings = {"dim": 4, "epochs": 3, "sampler": "dihars", "checkpoint": str(tmp_path / "c")}
    DPCML(**settings).fit(train)
    before = (tmp_path / "c").read_bytes()
    with pytest.raises(TrainingError, match=f"belongs to another run: {words}.*Delete the file, give another path"):
        DPCML(**{**settings, **changes}).fit(train)
    assert (tmp_path / "c").read_bytes() == before


def test_a_checkpoint_of_other_data_is_refused(tmp_path, parts):
    train, valid, test = parts
    settings = {"dim": 4, "epochs": 3, "checkpoint": str(tmp_path / "c")}
    DPCML(**settings).fit(train, valid)
    with pytest.raises(TrainingError, match="belongs to another run: train was"):
        DPCML(**settings).fit(test, valid)
    with pytest.raises(TrainingError, match="belongs to another run: valid was"):
        DPCML(**settings).fit(train, test)
    with pytest.raises(TrainingError, match="belongs to another run: valid was"):
        DPCML(**settings).fit(train)


def test_a_checkpoint_of_another_model_is_refused(tmp_path, parts):
    train, _, _ = parts
    settings = {"dim": 4, "epochs": 3, "sampler": "hars", "checkpoint": str(tmp_path / "c")}
    DPCML(n_interests=3, **settings).fit(train)
    with pytest.raises(TrainingError, match="belongs to another run"):
        CML(**settings).fit(train)


def test_settings_of_the_machine_and_of_files_may_change(tmp_path, parts):
    train, _, _ = parts
    settings = {"dim": 4, "epochs": 4, "checkpoint": str(tmp_path / "c"), "checkpoint_epochs": 2}
    DPCML(**settings).fit(train, callbacks=[lambda row: row["epoch"] < 3])
    (tmp_path / "c").rename(tmp_path / "d")
    changes = {"threads": 1, "checkpoint": str(tmp_path / "d"), "checkpoint_epochs": 1, "checkpoint_minutes": 5.0}
    resumed = DPCML(**{**settings, **changes, "log_file": str(tmp_path / "log.csv")}).fit(train)
    assert len(resumed.history_) == 4


def test_numpy_numbers_as_parameters(tmp_path, parts):
    train, _, _ = parts
    settings = {"dim": np.int64(4), "n_interests": np.int64(2), "epochs": np.int64(2), "learning_rate": np.float64(0.1)}
    DPCML(**settings, checkpoint=str(tmp_path / "c")).fit(train)
    again = DPCML(dim=4, n_interests=2, epochs=2, learning_rate=0.1, checkpoint=str(tmp_path / "c")).fit(train)
    assert len(again.history_) == 2


def test_checkpoints_by_the_clock(tmp_path, parts):
    train, _, _ = parts
    seen = []

    def look(row):
        seen.append((tmp_path / "c").exists())

    model = DPCML(dim=4, epochs=4, checkpoint=str(tmp_path / "c"), checkpoint_epochs=100, checkpoint_minutes=1e-9)
    model.fit(train, callbacks=[look])
    assert seen == [False, True, True, True]


# ---- killed ------------------------------------------------------------------------------------------------

CHILD = """
import os, signal, sys
import numpy as np
from tastespace import DPCML, split, synthetic

path, kill_at, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
town = synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1500, seed=1).interactions
train, valid, _ = split.per_user(town, seed=0)
if kill_at >= 0:  # in the middle of a write: the temporary file is there, half of it or all
    fsync, count = os.fsync, [0]
    def deadly(handle):
        count[0] += 1
        if count[0] == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(handle)
    os.fsync = deadly
kill_after, seconds = (float(value) for value in sys.argv[4:])  # epochs of this process, and then processor time
def epoch_ended(row, ended=[0]):
    ended[0] += 1
    if ended[0] == kill_after:
        signal.setitimer(signal.ITIMER_PROF, seconds)  # SIGPROF ends the process at once, like SIGKILL
print("ready", flush=True)
model = DPCML(dim=16, n_interests="adaptive", sampler="dihars", n_negatives=30, epochs=EPOCHS, average=4, seed=3,
              patience=0, threads=1, checkpoint=path, checkpoint_epochs=1, log_file=folder + "/log.csv")
model.fit(train, valid=valid, callbacks=[epoch_ended])
np.savez(folder + "/result.npz", users=model.user_vectors_, items=model.item_vectors_,
         best=model.best_epoch_, epochs=len(model.history_))
"""


def start_child(tmp_path, epochs, kill_at=-1, kill_after=0, seconds=0.0):
    script = CHILD.replace("EPOCHS", str(epochs))
    command = [sys.executable, "-c", script, str(tmp_path / "run.ckpt"), str(kill_at), str(tmp_path)]
    command += [str(kill_after), str(seconds)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    return child


def never_stopped(parts, epochs):
    train, valid, _ = parts
    model = DPCML(
        dim=16, n_interests="adaptive", sampler="dihars", n_negatives=30, epochs=epochs, average=4, seed=3, patience=0
    )
    return model.fit(train, valid)


def assert_ends_like(tmp_path, model):
    found = np.load(tmp_path / "result.npz")
    assert int(found["epochs"]) == len(model.history_)
    assert int(found["best"]) == model.best_epoch_
    np.testing.assert_array_equal(found["users"], model.user_vectors_)
    np.testing.assert_array_equal(found["items"], model.item_vectors_)
    assert len((tmp_path / "log.csv").read_text().splitlines()) == len(model.history_) + 1
    assert not list(tmp_path.glob(".run.ckpt*"))  # what the killed ones left was taken over


def test_killed_while_writing_and_resumed(tmp_path, parts):
    """Each write is two fsyncs, of the file and of the folder: 3 dies before the rename, 2 after it."""
    for kill_at, epochs_done in ((3, 1), (2, 2)):
        child = start_child(tmp_path, 6, kill_at)
        assert child.wait(120) == -signal.SIGKILL, child.stderr.read()
        assert len(read_checkpoint(tmp_path / "run.ckpt")[1]["history"]) == epochs_done
    assert (tmp_path / "result.npz").exists() is False
    child = start_child(tmp_path, 6)
    assert child.wait(120) == 0, child.stderr.read()
    assert_ends_like(tmp_path, never_stopped(parts, 6))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_moments_and_resumed(tmp_path, parts, seed):
    rng = np.random.default_rng(seed)
    epochs, progress = 250, 0
    for _ in range(6):
        child = start_child(tmp_path, epochs, kill_after=rng.integers(1, 6), seconds=rng.uniform(1e-4, 0.02))
        assert child.wait(120) == -signal.SIGPROF, child.stderr.read()
        done = len(read_checkpoint(tmp_path / "run.ckpt")[1]["history"])
        assert done >= progress
        progress = done
    assert 0 < progress < epochs
    child = start_child(tmp_path, epochs)
    assert child.wait(120) == 0, child.stderr.read()
    assert_ends_like(tmp_path, never_stopped(parts, epochs))


def test_a_checkpoint_holds_no_pickle(tmp_path, parts):
    DPCML(dim=4, epochs=1, sampler="dihars", checkpoint=str(tmp_path / "c")).fit(parts[0])
    arrays = load_file(tmp_path / "c")
    assert {"users", "items", "gamma"} <= set(arrays)


def test_no_mutation_of_a_single_byte_is_accepted(tmp_path):
    path = tmp_path / "run.ckpt"
    metadata = {"history": [{"epoch": 1, "loss": 0.5}], "best_score": 0.25, "validations_without_improvement": 3}
    write_checkpoint(path, ARRAYS, metadata)
    assert read_checkpoint(path)[1] == metadata
    content, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(500):
        at, value = int(rng.integers(len(content))), int(rng.integers(1, 256))
        changed = bytearray(content)
        changed[at] ^= value
        path.write_bytes(changed)
        with pytest.raises(TrainingError):
            read_checkpoint(path)
