"""A module's name says what it holds: no two modules of the package share a base name without a reason."""

from collections import defaultdict
from pathlib import Path

import pytest

import tastespace

SOURCE = Path(tastespace.__file__).parent

# Base names that several modules or folders may share, because they are the same thing for different subjects.
ALLOWED = {
    "cold_start": "data/ splits off cold-start users and items, evaluation/ measures models on them",
    "datasets": "data/datasets/ holds the named data sets, cli/datasets.py is the command that lists them",
    "serve": "serve/ is the server, cli/serve.py the command that starts it",
    "paper": "paper/ holds the experiments, cli/paper.py the commands that run them",
}


def shared_names() -> dict[str, list[str]]:
    """Base names of modules and folders that occur more than once, with the paths."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.parent.name if path.name == "__init__.py" else path.stem
        found[name].append(str(path.relative_to(SOURCE)))
    return {name: paths for name, paths in found.items() if len(paths) > 1}


@pytest.mark.parametrize(("name", "paths"), shared_names().items())
def test_a_shared_base_name_has_a_reason(name: str, paths: list[str]) -> None:
    assert name in ALLOWED, f"{', '.join(paths)} share the name {name!r}: rename one, or say in ALLOWED why not."


def test_the_experiments_of_the_paper_have_few_modules() -> None:
    modules = [path for path in (SOURCE / "paper").rglob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= 20


def test_every_exception_is_needed() -> None:
    assert sorted(ALLOWED.keys() - shared_names().keys()) == []
