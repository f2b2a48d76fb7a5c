"""Lists as JSON by the kernel, the text that a JSON encoder would write; and requests that are computed together."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tastespace import _native
from tastespace.answers.lists import AnswerOptions
from tastespace.answers.types import AnswerError
from tastespace.serve.lists import MicroBatches


def texts_of(**changed):
    texts = [b'{"item":1,"title":"a"', b',"category":null', b'{"item":2,"title":"\\"b"', b',"category":"x"']
    ends = np.cumsum([0, *map(len, texts)])
    given = {
        "text": b"".join(texts),
        "offsets": ends[::2].copy(),
        "cuts": ends[1::2].copy(),
        "ends": np.array([0, 2, 2, 3]),
        "rows": np.array([1, 0, 1], dtype=np.int32),
        "ranks": np.array([1, 2, 1], dtype=np.int32),
        "scores": np.array([-0.1, 1e-9, 3.0], dtype=np.float32),
        "interests": np.array([2, 0, 1], dtype=np.int32),
        "distances": None,
        "reasons": np.array([[0, 1], [1, -1], [-1, -1]], dtype=np.int32),
        "weights": np.array([[0.5, 1.0], [0.25, 0.0], [0.0, 0.0]]),
        **changed,
    }
    items = _native.ItemTexts(**{name: given.pop(name) for name in ("text", "offsets", "cuts")})
    list_ends = given.pop("ends")
    return _native.list_texts(items, _native.ListEntries(**given), list_ends)


def test_entries_are_written_with_all_their_digits():
    first, empty, last = texts_of()
    assert empty == b""
    found = json.loads(b"[%b]" % first)
    a, b = {"item": 1, "title": "a"}, {"item": 2, "title": '"b'}
    known = {"interest": 2, "distance": None}
    assert found[0] == {**b, "category": "x", "rank": 1, "score": float(np.float32(-0.1)), **known,
                        "because": [{**a, "weight": 0.5}, {**b, "weight": 1.0}]}  # fmt: skip
    assert found[1]["score"] == float(np.float32(1e-9))
    assert found[1]["because"] == [{**b, "weight": 0.25}]
    assert b'"score":3.0,' in last  # a fraction, as an encoder writes it
    assert json.loads(last)["because"] == []
    plain = texts_of(interests=None, reasons=None, weights=None, distances=np.ones(3, dtype=np.float32))
    assert json.loads(plain[2]) == {**b, "category": "x", "rank": 1, "score": 3.0, "interest": None, "distance": 1.0,
                                    "because": None}  # fmt: skip


@pytest.mark.parametrize("name", ["scores", "distances", "weights"])
def test_a_list_with_a_number_that_json_does_not_have_is_not_written(name):
    shape = (3, 2) if name == "weights" else 3
    values = np.zeros(shape, dtype=np.float64 if name == "weights" else np.float32)
    values.ravel()[0] = np.nan
    assert [one is None for one in texts_of(**{name: values})] == [True, False, False]


@pytest.mark.parametrize(
    "changed",
    [
        {"rows": np.array([1, 2, 0], dtype=np.int32)},
        {"ranks": np.array([1], dtype=np.int32)},
        {"ends": np.array([0, 2])},
        {"cuts": np.array([1000, 2000])},
        {"offsets": np.array([0, 30, 1000])},
        {"offsets": np.array([0, 30, 20])},
        {"offsets": np.array([-1, 30, 60]), "rows": np.ones(3, dtype=np.int32)},  # of a reason alone
        {"offsets": np.array([], dtype=np.int64)},
        {"reasons": np.full((3, 2), 2, dtype=np.int32)},
        {"weights": None},
    ],
)
def test_sizes_and_rows_are_checked(changed):
    with pytest.raises(ValueError, match=":"):
        texts_of(**changed)


class Lists:
    """Lists that cannot be made where one of certain users is among those who ask."""

    def __init__(self):
        self.asked = []

    def texts(self, users, options):
        self.asked.append(list(users))
        for user in users:
            if user < 0:
                raise AnswerError("unknown_interest", f"there is no interest 3 of {user}.")
        return [f"list of {user}" for user in users]

    quick_texts = texts


@pytest.mark.parametrize("quick", [False, True])
def test_the_error_of_one_user_is_no_error_of_those_who_ask_at_the_same_time(quick):
    batches, lists = MicroBatches(), Lists()

    async def ask():
        made = batches.quick_text if quick else batches.text
        waiting = (made(lists, user, AnswerOptions(mute=(3,))) for user in (1, 2, -3, 4, -5))
        return await asyncio.gather(*waiting, return_exceptions=True)

    with ThreadPoolExecutor(1) as thread:  # a thread of its own: a browser of other tests may have a loop in this one
        found = thread.submit(asyncio.run, ask()).result()
    batches.close()
    assert lists.asked[0 if quick else 1] == [
        *([1] if quick else []),
        2,
        -3,
        4,
        -5,
    ]  # together; in a thread after the first
    assert [found[at] for at in (0, 1, 3)] == ["list of 1", "list of 2", "list of 4"]
    assert [found[at].message for at in (2, 4)] == ["there is no interest 3 of -3.", "there is no interest 3 of -5."]
