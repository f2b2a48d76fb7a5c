"""Parameters that a search found on validation data, per data set and method: parameters.json beside this file."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

from tastespace.data.cold_start import SUFFIX
from tastespace.models import registry

_SAME_SPLIT = ("xing-2017",)
"""Data sets whose warm part is split alike with strangers and without."""
PRETRAINED = "+pt"
"""Behind the name of a model with content: its preferences were trained before."""
_FILE = Path(__file__).with_name("parameters.json")


def stored_parameters(dataset: str, method: str) -> dict[str, Any]:
    """The stored parameters, or none where no search was stored.

    Those of a plain data set serve ``<name>-cold`` only where they were found without its test part and strangers, and
    those of joint training serve pre-training where that was not searched itself.
    """
    entry = _entry(dataset, method)
    found = {} if entry is None else dict(entry["parameters"])
    if method.endswith(PRETRAINED):
        found.pop("training", None)
    return found


def stored_trials(dataset: str, method: str) -> int:
    """How many trials chose what is stored; 0 where nothing is."""
    entry = _entry(dataset, method)
    return 0 if entry is None else int(entry["trials"])


def _entry(dataset: str, method: str) -> dict[str, Any] | None:
    plain, table = dataset.removesuffix(SUFFIX), _read()
    joint = method.removesuffix(PRETRAINED)
    names = (dataset, plain) if plain in _SAME_SPLIT or _learns_from_content(joint) else (dataset,)
    entries = (table.get(name, {}).get(one) for one in (method, joint) for name in names)
    return next(filter(None, entries), None)


def _learns_from_content(method: str) -> bool:
    """Such a method is searched with strangers, whichever name of the data it is given."""
    return bool(getattr(registry().get(method), "learns_from_content", False))


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
