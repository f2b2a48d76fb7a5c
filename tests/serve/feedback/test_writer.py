"""Feedback is stored once, and acknowledged only when it is."""

from tastespace.serve.errors import StoreError


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
