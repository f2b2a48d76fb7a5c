"""Kinds of events: their weights, and dislikes, which are no interactions."""

import polars as pl
import pytest

import tastespace as ts
from tastespace.data.merge import concat
from tastespace.errors import DataError, ParameterError

EVENTS = pl.DataFrame(
    {
        "user": [1, 1, 1, 2, 2, 3, 3, 4],
        "item": [7, 8, 9, 7, 9, 8, 8, 9],
        "event": ["view", "dislike", "purchase", "view", "cart", "view", "dislike", "dislike"],
        "t": [1, 2, 3, 4, 5, 6, 5, 7],
        "n": [2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    }
)


def read(frame=EVENTS, **options):
    return ts.Interactions.from_frame(frame, **{"kind": "event", **options})


def test_an_interaction_weighs_as_much_as_its_kinds():
    data = read(pl.concat([EVENTS, EVENTS[:1]]), weight="n")
    found = dict(zip(pl.DataFrame(data.to_frame()).select("user", "item").rows(), data.weights.tolist(), strict=True))
    assert found == {(1, 7): 4.0, (1, 9): 5.0, (2, 7): 1.0, (2, 9): 3.0}
    assert read(events={"view": 2, "cart": 0, "purchase": 8, "dislike": -1}).weights.tolist() == [2.0, 8.0, 2.0]


def test_dislikes_are_kept_apart_and_the_later_event_holds():
    assert sorted(read().dislikes.rows()) == [(1, 8), (3, 8), (4, 9)]  # without times the dislike holds
    data = read(timestamp="t")
    assert sorted(data.dislikes.rows()) == [(1, 8), (4, 9)]
    assert data.items_of(3) == [8]
    assert data.items_of(4) == []  # whose dislikes are known
    assert [one.tolist() for one in data.disliked] == [[0, 1, 1, 1, 2], [1, 2]]
    assert [one.tolist() for one in data.left_out] == [[0, 3, 5, 6, 7], [0, 1, 2, 0, 2, 1, 2]]
    assert str(data.cleaning) == "8 rows read, dropped: none; 3 dislikes"
    assert data.fingerprint() != read(EVENTS.filter(pl.col("event") != "dislike"), timestamp="t").fingerprint()


def test_one_kind_alone_may_be_read():
    data = read(target="purchase", part=True)
    assert (data.users.series.to_list(), data.items.series.to_list(), data.dislikes) == ([1], [9], None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"events": {"view": 1, "purchase": 5}}, "line|row 1: the kind 'dislike' in column 'event' is unknown; the"),
        ({"events": {"view": 1, "cart": -3}}, "'cart' has weight -3; expected a number from 0, or -1 for a dislike"),
        ({"events": {"dislike": -1}}, "no kind has a weight above 0"),
        ({"events": {}}, "expected the weight of each kind"),
        ({"events": {"view": float("nan")}}, "'view' has weight nan"),
        ({"target": "dislike"}, "expected a kind that people want, one of view"),
        ({"target": "like"}, r"no row has a kind that counts \(like\); there are view"),
        ({"kind": None, "target": "view"}, "target='view' needs kind="),
        ({"kind": None, "events": {"view": 1}}, "needs kind="),
    ],
)
def test_wrong_kinds_are_errors_that_name_the_right_ones(options, message):
    with pytest.raises((DataError, ParameterError), match=message):
        read(**options)


def test_negative_weights_beside_kinds_are_an_error():
    with pytest.raises(DataError, match=r"row 0: the weight -2 in column 'n' is negative \(1 such rows\)"):
        read(EVENTS.with_columns(n=pl.Series([-2.0] + [1.0] * 7)), weight="n")


def test_kinds_and_spill_together_are_refused(tmp_path):
    EVENTS.write_parquet(tmp_path / "events.parquet")
    with pytest.raises(ParameterError, match="kind='event' cannot be read with spill="):
        ts.Interactions.from_file(tmp_path / "events.parquet", kind="event", spill=tmp_path / "spilled")
    assert ts.Interactions.from_file(tmp_path / "events.parquet", kind="event").fingerprint() == read().fingerprint()


def test_new_events_add_to_old_ones():
    new = pl.DataFrame({"user": [1, 1, 2], "item": [7, 8, 7], "event": ["view", "purchase", "dislike"]})
    both = concat(read(), read(new, part=True))
    found = dict(zip(pl.DataFrame(both.to_frame()).select("user", "item").rows(), both.weights.tolist(), strict=True))
    assert found == {(1, 7): 2.0, (1, 8): 5.0, (1, 9): 5.0, (2, 7): 1.0, (2, 9): 3.0}
    assert sorted(both.dislikes.rows()) == [(2, 7), (3, 8), (4, 9)]  # (1, 8) was bought since
