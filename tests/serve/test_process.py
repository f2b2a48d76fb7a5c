"""A server as a process: host names by its address, the access log."""

import contextlib
import json
import re
import select
import socket
import time

import httpx

from tastespace.serve.process import checked
from tastespace.serve.settings import ServerSettings


def test_a_server_on_loopback_answers_for_this_machine_and_for_names_that_are_allowed(model_at):
    plain = checked(ServerSettings(model_at("ease"), watch_seconds=0.0))
    assert set(plain.allowed_hosts) == {"localhost", "127.0.0.1", "::1"}
    assert "shop.local" in checked(ServerSettings(model_at("ease"), allowed_hosts=("shop.local",))).allowed_hosts
    assert checked(ServerSettings(model_at("ease"), host="0.0.0.0")).allowed_hosts == ()


def test_the_access_log_has_a_line_for_each_request(running, model_at):
    server = running(model_at("ease"), "--access-log", env={"COLUMNS": "40"})
    httpx.get(f"{server.address}/v1/users/7/recommendations")
    lines = [json.loads(one) for one in server.stop().splitlines() if '"route"' in one]
    assert lines[-1]["route"] == "/v1/users/{user}/recommendations"
    assert lines[-1]["status"] == 200


def connected(server, **options):
    host, _, port = server.address.rpartition("//")[2].partition(":")
    opened = socket.socket()
    for name, value in options.items():
        opened.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
    opened.settimeout(60)
    opened.connect((host, int(port)))
    return opened


def answer_to_endless(server, first, piece):
    """What a server says to a client that goes on and on, and how many bytes it has taken until then."""
    with connected(server) as client:
        client.sendall(first)
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 50_000_000 and not select.select([client], [], [], 0)[0]:
                client.sendall(piece)
                sent += len(piece)
        found = b""
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_WR)  # an answer may come before the end, on a connection that stays open
            while part := client.recv(65_536):
                found += part
        return found, sent


def test_heads_are_limited_before_anything_else(running, model_at, tmp_path):
    (tmp_path / "tokens.json").write_text('{"tokens": []}')
    server = running(model_at("ease"), "--tokens", tmp_path / "tokens.json")
    line = b"GET /v1/model HTTP/1.1\r\nHost: localhost\r\n"
    body = line.replace(b"GET", b"POST") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
    for first, piece in (
        (line, b"X-A: " + b"b" * 1_000 + b"\r\n"),  # long headers
        (line, b"A: b\r\n" * 100),  # many short ones
        (line + b"X-A: ", b"b" * 10_000),  # one without an end
        (b"GET /", b"a" * 10_000),
        (body, b"X-A: " + b"b" * 1_000 + b"\r\n"),  # after the body
    ):
        found, sent = answer_to_endless(server, first, piece)
        assert sent < 20_000_000, first  # what the buffers of the system hold: 1.9 GB in seven seconds before
        assert not found or re.match(rb"HTTP/1.1 (431|401|405) ", found), first
    with connected(server) as client:
        client.sendall(line + b"X-A: " + b"b" * 40_000 + b"\r\n\r\n")
        assert b" 431 " in client.recv(65_536).split(b"\r\n")[0]
    with connected(server) as client:  # what is long, and not too long
        client.sendall(line + b"X-A: " + b"b" * 30_000 + b"\r\n\r\n")
        assert b" 401 " in client.recv(65_536).split(b"\r\n")[0]


def test_answers_that_nobody_reads_are_not_held(running, model_at):
    server = running(model_at("dpcml"), "--timeout", "5")
    body = json.dumps({"users": [user % 50 for user in range(1_000)], "k": 50}).encode()
    head = f"POST /v1/recommendations HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    request = head.encode() + b"Content-Type: application/json\r\n\r\n" + body
    taken = 0
    with connected(server, SO_RCVBUF=4_096) as client:
        client.sendall(request)
        client.recv(1)
        time.sleep(12)
        with contextlib.suppress(ConnectionError):
            while part := client.recv(1 << 20):
                taken += len(part)
    with connected(server) as client:
        client.sendall(request)
        client.settimeout(60)
        length = int(re.search(rb"content-length: (\d+)", client.recv(300))[1])
    assert taken < length - 1_000_000
    assert httpx.post(f"{server.address}/v1/recommendations", json={"users": [7] * 1_000, "k": 51}).status_code == 413
