"""Feedback is stored once, and acknowledged only when it is."""

import asyncio
import random
import threading
import time

import pytest

from tastespace.serve.errors import StoreError, as_http_error
from tastespace.serve.feedback.store import Cursor, FeedbackEvent, StoredProfile, open_feedback_store
from tastespace.serve.feedback.writer import FeedbackWriter


def test_an_event_that_is_sent_again_is_stored_once(client):
    body = {"events": [{"user": 7, "item": 3, "event_id": "order-1"}]}
    assert client.post("/v1/feedback", json=body).json()["stored"] == 1
    assert client.post("/v1/feedback", json=body).json() == {"stored": 0, "duplicates": 1, "unknown_items": 0}


def test_a_store_that_cannot_be_written_is_503_and_nothing_is_acknowledged(client, monkeypatch, caplog):
    state = client.app.state

    def full(*_):
        raise StoreError("database or disk is full", "shop.sqlite")

    monkeypatch.setattr(state.store, "append", full)
    answer = client.post("/v1/feedback", json={"events": [{"user": 7, "item": 3}]})
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "store_unavailable"
    assert "retry-after" in answer.headers
    client.post("/v1/feedback", json={"events": [{"user": 7, "item": 3}]})
    (problem,) = client.get("/health/ready").json()["problems"]
    assert "feedback is not being stored" in problem
    assert "disk is full" in problem
    assert caplog.text.count("disk is full") == 1  # one line, however often it fails
    assert "shop.sqlite" in caplog.text
    assert "shop.sqlite" not in answer.text + problem
    monkeypatch.undo()
    assert client.get("/v1/users/7/recommendations").status_code == 200
    assert client.post("/v1/feedback", json={"events": [{"user": 7, "item": 3}]}).json()["stored"] == 1
    assert client.get("/health/ready").json()["problems"] == []


def test_feedback_that_waits_too_long_for_the_store_may_be_stored_and_says_so(client, monkeypatch):
    async def write(*given):
        raise TimeoutError

    monkeypatch.setattr(client.app.state.writer, "write", write)
    body = {"events": [{"user": 7, "item": 3, "event_id": "once"}]}
    for answer in (client.post("/v1/feedback", json=body), client.put("/v1/users/7/profile", json={"mute": [1]})):
        assert answer.status_code == 503
        found = answer.json()["error"]
        assert found["code"] == "timeout"
        assert "may be stored later" in found["message"]
        assert "the same event_id" in found["advice"]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_request_that_the_database_refuses_does_not_fail_the_others_of_its_group(kind, tmp_path, request):
    location = str(tmp_path / "shop.sqlite") if kind == "sqlite" else request.getfixturevalue("postgresql")()
    store = open_feedback_store(location)
    if kind == "sqlite":
        poison = FeedbackEvent(1, 1, "poison", float("nan"))  # NULL to SQLite
    else:
        poison = FeedbackEvent(random.Random(1).randbytes(5_000).hex(), 1, "poison")  # no row of an index holds this
    broken = FeedbackEvent(1, 1, "\udcff")  # no text at all
    writer = FeedbackWriter(store)

    async def everybody() -> list[object]:
        writes = [writer.write([FeedbackEvent(1, n, f"good {n}")]) for n in range(60)]
        writes[20:20] = [writer.write([poison])]
        writes[50:50] = [writer.write([broken])]
        return await asyncio.gather(*writes, return_exceptions=True)

    # The first commit takes what has come by then; the others wait, and are one group.
    found: list[object] = []
    runner = threading.Thread(target=lambda: found.extend(asyncio.run(everybody())))
    with store._write_lock:
        runner.start()
        time.sleep(0.5)
    runner.join(60)
    assert [one for one in found if one == [True]] == [[True]] * 60
    assert isinstance(found[20], StoreError)
    assert as_http_error(found[20]).status == 422
    assert isinstance(found[50], Exception)
    assert writer.problem is None or "UnicodeEncodeError" in writer.problem
    assert len(store.changes(Cursor()).events) == 60
    writer.close()
    store.close()


def test_ids_that_no_index_holds_are_refused_at_the_door(client_of):
    client = client_of("text")
    for user, item, event_id in (("x" * 999, "tea", None), ("ann", '"' * 500, None), ("ann", "\x01" * 167, None)):
        answer = client.post("/v1/feedback", json={"events": [{"user": user, "item": item, "event_id": event_id}]})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "id_too_long")
    assert client.post("/v1/feedback", json={"events": [{"user": "x" * 998, "item": "tea"}]}).json()["stored"] == 1
    assert client.get(f"/v1/users/{'x' * 1_001}/recommendations").json()["error"]["code"] == "id_too_long"


def test_the_longest_ids_fit_into_an_index(postgresql):
    store = open_feedback_store(postgresql())
    random_text = "".join(chr(random.Random(2).randrange(0x10000, 0x20000)) for _ in range(200))
    longest = FeedbackEvent(random.Random(3).randbytes(499).hex(), 1, random_text)
    assert store.append([longest], [StoredProfile(longest.user, (0,))]) == [True]
    store.close()
