"""A real Redis of its own, for tests."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator

PASSWORD = "s3cret-of-redis"


def is_installed() -> bool:
    return shutil.which("redis-server") is not None


@contextlib.contextmanager
def running_redis() -> Iterator[str]:
    """Start a server on loopback that asks for a password and keeps nothing on disk; gives its address."""
    import redis

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--requirepass", PASSWORD]
    command += ["--save", "", "--appendonly", "no"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"redis://:{PASSWORD}@127.0.0.1:{port}/0"
    try:
        for _ in range(200):
            with contextlib.suppress(redis.exceptions.ConnectionError), redis.Redis.from_url(address) as client:
                client.ping()
                break
            time.sleep(0.05)
        yield address
    finally:
        server.terminate()
        server.wait(30)
