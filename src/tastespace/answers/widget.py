"""The page in a notebook: a widget whose requests the kernel answers (anywidget)."""

from __future__ import annotations

from typing import Any

from tastespace._util.extras import missing
from tastespace.answers._page import PageRequests
from tastespace.answers.display import Display
from tastespace.answers.ids import json_id
from tastespace.answers.saved_page import PAGE
from tastespace.errors import UnknownIdError
from tastespace.models.base import Recommender


def explore(
    model: Recommender, user: Any = None, *, compare: Recommender | None = None, display: Display | None = None
) -> Any:
    """`Recommender.explore`."""
    try:
        import anywidget
        import traitlets
    except ImportError as problem:
        raise missing("notebook", "the widget needs anywidget", "model.save_page writes a file instead.") from problem
    requests = PageRequests(model, compare, display=display)
    shown = None
    if user is not None:
        if user not in model.train_.users:
            raise UnknownIdError(f"user {user!r} is not in the model; leave the user out to choose one in the widget.")
        shown = json_id(user)

    class Explorer(anywidget.AnyWidget):  # type: ignore[misc,unused-ignore]
        _esm = PAGE / "widget.js"
        _css = PAGE / "widget.css"
        user = traitlets.Any(None, allow_none=True).tag(sync=True)

        def __init__(self) -> None:
            super().__init__(user=shown)
            self.on_msg(self._receive)

        def _receive(self, _: Any, message: Any, __: Any) -> None:
            status, found = requests.answer(
                message["method"],
                message["path"],
                {name: str(value) for name, value in message["query"].items()},
                message["body"],
            )
            self.send({"id": message["id"], "status": status, "answer": found})

    return Explorer()
