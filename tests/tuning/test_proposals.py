"""What is tried next: with Optuna and without it."""

from __future__ import annotations

import builtins
import itertools

import pytest

from tastespace.tuning.proposals import EstimatorProposals, NeighborProposals, make_proposals

SPACE = {"a": tuple(range(7)), "b": tuple(range(7)), "c": ("only",)}
BOTH = pytest.mark.parametrize("kind", [EstimatorProposals, NeighborProposals])


def run(proposals, n):
    tried = []
    for pick in itertools.islice(proposals, n):
        tried.append((pick["a"], pick["b"]))
        proposals.tell(pick["a"] + pick["b"])
    return tried


@BOTH
def test_everything_is_tried_once(kind):
    small = {"a": (0, 1, 2), "b": (0, 1, 2)}
    assert sorted(run(kind(small, seed=2), 100)) == sorted(itertools.product(range(3), range(3)))


@BOTH
def test_a_search_begins_in_the_middle_or_where_it_is_told(kind):
    assert run(kind(SPACE, seed=2), 1) == [(3, 3)]
    assert run(kind(SPACE, seed=2, first={"a": 5, "b": "unknown"}), 1) == [(5, 3)]


@BOTH
def test_lists_of_a_file_are_found_among_tuples(kind):
    first = next(iter(kind({"layers": ((8, 4), (16, 8), (32,))}, seed=0, first={"layers": [8, 4]})))
    assert first == {"layers": (8, 4)}


@BOTH
def test_it_climbs(kind):
    best = [max(map(sum, run(kind(SPACE, seed=seed), 20))) for seed in range(3)]
    assert min(best) >= 11  # of 12, having seen less than half of the 49


@BOTH
def test_the_same_seed_and_scores_give_the_same_trials(kind):
    assert run(kind(SPACE, seed=4), 12) == run(kind(SPACE, seed=4), 12)
    assert run(kind(SPACE, seed=4), 12) != run(kind(SPACE, seed=5), 12)


@BOTH
def test_a_space_without_a_choice_has_one_combination(kind):
    for space in ({}, {"a": (1,)}):
        proposals = kind(space, seed=0)
        tried = []
        for pick in itertools.islice(proposals, 5):
            tried.append(pick)
            proposals.tell(1.0)
        assert tried == [{name: values[0] for name, values in space.items()}]


def test_a_large_space_is_not_listed():
    proposals = NeighborProposals({f"p{n}": tuple(range(10)) for n in range(12)}, seed=0)
    tried = set()
    for pick in itertools.islice(proposals, 30):
        tried.add(tuple(pick.values()))
        proposals.tell(float(sum(pick.values())))
    assert len(tried) == 30


def test_without_optuna_neighbors_are_tried(monkeypatch):
    assert isinstance(make_proposals(SPACE, seed=0), EstimatorProposals)
    real = builtins.__import__

    def without(name, *rest):
        if name == "optuna":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert isinstance(make_proposals(SPACE, seed=0), NeighborProposals)
