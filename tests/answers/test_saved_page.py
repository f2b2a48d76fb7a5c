"""The page as one file, and its build."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.required_services import skip_without_service

from tastespace.answers.saved_page import PAGE, whole_page
from tastespace.errors import ParameterError, UnknownIdError

from .conftest import EVIL

ROOT = Path(__file__).parents[2]


def data_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="tastespace-data">(.*?)</script>', text)[1])


def test_a_page_holds_what_was_asked_for(page_model, ease, tmp_path):
    path = page_model.save_page(tmp_path / "new" / "town.html", [7, 5], compare=ease)
    text, data = path.read_text(encoding="utf-8"), data_of(path)
    assert [one["user"] for one in data["people"]] == [7, 5]
    assert EVIL in data["map"]["titles"]
    assert "<img" not in text  # titles cannot become elements
    assert not re.search(r'(src|href)="(?!data:)', text)  # nothing is loaded
    assert "default-src 'none'" in text
    best = page_model.recommend(7, 10)["item"].to_list()
    assert [one["item"] for one in data["people"][0]["pool"][:10]] == best
    assert data["people"][0]["other"][0]["item"] == ease.recommend(7, 1)["item"][0]
    sampled = data_of(page_model.save_page(tmp_path / "sample.html", n_users=3))
    assert len(sampled["people"]) == 3
    plain = data_of(ease.save_page(tmp_path / "ease.html", [7]))
    assert plain["people"][0]["interests"]["interests"] == []
    assert plain["model"]["can"]["mix"] == ["nearest"]


def test_bad_arguments(page_model, tmp_path):
    with pytest.raises(UnknownIdError, match="not in the model"):
        page_model.save_page(tmp_path / "a.html", ["nobody"])
    with pytest.raises(ParameterError, match=r"\.html"):
        page_model.save_page(tmp_path / "a.txt", [7])
    with pytest.raises(ParameterError, match="empty"):
        page_model.save_page(tmp_path / "a.html", [])
    with pytest.raises(ParameterError, match="n_users"):
        page_model.save_page(tmp_path / "a.html", n_users=0)
    assert list(tmp_path.iterdir()) == []


def test_the_built_page_is_that_of_the_source(tmp_path):
    if shutil.which("node") is None or not (ROOT / "page" / "node_modules" / "esbuild").is_dir():
        skip_without_service("node, or what `npm ci` installs in page/, is not here")
    subprocess.run(["node", str(ROOT / "page" / "build.mjs"), "--out", str(tmp_path)], check=True, timeout=120)
    built = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    here = {path.relative_to(PAGE).as_posix(): path.read_bytes() for path in PAGE.rglob("*") if path.is_file()}
    assert built == here, "the built page is not that of page/: run `make page`"


def test_the_page_is_small_and_names_no_other_host():
    files = [path for path in PAGE.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 200_000
    for path in files:
        hosts = set(re.findall(r"https?://([\w.-]+)", path.read_text(encoding="utf-8")))
        assert hosts <= {"www.w3.org"}, path  # the name of SVG's elements
    assert "</script" not in re.sub(r"</script>\n", "", whole_page({"a": "</script>"}, "t")).split("tastespace-data")[1]
    lock = (ROOT / "page" / "package-lock.json").read_text(encoding="utf-8")
    assert "resolved" not in lock
