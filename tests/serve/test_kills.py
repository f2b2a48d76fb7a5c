"""A server that is killed loses no acknowledged feedback, and stores none twice."""

import concurrent.futures
import threading
import time

import httpx
import pytest

from tastespace.serve.feedback.store import Cursor, FeedbackEvent, open_feedback_store

_CLIENTS = 4


def kill_while_writing(start, model, store, number):
    """Clients send events, and send those again that were not acknowledged; the server is killed meanwhile."""
    server = start(model, "--store", store, "--watch", "0")
    acknowledged: list[str] = []
    unsure: list[str] = []
    stop = threading.Event()

    def send(one: int) -> None:
        with httpx.Client(base_url=server.address, timeout=60) as client:
            for n in range(10_000):
                if stop.is_set():
                    return
                name = f"{number}-{one}-{n}"
                body = {"events": [{"user": 10_000 + one, "item": n % 200, "event_id": name}]}
                try:
                    answer = client.post("/v1/feedback", json=body)
                except httpx.HTTPError:
                    unsure.append(name)
                    return
                assert answer.status_code == 200, answer.text
                acknowledged.append(name)

    with concurrent.futures.ThreadPoolExecutor(_CLIENTS) as clients:
        running = [clients.submit(send, one) for one in range(_CLIENTS)]
        end = time.monotonic() + 120
        while len(acknowledged) < 5 + 3 * (number % 7) and time.monotonic() < end:
            time.sleep(0.001)
        server.kill()
        stop.set()
        for one in running:
            one.result()
    return acknowledged, unsure


def sent_again(name):
    """The event of this name, as its client sends it."""
    _, one, n = map(int, name.split("-"))
    return FeedbackEvent(10_000 + one, n % 200, name)


def check_kills(start, model, store, n):
    acknowledged: list[str] = []
    for number in range(n):
        done, unsure = kill_while_writing(start, model, store, number)
        acknowledged += done
        again = open_feedback_store(store)
        known = [event.event_id for event in again.changes(Cursor()).events]
        # A client that heard nothing sends its event again: it is there once in the end, whatever happened.
        again.append([sent_again(name) for name in unsure])
        stored = [event.event_id for event in again.changes(Cursor()).events]
        again.close()
        assert set(done) <= set(known)
        assert len(stored) == len(set(stored))
        assert set(unsure) <= set(stored)
        acknowledged += unsure
    assert len(acknowledged) > 5 * n
    assert set(acknowledged) == set(stored)


def test_a_killed_server_has_stored_what_it_acknowledged(running, model_at, tmp_path):
    check_kills(running, model_at("ease"), str(tmp_path / "feedback.sqlite"), 2)


@pytest.mark.slow
def test_fifty_kills(running, model_at, tmp_path):
    check_kills(running, model_at("ease"), str(tmp_path / "feedback.sqlite"), 50)


@pytest.mark.slow
def test_kills_with_postgresql(running, model_at, postgresql):
    check_kills(running, model_at("ease"), postgresql(), 3)
