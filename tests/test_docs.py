"""Examples in docstrings are run (those of pages: test_pages.py), links lead somewhere, the library never prints."""

import ast
import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import tastespace

SOURCE = Path(tastespace.__file__).parent
WITH_PEERS = ("tastespace.adapters.lenskit", "tastespace.adapters.rectools")
"""Their examples run in tests/adapters/peer_checks, where the peers are installed."""
MODULES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages([str(SOURCE)], "tastespace.")
    if not name.startswith("tastespace._native") and name not in WITH_PEERS
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name):
    module = importlib.import_module(name)
    failed, attempted = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0
    assert attempted > 0 or ">>> " not in Path(str(module.__file__)).read_text(encoding="utf-8")


def test_the_library_never_prints():
    for path in SOURCE.rglob("*.py"):
        if "cli" not in path.relative_to(SOURCE).parts:
            calls = [n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
            assert not any(isinstance(f, ast.Name) and f.id == "print" for f in calls), path


def test_links_between_pages_lead_somewhere():
    """Without a build of the site, which checks anchors as well; what is generated is there after one."""
    root = Path(__file__).parents[1]
    for page in (*root.glob("*.md"), *(root / "docs").rglob("*.md")):
        if "generated" in page.relative_to(root).parts:
            continue
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            is_made = "generated/" in target
            assert target.startswith("http") or is_made or (page.parent / target).exists(), f"{page}: {target}"
