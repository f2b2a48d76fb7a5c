"""Which model is served: opened, swapped by one assignment, refused where it is broken."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from pathlib import Path

from tastespace.errors import ModelFileError, TastespaceError
from tastespace.serve.catalog import CatalogAnswers
from tastespace.serve.errors import HttpError, StoreError
from tastespace.serve.feedback.store import FeedbackStore
from tastespace.serve.lists import ListMaker
from tastespace.serve.people import People
from tastespace.serve.served_model import ServedModel, model_checksum
from tastespace.serve.tastes import TasteAnswers

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Slot:
    """A model with all that answers from it. A request takes one slot and keeps it, whatever is swapped meanwhile."""

    served: ServedModel
    people: People
    lists: ListMaker
    tastes: TasteAnswers
    catalog: CatalogAnswers


class ReloadInProgressError(HttpError):
    """Another model is being opened."""

    def __init__(self) -> None:
        super().__init__(409, "reload_in_progress", "another model is being opened.", "Wait and ask again.")


class ModelHolder:
    """The model that is served now, and how it is replaced."""

    def __init__(
        self, path: Path, store: FeedbackStore, opened: ServedModel | None = None, keep_answers: int = 0
    ) -> None:
        """``opened``: the model at this path; None: the one that was announced last for it, by another worker."""
        self._store, self._keep_answers = store, keep_answers
        self._server = str(path.resolve())
        self._reloading = threading.Lock()
        self._refused: str | None = None
        self.problem: str | None = None
        """What is wrong with the model files, while the model in memory goes on."""
        self.slot = self._slot(self._announced(path) if opened is None else opened)
        self.reloads, self.refusals = 0, 0

    def _announced(self, path: Path) -> ServedModel:
        announced = self._store.served_model(self._server)
        first = path if announced is None else Path(announced[1])
        return ServedModel.open(first if (first / "model.json").exists() else path)

    def _slot(self, served: ServedModel) -> Slot:
        people = People(served, self._store)
        lists = ListMaker(people, self._keep_answers)
        served.generation = self._store.announce_model(self._server, str(served.path), served.checksum)
        served.info.generation = served.generation
        return Slot(served, people, lists, TasteAnswers(lists), CatalogAnswers(lists))

    def reload(self, path: str | None = None) -> Slot:
        """Serve another model, or the one at the same path as it is now; the old one answers until it is ready.

        Raises where the new one cannot be served: then nothing has changed.
        """
        target = self.slot.served.path if path is None else self._allowed(path)
        if not self._reloading.acquire(blocking=False):
            raise ReloadInProgressError()
        try:
            slot = self._opened_like(target)
        except Exception:
            self.refusals += 1
            raise
        finally:
            self._reloading.release()
        self.slot = slot
        self.reloads += 1
        self._refused, self.problem = None, None
        log.info("serving generation %d", slot.served.generation)
        return slot

    def _opened_like(self, path: Path) -> Slot:
        """The model at this path, which must have ids of the same types as the one that is served."""
        now, probe = self.slot.served, ServedModel.open(path)
        if probe.info.id_types != now.info.id_types:
            raise HttpError(
                409, "other_id_types",
                f"the new model has ids of the types {probe.info.id_types}, the served one {now.info.id_types}.",
                "Fit the new model with ids of the same types, or start another server.",
            )  # fmt: skip
        return self._slot(probe)

    def _allowed(self, path: str) -> Path:
        """A path of a request: the name of a model beside the served one, or its full path."""
        folder = Path(self._server).parent
        try:
            target = (folder / path).resolve()
        except (OSError, ValueError, RuntimeError):
            target = folder.parent
        if target.parent != folder:
            raise HttpError(
                422, "path_not_allowed", "the path does not name a model in the folder of the served one.",
                "Save the new model beside the one that is served and give its name.",
            )  # fmt: skip
        return target

    def look(self, files: bool = True) -> None:
        """Follow the other workers and the files: open what was announced or saved since, note what is missing.

        Without ``files``, what was saved is opened only when a worker was told so.
        """
        served = self.slot.served
        try:
            checksum = model_checksum(served.path) if files else served.checksum
            announced = self._store.served_model(self._server)
        except ModelFileError as problem:
            self._note(str(problem))
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
            self._refused = wanted[1]
            self._note(f"a new model is refused: {problem}")

    def _note(self, problem: str, logged: str | None = None) -> None:
        if problem != self.problem:
            log.warning("%s", logged or problem)
        self.problem = problem
