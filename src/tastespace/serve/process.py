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

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tastespace._util.limits import HEAD_BYTES, HEAD_LINES, SENT_BYTES
from tastespace.errors import ParameterError
from tastespace.serve.app import create_app
from tastespace.serve.errors import HttpError
from tastespace.serve.metrics import shared_counts_folder
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


class HeadTooLongError(Exception):
    """Path and headers of a request are longer than they may be."""


class TimedProtocol(HttpToolsProtocol):
    """HTTP connections that are closed when the head of a request is too long, or when a client is too slow.

    The head must come in time, and answers must be taken in time: what is not read is held in memory.

    uvloop accepts one connection in each turn of its loop, and under load a turn answers many requests: the last of
    1,000 new clients would wait for 1,000 turns. So each connection that is accepted looks for others that wait.
    """

    read_seconds = 10.0
    listening: socket.socket | None = None
    accepted_at_once = 1
    _looks_for_others = True
    _timer: asyncio.TimerHandle | None = None
    _has_head = False
    _head_bytes = _head_lines = 0
    _unparsed = 0
    """Bytes that have come since the last part of a request was complete."""
    _has_part = False
    _unsent_timer: asyncio.TimerHandle | None = None
    _unsent = 0

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
        self._has_head = self._has_part = False
        super().data_received(data)
        self._unparsed = 0 if self._has_part else self._unparsed + len(data)
        if self._unparsed > HEAD_BYTES and not self.transport.is_closing():  # one header without an end
            self.send_400_response("")
        if self._has_head or self._timer is not None:  # a whole head at once, which is the rule, needs no timer
            return
        if self.cycle is not None and self.cycle.response_complete:
            self._expect()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._head_bytes = self._head_lines = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the path."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, before the body or after it."""
        self._head_lines += 1
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def _count(self, n_bytes: int) -> None:
        self._has_part = True
        self._head_bytes += n_bytes
        if self._head_bytes > HEAD_BYTES or self._head_lines > HEAD_LINES:
            raise HeadTooLongError

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._has_part = True
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, or is too long, and close the connection."""
        if self.cycle is not None and not self.cycle.response_complete:  # another answer is on its way
            self.transport.close()
        elif max(self._head_bytes, self._unparsed) > HEAD_BYTES or self._head_lines > HEAD_LINES:
            problem = HttpError(
                431, "head_too_large", f"path and headers have more than {HEAD_BYTES:,} bytes or {HEAD_LINES} lines.",
                "Send less, or use POST.",
            )  # fmt: skip
            body = msgspec.json.encode(problem.to_dict())
            head = (
                f"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: {len(body)}\r\n"
            )
            self.transport.write(f"{head}content-type: application/json\r\n\r\n".encode() + body)
            self.transport.close()
        else:
            super().send_400_response(msg)

    # ---- answers that are not read -----------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """The client takes less than is sent."""
        super().pause_writing()
        self._unsent = self.transport.get_write_buffer_size()
        self._unsent_timer = self.loop.call_later(self.read_seconds, self._require_read)

    def resume_writing(self) -> None:
        """It has taken nearly all of it."""
        self._stop_unsent()
        super().resume_writing()

    def _require_read(self) -> None:
        self._unsent_timer = None
        left = self.transport.get_write_buffer_size()
        if left > self._unsent - SENT_BYTES:
            self.transport.abort()
            return
        self._unsent = left
        self._unsent_timer = self.loop.call_later(self.read_seconds, self._require_read)

    def _stop_unsent(self) -> None:
        if self._unsent_timer is not None:
            self._unsent_timer.cancel()
            self._unsent_timer = None

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._has_head = self._has_part = True
        self._stop()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._stop()
        self._stop_unsent()
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
        with shared_counts_folder() as folder:
            _Workers(replace(settings, counts_folder=folder), listening).run()


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
    _say_what_is_shown(state)
    state.close()
    if is_loopback(settings.host):
        own = ("localhost", "127.0.0.1", "::1", settings.host)
        settings = replace(settings, allowed_hosts=(*own, *settings.allowed_hosts))
    return settings


def _say_what_is_shown(state: ServerState) -> None:
    """Name the hosts that the page loads pictures from, and what of the display finds nothing."""
    served = state.main.slot.served
    if (shown := served.pictures) is not None:
        log.warning(
            "the page loads pictures (item attribute %r) from %s", shown.column, ", ".join(shown.sources) or "nowhere"
        )
        if shown.n_refused:
            log.warning(
                "%s of these are left out: expected addresses such as https://host/picture.jpg", shown.n_refused
            )
    for name in served.unknown_categories:
        log.warning("no item has the category %r, which is to be hidden", name)


def _log_to_stderr(settings: ServerSettings) -> None:
    """One line for each event, never wrapped; with `--access-log` a line of JSON for each request."""
    logger = logging.getLogger("tastespace")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.handlers = [handler]  # in place of that of the command line, which wraps at the width of the terminal
    logger.setLevel(logging.INFO if settings.access_log or logger.isEnabledFor(logging.INFO) else logging.WARNING)
