"""Options for reading a table: one list of names, one set of defaults, and clear errors for unknown names."""

import dataclasses
import inspect

import polars as pl
import pytest

import tastespace as ts
from tastespace.cluster import fit_files
from tastespace.data.reading import options as module
from tastespace.data.reading.options import FileArguments, FrameArguments, IdArguments, ReadOptions, TableArguments
from tastespace.errors import ParameterError

FIELDS = {field.name: field for field in dataclasses.fields(ReadOptions)}


def test_the_arguments_of_public_functions_are_the_fields():
    names = [set(kind.__annotations__) for kind in (IdArguments, TableArguments, FrameArguments, FileArguments)]
    assert names[0] < names[1] < names[2] < names[3] == set(FIELDS)
    for kind in (IdArguments, TableArguments, FrameArguments, FileArguments):
        assert kind.__required_keys__ == frozenset()  # a field's default counts where nothing is given


def test_every_option_is_described():
    text = inspect.getsource(ReadOptions)
    for name in FIELDS:
        after = text.split(f"\n    {name}: ", 1)[1].split("\n", 1)[1]
        assert after.lstrip().startswith('"""'), name


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda path, frame: ts.Interactions.from_frame(frame, min_users=2),
            r"^from_frame has no argument 'min_users'; it takes user, item, .*\. Did you mean min_user",
        ),
        (
            lambda path, frame: ts.Interactions.from_frame(frame, delimiter=","),
            r"^from_frame has no argument 'delimiter'; it takes user, item, .*, threads\.",
        ),
        (
            lambda path, frame: ts.Interactions.from_file(path, delimeter=","),
            r"^from_file has no argument 'delimeter'; .* Did you mean delimiter",
        ),
        (
            lambda path, frame: ts.Interactions.from_files([path], users="user"),
            r"^from_files has no argument 'users'; .* Did you mean user",
        ),
        (
            lambda path, frame: ts.Interactions.from_recbole(path, catalogue=[1]),
            r"^from_recbole has no argument 'catalogue'; .* Did you mean catalog",
        ),
        (
            lambda path, frame: ts.fit(frame, timestamps="t"),
            r"^fit has no argument 'timestamps'; of a frame it takes user, .* Did you mean timestamp",
        ),
        (
            lambda path, frame: ts.tune("ease", frame, wieght="t", trials=1),
            r"^tune has no argument 'wieght'; of a frame it takes user, .* Did you mean weight",
        ),
        (
            lambda path, frame: fit_files(ts.DPCML(), path, "inline", rating="stars"),
            r"^fit_files has no argument 'rating'; it takes user, item, min_user, min_item\.",
        ),
    ],
)
def test_an_unknown_option_is_named_with_the_nearest(tmp_path, call, message):
    frame = pl.DataFrame({"user": [1, 2], "item": [3, 4]})
    path = tmp_path / "clicks.csv"
    frame.write_csv(path)
    with pytest.raises(ParameterError, match=message):
        call(path, frame)


def test_columns_have_numbers_in_files_only(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("1,3\n2,4\n")
    assert ts.Interactions.from_file(path, user=1, item=2).items_of(1) == [3]
    with pytest.raises(ParameterError, match=r"^user=1: expected the name of a column, as text\.$"):
        ts.Interactions.from_frame(pl.read_csv(path, has_header=False), user=1, item=2)


def test_the_columns_that_a_file_is_read_for():
    layout = ReadOptions(user="u", item="i", rating="stars", weight="stars", timestamp="at", delimiter=";").layout()
    assert layout == module.FileLayout(";", None, None, ("u", "i"), ("stars", "stars", "at"), ("at",))
    assert ReadOptions(weight="at", timestamp="at").layout().dates == ()


def test_attributes_that_are_given_replace_those_of_recbole(tmp_path):
    (tmp_path / "a.inter").write_text("user_id:token\titem_id:token\n1\t3\n2\t4\n")
    (tmp_path / "a.item").write_text("item_id:token\ttitle:token\n3\tjam\n4\ttea\n")
    assert ts.Interactions.from_recbole(tmp_path).item_attributes["title"].to_list() == ["jam", "tea"]
    own = pl.DataFrame({"item": [3, 4], "title": ["rye", "fig"]})
    data = ts.Interactions.from_recbole(tmp_path, item_attributes=own, catalog=[3, 4, 5])
    assert data.item_attributes["title"].to_list() == ["rye", "fig", None]
