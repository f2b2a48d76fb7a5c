"""Every recommender of the registry passes the suite that `tastespace.testing` gives to others."""

import pytest

from tastespace.models import create, registry
from tastespace.testing import RecommenderConformance

SMALL = {"dim": 8, "epochs": 3}
SMALL_NETWORKS = {"layers": (16, 8), "negative_pool_size": 50}


def suite(name):
    class Suite(RecommenderConformance):
        def make(self):
            model = create(name)
            small = {**SMALL, **(SMALL_NETWORKS if name.endswith("+dn") else {})}
            return model.set_params(**{k: v for k, v in small.items() if k in model.get_params()})

    return Suite


for _name in registry():
    _title = f"Test_{_name.replace('-', '_')}"
    globals()[_title] = type(_title, (suite(_name),), {})


def test_the_suite_notices_a_model_that_breaks_its_promises():
    class Forgetful(RecommenderConformance):
        def make(self):
            model = create("popular")
            model.fit = lambda *a, **k: None  # does not return self
            return model

    from tastespace.testing.conformance import _town

    with pytest.raises(AssertionError):
        Forgetful().test_the_constructor_learns_nothing_and_fit_changes_no_parameter(_town())
