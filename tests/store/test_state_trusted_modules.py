"""Which modules a model file may make Python import."""

import json
import sys

import pytest

from tastespace import load, synthetic
from tastespace._util.model_files import checksum
from tastespace.errors import ModelFileError, ParameterError
from tastespace.store import inspect, save

HELPER = """
from pathlib import Path
from tastespace import MostPopular

Path("imported").touch()


class Mine(MostPopular):
    pass
"""


def seal(path, change):
    content = json.loads((path / "model.json").read_text())
    change(content)
    content["crc32"] = "0" * 8
    text = json.dumps(content, indent=1) + "\n"
    (path / "model.json").write_text(text.replace('"crc32": "00000000"', f'"crc32": "{checksum(text.encode())}"', 1))


@pytest.fixture
def of_helper(tmp_path, monkeypatch, new):
    """A model whose class is in a module of the working directory that was not imported."""
    save(new, tmp_path / "model")
    (tmp_path / "untrusted_helper.py").write_text(HELPER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "untrusted_helper", raising=False)
    seal(tmp_path / "model", lambda content: content.update({"class": "untrusted_helper:Mine"}))
    yield tmp_path / "model"
    sys.modules.pop("untrusted_helper", None)


def test_a_file_does_not_import_a_module(of_helper):
    with pytest.raises(ModelFileError, match=r"untrusted_helper:Mine.*trust='untrusted_helper'"):
        load(of_helper)
    with pytest.raises(ModelFileError):
        load(of_helper, trust=["other", "untrusted"])
    with pytest.raises(ModelFileError):
        inspect(of_helper, verify=True)
    assert inspect(of_helper)["class"] == "untrusted_helper:Mine"
    assert not (of_helper.parent / "imported").exists()


def test_nor_does_a_model_inside_another(of_helper):
    def hide(content):
        content["class"] = "popular"
        content["learned"]["item_scores_"] = [{"a": {"$model": "untrusted_helper:Mine", "parameters": {}}}]

    seal(of_helper, hide)
    with pytest.raises(ModelFileError, match="untrusted_helper"):
        load(of_helper)
    assert not (of_helper.parent / "imported").exists()


@pytest.mark.parametrize("trust", ["untrusted_helper", ["a", "untrusted_helper"], True])
def test_modules_that_the_caller_trusts_are_imported(of_helper, trust):
    assert type(load(of_helper, trust=trust)).__name__ == "Mine"
    assert (of_helper.parent / "imported").exists()
    assert type(load(of_helper)).__name__ == "Mine"  # imported already


@pytest.mark.parametrize("trust", [3, [1], "", None])
def test_trust_is_checked(of_helper, trust):
    with pytest.raises(ParameterError, match="trust="):
        load(of_helper, trust=trust)


def test_the_command_line(of_helper):
    from typer.testing import CliRunner

    from tastespace.cli.app import app

    refused = CliRunner().invoke(app, ["recommend", str(of_helper), "1"])
    assert isinstance(refused.exception, ModelFileError)
    user = str(synthetic.multi_interest(n_users=40, n_items=30, n_interactions=500, seed=1).interactions.users[0])
    done = CliRunner().invoke(app, ["--trust", "untrusted_helper", "recommend", str(of_helper), user])
    assert done.exit_code == 0, done.output
    missing = CliRunner().invoke(app, ["--trust", "no_such_module", "inspect", str(of_helper)])
    assert isinstance(missing.exception, ParameterError)
