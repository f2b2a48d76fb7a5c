"""Work of a recipe that is done, in a folder, so that a run that was stopped resumes after its last finished model."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tastespace import store
from tastespace._util.atomic import atomic_write, written_name
from tastespace.data.interactions import Interactions
from tastespace.errors import Argument, DataError, ModelFileError, ParameterError, require_path
from tastespace.models import Recommender
from tastespace.tuning.journal import TrialJournal, trial_key

log = logging.getLogger(__name__)

_FORMAT = 1
_RUN, _TRIALS, _MODELS, _FINAL, _FINISHED = "run.json", "trials.jsonl", "models", "final", "model"
_SEARCH = "fit"
_METRICS = ("NDCG@10", "R@20", "MinorityRecall@20")


class RecipeCheckpoint:
    """The folder of one run; without a folder nothing is kept.

    ``run.json`` says whose it is and how far it is, ``trials.jsonl`` has a line for each model that was tried,
    ``models/`` the best one of each family, ``final/`` those that are fitted to all of the data, and ``model`` the
    finished blend, which takes the place of the others.

    A model is saved before the line that names it is written, so whatever is named is there. A folder of other data,
    arguments, or another version of the library is refused, unless its run is finished: that is replaced.
    """

    def __init__(self, folder: str | Path | None, identity: dict[str, Any]) -> None:
        self._folder = None if folder is None else require_path(folder, "checkpoint").expanduser()
        self._identity = {"version": version("tastespace"), **identity}
        self._state: dict[str, Any] = {"stage": "search", "seconds": 0.0}
        self.rows: dict[str, dict[str, Any]] = {}
        """What is recorded, by `key`."""
        self._before: dict[str, dict[str, Any]] = {}
        if self._folder is None:
            return
        self._open(self._folder)
        self._journal = TrialJournal(self._folder / _TRIALS, _SEARCH)
        self._before = self._journal.read(set(_METRICS))
        self.rows = dict(self._before)
        if self.rows:
            log.info("resuming from %s: %d models were tried before", self._folder, len(self.rows))

    def _open(self, folder: Path) -> None:
        path = folder / _RUN
        if not path.exists():
            if folder.exists() and (not folder.is_dir() or not all(map(_is_ours, folder.iterdir()))):
                raise ParameterError(
                    Argument("checkpoint", str(folder)),
                    " is there already, and no checkpoint of a recipe. Give a new name or an empty folder.",
                )
            self._remove(_MODELS, _FINAL, _FINISHED, _TRIALS)  # of a folder whose deletion was stopped
            self._write()
            return
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            stored, state = found["identity"], {name: found[name] for name in ("stage", "seconds")}
            is_known = found["format"] == _FORMAT and isinstance(stored, dict) and state["seconds"] >= 0
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            is_known = False
        if not is_known:
            raise DataError(f"{path} cannot be read: it is damaged, or of another version. Delete {folder}.")
        other = [name for name in self._identity if stored.get(name) != self._identity[name]]
        if other and state["stage"] == "finished":
            log.info("%s holds a finished run of other %s; it is replaced", folder, other[0])
            self._remove(_MODELS, _FINAL, _FINISHED, _TRIALS)
            self._write()
            return
        if other:
            name = other[0]
            raise ParameterError(
                Argument("checkpoint", str(folder)),
                f" belongs to another run: {name} was {stored.get(name)!r}, now it is {self._identity[name]!r}. Give "
                "another folder, delete this one, or resume with what it was begun with.",
            )
        self._state = state

    @property
    def seconds(self) -> float:
        """Time that was spent before, up to the last model that was recorded."""
        return max([self._state["seconds"], *(row["elapsed"] for row in self._before.values())])

    @property
    def search_ended(self) -> bool:
        """True if no more models are to be tried."""
        return bool(self._state["stage"] != "search")

    # ---- trials ----------------------------------------------------------------------------------------

    def find(self, family: str, model: Recommender) -> dict[str, Any] | None:
        """Record of this model by an earlier process; None: it was not tried."""
        return self._before.get(trial_key(key(family, model)))

    def add(
        self,
        family: str,
        model: Recommender,
        figures: Iterable[float],
        seconds: float,
        elapsed: float,
        *,
        is_best: bool = False,
        problem: str = "",
        was_stopped: bool = False,
    ) -> None:
        """Record a model that was tried; the best of its family is saved, and takes the place of the one before."""
        number = max((row["number"] for row in self.rows.values()), default=-1) + 1
        row: dict[str, Any] = {
            "parameters": key(family, model),
            "validation": dict(zip(_METRICS, figures, strict=True)),
            "score": None,
            "seconds": seconds,
            "elapsed": elapsed,
            "number": number,
            "problem": problem,
            "was_stopped": was_stopped,
        }
        before = self._number_of_best(family)
        self.rows[trial_key(row["parameters"])] = row
        if self._folder is None:
            return
        try:
            if is_best:
                store.save(model, self._folder / _MODELS / str(number))
                row["saved"] = True
            self._journal.add(row)
        except (OSError, ModelFileError) as problem_of_disk:
            log.warning("the checkpoint could not be written: %s; the search goes on", problem_of_disk)
            return
        if is_best and before is not None:
            self._remove(f"{_MODELS}/{before}")

    def fitted(self, family: str, model: Recommender) -> Recommender | None:
        """The saved form of the best model of a family; None where it is not there or cannot be read."""
        number = self._number_of_best(family)
        found = None if number is None else self._loaded(f"{_MODELS}/{number}")
        if found is None or key(family, found) != key(family, model):
            return None
        return _with_threads_of(model, found)

    def _number_of_best(self, family: str) -> int | None:
        numbers = [
            row["number"] for row in self.rows.values() if row["parameters"]["family"] == family and row.get("saved")
        ]
        return max(numbers, default=None)

    # ---- the last fits ---------------------------------------------------------------------------------

    def end_search(self, elapsed: float) -> None:
        """No more models are to be tried."""
        self._state = {"stage": "final", "seconds": elapsed}
        self._write()

    def final(self, number: int, model: Recommender) -> Recommender | None:
        """The member of the blend with this number, if it was fitted to everything already."""
        found = self._loaded(f"{_FINAL}/{number}")
        if found is None or key("", found) != key("", model):
            return None
        return _with_threads_of(model, found)

    def add_final(self, number: int, member: Recommender) -> None:
        """Keep a member of the blend that is fitted to everything."""
        if self._folder is None:
            return
        try:
            store.save(member, self._folder / _FINAL / str(number))
        except (OSError, ModelFileError) as problem:
            log.warning("the checkpoint could not be written: %s; fitting goes on", problem)

    def finished(self) -> Recommender | None:
        """The finished blend, where the run had come to its end."""
        return self._loaded(_FINISHED) if self._state["stage"] == "finished" else None

    def finish(self, blend: Recommender, elapsed: float) -> None:
        """Keep the finished blend alone."""
        if self._folder is None:
            return
        try:
            store.save(blend, self._folder / _FINISHED)
        except (OSError, ModelFileError) as problem:
            log.warning("the checkpoint could not be written: %s", problem)
            return
        self._state = {"stage": "finished", "seconds": elapsed}
        self._write()
        self._remove(_MODELS, _FINAL)

    def interrupted(self) -> str:
        """Message for a run that is stopped: what is kept, and what would have kept it."""
        n_tried = len(self.rows)
        tried = f"{n_tried} model{'s' * (n_tried != 1)} that {'were' if n_tried != 1 else 'was'} tried"
        if self._folder is not None:
            return f"Kept in {self._folder}: {tried}. Do the same again to resume there."
        lost = f"Lost: {tried}. " if n_tried else ""
        return f"{lost}With a checkpoint (checkpoint=FOLDER, or --checkpoint FOLDER) finished work is kept."

    # ---- files -----------------------------------------------------------------------------------------

    def _write(self) -> None:
        if self._folder is None:
            return
        text = json.dumps({"format": _FORMAT, **self._state, "identity": self._identity}, indent=1)
        with atomic_write(self._folder / _RUN) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")

    def _loaded(self, name: str) -> Recommender | None:
        if self._folder is None or not (self._folder / name).exists():
            return None
        try:
            return store.load(self._folder / name, verify=True)
        except ModelFileError as problem:
            log.warning("a model of the checkpoint is fitted again: %s", problem)
            return None

    def _remove(self, *names: str) -> None:
        assert self._folder is not None
        for name in names:
            path = self._folder / name
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _is_ours(path: Path) -> bool:
    return (written_name(path.name) or path.name) in (_RUN, _TRIALS, _MODELS, _FINAL, _FINISHED)


def _with_threads_of(model: Recommender, saved: Recommender) -> Recommender:
    """The saved model with the threads that it is to use now."""
    parameters = model.get_params(deep=False)
    return saved.set_params(threads=parameters["threads"]) if "threads" in parameters else saved


def key(family: str, model: Recommender) -> dict[str, str]:
    """Family and parameters of a model as text, without those that do not change what it learns."""
    parameters = model.get_params(deep=False).items()
    text = ", ".join(f"{name}={value!r}" for name, value in parameters if name not in ("threads", "max_minutes"))
    return {"family": family, "model": f"{type(model).__name__}({text})"}


def fingerprint(data: Interactions) -> str:
    """Hash of the interactions and of the attributes of users and items."""
    digest = hashlib.sha256(data.fingerprint().encode())
    for attributes in (data.user_attributes, data.item_attributes):
        digest.update(b"-" if attributes is None else attributes.write_ndjson().encode())
    return digest.hexdigest()[:16]
