"""The documentation site builds without a warning, holds what it should, and a dead link fails the build."""

import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tastespace as ts
from tastespace import models
from tastespace.cli.app import COMMANDS

ROOT = Path(__file__).parents[1]


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", source, target]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """The sources of the site beside what they link to, so that a test may change them."""
    folder = tmp_path_factory.mktemp("repository")
    ignored = shutil.ignore_patterns("_build", "__pycache__")
    for name in ("docs", "examples", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "src").symlink_to(ROOT / "src")
    return folder / "docs"


@pytest.mark.slow
def test_the_site_is_built_strictly_and_complete(source, tmp_path):
    site = tmp_path / "site"
    done = build(source, site)
    assert done.returncode == 0, done.stdout + done.stderr

    pages = {str(path.relative_to(site)): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    api = "".join(text for name, text in pages.items() if name.startswith("generated/api/"))
    documented = set(re.findall(r'id="(tastespace\.[\w.]+)"', api))
    modules = {"datasets", "split", "synthetic", "__version__"}
    aliases = {f"tastespace.{name}" for name in set(ts.__all__) - modules}
    in_models = {f"tastespace.models.{one.class_name}" for one in models.table()}
    missing = {
        name for name in aliases if name not in documented and f"tastespace.models.{name[11:]}" not in documented
    }
    assert not missing
    assert in_models <= documented
    assert all(f'href="#{one.name}"' in pages["generated/commands.html"] for one in COMMANDS)
    assert all(f">{one.name}<" in pages["reference/models.html"] for one in models.table())
    assert {path.stem for path in (ROOT / "examples").glob("*.ipynb")} <= {Path(name).stem for name in pages}
    assert "no difference" in pages["explanation/papers-claims.html"]

    # Offline: nothing is loaded from elsewhere, and the search has its index beside it.
    for name, text in pages.items():
        assert not re.search(r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//', text), name
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert "how-to/tune" in json.loads(index.removeprefix("Search.setIndex(").rstrip(" ;)\n"))["docnames"]
    drawn = {path.name for path in (site / "_images").glob("*.svg")}
    assert {"one-and-several.svg", "places-by-interest.svg", "tradeoff.svg", "taste-map.svg"} <= drawn

    # A second build, with a link to a page that is not there, reads only what has changed.
    page = source / "how-to" / "tune.md"
    page.write_text(page.read_text(encoding="utf-8") + "\nSee [a page](not-there.md).\n", encoding="utf-8")
    done = build(source, site)
    assert done.returncode != 0
    assert "not-there" in done.stderr


def test_pages_of_the_api_name_what_is_there(monkeypatch):
    """A name that has moved fails here already, without a build."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_site"))
    pages = importlib.import_module("api_pages").pages()
    listed = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^/generated/(api/\w+)$", listed, re.MULTILINE)) == set(pages)


def test_every_page_has_its_place_and_the_navigation_names_no_other():
    """What a strict build would find, without a build: pages of the four kinds are in the index of their folder."""
    for kind in ("start", "how-to", "explanation", "reference"):
        index = (ROOT / "docs" / kind / "index.md").read_text(encoding="utf-8")
        named = set(re.findall(r"^(?!:)([\w-]+)$", index, re.MULTILINE))
        there = {path.stem for path in (ROOT / "docs" / kind).glob("*.md")} - {"index"}
        assert there <= named, there - named


def test_how_to_pages_say_what_comes_out_and_what_can_go_wrong():
    for path in (ROOT / "docs" / "how-to").glob("*.md"):
        text = path.read_text(encoding="utf-8")
        if path.name in ("index.md", "vector-database.md", "other-libraries.md"):
            continue
        assert "\nYou will " in text, path.name
        assert text.rindex("## What can go wrong") == text.rindex("\n## ") + 1, path.name
        assert "```python" in text or "```sh" in text, path.name
