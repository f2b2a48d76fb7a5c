"""Every Python and shell block of README and of the documentation site is run, page by page, from top to bottom.

Blocks of a page share a folder, a Python namespace and a shell. A block of TOML whose first line is a comment with the
name of a file is that file. `EDITS` has what is replaced in a page before it is run: addresses of machines that are not
there, and sizes that would take long.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(python|py|sh|bash|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LONGEST = 1200  # seconds after which a block counts as hanging, on any machine

# Pages that take a second or two; the others belong to the slow suite.
FAST = {
    "README.md",
    "docs/how-to/business-rules.md",
    "docs/how-to/explain-to-customer.md",
    "docs/how-to/own-model.md",
    "docs/how-to/own-table.md",
    "docs/model-format.md",
    "docs/models.md",
}

TOWN = "ts.synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions.to_frame()"

# What comes before the first block of a page that begins in the middle of something.
BEFORE = {
    "docs/page.md": (
        "python",
        "import tastespace as ts\n"
        f"town = {TOWN}\n"
        "town = town.with_columns(user='user' + town['user'].cast(str)).to_pandas()\n"
        "town['user'] = town['user'].replace({'user1': 'ann', 'user2': 'bob'})\n"
        "town = ts.Interactions.from_frame(town)\n"
        "model, other = (ts.DPCML(dim=8, epochs=3, n_interests=n).fit(town) for n in (2, 3))\n"
        "model.save('shop.model'), other.save('other.model')\n",
    ),
    "docs/serving.md": (
        "python",
        "import tastespace as ts, polars as pl\n"
        f"town = {TOWN}\n"
        "who = pl.when(pl.col('user') == 1).then(pl.lit('ann')).otherwise(pl.lit('u') + pl.col('user').cast(str))\n"
        "what = pl.when(pl.col('item') == 0).then(pl.lit('tea')).otherwise(pl.lit('i') + pl.col('item').cast(str))\n"
        "town.select(who=who, what=what).write_csv('clicks.csv')\n"
        "pl.DataFrame({'what': sorted(set(town.select(what)['literal'])), 'year': 1995}).write_csv('items.csv')\n"
        "town = ts.Interactions.from_file('clicks.csv', user='who', item='what')\n"
        "ts.DPCML(dim=8, epochs=3).fit(town).save('shop.model')\n",
    ),
    "docs/scaling.md": (
        "python",
        "import tastespace as ts\n"
        "from pathlib import Path\n"
        "town = ts.synthetic.multi_interest(n_users=200, n_items=80, n_interactions=3_000, seed=1).interactions\n"
        "Path('clicks').mkdir()\n"
        "town.to_frame().rename({'user': 'user_id', 'item': 'sku'}).write_parquet('clicks/one.parquet')\n"
        "train, valid = ts.split.per_user(town, (0.8, 0.2), seed=0)\n"
        "from distributed import LocalCluster\n"
        "local = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)\n"
        "Path('address').write_text(local.scheduler_address)\n",
    ),
    "docs/cold-start.md": (
        "python",
        "from tastespace.data import cold_start\n"
        "import polars as pl\n"
        "town = cold_start.load('town')\n"
        "town.train.to_frame().write_parquet('clicks.parquet')\n"
        "town.user_features.write_parquet('users.parquet'), town.item_features.write_parquet('items.parquet')\n"
        "pl.DataFrame({'user': [9001], 'likes': [['Jazz']]}).write_ndjson('new-users.jsonl')\n",
    ),
    "docs/tour.md": (
        "python",
        "import tastespace as ts\n"
        "from pathlib import Path\n"
        "Path('rules.toml').write_text('exclude = [3]')\n"
        "ts.synthetic.multi_interest(seed=0).interactions.item_attributes.write_parquet('items.parquet')\n",
    ),
}
EDITS = {
    "docs/scaling.md": {
        "dim=64": "dim=8, epochs=2",
        "--model dpcml": "--model dpcml --set epochs=2",
        "--cluster tcp": "--user user_id --item sku --set epochs=2 --rounds 1 --cluster tcp",
        "--cluster local:4": "--user user_id --item sku --set epochs=1 --rounds 1 --partitions 2 --cluster local:1",
        "--cluster processes:4": "--user user_id --item sku --set epochs=1 --rounds 1 --cluster processes:1",
        "--partitions 32 --cluster-storage /shared/run": "--partitions 2 --cluster-storage shared",
        "partitions=32": "partitions=2, rounds_per_epoch=1",
        "s3://bucket/run": "run",
        '"tcp://scheduler:8786"': "local.scheduler_address",
        "tcp://scheduler:8786": "$(cat address)",
    },
    "docs/serving.md": {
        "--out shop.model   # a model": "--model dpcml --set epochs=3 --out shop.model",
        "tastespace serve --demo ml-100k       # a named data set\n": "",  # needs a data set; --demo is run
    },
    "docs/tour.md": {
        "tastespace fit town --out town.model ": "tastespace fit town --trials 2 --out town.model ",
        "--set max_spread=0.5": "--set max_spread=0.5 --set epochs=10",
        "epochs=30": "epochs=10",
    },
    "docs/how-to/choose-model.md": {"--minutes 15": "--trials 2"},
    "docs/cold-start.md": {
        "epochs=12": "epochs=4",
        "--set 'layers=[64, 32]'": "--set 'layers=[16, 8]' --set epochs=2",
    },
}


def pages() -> list[str]:
    """Pages with something to run."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    names = [str(path.relative_to(ROOT)) for path in found if BLOCK.search(path.read_text(encoding="utf-8"))]
    return [name for name in names if not name.startswith("docs/generated")]


