"""Bad input: every request has an answer with a clear error, and none of them is a server error."""

import asyncio
import contextlib
import logging
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import msgspec
import polars as pl
import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

import tastespace as ts
from tastespace.cli.app import app
from tastespace.errors import ParameterError
from tastespace.serve import endpoints
from tastespace.serve.app import create_app
from tastespace.serve.process import bound_socket
from tastespace.serve.settings import Limits, ServerSettings


def error_of(answer, status):
    assert answer.status_code == status, answer.text
    found = answer.json()["error"]
    assert set(found) == {"code", "message", "advice"}
    assert "Traceback" not in answer.text
    return found["code"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/users/99999/recommendations", 404, "unknown_user"),
        ("/v1/users/abc/recommendations", 422, "wrong_id_type"),
        ("/v1/users/1.5/recommendations", 422, "wrong_id_type"),
        (f"/v1/users/{'9' * 400}/recommendations", 422, "wrong_id_type"),
        ("/v1/users/%FF%FE/recommendations", 422, "wrong_id_type"),
        ("/v1/users//recommendations", 422, "wrong_id_type"),
        ("/v1/users/7/recommendations?k=0", 422, "invalid_request"),
        ("/v1/users/7/recommendations?k=-3", 422, "invalid_request"),
        ("/v1/users/7/recommendations?k=many", 422, "invalid_request"),
        ("/v1/users/7/recommendations?k=1000000", 422, "k_too_large"),
        ("/v1/users/7/recommendations?k=5&k=6", 422, "invalid_request"),
        ("/v1/users/7/recommendations?kk=5", 422, "invalid_request"),
        ("/v1/users/7/recommendations?mix=best", 422, "invalid_request"),
        ("/v1/users/7/recommendations?diversity=2", 422, "invalid_request"),
        ("/v1/users/7/recommendations?diversity=nan", 422, "invalid_request"),
        ("/v1/users/7/recommendations?mute=9", 422, "unknown_interest"),
        ("/v1/users/7/recommendations?mute=0,1,2", 422, "all_muted"),
        ("/v1/users/7/recommendations?boost=1", 422, "invalid_request"),
        ("/v1/users/7/recommendations?boost=1:-2", 422, "invalid_request"),
        ("/v1/users/7/recommendations?include=99999", 404, "unknown_item"),
        ("/v1/users/7/recommendations?exclude=tea", 422, "wrong_id_type"),
        ("/v1/users/7/recommendations?filter=year", 422, "invalid_request"),
        ("/v1/users/7/recommendations?filter=yaer>1990", 422, "invalid_request"),
        ("/v1/users/7/recommendations?filter=year='x'", 422, "invalid_request"),
        ("/v1/users/7/recommendations?filter=" + "(" * 50, 422, "invalid_request"),
        ("/v1/users/7/recommendations?filter=" + "x" * 20_000, 414, "query_too_long"),
        ("/v1/users/7/recommendations?filter=1=1);SELECT+1", 422, "invalid_request"),
        ("/v1/users/7/explanations/99999", 404, "unknown_item"),
        ("/v1/items/99999/similar", 404, "unknown_item"),
        ("/v1/items/search?limit=0", 422, "invalid_request"),
        ("/v1/nothing", 404, "not_found"),
        ("/static/../../etc/passwd", 404, "not_found"),
        ("/static/%2e%2e/asgi.py", 404, "not_found"),
    ],
)
def test_paths_and_queries(shared_client, path, status, code):
    with contextlib.suppress(httpx.InvalidURL):
        assert error_of(shared_client.get(path), status) == code


