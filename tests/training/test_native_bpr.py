"""BPR's kernel: gradients by torch's autograd, epochs in plain NumPy, blocks, threads, users without negatives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from tests.training.reference import SEED, BprKernel, epoch_order, fold_in_order, from_lists, random_lists

from tastespace import Interactions, _native

OPTIMIZERS = ("sgd", "adagrad", "adam")
COUNTS, N_ITEMS = [3, 5, 4, 14, 18], 18  # a user with few negatives, and one who has every item


# ---- gradients ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 4, 5, 16, 37])
def test_one_step_is_the_gradient_that_torch_finds(dim):
    torch = pytest.importorskip("torch")
    train = random_lists(COUNTS, N_ITEMS)
    order = epoch_order(train.user_counts, 0)
    for positive in (train.offsets[1:-1] - 1).tolist():  # the last of each user who lacks something
        kernel = BprKernel(train, dim, rate=1e-3, block_size=1)
        before = kernel.copies()
        place = order.index(positive)
        totals = kernel.learn(place, place + 1)
        assert totals.n_steps == 1
        user, taken, other = train.row_of_each()[positive], train.indices[positive], kernel.negative(positive)

        tensors = {name: torch.tensor(array, dtype=torch.float64, requires_grad=True) for name, array in before.items()}
        x, pair, bias = tensors["users"][user], tensors["items"][[taken, other]], tensors["bias"][[taken, other]]
        scores = pair @ x + bias
        ranking = -torch.nn.functional.logsigmoid(scores[0] - scores[1])
        assert totals.loss == pytest.approx(float(ranking.detach()), rel=1e-5)
        assert totals.n_correct == int(scores[0] > scores[1])
        penalty = 0.03 / 2 * (x.square().sum() + pair.square().sum()) + 0.02 / 2 * bias.square().sum()
        (ranking + penalty).backward()
        for name, tensor in tensors.items():
            found = (before[name].astype(np.float64) - kernel.arrays[name]) / 1e-3
            # Items step after the user, whose vector has moved by a thousandth by then.
            np.testing.assert_allclose(found, tensor.grad.numpy(), atol=3e-3, err_msg=name)
            np.testing.assert_array_equal(kernel.arrays[name][tensor.grad.numpy() == 0], before[name][tensor.grad == 0])


# ---- epochs ------------------------------------------------------------------------------------------------


class NumpyReference:
    """The same training in plain NumPy and float64."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.state = {name: array.astype(np.float64) for name, array in kernel.copies().items()}
        self.first = {name: np.zeros_like(array) for name, array in self.state.items()}
        self.second = {name: np.zeros_like(array) for name, array in self.state.items()}
        self.steps = {name: np.zeros(len(array), dtype=int) for name, array in self.state.items()}

    def learn(self, epoch, order=None, items_too=True):
        train, settings = self.kernel.train, self.kernel.settings
        owner = train.row_of_each()
        order = epoch_order(train.user_counts, epoch) if order is None else order
        users, items, bias = (self.state[name] for name in ("users", "items", "bias"))
        loss = 0.0
        for start in range(0, len(order), settings.block_size):
            triples = []
            for positive in sorted(order[start : start + settings.block_size], key=lambda p: owner[p]):
                user, taken, other = owner[positive], train.indices[positive], self.kernel.negative(positive, epoch)
                if other < 0:
                    continue
                score = users[user] @ (items[taken] - items[other]) + bias[taken] - bias[other]
                loss += np.logaddexp(0, -score)
                derivative = 1 / (1 + np.exp(score))
                triples.append((user, taken, other, derivative))
                self.step("users", user, derivative * (items[other] - items[taken]) + 0.03 * users[user])
            if not items_too:
                continue
            for user, taken, other, derivative in triples:
                for item, slope in ((taken, -derivative), (other, derivative)):
                    self.step("items", item, slope * users[user] + 0.03 * items[item])
                    self.step("bias", item, slope + 0.02 * bias[item])
        return loss

    def step(self, name, row, gradient):
        values, first, second = self.state[name], self.first[name], self.second[name]
        rate = self.kernel.learning_rate
        if self.kernel.optimizer == "sgd":
            values[row] -= rate * gradient
        elif self.kernel.optimizer == "adagrad":
            first[row] += gradient**2
            values[row] -= rate * gradient / (np.sqrt(first[row]) + 1e-8)
        else:
            self.steps[name][row] += 1
            t = self.steps[name][row]
            first[row] = 0.9 * first[row] + 0.1 * gradient
            second[row] = 0.999 * second[row] + 0.001 * gradient**2
            mean, square = first[row] / (1 - 0.9**t), second[row] / (1 - 0.999**t)
            values[row] -= rate * mean / (np.sqrt(square) + 1e-8)


def compare(kernel, epochs=2):
    reference, start = NumpyReference(kernel), kernel.copies()
    for epoch in range(epochs):
        loss = kernel.learn(epoch=epoch).loss
        assert loss == pytest.approx(reference.learn(epoch), rel=1e-4)
    for name, wanted in reference.state.items():
        np.testing.assert_allclose(kernel.arrays[name], wanted, rtol=1e-3, atol=1e-4, err_msg=name)
    return {name: np.abs(kernel.arrays[name] - start[name]).max() for name in start}


