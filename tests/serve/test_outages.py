"""Real stores that hang, disappear or lose a commit: lists go on, and nothing is acknowledged that is not stored."""

import contextlib
import select
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path

import httpx
import pytest
from tests.postgresql import stopped

from tastespace.serve.errors import StoreError, as_http_error
from tastespace.serve.feedback.store import Cursor, FeedbackEvent, open_feedback_store


def problems_of(server):
    return httpx.get(f"{server.address}/health/ready", timeout=5).json()["problems"]


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow
def test_lists_go_on_while_postgresql_hangs(running, model_at, postgresql):
    address = postgresql()
    server = running(model_at("dpcml"), "--store", address)
    usual = httpx.get(f"{server.address}/v1/users/7/recommendations", timeout=20).json()
    assert httpx.post(f"{server.address}/v1/feedback", json={"events": [{"user": 8, "item": 3}]}).json()["stored"] == 1
    paths = ("users/7/recommendations", "users/7/shelves", "items/3/similar", "items/search?q=film")
    with stopped(address):
        slowest = 0.0
        for number in range(20):
            start = time.monotonic()
            answer = httpx.get(f"{server.address}/v1/{paths[number % 4]}", timeout=20)
            slowest = max(slowest, time.monotonic() - start)
            assert answer.status_code == 200, answer.text
            if number % 4 == 0:
                assert answer.headers["x-tastespace-feedback"] == "not-read"
                assert answer.json()["items"] == usual["items"]
            time.sleep(0.4)
        assert slowest < 6  # ten seconds, the time limit of a request, before there were limits for the store
        assert any("cannot be read" in one for one in problems_of(server))
        refused = httpx.get(f"{server.address}/v1/users/7/profile", timeout=20)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_unavailable")

    def is_read_again():
        answer = httpx.get(f"{server.address}/v1/users/7/recommendations", timeout=20)
        return "x-tastespace-feedback" not in answer.headers and not problems_of(server)

    until(is_read_again)
    event = {"user": 7, "item": usual["items"][0]["item"], "event_id": "after"}
    until(lambda: httpx.post(f"{server.address}/v1/feedback", json={"events": [event]}, timeout=20).status_code == 200)
    new = httpx.get(f"{server.address}/v1/users/7/recommendations", timeout=20).json()
    assert event["item"] not in [one["item"] for one in new["items"]]


class LosesCommits:
    """A PostgreSQL whose connections end after they were told to commit, and before they say that they have."""

    def __init__(self, behind: str, folder: Path) -> None:
        self.behind, self.is_losing = behind, False
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / ".s.PGSQL.5432"))
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.behind)
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            while True:
                for source in select.select([client, server], [], [])[0]:
                    content = source.recv(65_536)
                    if not content:
                        return
                    (server if source is client else client).sendall(content)
                    if source is client and self.is_losing and b"COMMIT" in content:
                        server.recv(65_536)  # it is done
                        return

    def close(self) -> None:
        self._listening.close()


def test_a_connection_lost_at_the_commit_may_have_stored_and_says_so(postgresql):
    address = postgresql()
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # names of sockets are short
    place = address.partition("host=")[2]
    proxy = LosesCommits(f"{place}/.s.PGSQL.5432", folder)
    store = open_feedback_store(address.replace(place, str(folder)))
    try:
        proxy.is_losing = True
        with pytest.raises(StoreError) as lost:
            store.append([FeedbackEvent(7, 3, "once")])
        proxy.is_losing = False
        answer = as_http_error(lost.value)
        assert answer.status == 503
        assert "may have been stored" in answer.advice
        assert "Nothing was stored" not in answer.advice
        assert [one.event_id for one in store.changes(Cursor()).events] == ["once"]
        assert store.append([FeedbackEvent(7, 3, "once")]) == [False]  # as advised: stored once
    finally:
        store.close()
        proxy.close()
        shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["shop.sqlite", "shop.sqlite-wal"])
def test_an_sqlite_file_that_was_deleted_is_no_place_for_feedback(client_of, tmp_path, name):
    path = tmp_path / "shop.sqlite"
    client = client_of(store=str(path))

    def stored(event_id):
        return client.post("/v1/feedback", json={"events": [{"user": 7, "item": 3, "event_id": event_id}]})

    assert stored("first").json()["stored"] == 1
    (tmp_path / name).rename(tmp_path / "elsewhere")
    answer = stored("lost")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable")
    client.app.state.look()
    assert client.get("/v1/users/7/recommendations").status_code == 200
    problems = client.get("/health/ready").json()["problems"]
    assert any("was deleted, moved or replaced" in one for one in problems)
    assert str(tmp_path) not in str(problems)
    (tmp_path / "elsewhere").rename(tmp_path / name)  # it is the same again
    assert stored("lost").json()["stored"] == 1
    again = open_feedback_store(str(path))
    assert [one.event_id for one in again.changes(Cursor()).events] == ["first", "lost"]
    again.close()
