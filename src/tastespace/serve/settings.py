"""Settings of a server: one value that is passed to its worker processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tastespace._util.limits import (
    ANSWER_SECONDS,
    BODY_BYTES,
    IMPRESSIONS_KEPT,
    REQUEST_HISTORY,
    REQUEST_K,
    REQUEST_LISTS,
    REQUEST_SECONDS,
    REQUESTS_AT_ONCE,
)
from tastespace.answers.display import Display
from tastespace.online.experiments import Arm


@dataclass(frozen=True)
class Limits:
    """Limits of one request; one that exceeds them is refused before anything is computed."""

    k: int = REQUEST_K
    """Items in a list."""
    batch: int = REQUEST_LISTS
    """Users, histories or events in one request."""
    history: int = REQUEST_HISTORY
    """Items in one history."""
    body: int = BODY_BYTES
    """Bytes of a body."""
    seconds: float = ANSWER_SECONDS
    """For an answer."""
    read_seconds: float = REQUEST_SECONDS
    """For a client to send its request, and to take 64 KB of an answer: slow ones are cut off."""
    in_flight: int = REQUESTS_AT_ONCE
    """Requests that are being answered at once."""
    rate: float = 0.0
    """Requests a second for each token, or each address without tokens; 0: no limit. A token may have its own."""


@dataclass(frozen=True)
class ServerSettings:
    """A server: its model, feedback store, tokens, address and limits.

    >>> ServerSettings(Path("shop.model")).store_location
    'shop.feedback.sqlite'
    """

    model: Path
    compare: Path | None = None
    store: str | None = None
    """An SQLite file or ``postgresql://...``; by default a file next to the model."""
    rules: Path | None = None
    """TOML file of `tastespace.Rules`, read again when it changes."""
    wording: Path | None = None
    """TOML file of a `tastespace.Wording` for reasons and names of shelves, such as in another language."""
    display: Display = field(default_factory=Display)
    """Pictures of items on the page, and categories that are not named."""
    tokens: Path | None = None
    """JSON file of token hashes, see `tastespace.serve.tokens`; None: every request is allowed."""
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    allowed_hosts: tuple[str, ...] = ()
    """Names in the Host header that are accepted; empty: any. Guards a loopback server against DNS rebinding."""
    cors: tuple[str, ...] = ()
    """Origins of other sites whose pages may send requests; empty: none."""
    watch_seconds: float = 1.0
    """Seconds between two looks at model directory, rules and tokens; 0: never."""
    any_catalog: bool = False
    """Serve whatever model is saved or named, also one of other items and ids; by default such a model is refused."""
    access_log: bool = False
    counts_folder: Path | None = None
    """Folder in which several workers count together for /metrics; None: each counts for itself."""
    keep_answers: int = 10_000
    """Plain lists that a worker remembers as they were sent, until something is stored about the user; 0: none."""
    arms: tuple[Arm, ...] = ()
    """Models of an experiment, the first of which is ``model``; empty: there is no experiment."""
    salt: str = ""
    """Of the experiment: another one assigns people anew."""
    impressions: bool = True
    """Give answers ids and log the lists that are shown."""
    impression_days: float = 90.0
    impressions_kept: int = IMPRESSIONS_KEPT
    explore: float = 0.0
    """Share of places below the first that are drawn from the next items; 0: none."""
    limits: Limits = field(default_factory=Limits)

    @property
    def store_location(self) -> str:
        """Location of the feedback store."""
        return str(self.model.with_suffix(".feedback.sqlite")) if self.store is None else self.store