class PageRun:
    """A folder, a namespace and a shell for the blocks of one page."""

    def __init__(self, page: str, folder: Path, module: types.ModuleType) -> None:
        self.page, self.folder, self.module = page, folder, module
        self.output: list[str] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.bash = subprocess.Popen(
            ["bash", "--norc"], cwd=folder, env={**os.environ, "PATH": path, "COLUMNS": "120"}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self._tell("set -euo pipefail; SERVER=")

    def run(self, language: str, code: str) -> None:
        """Run one block; an exception, or an exit code that is not 0, ends the test."""
        for old, new in EDITS.get(self.page, {}).items():
            code = code.replace(old, new)
        code = re.sub(r"\btrials([= ])\d+", r"trials\g<1>2", code)  # searches are tested elsewhere
        code = code.replace("8000", str(self.port)) if "127.0.0.1" in code or "serve" in code else code
        if language in ("python", "py"):
            exec(compile(code, self.page, "exec"), self.module.__dict__)
        elif language == "toml":
            if name := re.match(r"# (\S+\.toml)\n", code):
                (self.folder / name[1]).write_text(code)
        else:
            self._shell("\n".join(self._line(line) for line in code.replace("\\\n", " ").splitlines()))

    def _line(self, line: str) -> str:
        """A server is started in the background in any case, in place of an earlier one, and waited for."""
        if not line.startswith("tastespace serve "):
            return line
        command = line.partition(" #")[0].rstrip().removesuffix("&").rstrip()
        if "--port" not in command:
            command += f" --port {self.port}"
        ready = f"curl -sf -o ready.json http://127.0.0.1:{self.port}/health/ready"
        return (
            'if [ "$SERVER" ]; then kill $SERVER; wait $SERVER || true; fi\n'
            f"{command} > server.log 2>&1 & SERVER=$!\n"
            f"for i in $(seq 600); do {ready} && break; kill -0 $SERVER || cat server.log; sleep 0.1; done; {ready}"
        )

    def _shell(self, code: str) -> None:
        self._tell(f"{code}\necho; echo __done__")
        assert self.bash.stdout is not None
        timer = threading.Timer(LONGEST, lambda: os.killpg(self.bash.pid, signal.SIGKILL))
        timer.start()
        try:
            for line in self.bash.stdout:
                if line == "__done__\n":
                    return
                self.output.append(line)
        finally:
            timer.cancel()
        pytest.fail(f"{self.page}: a command failed in\n{code}\n{''.join(self.output[-40:])}")

    def _tell(self, text: str) -> None:
        assert self.bash.stdin is not None
        self.bash.stdin.write(f"{text}\n")
        self.bash.stdin.flush()

    def close(self) -> None:
        """End the shell and what it has started."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.bash.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.bash.wait(timeout=10)
        self.bash.communicate()


def marked(page: str) -> object:
    return pytest.param(page, marks=() if page in FAST else pytest.mark.slow, id=page)


@pytest.mark.parametrize("page", [marked(page) for page in pages()])
def test_blocks_of_a_page_run(page, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("__main__")  # classes of a page can be found again by their module
    monkeypatch.setitem(sys.modules, "__main__", module)
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = [(match[1], match[2]) for match in BLOCK.finditer(text)]
    run = PageRun(page, tmp_path, module)
    try:
        for language, code in [*([BEFORE[page]] if page in BEFORE else []), *blocks]:
            if re.match(r"make |python benchmarks/", code):
                check_targets(code)
            elif re.match(r"from (lenskit|rectools)\b", code):
                compile(code, page, "exec")  # run where these are installed: tests/adapters/peer_checks/page_checks.py
            else:
                run.run(language, code)
    finally:
        run.close()
        if local := module.__dict__.get("local"):
            local.close()
    for sign in ("no feature at all", "were not there in training"):  # examples whose content says something
        assert sign not in caplog.text


def check_targets(code: str) -> None:
    """Blocks that build or measure the project are not run inside its tests: what they name must be there."""
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\S+)", code, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for script in re.findall(r"^python (benchmarks/\S+)", code, re.MULTILINE):
        assert (ROOT / script).exists(), script


def test_the_lists_of_this_file_name_pages_that_exist():
    named = {*FAST, *BEFORE, *EDITS}
    assert named <= set(pages()), named - set(pages())
    for page, edits in EDITS.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        for old in edits:
            assert old in text, f"{page} has no {old!r} any more: take the edit out."
