"""Errors as HTTP answers: a status, a code for programs, a message and advice for people; never a stack trace."""

from __future__ import annotations

from typing import Any

from tastespace.errors import ModelChangedError, ModelFileError, TastespaceError, UnknownIdError

MOST_MESSAGE = 600
"""Characters of a message; what was given may be long."""


class HttpError(Exception):
    """An answer that is an error: ``{"error": {"code", "message", "advice"}}`` with this status.

    >>> HttpError(404, "unknown_user", "there is no user 7").to_dict()
    {'error': {'code': 'unknown_user', 'message': 'there is no user 7', 'advice': ''}}
    """

    def __init__(
        self, status: int, code: str, message: str, advice: str = "", headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.advice = status, code, message, advice
        self.headers = headers or {}

    def to_dict(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"error": {"code": self.code, "message": _shown(self.message), "advice": _shown(self.advice)}}


class StoreError(TastespaceError):
    """The feedback store cannot be written or read at the moment: a full disk, a lost connection.

    >>> print(StoreError("disk is full", "/srv/shop.sqlite"))
    the feedback store /srv/shop.sqlite cannot be used (disk is full).
    """

    def __init__(
        self, reason: str, store: str, advice: str = "", shown_reason: str | None = None, is_reading: bool = False
    ) -> None:
        """``store``: its file, or its address without a password. ``shown_reason``: what clients may know of it."""
        super().__init__(f"the feedback store {store} cannot be used ({reason.strip().rstrip('.')}). {advice}".rstrip())
        self.for_clients = f"the feedback store cannot be used ({shown_reason or reason})."
        self.is_reading = is_reading


def as_http_error(problem: BaseException) -> HttpError:
    """An error of the library as an answer; anything that is no error of ours is a 500 without details.

    >>> as_http_error(ZeroDivisionError("secret")).to_dict()["error"]["code"]
    'internal_error'
    """
    if isinstance(problem, HttpError):
        return problem
    if isinstance(problem, StoreError):
        return HttpError(
            503,
            "store_unavailable",
            problem.for_clients,
            "Ask again later." if problem.is_reading else "Nothing was stored. Send it again later.",
            {"Retry-After": "5"},
        )
    if isinstance(problem, UnknownIdError):
        return HttpError(404, "unknown_id", str(problem))
    if isinstance(problem, ModelChangedError):
        return HttpError(
            503, "model_changed", "a file of the model was changed while it was served.", "Reload the model."
        )
    if isinstance(problem, ModelFileError):
        return HttpError(422, "model_refused", str(problem), "The model that is served stays as it is.")
    if isinstance(problem, TastespaceError):
        return HttpError(422, "invalid_request", str(problem))
    return HttpError(500, "internal_error", "the server could not answer; its log has the reason.")


def _shown(text: str) -> str:
    """Text without control characters or lone surrogates, not too long."""
    plain = "".join(one if one.isprintable() else " " for one in text[:MOST_MESSAGE])
    return plain if len(text) <= MOST_MESSAGE else plain[: MOST_MESSAGE - 4] + " ..."
