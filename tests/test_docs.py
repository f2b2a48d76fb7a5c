"""Examples in docstrings are run; the house's one-way imports are kept."""

import ast
import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import tastespace

SOURCE = Path(tastespace.__file__).parent
MODULES = sorted(
    name
    for _, name, _ in pkgutil.walk_packages([str(SOURCE)], "tastespace.")
    if not name.startswith("tastespace._native")
)
# A room may import from itself and from rooms further down; the base class reaches up inside functions only.
ROOMS = ["cli", "paper", "plots", "recommend", "store", "evaluation", "models", "training", "data"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    parts = path.relative_to(SOURCE).parts
    if parts[0] not in ROOMS:
        return
    own = ROOMS.index(parts[0])
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tastespace."):
            room = node.module.split(".")[1]
            assert room not in ROOMS or ROOMS.index(room) >= own, f"{path.name} imports {node.module}, a room above"


def test_the_library_never_prints():
    for path in SOURCE.rglob("*.py"):
        if "cli" not in path.relative_to(SOURCE).parts:
            calls = [n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
            assert not any(isinstance(f, ast.Name) and f.id == "print" for f in calls), path


@pytest.mark.parametrize("page", ["README.md", "docs/tour.md", "docs/cold-start.md"])
def test_pages_run_as_they_stand(page, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    blocks = (Path(__file__).parents[1] / page).read_text(encoding="utf-8").split("```python\n")[1:]
    assert len(blocks) >= 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block.partition("```")[0], page, "exec"), names)
    for sign in ("no feature at all", "were not there in training"):  # examples whose content says something
        assert sign not in caplog.text


def test_links_between_pages_lead_somewhere():
    root = Path(__file__).parents[1]
    for page in (*root.glob("*.md"), *(root / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"