def test_numbers_of_very_many_digits_are_read_in_linear_time(shared_client):
    for query in ("diversity=" + "9" * 16_000 + "x", "boost=1:" + "9" * 16_000, "filter=year>" + "9" * 3_900):
        start = time.monotonic()
        error_of(shared_client.get(f"/v1/users/7/recommendations?{query}"), 422)
        assert time.monotonic() - start < 5  # 35 seconds of the event loop for the first


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/recommendations", b"{", 400),
        ("/v1/recommendations", b"", 400),
        ("/v1/recommendations", b"\xff\xfe", 400),
        ("/v1/recommendations", b'{"features":[' + b'{"a":' * 100_000, 422),
        ("/v1/recommendations", b"[]", 422),
        ("/v1/recommendations", b"null", 422),
        ("/v1/recommendations", b"{}", 422),
        ("/v1/recommendations", b'{"users": [1], "histories": []}', 422),
        ("/v1/recommendations", b'{"users": ["7"]}', 422),
        ("/v1/recommendations", b'{"users": [true]}', 422),
        ("/v1/recommendations", b'{"users": [7.0]}', 422),
        ("/v1/recommendations", b'{"users": [1' + b"0" * 400 + b"]}", 422),
        ("/v1/recommendations", b'{"users": [99999]}', 404),
        ("/v1/recommendations", b'{"users": 7}', 422),
        ("/v1/recommendations", b'{"users": [7], "k": 0}', 422),
        ("/v1/recommendations", b'{"users": [7], "k": 1e999}', 422),
        ("/v1/recommendations", b'{"users": [7], "k": 0, "no end', 422),
        ("/v1/recommendations", b'{"users": [7], "k": "\xff"}', 422),
        ("/v1/recommendations", b'{"users": [7], "k": 1' + b"0" * 5_000 + b"}", 422),
        ("/v1/recommendations", b'{"users": [7], "k": "x", "features":[' + b'{"a":' * 100_000, 422),
        ("/v1/recommendations", b'{"users": [7], "usres": 1}', 422),
        ("/v1/recommendations", b'{"users": [7], "boost": {"a": 1}}', 422),
        ("/v1/recommendations", b'{"users": [7], "rules": {"pinned": [[1]]}}', 422),
        ("/v1/recommendations", b'{"users": [7], "rules": {"max_per": {"year": "x"}}}', 422),
        ("/v1/recommendations", b'{"users": [7], "rules": {"in_stock": "nowhere"}}', 422),
        ("/v1/recommendations", b'{"histories": [[]]}', 422),
        ("/v1/recommendations", b'{"histories": [["a"]]}', 422),
        ("/v1/recommendations", b'{"histories": [[99999]]}', 404),
        ("/v1/recommendations", b'{"features": [{"age": 3}]}', 422),
        ("/v1/shelves", b'{"history": []}', 422),
        ("/v1/explanations", b'{"history": [3], "item": 99999}', 404),
        ("/v1/feedback", b"{}", 422),
        ("/v1/feedback", b'{"events": [{"user": 7}]}', 422),
        ("/v1/feedback", b'{"events": [{"user": "7", "item": 3}]}', 422),
        ("/v1/feedback", b'{"events": [{"user": 7, "item": 3, "weight": 0}]}', 422),
        ("/v1/feedback", b'{"events": [{"user": 7, "item": 3, "time": "soon"}]}', 422),
        ("/v1/feedback", b'{"events": [{"user": 7, "item": 3, "event_id": ""}]}', 422),
        ("/v1/feedback", b'{"events": [{"user": 7, "item": 3, "event_id": "a\\u0000"}]}', 422),
    ],
)
def test_bodies(shared_client, path, body, status):
    error_of(shared_client.post(path, content=body, headers={"content-type": "application/json"}), status)


@pytest.mark.parametrize(
    ("query", "message", "advice"),
    [
        ("k=0", "k=0: expected an integer from 1 to 1,000,000.", "Change k, or leave it out."),
        ("k=abc", "k=abc: expected an integer from 1 to 1,000,000.", "Change k, or leave it out."),
        ("mix=bogus", "mix=bogus: expected one of calibrated, nearest, proportional, scaled.", "Change mix,"),
        ("because=perhaps", "because=perhaps: expected true or false.", "Change because,"),
        ("diversity=2", "diversity=2: expected a number from 0 to 1.", "Change diversity,"),
        ("mxi=scaled", "the query has no field 'mxi'; expected some of k, mix, diversity,", "Did you mean mix?"),
        ("kk=5", "the query has no field 'kk'; expected some of k, mix, diversity,", "Did you mean k?"),
    ],
)
def test_messages_of_queries(shared_client, query, message, advice):
    found = shared_client.get(f"/v1/users/7/recommendations?{query}").json()["error"]
    assert found["message"].startswith(message)
    assert found["advice"].startswith(advice)


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("feedback", {"events": [{"user": 7}]}, "events[0] of the body has no item: expected user, item."),
        (
            "feedback",
            {"events": [{"user": 7, "item": 3}, {"user": 7, "item": 3, "weight": 0}]},
            "events[1].weight=0: expected a number above 0 up to 1,000,000.",
        ),
        ("feedback", {"events": [{"user": None, "item": 3}]}, "events[0].user=null: expected an integer or a number"),
        ("recommendations", {"users": [7], "boost": {"0": "x"}}, "boost[...]: expected a number above 0"),
        ("recommendations", {"usres": [7]}, "the body has no field 'usres'; expected some of k, mix,"),
        ("recommendations", [], "the body: expected an object."),
        ("shelves", {"history": []}, "history=[]: expected a list of at least 1."),
    ],
)
def test_messages_of_bodies(shared_client, path, body, message):
    assert shared_client.post(f"/v1/{path}", json=body).json()["error"]["message"].startswith(message)


