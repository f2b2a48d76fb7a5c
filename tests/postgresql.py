"""A real PostgreSQL of its own, for tests and for the soak."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path


def binaries() -> Path | None:
    """The folder of PostgreSQL's programs; None where it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    folder = found[-1].parent if found else Path(shutil.which("postgres") or "/nowhere/postgres").parent
    return folder if (folder / "initdb").exists() else None


@contextlib.contextmanager
def running_postgresql() -> Iterator[Callable[[], str]]:
    """Start a server on a socket; gives a function that makes a new, empty database and returns its address."""
    import psycopg

    programs = binaries()
    assert programs is not None, "PostgreSQL is not installed (.ci/install-services)"
    place = Path(tempfile.mkdtemp(prefix="tastespace-pg-"))
    # PostgreSQL refuses to run as root: then it runs as the user of its package.
    own = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    if own:
        shutil.chown(place, "postgres", "postgres")
    data = place / "data"
    make = [programs / "initdb", "-D", data, "-A", "trust", "-U", "tastespace", "--no-sync"]
    subprocess.run(make, check=True, capture_output=True, cwd=place, **own)
    start = [programs / "postgres", "-D", data, "-k", place, "-c", "listen_addresses=", "-c", "shared_buffers=16MB"]
    server = subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=place, **own)
    address = f"postgresql://tastespace@/postgres?host={place}"
    try:
        for _ in range(200):
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(address).close()
                break
            time.sleep(0.1)
        number = iter(range(1000))

        def new_database() -> str:
            name = f"shop{next(number)}"
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            return f"postgresql://tastespace@/{name}?host={place}"

        yield new_database
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def stopped(address: str) -> Iterator[None]:
    """Stop all processes of a PostgreSQL, as a full disk or a paused machine does; they go on afterwards."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        shown = connection.execute("SHOW data_directory").fetchone()
        backends = connection.execute("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()").fetchall()
    assert shown is not None
    main = int((Path(shown[0]) / "postmaster.pid").read_text().split()[0])
    pids = [main, *(pid for (pid,) in backends)]
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
