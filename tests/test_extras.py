"""The table of extras and the hints for missing packages."""

import re
import sys
from pathlib import Path

import pytest

from tastespace import models
from tastespace._util.extras import EXTRAS, missing
from tastespace.errors import ParameterError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]


def test_extras_are_those_of_the_package():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    of_tests = declared.pop("test")
    assert {name: list(extra.packages) for name, extra in EXTRAS.items()} == declared
    included = re.fullmatch(r"tastespace\[(.+)\]", of_tests[0])
    assert included is not None
    assert set(included[1].split(",")) == EXTRAS.keys() - {"lenskit", "rectools"}  # they have environments of their own
    named = {re.split(r"[<>=\[;]", package)[0] for extra in EXTRAS.values() for package in extra.packages}
    repeated = {re.split("[<>=;]", package)[0] for package in of_tests[1:]} & named
    assert repeated == set()


def test_no_other_hint_is_given():
    for path in (ROOT / "src").rglob("*.py"):
        if path.name != "extras.py":
            assert not re.search(r"pip install|tastespace\[", path.read_text(encoding="utf-8")), path


def test_pages_have_every_model_and_every_extra():
    page = (ROOT / "docs" / "models.md").read_text()
    for one in models.table():
        assert f"| `{one.name}` | `{one.class_name}` | {one.family} | {one.extra or ''} |" in page
    for name, extra in EXTRAS.items():
        assert f"| {name} | {extra.purpose} | `{extra.command}` |" in page


@pytest.mark.parametrize(
    ("module", "call", "extra"),
    [
        ("torch", lambda: __import__("tastespace.models.neural.base", fromlist=["x"]).require_torch("GMF"), "neural"),
        ("faiss", lambda: __import__("tastespace.recommend.stores.vectors", fromlist=["x"]).import_faiss(), "ann"),
        ("matplotlib.figure", lambda: __import__("tastespace.plots.canvas", fromlist=["x"]).new_figure(1, 1), "plots"),
        ("jinja2", lambda: __import__("tastespace.paper.report", fromlist=["x"])._environment(), "paper"),
    ],
)
def test_hints_name_packages_rather_than_a_clone(monkeypatch, module, call, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ParameterError, match=re.escape(f"{EXTRAS[extra].command} (the {extra} extra)")):
        call()


def test_every_extra_of_a_model_is_known():
    assert {one.extra for one in models.table()} - {None} <= EXTRAS.keys()
    assert str(missing("tune", "x", "y.")) == 'x, which is not installed: pip install "optuna>=4" (the tune extra). y.'
