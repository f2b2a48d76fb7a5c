"""Reloading of models and rules: without a failed request, on every worker, never a broken model."""

import json
import os
import shutil
import threading
import time

import httpx
import pytest
from starlette.testclient import TestClient

import tastespace as ts
from tastespace.serve.app import create_app
from tastespace.serve.errors import StoreError
from tastespace.serve.settings import ServerSettings


def test_a_model_that_is_saved_again_is_served(client_of, model_at, saved_models):
    client = client_of("dpcml")
    assert client.get("/v1/model").json()["generation"] == 1
    shutil.rmtree(model_at())
    ts.load(saved_models["ease"]).save(model_at("ease", "dpcml"))
    client.app.state.look()
    found = client.get("/v1/model").json()
    assert (found["class"], found["generation"]) == ("EASE", 2)
    assert client.get("/v1/users/7/recommendations").json()["model"] == 2


def test_reload_by_name_and_back(client_of, model_at):
    client = client_of("dpcml")
    model_at("ease")
    assert client.post("/v1/model/reload", json={"path": "ease.model"}).json()["class"] == "EASE"
    back = client.post("/v1/model/reload", json={"path": "dpcml.model"}).json()
    assert (back["class"], back["generation"]) == ("DPCML", 3)
    assert client.post("/v1/model/reload", json={}).json()["generation"] == 3  # the same one
    assert client.post("/v1/model/reload").json()["generation"] == 3
    assert client.post("/v1/model/reload", content=b"path=x").status_code == 415
    assert client.post("/v1/model/reload", headers={"origin": "https://evil.example"}).status_code == 415


def test_a_model_waits_for_a_store_that_cannot_be_read(client_of, model_at, saved_models, monkeypatch, caplog):
    client = client_of("dpcml")
    ts.load(saved_models["ease"]).save(model_at("dpcml"))
    state = client.app.state

    def lost(*_):
        raise StoreError("the connection is lost", "shop.sqlite", is_reading=True)

    monkeypatch.setattr(state.store, "changes", lost)
    for _ in range(2):
        state.look()
        (problem,) = client.get("/health/ready").json()["problems"]
        assert "a new model waits" in problem
    assert caplog.text.count("a new model waits") == 1
    answer = client.post("/v1/model/reload", json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable")
    monkeypatch.undo()
    with state.main._reloading:  # another request opens a model: no reason to refuse this one
        state.look()
    state.look()
    assert client.get("/v1/model").json()["class"] == "EASE"
    assert client.get("/health/ready").json()["problems"] == []


def test_a_reload_reaches_workers_that_do_not_watch_files(model_at, tmp_path, saved_models):
    settings = ServerSettings(model_at("dpcml"), store=str(tmp_path / "feedback.sqlite"), watch_seconds=0.0, workers=2)
    with TestClient(create_app(settings, follow=True)) as one, TestClient(create_app(settings, follow=True)) as other:
        ts.load(saved_models["ease"]).save(model_at("dpcml"))
        other.app.state.follow()
        assert other.get("/v1/model").json()["class"] == "DPCML"  # nobody was told to reload
        assert one.post("/v1/model/reload", json={}).json()["class"] == "EASE"
        end = time.monotonic() + 120
        while time.monotonic() < end and other.get("/v1/model").json()["class"] != "EASE":
            time.sleep(0.05)
        assert other.get("/v1/model").json() == one.get("/v1/model").json()


def test_a_broken_model_is_refused_and_the_old_one_goes_on(client_of, model_at):
    client = client_of("dpcml")
    before = client.get("/v1/users/7/recommendations").json()
    broken = model_at("ease", "broken")
    next(broken.glob("learned-*")).write_bytes(b"nothing")
    for path, status in (("broken.model", 422), ("missing.model", 422), ("../x.model", 422), ("a\0b", 422)):
        answer = client.post("/v1/model/reload", json={"path": path})
        assert answer.status_code == status, answer.text
        assert answer.json()["error"]["code"] in ("model_refused", "path_not_allowed")
    assert client.post("/v1/model/reload", json={"path": "text.model"}).status_code == 422
    model_at("text")
    other = client.post("/v1/model/reload", json={"path": "text.model"})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "other_id_types")
    assert client.get("/v1/users/7/recommendations").json() == before
    # The watched folder, too.
    manifest = model_at() / "model.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "crc32": "00000000"}))
    client.app.state.look()
    assert client.get("/v1/users/7/recommendations").json() == before
    assert "refused" in client.get("/health/ready").json()["problems"][0]


