"""Answers page by page: lists without what the pages before have shown, and the token of the next one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TypeVar

from tastespace.answers.lists import AnswerOptions
from tastespace.answers.types import AnswerError, Recommendations
from tastespace.data.ids import IdMap
from tastespace.recommend.pages import read_token, shown_ids

Made = TypeVar("Made", bound=Recommendations | AnswerError)


def lists_after(
    make: Callable[[AnswerOptions], Sequence[Made]], items: IdMap, user: Hashable, options: AnswerOptions, after: str
) -> Sequence[Made]:
    """The lists that a function makes of these options, as the page after a token; None is nobody in particular."""
    shown = read_token(after, user)
    made = make(replace(options, exclude=(*options.exclude, *shown_ids(items, shown))))
    for one in made:
        if isinstance(one, Recommendations):
            for item in one.items:
                item.rank += len(shown.items)
            one.next = None if len(one.items) < options.k else shown.token(user, [item.item for item in one.items])
    return made
