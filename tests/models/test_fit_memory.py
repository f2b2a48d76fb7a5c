"""Numbers too large for the kernels or the memory end in an error that says the limit."""

import contextlib
import re

import pytest

import tastespace as ts
from tastespace._util.threads import available, resolve_threads
from tastespace.errors import ParameterError, TastespaceError
from tastespace.models import create
from tastespace.models._fit_memory import estimated_bytes

SIZES = {
    "dpcml": ("dim", "n_interests", "n_negatives", "block_size", "min_interests"),
    "cml": ("dim", "n_negatives", "block_size"),
    "bpr": ("dim", "block_size"),
    "als": ("dim",),
    "softmax-mf": ("dim",),
}


@pytest.fixture(scope="module")
def data():
    return ts.synthetic.multi_interest(n_users=30, n_items=25, n_interactions=200).interactions


@pytest.mark.parametrize(("name", "parameter"), [(name, one) for name, sizes in SIZES.items() for one in sizes])
def test_sizes_beyond_the_memory(data, name, parameter):
    sampler = {"n_hardest": 1} if name in ("dpcml", "cml") else {}
    model = create(name, **{parameter: 2_000_000_000, **sampler})
    with pytest.raises(ParameterError, match=rf"{parameter}=2000000000.* takes about .* GB of memory, .* GB are free"):
        model.fit(data)
    for value in (2**31, 2**40, 10**30):
        with pytest.raises(
            ParameterError, match=rf"{parameter}={value}: expected a whole number, at most 2,147,483,647"
        ):
            create(name, **{parameter: value})


def test_a_number_that_python_does_not_write_out():
    with pytest.raises(ParameterError, match=re.escape("dim=2**33219 or more: expected a whole number, at most")):
        ts.DPCML(dim=10**10_000)


@pytest.mark.filterwarnings("ignore:.*among the seen ones")
@pytest.mark.parametrize("value", [10**9, 2**31, 2**63, 10**30])
def test_long_lists_and_many_neighbors(data, value):
    model = ts.DPCML(dim=4, epochs=1, n_interests=2).fit(data)
    calls = (
        lambda: model.recommend(k=value),
        lambda: model.similar_items(0, k=value),
        lambda: model.similar_users(0, k=value),
        lambda: model.interests(0, value),
        lambda: model.explain(0, 1, value),
        lambda: model.shelves(0, value),
        lambda: ts.evaluate(model, data, k=value),
        lambda: ts.models.ItemKNN(n_neighbors=value).fit(data),
        lambda: ts.models.SparseEASE(n_neighbors=value).fit(data),
        lambda: ts.DPCML(dim=4, epochs=1, average=value).fit(data),
        lambda: ts.DPCML(dim=4, epochs=1, patience=value, validate_every=value).fit(data),
    )
    said = []
    for call in calls:
        with contextlib.suppress(TastespaceError):  # either it works, as lists are no longer than the catalog, or
            call()
            said.append("")
            continue
        with pytest.raises(TastespaceError, match=f"{value}|{value:,}"):  # the error names the number
            call()
        said.append(str(value))
    assert len(said) == len(calls)


def test_threads_have_a_limit():
    assert resolve_threads(256) == 256
    for threads in (50_000, 10**30):
        with pytest.raises(
            ParameterError, match=rf"threads={threads}: at most \d+; this machine has {available()} cores"
        ):
            resolve_threads(threads)
        with pytest.raises(ParameterError, match="at most"):
            ts.EASE(threads=threads)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"checkpoint": 5}, "checkpoint: expected the name of a file or folder, given 5"),
        ({"checkpoint": "x" * 5000}, "cannot be the name of a file"),
        ({"log_file": 5}, "log_file: expected the name of a file"),
        ({"dcrs": [1]}, r"dcrs=\[1\]: expected one of"),
        ({"sampler": {}}, "sampler={}: expected one of"),
        ({"monitor": 5}, "monitor=5"),
        ({"margin": 1e308}, r"margin=1e\+308: expected a positive, finite number, at most 1e\+30"),
        ({"log_base": 1}, "log_base=1"),
    ],
)
def test_values_that_raised_errors_of_python(parameters, message):
    with pytest.raises(ParameterError, match=message):
        ts.DPCML(**parameters)
    with pytest.raises(ParameterError, match=message):
        ts.DPCML().set_params(**parameters)


def test_every_model_is_checked_when_it_is_made():
    for one in ts.models.table():
        if "threads" in create(one.name).get_params(deep=False):
            with pytest.raises(ParameterError, match="threads=-1"):
                create(one.name, threads=-1)


def test_estimates_grow_with_what_they_are_of(data):
    small = estimated_bytes(ts.DPCML(dim=10, n_interests=2), data)
    assert small < estimated_bytes(ts.DPCML(dim=20, n_interests=2), data)
    assert small < estimated_bytes(ts.DPCML(dim=10, n_interests=4), data)
    assert estimated_bytes(ts.EASE(), data) == 0
