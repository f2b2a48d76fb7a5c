"""What one worker process holds: models, feedback, tokens, rules, counts; and what it does in the background."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import anyio

from tastespace.data.ids import parse_ids
from tastespace.errors import ParameterError, TastespaceError
from tastespace.recommend.rules.rules import Rules
from tastespace.recommend.rules.tables import rule_tables
from tastespace.serve.errors import HttpError
from tastespace.serve.feedback.store import open_store
from tastespace.serve.feedback.writer import FeedbackWriter
from tastespace.serve.json_ids import ids_in_type
from tastespace.serve.metrics import RequestCounts
from tastespace.serve.micro_batches import MicroBatches
from tastespace.serve.models import ModelHolder, Slot
from tastespace.serve.served_model import ServedModel
from tastespace.serve.settings import ServerSettings
from tastespace.serve.tokens import RateLimit, Token, read_tokens

log = logging.getLogger(__name__)

Value = TypeVar("Value")

_THREADS = 2
_FOLLOW_SECONDS = 1.0
_RULES = frozenset(one.name for one in fields(Rules))
_ID_RULES = ("exclude", "include", "in_stock", "pinned", "new")


class ServerState:
    """Everything that answers need. Made before the first request; `close` gives all of it back."""

    def __init__(self, settings: ServerSettings, follow: bool = False) -> None:
        """``follow``: take the model that other workers of this server have announced."""
        self.settings = settings
        paths = [one for one in (settings.model, settings.compare) if one is not None]
        # Models first: where one cannot be opened, no store is made.
        opened = [None if follow else ServedModel.open(one) for one in paths]
        self.store = open_store(settings.store_location)
        keep = settings.keep_answers
        holders = [ModelHolder(path, self.store, one, keep) for path, one in zip(paths, opened, strict=True)]
        self.main, self.compare = holders[0], holders[1] if len(holders) > 1 else None
        self.writer = FeedbackWriter(self.store)
        self.batches = MicroBatches()
        self.counts = RequestCounts()
        self.rate_limit = RateLimit()
        self.tokens: dict[str, Token] | None = None
        self.rules: Rules | None = None
        self.rules_version = 0
        self.problems: dict[str, str] = {}
        self._seen: dict[Path, tuple[int, int, int]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="tastespace-answers")
        self.is_closing = False
        self._read_files(first=True)

    def slot(self, name: str) -> Slot:
        """The model of this name as it is served now."""
        if name == "main":
            return self.main.slot
        if self.compare is None:
            raise HttpError(
                404, "no_second_model", "there is no second model.", "Start the server with --compare OTHER.model."
            )
        return self.compare.slot

    async def compute(self, function: Callable[..., Value], *arguments: Any) -> Value:
        """Call a function in a thread, so that other requests go on."""
        return await self.in_time(asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments))

    async def finish(self, function: Callable[..., Value], *arguments: Any) -> Value:
        """Call a function in a thread of its own kind, however long it takes: what is computed once, or watches."""
        return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)

    async def in_time(self, answer: Awaitable[Value]) -> Value:
        """What something gives, if it gives it in time; a TimeoutError otherwise."""
        with anyio.fail_after(self.settings.limits.seconds):
            return await answer

    # ---- files that may change -----------------------------------------------------------------------------

    def look(self) -> None:
        """Read tokens, rules and models again where they have changed."""
        self._read_files()
        self.main.look()
        if self.compare is not None:
            self.compare.look()

    def follow(self) -> None:
        """Serve the models that other workers were told to serve; files are not looked at."""
        self.main.look(files=False)
        if self.compare is not None:
            self.compare.look(files=False)

    async def watch(self) -> None:
        """`look` again and again, or `follow` where files are not watched, until it is cancelled."""
        seconds = self.settings.watch_seconds
        while True:
            await asyncio.sleep(seconds or _FOLLOW_SECONDS)
            try:
                await self.finish(self.look if seconds else self.follow)
            except Exception:  # the server goes on with what it has
                log.exception("looking for changed files failed")

    def _read_files(self, first: bool = False) -> None:
        for name, path, read in (
            ("tokens", self.settings.tokens, self._read_tokens),
            ("rules", self.settings.rules, self._read_rules),
        ):
            if path is None:
                continue
            stamp = _stamp(path)
            if stamp == self._seen.get(path) and not first:
                continue
            try:
                read(path)
                self.problems.pop(name, None)
            except TastespaceError as problem:
                if first:
                    raise
                self.problems[name] = f"{name} as before: {problem}"
                log.warning("%s", self.problems[name])
            self._seen[path] = stamp

    def _read_tokens(self, path: Path) -> None:
        self.tokens = read_tokens(path)

    def _read_rules(self, path: Path) -> None:
        rules, served = Rules.from_file(path), self.main.slot.served
        rule_tables(served.train, _combined(rules, None, self.main.slot), 10)  # names of columns, contradictions
        self.rules = rules
        self.rules_version += 1

    def rules_for(self, slot: Slot, asked: dict[str, Any] | None) -> tuple[Any, Rules | None]:
        """The rules of the file together with those of a request, and a key that tells them from others."""
        key = (self.rules_version, "" if not asked else json.dumps(asked, sort_keys=True, default=str))
        if self.rules is None and not asked:
            return None, None
        rules = self.rules
        found = slot.served.kept(("rules", key), lambda: _combined(rules, asked, slot))
        return key, found

    def close(self) -> None:
        """Write what is waiting, stop threads, close files."""
        self.writer.close()
        self.batches.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
        with contextlib.suppress(TastespaceError):
            self.store.close()


def _combined(rules: Rules | None, asked: dict[str, Any] | None, slot: Slot) -> Rules:
    """Rules of the file always hold; a request adds to them and takes nothing away."""
    both: dict[str, Any] = {} if rules is None else {name: getattr(rules, name) for name in _RULES}
    own = {} if rules is None else {name: value for name, value in both.items() if value != getattr(Rules(), name)}
    items = slot.served.train.items
    for name, value in (asked or {}).items():
        if name in _ID_RULES and not isinstance(value, str):
            ids_in_type(items, list(value.values() if isinstance(value, dict) else value), "item")  # 422 for others
        if name not in own:
            own[name] = _with_places(value) if name == "pinned" else value
        elif name in ("exclude", "include"):
            texts = {str(one) for one in value}
            kept = [one for one in own[name] if str(one) in texts]
            own[name] = [*own[name], *value] if name == "exclude" else kept
        elif name == "max_per" and isinstance(value, dict):
            own[name] = {**value, **own[name]}
    if rules is not None and asked and own.get("include") is not None:
        own["include"] = _still_included(own, asked)
    try:
        return Rules(**own).with_ids(lambda texts: parse_ids(items, texts))
    except (TypeError, ValueError, OverflowError) as problem:
        if isinstance(problem, TastespaceError):
            raise
        raise ParameterError(f"the rules cannot be read: {problem}.") from problem


def _still_included(own: dict[str, Any], asked: dict[str, Any]) -> list[Any]:
    """What is included by the file and the request, and excluded by neither: a client does not know the file.

    An item that the request itself includes and excludes stays: that is refused.
    """
    excluded, asked_out = ({str(one) for one in rules.get("exclude", ())} for rules in (own, asked))
    refused = asked_out & {str(one) for one in asked.get("include", ())}
    found = [one for one in own["include"] if str(one) not in excluded - refused]
    if not found and asked.get("include") != []:
        raise ParameterError(
            "the rules of the request and those of the server together leave no item. Include others, or exclude fewer."
        )
    return found


def _with_places(pinned: Any) -> Any:
    """Pinned items by place, whose numbers are text in JSON."""
    if not isinstance(pinned, dict):
        return pinned
    return {int(at) if at.isascii() and at.isdecimal() and len(at) < 10 else at: item for at, item in pinned.items()}


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return found.st_mtime_ns, found.st_size, found.st_ino
