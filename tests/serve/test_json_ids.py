"""Ids between JSON and the types of a model: of few bits, of many digits, dates."""

import datetime as dt

import polars as pl
import pytest

import tastespace as ts
from tastespace.answers.ids import id_from_text, id_in_type
from tastespace.answers.types import AnswerError
from tastespace.data.ids import IdMap
from tastespace.serve.feedback.store import FeedbackEvent, open_feedback_store
from tastespace.serve.feedback.training import feedback_for


def ids_of(values, kind):
    return IdMap(pl.Series("user", values, dtype=kind), "user")


@pytest.mark.parametrize(
    ("kind", "held", "too_large"),
    [
        (pl.UInt8, (0, 255), (-1, 256)),
        (pl.Int8, (-128, 127), (-129, 128)),
        (pl.UInt32, (0, 2**32 - 1), (-1, 2**32)),
        (pl.Int64, (-(2**63), 2**63 - 1), (-(2**63) - 1, 2**63, 10**30)),
        (pl.UInt64, (0, 2**64 - 1), (-1, 2**64)),
        (pl.Float32, (1.5, -3e38), (1e39, -1e300, 10**400)),
        (pl.Float64, (1.5, 1e300), (10**400,)),
    ],
)
def test_ids_lie_in_the_range_of_their_type(kind, held, too_large):
    ids = ids_of([1, 2], kind)
    for one in held:
        assert id_in_type(ids, one, "user") == pytest.approx(one)
        assert id_from_text(ids, str(one), "user") == pytest.approx(one)
    for one in too_large:
        for read, given in ((id_in_type, one), (id_from_text, str(one))):
            with pytest.raises(AnswerError) as refused:
                read(ids, given, "user")
            assert refused.value.code == "wrong_id_type"


@pytest.mark.parametrize(
    ("ids", "given", "message", "advice"),
    [
        (ids_of([1], pl.Int64), "ann", 'the user id "ann" (text) is', "Give an integer such as 1."),
        (ids_of([1], pl.Int64), True, "the user id true (true or false) is", "Give an integer such as 1."),
        (ids_of(["ann"], pl.String), 1.5, "the user id 1.5 (number) is", 'Give text such as "ann".'),
        (
            ids_of([dt.date(2024, 5, 1)], pl.Date),
            "ann",
            'the user id "ann" (text)',
            'Give a date such as "2024-05-01".',
        ),
    ],
)
def test_messages_have_ids_and_types_as_json_has_them(ids, given, message, advice):
    with pytest.raises(AnswerError) as refused:
        id_in_type(ids, given, "user")
    assert refused.value.message.startswith(message)
    assert refused.value.advice == advice


def test_events_with_ids_that_the_models_type_does_not_hold_harm_nobody(client_of, model_at, tmp_path):
    frame = pl.DataFrame({"user": [n // 6 for n in range(120)], "item": [n * 7 % 31 for n in range(120)]})
    data = ts.Interactions.from_frame(frame.cast(pl.UInt8))
    model = ts.DPCML(dim=4, n_interests=2, epochs=1, seed=1).fit(data)
    model.save(model_at("dpcml", "narrow"))
    store = str(tmp_path / "feedback.sqlite")
    opened = open_feedback_store(store)
    opened.append(
        [FeedbackEvent(300, 3, "a"), FeedbackEvent(-1, 3, "b"), FeedbackEvent(7, 999, "c"), FeedbackEvent(200, 3, "d")]
    )
    found = feedback_for(opened, model, "")
    opened.close()
    assert (found.n_events, found.n_other, found.data.users.series.to_list()) == (4, 3, [200])
    client = client_of("narrow", store=store)
    assert client.get("/v1/users/200/recommendations").status_code == 200
    for user in (300, -1):
        answer = client.post("/v1/feedback", json={"events": [{"user": user, "item": 3}]})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "wrong_id_type")
        assert client.get(f"/v1/users/{user}/recommendations").status_code == 422
