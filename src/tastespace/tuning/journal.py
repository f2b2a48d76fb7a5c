"""Finished trials of searches in a file, a line of JSON for each, so that a search that was stopped can resume."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from tastespace.errors import DataError

log = logging.getLogger(__name__)

Trial = dict[str, Any]
"""parameters, validation (metrics), score (larger is better), seconds, and what else the search writes down."""


class TrialJournal:
    """The trials of one search, called ``name``, in a file that may hold those of others; without a file none is kept.

    A line is written, and flushed to disk, when its trial is finished; a line that was cut off by a crash is ignored.
    """

    def __init__(self, path: str | Path | None, name: str) -> None:
        self._path = None if path is None else Path(path).expanduser()
        self._name = name

    def read(self, objective: Set[str]) -> dict[str, Trial]:
        """Trials by `trial_key`, in the order in which they were made; those judged by other metrics are left out."""
        trials = self.all()
        alike = [trial for trial in trials if set(trial["validation"]) == objective]
        if len(alike) < len(trials):
            log.warning("%d trials were judged by other metrics and do not count", len(trials) - len(alike))
        return {trial_key(trial["parameters"]): trial for trial in alike}

    def all(self) -> list[Trial]:
        """Every trial of this search in the order in which they were made, repeated and failed ones too."""
        return [trial for trial in self._lines() if trial.pop("search") == self._name]

    def add(self, trial: Trial) -> None:
        """Write down a finished trial."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"search": self._name, **trial})
        with self._path.open("ab+") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # cut off by a crash
                    line = "\n" + line
            file.write(f"{line}\n".encode())
            file.flush()
            os.fsync(file.fileno())

    def _lines(self) -> list[Trial]:
        if self._path is None or not self._path.exists():
            return []
        found: list[Trial] = []
        for number, line in enumerate(self._path.read_bytes().splitlines(), 1):
            try:
                trial = json.loads(line)
            except ValueError:
                log.warning("%s, line %d is cut off and does not count", self._path, number)
                continue
            if not isinstance(trial, dict) or not {"search", "parameters", "validation", "score"} <= trial.keys():
                raise DataError(
                    f"{self._path}, line {number} is no trial of a search: expected a journal that tastespace tune has "
                    "written. Name another file, or remove this one."
                )
            found.append(trial)
        return found


def trial_key(parameters: Mapping[str, Any]) -> str:
    """Parameters as text, the same for lists and tuples.

    >>> trial_key({"b": (1, 2), "a": None})
    '{"a": null, "b": [1, 2]}'
    """
    return json.dumps(parameters, sort_keys=True)
