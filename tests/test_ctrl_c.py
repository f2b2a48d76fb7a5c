"""Ctrl-C, by a real SIGINT to a process that is in the middle of its work."""

import re
import resource
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import tastespace as ts
from tastespace._util.interrupts import (
    check_time,
    interrupt_ends_task,
    interruptible,
    interrupts_end_task,
    time_limit,
)
from tastespace.errors import TimeLimitError

LIMIT = 6.0  # seconds of processor time from SIGINT to the end; below 1 on a machine with nothing else to do

PRESS = """
import os, signal, sys, threading, time
from pathlib import Path

def press(after):
    begun = time.process_time()

    def is_due():
        if isinstance(after, float):
            return time.process_time() - begun > after
        return any(Path(after).iterdir()) if Path(after).is_dir() else Path(after).exists()

    def run():
        while not is_due():
            time.sleep(0.005)
        print(f"pressed at {time.process_time():.3f};", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=run, daemon=True).start()
"""

COMMAND = """
import tastespace.cli.recommend, tastespace.cli.fit, tastespace.cli.saved_model
from tastespace.cli.app import main
press(AFTER)
main()
"""


def stopped(code: str, *arguments: str, after: float | Path) -> tuple[int, float, str, str]:
    """Exit code, seconds from SIGINT to the end, and both outputs of a program that was stopped.

    The signal comes ``after`` so many seconds, when that file is there, or when that folder has a file. Seconds are
    those of the processor that the program takes: other work of the machine makes no difference.
    """
    code = PRESS + textwrap.dedent(code).replace("AFTER", repr(after if isinstance(after, float) else str(after)))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=600)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    pressed = re.search(r"pressed at ([0-9.]+);", done.stderr)
    assert pressed, f"it was done before the signal: {done.stdout} {done.stderr}"
    seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime - float(pressed[1])
    return done.returncode, seconds, done.stdout, done.stderr


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose lists of all users take some seconds with one thread, and its data."""
    folder = tmp_path_factory.mktemp("big")
    town = ts.synthetic.multi_interest(n_users=30_000, n_items=9_000, n_interactions=160_000, seed=1).interactions
    town.to_frame().write_parquet(folder / "clicks.parquet")
    model = ts.CML(dim=1024, epochs=1, n_negatives=1, anchor=0.0).fit(town, progress=False)
    model.save(folder / "model")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("out", ["parquet", "csv", "jsonl", None])
def test_lists_of_all_users_stop_and_write_nothing(big: Path, tmp_path: Path, out: str | None) -> None:
    files = [] if out is None else ["--out", str(tmp_path / f"lists.{out}")]
    after = 0.5 if out is None else tmp_path  # a file: when the first bytes of its temporary one may be written
    arguments = ["recommend", str(big / "model"), "--threads", "1", *files]
    code, seconds, printed, err = stopped(COMMAND, *arguments, after=after)
    assert (code, printed) == (130, "")
    assert seconds < LIMIT
    assert "interrupted" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_verbs_of_python_raise_keyboard_interrupt(big: Path, tmp_path: Path) -> None:
    code = """
    import tastespace as ts
    model = ts.load(sys.argv[1])
    data = model.train_
    verbs = {
        "evaluate": lambda: ts.evaluate(model, data, seen=[data.subset(data.indices < 0)], metrics=["NDCG@10"]),
        "recommend": lambda: model.recommend(k=5),
        "recommend_to": lambda: model.recommend_to(sys.argv[3]),
        "ease": lambda: ts.EASE().fit(data),
    }
    try:
        press(AFTER)
        verbs[sys.argv[2]]()
    except KeyboardInterrupt:
        print("KeyboardInterrupt", file=sys.stderr, flush=True)
        os._exit(130)  # the exit of Python may wait for a thread of BLAS
    """
    for verb in ("evaluate", "recommend", "recommend_to", "ease"):
        code_, seconds, _, err = stopped(code, str(big / "model"), verb, str(tmp_path / "x.csv"), after=0.4)
        assert "KeyboardInterrupt" in err, verb
        assert code_ == 130, verb
        assert seconds < LIMIT, verb
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("existing", [False, True])
def test_fit_ends_without_a_second_training(tmp_path: Path, existing: bool) -> None:
    out = tmp_path / "m"
    if existing:
        data = ts.synthetic.multi_interest(n_users=30, n_items=20, n_interactions=200).interactions
        ts.EASE().fit(data).save(out)
    checkpoint = tmp_path / "run.safetensors"
    code, seconds, printed, err = stopped(
        COMMAND, "fit", "town", "--model", "dpcml", "--set", "epochs=100000", "--set", "patience=0",
        "--set", "dim=8", "--set", "n_negatives=1", "--threads", "1",
        "--set", f"checkpoint={checkpoint}", "--set", "checkpoint_epochs=1", "--out", str(out), after=checkpoint,
    )  # fmt: skip
    assert (code, printed) == (130, "")
    assert seconds < LIMIT
    message = " ".join(err.split())
    assert ("is the model from before" if existing else "was not written") in message
    assert f"resumes from the checkpoint {checkpoint}" in message
    assert f"is saved to {out}.interrupted" in message
    assert ts.load(f"{out}.interrupted").stopped_ == "interrupted"
    assert out.exists() == existing
    assert not (tmp_path / "run-final.safetensors").exists()
    if existing:
        assert isinstance(ts.load(out), ts.EASE)


def test_training_as_a_step_of_a_larger_task_ends_the_task() -> None:
    data = ts.synthetic.multi_interest(n_users=30, n_items=20, n_interactions=200).interactions

    def press(row: dict[str, object]) -> None:
        raise KeyboardInterrupt

    model = ts.CML(dim=4, epochs=5)
    assert model.fit(data, callbacks=[press]).stopped_ == "interrupted"
    with interrupts_end_task(), pytest.raises(KeyboardInterrupt):
        model.fit(data, callbacks=[press])
    assert not interrupt_ends_task()

    class Pressed(ts.CML):
        def fit(self, train, valid=None, progress=None, callbacks=()):
            return super().fit(train, valid, progress, [press])

    with pytest.raises(KeyboardInterrupt):
        ts.models.Blend([Pressed(dim=4, epochs=5), ts.EASE()]).fit(data)


def test_interruptible_gives_results_errors_and_works_in_other_threads() -> None:
    assert interruptible(lambda: 3) == 3
    with pytest.raises(ValueError, match="no"):
        interruptible(lambda: (_ for _ in ()).throw(ValueError("no")))
    seen: list[str] = []
    thread = threading.Thread(target=lambda: interruptible(lambda: seen.append(threading.current_thread().name)))
    thread.start()
    thread.join()
    assert seen == [thread.name]


def test_limits_of_time_stop_kernels_loops_and_threads_that_nobody_waits_for() -> None:
    data = ts.synthetic.multi_interest(n_users=3000, n_items=6000, n_interactions=300_000).interactions
    for model in (ts.models.SparseEASE(), ts.models.RP3beta(), ts.models.ALS(dim=256, iterations=1000)):
        began = time.monotonic()
        with pytest.raises(TimeLimitError), time_limit(0.3):
            model.fit(data, progress=False)
        assert not model.is_fitted
        assert time.monotonic() - began < LIMIT
    deadline = time.monotonic() + LIMIT
    while any(one.name == "tastespace" for one in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert all(one.name != "tastespace" for one in threading.enumerate())
    small = data.subset(data.row_of_each() < 200)
    with time_limit(1.0):
        trained = ts.CML(dim=8, epochs=100_000, patience=0).fit(small, progress=False)
    assert trained.stopped_ == "time"
    assert len(trained.history_) >= 1
    with time_limit(60.0), time_limit(None), pytest.raises(TimeLimitError), time_limit(0.0):
        check_time()
    check_time()
