"""Full disk, quota and two writers, for everything that is written: one clear error, nothing lost."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from tastespace import (
    DPCML,
    EASE,
    load,
    synthetic,
)

PRELUDE = """
import errno, os, resource, sys
import numpy as np
from tastespace import DPCML, EASE, load, synthetic
from tastespace.errors import TastespaceError
data = synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1500, seed=1).interactions
def limited(n_bytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, resource.RLIM_INFINITY))
"""


def run(code, *arguments):
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def data():
    return synthetic.multi_interest(n_users=80, n_items=60, n_interactions=1500, seed=1).interactions


def test_a_quota_during_save_is_one_error_and_the_old_model_stays(tmp_path, data):
    old = EASE(regularization=3.0).fit(data)
    old.save(tmp_path / "m")
    before = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    done = run(
        """
        model = EASE().fit(data)
        for size in (0, 1, 100, 1000, 5000):
            limited(size)
            try:
                model.save(sys.argv[1])
                print("saved")
            except TastespaceError as problem:
                assert "The model that was there is untouched" in str(problem), problem
        """,
        tmp_path / "m",
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before
    np.testing.assert_array_equal(load(tmp_path / "m").score_block(np.arange(9)), old.score_block(np.arange(9)))


def test_training_goes_on_without_room_for_checkpoint_and_log(tmp_path, data):
    done = run(
        """
        limited(200)
        model = DPCML(dim=8, epochs=3, checkpoint=sys.argv[1] + "/run", log_file=sys.argv[1] + "/log.csv",
                      checkpoint_epochs=1, threads=1).fit(data)
        print(sorted(one["kind"] for one in model.diagnostics_), len(model.history_))
        """,
        tmp_path,
    )
    assert done.stdout.strip() == "['checkpoint-not-written', 'interests', 'log-not-written'] 3", done.stderr
    assert "could not be written after epoch 1 (File too large)" in done.stderr
    assert not list(tmp_path.glob(".run*"))


def test_lists_that_do_not_fit_leave_the_old_file(tmp_path, data):
    for ending in ("csv", "parquet", "jsonl"):
        (tmp_path / f"lists.{ending}").write_text("old")
    done = run(
        """
        model = EASE().fit(data)
        limited(500)
        for ending in ("csv", "parquet", "jsonl"):
            try:
                model.recommend_to(f"{sys.argv[1]}/lists.{ending}", k=20)
                print("written", ending)
            except TastespaceError as problem:
                assert "lists." in str(problem), problem
        """,
        tmp_path,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert {path.read_text() for path in tmp_path.iterdir()} == {"old"}
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.slow
def test_two_writers_of_one_checkpoint_and_one_model(tmp_path, data):
    code = """
    for _ in range(6):
        DPCML(dim=8, epochs=2, seed=int(sys.argv[2]), checkpoint=sys.argv[1] + "/" + sys.argv[2], checkpoint_epochs=1,
              threads=1).fit(data, progress=False)
        os.remove(sys.argv[1] + "/" + sys.argv[2])
        EASE(regularization=float(sys.argv[2])).fit(data).save(sys.argv[1] + "/m")
        load(sys.argv[1] + "/m", verify=True)
    """
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(code), str(tmp_path)]
    both = [subprocess.Popen([*command, number], stderr=subprocess.PIPE, text=True) for number in ("1", "2")]
    for one in both:
        _, errors = one.communicate(timeout=120)
        assert one.returncode == 0, errors
    assert load(tmp_path / "m", verify=True).regularization in (1.0, 2.0)
    assert len(list((tmp_path / "m").iterdir())) == 5


def test_a_killed_writer_leaves_files_that_the_next_save_removes(tmp_path, data):
    DPCML(dim=4, epochs=1).fit(data).save(tmp_path / "m")
    for _ in range(2):
        done = run(
            """
            from tastespace._util import atomic
            model = EASE().fit(data)
            atomic.flush = lambda path: os.kill(os.getpid(), 9)
            model.save(sys.argv[1])
            """,
            tmp_path / "m",
        )
        assert done.returncode == -9
    assert len(list((tmp_path / "m").iterdir())) == 7  # two files that nobody names
    EASE().fit(data).save(tmp_path / "m")
    assert len(list((tmp_path / "m").iterdir())) == 5
