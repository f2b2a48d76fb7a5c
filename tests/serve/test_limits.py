"""The limits: the table in SECURITY.md is that of the code, and those that no other test shows."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tastespace._util import limits
from tastespace.serve.errors import HttpError
from tastespace.serve.feedback import store as feedback_store
from tastespace.serve.feedback.store import Cursor, FeedbackEvent, StoredProfile, open_feedback_store
from tastespace.serve.feedback.writer import FeedbackWriter

ROOT = Path(__file__).parents[2]


def test_the_table_in_security_is_that_of_the_code():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| `([A-Z_]+)` = ([\d,]+)(?: to (\d+))?[^|]* \| [^|]+ \| (.*) \|$", text, re.MULTILINE)
    stated = {name: (int(first), int(last)) if last else int(first.replace(",", "")) for name, first, last, _ in rows}
    assert stated == {name: value for name, value in vars(limits).items() if name.isupper()}
    assert len(rows) == len(stated)
    for name, _, _, tests in rows:
        paths = re.findall(r"`(tests/[^`]+)`", tests)
        assert paths, name
        for path in paths:
            assert (ROOT / path).is_file(), f"{name}: {path}"


def test_fields_of_a_query(shared_client):
    answer = shared_client.get("/v1/users/7/recommendations?" + "&".join(["exclude=3"] * (limits.QUERY_FIELDS + 1)))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_query")


@pytest.mark.parametrize(
    "event", [{"event_id": "x" * (limits.EVENT_ID + 1)}, {"weight": limits.EVENT_WEIGHT * 1.01}, {"weight": -1}]
)
def test_events(shared_client, event):
    answer = shared_client.post("/v1/feedback", json={"events": [{"user": 7, "item": 3, **event}]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")


def test_feedback_that_waits(tmp_path):
    store = open_feedback_store(str(tmp_path / "shop.sqlite"))
    writer = FeedbackWriter(store)

    async def many() -> list[object]:
        event = FeedbackEvent(7, 3, "once")
        writes = [writer.write([event]) for _ in range(3 * limits.WRITES_WAITING)]
        with store._write_lock:  # nothing is stored at the moment
            started = [asyncio.ensure_future(one) for one in writes]
            await asyncio.sleep(0.5)
        return await asyncio.gather(*started, return_exceptions=True)

    with ThreadPoolExecutor(1) as thread:  # the tests in a browser have a loop in this one
        found = thread.submit(asyncio.run, many()).result()
    refused = [one for one in found if isinstance(one, HttpError)]
    assert limits.WRITES_WAITING <= len(found) - len(refused) <= limits.WRITES_WAITING + 1_000
    assert {one.status for one in refused} == {503}
    writer.close()
    store.close()


def test_all_rows_of_the_store_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(feedback_store, "STORE_ROWS", 3)
    store = open_feedback_store(str(tmp_path / "shop.sqlite"))
    store.append([FeedbackEvent(7, n, f"e{n}") for n in range(9)], [StoredProfile(n, (0,)) for n in range(7)])
    found = store.changes(Cursor())
    assert [one.item for one in found.events] == list(range(9))
    assert [one.user for one in found.profiles] == list(range(7))
    assert store.changes(found.cursor) is None
    store.close()
