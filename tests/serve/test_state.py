"""Reloading of models and rules: without a failed request, on every worker, never a broken model."""

import gc
import json
import os
import shutil
import threading
import time
import weakref
from dataclasses import replace

import httpx
import polars as pl
import pytest
from starlette.testclient import TestClient

import tastespace as ts
from tastespace.serve.app import create_app
from tastespace.serve.errors import StoreError
from tastespace.serve.settings import ServerSettings
from tastespace.serve.tokens import add_token


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
    assert (other.status_code, other.json()["error"]["code"]) == (409, "other_catalog")
    ready = client.get("/health/ready")
    assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
    assert "text.model: its ids are of the types" in ready.json()["problems"][0]
    assert client.get("/v1/users/7/recommendations").json() == before
    # The watched folder, too.
    manifest = model_at() / "model.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "crc32": "00000000"}))
    client.app.state.look()
    assert client.get("/v1/users/7/recommendations").json() == before
    assert "refused" in client.get("/health/ready").json()["problems"][0]


def test_a_model_that_the_rules_do_not_fit_is_refused(client_of, model_at, saved_models, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text("max_per = {genres = 2}\n")
    client = client_of("dpcml", rules=rules)
    path = "/v1/users/7/recommendations"
    before = client.get(path).json()
    bare = ts.EASE().fit(replace(ts.load(saved_models["ease"]).train_, item_attributes=None))
    bare.save(model_at())
    for _ in range(2):  # refused once, and it stays refused
        client.app.state.look()
        assert client.get(path).json() == before
        found = client.get("/health/ready").json()
        assert (found["status"], found["generation"], len(found["problems"])) == ("degraded", 1, 1)
        assert "lack the attributes" in found["problems"][0]
    assert client.app.state.counts.value("tastespace_model_refusals_total") == 1
    # Without that check of the catalog, the rules still refuse it, and accept it when they name nothing that it lacks.
    free = client_of("popular", rules=rules, any_catalog=True, store=str(tmp_path / "free.sqlite"))
    before = free.get(path).json()
    bare.save(model_at("popular"))
    free.app.state.look()
    assert free.get(path).json() == before
    assert "names the item attribute 'genres'" in free.get("/health/ready").json()["problems"][0]
    rules.write_text(f"exclude = [{before['items'][0]['item']}]\n")
    free.app.state.look()
    assert free.get("/v1/model").json()["class"] == "EASE"
    assert free.get("/health/ready").json() == {"status": "ok", "generation": 2, "problems": []}
    # Rules for an attribute that only a later model has wait for it.
    rules.write_text("max_per = {year = 1}\n")
    free.app.state.look()
    assert free.get("/health/ready").json()["status"] == "degraded"
    ts.load(saved_models["ease"]).save(model_at("popular"))
    free.app.state.look()
    assert free.get("/health/ready").json()["status"] == "ok"
    years = [1950 + one["item"] % 70 for one in free.get(path).json()["items"]]
    assert len(set(years)) == len(years)


def test_a_model_of_another_catalog_is_refused(client_of, model_at, town_data, tmp_path):
    def another(seed, **changes):
        made = ts.synthetic.multi_interest(
            n_users=town_data.n_users, n_items=town_data.n_items, n_interactions=town_data.n_interactions, seed=seed
        ).interactions
        return replace(made, **{"item_attributes": None, **changes})

    def offered(client, data):
        target = tmp_path / "models" / "new.model"
        ts.MostPopular().fit(data).save(target)
        return client.post("/v1/model/reload", json={"path": "new.model"})

    # The same numbers name other items: with titles these say so, without them the histories do.
    titled = client_of("popular")
    wrong = town_data.item_attributes.with_columns(title=pl.lit("Book ") + pl.col("item").cast(pl.String))
    answer = offered(titled, another(5, item_attributes=wrong))
    assert (answer.status_code, "0 have the same title" in answer.text) == (409, True), answer.text
    ts.MostPopular().fit(replace(town_data, item_attributes=None)).save(tmp_path / "models" / "plain.model")
    client = client_of("plain")
    answer = offered(client, another(5))
    assert (answer.status_code, "other items are popular" in answer.text) == (409, True), answer.text
    # A catalog that has hardly any item of the served one, and people of whom it knows nobody.
    frame = pl.DataFrame(town_data.to_frame())
    for changed, said in (
        (frame.with_columns(pl.col("item") + town_data.n_items - 20), "shares 20 of"),
        (frame.with_columns(pl.col("user") + 10_000), "none of the"),
    ):
        answer = offered(client, ts.Interactions.from_frame(changed))
        assert (answer.status_code, said in answer.text) == (409, True), answer.text
    assert client.get("/v1/model").json()["generation"] == 1
    assert "refused" in client.get("/health/ready").json()["problems"][0]
    # The same catalog a while later: half of the interactions are gone, some are new, as are some users and items.
    newer = pl.concat([frame.sample(fraction=0.5, seed=1), pl.DataFrame({"user": [7, 9_999], "item": [9_999, 9_999]})])
    assert offered(client, ts.Interactions.from_frame(newer)).status_code == 200
    assert client.get("/health/ready").json()["status"] == "ok"
    free = client_of("plain", any_catalog=True, store=str(tmp_path / "free.sqlite"))
    assert offered(free, another(5)).status_code == 200


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


def test_problems_that_anybody_may_see_name_no_folders(client_of, model_at, tmp_path, caplog):
    tokens = tmp_path / "secret-place" / "tokens.json"
    tokens.parent.mkdir()
    token = add_token(tokens, "shop", ["read"])
    client = client_of("dpcml", tokens=tokens)
    for broken in ("{", None):
        tokens.unlink() if broken is None else tokens.write_text(broken)
        client.app.state.look()
        (problem,) = client.get("/health/ready").json()["problems"]
        assert "tokens as before" in problem
        assert "secret-place" not in problem
    assert "secret-place" in caplog.text  # the operator is told
    assert client.get("/v1/model", headers={"authorization": f"Bearer {token}"}).status_code == 200
    (model_at("dpcml") / "model.json").write_text("{")
    client.app.state.look()
    problems = client.get("/health/ready").json()["problems"]
    assert any("a new model is refused" in one for one in problems)
    assert str(tmp_path) not in str(problems)


@pytest.mark.parametrize("watch", ["look", "follow"])
def test_models_that_were_replaced_are_freed(client_of, watch):
    client = client_of("dpcml")
    state, before = client.app.state, []
    gc.disable()  # as in a server, which collects after millions of new objects
    try:
        for _ in range(5):
            client.get("/v1/users/7/recommendations")
            before.append(weakref.ref(state.main.slot.served.model))
            assert client.post("/v1/model/reload", json={}).status_code == 200
            getattr(state, watch)()
        getattr(state, watch)()
        assert [one() for one in before] == [None] * 5  # 1,000 reloads of 7.5 MB took 3.9 GB
    finally:
        gc.enable()
