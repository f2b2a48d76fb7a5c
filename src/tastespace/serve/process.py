"""Running a server: the socket, worker processes, time limits of connections, a graceful end."""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import replace
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tastespace.errors import ParameterError
from tastespace.serve.app import create_app
from tastespace.serve.settings import ServerSettings
from tastespace.serve.state import ServerState

log = logging.getLogger(__name__)

_BACKLOG = 2_048
_GRACE_SECONDS = 20
_OBJECTS = 50_000
"""Number of new objects that starts a collection of reference cycles."""
_IDLE_SECONDS = 75
_ACCEPTED_AT_ONCE, _ACCEPTED_BY_ONE_OF_SEVERAL = 1_024, 32
"""New connections that a worker takes at once; where there are several, others get a share of them."""


class TimedProtocol(HttpToolsProtocol):
    """HTTP connections that are closed when the head of a request does not come in time.

    uvloop accepts one connection in each turn of its loop, and under load a turn answers many requests: the last of
    1,000 new clients would wait for 1,000 turns. So each connection that is accepted looks for others that wait.
    """

    read_seconds = 10.0
    listening: socket.socket | None = None
    accepted_at_once = 1
    _looks_for_others = True
    _timer: asyncio.TimerHandle | None = None
    _has_head = False

    def connection_made(self, transport: Any) -> None:
        """Start the time limit of a new connection for its first request."""
        super().connection_made(transport)
        self._expect()
        if self._looks_for_others and self.listening is not None:
            self._accept_others(self.listening)

    def _accept_others(self, listening: socket.socket) -> None:
        for _ in range(self.accepted_at_once - 1):
            try:
                connection, _ = listening.accept()
            except OSError:  # nobody waits, or the server stops
                return
            other = type(self)(self.config, self.server_state, self.app_state)
            other._looks_for_others = False
            task = self.loop.create_task(self._connect(other, connection))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)

    async def _connect(self, other: TimedProtocol, connection: socket.socket) -> None:
        try:
            await self.loop.connect_accepted_socket(lambda: other, connection)
        except OSError:  # the client has gone already
            connection.close()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request: its head must be complete in time, however slowly they come."""
        self._has_head = False
        super().data_received(data)
        if self._has_head or self._timer is not None:  # a whole head at once, which is the rule, needs no timer
            return
        if self.cycle is not None and self.cycle.response_complete:
            self._expect()

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._has_head = True
        self._stop()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._stop()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._timer = self.loop.call_later(self.read_seconds, self._too_slow)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens; a port in use is an error that says what to do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as problem:
        listening.close()
        advice = "Give another with --port, or --port 0 for a free one."
        if isinstance(problem, OSError) and problem.errno == errno.EADDRINUSE:
            raise ParameterError(f"port {port} of {host} is in use by another program. {advice}") from problem
        raise ParameterError(f"{host}:{port} cannot be listened on ({problem}). {advice}") from problem
    listening.set_inheritable(True)
    return listening


def run(settings: ServerSettings, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; requests that are being answered are finished."""
    _log_to_stderr(settings)
    if settings.workers == 1:
        _serve(settings, listening)
    else:
        _Workers(settings, listening).run()


def _serve(settings: ServerSettings, listening: socket.socket, parent: int | None = None) -> None:
    """Serve in this process; a worker stops when its parent process is gone."""
    TimedProtocol.read_seconds = settings.limits.read_seconds
    if parent is not None:
        _log_to_stderr(settings)
    config = uvicorn.Config(
        create_app(settings, follow=True),
        http=TimedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        backlog=_BACKLOG,
    )
    for name in (signal.SIGINT, signal.SIGTERM):
        # uvicorn raises the signal again when it has ended: then the program ends in order.
        signal.signal(name, lambda *_: sys.exit(0))
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    # The collector of cycles took a tenth of the time: what is there now stays, and 1,000 requests at once are no leak.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS, 10, 10)
    listening.setblocking(False)
    TimedProtocol.listening = listening
    TimedProtocol.accepted_at_once = _ACCEPTED_AT_ONCE if settings.workers == 1 else _ACCEPTED_BY_ONE_OF_SEVERAL
    uvicorn.Server(config).run(sockets=[listening])


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


class _Workers:
    """Worker processes that accept from one socket; one that ends by itself is started again."""

    def __init__(self, settings: ServerSettings, listening: socket.socket) -> None:
        self._settings, self._socket = settings, listening
        self._ended = threading.Event()
        self._context = multiprocessing.get_context("spawn")

    def run(self) -> None:
        """Start the workers and look after them until a signal comes."""
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, lambda *_: self._ended.set())
        processes = [self._started() for _ in range(self._settings.workers)]
        while not self._ended.wait(0.5):
            for at, process in enumerate(processes):
                if not process.is_alive():
                    log.warning("a worker ended with code %s; another is started", process.exitcode)
                    self._ended.wait(1)  # one that cannot start is not started as fast as possible
                    processes[at] = self._started()
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(_GRACE_SECONDS + 10)
            if process.is_alive():
                process.kill()

    def _started(self) -> Any:
        process = self._context.Process(target=_serve, args=(self._settings, self._socket, os.getpid()))
        process.start()
        return process


def checked(settings: ServerSettings) -> ServerSettings:
    """The same settings, after the model, the store and all files were opened once; announces the model to workers.

    Raises before the server is there what would otherwise end each worker.
    """
    if not is_loopback(settings.host) and settings.tokens is None:
        log.warning("anyone who can reach %s can send requests: no tokens are configured", settings.host)
    state = ServerState(settings)
    state.close()
    if is_loopback(settings.host):
        own = ("localhost", "127.0.0.1", "::1", settings.host)
        settings = replace(settings, allowed_hosts=(*own, *settings.allowed_hosts))
    return settings


def _log_to_stderr(settings: ServerSettings) -> None:
    """One line for each event, never wrapped; with `--access-log` a line of JSON for each request."""
    logger = logging.getLogger("tastespace")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.handlers = [handler]  # in place of that of the command line, which wraps at the width of the terminal
    logger.setLevel(logging.INFO if settings.access_log or logger.isEnabledFor(logging.INFO) else logging.WARNING)
