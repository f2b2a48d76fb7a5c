"""Kernels at the edges: one and a thousand coordinates, more negatives than items, one item, no users."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from tests.training.reference import BprKernel, DpcmlKernel, random_lists

import tastespace as ts
from tastespace import Interactions, _native
from tastespace.errors import DataError

SAMPLERS = ("uniform", "popularity", "two-stage", "hard", "hard-sorted", "hard-differentiable")
TRAIN = random_lists([3, 5, 4, 14, 18], 18)  # the last user has every item


@pytest.mark.parametrize("dim", [1, 1000])
@pytest.mark.parametrize("name", ["dpcml", "bpr"])
def test_few_and_many_coordinates(name, dim):
    fitted = [ts.models.create(name, dim=dim, epochs=3, seed=1, threads=threads).fit(TRAIN) for threads in (1, 3)]
    for array in ("user_vectors_", "item_vectors_"):
        one, three = (getattr(model, array) for model in fitted)
        assert one.shape[1] == dim
        assert np.isfinite(one).all()
        np.testing.assert_array_equal(one, three)
    assert fitted[0].history_[-1]["loss"] == fitted[1].history_[-1]["loss"]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_with_more_negatives_than_items_all_that_a_user_lacks_are_drawn(sampler):
    kernel = DpcmlKernel(ts.DPCML(dim=4, n_interests=2, sampler=sampler, n_negatives=500), TRAIN)
    for user, last in enumerate((TRAIN.offsets[1:] - 1).tolist()):
        has = TRAIN.indices[TRAIN.offsets[user] : TRAIN.offsets[user + 1]]
        lacks = sorted(set(range(TRAIN.n_items)) - set(has.tolist()))
        assert sorted(kernel.step(last).negatives.tolist()) == lacks
    totals = kernel.learn()
    assert totals.n_skipped == 18
    assert totals.n_steps == TRAIN.n_interactions - 18
    assert np.isfinite(kernel.arrays["items"]).all()


def test_one_item_cannot_be_compared_with_another():
    with pytest.raises(DataError, match="at least 2 are needed"):
        Interactions.from_scipy(sp.csr_matrix(np.ones((3, 1))))


def test_users_who_have_every_item_change_nothing():
    everything = Interactions.from_scipy(sp.csr_matrix(np.ones((3, 2))))
    for kernel in (DpcmlKernel(ts.DPCML(dim=4, n_interests=2), everything), BprKernel(everything)):
        before = {name: array.copy() for name, array in kernel.arrays.items()}
        assert kernel.learn().n_steps == 0
        for name, array in kernel.arrays.items():
            np.testing.assert_array_equal(array, before[name], err_msg=name)


def test_no_users():
    with pytest.raises(DataError, match="holds no non-zero value"):
        Interactions.from_scipy(sp.csr_matrix((0, 5)))
    for name in ("dpcml", "bpr"):
        model = ts.models.create(name, dim=4, epochs=1).fit(TRAIN)
        with pytest.raises(DataError, match="expected at least one user"):
            model.fold_in([])
    # To the kernels, a range without positives is no step.
    assert DpcmlKernel(ts.DPCML(dim=4, n_interests=2), TRAIN).learn(0, 0).n_steps == 0
    assert BprKernel(TRAIN).learn(0, 0).n_steps == 0


def test_vectors_beyond_eight_and_other_numbers_agree_with_distances_one_by_one():
    """The number of vectors chooses between forms of the kernel; all give the nearest one."""
    for n_vectors in range(1, 12):
        model = ts.DPCML(dim=19, n_interests=n_vectors, sampler="hard", n_negatives=7, dcrs=None)
        kernel = DpcmlKernel(model, TRAIN)
        for positive in (0, 4, 9):
            user = int(TRAIN.row_of_each()[positive])
            step = kernel.step(positive)
            own = kernel.arrays["users"][user * n_vectors : (user + 1) * n_vectors].astype(np.float64)
            items = kernel.arrays["items"].astype(np.float64)
            nearest = ((own[:, None] - items) ** 2).sum(-1).min(0)
            violation = 1.0 + nearest[TRAIN.indices[positive]] - nearest[step.negatives].min()
            assert step.loss == pytest.approx(max(0.0, violation), abs=1e-5)


def test_serial_seconds_are_part_of_all_seconds():
    totals = DpcmlKernel(ts.DPCML(dim=4, n_interests=2), TRAIN).learn()
    assert 0 < totals.serial_seconds <= totals.seconds
    assert (totals + _native.DpcmlTotals()).seconds == totals.seconds


OUT_OF_MEMORY = """
import re, resource, sys
from pathlib import Path
import numpy as np
import tastespace as ts
from tastespace import _native
sys.path.insert(0, {folder!r})
from tests.training.reference import BprKernel, DpcmlKernel
import scipy.sparse as sp

n_items = 1 << 24  # a sampler's memory is 64 MB
train = ts.Interactions.from_scipy(sp.csr_array((np.ones(3), ([0, 0, 1], [0, 5, 7])), shape=(2, n_items)))
dpcml = DpcmlKernel(ts.DPCML(dim=1, n_interests=1, optimizer="sgd"), train)
bpr = BprKernel(train, dim=1)
size = int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (size + (32 << 20), size + (32 << 20)))
fold = dict(seed=1, epochs=1, average=1, threads=1)
for name, kernel in (("dpcml", dpcml), ("bpr", bpr)):
    means = np.zeros_like(kernel.state.user_vectors)
    arguments = kernel.data, kernel.state, kernel.settings
    for call in (
        lambda: getattr(_native, f"train_{{name}}")(*arguments, seed=1, epoch=0, first=0, last=3, threads=1),
        lambda: getattr(_native, f"fold_in_{{name}}")(*arguments, mean_user_vectors=means, **fold),
    ):
        try:
            call()
        except MemoryError:
            print("MemoryError")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_that_runs_out_inside_a_kernel_is_an_error_of_python():
    program = OUT_OF_MEMORY.format(folder=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["MemoryError"] * 4, done.stderr