@pytest.mark.parametrize("kind", ["recommendations", "shelves", "interests"])
def test_messages_about_interests_speak_of_http(shared_client, kind):
    for query, code, message in (
        ("mute=99", "unknown_interest", "there is no interest 99: those of this user are numbered 0 to 2."),
        ("boost=99:2", "unknown_interest", "there is no interest 99"),
        ("boost=0:1e300", "invalid_request", "boost='0:1e300': expected factors above 0 and at most 1,000,000."),
        ("boost=0:nan", "invalid_request", "expected factors above 0"),
        ("mute=0,1,2", "all_muted", "all 3 interests are muted"),
    ):
        answer = shared_client.get(f"/v1/users/7/{kind}?{query}")
        assert error_of(answer, 422) == code
        assert message in answer.json()["error"]["message"]
        assert "model." not in answer.text


def test_an_id_of_another_type_is_told_what_is_expected(shared_client):
    assert "Give an integer such as " in shared_client.get("/v1/users/abc/recommendations").json()["error"]["advice"]


@pytest.mark.parametrize("rules", [{"exclude": ["7"]}, {"include": [1.5]}, {"pinned": {"1": "a"}}, {"new": [True]}])
def test_ids_of_rules_have_the_type_of_the_model(shared_client, rules):
    answer = shared_client.post("/v1/recommendations", json={"users": [7], "rules": rules})
    assert error_of(answer, 422) == "wrong_id_type"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"users": [7], "rules": {"max_per": {"year": 0}}}, "expected an integer from 1 to 1,000,000."),
        ({"users": [7], "rules": {"exclude": 3}}, "rules.exclude=3: expected a list."),
        ({"users": [7], "filter": 'year = "x"'}, "'year', which holds whole numbers, with \"x\""),
        ({"users": [7], "filter": "title contains true"}, "looks for true in 'title', which holds text"),
        ({"users": [7], "filter": "year contains 3"}, "which holds whole numbers: use =."),
        ({"features": [{"a": 1}, {"a": [2]}]}, None),
    ],
)
def test_messages_have_no_words_of_python_or_polars(shared_client, body, message):
    answer = shared_client.post("/v1/recommendations", json=body)
    error_of(answer, 422)
    found = answer.json()["error"]["message"]
    assert message is None or message in found
    for word in ("True", "Int64", "String", "dtype", "polars", "None", "{'"):
        assert word not in found


@pytest.fixture(scope="module")
def featured_client(town_data, tmp_path_factory):
    """A server of a model that learns from features of users, without torch."""
    path = tmp_path_factory.mktemp("featured") / "featured.model"
    ages = pl.DataFrame({"user": town_data.users.series, "age": [20 + n % 50 for n in range(town_data.n_users)]})
    ts.models.create("contentknn").fit(replace(town_data, user_attributes=ages)).save(path)
    with TestClient(create_app(ServerSettings(path, watch_seconds=0.0))) as client:
        yield client


