import builtins
import itertools

import pytest

from tastespace.errors import ParameterError
from tastespace.paper.proposals import Proposals

SPACE = {"a": tuple(range(7)), "b": tuple(range(7)), "c": ("only",)}


def run(proposals, n):
    tried = []
    for pick in itertools.islice(proposals, n):
        tried.append((pick["a"], pick["b"]))
        proposals.tell(pick["a"] + pick["b"])
    return tried


def test_everything_is_tried_once():
    small = {"a": (0, 1, 2), "b": (0, 1, 2)}
    assert sorted(run(Proposals(small, seed=2), 100)) == sorted(itertools.product(range(3), range(3)))


def test_a_search_begins_in_the_middle_or_where_it_is_told():
    assert run(Proposals(SPACE, seed=2), 1) == [(3, 3)]
    assert run(Proposals(SPACE, seed=2, first={"a": 5, "b": "unknown"}), 1) == [(5, 3)]


def test_lists_of_a_file_are_found_among_tuples():
    first = next(iter(Proposals({"layers": ((8, 4), (16, 8), (32,))}, seed=0, first={"layers": [8, 4]})))
    assert first == {"layers": (8, 4)}


def test_it_climbs():
    best = [max(map(sum, run(Proposals(SPACE, seed=seed), 20))) for seed in range(3)]
    assert min(best) >= 11  # of 12, having seen less than half of the 49


def test_the_same_seed_and_scores_give_the_same_trials():
    assert run(Proposals(SPACE, seed=4), 12) == run(Proposals(SPACE, seed=4), 12)
    assert run(Proposals(SPACE, seed=4), 12) != run(Proposals(SPACE, seed=5), 12)


def test_without_optuna_the_error_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "optuna":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ParameterError, match=r"tastespace\[tune\]"):
        Proposals(SPACE, seed=0)
