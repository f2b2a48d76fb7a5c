"""Both stores: durable, each event once, shared by processes, an error where they cannot be written."""

import threading

import pytest

from tastespace.errors import ParameterError
from tastespace.serve.errors import StoreError
from tastespace.serve.feedback.databases import SqliteFeedbackStore
from tastespace.serve.feedback.store import (
    Cursor,
    FeedbackEvent,
    StoredProfile,
    open_feedback_store,
)


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "shop.sqlite")
    return request.getfixturevalue("postgresql")()


def test_what_is_appended_is_there_for_everybody_once_and_in_order(location):
    one, other = open_feedback_store(location), open_feedback_store(location)
    assert other.changes(Cursor()) is None
    assert one.append([FeedbackEvent(7, "tea", "a", 2.0, "2024-05-01T12:00:00+00:00"), FeedbackEvent("7", 3, "b")]) == [
        True,
        True,
    ]
    assert one.append([FeedbackEvent(7, "jam", "a"), FeedbackEvent(7, "rye", "c"), FeedbackEvent(7, "rye", "c")]) == [
        False,
        True,
        False,
    ]
    found = other.changes(Cursor())
    assert [(e.user, e.item, e.weight) for e in found.events] == [(7, "tea", 2.0), ("7", 3, 1.0), (7, "rye", 1.0)]
    assert found.events[0].time == "2024-05-01T12:00:00+00:00"
    assert found.events[1].time > "2024"
    assert other.changes(found.cursor) is None
    one.append([FeedbackEvent(7, "nut", "d")])
    assert [e.item for e in other.changes(found.cursor).events] == ["nut"]
    assert one.append([FeedbackEvent("ann", "nut", "d"), FeedbackEvent("ann", "jam", "d")]) == [
        True,
        False,
    ]  # ids belong to a user
    one.close()
    other.close()
    again = open_feedback_store(location)
    assert len(again.changes(Cursor()).events) == 5
    again.close()


def test_tastes_of_a_profile_are_stored(tmp_path):
    store = open_feedback_store(str(tmp_path / "shop.sqlite"))
    store.append([], [StoredProfile(8, (0,), tastes={0: (3, 5), 1: (4,)})])
    store.close()
    again = open_feedback_store(str(tmp_path / "shop.sqlite"))
    assert again.changes(Cursor()).profiles == [StoredProfile(8, (0,), tastes={0: (3, 5), 1: (4,)})]
    again.close()


def test_the_last_profile_of_a_user_counts(location):
    store = open_feedback_store(location)
    store.append([], [StoredProfile("ann", (2, 1), {0: 2.0}, {1: ("tea", 7)}), StoredProfile("bob", (0,))])
    before = store.changes(Cursor())
    store.append([], [StoredProfile("ann", (), {3: 0.5})])
    found = store.changes(before.cursor)
    assert found.profiles == [StoredProfile("ann", (), {3: 0.5})]
    assert [one.user for one in store.changes(Cursor()).profiles] == ["bob", "ann"]
    store.close()


def test_generations_grow_and_belong_to_a_server(location):
    store = open_feedback_store(location)
    assert store.served_model("shop") is None
    first = store.announce_model("shop", "/a", "1")
    assert store.announce_model("shop", "/a", "1") == first
    second = store.announce_model("shop", "/a", "2")
    third = store.announce_model("shop", "/a", "1")  # back to the first one
    assert first < second < third
    store.announce_model("other", "/b", "9")
    assert store.served_model("shop") == (third, "/a", "1")
    store.close()


def test_threads_append_at_once_and_nothing_is_missed_by_a_reader(location):
    store, reader = open_feedback_store(location), open_feedback_store(location)
    seen: list[str] = []
    cursor = Cursor()

    def write(thread: int) -> None:
        for n in range(20):
            store.append([FeedbackEvent(thread, n, f"{thread}-{n}")])

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for one in threads:
        one.start()
    while any(one.is_alive() for one in threads) or len(seen) < 80:
        found = reader.changes(cursor)
        if found is not None:
            seen += [event.event_id for event in found.events]
            cursor = found.cursor
    assert sorted(seen) == sorted(f"{thread}-{n}" for thread in range(4) for n in range(20))
    store.close()
    reader.close()


def test_a_full_disk_stores_nothing_by_halves(tmp_path):
    store = SqliteFeedbackStore(tmp_path / "shop.sqlite")
    store.append([FeedbackEvent(1, 1, "first")])
    pages = store._writer.execute("PRAGMA page_count").fetchone()[0]
    store._writer.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(StoreError, match="full"):
        store.append([FeedbackEvent(1, n, f"long-{n}" + "x" * 150) for n in range(500)])
    assert [event.event_id for event in store.changes(Cursor()).events] == ["first"]
    store._writer.execute("PRAGMA max_page_count = 100000")
    assert store.append([FeedbackEvent(1, 2, "second")]) == [True]  # and it goes on when there is room
    store.close()


def test_a_lost_connection_is_an_error_and_then_made_again(postgresql):
    import psycopg

    address = postgresql()
    store = open_feedback_store(address)
    store.append([FeedbackEvent(1, 1, "a")])
    with psycopg.connect(address, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                      "AND datname = current_database()")  # fmt: skip
    with pytest.raises(StoreError, match="PostgreSQL"):
        store.append([FeedbackEvent(1, 2, "b")])
    assert store.append([FeedbackEvent(1, 2, "b")]) == [True]
    store.close()


def test_addresses_and_files_that_cannot_be(tmp_path):
    with pytest.raises(ParameterError, match="postgresql://"):
        open_feedback_store("mysql://shop")
    with pytest.raises(StoreError):
        open_feedback_store(str(tmp_path / "no" / "such" / "folder.sqlite"))
    (tmp_path / "text.sqlite").write_text("no database " * 100)
    with pytest.raises(StoreError, match=r"text\.sqlite cannot be used .*not a database.* new file"):
        open_feedback_store(str(tmp_path / "text.sqlite"))
    with pytest.raises(StoreError) as refused:
        open_feedback_store("postgresql://user:secret@127.0.0.1:1/shop")
    assert "secret" not in str(refused.value)
    assert "postgresql://***@127.0.0.1:1/shop (PostgreSQL) cannot be used" in str(refused.value)
    assert "refused" in str(refused.value)
    with pytest.raises(StoreError, match="address cannot be read") as unreadable:
        open_feedback_store("postgresql://user:secret%zz@127.0.0.1:1/shop")
    assert "secret" not in str(unreadable.value)
    for address in ("dbname=shop password=secret", "host = db user=ann", "password='secret'"):
        with pytest.raises(ParameterError, match="postgresql://user@host/name") as words:
            open_feedback_store(address)
        assert "secret" not in str(words.value)
    assert [one.name for one in tmp_path.iterdir()] == ["text.sqlite"]
