"""One object for the options of lists: every method, the command line, HTTP and the client have the same ones."""

import functools
import inspect
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.cli.app import COMMANDS, in_flags
from tastespace.errors import Argument, ParameterError
from tastespace.models.list_options import Frame, IndexKeywords, ListKeywords, ListOptions

NAMES = [one.name for one in fields(ListOptions)]


@pytest.fixture(scope="module")
def model():
    town = ts.synthetic.multi_interest(n_users=30, n_items=40, n_interactions=400, seed=0).interactions
    return ts.DPCML(dim=4, epochs=2, n_interests=2, seed=0, threads=1).fit(town)


def test_keywords_are_the_fields_but_k():
    assert set(ListKeywords.__annotations__) == set(NAMES) - {"k"}
    assert set(ListKeywords.__annotations__) - set(IndexKeywords.__annotations__) == {"on_unknown", "titles"}


@pytest.mark.parametrize(
    ("method", "first"),
    [
        ("recommend", ["users", "k"]),
        ("recommend_to", ["path", "users", "k"]),
        ("recommend_for", ["histories", "k", "features"]),
    ],
)
def test_signatures_show_each_option_with_its_default(model, method, first):
    parameters = inspect.signature(getattr(model, method)).parameters
    assert list(parameters) == [*first, *(name for name in NAMES if name != "k")]
    for one in fields(ListOptions):
        assert parameters[one.name].default == one.default
    assert not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())


def test_each_option_is_documented_once_where_users_look():
    described = re.findall(r"^    (\w+): ", inspect.getdoc(ts.DPCML.recommend), re.MULTILINE)
    assert described == ["users", *NAMES]


def test_an_unknown_option_is_an_error_with_the_nearest_name(model, tmp_path):
    to_file = functools.partial(model.recommend_to, tmp_path / "a.csv")
    for call in (model.recommend, model.recommend_indices, model.recommend_for, to_file):
        with pytest.raises(ParameterError, match=r"has no option 'divercity'\. Did you mean diversity\?"):
            call(divercity=0.3)
    with pytest.raises(ParameterError, match=r"recommend has no option 'zzzz'\. Its options are k, exclude_seen, "):
        model.recommend(zzzz=1)
    with pytest.raises(ParameterError, match="recommend_indices has no option 'titles'"):
        model.recommend_indices(titles=True)


def test_options_do_not_change_and_equal_ones_are_equal():
    made = ListOptions.from_keywords("recommend", 5, {"mix": "scaled"})
    assert made == ListOptions(k=5, mix="scaled")
    assert hash(made) == hash(ListOptions(k=5, mix="scaled"))
    with pytest.raises(FrozenInstanceError):
        made.k = 6


def test_indices_follow_items_and_filter(model):
    allowed = np.array([3, 5, 8])
    rows, _ = model.recommend_indices([0, 1], k=3, items=model.train_.items.take(allowed).to_list(), exclude_seen=False)
    assert set(rows.ravel().tolist()) == set(allowed.tolist())
    mask = np.isin(np.arange(model.train_.n_items), allowed)
    assert np.array_equal(model.recommend_indices([0, 1], k=3, filter=mask, exclude_seen=False)[0], rows)


def test_the_command_line_has_each_option():
    command = next(one for one in COMMANDS if one.name == "recommend").load()
    flags = {one.name: one.opts[0] for one in command.params if one.opts[0].startswith("-")}
    for one in fields(ListOptions):
        changed = not one.default if isinstance(one.default, bool) else "x"
        for value in {changed, "x"} if one.name == "titles" else {changed}:
            assert in_flags(Argument(one.name, value), flags).startswith("-"), f"recommend has no flag for {one.name}"


@pytest.mark.parametrize("on_unknown", ["skip", "popular"])
def test_files_hold_the_rows_of_the_frame_for_unknown_users(model, tmp_path, on_unknown, monkeypatch):
    monkeypatch.setattr("tastespace.recommend.lists._USERS_AT_ONCE", 4)
    users = pl.Series([1, 999, 2, 3, 1, 1000, 4, 5, 999, 7])
    options = {"k": 3, "on_unknown": on_unknown, "mix": "proportional"}
    expected = model.recommend(users, **options)
    assert model.recommend_to(tmp_path / "lists.parquet", users, **options) == len(expected)
    assert pl.read_parquet(tmp_path / "lists.parquet").equals(expected)
    assert expected["user"].unique(maintain_order=True).to_list() == (
        [1, 2, 3, 4, 5, 7] if on_unknown == "skip" else [1, 999, 2, 3, 1000, 4, 5, 7]
    )


_USE = """
import narwhals as nw
import polars as pl
from tastespace.models import Recommender

def use(model: Recommender) -> None:
    found = model.recommend(["ann"], k=3)
    reveal_type(found)
    found["item"].to_list(), len(found), found.shape[0], found.groupby("user")  # of one library or another
    pl.DataFrame(found).filter(pl.col("rank") == 1)
    nw.from_native(found)
    reveal_type(model.recommend_for([["tea"]]))
    reveal_type(model.similar_items("tea"))
    found + 1  # type error: no frame of numbers
"""


@pytest.mark.slow
def test_type_checkers_see_what_all_frames_have(tmp_path):
    """Lists have a type of their own, which frames of all libraries fit and functions that take frames accept."""
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(_USE)
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", "cache", "use.py"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600).stdout
    assert said.count('Revealed type is "tastespace.models.list_options.Frame"') == 3, said
    assert said.count("error:") == 1, said
    assert 'Unsupported operand types for + ("Frame" and "int")' in said


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
def test_frames_of_each_library_have_what_their_type_says(library):
    rows = pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1]})
    pytest.importorskip(library)
    given = {"polars": lambda: rows, "pandas": rows.to_pandas, "pyarrow": rows.to_arrow}[library]()
    found = ts.EASE().fit(given).recommend(k=1)
    promised = [name for name, value in vars(Frame).items() if callable(value) or isinstance(value, property)]
    shown = ("__len__", "__getitem__", "__arrow_c_stream__")
    own = [name for name in promised if not name.startswith("_") or name in shown]
    assert len(own) >= 7
    assert all(hasattr(found, name) for name in own)
