"""SparseEASE against a sparse approximate inverse and against exact EASE, on the train parts of published splits.

    python benchmarks/large_catalogs.py [DATASET ...]

A fifth of each user's train items is held out (seed 0, rounded down); the rest is fitted. Printed are R@20 and NDCG@20
on 3,000 sampled users, seconds of CPU for the fit, its peak of memory above the data, and the number of coefficients.
The sparse approximate inverse is SANSA (Spišák et al., RecSys 2023), the package of its authors with incomplete
factorization; its rows are left out where `sansa` is not installed. Exact EASE solves (X'X + D) y = x for the sampled
users by conjugate gradients: it is the limit that approximations of the inverse approach, not a model for use. Only the
diagonal of the inverse is taken from SparseEASE. Each row is a process of its own. In brackets: the difference from the
first row in per cent, with the standard error of the paired differences of users.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import tastespace as ts
from sparse_ease import memory_gb
from tastespace.models import SparseEASE

try:
    import sansa
except ModuleNotFoundError:
    sansa = None

DATASETS = ("yelp2018", "amazon-cds-m1")
SPARSE = (  # n_neighbors, regularization, dropout, user_power, item_power
    (100, 100.0, 0.5, 0.0, 0.0),
    (100, 30.0, 0.5, 0.0, 0.0),
    (100, 100.0, 0.5, -0.25, 0.0),
    (200, 100.0, 0.5, 0.0, 0.0),
)
EXACT = ((100.0, 0.5),)  # regularization, dropout
SANSA = ((10.0, 1e-3, 0.0), (10.0, 1e-3, -0.2), (30.0, 1e-3, -0.2))  # l2, density, item_power
TOLERANCE = 5e-3  # of conjugate gradients; 2e-3 takes a few steps more


def measured(fit):
    """What fit returns, its seconds of CPU and its peak of memory in GB above what was held before."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here on
    before, start = memory_gb("VmRSS"), time.process_time()
    found = fit()
    return found, time.process_time() - start, memory_gb("VmHWM") - before


def accuracy(scores, users, rest, held_out):
    """R@20 and NDCG@20 of each of these users, `(2, len(users))`; `scores` makes the dense rows of users."""
    discounts = 1.0 / np.log2(np.arange(2, 22))
    recall, ndcg = [], []
    for first in range(0, len(users), 250):
        block = users[first : first + 250]
        found = np.where(rest[block].toarray() > 0, -np.inf, scores(block))
        for line, user in zip(found, block, strict=True):
            best = np.argpartition(-line, 20)[:20]
            liked = held_out.indices[held_out.indptr[user] : held_out.indptr[user + 1]]
            hits = np.isin(best[np.argsort(-line[best], kind="stable")], liked)
            recall.append(hits.sum() / len(liked))
            ndcg.append((hits * discounts).sum() / discounts[: len(liked)].sum())
    return np.array([recall, ndcg])


def exact_scores(matrix, regularization, dropout):
    """Scores of EASE without its matrix: with (X'X + D) y = x, those of x are -y over the diagonal of the inverse."""
    own = np.asarray(matrix.sum(axis=0), dtype=np.float64)
    added = regularization + dropout / (1 - dropout) * own
    model = SparseEASE(regularization=regularization, dropout=dropout).fit(ts.Interactions.from_scipy(matrix))
    explained = np.zeros(matrix.shape[1])
    for first in range(0, matrix.shape[0], 1000):
        rows = matrix[first : first + 1000]
        explained += np.asarray(rows.multiply(rows @ model.coefficients_).sum(axis=0)).ravel()
    residual = own + added - explained  # 1 / diagonal of the inverse
    by_item, diagonal = matrix.T.tocsr(), added.astype(np.float32)[:, None]
    scale = (1.0 / (own + added)).astype(np.float32)[:, None]

    def scores(users):
        rest = np.ascontiguousarray(matrix[users].toarray().T)
        solution = np.zeros_like(rest)
        direction = rest * scale
        size = first_size = np.sum(rest * direction, axis=0)
        while np.sqrt(size / first_size).max() > TOLERANCE:
            product = by_item @ (matrix @ direction) + diagonal * direction
            step = size / np.sum(direction * product, axis=0)
            solution += step * direction
            rest -= step * product
            size, last = np.sum(rest * rest * scale, axis=0), size
            direction = rest * scale + size / last * direction
        return -solution.T * residual

    return scores


def sansa_scores(matrix, l2, density, item_power):
    """SANSA as published, its two factors, and their number of entries."""
    counts = matrix.sum(axis=0)
    known = np.flatnonzero(counts)  # the package refuses items without interactions
    matrix, powers = matrix[:, known], counts[known] ** item_power
    model = sansa.SANSA(
        sansa.SANSAConfig(
            l2=l2,
            weight_matrix_density=density,
            gramian_factorizer_config=sansa.ICFGramianFactorizerConfig(),
            lower_triangle_inverter_config=sansa.UMRUnitLowerTriangleInverterConfig(),
        )
    ).fit(sp.csr_matrix(matrix))
    left, right = model.weights
    weighted = sp.csr_array(matrix @ sp.diags_array(powers))

    def scores(users):
        found = np.full((len(users), len(counts)), -np.inf)
        found[:, known] = ((weighted[users] @ left) @ right).toarray() / powers
        return found

    return scores, left.nnz + right.nnz


def row(name, kind, setting):
    """The figures of each user for one model, and its cost as text, measured in this process."""
    rest, held_out = ts.split.inner(ts.datasets.load_split(name)[0], seed=0)
    matrix, held = sp.csr_array(rest.matrix, dtype=np.float32), sp.csr_array(held_out.matrix)
    users = np.sort(np.random.default_rng(0).choice(np.flatnonzero(held_out.user_counts), 3000, replace=False))
    cost = ""
    if kind == "exact EASE":
        scores = exact_scores(matrix, *setting)
    elif kind == "SANSA":
        (scores, n), seconds, peak = measured(lambda: sansa_scores(matrix, *setting))
    else:
        model, seconds, peak = measured(lambda: SparseEASE(*setting, memory_limit_gb=4.0).fit(rest))
        scores, n = model.score_block, model.coefficients_.nnz
    if kind != "exact EASE":
        cost = f"{seconds:4.0f} s  {peak:.2f} GB  {n:,}"
    return accuracy(scores, users, matrix, held), cost


def compare(name):
    rows = [("SparseEASE", one) for one in SPARSE] + [("exact EASE", one) for one in EXACT]
    if sansa is None:
        print("SANSA is not installed: pip install sansa", flush=True)
    else:
        rows += [("SANSA", one) for one in SANSA]
    print(name, flush=True)
    reference = None
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for kind, setting in rows:
            found, cost = pool.apply(row, (name, kind, setting))
            reference = found if reference is None else reference
            text = []
            for mine, first in zip(found, reference, strict=True):
                error = np.std(mine - first) / np.sqrt(len(mine)) / np.mean(first)
                text.append(f"{np.mean(mine):.4f} ({np.mean(mine) / np.mean(first) - 1:+5.1%} +- {error:.1%})")
            title = f"{kind} {', '.join(format(value, 'g') for value in setting)}"
            print(f"  {title:32} {'  '.join(text)}  {cost}", flush=True)


if __name__ == "__main__":
    for dataset in sys.argv[1:] or DATASETS:
        compare(dataset)
