"""Which mix a request means, and errors for mixes that a model does not have."""

from __future__ import annotations

import numpy as np
import pytest
from tests.recommend.toy_models import Given, blend_of, space_of, taken

from tastespace import EASE
from tastespace.errors import ParameterError
from tastespace.models.list_options import ListOptions
from tastespace.ranking.scoring import ScoringIndex
from tastespace.recommend.mix import (
    PLAIN,
    Mix,
    mixes_of,
    resolve_mix,
)

pytestmark = pytest.mark.usefixtures("one_core")

BARE = taken({"ann": "ab", "bob": "c"}, "abcd")


@pytest.fixture(scope="module")
def dots():
    rng = np.random.default_rng(0)
    return Given(space_of(rng.normal(size=(2, 3, 2)), rng.normal(size=(4, 2)), "dot")).fit(BARE)


def resolved(model, **arguments):
    return resolve_mix(ScoringIndex(model, threads=1), ListOptions(**arguments))


def test_each_kind_of_model_has_its_mixes(dpcml, cml, ease, dots):
    def of(model):
        return mixes_of(ScoringIndex(model, threads=1))

    assert of(dpcml) == of(cml) == ["nearest", "scaled", "proportional", "calibrated"]
    assert of(blend_of(dpcml)) == of(dots) == ["nearest", "proportional", "calibrated"]
    assert of(ease) == ["nearest", "calibrated"]
    assert of(EASE(threads=1).fit(BARE)) == ["nearest"]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("dpcml", {}, PLAIN),
        ("dpcml", {"mix": "nearest"}, PLAIN),
        ("dpcml", {"mix": "scaled", "diversity": 0}, PLAIN),
        ("dpcml", {"mix": "scaled"}, Mix("scaled", 1.0)),
        ("dpcml", {"diversity": 0.25}, Mix("proportional", 0.25)),
        ("dpcml", {"diversity": np.float32(0.5)}, Mix("proportional", 0.5)),
        ("dpcml", {"boost": {0: 2}}, Mix("proportional", 1.0)),
        ("dpcml", {"boost": {0: 2}, "diversity": 0.5}, Mix("proportional", 0.5)),
        ("dpcml", {"column": "genres"}, Mix("calibrated", 1.0, "genres")),
        ("dpcml", {"column": "interest", "diversity": 0.5}, Mix("calibrated", 0.5, "interest")),
        ("cml", {"diversity": 0.25}, Mix("calibrated", 0.25)),
        ("ease", {"diversity": 0.25}, Mix("calibrated", 0.25)),
        ("ease", {"diversity": 0}, PLAIN),
    ],
)
def test_what_is_left_open_is_filled_in(name, arguments, expected, request):
    assert resolved(request.getfixturevalue(name), **arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mix": "proportionl"}, "mix='proportionl': expected one of nearest, scaled.*Did you mean proportional"),
        ({"mix": 3}, "mix=3: expected one of"),
        ({"diversity": 1.1}, "diversity=1.1: expected a number from 0"),
        ({"diversity": float("nan")}, "diversity=nan: expected a number from 0"),
        ({"diversity": "much"}, "diversity='much': expected a number"),
        ({"diversity": True}, "diversity=True: expected a number"),
        ({"mix": "nearest", "diversity": 0.5}, "mix='nearest' is the plain list.*scaled, proportional, calibrated"),
        ({"mix": "proportional", "column": "genres"}, "column='genres' belongs to mix='calibrated'"),
        ({"mix": "nearest", "column": "genres"}, "column='genres' belongs to mix='calibrated'"),
        ({"column": "genre"}, "column='genre': expected an item attribute.*Did you mean genres"),
    ],
)
def test_mixes_that_are_refused(dpcml, arguments, message):
    with pytest.raises(ParameterError, match=message):
        dpcml.recommend("u003", **arguments)


def test_mixes_that_a_model_does_not_have(dpcml, ease, dots):
    with pytest.raises(
        ParameterError, match=r"Given ranks by inner products. Its mixes are nearest, proportional, cal"
    ):
        dots.recommend(mix="scaled")
    with pytest.raises(
        ParameterError, match=r"Blend ranks by other scores than distances. Its mixes are nearest, prop"
    ):
        blend_of(dpcml).recommend(mix="scaled")
    with pytest.raises(ParameterError, match=r"mix='proportional' needs interests.*Its mixes are nearest, calibrated"):
        ease.recommend(mix="proportional")
    with pytest.raises(ParameterError, match=r"mix='calibrated' with column='interest' needs interests, and EASE"):
        ease.recommend(mix="calibrated", column="interest")


def test_calibration_needs_categories(dots):
    with pytest.raises(ParameterError, match=r"needs categories of items.*mix='proportional' or column='interest'"):
        dots.recommend(mix="calibrated")
    assert len(dots.recommend(k=1, mix="calibrated", column="interest")) == 2
    bare = EASE(threads=1).fit(BARE)
    with pytest.raises(ParameterError, match=r"needs categories of items, and there are none. Build the Interactions"):
        bare.recommend(mix="calibrated")
    with pytest.raises(
        ParameterError, match=r"diversity= needs several interests per user or categories.*EASE does not"
    ):
        bare.recommend(diversity=0.5)
