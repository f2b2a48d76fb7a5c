"""The public verbs in processes made by fork, forkserver and spawn: they give the answer, or raise at once."""

import subprocess
import sys
import textwrap

import pytest

LIMIT = 600  # seconds for all verbs of one process; a verb that hangs is reported after 60

PROGRAM = """
import faulthandler, logging, multiprocessing, sys, tempfile, warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

warnings.simplefilter("ignore")
import polars as pl
import tastespace as ts

logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format="%(message)s")


def make(folder):
    town = ts.synthetic.multi_interest(n_users=60, n_items=50, n_interactions=1200, seed=1).interactions
    frame = pl.DataFrame({"user": [f"u{u:02d}" for u in town.row_of_each()], "item": town.indices})
    train, valid, test = ts.split.per_user(ts.Interactions.from_frame(frame.sort("item")), seed=0)
    model = ts.DPCML(dim=8, epochs=2, threads=2).fit(train, valid=valid)
    model.save(folder / "m")
    model = ts.load(folder / "m")
    model.recommend(k=5, threads=2)  # a team of OpenMP and the pool of polars have started
    model.recommend(k=5, threads=2, index="ann")
    return folder, frame, train, valid, test, model


def verbs(folder, frame, train, valid, test, model):
    return {
        "recommend": lambda: model.recommend("u07", k=5),
        "one thread": lambda: model.recommend("u07", k=5, threads=1),
        "ann": lambda: model.recommend("u07", k=5, index="ann"),
        "several": lambda: model.recommend(["u07", "u09"], k=5, mix="proportional"),
        "popular": lambda: model.recommend(["u07", "x"], k=5, on_unknown="popular"),
        "all": lambda: model.recommend(k=5),
        "recommend_for": lambda: model.recommend_for({"b": [3, 7], "a": [5]}, k=5),
        "shelves": lambda: model.shelves("u07", k=3).to_frame(),
        "interests": lambda: model.interests("u07"),
        "explain": lambda: model.explain("u07", 3),
        "similar": lambda: model.similar_items(3),
        "evaluate": lambda: ts.evaluate(model, test, seen=[train, valid]),
        "fit": lambda: ts.DPCML(dim=8, epochs=2).fit(train),
        "fit with valid": lambda: ts.DPCML(dim=8, epochs=2).fit(train, valid=valid),
        "fit ease": lambda: ts.EASE().fit(train).recommend("u07", k=5),
        "save": lambda: model.save(folder / "again"),
        "load": lambda: ts.load(folder / "m").recommend("u07", k=5),
        "recommend_to": lambda: model.recommend_to(folder / "all.parquet"),
        "table": lambda: ts.Interactions.from_frame(frame),
        "filter": lambda: model.recommend("u07", k=5, filter="item < 40"),
    }


def run(given):
    for name, verb in verbs(*given).items():
        faulthandler.dump_traceback_later(60, exit=True)
        try:
            verb()
            print(name, "works", flush=True)
        except ts.errors.ForkError as problem:
            assert "spawn or forkserver" in str(problem)
            print(name, "refuses", flush=True)
    faulthandler.cancel_dump_traceback_later()


def start(folder):
    run(make(folder))


def fit(seed):
    return float(ts.DPCML(dim=8, epochs=2, seed=seed).fit(TRAIN).item_vectors_.sum())


if __name__ == "__main__":
    method, folder = sys.argv[1], Path(sys.argv[2])
    context = multiprocessing.get_context(method)
    if method == "fork":
        given = make(folder)
        TRAIN = given[2]
        child = context.Process(target=run, args=(given,))
    else:
        make(folder)
        child = context.Process(target=start, args=(folder,))
    child.start()
    child.join()
    if method == "fork":
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            assert list(pool.map(fit, [0, 1])) == [fit(0), fit(1)]  # the same bits as in the parent
        print("pool works")
    sys.exit(child.exitcode)
"""

NEED_POLARS = {"save", "load", "recommend_to", "table", "filter"}


@pytest.mark.parametrize(
    "method",
    ["fork", pytest.param("forkserver", marks=pytest.mark.slow), pytest.param("spawn", marks=pytest.mark.slow)],
)
def test_verbs_answer_or_refuse_at_once(method: str, tmp_path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    done = subprocess.run(
        [sys.executable, str(program), method, str(tmp_path)], capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answers = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines() if line.endswith(("works", "refuses")))
    expected_to_refuse = NEED_POLARS if method == "fork" else set()
    assert {name for name, answer in answers.items() if answer == "refuses"} == expected_to_refuse
    assert len(answers) == 20 + (method == "fork")
    assert ("was forked: it uses one thread" in done.stdout) == (method == "fork")


def test_what_the_parent_did_not_start_works_in_the_child(tmp_path) -> None:
    """Load in the child: the way out where the parent has not touched polars."""
    code = """
    import os, faulthandler, sys, warnings
    warnings.simplefilter("ignore")
    import tastespace as ts
    if sys.argv[2] == "make":
        town = ts.synthetic.multi_interest(n_users=30, n_items=20, n_interactions=200).interactions
        ts.EASE().fit(town).save(sys.argv[1])
        sys.exit(0)
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(60, exit=True)
        assert len(ts.load(sys.argv[1]).recommend(7, k=3)) == 3
        os._exit(0)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    for step in ("make", "fork"):
        command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "m"), step]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
