"""Parameters that a search found on validation data, per data set and method: parameters.json beside this file."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

from tastespace.data.cold import SUFFIX

_FILE = Path(__file__).with_name("parameters.json")


def stored_parameters(dataset: str, method: str) -> dict[str, Any]:
    """The stored parameters, or none where no search was stored."""
    plain = dataset.removesuffix(SUFFIX)  # the same data, some of it held out
    entry = _read().get(plain, {}).get(method)
    return {} if entry is None else dict(entry["parameters"])


def stored_entries() -> dict[str, dict[str, Any]]:
    """Everything stored: data set -> method -> parameters, validation figures and the budget spent."""
    return _read()


def store(dataset: str, method: str, entry: dict[str, Any], file: Path = _FILE) -> None:
    """Write down the outcome of a search; searches that run side by side do not lose each other's."""
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        table = _read(file)
        table.setdefault(dataset, {})[method] = entry
        ordered = {d: dict(sorted(table[d].items())) for d in sorted(table)}
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
        partial.replace(file)


def _read(file: Path = _FILE) -> dict[str, dict[str, Any]]:
    if not file.exists():
        return {}
    table: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return table