@pytest.mark.parametrize(
    ("features", "status"),
    [
        (b'[{"a":' + b"[" * 900 + b"1" + b"]" * 900 + b"}]", 422),
        (b'[{"a":' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}]", 422),
        (b'[{"age": [[1]]}]', 422),
        (b'[{"%s": 1}]' % (b"x" * 201), 422),
        (msgspec.json.encode([{f"{row}-{n}": 1 for n in range(60)} for row in range(1_000)]), 413),
    ],
    ids=["deep lists", "deep objects", "nested", "long name", "wide"],
)
@pytest.mark.parametrize("takes_features", [True, False])
def test_features_are_refused_before_a_table_is_built(
    shared_client, featured_client, features, status, takes_features, monkeypatch
):
    built = []
    monkeypatch.setattr(endpoints.pl, "DataFrame", lambda *given, **_: built.append(given))
    client = featured_client if takes_features else shared_client
    answer = client.post(
        "/v1/recommendations", content=b'{"features":' + features + b"}", headers={"content-type": "application/json"}
    )
    error_of(answer, status if takes_features else 422)
    assert not built  # one of these froze the worker for 21 seconds


def test_features_that_fit_are_answered(featured_client):
    answer = featured_client.post("/v1/recommendations", json={"features": [{"age": 31}, {"age": None}], "k": 2})
    assert [len(one["items"]) for one in answer.json()["lists"]] == [2, 2]


def test_other_methods_and_types(shared_client):
    assert error_of(shared_client.post("/v1/recommendations", data={"users": "7"}), 415) == "not_json"
    assert error_of(shared_client.delete("/v1/feedback"), 405) == "method_not_allowed"
    assert shared_client.delete("/v1/feedback").headers["allow"] == "POST"
    assert shared_client.head("/v1/model").status_code == 200
    assert shared_client.head("/v1/model").content == b""


def test_too_much_at_once(client_of):
    client = client_of(limits=Limits(k=5, batch=3, history=4, body=5_000))
    assert error_of(client.get("/v1/users/7/recommendations?k=6"), 422) == "k_too_large"
    assert error_of(client.post("/v1/recommendations", json={"users": [1] * 4}), 413) == "batch_too_large"
    assert error_of(client.post("/v1/recommendations", json={"histories": [[1] * 5]}), 413) == "batch_too_large"
    events = [{"user": 7, "item": n} for n in range(4)]
    assert error_of(client.post("/v1/feedback", json={"events": events}), 413) == "batch_too_large"
    assert error_of(client.post("/v1/feedback", json={"x": "y" * 6_000}), 413) == "body_too_large"

    headers = {"content-type": "application/json"}
    for length in ("0" * 5_000 + "6000", "9" * 5_000):  # Python reads no number of so many digits
        answer = client.post("/v1/feedback", content=b"{}", headers={**headers, "content-length": length})
        assert error_of(answer, 413) == "body_too_large"
    answer = client.post("/v1/feedback", content=b"{}", headers={**headers, "content-length": "0" * 5_000 + "2"})
    assert error_of(answer, 422) == "invalid_request"

    def pieces():
        for _ in range(10):
            yield b" " * 1_000

    assert error_of(client.post("/v1/feedback", content=pieces(), headers=headers), 413) == "body_too_large"


def test_an_empty_selection_is_an_empty_list_and_unknown_users_may_get_popular_items(shared_client):
    assert shared_client.get("/v1/users/7/recommendations?filter=year>3000").json()["items"] == []
    assert shared_client.get("/v1/users/7/shelves?filter=year>3000").json()["shelves"] == []
    popular = shared_client.get("/v1/users/99999/recommendations?on_unknown=popular&k=3&filter=year>1990").json()
    assert popular["fallback"] == "popular"
    assert [one["score"] for one in popular["items"]] == [None] * 3


def test_models_that_cannot_say_so(client_of):
    client = client_of("ease")
    for path in ("/v1/users/7/shelves", "/v1/users/7/interests", "/v1/items/3/audience"):
        assert error_of(client.get(path), 422) == "invalid_request"
    assert error_of(client.put("/v1/users/7/profile", json={"mute": [0]}), 422) == "no_interests"
    assert error_of(client_of("popular").get("/v1/users/7/explanations/3"), 422) == "invalid_request"


def test_an_error_of_ours_has_no_stack_trace_and_goes_to_the_log_without_ids(client, monkeypatch, caplog):
    def broken(*_):
        raise ZeroDivisionError("secret of user 77")

    monkeypatch.setattr(client.app.state.main.slot.served, "similar", broken)
    with caplog.at_level(logging.ERROR, logger="tastespace"):
        answer = client.get("/v1/items/77/similar")
    assert error_of(answer, 500) == "internal_error"
    assert "secret" not in answer.text
    assert "/v1/items/{item}/similar failed" in caplog.text
    assert client.get("/v1/items/77/audience").status_code == 200


