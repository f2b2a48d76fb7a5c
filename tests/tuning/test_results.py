"""Files of parameters, and what is refused in them."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace.errors import ParameterError
from tastespace.tuning import read_params, write_params


def test_values_come_back(tmp_path):
    params = {"dcrs": None, "dim": np.int64(8), "margin": 0.5, "sampler": "hard"}
    write_params(tmp_path / "p.toml", "dpcml", params, {"metric": "NDCG@10"})
    assert read_params(tmp_path / "p.toml") == ("dpcml", {"dcrs": None, "dim": 8, "margin": 0.5, "sampler": "hard"})
    write_params(tmp_path / "q.toml", "blend:cml+ease", {"cml__dim": 4, "weights": (0.5, 0.5)}, {})
    assert read_params(tmp_path / "q.toml", "blend:cml+ease").params == {"cml__dim": 4, "weights": [0.5, 0.5]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = ", "is not TOML"),
        ("dim = 3", "expected a file that tastespace tune --out has written"),
        (
            'model = "ease"\n[params]\nregularisation = 3',
            r"EASE has no parameter 'regularisation'.*Did you mean regularization",
        ),
        ('model = "ease"\n[params]\nregulation = 3', "Did you mean regularization?"),
        ('model = "eese"\n[params]\n', "Did you mean ease"),
        ('model = "als"\n[params]\n', "holds parameters of als, not of ease"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path, text, message):
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(ParameterError, match=message) as problem:
        read_params(tmp_path / "p.toml", "ease" if "als" in text else None)
    assert "p.toml" in str(problem.value)


def test_a_missing_file(tmp_path):
    with pytest.raises(ParameterError, match=r"none\.toml: cannot be read"):
        read_params(tmp_path / "none.toml")