def test_a_model_directory_that_vanishes_is_no_end(client_of, model_at):
    client = client_of("dpcml")
    before = client.get("/v1/users/7/recommendations").json()
    shutil.rmtree(model_at())
    client.app.state.look()
    assert client.get("/v1/users/7/recommendations").json() == before
    assert client.get("/v1/users/11/shelves").status_code == 200
    ready = client.get("/health/ready")
    assert ready.status_code == 200
    assert "no model" in ready.json()["problems"][0]


def test_a_file_of_the_model_that_is_cut_off_ends_answers_and_not_the_server(client_of, model_at, monkeypatch):
    monkeypatch.setattr("tastespace._util.model_files.READ_BYTES", 1)  # larger files stay where they are
    client = client_of("dpcml")
    paths = [f"/v1/users/7/{one}" for one in ("recommendations?k=7", "shelves", "interests")] + ["/v1/items/7/similar"]
    assert {client.get(path).status_code for path in paths} == {200}
    os.truncate(next(model_at().glob("learned-*")), 100)
    for path in (*paths, "/v1/users/8/recommendations"):
        answer = client.get(path)
        assert answer.status_code == 200 or answer.json()["error"]["code"] == "model_changed", answer.text
    assert client.get("/v1/users/8/recommendations").status_code == 503
    assert client.get("/health/live").status_code == 200
    ts.load(model_at("ease", "other")).save(model_at())
    assert client.post("/v1/model/reload", json={}).status_code == 200
    assert {client.get(path).status_code for path in paths[:1]} == {200}


def test_rules_are_read_again(client_of, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text("pinned = [11]\n")
    client = client_of("dpcml", rules=rules)

    def items(**body):
        answer = client.post("/v1/recommendations", json={"users": [7], **body})
        assert answer.status_code == 200, answer.text
        return [one["item"] for one in answer.json()["lists"][0]["items"]]

    first = items()
    assert first[0] == 11
    assert client.get("/v1/users/7/recommendations").json()["items"][0]["item"] == 11
    # A request may add rules, and take none of the file away.
    assert items(rules={"exclude": [first[1]], "pinned": [first[2]]})[:2] == [11, first[2]]
    rules.write_text(f"exclude = [{first[1]}]\n")
    client.app.state.look()
    assert first[1] not in items()
    assert not {first[1], first[2]} & set(items(rules={"exclude": [first[2]]}))
    # Who asks does not know the file: what either side excludes is taken out of what the other includes.
    assert items(rules={"include": [first[1], first[2]]}) == [first[2]]
    rules.write_text(f"include = [{first[1]}, {first[2]}]\n")
    client.app.state.look()
    assert items(rules={"exclude": [first[1]]}) == items(rules={"include": [first[2], first[3]]}) == [first[2]]
    for asked, said in (
        ({"include": [first[3]]}, "leave no item"),
        ({"exclude": first[1:3]}, "leave no item"),
        ({"include": [first[1]], "exclude": [first[1]]}, "contradict"),
    ):
        answer = client.post("/v1/recommendations", json={"users": [7], "rules": asked})
        assert (answer.status_code, said in answer.text) == (422, True), answer.text
    rules.write_text(f"exclude = [{first[1]}]\n")
    client.app.state.look()
    rules.write_text("exclude = oops")
    client.app.state.look()
    assert first[1] not in items()
    assert "rules as before" in client.get("/health/ready").json()["problems"][0]
    answer = client.post("/v1/recommendations", json={"users": [7], "rules": {"max_pre": {"x": 1}}})
    assert (answer.status_code, "max_per" in answer.text) == (422, True)


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_reload_under_load_fails_no_request(running, model_at, saved_models, workers):
    path = model_at("dpcml")
    expected = {name: ts.load(saved_models[name]).recommend(7, k=5)["item"].to_list() for name in ("dpcml", "ease")}
    server = running(path, "--workers", workers, "--watch", "0.1")
    failed: list[object] = []
    seen: list[str] = []
    stop = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=server.address, timeout=20) as client:
            while not stop.is_set():
                try:
                    answer = client.get("/v1/users/7/recommendations?k=5&because=false")
                    found = [one["item"] for one in answer.json()["items"]]
                    names = [name for name, items in expected.items() if items == found]
                    (seen if names else failed).append(names[0] if names else answer.text)
                except Exception as problem:
                    failed.append(problem)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for one in threads:
        one.start()
    try:
        for _ in range(2):
            for name in ("ease", "dpcml"):
                ts.load(saved_models[name]).save(path)
                end, before, last = time.monotonic() + 120, len(seen), ["nothing yet"]
                while time.monotonic() < end and set(last) != {name}:
                    time.sleep(0.02)
                    last = seen[-8:] if len(seen) >= before + 8 else last
                assert set(last) == {name}
    finally:
        stop.set()
        for one in threads:
            one.join()
    server.stop()
    assert failed == []
    assert server.process.returncode == 0
