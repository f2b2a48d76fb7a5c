"""`tastespace run-daily`: what it saves and refuses, and what a killed run leaves."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.cli.config import tomllib
from tastespace.store import load

CONFIG = """
[fit]
data = "all.csv"
user = "who"
item = "what"
timestamp = "at"
model = "ease"
valid = 0
out = "shop.model"

[recommend]
k = 3
out = "lists.csv"

[run-daily]
log = "daily.jsonl"
"""
UPDATE = """
[update]
data = "new.csv"
user = "who"
item = "what"
timestamp = "at"
"""


@pytest.fixture
def daily(run, tmp_path, monkeypatch):
    """A folder with the clicks of a shop, old and new, and a config file; gives a function that runs the night."""
    monkeypatch.chdir(tmp_path)
    town = ts.synthetic.multi_interest(n_users=120, n_items=60, n_interactions=2_400, seed=3).interactions
    order = np.random.default_rng(0).permutation(town.n_interactions)
    rows = town.to_frame().select(who=pl.format("u{}", "user"), what=pl.format("i{}", "item"))[order]
    rows = rows.with_columns(at=1_700_000_000 + pl.int_range(pl.len()) * 60)
    rows[:2_000].write_csv("all.csv")
    rows[2_000:].write_csv("new.csv")
    tmp_path.joinpath("shop.toml").write_text(CONFIG)

    def call(*flags, code=0):
        done = run("run-daily", "shop.toml", *flags)
        assert done.code == code, done.err
        return done.err

    call.rows = rows
    return call


def logged():
    return [json.loads(line) for line in Path("daily.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_first_fit_a_second_one_and_updates(daily, tmp_path):
    said = daily()
    assert "saved EASE(" in said
    assert pl.read_csv("lists.csv").columns[:2] == ["user", "item"]
    first = load("shop.model")
    daily.rows.write_csv("all.csv")
    said = daily()
    assert "on the newest interactions: NDCG@10 0." in said
    second = load("shop.model")
    assert second.train_.n_interactions == daily.rows.height > first.train_.n_interactions
    line = logged()[1]
    assert (line["action"], line["result"], line["code"]) == ("fit", "saved", 0)
    assert line["new"] == (daily.rows.height - 2_000) // 2
    assert line["users"] > 50
    # By update: the same pairs give the same model.
    first.save("shop.model")
    tmp_path.joinpath("shop.toml").write_text(CONFIG + UPDATE)
    said = daily()
    assert "on the newest interactions: NDCG@10 0." in said
    assert load("shop.model").train_.fingerprint() == second.train_.fingerprint()
    assert "nothing is new" in daily()
    assert [(one["action"], one["result"]) for one in logged()[2:]] == [("update", "saved"), ("update", "kept")]
    # A fit is due where none is known to be recent enough.
    daily("--fit-every", "7d")
    assert logged()[-1]["action"] == "update"
    tmp_path.joinpath("shop.model.daily").write_text('{"fitted": "2020-01-01T00:00:00+00:00"}')
    daily("--fit-every", "7d")
    assert logged()[-1]["action"] == "fit"
    assert "nothing newer than the served model to compare on" in str(logged()[-1]["notes"])


def test_a_worse_model_is_refused_and_a_dry_run_writes_nothing(daily, tmp_path):
    daily()
    daily.rows.write_csv("all.csv")
    (tmp_path / "shop.toml").write_text(CONFIG.replace('"ease"', '"popular"'))

    def files():
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    before = files()
    assert "refused: it loses more than 5 %" in daily("--dry-run", code=3)
    assert "dry run: MostPopular() of Interactions(" in daily("--dry-run", "--worse-by", 1)
    assert files() == before
    assert "refused" in daily(code=3)
    assert type(load("shop.model")).__name__ == "EASE"
    assert (tmp_path / "lists.csv").stat().st_mtime_ns == before[tmp_path / "lists.csv"]
    assert (logged()[-1]["result"], logged()[-1]["code"]) == ("refused", 3)
    assert "users are too few to refuse a model" in daily("--least-users", 5_000)
    assert type(load("shop.model")).__name__ == "MostPopular"


def test_one_run_at_a_time_and_clocks(daily, tmp_path):
    daily.rows.with_columns(at=pl.when(pl.int_range(pl.len()) < 7).then(4_000_000_000).otherwise("at")).write_csv(
        "all.csv"
    )
    assert "7 interactions have times more than a day after now: check the clocks" in daily()
    holder = "import sys, time; from pathlib import Path; from tastespace._util.locks import only_one\n"
    holder += "with only_one(Path('shop.model.daily'), 'x'): print('held', flush=True); time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", holder], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "held\n"
        assert "is going on already: another process holds shop.model.daily" in daily(code=4)
    finally:
        other.kill()  # it leaves its file, which stops nobody
        other.wait()
    assert (tmp_path / "shop.model.daily").exists()
    daily()


def test_a_run_killed_while_it_saves_leaves_the_served_model_whole(daily):
    daily()
    before = load("shop.model")
    daily.rows.write_csv("all.csv")
    program = (
        "import os, signal, sys, tastespace.store.directory as d\n"
        "from tastespace.cli import main\n"
        "write = d._Save.write_part\n"
        "def then_die(self, part, chunks):\n"
        "    write(self, part, chunks)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "d._Save.write_part = then_die\n"
        "sys.argv = ['tastespace', 'run-daily', 'shop.toml']\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    after = load("shop.model")
    assert after.train_.fingerprint() == before.train_.fingerprint()
    assert after.recommend(["u1"], k=5).equals(before.recommend(["u1"], k=5))
    daily()  # the next run takes over what the killed one has left
    assert load("shop.model").train_.n_interactions == daily.rows.height


def test_the_server_and_the_lists_do_not_have_the_new_model(daily, tmp_path):
    assert "the server does not serve the new model" in daily("--server", "http://127.0.0.1:1", code=5)
    (tmp_path / "shop.toml").write_text(CONFIG.replace('out = "lists.csv"', 'to = "redis://:hunter2x@127.0.0.1:1/0"'))
    said = daily(code=5)
    assert "the lists were not written: redis://***@127.0.0.1:1/0" in said
    assert "hunter2x" not in said + (tmp_path / "daily.jsonl").read_text()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("[serve]\nport = 1\n", "has no table [fit]"),
        ('[fit]\ndata = "all.csv"\n', "name the served model"),
        (CONFIG.replace("valid = 0", 'spill = "x"'), "'spill' of [fit] is not for run-daily"),
        (CONFIG.replace("valid = 0", "vaild = 0"), "[fit] has no flag 'vaild'"),
        (CONFIG.replace('out = "lists.csv"', ""), "[recommend] needs `to` or `out`"),
        (CONFIG.replace("[run-daily]", "[run-daily]\nworse-than = 1"), "[run-daily] has no flag 'worse-than'"),
        (CONFIG + "[update]\n", "[update] needs `data` or `feedback`"),
    ],
)
def test_mistakes_in_the_file(daily, tmp_path, config, message):
    if "[update]" in config:
        daily()
    (tmp_path / "shop.toml").write_text(config)
    assert message in daily(code=2)


def test_flags_count_more_than_the_file(run, daily):
    printed = run("run-daily", "shop.toml", "--worse-by", 0.2, "--print-config").out
    assert tomllib.loads(printed)["run-daily"] == {
        "fit": False, "metric": "NDCG@10", "worse-by": 0.2, "least-users": 50, "log": "daily.jsonl", "dry-run": False,
    }  # fmt: skip


def test_feedback_is_learned_once(daily, tmp_path):
    from tastespace.serve.feedback.store import FeedbackEvent, open_feedback_store

    daily()
    model = load("shop.model")
    store = open_feedback_store("feedback.sqlite")
    free = [item for item in model.train_.items.series if item not in model.train_.items_of("u1")]
    store.append([FeedbackEvent("u1", item, item) for item in free[:4]])
    store.close()
    (tmp_path / "shop.toml").write_text(CONFIG + '[update]\nfeedback = "feedback.sqlite"\n')
    daily("--dry-run")
    assert "saved EASE(" in daily()
    assert set(free[:4]) <= set(load("shop.model").train_.items_of("u1"))
    assert "nothing is new" in daily()