def test_an_answer_that_takes_too_long_is_503(client_of, monkeypatch):
    client = client_of(limits=Limits(seconds=0.2))
    asked_for_long_enough = threading.Event()
    monkeypatch.setattr(client.app.state.main.slot.served, "similar", lambda *_: asked_for_long_enough.wait(60))
    try:
        assert error_of(client.get("/v1/items/7/similar"), 503) == "timeout"
    finally:
        asked_for_long_enough.set()


def test_too_many_requests_at_once_are_refused(client_of):
    client = client_of(limits=Limits(in_flight=0))
    assert error_of(client.get("/v1/model"), 503) == "overloaded"


def test_slow_clients_are_cut_off_and_others_are_answered_meanwhile(running, model_at):
    server = running(model_at("ease"), "--timeout", "2")
    host, port = server.address.removeprefix("http://").split(":")

    async def slow(first: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(host, int(port))
        answer = asyncio.ensure_future(reader.read())
        for byte in first:
            if answer.done():
                break
            writer.write(bytes([byte]))
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            await asyncio.sleep(0.1)
        found = await asyncio.wait_for(answer, 60)
        writer.close()
        return found

    async def both() -> list[bytes]:
        head = b"GET /v1/model HTTP/1.1\r\nHost: localhost\r\nX-Long: aaaaaaaaaaaaaaaaaaaaaaaa"
        body = b"POST /v1/feedback HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        body += b"Content-Length: 99\r\n\r\n{"

        async def sent_at_once() -> bytes:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(body)
            found = await asyncio.wait_for(reader.read(200), 60)
            writer.close()
            return found

        answers = asyncio.gather(slow(head), sent_at_once())
        async with httpx.AsyncClient(base_url=server.address, timeout=60) as client:
            found = [(await client.get("/v1/users/7/recommendations")).status_code for _ in range(5)]
        assert 200 in found, found  # on a busy machine some may take longer than the limit of this server
        return await answers

    with ThreadPoolExecutor(1) as other_thread:  # browser tests leave an event loop in this one
        first, second = other_thread.submit(asyncio.run, both()).result()
    assert first == b""  # closed without an answer
    assert b" 408 " in second.split(b"\r\n")[0]
    server.stop()
    assert server.process.returncode == 0


def test_clients_that_come_at_once_are_all_accepted(running, model_at):
    server = running(model_at("dpcml"))
    host, _, port = server.address.rpartition("//")[2].partition(":")
    server.process.send_signal(signal.SIGSTOP)  # meanwhile they wait to be accepted
    with contextlib.ExitStack() as opened:
        clients = [opened.enter_context(socket.create_connection((host, int(port)), 60)) for _ in range(60)]
        for client in clients:
            client.sendall(f"GET /v1/users/7/recommendations HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        server.process.send_signal(signal.SIGCONT)
        assert all(client.recv(15) == b"HTTP/1.1 200 OK" for client in clients)


def test_a_port_in_use_and_a_missing_model(model_at, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ParameterError, match=f"port {port} of 127.0.0.1 is in use"):
            bound_socket("127.0.0.1", port)

        def refused(*arguments):
            return str(CliRunner().invoke(app, ["serve", *map(str, arguments)]).exception)

        assert "in use by another program" in refused(model_at("ease"), "--port", port)
    assert "no.model" in refused(tmp_path / "no.model", "--port", 0)
    assert not list(tmp_path.glob("no.*"))  # no store either
    assert "--tokens" in refused(model_at("ease"), "--host", "0.0.0.0")
    assert "--demo" in refused()
    assert "ml-1n" in refused("ml-1n", "--demo")
    (tmp_path / "rules.toml").write_text("max_per = 3")
    assert "max_per" in refused(model_at("ease"), "--rules", tmp_path / "rules.toml", "--port", 0)
    assert "PostgreSQL" in refused(model_at("ease"), "--store", "postgresql://u:secret@127.0.0.1:1/x", "--port", 0)
