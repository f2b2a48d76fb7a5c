"""The epoch loop: early stopping, the best epoch, callbacks, logs, progress, divergence, Ctrl-C."""

from __future__ import annotations

import csv
import json
import math
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tastespace.errors import ParameterError, TrainingError
from tastespace.training.loop import Loop, LoopSettings


class Counter:
    """Learns to count: after epoch e its only number is e."""

    def __init__(self, losses=None, interrupt_in=None):
        self.value = np.zeros(1)
        self.losses = losses or {}
        self.interrupt_in = interrupt_in

    def train_epoch(self, epoch, tick):
        tick(5, 0.5)
        self.value += 1
        if epoch + 1 == self.interrupt_in:
            raise KeyboardInterrupt
        tick(5, 0.25)
        return {"loss": self.losses.get(epoch + 1, 1.0 / (epoch + 1))}

    def state(self):
        return {"value": self.value}

    def load_state(self, state):
        np.copyto(self.value, state["value"])

    def result(self):
        return {"value": self.value.copy()}


def run(trainable=None, scores=None, callbacks=(), progress=None, identity=None, **settings):
    chosen = LoopSettings(**{"epochs": 6, "patience": 0, **settings})
    chosen._check_loop()
    validate = None if scores is None else lambda result: scores[int(result["value"][0]) - 1]
    loop = Loop(
        trainable or Counter(),
        chosen,
        n_positives=10,
        validate=validate,
        callbacks=callbacks,
        progress=progress,
        identity=identity,
    )
    return loop.run()


# ---- the best epoch ----------------------------------------------------------------------------------------


def test_without_validation_the_last_epoch_is_the_result():
    outcome = run()
    assert outcome.result["value"] == [6]
    assert (outcome.best_epoch, outcome.stopped) == (6, "finished")
    assert [row["epoch"] for row in outcome.history] == [1, 2, 3, 4, 5, 6]
    assert [row["loss"] for row in outcome.history] == [1 / e for e in range(1, 7)]
    assert all(row["seconds"] >= 0 and "NDCG@10" not in row for row in outcome.history)


def test_the_best_epoch_is_kept_not_the_last():
    outcome = run(scores=[1, 5, 3, 4, 2, 0])
    assert outcome.result["value"] == [2]
    assert (outcome.best_epoch, outcome.stopped) == (2, "finished")
    assert [row["NDCG@10"] for row in outcome.history] == [1, 5, 3, 4, 2, 0]


def test_of_equal_epochs_the_first_is_kept():
    assert run(scores=[1, 5, 5, 5, 5, 5]).best_epoch == 2


@pytest.mark.parametrize(("patience", "last"), [(1, 3), (2, 4), (3, 6), (0, 6)])
def test_patience_counts_validations_without_a_better_one(patience, last):
    outcome = run(scores=[1, 5, 3, 4, 6, 0], patience=patience)
    assert len(outcome.history) == last
    assert outcome.stopped == ("early" if last < 6 else "finished")
    assert outcome.best_epoch == (2 if last < 6 else 5)


def test_running_out_of_patience_in_the_last_epoch_is_an_early_stop():
    assert run(scores=[1, 2, 3, 4, 3, 3], patience=2).stopped == "early"


def test_validation_every_few_epochs_and_at_the_end():
    outcome = run(scores=[9, 1, 9, 2, 3, 9, 4], validate_every=2, epochs=5)
    assert ["NDCG@10" in row for row in outcome.history] == [False, True, False, True, True]
    assert outcome.best_epoch == 5
    assert run(scores=[0, 9, 0, 1, 0, 2], validate_every=2, patience=2).stopped == "early"


# ---- callbacks ---------------------------------------------------------------------------------------------


def test_a_run_out_of_time_ends_after_its_epoch_with_the_best_so_far():
    outcome = run(max_minutes=1e-9, scores=[3, 2, 1, 1, 1, 1])
    assert (len(outcome.history), outcome.stopped, outcome.best_epoch) == (1, "time", 1)
    assert run(max_minutes=60).stopped == "finished"


def test_callbacks_see_each_row_and_stop_with_false():
    seen = []
    outcome = run(scores=[1, 2, 3, 4, 5, 6], callbacks=[seen.append, lambda row: row["epoch"] < 3])
    assert outcome.stopped == "callback"
    assert seen == outcome.history
    assert len(seen) == 3
    # Their rows are copies, and only False is a wish to stop.
    assert run(callbacks=[lambda row: row.clear(), lambda row: None, lambda row: 0]).history[0]["epoch"] == 1


