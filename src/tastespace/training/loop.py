"""The epoch loop that all trained models share: early stopping, the best epoch kept, checkpoints, progress, logs."""

from __future__ import annotations

import csv
import json
import logging
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from tastespace._util.checks import (
    is_whole,
    require_seed,
    require_whole,
)
from tastespace._util.interrupts import check_time, interrupt_ends_task
from tastespace.data.out_of_core.mapped_arrays import all_finite
from tastespace.errors import Argument, ParameterError, TimeLimitError, TrainingError, require_path
from tastespace.training._checkpoint import (
    read_checkpoint,
    require_run_metadata,
    require_same_arrays,
    write_checkpoint,
)

if TYPE_CHECKING:
    from rich.progress import TaskID

# ---------------------------------------------------------------------------------------------------------------------
# The progress bar of a training run, on standard error; silent where that is not a terminal.


class EpochBar:
    """Epochs done, the loss, the monitored metric and positives per second."""

    def __init__(self, epochs: int, first: int, n_positives: int, wanted: bool | None) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        from tastespace._util.terminal import Console

        visible = sys.stderr.isatty() if wanted is None else wanted
        self._progress = Progress(
            TextColumn("epoch {task.fields[epoch]}/" + str(epochs)),
            BarColumn(),
            TextColumn("loss {task.fields[loss]:.4f}"),
            TextColumn("{task.fields[metric]}"),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not visible,
            transient=True,
        )
        self._total = epochs * n_positives
        self._done = first * n_positives
        self._task: TaskID | None = None
        self._started = time.perf_counter()
        self._ticked = 0

    def __enter__(self) -> EpochBar:
        self._progress.start()
        self._task = self._progress.add_task(
            "", total=self._total, completed=self._done, epoch=0, loss=float("nan"), metric="", rate=""
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def start_epoch(self, number: int) -> None:
        """Show which epoch is running."""
        self._update(epoch=number)

    def tick(self, positives: int, loss: float) -> None:
        """Some positives are done."""
        self._ticked += positives
        rate = self._ticked / max(1e-9, time.perf_counter() - self._started)
        self._update(advance=positives, loss=loss, rate=f"{rate / 1e6:.2f} M positives/s")

    def end_epoch(self, row: dict[str, Any], monitor: str) -> None:
        """Show the epoch's figures."""
        self._update(loss=row["loss"], metric=f"{monitor} {row[monitor]:.4f}" if monitor in row else "")

    def _update(self, **fields: Any) -> None:
        if self._task is not None:
            self._progress.update(self._task, **fields)


log = logging.getLogger(__name__)

_MOST_KEPT = 256 << 20  # bytes of learned state that are copied after each epoch
Arrays = dict[str, NDArray[Any]]
Callback = Callable[[dict[str, Any]], object]
"""Called after every epoch with its row of the history; returning False stops the training."""


class Trainable(Protocol):
    """The interface of a training run that the loop uses."""

    def train_epoch(self, epoch: int, tick: Callable[[int, float], None]) -> dict[str, float]:
        """Run one epoch; returns at least ``{"loss": ...}``."""

    def state(self) -> Arrays:
        """Everything that another epoch depends on, as views."""

    def load_state(self, state: Arrays) -> None:
        """Continue from such a state."""

    def result(self) -> Arrays:
        """The learned arrays if training ended now: new ones."""


@dataclass(kw_only=True, eq=False, repr=False)
class LoopSettings:
    """Length of a training, choice of the epoch, files, and resources.

    Every model that trains by epochs inherits these as its parameters (`tastespace.models.trained`).
    """

    epochs: int = 50
    monitor: str = "NDCG@10"
    """Metric of `tastespace.evaluate` that chooses the best epoch where `fit` is given validation data."""
    monitor_protocol: str = "full"
    patience: int = 10
    """Stop after this many validations without improvement; 0 never stops early."""
    validate_every: int = 1
    """Epochs between validations."""
    checkpoint: str | None = None
    """File from which `fit` resumes and to which it writes its state; a resumed run ends in the same bits."""
    checkpoint_epochs: int = 5
    checkpoint_minutes: float | None = None
    log_file: str | None = None
    """Training log, one row per epoch: a name that ends in .csv or .jsonl."""
    max_minutes: float | None = None
    """Stop after the epoch in which training has taken longer than this; None: never. The best epoch so far is kept."""
    seed: int = 0
    threads: int = 0
    """0 means all cores."""

    def _check_loop(self) -> None:
        """Raise `ParameterError` for invalid settings, before anything is computed."""
        require_seed(self.seed)
        for name in ("epochs", "validate_every", "checkpoint_epochs"):
            require_whole(name, getattr(self, name))
        patience = self.patience
        if not is_whole(patience, 0):
            raise ParameterError(Argument("patience", patience), ": expected a whole number; 0 never stops early.")
        for name in ("checkpoint_minutes", "max_minutes"):
            minutes = getattr(self, name)
            if minutes is not None and not (isinstance(minutes, (int, float)) and minutes > 0):
                raise ParameterError(Argument(name, minutes), ": expected a positive number.")
        for name in ("checkpoint", "log_file"):
            if getattr(self, name) is not None:
                require_path(getattr(self, name), name)
        for name in ("monitor", "monitor_protocol"):
            if not isinstance(getattr(self, name), str):
                raise ParameterError(f"{name}={getattr(self, name)!r}: expected a name, such as NDCG@10 and full.")
        if self.log_file is not None and Path(self.log_file).suffix not in (".csv", ".jsonl"):
            raise ParameterError(
                Argument("log_file", str(self.log_file)), ": expected a name that ends in .csv or .jsonl."
            )


@dataclass
class Outcome:
    """Result of a training."""

    history: list[dict[str, Any]]
    result: Arrays
    best_epoch: int
    """Number of the epoch whose vectors were kept, counted from 1."""
    stopped: str
    """``"finished"``, ``"early"``, ``"time"``, ``"callback"``, ``"interrupted"`` or ``"diverged"``."""
    diagnostics: list[dict[str, Any]] = field(default_factory=list)
    """Problems that did not lose what was learned: files that could not be written, an epoch that diverged."""


class _DivergedError(Exception):
    """The loss or what is learned is not finite any more."""


class Loop:
    """Runs a `Trainable`.

    Args:
        trainable: The training run.
        settings: How long to train, when to stop, what to write; checked by the caller (`LoopSettings._check_loop`).
        n_positives: What an epoch goes through, for the progress bar.
        validate: From `Trainable.result` to the monitored figure, larger is better; None: the last epoch is kept.
        callbacks: Called after every epoch.
        progress: Show a progress bar; by default only where standard error is a terminal.
        identity: What must be equal in a checkpoint for it to be continued: parameters and the data's fingerprint.
        least_epochs: Epochs whose validations do not count for ``patience``.
    """

    def __init__(
        self,
        trainable: Trainable,
        settings: LoopSettings,
        *,
        n_positives: int,
        validate: Callable[[Arrays], float] | None = None,
        callbacks: Sequence[Callback] = (),
        progress: bool | None = None,
        identity: dict[str, Any] | None = None,
        least_epochs: int = 0,
    ) -> None:
        self._least_epochs = least_epochs
        self._trainable = trainable
        self._settings = settings
        self._n_positives = n_positives
        self._identity = _json_round_trip(identity or {})
        self._validate = validate
        self._callbacks = callbacks
        self._progress = progress
        self._history: list[dict[str, Any]] = []
        self._best: Arrays = {}
        self._last_good: Arrays = {}
        self._best_score = -math.inf
        self._best_epoch = 0
        self._validations_without_improvement = 0
        self._diagnostics: dict[str, dict[str, Any]] = {}
        self._saved_at = time.monotonic()

    def run(self) -> Outcome:
        """Train to the end, to an early stop, or to Ctrl-C, which leaves the vectors as they are then."""
        first = self._resume()
        stopped = "finished"
        began = time.monotonic()
        with EpochBar(self._settings.epochs, first, self._n_positives, self._progress) as bar:
            for epoch in range(first, self._settings.epochs):
                if self._out_of_patience():
                    stopped = "early"
                    break
                try:
                    check_time()  # kernels look a few times a second: many short epochs never would
                    go_on = self._one_epoch(epoch, bar)
                except _DivergedError as problem:
                    self._keep_last_good(epoch, str(problem))
                    stopped = "diverged"
                    break
                except KeyboardInterrupt:
                    if interrupt_ends_task():
                        raise
                    log.warning("interrupted in epoch %d; the model keeps what it has learned so far", epoch + 1)
                    stopped = "interrupted"
                    break
                except TimeLimitError:
                    if not self._history:
                        raise
                    log.info("stopped in epoch %d: the limit of time was over", epoch + 1)
                    stopped = "time"
                    break
                if not go_on:
                    stopped = "callback"
                    break
                minutes = self._settings.max_minutes
                if minutes is not None and time.monotonic() - began > 60 * minutes:
                    log.info("stopped after epoch %d: max_minutes=%g", epoch + 1, minutes)
                    stopped = "time"
                    break
        if stopped == "finished" and self._out_of_patience():
            stopped = "early"
        diagnostics = list(self._diagnostics.values())
        for one in diagnostics:
            log.warning("at the end of training: %s", one["message"])
        if self._best:
            return Outcome(self._history, self._best, self._best_epoch, stopped, diagnostics)
        if stopped == "diverged":
            return Outcome(self._history, self._last_good, len(self._history), stopped, diagnostics)
        return Outcome(self._history, self._trainable.result(), len(self._history), stopped, diagnostics)

    def _one_epoch(self, epoch: int, bar: EpochBar) -> bool:
        start = time.perf_counter()
        bar.start_epoch(epoch + 1)
        row: dict[str, Any] = {"epoch": epoch + 1, **self._trainable.train_epoch(epoch, bar.tick)}
        row["seconds"] = time.perf_counter() - start
        self._require_finite(epoch, row)
        due = (epoch + 1) % self._settings.validate_every == 0 or epoch + 1 == self._settings.epochs
        if self._validate is not None and due:
            row[self._settings.monitor] = self._validate_epoch(epoch)
        self._history.append(row)
        bar.end_epoch(row, self._settings.monitor)
        log.info("epoch %s", " ".join(f"{k}={v:.5g}" for k, v in row.items()))
        self._write_log()
        answers = [callback(dict(row)) for callback in self._callbacks]
        self._maybe_checkpoint(epoch)
        if self._validate is None and epoch + 1 < self._settings.epochs:
            self._keep_copy()
        return not any(answer is False for answer in answers)

    def _validate_epoch(self, epoch: int) -> float:
        assert self._validate is not None
        result = self._trainable.result()
        score = self._validate(result)
        if score > self._best_score:
            self._best_score, self._best_epoch, self._validations_without_improvement = score, epoch + 1, 0
            self._best = result
        elif epoch >= self._least_epochs:
            self._validations_without_improvement += 1
        return score

    def _out_of_patience(self) -> bool:
        return 0 < self._settings.patience <= self._validations_without_improvement

    def _require_finite(self, epoch: int, row: dict[str, Any]) -> None:
        bad = "the loss" if not math.isfinite(row["loss"]) else None
        for name, array in self._trainable.state().items():
            if bad is None and not all_finite(array):
                bad = f"{name!r}"
        if bad is not None:
            raise _DivergedError(
                f"training diverged in epoch {epoch + 1}: {bad} became NaN or infinite. Lower learning_rate."
            )

    def _keep_copy(self) -> None:
        """Keep what was learned so far, in case the next epoch diverges; a large model relies on its checkpoint."""
        if sum(array.nbytes for array in self._trainable.state().values()) <= _MOST_KEPT:
            self._last_good = self._trainable.result()

    def _keep_last_good(self, epoch: int, message: str) -> None:
        """The epoch diverged: go back to what was learned before, or raise where that is nothing."""
        path = self._settings.checkpoint
        if not self._best and not self._last_good and path is not None and Path(path).exists():
            self._resume()
            self._last_good = self._trainable.result()
        if not self._history or not (self._best or self._last_good):
            raise TrainingError(message)
        kept = self._best_epoch if self._best else len(self._history)
        message = f"{message} The model is that of epoch {kept}."
        self._diagnostics["diverged"] = {"kind": "diverged", "epoch": epoch + 1, "kept_epoch": kept, "message": message}

    # ---- checkpoints and logs ------------------------------------------------------------------------------

    def _resume(self) -> int:
        """Load the checkpoint if there is one; returns the number of epochs already done."""
        path = self._settings.checkpoint
        if path is None or not Path(path).exists():
            return 0
        arrays, metadata = read_checkpoint(Path(path))
        require_run_metadata(path, metadata)
        own, stored = self._identity, metadata["identity"]
        for name in dict.fromkeys([*own, *stored]):
            if own.get(name) != stored.get(name):
                raise TrainingError(
                    f"the checkpoint {path} belongs to another run: {name} was {stored.get(name)!r}, now it is "
                    f"{own.get(name)!r}. Delete the file, give another path, or restore the setting."
                )
        state = {name: array for name, array in arrays.items() if not name.startswith("best.")}
        require_same_arrays(path, state, self._trainable.state())
        best = {name.removeprefix("best."): a for name, a in arrays.items() if name.startswith("best.")}
        if best or metadata["best_epoch"]:
            require_same_arrays(path, best, self._trainable.result())
        self._trainable.load_state({**self._trainable.state(), **state})
        self._best = best
        self._history = metadata["history"]
        self._best_score, self._best_epoch = metadata["best_score"], metadata["best_epoch"]
        if self._best_score is None:
            self._best_score = -math.inf
        self._validations_without_improvement = metadata["validations_without_improvement"]
        log.info("resumed from %s after epoch %d", path, len(self._history))
        return len(self._history)

    def _maybe_checkpoint(self, epoch: int) -> None:
        settings = self._settings
        if settings.checkpoint is None:
            return
        minutes = (time.monotonic() - self._saved_at) / 60
        due = (epoch + 1) % settings.checkpoint_epochs == 0 or epoch + 1 == settings.epochs
        if settings.checkpoint_minutes is not None and minutes >= settings.checkpoint_minutes:
            due = True
        if not due and not self._out_of_patience():
            return
        arrays = {**self._trainable.state(), **{f"best.{name}": a for name, a in self._best.items()}}
        metadata = {
            "identity": self._identity,
            "history": self._history,
            "best_score": self._best_score if math.isfinite(self._best_score) else None,
            "best_epoch": self._best_epoch,
            "validations_without_improvement": self._validations_without_improvement,
        }
        try:
            write_checkpoint(Path(settings.checkpoint), arrays, metadata)
        except OSError as problem:
            self._not_written("checkpoint", settings.checkpoint, epoch + 1, problem)
        else:
            self._diagnostics.pop("checkpoint", None)  # an older one that failed does not matter now
        self._saved_at = time.monotonic()

    def _not_written(self, what: str, path: str, epoch: int, problem: OSError) -> None:
        """Continue training where a file cannot be written, so that nothing is lost; warn now and at the end."""
        message = f"the {what} {path} could not be written after epoch {epoch} ({problem.strerror or problem})"
        if what not in self._diagnostics:
            log.warning("%s; training continues", message)
        self._diagnostics[what] = {"kind": f"{what}-not-written", "epoch": epoch, "message": f"{message}."}

    def _write_log(self) -> None:
        """The whole history again: short, and right after a resumed run too."""
        if self._settings.log_file is None:
            return
        path = Path(self._settings.log_file)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", newline="", encoding="utf-8") as file:
                if path.suffix == ".csv":
                    columns = list(dict.fromkeys(name for row in self._history for name in row))
                    writer = csv.DictWriter(file, columns)
                    writer.writeheader()
                    writer.writerows(self._history)
                else:
                    file.writelines(json.dumps(row) + "\n" for row in self._history)
        except OSError as problem:
            self._not_written("log", self._settings.log_file, len(self._history), problem)
        else:
            self._diagnostics.pop("log", None)


def _json_round_trip(identity: dict[str, Any]) -> dict[str, Any]:
    """The identity after writing it to JSON and reading it back; NumPy's numbers become Python's."""
    return json.loads(json.dumps(identity, default=lambda value: value.item()))
