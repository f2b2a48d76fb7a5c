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


ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "benchmarks").glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if "generated" not in path.relative_to(ROOT).parts
)
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`[^`\n]+`")


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", CODE_BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files_of_the_repository(name):
    """On a code host there is no built site: nothing that a build generates may be linked."""
    page = ROOT / name
    text = CODE_SPAN.sub("", CODE_BLOCK.sub("", page.read_text(encoding="utf-8")))
    found = re.findall(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"", text)
    for target in filter(None, (first or second for first, second in found)):
        if re.match(r"https?:|mailto:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), f"{name}: {target}"
        assert "generated" not in there.relative_to(ROOT).parts, f"{name}: {target} exists only after a build"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{name}: {target}"


@pytest.mark.parametrize("name", [name for name in PAGES if "{toctree}" in (ROOT / name).read_text(encoding="utf-8")])
def test_index_pages_can_be_read_without_a_build(name):
    """A code host shows no toctree: the pages in it are links as well."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"^(```|:::+)\{(?!toctree)", text, re.MULTILINE), f"{name}: a directive of the site"
    links = {(ROOT / name).parent.joinpath(link).resolve() for link in re.findall(r"\]\(([^)#\s]+)", text)}
    for block in re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for entry in block.split("\n"):
            if entry and not entry.startswith(":") and "generated/" not in entry and "*" not in entry:
                page = ROOT / "docs" / entry[1:] if entry.startswith("/") else (ROOT / name).parent / entry
                assert page.with_name(f"{page.name}.md").resolve() in links, f"{name}: {entry}"


@pytest.mark.parametrize("name", [name for name in PAGES if not name.startswith(("CHANGELOG", "docs/results/"))])
def test_files_that_pages_name_exist(name):
    """Paths in code spans, such as `models/base.py`: of the repository, of the package or of the kernels."""
    folders = (ROOT, SOURCE, ROOT / "native", ROOT / "native" / "train", ROOT / "docs")
    text = CODE_BLOCK.sub("", (ROOT / name).read_text(encoding="utf-8"))
    for path in re.findall(r"`((?:[\w.-]+/)+(?:\w+\.(?:py|pyi|cpp|hpp|ts|md))?|\w+\.[ch]pp)`", text):
        assert any((folder / path).exists() for folder in folders), f"{name}: {path}"


@pytest.mark.parametrize(
    "name", ["reference/models", "explanation/metrics", "explanation/papers-claims", "explanation/about-the-paper"]
)
def test_tables_of_pages_are_those_of_the_code(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_site"))
    pages = importlib.import_module("generated_pages")
    assert name in pages.PAGES_WITH_TABLES
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert pages.with_tables(text) == text, "run python docs/_site/generated_pages.py"
