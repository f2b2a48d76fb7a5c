"""SIGKILL at random moments of training, saving, downloads, the paper's runner: `python -m tests.torture --kills 200`.

Every action is killed a few times and started again until it ends. The result must be that of an uninterrupted one.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import json
import logging
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.torture.actions import ACTIONS, CONTENT

_LONGEST = 300.0  # seconds that an action may take
_KILLS_OF_ONE = 3  # before an action may end
_MOST_ROUNDS = 10  # after the time is over, until something was killed


class _Slowly(http.server.BaseHTTPRequestHandler):
    """Sends the file in pieces, so that a kill comes in between."""

    def do_GET(self) -> None:
        """The file, whatever is asked for."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        with contextlib.suppress(OSError):  # whoever asked may be dead
            for first in range(0, len(CONTENT), 20_000):
                self.wfile.write(CONTENT[first : first + 20_000])
                time.sleep(0.02)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def start(name: str, folder: Path) -> int:
    """Run an action in a forked process with a group of its own; gives its id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()
            logging.disable(logging.WARNING)
            began = time.monotonic()
            digest = ACTIONS[name][0](folder)
            result = {"digest": digest, "seconds": time.monotonic() - began}
            (folder / "result.json").write_text(json.dumps(result))
            code = 0
        except BaseException:
            (folder / "error.txt").write_text(traceback.format_exc())
        finally:
            os._exit(code)
    return child


def wait(child: int, seconds: float) -> int | None:
    """The exit status of a child that ends within this time; None where it does not."""
    until = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        if time.monotonic() >= until:
            return None
        time.sleep(0.002)


def finish(name: str, folder: Path) -> dict[str, object]:
    """Run an action to its end; gives its result, or the error."""
    status = wait(start(name, folder), _LONGEST)
    if status is None:
        return {"error": f"no end after {_LONGEST:g} s"}
    if status != 0:
        error = folder / "error.txt"
        return {"error": error.read_text() if error.exists() else f"ended with status {status}"}
    found: dict[str, object] = json.loads((folder / "result.json").read_text())
    return found


def torture(name: str, n_kills: int, rng: random.Random, address: str, until: float) -> tuple[int, int, int]:
    """Kill an action and let it end, again and again; gives the numbers of kills, of results and of bad ones."""
    kills = results = bad = 0
    with tempfile.TemporaryDirectory() as name_of_first:
        first = Path(name_of_first)
        (first / "address").write_text(address)
        reference = finish(name, first)
    if "error" in reference:
        sys.stdout.write(f"{name}: {reference['error']}\n")
        return 0, 1, 1
    seconds = float(str(reference["seconds"]))
    # However slow the machine is, some kills are made.
    while kills < n_kills and (time.monotonic() < until or (kills == 0 and results < _MOST_ROUNDS)):
        with tempfile.TemporaryDirectory() as folder_name:
            folder = Path(folder_name)
            (folder / "address").write_text(address)
            for _ in range(min(_KILLS_OF_ONE, n_kills - kills)):
                child = start(name, folder)
                status = wait(child, rng.uniform(0.02, 1.0) * seconds)
                if status is None:
                    os.killpg(child, signal.SIGKILL) if _has_group(child) else os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    kills += 1
                elif status != 0:
                    break  # said below
            found = (
                finish(name, folder)
                if not (folder / "error.txt").exists()
                else {"error": (folder / "error.txt").read_text()}
            )
        results += 1
        if found.get("digest") != reference["digest"]:
            bad += 1
            sys.stdout.write(f"{name}: {found.get('error', 'another result than without kills')}\n")
    sys.stdout.write(f"{name}: {kills} kills, {results} results, {bad} bad; one takes {seconds:.2f} s\n")
    sys.stdout.flush()
    return kills, results, bad


def _has_group(child: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        return os.getpgid(child) == child
    return False


def main() -> int:
    """Run all actions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=ACTIONS, default=list(ACTIONS))
    given = parser.parse_args()
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401  (once, instead of in each process)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Slowly)
    served = os.fork()
    if served == 0:
        server.serve_forever()
    address = f"http://127.0.0.1:{server.server_address[1]}/town.bin"
    server.socket.close()
    total = [0, 0, 0]
    try:
        shares = sum(ACTIONS[name][1] for name in given.only)
        began, used = time.monotonic(), 0.0
        for name in given.only:
            share = ACTIONS[name][1] / shares
            used += share
            until = began + 60 * given.minutes * used
            counts = torture(
                name, max(1, round(given.kills * share)), random.Random(f"{given.seed} {name}"), address, until
            )
            total = [a + b for a, b in zip(total, counts, strict=True)]
    finally:
        os.kill(served, signal.SIGKILL)
        os.waitpid(served, 0)
    sys.stdout.write(f"{total[0]} kills, {total[1]} results, {total[2]} bad\n")
    return int(total[2] > 0 or total[0] == 0)


if __name__ == "__main__":
    sys.exit(main())
