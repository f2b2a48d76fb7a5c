"""The progress bar of a training run, on standard error; silent where that is no terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import TaskID


class EpochBar:
    """Epochs done, the loss, the monitored metric and positives per second."""

    def __init__(self, epochs: int, first: int, n_positives: int, wanted: bool | None) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        from tastespace.terminal import Console

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
