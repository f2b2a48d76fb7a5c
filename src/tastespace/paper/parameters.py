"""Parameters that a search found on validation data, per data set and method.

`parameters.json` beside this file holds those that come with the library; it is read only. `tastespace tune --store`
writes to the user's own file, `user_file`, or to a file that is named. An entry of the user's file replaces the
library's entry for the same data set and method.
"""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock
from platformdirs import user_data_path

from tastespace._util.atomic import atomic_write
from tastespace.data.cold_start import SUFFIX
from tastespace.errors import DataError
from tastespace.models import registry

Table = dict[str, dict[str, Any]]
"""Data set -> method -> parameters, validation metrics and the budget spent."""

PRETRAINED = "+pt"
"""Behind the name of a model with content: its preferences were trained before."""
VARIABLE = "TASTESPACE_PARAMETERS"
"""Environment variable that names another user's file."""
_PACKAGE_FILE = Path(__file__).with_name("parameters.json")
_SAME_SPLIT = ("xing-2017",)
"""Data sets whose warm part is split alike with cold-start users and items and without."""


def user_file() -> Path:
    """The user's own parameters: ``TASTESPACE_PARAMETERS``, else parameters.json in the user's data folder."""
    given = os.environ.get(VARIABLE)
    return Path(given).expanduser() if given else user_data_path("tastespace") / "parameters.json"


def stored_entries() -> Table:
    """Everything stored: the library's entries with the user's on top."""
    packaged, own = _package_entries(), _read(user_file())
    return {dataset: {**packaged.get(dataset, {}), **own.get(dataset, {})} for dataset in {**packaged, **own}}


def stored_parameters(dataset: str, method: str) -> dict[str, Any]:
    """The stored parameters, or none where no search was stored.

    Those of a plain data set are used for ``<name>-cold`` only where they were found without its test part and its
    cold-start users and items; those of joint training are used for pre-training where that was not searched itself.
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


def store(dataset: str, method: str, entry: dict[str, Any], file: str | Path | None = None) -> Path:
    """Write the outcome of a search to a file, by default `user_file`; gives its path.

    Searches that run at the same time do not lose each other's outcome: the file is locked and replaced as a whole.
    """
    path = user_file() if file is None else Path(file).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(path.name + ".lock")):
        table = _read(path)
        table.setdefault(dataset, {})[method] = entry
        ordered = {name: dict(sorted(table[name].items())) for name in sorted(table)}
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    return path


def _entry(dataset: str, method: str) -> dict[str, Any] | None:
    plain, table = dataset.removesuffix(SUFFIX), stored_entries()
    joint = method.removesuffix(PRETRAINED)
    names = (dataset, plain) if plain in _SAME_SPLIT or _learns_from_content(joint) else (dataset,)
    entries = (table.get(name, {}).get(one) for one in (method, joint) for name in names)
    return next(filter(None, entries), None)


def _learns_from_content(method: str) -> bool:
    """Such a method is searched with cold-start users and items, whichever name of the data it is given."""
    return bool(getattr(registry().get(method), "learns_from_content", False))


@lru_cache(maxsize=1)
def _package_entries() -> Table:
    return _read(_PACKAGE_FILE)


def _read(file: Path) -> Table:
    try:
        table: Table = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as problem:
        raise DataError(
            f"{file} should hold stored parameters, but it is no JSON: {problem}. Mend it or remove it."
        ) from problem
    return table
