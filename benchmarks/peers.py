"""tastespace beside implicit, LensKit, RecTools, RecBole and Cornac: one command writes docs/benchmarks.md.

    python benchmarks/peers.py [--data NAME ...] [--libraries NAME ...] [--wheel FILE] [--stop-after SECONDS]
    python benchmarks/peers.py --step page

Each library is installed from PyPI in a virtual environment of its own. The data is split by `split.per_user`
(60/20/20, seed 0) and handed over as Parquet: the first two parts to the library, which writes the 20 best items of
everybody as Parquet; the third part stays here and measures all of them with `tastespace.evaluate`. A cell is one
process of `benchmarks/peers/run_LIBRARY.py`; its log, a file below benchmarks/peers/results, has the command, the
parameters, the versions and the seed, and a finished cell is not run again: delete its file for that.

The steps are `environments`, `tuning` (parameters are chosen on the second part; the budget is processor time, so
other work on the machine does not matter), `timed` (everything that is timed: on an idle machine) and `page`.
`--step accuracy` runs on a busy machine what `timed` runs, and keeps processor seconds but no times by the clock;
`timed` then measures the cells that have none.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "peers" / "results"
sys.path.insert(0, str(HERE / "peers"))

from environments import LIBRARIES, environment, exchange_folder, time_import  # noqa: E402
from page import write_page  # noqa: E402

from evaluation import exchange, measure_lists  # noqa: E402

DATASETS = ("ml-1m", "steam-200k", "anime")
MINUTES = 0.5  # on all cores, to choose parameters, for every library
LIMIT = 290  # seconds for one timed process
STEPS = ("environments", "tuning", "timed", "page")
TIMES = ("prepare_seconds", "train_seconds", "lists_seconds", "one_person_ms")
BY_THE_CLOCK = {("tastespace", "fit-default")}  # what they find depends on other work: timed only


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=DATASETS)
    parser.add_argument("--libraries", nargs="+", default=list(LIBRARIES), choices=list(LIBRARIES))
    parser.add_argument("--work", type=Path, default=Path("build/peers"), help="environments, data and lists")
    parser.add_argument("--wheel", type=Path, help="a wheel of tastespace; by default this repository is built")
    parser.add_argument("--step", nargs="+", default=STEPS, choices=(*STEPS, "accuracy"))
    parser.add_argument("--stop-after", type=float, default=float("inf"), help="start no cell after so many seconds")
    arguments = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    work, steps = arguments.work, arguments.step
    (work / "lists").mkdir(parents=True, exist_ok=True)
    if "environments" in steps:
        for library in arguments.libraries:
            environment(library, work / "environments", RESULTS / f"{library}.json", arguments.wheel)
    end = time.monotonic() + arguments.stop_after
    if "timed" in steps:
        for library in arguments.libraries:
            time_import(library, work / "environments", RESULTS / f"{library}.json")
    for name in arguments.data:
        for title, library, options in cells(name, arguments.libraries, steps):
            if time.monotonic() < end:
                exchange(name, work / "data" / name)
                cell(name, library, title, options, work, is_timed="timed" in steps)
    if "page" in steps:
        write_page(RESULTS, ROOT / "docs" / "benchmarks.md")


def cells(name: str, libraries: list[str], steps: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """The documented defaults of each method of a library, then what is best on the validation part."""
    for library in libraries:
        is_measured = "timed" in steps or "accuracy" in steps
        for method in LIBRARIES[library].methods if is_measured else ():
            if "timed" in steps or (library, f"{method}-default") not in BY_THE_CLOCK:
                yield f"{method}-default", library, ["--method", method]
        if "tuning" in steps:
            yield "tuning", library, ["--tune", "--minutes", str(MINUTES)]
        tuning = RESULTS / f"{name}-{library}-tuning.json"
        if is_measured and tuning.exists() and "method" in (chosen := json.loads(tuning.read_text())):
            parameters = json.dumps(chosen["parameters"])
            yield "tuned", library, ["--method", chosen["method"], "--parameters", parameters]


def cell(name: str, library: str, title: str, options: list[str], work: Path, is_timed: bool) -> None:
    """Run one process and keep its log, unless it is there with all that is wanted."""
    kept = RESULTS / f"{name}-{library}-{title}.json"
    if kept.exists():
        there = json.loads(kept.read_text())
        if not is_timed or title == "tuning" or "error" in there or TIMES[0] in there:
            return
    out = work / "lists" / (kept.name if is_timed else f"busy-{kept.name}")  # both steps may run at once
    out.unlink(missing_ok=True)
    script, data = f"benchmarks/peers/run_{library}.py", work / "data" / name
    arguments = ["--data", str(data), *options, "--out", str(out)]
    python = work / "environments" / library / "bin" / "python"
    print(name, library, title, flush=True)
    limit = LIMIT if is_timed else 3 * LIMIT
    command = ["timeout", str(limit), str(python), script, *arguments]
    variables = os.environ | {"PYTHONPATH": str(exchange_folder(work / "environments").resolve())}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=variables)
    log = {"data": name, "title": title, "command": shlex.join(["python", script, *arguments])}
    if done.returncode == 0:
        log |= {key: value for key, value in json.loads(out.read_text()).items() if is_timed or key not in TIMES}
        if title != "tuning":
            log["metrics"] = measure_lists(name, out.with_suffix(".parquet"))
    else:
        log |= {"library": library, "error": explained(done, work)}
    log["machine"] = {"cpu": cpu(), "cores": os.cpu_count(), "system": platform.system(), "load": os.getloadavg()[0]}
    log["date"] = time.strftime("%Y-%m-%d")
    kept.write_text(json.dumps(log, indent=1) + "\n")
    print("   ", {k: v for k, v in log.items() if k in ("metrics", "train_seconds", "error", "parameters")}, flush=True)


def explained(done: subprocess.CompletedProcess[str], work: Path) -> str:
    """The last line of what a failed process wrote, without paths of this machine."""
    if done.returncode == 124:
        return "stopped: it took too long"
    lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit status {done.returncode}"]
    return lines[-1].replace(str(work.resolve()), "WORK").replace(str(ROOT), ".").strip()[:400]


def cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