@pytest.mark.parametrize("block_size", [1, 7, 1000])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_epochs_are_what_plain_numpy_computes(optimizer, block_size):
    moved = compare(BprKernel(random_lists(COUNTS, N_ITEMS), optimizer=optimizer, block_size=block_size, rate=0.02))
    assert min(moved.values()) > 0.02


def test_fold_in_learns_each_user_separately_with_the_items_fixed():
    """Steps over the user's own items, in an order and with negatives that do not depend on other users."""
    lists = [[1, 4, 7], list(range(N_ITEMS)), [0, 2, 3, 9, 11]]
    train = from_lists(lists, N_ITEMS)
    kernel = BprKernel(train, optimizer="adagrad")
    start = kernel.copies()
    means = np.zeros_like(start["users"])
    _native.fold_in_bpr(
        kernel.data, kernel.state, kernel.settings, mean_user_vectors=means, seed=SEED, epochs=4, average=3, threads=2
    )
    np.testing.assert_array_equal(kernel.arrays["items"], start["items"])
    np.testing.assert_array_equal(kernel.arrays["bias"], start["bias"])
    np.testing.assert_array_equal(means[1], start["users"][1])  # there is nothing to compare with
    for row, items in ((0, lists[0]), (2, lists[2])):
        alone = BprKernel(from_lists([items, []], N_ITEMS), optimizer="adagrad")
        alone.arrays["items"][:], alone.arrays["bias"][:] = start["items"], start["bias"]
        alone.arrays["users"][:] = start["users"][row]
        reference, mean = NumpyReference(alone), 0.0
        for epoch in range(4):
            reference.learn(epoch, fold_in_order(len(items), epoch), items_too=False)
            mean += (reference.state["users"][0] - mean) / min(epoch + 1, 3)
        np.testing.assert_allclose(kernel.arrays["users"][row], reference.state["users"][0], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(means[row], mean, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n_users", [400, 70_000])
def test_users_with_indices_of_two_and_three_bytes(n_users):
    """They are sorted byte by byte; most have nothing at all."""
    random = np.random.default_rng(0)
    rows = np.repeat(random.choice(n_users, 150, replace=False), 3)
    table = sp.csr_array((np.ones(len(rows)), (rows, random.integers(0, 30, len(rows)))), shape=(n_users, 30))
    compare(BprKernel(Interactions.from_scipy(table), optimizer="adagrad", block_size=256), epochs=1)


# ---- users without negatives, threads ----------------------------------------------------------------------


def test_users_who_have_every_item_are_skipped():
    kernel = BprKernel(from_lists([[0, 1, 2], [1]], 3))
    before = kernel.arrays["users"].copy()
    assert kernel.learn().n_steps == 1
    np.testing.assert_array_equal(kernel.arrays["users"][0], before[0])
    assert (kernel.arrays["users"][1] != before[1]).all()


def figures(totals):
    return totals.loss, totals.n_correct, totals.n_steps


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_same_bits_for_every_number_of_threads_and_any_pieces(optimizer):
    train = random_lists([12] * 60, 40)
    whole, *others = (BprKernel(train, dim=19, optimizer=optimizer, block_size=64) for _ in range(5))
    totals = [figures(whole.learn(epoch=epoch)) for epoch in range(2)]
    for kernel, threads in zip(others, (2, 3, 8, 1), strict=True):
        if threads == 1:  # in pieces of whole blocks
            for epoch in range(2):
                for first in range(0, 720, 192):
                    kernel.learn(first, min(720, first + 192), epoch)
        else:
            assert [figures(kernel.learn(epoch=epoch, threads=threads)) for epoch in range(2)] == totals
        for name, array in whole.arrays.items():
            np.testing.assert_array_equal(kernel.arrays[name], array, err_msg=name)


def test_scores_far_apart_do_not_overflow():
    kernel = BprKernel(random_lists(COUNTS, N_ITEMS), block_size=1000)
    kernel.state.item_vectors[:] *= 1e4
    totals = kernel.learn()
    assert np.isfinite(totals.loss)
    assert totals.loss / totals.n_steps > 100
    assert all(np.isfinite(array).all() for array in kernel.copies().values())


def test_many_losses_are_added_up_exactly():
    """Several hundred at once: the kernel multiplies before it takes a logarithm."""
    train = random_lists([20] * 100, 60)
    kernel = BprKernel(train, block_size=2000, rate=1e-12)
    owner, scores = train.row_of_each(), kernel.arrays["users"] @ kernel.arrays["items"].T + kernel.arrays["bias"]
    pairs = [(owner[p], train.indices[p], kernel.negative(p)) for p in range(train.n_interactions)]
    expected = sum(np.logaddexp(0.0, float(scores[u, j] - scores[u, i])) for u, i, j in pairs)
    assert kernel.learn().loss == pytest.approx(expected, rel=1e-6)
