"""What the recipe tries, in which order, and how a search follows the figures it is sent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from tastespace import CML, DPCML, EASE, Interactions
from tastespace.models import ALS, CategoryPopular, RP3beta, SoftmaxMF, SparseEASE, Spectral
from tastespace.models.linear.ease import usual_regularization
from tastespace.recipe import _families as searches
from tastespace.recipe._families import families


def run(search, figure):
    """All models of a search, which is sent ``figure(model)`` for each."""
    tried = [next(search)]
    try:
        while True:
            tried.append(search.send(figure(tried[-1])))
    except StopIteration:
        return tried


@pytest.mark.parametrize(
    ("best", "expected"),
    [
        (30.0, [30.0, 100.0, 10.0]),
        (1000.0, [30.0, 100.0, 300.0, 1000.0]),
        (300.0, [30.0, 100.0, 300.0, 1000.0]),
        (1.0, [30.0, 100.0, 10.0, 3.0, 1.0]),
    ],
)
def test_a_line_is_followed_upwards_else_downwards_as_long_as_it_helps(data, best, expected):
    search = families(data, seed=0, threads=1)[0].search
    tried = run(search, lambda model: -abs(model.regularization - best))
    line = tried[: len(expected)]
    assert [model.regularization for model in line] == expected
    assert {(model.item_power, model.user_power) for model in line} == {(0.2, -0.25)}
    assert {model.regularization for model in tried[len(expected) :]} == {best}  # lines of the other parameters


def test_families_and_their_first_models(data):
    found = {family.name: next(family.search) for family in families(data, seed=5, threads=1)}
    kinds = [SparseEASE, EASE, DPCML, SoftmaxMF, ALS, CML, RP3beta, CategoryPopular]
    assert [type(model) for model in found.values()] == kinds
    assert found["several vectors"].n_interests == 3
    for name in ("factorization", "one vector", "several vectors", "softmax"):
        assert found[name].seed == 5
    assert all(model.get_params().get("threads", 1) == 1 for model in found.values())
    bare = replace(data, item_attributes=None)
    assert "popular by category" not in [family.name for family in families(bare, seed=5, threads=1)]


def test_families_of_a_large_sparse_catalog():
    """A matrix of 7,000 x 7,000 with three interactions: no model of all pairs, and the cheap ones come first."""
    at = ([0, 1, 2], [0, 1, 6999])
    large = Interactions.from_scipy(sp.csr_array((np.ones(3), at), shape=(7000, 7000)))
    assert searches.is_large_and_sparse(large)
    found = {family.name: next(family.search) for family in families(large, seed=5, threads=1)}
    kinds = [SparseEASE, SoftmaxMF, Spectral, RP3beta, ALS, DPCML]
    assert [type(model) for model in found.values()] == kinds
    assert (found["linear"].item_power, found["linear"].user_power) == (0.1, -0.25)
    assert found["softmax"].dim == 256


def test_the_closed_form_is_left_out_where_it_takes_too_long(data, monkeypatch):
    monkeypatch.setattr(searches, "MOST_FOR_COMPARISON", 59)
    assert "linear, all pairs" not in [family.name for family in families(data, 0, 1)]


def test_later_steps_of_a_search_keep_what_was_best_before(data):
    by_name = {family.name: family.search for family in families(data, 0, 1)}
    tried = run(
        by_name["several vectors"],
        lambda model: (model.n_negatives == 3) + (model.anchor == 1.0) + (model.n_interests == 2),
    )
    assert (tried[-1].n_negatives, tried[-1].anchor, tried[-1].n_interests) == (3, 1.0, 2)
    tried = run(by_name["factorization"], lambda model: (model.alpha == 2.0) + model.dim / 1000)
    assert {model.alpha for model in tried[2:]} == {2.0}
    assert tried[-1].dim == 512
    tried = run(by_name["one vector"], lambda model: 0.0)
    assert [(model.n_negatives, model.anchor) for model in tried] == [
        (10, 0.5),
        (30, 0.5),
        (3, 0.5),
        (10, 1.0),
        (10, 0.0),
    ]


def test_no_model_is_tried_twice(data):
    for best in (0.0, 1.0):
        for family in families(data, 0, 1):
            tried = [repr(model) for model in run(family.search, lambda model, best=best: best)]
            assert len(set(tried)) == len(tried)


def test_large_data_has_no_large_dimensions(data, monkeypatch):
    monkeypatch.setattr(searches, "_SMALL", 1)
    search = next(family.search for family in families(data, 0, 1) if family.name == "factorization")
    assert max(model.dim for model in run(search, lambda model: float(model.dim))) == 128


def test_the_closed_form_starts_where_sparse_data_needs_it(data):
    """What follows the density: an item with few users needs little regularization."""

    def first(users_per_item):
        some = data.subset(np.arange(data.n_interactions) < users_per_item * data.n_items)
        by_name = {family.name: family.search for family in families(some, 0, 1)}
        model = next(by_name["linear, all pairs"])
        assert model.regularization == pytest.approx(usual_regularization(some), rel=5e-3)
        return model.regularization

    assert first(5) < 0.5 * first(20)


def test_all_pairs_are_tried_again_with_other_regularization_where_a_power_helped(data):
    search = next(family.search for family in families(data, 0, 1) if family.name == "linear, all pairs")
    tried = run(search, lambda model: 1.0 + (model.item_power == 0.3))
    assert len({repr(model) for model in tried}) == len(tried)
    assert [(model.item_power, model.regularization) for model in tried[-2:]] == [
        (0.3, pytest.approx(factor * tried[0].regularization, rel=5e-3)) for factor in (2.0, 0.5)
    ]
