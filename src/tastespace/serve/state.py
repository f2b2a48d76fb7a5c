"""State of one worker process: models and their reloading, feedback, tokens, rules, counts."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import anyio
import numpy as np

from tastespace.answers.display import Display
from tastespace.answers.ids import ids_in_type
from tastespace.answers.tastes import TasteAnswers
from tastespace.data.ids import parse_ids
from tastespace.errors import ModelFileError, ParameterError, TastespaceError
from tastespace.online.experiments import assigned
from tastespace.recommend.rules.rules import Rules
from tastespace.recommend.rules.tables import rule_tables
from tastespace.recommend.wording import Wording
from tastespace.serve.errors import HttpError, StoreError
from tastespace.serve.feedback.store import FeedbackStore, open_feedback_store
from tastespace.serve.feedback.writer import FeedbackWriter
from tastespace.serve.impressions import ImpressionLog
from tastespace.serve.items import with_attributes
from tastespace.serve.lists import MicroBatches, ServedLists
from tastespace.serve.metrics import RequestCounts
from tastespace.serve.people import PeopleWithFeedback
from tastespace.serve.served_model import ServedModel, model_checksum, replacement_problem
from tastespace.serve.settings import ServerSettings
from tastespace.serve.shown_items import ShownItems
from tastespace.serve.tokens import RateLimit, Token, read_tokens

log = logging.getLogger(__name__)

Value = TypeVar("Value")

_THREADS = 2
_FOLLOW_SECONDS = 1.0
_RULES = frozenset(one.name for one in fields(Rules))
_ID_RULES = ("exclude", "include", "in_stock", "pinned", "new")


@dataclass(frozen=True, eq=False)
class Slot:
    """A model with all that answers from it. A request takes one slot and keeps it, whatever is swapped meanwhile."""

    served: ServedModel
    people: PeopleWithFeedback
    lists: ServedLists
    tastes: TasteAnswers
    shown: ShownItems


class ReloadInProgressError(HttpError):
    """Another model is being opened."""

    def __init__(self) -> None:
        super().__init__(409, "reload_in_progress", "another model is being opened.", "Wait and try again.")


def open_changed(path: Path, store: FeedbackStore, display: Display | None = None) -> ServedModel:
    """Return the model in a directory with the item attributes that a store has."""
    return ServedModel.open(path, lambda served: with_attributes(served, store.changed_items()), display)


class ModelHolder:
    """The model that is served now, and how it is replaced."""

    def __init__(
        self,
        path: Path,
        store: FeedbackStore,
        opened: ServedModel | None = None,
        keep_answers: int = 0,
        check: Callable[[ServedModel, ServedModel], None] = lambda now, new: None,
        counts: RequestCounts | None = None,
        name: str = "model",
        wording: Wording | None = None,
        display: Display | None = None,
        arm: str = "",
    ) -> None:
        """Serve the model at a path.

        Args:
            path: Directory of the model.
            store: Feedback store, in which workers announce what they serve.
            opened: The model at this path; None: the one that was announced last for it, by another worker.
            keep_answers: Plain lists to remember.
            check: Raises where the second model cannot take the place of the first.
            counts: Where models that are swapped in or refused are counted.
            name: Name in the counts: model, or compare for the second one.
            wording: Templates of sentences; None: English.
            display: Pictures and categories.
            arm: Of the experiment; empty: there is none.
        """
        self._store, self._keep_answers, self._check = store, keep_answers, check
        self._counts, self._name = RequestCounts() if counts is None else counts, name
        self._wording, self._display, self.arm = wording, display, arm
        self.server = str(path.resolve())
        """Name under which workers of the same server announce their models."""
        self._reloading, self._items_seen = threading.Lock(), 0
        self._refused: str | None = None
        self.problem: str | None = None
        """Problem with the model files, while the model in memory goes on."""
        self.refusal: str | None = None
        """Reason why the model of the last request to reload is not served; None after one that was."""
        self.slot = self._slot(self._announced(path) if opened is None else opened)
        self._counts.put(f"tastespace_{name}_generation", self.slot.served.generation)

    def _announced(self, path: Path) -> ServedModel:
        announced = self._store.served_model(self.server)
        first = path if announced is None else Path(announced[1])
        return self._opened(first if (first / "model.json").exists() else path)

    def _opened(self, path: Path) -> ServedModel:
        """Return a model with the item attributes that were said since it was fitted."""
        return open_changed(path, self._store, self._display)

    def _slot(self, served: ServedModel) -> Slot:
        people = PeopleWithFeedback(served, self._store)
        lists = ServedLists(people, self._keep_answers, self.arm)
        path, evaluated = str(served.path), served.info.metrics
        served.generation = self._store.announce_model(self.server, path, served.checksum, evaluated)
        served.info.generation = served.generation
        shown = ShownItems(served, self._counts.folder)
        return Slot(served, people, lists, TasteAnswers(lists, self._wording), shown)

    def reload(self, path: str | None = None) -> Slot:
        """Serve another model, or the one at the same path as it is now; the old one answers until it is ready.

        Raises where the new one cannot be served: then nothing has changed.
        """
        target = self.slot.served.path if path is None else self._allowed(path)
        if not self._reloading.acquire(blocking=False):
            raise ReloadInProgressError()
        try:
            opened = self._opened(target)
            self._check(self.slot.served, opened)
            slot = self._slot(opened)
        except Exception as problem:
            self._counts.count("tastespace_model_refusals_total")
            if (target / "model.json").exists() and not isinstance(problem, StoreError):
                self.refusal = self._without_folder(f"a model is refused: {problem}")
            raise
        finally:
            self._reloading.release()
        self.slot.shown.close()
        self.slot = slot
        self._counts.put(f"tastespace_{self._name}_generation", slot.served.generation)
        self._counts.count("tastespace_model_reloads_total")
        self._refused = self.problem = self.refusal = None
        log.info("serving generation %d", slot.served.generation)
        return slot

    def forget_refusal(self) -> None:
        """Look at a refused model again: the rules are others now."""
        self._refused = None

    def _allowed(self, path: str) -> Path:
        """A path of a request: the name of a model next to the served one, or its full path."""
        folder = Path(self.server).parent
        try:
            target = (folder / path).resolve()
        except (OSError, ValueError, RuntimeError):
            target = folder.parent
        if target.parent != folder:
            raise HttpError(
                422, "path_not_allowed", "the path does not name a model in the folder of the served one.",
                "Save the new model next to the served one and give its name.",
            )  # fmt: skip
        return target

    def look(self, files: bool = True) -> None:
        """Follow the other workers and the files: open what was announced or saved since, note what is missing.

        Without ``files``, what was saved is opened only when a worker was told so.
        """
        served = self.slot.served
        self._follow_items()
        try:
            checksum = model_checksum(served.path) if files else served.checksum
            announced = self._store.served_model(self.server)
        except ModelFileError as problem:
            self._note(str(problem).replace(f"{served.path.parent}{os.sep}", ""), str(problem))
            return
        except StoreError as problem:
            self._note(problem.for_clients, str(problem))
            return
        wanted = None
        if announced is not None and announced[0] > served.generation and announced[2] != served.checksum:
            wanted = Path(announced[1]), announced[2]
        elif checksum != served.checksum:
            wanted = served.path, checksum
        if wanted is None:
            self._refused, self.problem = None, None
            return
        if wanted[1] == self._refused:
            return
        try:
            self.reload(str(wanted[0]))
        except StoreError as problem:  # nothing is wrong with the model: it is opened when the store is back
            self._note(f"a new model waits: {problem.for_clients}", f"a new model waits: {problem}")
        except ReloadInProgressError:
            pass  # looked at again when that is done
        except (TastespaceError, HttpError, OSError, ValueError) as problem:
            self._refused, self.refusal = wanted[1], None
            found = f"a new model is refused: {problem}"
            self._note(self._without_folder(found), found)

    def _follow_items(self) -> None:
        """Open the same model again where attributes of its items were changed since."""
        items = self.slot.people.items
        if items.version == self._items_seen:
            return
        version = items.version
        if not items.has_other_attributes or not self._reloading.acquire(blocking=False):
            self._items_seen = version
            return
        try:
            opened = self._opened(self.slot.served.path)
            if opened.checksum == self.slot.served.checksum:  # else it is a new model, which is checked first
                self.slot = self._slot(opened)
                self._items_seen = self.slot.people.items.version
        except (TastespaceError, OSError) as problem:
            log.warning("attributes of items are not followed: %s", problem)
        finally:
            self._reloading.release()

    def _without_folder(self, text: str) -> str:
        """A text for clients, who need not know where models are."""
        return text.replace(f"{Path(self.server).parent}{os.sep}", "")

    def _note(self, problem: str, logged: str | None = None) -> None:
        if problem != self.problem:
            log.warning("%s", logged or problem)
        self.problem = problem


class ServerState:
    """Everything that answers need. Made before the first request; `close` releases it."""

    def __init__(self, settings: ServerSettings, follow: bool = False) -> None:
        """``follow``: take the model that other workers of this server have announced."""
        self.settings = settings
        arms = settings.arms[1:]
        paths = [settings.model, *(arm.path for arm in arms), *([] if settings.compare is None else [settings.compare])]
        names = ["model", *(f"arm_{at}" for at in range(2, len(arms) + 2)), *(["compare"] if settings.compare else [])]
        in_arms = [*(arm.name for arm in settings.arms), ""] if arms else ["", ""]
        # Models first: where one cannot be opened, no store is made.
        display = settings.display
        opened = [None if follow else ServedModel.open(one, display=display) for one in paths]
        wording = None if settings.wording is None else Wording.read(settings.wording)
        self.store = open_feedback_store(settings.store_location)
        if self.store.changed_items():
            opened = [None if one is None else open_changed(one.path, self.store, display) for one in opened]
        self.counts, keep = RequestCounts(settings.counts_folder), settings.keep_answers
        holders = [
            ModelHolder(
                path, self.store, one, keep, self._require_replacement, self.counts, name, wording, display, arm
            )
            for path, one, name, arm in zip(paths, opened, names, in_arms, strict=False)
        ]
        self.main, self.compare = holders[0], holders[-1] if settings.compare is not None else None
        self._arms = holders[: len(arms) + 1] if arms else []
        self._shares = [arm.share for arm in settings.arms]
        self._salt = settings.salt or " ".join(arm.name for arm in settings.arms)
        self._require_same_catalog()
        self.writer = FeedbackWriter(self.store)
        self.impressions: ImpressionLog | None = None
        if settings.impressions:
            days, most = settings.impression_days, settings.impressions_kept
            self.impressions = ImpressionLog(self.store, self.counts, days, most)
        self.batches = MicroBatches(self.counts)
        self.rate_limit = RateLimit()
        self.tokens: dict[str, Token] | None = None
        self.rules: Rules | None = None
        self.rules_version = 0
        self.problems: dict[str, str] = {}
        self._seen: dict[Path, tuple[int, int, int]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="tastespace-answers")
        self.is_closing = False
        self._reloads, self._collections = 0.0, 0
        self._read_files(first=True)

    def _require_same_catalog(self) -> None:
        """Raise where the models of an experiment do not have the same items and users."""
        for arm in self._arms[1:]:
            problem = replacement_problem(self.main.slot.served, arm.slot.served)
            if problem is not None and not self.settings.any_catalog:
                raise ParameterError(
                    f"--experiment {arm.arm}: {problem}. The models of an experiment have to have the same catalog: "
                    "fit them to the same data."
                )

    @property
    def has_experiment(self) -> bool:
        """True where several models answer in turns."""
        return bool(self._arms)

    def arm_of(self, unit: str | None) -> ModelHolder:
        """Return the model for a user or session, always the same; None: the first one."""
        return self._arms[assigned(unit, self._shares, self._salt)] if self._arms and unit is not None else self.main

    def slot(self, name: str, unit: str | None = None) -> Slot:
        """The model of this name as it is served now; in an experiment that of the user or session."""
        if name == "main":
            return self.arm_of(unit).slot if self._arms else self.main.slot
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
        """Return a result that comes within the time limit; a TimeoutError otherwise."""
        with anyio.fail_after(self.settings.limits.seconds):
            return await answer

    # ---- files that may change -----------------------------------------------------------------------------

    def look(self) -> None:
        """Read tokens, rules and models again where they have changed."""
        self._read_files()
        before = [one.slot for one in self._holders]
        for one in self._holders:
            one.look()
        if "rules" in self.problems and [one.slot for one in self._holders] != before:
            self._seen.clear()  # the new model may have what the rules name
            self._read_files()
        self._release_models()

    def follow(self) -> None:
        """Serve the models that other workers have announced; files are not looked at."""
        for one in self._holders:
            one.look(files=False)
        self._release_models()

    def _release_models(self) -> None:
        """Free models that were replaced: they hold reference cycles, and the collector seldom runs in a server."""
        reloads = self.counts.value("tastespace_model_reloads_total")
        if reloads != self._reloads:
            self._reloads, self._collections = reloads, 2  # requests of the moment still hold the old model
        if self._collections:
            self._collections -= 1
            gc.collect()

    @property
    def _holders(self) -> list[ModelHolder]:
        return [*(self._arms or [self.main]), *([] if self.compare is None else [self.compare])]

    def all_problems(self) -> list[str]:
        """Everything that does not work as it should, while the server goes on with what it has."""
        found: list[str | None] = [*self.problems.values(), self.writer.problem, self.main.slot.people.problem]
        found.append(None if self.impressions is None else self.impressions.problem)
        for holder in self._holders:
            found += [holder.problem, holder.refusal]
        return [one for one in found if one]

    def count_problems(self) -> None:
        """Note the number of problems of this worker for /metrics, whichever worker is asked."""
        self.counts.put("tastespace_problems", len(self.all_problems()))

    def _require_replacement(self, now: ServedModel, new: ServedModel) -> None:
        """Raise where a model cannot take the place of the one that is served."""
        problem = None if self.settings.any_catalog else replacement_problem(now, new)
        if problem is not None:
            raise HttpError(
                409, "other_catalog", f"{new.path.name}: {problem}.",
                "Save a model of the same catalog, or start the server with this one, or with --any-catalog.",
            )  # fmt: skip
        if self.rules is not None:
            self._require_rules(self.rules, new)

    def _require_rules(self, rules: Rules, served: ServedModel) -> None:
        """Raise where a model cannot make lists under the rules: unknown columns, contradictions, nothing left."""
        combined = _combined(rules, None, served)
        rule_tables(served.train, combined, 10)
        rows = np.flatnonzero(served.model.can_serve(np.arange(served.train.n_users)))[:1]
        if len(rows):
            served.model.recommend_indices(rows, k=10, rules=combined, profile=False, threads=1)

    async def watch(self) -> None:
        """`look` again and again, or `follow` where files are not watched, until it is cancelled."""
        seconds = self.settings.watch_seconds
        while True:
            await asyncio.sleep(seconds or _FOLLOW_SECONDS)
            try:
                await self.finish(self.look if seconds else self.follow)
                self.count_problems()
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
                log.warning("%s as before: %s", name, problem)
                # Anybody may ask for problems.
                self.problems[name] = f"{name} as before: {str(problem).replace(str(path), 'the file')}"
            self._seen[path] = stamp

    def _read_tokens(self, path: Path) -> None:
        self.tokens = read_tokens(path)

    def _read_rules(self, path: Path) -> None:
        rules = Rules.from_file(path)
        for holder in self._holders:
            self._require_rules(rules, holder.slot.served)
        self.rules = rules
        self.rules_version += 1
        for holder in self._holders:
            holder.forget_refusal()

    def rules_for(self, slot: Slot, asked: dict[str, Any] | None) -> tuple[Any, Rules | None]:
        """The rules of the file together with those of a request, and a key that tells them from others."""
        key = (self.rules_version, "" if not asked else json.dumps(asked, sort_keys=True, default=str))
        if self.rules is None and not asked:
            return None, None
        rules = self.rules
        found = slot.served.kept.get_or_make(("rules", key), lambda: _combined(rules, asked, slot.served))
        return key, found

    def close(self) -> None:
        """Write what is waiting, stop threads, close files."""
        self.writer.close()
        if self.impressions is not None:
            self.impressions.close()
        self.batches.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
        with contextlib.suppress(TastespaceError):
            self.store.close()


def _combined(rules: Rules | None, asked: dict[str, Any] | None, served: ServedModel) -> Rules:
    """Rules of the file always hold; a request adds to them and takes nothing away."""
    both: dict[str, Any] = {} if rules is None else {name: getattr(rules, name) for name in _RULES}
    own = {} if rules is None else {name: value for name, value in both.items() if value != getattr(Rules(), name)}
    items = served.train.items
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
    """Items that the file and the request include, and neither excludes: a client does not know the file.

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
