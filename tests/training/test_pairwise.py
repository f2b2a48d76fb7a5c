"""The BPR kernel: gradients by torch's autograd, epochs in plain NumPy, blocks, threads, who is visited."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from reference import SEED, from_lists, random_lists, visit_order

from tastespace import Interactions, _native
from tastespace.training.kernel_run import Pace, Rates, optimizer_memory
from tastespace.training.pairwise import PairwiseTrainer

METHODS = {"sgd": 0, "adagrad": 1, "adam": 2}
COUNTS, N_ITEMS = [3, 5, 4, 14, 18], 18  # a crowded user, and one who has everything


class Bench:
    """The kernel on random vectors."""

    def __init__(self, train, dim=5, method="sgd", rate=0.05, block_size=4, seed=SEED, **changes):
        random = np.random.default_rng(seed)
        self.train, self.method = train, method
        users, items, bias = (
            random.normal(0, 0.7, shape).astype(np.float32)
            for shape in ((train.n_users, dim), (train.n_items, dim), train.n_items)
        )
        self.settings = {
            "regularization": 0.03,
            "bias_regularization": 0.02,
            "method": METHODS[method],
            "learning_rate": rate,
            "beta1": 0.9,
            "beta2": 0.999,
            "epsilon": 1e-8,
            "block_size": block_size,
            **changes,
        }
        self.arrays = {
            "offsets": train.offsets,
            "positives": train.indices,
            "users": users,
            "items": items,
            "bias": bias,
            **optimizer_memory(method, user=users, item=items, bias=bias),
        }

    def learn(self, first=0, last=None, epoch=0, threads=1):
        last = self.train.n_interactions if last is None else last
        return _native.bpr_range(self.arrays, self.settings, SEED, epoch, first, last, threads)

    def copies(self):
        return {name: self.arrays[name].copy() for name in ("users", "items", "bias")}

    def negative(self, positive, epoch=0):
        """The item that a visit compares with, -1 where there is none."""
        train = self.train
        user = np.array([train.row_of_each()[positive]], dtype=np.int32)
        nothing = np.empty(0, np.float32), np.empty(0, np.int32)
        drawn = _native.draw_negatives(
            train.offsets, train.indices, train.n_items, *nothing, user, 1, SEED, epoch, positive, 1
        )
        return int(drawn[0, 0])


# ---- gradients ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 4, 5, 16, 37])
def test_one_step_is_the_gradient_that_torch_finds(dim):
    torch = pytest.importorskip("torch")
    train = random_lists(COUNTS, N_ITEMS)
    order = visit_order(train.n_interactions, 0)
    for positive in (train.offsets[1:-1] - 1).tolist():  # the last of each user who lacks something
        bench = Bench(train, dim, rate=1e-3, block_size=1)
        before = bench.copies()
        place = order.index(positive)
        loss, right, visited = bench.learn(place, place + 1)
        assert visited == 1
        user, liked, other = train.row_of_each()[positive], train.indices[positive], bench.negative(positive)

        tensors = {name: torch.tensor(array, dtype=torch.float64, requires_grad=True) for name, array in before.items()}
        x, pair, bias = tensors["users"][user], tensors["items"][[liked, other]], tensors["bias"][[liked, other]]
        scores = pair @ x + bias
        ranking = -torch.nn.functional.logsigmoid(scores[0] - scores[1])
        assert loss == pytest.approx(float(ranking.detach()), rel=1e-5)
        assert right == int(scores[0] > scores[1])
        penalty = 0.03 / 2 * (x.square().sum() + pair.square().sum()) + 0.02 / 2 * bias.square().sum()
        (ranking + penalty).backward()
        for name, tensor in tensors.items():
            found = (before[name].astype(np.float64) - bench.arrays[name]) / 1e-3
            # Items step after the user, whose vector has moved by a thousandth by then.
            np.testing.assert_allclose(found, tensor.grad.numpy(), atol=3e-3, err_msg=name)
            np.testing.assert_array_equal(bench.arrays[name][tensor.grad.numpy() == 0], before[name][tensor.grad == 0])


# ---- epochs ------------------------------------------------------------------------------------------------


class Twin:
    """The same training once more, in plain NumPy and float64."""

    def __init__(self, bench):
        self.bench = bench
        self.state = {name: array.astype(np.float64) for name, array in bench.copies().items()}
        self.first = {name: np.zeros_like(array) for name, array in self.state.items()}
        self.second = {name: np.zeros_like(array) for name, array in self.state.items()}
        self.steps = {name: np.zeros(len(array), dtype=int) for name, array in self.state.items()}

    def learn(self, epoch, items_too=True):
        train, settings = self.bench.train, self.bench.settings
        owner, order = train.row_of_each(), visit_order(train.n_interactions, epoch)
        users, items, bias = (self.state[name] for name in ("users", "items", "bias"))
        loss = 0.0
        for start in range(0, len(order), settings["block_size"]):
            notes = []
            for positive in sorted(order[start : start + settings["block_size"]], key=lambda p: owner[p]):
                user, liked, other = owner[positive], train.indices[positive], self.bench.negative(positive, epoch)
                if other < 0:
                    continue
                score = users[user] @ (items[liked] - items[other]) + bias[liked] - bias[other]
                loss += np.logaddexp(0, -score)
                strength = 1 / (1 + np.exp(score))
                notes.append((user, liked, other, strength))
                self.step("users", user, strength * (items[other] - items[liked]) + 0.03 * users[user])
            if not items_too:
                continue
            for user, liked, other, strength in notes:
                for item, slope in ((liked, -strength), (other, strength)):
                    self.step("items", item, slope * users[user] + 0.03 * items[item])
                    self.step("bias", item, slope + 0.02 * bias[item])
        return loss

    def step(self, name, row, gradient):
        values, first, second = self.state[name], self.first[name], self.second[name]
        rate = self.bench.settings["learning_rate"]
        if self.bench.method == "sgd":
            values[row] -= rate * gradient
        elif self.bench.method == "adagrad":
            first[row] += gradient**2
            values[row] -= rate * gradient / (np.sqrt(first[row]) + 1e-8)
        else:
            self.steps[name][row] += 1
            t = self.steps[name][row]
            first[row] = 0.9 * first[row] + 0.1 * gradient
            second[row] = 0.999 * second[row] + 0.001 * gradient**2
            mean, square = first[row] / (1 - 0.9**t), second[row] / (1 - 0.999**t)
            values[row] -= rate * mean / (np.sqrt(square) + 1e-8)


def compare(bench, epochs=2):
    twin, start = Twin(bench), bench.copies()
    for epoch in range(epochs):
        loss = bench.learn(epoch=epoch)[0]
        assert loss == pytest.approx(twin.learn(epoch), rel=1e-4)
    for name, wanted in twin.state.items():
        np.testing.assert_allclose(bench.arrays[name], wanted, rtol=1e-3, atol=1e-4, err_msg=name)
    return {name: np.abs(bench.arrays[name] - start[name]).max() for name in start}


@pytest.mark.parametrize("block_size", [1, 7, 1000])
@pytest.mark.parametrize("method", METHODS)
def test_epochs_are_what_plain_numpy_computes(method, block_size):
    moved = compare(Bench(random_lists(COUNTS, N_ITEMS), method=method, block_size=block_size, rate=0.02))
    assert min(moved.values()) > 0.02


def test_newcomers_learn_alone_against_items_that_stand_still():
    """A user's turns over the own items, in an order and with negatives that nobody else has a part in."""
    lists = [[1, 4, 7], list(range(N_ITEMS)), [0, 2, 3, 9, 11]]
    train = from_lists(lists, N_ITEMS)
    bench = Bench(train, method="adagrad")
    start = bench.copies()
    means = np.zeros_like(start["users"])
    _native.bpr_newcomers(bench.arrays, bench.settings, SEED, 4, 3, means, 2)
    np.testing.assert_array_equal(bench.arrays["items"], start["items"])
    np.testing.assert_array_equal(bench.arrays["bias"], start["bias"])
    np.testing.assert_array_equal(means[1], start["users"][1])  # there is nothing to compare with
    for row, items in ((0, lists[0]), (2, lists[2])):
        alone = Bench(from_lists([items, []], N_ITEMS), method="adagrad")
        alone.arrays.update(items=start["items"], bias=start["bias"], users=start["users"][[row, row]])
        twin, mean = Twin(alone), 0.0
        for epoch in range(4):
            twin.learn(epoch, items_too=False)
            mean += (twin.state["users"][0] - mean) / min(epoch + 1, 3)
        np.testing.assert_allclose(bench.arrays["users"][row], twin.state["users"][0], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(means[row], mean, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n_users", [400, 70_000])
def test_users_with_indices_of_two_and_three_bytes(n_users):
    """They are sorted byte by byte; most have nothing at all."""
    random = np.random.default_rng(0)
    rows = np.repeat(random.choice(n_users, 150, replace=False), 3)
    table = sp.csr_array((np.ones(len(rows)), (rows, random.integers(0, 30, len(rows)))), shape=(n_users, 30))
    compare(Bench(Interactions.from_scipy(table), method="adagrad", block_size=256), epochs=1)


# ---- who is visited, by whom -------------------------------------------------------------------------------


def test_who_has_everything_is_not_visited():
    bench = Bench(from_lists([[0, 1, 2], [1]], 3))
    before = bench.arrays["users"].copy()
    assert bench.learn()[2] == 1
    np.testing.assert_array_equal(bench.arrays["users"][0], before[0])
    assert (bench.arrays["users"][1] != before[1]).all()


@pytest.mark.parametrize("method", METHODS)
def test_the_same_bits_for_every_number_of_threads_and_any_pieces(method):
    train = random_lists([12] * 60, 40)
    whole, *others = (Bench(train, dim=19, method=method, block_size=64) for _ in range(4))
    totals = [whole.learn(epoch=epoch) for epoch in range(2)]
    for bench, threads in zip(others, (2, 3, 1), strict=True):
        if threads == 1:  # in pieces of whole blocks
            for epoch in range(2):
                for first in range(0, 720, 192):
                    bench.learn(first, min(720, first + 192), epoch)
        else:
            assert [bench.learn(epoch=epoch, threads=threads) for epoch in range(2)] == totals
        for name, array in whole.arrays.items():
            np.testing.assert_array_equal(bench.arrays[name], array, err_msg=name)


def test_scores_far_apart_do_not_overflow():
    bench = Bench(random_lists(COUNTS, N_ITEMS), block_size=1000)
    bench.arrays["items"] *= 1e4
    loss, _, visited = bench.learn()
    assert np.isfinite(loss)
    assert loss / visited > 100
    assert all(np.isfinite(array).all() for array in bench.copies().values())


def test_many_losses_are_added_up_exactly():
    """Several hundred at once: the kernel multiplies before it takes a logarithm."""
    train = random_lists([20] * 100, 60)
    bench = Bench(train, block_size=2000, rate=1e-12)
    owner, scores = train.row_of_each(), bench.arrays["users"] @ bench.arrays["items"].T + bench.arrays["bias"]
    pairs = [(owner[p], train.indices[p], bench.negative(p)) for p in range(train.n_interactions)]
    expected = sum(np.logaddexp(0.0, float(scores[u, j] - scores[u, i])) for u, i, j in pairs)
    assert bench.learn()[0] == pytest.approx(expected, rel=1e-6)


def test_arrays_of_another_type_are_refused():
    bench = Bench(random_lists(COUNTS, N_ITEMS))
    bench.arrays["bias"] = bench.arrays["bias"].astype(np.float64)
    with pytest.raises(TypeError, match="'bias' is missing or has another type"):
        bench.learn()


# ---- the trainer -------------------------------------------------------------------------------------------


def trainer(average):
    bench = Bench(random_lists(COUNTS, N_ITEMS), method="adagrad")
    memory = {name: array for name, array in bench.arrays.items() if name.endswith(("_first", "_second", "_steps"))}
    start = {name: bench.arrays[name] for name in ("users", "items", "bias")}
    rates = Rates(0.05, "linear", 6)
    return PairwiseTrainer(bench.train, start, memory, bench.settings, Pace(rates, average, SEED, 1))


def test_the_result_is_the_running_mean_of_the_epochs():
    plain, averaged = trainer(1), trainer(3)
    mean = None
    for epoch in range(6):
        plain.train_epoch(epoch, lambda done, loss: None)
        averaged.train_epoch(epoch, lambda done, loss: None)
        now = {name: array.astype(np.float64) for name, array in plain.result().items()}
        weight = 1 / min(epoch + 1, 3)
        mean = now if mean is None else {name: mean[name] + weight * (now[name] - mean[name]) for name in now}
    for name, array in averaged.result().items():
        np.testing.assert_allclose(array, mean[name], atol=1e-5)
        np.testing.assert_array_equal(averaged.arrays[name], plain.arrays[name])
    plain.result()["users"][:] = 0  # a copy
    assert plain.arrays["users"].all()


def test_a_state_is_all_that_another_epoch_needs():
    one, other = trainer(3), trainer(3)
    for epoch in range(2):
        one.train_epoch(epoch, lambda done, loss: None)
    other.load_state({name: array.copy() for name, array in one.state().items()})
    for each in (one, other):
        each.train_epoch(2, lambda done, loss: None)
    for name, array in one.result().items():
        np.testing.assert_array_equal(array, other.result()[name])
