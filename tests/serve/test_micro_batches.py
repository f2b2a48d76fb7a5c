"""Requests that are computed together."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from tastespace.answers.lists import AnswerOptions
from tastespace.answers.types import AnswerError
from tastespace.serve.lists import MicroBatches


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
