"""Ids as text of a database: JSON, so that 7 and "7" stay different."""

from __future__ import annotations

import json
from typing import Any

from tastespace.answers.ids import json_id


def id_text(value: Any) -> str:
    """An id as JSON; dates and other types as their text.

    >>> id_text(7), id_text("7")
    ('7', '"7"')
    """
    return json.dumps(json_id(value), ensure_ascii=False)


def read_id(text: str) -> Any:
    """The id of a text; an error of type ValueError or TypeError where it is none."""
    found = json.loads(text)
    if not isinstance(found, (str, int, float, bool)):
        raise TypeError("not an id")
    return found
