"""Every recommender passes the suite that `tastespace.testing` gives to others."""

import pytest

from tastespace.errors import ParameterError
from tastespace.models import (
    CML,
    DPCML,
    EASE,
    Blend,
    Spectral,
    create,
    registry,
)
from tastespace.recommend.rerank.reranked import Reranked
from tastespace.testing import RecommenderConformance, _town

SMALL = {"dim": 8, "epochs": 3}
SMALL_NETWORKS = {"layers": (16, 8), "negative_pool_size": 50}


def suite(name):
    class Suite(RecommenderConformance):
        def make(self):
            if name == "blend":  # its parameters are those of its members
                return create("blend:dpcml+sparse-ease", **{f"dpcml__{k}": v for k, v in SMALL.items()})
            model = create(name)
            small = {**SMALL, **(SMALL_NETWORKS if name.endswith("+dn") else {})}
            return model.set_params(**{k: v for k, v in small.items() if k in model.get_params()})

    return Suite


for _name in registry():
    _title = f"Test_{_name.replace('-', '_')}"
    globals()[_title] = type(_title, (suite(_name),), {})


class TestEASEFromTheUsers(RecommenderConformance):
    def make(self):
        return EASE(regularization=20.0, side="users")


class TestEASEWithPowersFromTheUsers(RecommenderConformance):
    def make(self):
        return EASE(regularization=20.0, side="users", dropout=0.5, user_power=-0.25, item_power=0.2)


class TestSpectralWithVectors(RecommenderConformance):
    def make(self):
        return Spectral(dim=8, linear=False)


class TestBlendByTastes(RecommenderConformance):
    def make(self):
        return Blend([DPCML(**SMALL), EASE(regularization=20.0)], [0.6, 0.4], focus=0.4, lift=0.2)


class TestBlendWithOneVector(RecommenderConformance):
    def make(self):
        return Blend([CML(**SMALL), EASE(regularization=20.0)])


class TestAutoInterests(RecommenderConformance):
    def make(self):
        return DPCML(**SMALL, n_interests="auto")


class TestReranked(RecommenderConformance):
    def make(self):
        return Reranked(EASE(regularization=20.0), weight=0.4, pool=15)

    def test_a_saved_model_gives_the_same_lists(self, fitted, tmp_path):
        """Two stages are saved as the first one; the error says how to restore both."""
        with pytest.raises(ParameterError, match=r"Save its first stage.*Reranked\.around"):
            fitted.save(tmp_path / "model")


def test_models_that_do_not_compare_items_are_known():
    """The suite asks a model whether it compares items; this list notices one that stops."""
    data = _town()
    refusing = set()
    for name in registry():
        model = suite(name)().make().fit(data)
        try:
            model.similar_items(data.items[0])
        except ParameterError:
            refusing.add(name)
    assert refusing == {"popular", "category-popular", "mlp", "neumf", "mult-dae", "mult-vae", "gcn-accdiv"}


def test_the_suite_notices_a_model_that_breaks_its_rules():
    class ReturnsNothing(RecommenderConformance):
        def make(self):
            model = create("popular")
            model.fit = lambda *a, **k: None  # does not return self
            return model

    with pytest.raises(AssertionError):
        ReturnsNothing().test_the_constructor_learns_nothing_and_fit_changes_no_parameter(_town())


def test_the_suite_notices_a_model_that_refuses_what_it_supports():
    class Refusing(EASE):
        def _fold_in(self, histories):
            return None

    with pytest.raises(ParameterError, match="Refusing"):
        RecommenderConformance().test_fold_in(Refusing().fit(_town()), _town())
