"""Examples in docstrings and pages are run, links lead somewhere, the library never prints."""

import ast
import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import tastespace

SOURCE = Path(tastespace.__file__).parent
WITH_PEERS = ("tastespace.adapters.lenskit_component", "tastespace.adapters.rectools_model")
"""Their examples run in tests/adapters/peer_checks, where the peers are installed."""
MODULES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages([str(SOURCE)], "tastespace.")
    if not name.startswith("tastespace._native") and name not in WITH_PEERS
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_the_library_never_prints():
    for path in SOURCE.rglob("*.py"):
        if "cli" not in path.relative_to(SOURCE).parts:
            calls = [n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
            assert not any(isinstance(f, ast.Name) and f.id == "print" for f in calls), path


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/tour.md",
        "docs/cold-start.md",
        "docs/models.md",
        "docs/how-to/vector-database.md",
        "docs/how-to/other-libraries.md",
    ],
)
def test_pages_run_as_they_stand(page, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    blocks = (Path(__file__).parents[1] / page).read_text(encoding="utf-8").split("```python\n")[1:]
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block.partition("```")[0], page, "exec"), names)
    for sign in ("no feature at all", "were not there in training"):  # examples whose content says something
        assert sign not in caplog.text


def test_links_between_pages_lead_somewhere():
    root = Path(__file__).parents[1]
    for page in (*root.glob("*.md"), *(root / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"