def test_an_error_in_a_callback_comes_through():
    def fail(row):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(callbacks=[fail])


# ---- Ctrl-C ------------------------------------------------------------------------------------------------


def test_ctrl_c_in_an_epoch_keeps_what_was_learned(caplog):
    outcome = run(Counter(interrupt_in=4))
    assert outcome.stopped == "interrupted"
    assert len(outcome.history) == 3
    assert outcome.result["value"] == [4]
    assert "interrupted in epoch 4" in caplog.text


def test_ctrl_c_with_validation_keeps_the_best(tmp_path):
    path = tmp_path / "c"
    outcome = run(Counter(interrupt_in=4), scores=[1, 3, 2, 9, 9, 9], checkpoint=path, checkpoint_epochs=1)
    assert outcome.result["value"] == [2]
    assert outcome.best_epoch == 2
    # The epoch that was cut short is not in the checkpoint.
    assert run(scores=[1, 3, 2, 0, 0, 4], checkpoint=path).history[-1]["epoch"] == 6


def test_ctrl_c_in_a_callback():
    def interrupt(row):
        raise KeyboardInterrupt

    outcome = run(callbacks=[interrupt])
    assert outcome.stopped == "interrupted"
    assert outcome.result["value"] == [1]


# ---- divergence --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [math.nan, math.inf])
@pytest.mark.parametrize("scores", [None, [0.1, 0.3, 0.2, 0, 0, 0]])
def test_a_loss_that_diverges_keeps_what_was_learned_before(loss, scores, tmp_path, caplog):
    path, kept = tmp_path / "good", 3 if scores is None else 2
    outcome = run(Counter(losses={4: loss}), scores, checkpoint=path, checkpoint_epochs=1)
    assert (outcome.stopped, len(outcome.history), outcome.best_epoch) == ("diverged", 3, kept)
    assert outcome.result["value"] == [kept]
    (found,) = outcome.diagnostics
    assert (found["kind"], found["epoch"], found["kept_epoch"]) == ("diverged", 4, kept)
    assert "diverged in epoch 4: the loss became NaN or infinite. Lower learning_rate." in found["message"]
    assert f"The model is that of epoch {kept}." in caplog.text
    seen = []
    outcome = run(checkpoint=path, scores=scores, callbacks=[lambda row: seen.append(row["epoch"])])
    assert seen == [4, 5, 6]


def test_a_large_model_that_diverges_goes_back_to_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr("tastespace.training.loop._MOST_KEPT", 0)
    outcome = run(Counter(losses={6: math.nan}), checkpoint=tmp_path / "c", checkpoint_epochs=2)
    assert (outcome.stopped, len(outcome.history), outcome.result["value"]) == ("diverged", 4, [4])
    with pytest.raises(TrainingError, match="diverged in epoch 6"):
        run(Counter(losses={6: math.nan}))


def test_a_first_epoch_that_diverges_is_an_error():
    class Explodes(Counter):
        def train_epoch(self, epoch, tick):
            self.value[:] = np.inf
            return super().train_epoch(epoch, tick)

    with pytest.raises(TrainingError, match=r"diverged in epoch 1: .*value.* became NaN or infinite\. Lower learn"):
        run(Explodes())


# ---- logs --------------------------------------------------------------------------------------------------


def test_csv_log_has_a_row_per_epoch_and_a_column_per_figure(tmp_path):
    path = tmp_path / "new" / "log.csv"
    outcome = run(scores=[0, 1, 0, 2, 0, 3], validate_every=2, log_file=path)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["epoch", "loss", "seconds", "NDCG@10"]
    assert [float(row["loss"]) for row in rows] == [row["loss"] for row in outcome.history]
    assert [row["NDCG@10"] for row in rows] == ["", "1", "", "2", "", "3"]


def test_jsonl_log_is_the_history(tmp_path):
    path = tmp_path / "log.jsonl"
    outcome = run(scores=[1, 2, 3, 4, 5, 6], log_file=str(path))
    assert [json.loads(line) for line in path.read_text().splitlines()] == outcome.history


