"""Workflows, templates and CITATION.cff: they parse, ask for few rights, and name commands and files that exist."""

import re
import sys
from pathlib import Path

import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def jobs(path):
    return read(path)["jobs"].items()


def steps(path):
    return [step for _, job in jobs(path) for step in job["steps"]]


def make_targets():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_what_exists_and_may_do_little(path):
    assert read(path)["permissions"] == {"contents": "read"}
    for name, job in jobs(path):
        assert job["timeout-minutes"] <= 120
        given = job.get("permissions", {})
        allowed = {"id-token": "write", "attestations": "write"} if name == "publish" else {}
        assert given == allowed, name
        assert set(job.get("needs", [])) <= set(read(path)["jobs"]) or job["needs"] in read(path)["jobs"]
    commands = [step["run"] for step in steps(path) if "run" in step]
    assert commands
    for command in commands:
        program, target, *variables = command.split()
        assert program == "make", f"{command!r}: what a workflow runs is a target of the Makefile"
        assert target in make_targets()
        assert all(re.fullmatch(r"PYTHON=python", variable) for variable in variables)
    for patterns in (read(path)[True] or {}).values():  # YAML 1.1 reads the key `on` as true
        for pattern in (patterns or {}).get("paths", []):
            assert list(ROOT.glob(pattern)), f"{path.name}: no file is like {pattern}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_to_a_commit_whose_version_is_said(path):
    used = re.findall(r"uses: *(.+)", path.read_text(encoding="utf-8"))
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}


def test_only_a_version_tag_publishes_what_all_other_jobs_built():
    publish = read(GITHUB / "workflows" / "wheels.yml")["jobs"]["publish"]
    assert publish["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert set(publish["needs"]) == {"sdist", "wheels"}
    assert not any("password" in str(step) or "secrets." in str(step) for step in publish["steps"])


def test_wheels_are_built_and_tested_for_all_supported_versions():
    built = PROJECT["tool"]["cibuildwheel"]
    assert built["build"].split() == [f"cp3{minor}-*" for minor in range(10, 15)]
    assert PROJECT["project"]["requires-python"] == ">=3.10"
    named = re.findall(r"\{project\}/(\S+)", " ".join(built["test-command"]))
    assert len(named) == 4
    assert all((ROOT / path).exists() for path in named)
    systems = read(GITHUB / "workflows" / "wheels.yml")["jobs"]["wheels"]["strategy"]["matrix"]["os"]
    assert {"ubuntu-24.04", "ubuntu-24.04-arm", "macos-15", "macos-15-intel"} == set(systems)


def test_the_citation_has_the_version_and_license_of_the_package():
    citation = read(ROOT / "CITATION.cff")
    assert str(citation["version"]) == PROJECT["project"]["version"]
    assert citation["license"] == PROJECT["project"]["license"]
    assert {"cff-version", "message", "title", "authors"} <= set(citation)


def test_make_check_names_tests_that_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    run = re.search(r"^CHECK := (.+)$", makefile, re.MULTILINE)
    ignored = re.search(r"^NOT_CORE := \$\(addprefix --ignore=tests/,(.+)\)$", makefile, re.MULTILINE)
    assert run is not None
    assert ignored is not None
    assert all((ROOT / path).exists() for path in run[1].split())
    assert all((ROOT / "tests" / path).is_file() for path in ignored[1].split())


def test_issue_forms_and_dependabot_parse():
    forms = [path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    assert len(forms) >= 3
    for path in forms:
        form = read(path)
        assert {"name", "description", "body"} <= set(form), path.name
        fields = [field["id"] for field in form["body"]]
        assert len(fields) == len(set(fields))
        assert any(field.get("validations", {}).get("required") for field in form["body"])
    updates = read(GITHUB / "dependabot.yml")["updates"]
    assert {update["package-ecosystem"] for update in updates} == {"github-actions", "pip", "npm", "docker"}
    assert all((ROOT / update["directory"].strip("/")).is_dir() for update in updates)


def locked(path):
    """Versions of a lock file by package; every one has hashes."""
    found = {}
    for entry in re.split(r"\n(?=[a-z])", path.read_text(encoding="utf-8").partition("\n")[2].replace("\\\n", "")):
        match = re.match(r"([a-z0-9.-]+)(?:\[\w+\])?==([\w.]+)", entry)
        if match is not None:
            assert "--hash=sha256:" in entry, entry[:80]
            found[match[1]] = match[2]
    return found


def test_the_container_installs_locked_versions_that_the_package_accepts():
    from packaging.requirements import Requirement

    own = PROJECT["project"]
    extras = own["optional-dependencies"]
    needed = [Requirement(one) for one in (*own["dependencies"], *extras["serve"], *extras["postgresql"])]
    has = locked(ROOT / "deploy" / "requirements.lock")
    for one in needed:
        if one.marker is None or one.marker.evaluate({"python_version": "3.12"}):
            assert one.specifier.contains(has[one.name]), f"{one}: locked is {has[one.name]}; run make lock"
    built = locked(ROOT / "deploy" / "build.lock")
    for one in map(Requirement, PROJECT["build-system"]["requires"]):
        assert one.specifier.contains(built[one.name]), f"{one}: locked is {built[one.name]}; run make lock"
    assert {"cmake", "ninja"} <= set(built)


def test_the_image_is_pinned_and_takes_nothing_without_a_hash():
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    images = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert len(images) == 2
    assert all(re.fullmatch(r"[\w.:-]+@sha256:[0-9a-f]{64}", image) for image in images)
    for command in re.findall(r"pip (?:install|wheel)[^&\n]*", dockerfile):
        assert "--require-hashes" in command or "--no-deps" in command, command
