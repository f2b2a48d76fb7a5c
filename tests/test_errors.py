"""Errors carry their arguments, through pickles too, and each interface can word them."""

import pickle

import numpy as np
import pytest

import tastespace as ts
from tastespace.errors import Argument, Call, DataError, NotFittedError, ParameterError, UnknownIdError


def test_a_message_is_made_of_its_parts():
    problem = ParameterError(
        Argument("mix", "scaled"), " with ", Argument("column"), "; ", Call("model.f()"), " helps."
    )
    assert str(problem) == "mix='scaled' with column=; model.f() helps."
    assert [(one.name, one.is_given) for one in problem.arguments] == [("mix", True), ("column", False)]
    assert problem.worded(lambda part: "X") == "X with X; X helps."
    assert repr(problem) == f"ParameterError({str(problem)!r})"


@pytest.mark.parametrize("kind", [ParameterError, DataError, UnknownIdError, NotFittedError])
def test_plain_messages_are_shown_as_they_are(kind):
    assert str(kind("'a' is missing.")) == "'a' is missing."
    assert str(kind()) == ""


def test_errors_travel_with_values_that_do_not():
    problem = DataError(Argument("filter", lambda frame: frame), Argument("k", 3), Argument("items"), " failed.")
    other = pickle.loads(pickle.dumps(problem))
    assert str(other) == str(problem)
    assert [one.value for one in other.arguments[1:]] == [3, ""]
    assert not other.arguments[2].is_given


def test_long_values_are_shown_in_part():
    assert len(str(Argument("users", list(range(10_000))))) < 100
    assert str(Argument("k", 10**5000)).startswith("k=2**")


def test_an_error_of_a_call_names_its_argument_and_its_value(shop_model):
    for options, name in (({"k": 0}, "k"), ({"mix": "no"}, "mix"), ({"on_unknown": 3}, "on_unknown")):
        with pytest.raises(ParameterError) as found:
            shop_model.recommend(**options)
        assert (found.value.arguments[0].name, found.value.arguments[0].value) == (name, options[name])


@pytest.fixture(scope="module")
def shop_model():
    town = ts.synthetic.multi_interest(n_users=30, n_items=20, n_interactions=300, seed=0).interactions
    return ts.DPCML(dim=4, epochs=1, seed=0).fit(town)


def test_a_filter_is_shown_by_its_name(shop_model):
    def broken(frame):
        return frame["nothing"]

    with pytest.raises(DataError, match=r"^filter=<broken>: no column"):
        shop_model.recommend(filter=broken)
    with pytest.raises(DataError, match=r"^filter=<ndarray> "):
        shop_model.recommend(filter=np.ones(3))