def test_the_log_is_there_while_training_and_whole_after_a_resumed_run(tmp_path):
    log, checkpoint = tmp_path / "log.jsonl", tmp_path / "c"
    lengths = []

    def look(row):
        lengths.append(len(log.read_text().splitlines()))
        return row["epoch"] != 3

    run(log_file=log, checkpoint=checkpoint, checkpoint_epochs=2, callbacks=[look])
    run(log_file=log, checkpoint=checkpoint, callbacks=[look])
    assert lengths == [1, 2, 3, 3]  # epoch 3 was not in the checkpoint: it is repeated, not written twice
    run(log_file=log, checkpoint=checkpoint)
    assert [json.loads(line)["epoch"] for line in log.read_text().splitlines()] == [1, 2, 3, 4, 5, 6]


# ---- progress ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("progress", [None, False])
def test_progress_is_silent_where_standard_error_is_no_terminal(progress, capfd):
    run(progress=progress)
    assert capfd.readouterr() == ("", "")


IN_TERMINAL = """
import sys
sys.path.insert(0, sys.argv[1])
from test_loop import run
run(scores=[1, 2, 3, 4, 5, 42], progress=eval(sys.argv[2]))
"""


@pytest.mark.parametrize(("progress", "shown"), [("None", True), ("False", False)])
def test_progress_in_a_terminal_shows_loss_metric_and_rate(progress, shown):
    keyboard, terminal = pty.openpty()
    command = [sys.executable, "-c", IN_TERMINAL, str(Path(__file__).parent), progress]
    surroundings = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    subprocess.run(command, stderr=terminal, check=True, timeout=60, env=surroundings)
    os.close(terminal)
    seen = b""
    try:
        while part := os.read(keyboard, 65536):
            seen += part
    except OSError:  # the other end is closed
        pass
    os.close(keyboard)
    for words in (b"epoch 6/6", b"loss 0.1667", b"NDCG@10 42.00", b"positives/s"):
        assert (words in seen) == shown
    assert bool(seen) == shown


# ---- settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epochs": 0}, "epochs=0: expected a whole number, 1 or more"),
        ({"epochs": 2.5}, "epochs=2.5: expected a whole number"),
        ({"epochs": True}, "epochs=True: expected a whole number"),
        ({"validate_every": 0}, "validate_every=0: expected a whole number, 1 or more"),
        ({"checkpoint_epochs": 0}, "checkpoint_epochs=0: expected a whole number, 1 or more"),
        ({"max_minutes": -1}, "max_minutes=-1: expected a positive number"),
        ({"checkpoint_minutes": 0}, "checkpoint_minutes=0: expected a positive number"),
        ({"checkpoint_minutes": "5"}, "checkpoint_minutes='5': expected a positive number"),
        ({"patience": -1}, "patience=-1: expected a whole number; 0 never stops early"),
        ({"patience": 1.5}, "patience=1.5: expected a whole number"),
        ({"log_file": "log.txt"}, "log_file='log.txt': expected a name that ends in .csv or .jsonl"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(ParameterError) as caught:
        run(**settings)
    assert words in str(caught.value)


def test_numpy_numbers_are_numbers():
    assert len(run(epochs=np.int64(3), patience=np.int64(0)).history) == 3


def test_files_that_cannot_be_written_do_not_end_the_training(tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    outcome = run(log_file=str(blocked / "run.csv"), checkpoint=str(blocked / "run.ckpt"), checkpoint_epochs=2)
    assert outcome.result["value"].tolist() == [6.0]
    assert {one["kind"] for one in outcome.diagnostics} == {"checkpoint-not-written", "log-not-written"}
    assert caplog.text.count("training continues") == 2  # once for each file
    assert caplog.text.count("at the end of training: the ") == 2


def test_a_failure_that_passes_is_not_said_at_the_end(tmp_path, monkeypatch):
    from tastespace.training import loop

    fails, write = [True, False, False], loop.write_checkpoint

    def sometimes(*given):
        if fails.pop(0):
            raise OSError(28, "No space left on device")
        write(*given)

    monkeypatch.setattr(loop, "write_checkpoint", sometimes)
    assert run(checkpoint=str(tmp_path / "run.ckpt"), checkpoint_epochs=2).diagnostics == []
    assert (tmp_path / "run.ckpt").exists()
