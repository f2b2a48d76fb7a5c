"""Checks of shelves: reasons against plain loops, names that change, samples of users."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from tastespace import CML, DPCML, EASE, Blend, evaluate, split, synthetic
from tastespace.errors import NotFittedError, ParameterError
from tastespace.evaluation import shelf_checks
from tastespace.evaluation.shelf_checks import sampled_users


@pytest.fixture(scope="module")
def parts():
    town = synthetic.multi_interest(n_users=70, n_items=90, n_interactions=2000, seed=3).interactions
    return split.per_user(town, (0.7, 0.3), seed=0)


@pytest.fixture(scope="module")
def blend(parts):
    members = [CML(dim=8, epochs=8, threads=1).fit(parts[0]), EASE(threads=1).fit(parts[0])]
    return Blend.of(members, [0.4, 0.6], n_tastes=4, threads=1)


class OtherReasons(Blend):
    """A blend whose reasons have nothing to do with its shelves, which are those of `Blend`."""

    def shelves(self, user, k=10, **options):
        return with_class(self, Blend).shelves(user, k, **options)

    def evidence(self, user, items):
        past = self.train_.user_counts[user]
        return np.random.default_rng(user).normal(0.3, 1, (past, self.train_.n_items))[:, items].astype(np.float32)


def with_class(model, cls):
    other = copy.copy(model)
    other.__class__ = cls
    return other


def true_by_loops(model, user, k):
    """Of each shelf the items whose two strongest past items, if they raise the score, are of its taste."""
    row = model.train_.users.index_of([user])[0]
    taste_of = model.tastes().of_user(row)
    found = []
    for shelf in model.shelves(user, k):
        n = 0
        for item in shelf.items:
            own = model.evidence(row, model.train_.items.index_of([item]))[:, 0]
            strongest = [
                past for past in sorted(range(len(own)), key=lambda past: (-own[past], past))[:2] if own[past] > 0
            ]
            n += bool(strongest) and all(taste_of[past] == shelf.interest for past in strongest)
        found.append(n)
    return found


def test_truth_is_counted_as_by_plain_loops(blend):
    for model in (blend, with_class(blend, OtherReasons)):
        found = shelf_checks(model, users=[0, 3, 11, 40], k=6)
        for user in (0, 3, 11, 40):
            assert found.filter(user=user)["true"].to_list() == true_by_loops(model, user, 6)
    assert 0 < found["true"].sum() < 0.8 * found["items"].sum()


def test_reasons_of_a_blend_are_of_the_shelf_and_names_do_not_change(blend, parts):
    found = shelf_checks(blend, k=5)
    assert found["user"].n_unique() == 70
    assert found["true"].to_list() == found["items"].to_list()
    assert found["stable"].all()
    shelves = blend.shelves(7, 5)
    own = found.filter(user=7)
    assert own["name"].to_list() == [shelf.name for shelf in shelves]
    assert own["interest"].to_list() == [shelf.interest for shelf in shelves]


class NamedByLength(Blend):
    """A blend whose first shelf has another name where it is long."""

    def shelves(self, user, k=10, **options):
        found = super().shelves(user, k, **options)
        if k > 10:
            object.__setattr__(found.shelves[0], "label", "long")
        return found


def test_names_that_depend_on_the_length_are_found(blend):
    model = with_class(blend, NamedByLength)
    found = shelf_checks(model, users=[2, 5], k=5)
    for user in (2, 5):
        stable = found.filter(user=user)["stable"].to_list()
        assert stable == [False] + [True] * (len(stable) - 1)


def test_metrics_are_means_of_the_frame(blend, parts):
    for model, cls in ((blend, OtherReasons), (blend, NamedByLength)):
        model = with_class(model, cls)
        report = evaluate(model, parts[1], metrics=["TruthOfReasons@6", "StableNames"], threads=1)
        found = shelf_checks(model, report.users.to_list(), k=6)
        for at, user in enumerate(report.users):
            own = found.filter(user=user)
            expected = own["true"].sum() / own["items"].sum()
            assert report.per_user["TruthOfReasons@6"][at] == pytest.approx(expected)
            assert report.per_user["StableNames"][at] == pytest.approx(own["stable"].mean())
    assert report.units == {"TruthOfReasons@6": "share of the items", "StableNames": "share of the shelves"}
    assert 0 < report["StableNames"] < 1


def test_samples_are_fixed_and_nearly_the_same_for_nearly_the_same_users():
    everybody = np.arange(5000)
    some = sampled_users(everybody)
    assert len(some) == 200
    assert (np.diff(some) > 0).all()
    assert sampled_users(everybody).tolist() == some.tolist()
    without = sampled_users(np.setdiff1d(everybody, some[:3]))
    assert len(np.intersect1d(without, some)) == 197
    assert sampled_users(everybody[:7]).tolist() == list(range(7))
    assert sampled_users(everybody[:0]).tolist() == []


def test_models_that_say_less(parts, blend):
    dpcml = DPCML(dim=8, n_interests=2, epochs=2, threads=1).fit(parts[0])
    found = shelf_checks(dpcml, users=3, k=4)
    assert found["true"].null_count() == len(found) > 0
    with pytest.raises(ParameterError, match=r"TruthOfReasons@4 needs the past items behind .*: DPCML does not say"):
        evaluate(dpcml, parts[1], metrics="TruthOfReasons@4")
    with pytest.raises(ParameterError, match=r"EASE has no vectors, so it has no shelves"):
        shelf_checks(EASE(threads=1).fit(parts[0]))
    with pytest.raises(ParameterError, match=r"StableNames needs a model whose users have interests"):
        evaluate(EASE(threads=1).fit(parts[0]), parts[1], metrics="StableNames")
    for users in ("ann", None, 0):
        with pytest.raises(ParameterError, match="users="):
            shelf_checks(blend, users)
    with pytest.raises(NotFittedError):
        shelf_checks(Blend())
