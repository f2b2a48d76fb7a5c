"""Ids between JSON and the types of a model: of few bits, of many digits, dates."""

import datetime as dt

import polars as pl
import pytest

from tastespace.answers.ids import id_from_text, id_in_type
from tastespace.answers.types import AnswerError
from tastespace.data.ids import IdMap


def ids_of(values, kind):
    return IdMap(pl.Series("user", values, dtype=kind), "user")


@pytest.mark.parametrize(
    ("kind", "held", "too_large"),
    [
        (pl.UInt8, (0, 255, 256, -1, 2**63 - 1), (2**63, -(2**63) - 1)),
        (pl.Int8, (-128, 128, -(2**63)), (2**63,)),
        (pl.UInt32, (0, 2**32), (2**63,)),
        (pl.Int64, (-(2**63), 2**63 - 1), (-(2**63) - 1, 2**63, 10**30)),
        (pl.UInt64, (0, 2**64 - 1), (-1, 2**64)),
        (pl.Float32, (1.5, -3e38), (1e39, -1e300, 10**400)),
        (pl.Float64, (1.5, 1e300), (10**400,)),
    ],
)
def test_ids_lie_in_the_range_of_their_type_or_of_64_bits(kind, held, too_large):
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
