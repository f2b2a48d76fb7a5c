"""The map of a whole catalog: places in the plane for items and interests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds
from threadpoolctl import threadpool_limits

from tastespace._util.computed_once import computed_once
from tastespace.data.interactions import Interactions
from tastespace.models.base import Recommender
from tastespace.ranking.scoring import ScoringIndex

# ---------------------------------------------------------------------------------------------------------------------
# Places in the plane for vectors of many dimensions: t-SNE of some of them, the others next to their nearest ones.
#
# The exact method (van der Maaten and Hinton 2008) compares every point with every other, so it is used for at most
# `LANDMARKS` points: the first ones given, and an even sample of the rest. What remains is placed by its nearest
# landmarks. The time is then bounded for landmarks and linear in the number of the others.

_Points = NDArray[np.float32]

LANDMARKS = 1000
"""Points that are laid out by comparing all with all."""
_PERPLEXITY = 30.0  # how many neighbors each landmark keeps close
_STEPS, _EARLY = 300, 100  # all steps, and those in which attraction is exaggerated to let groups form
_EXAGGERATION = 12.0
_NEAREST = 4  # landmarks that place another point
_DIMENSIONS = 32  # of the vectors that are compared; more change little and cost time
_ROWS = 64  # landmarks compared with all others at once
_BLOCK = 2048  # points compared with the landmarks at once


def plane_layout(vectors: NDArray[np.floating], order: NDArray[np.integer]) -> _Points:
    """Positions in [-1, 1] x [-1, 1], shape ``(n, 2)``, in which near vectors are near; always the same for the same.

    ``vectors`` has the shape ``(n, d)`` and is compared by Euclidean distance. ``order`` lists all rows, those first
    that are to be placed most exactly.

    >>> two_groups = np.repeat([[0.0, 0.0, 9.0], [9.0, 0.0, 0.0]], 20, axis=0)
    >>> two_groups += np.random.default_rng(0).normal(size=two_groups.shape)
    >>> places = plane_layout(two_groups, np.arange(40))
    >>> inside = np.linalg.norm(places[:20] - places[:20].mean(axis=0), axis=1).mean()
    >>> bool(np.linalg.norm(places[:20].mean(axis=0) - places[20:].mean(axis=0)) > 2 * inside)
    True
    """
    n = len(vectors)
    if n < 4:
        return np.array([[0.0, 0.0], [0.6, 0.3], [-0.6, -0.3]], dtype=np.float32)[:n]
    with threadpool_limits(1, "blas"):  # sums in another order would end in another map
        reduced = _principal(np.asarray(vectors, dtype=np.float32))
        chosen = _landmarks(order)
        places = np.empty((n, 2), dtype=np.float32)
        places[chosen] = _tsne(reduced[chosen])
        rest = np.setdiff1d(np.arange(n), chosen)
        for start in range(0, len(rest), _BLOCK):
            rows = rest[start : start + _BLOCK]
            places[rows] = _beside(reduced[rows], reduced[chosen], places[chosen], rows)
    middle = (places.max(axis=0) + places.min(axis=0)) / 2
    # The plane has no scale of its own: each axis uses its room.
    return ((places - middle) / np.maximum(np.abs(places - middle).max(axis=0), 1e-9)).astype(np.float32)


def _principal(vectors: _Points) -> _Points:
    """The vectors in their principal components, the largest first, with mean 0."""
    centered = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centered.T.astype(np.float64) @ centered)
    kept = directions[:, ::-1][:, :_DIMENSIONS]
    # The sign of a direction is arbitrary; fixed, the same vectors give the same map.
    kept = kept * np.where(np.take_along_axis(kept, np.abs(kept).argmax(axis=0)[None], axis=0) < 0, -1.0, 1.0)
    found: _Points = (centered @ kept).astype(np.float32)
    return found if found.shape[1] > 1 else np.column_stack([found, np.zeros(len(found), dtype=np.float32)])


def _landmarks(order: NDArray[np.integer]) -> NDArray[np.int64]:
    """The first rows of the order, and as many drawn evenly from the rest; ascending."""
    if len(order) <= LANDMARKS:
        return np.sort(order).astype(np.int64)
    first, rest = order[: LANDMARKS // 2], order[LANDMARKS // 2 :]
    drawn = np.random.default_rng(0).choice(rest, LANDMARKS - len(first), replace=False)
    return np.sort(np.concatenate([first, drawn])).astype(np.int64)


def _squared_distances(a: _Points, b: _Points) -> _Points:
    return np.maximum((a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2 * (a @ b.T), 0.0)


def _tsne(points: _Points) -> _Points:
    """Positions of shape ``(n, 2)`` whose neighbors are those of the points: gradient descent from two components."""
    n = len(points)
    similar = _similarities(points)
    places = points[:, :2] / max(float(points[:, 0].std()), 1e-9) * 1e-2
    # Points at the same place would never part.
    places = (places + np.random.default_rng(0).normal(scale=1e-4, size=places.shape)).astype(np.float32)
    step, gains = np.zeros_like(places), np.ones_like(places)
    rate = max(n / _EXAGGERATION, 50.0)
    own, other = similar.coords
    for t in range(_STEPS):
        push, total = _repulsion(places)
        apart = places[own] - places[other]
        pull = similar.data * (_EXAGGERATION if t < _EARLY else 1.0) / (1 + (apart * apart).sum(axis=1))
        edges = pull[:, None] * apart
        attraction = np.stack([np.bincount(own, edges[:, axis], minlength=n) for axis in (0, 1)], axis=1)
        gradient = (4 * (attraction - push / total)).astype(np.float32)
        gains = np.where(gradient * step < 0, gains + 0.2, np.maximum(gains * 0.8, 0.01))
        step = ((0.5 if t < _EARLY else 0.8) * step - rate * gains * gradient).astype(np.float32)
        places = places + step
    return places


def _repulsion(places: _Points) -> tuple[_Points, float]:
    """The sum over all others of the difference to each point times squared closeness, and the sum of closeness."""
    x, y = np.ascontiguousarray(places[:, 0]), np.ascontiguousarray(places[:, 1])
    push, total = np.empty_like(places), 0.0
    for start in range(0, len(places), _ROWS):  # so few rows stay in the cache of a core
        rows = slice(start, start + _ROWS)
        closeness, across = np.subtract.outer(x[rows], x), np.subtract.outer(y[rows], y)
        closeness *= closeness
        across *= across
        closeness += across
        closeness += 1
        np.reciprocal(closeness, out=closeness)
        total += float(closeness.sum(dtype=np.float64)) - len(closeness)  # without the points themselves
        closeness *= closeness
        push[rows] = closeness.sum(axis=1)[:, None] * places[rows] - closeness @ places
    return push, max(total, 1e-12)


def _similarities(points: _Points) -> sp.coo_array:
    """Similarities of pairs of points, symmetric with sum 1: Gaussian, with the same perplexity for each."""
    n = len(points)
    perplexity = min(_PERPLEXITY, (n - 1) / 3)
    k = min(n - 1, int(3 * perplexity))
    squared = _squared_distances(points, points)
    np.fill_diagonal(squared, np.inf)
    near = np.argpartition(squared, k - 1, axis=1)[:, :k]
    distances = np.take_along_axis(squared, near, axis=1).astype(np.float64)
    distances -= distances.min(axis=1, keepdims=True)
    low, high = np.zeros((n, 1)), np.full((n, 1), np.inf)
    precision = 1 / np.maximum(distances.mean(axis=1, keepdims=True), 1e-12)
    for _ in range(40):  # bisection of the width of each Gaussian
        weights = np.exp(-distances * precision)
        sums = weights.sum(axis=1, keepdims=True)
        entropy = np.log(sums) + precision * (weights * distances).sum(axis=1, keepdims=True) / sums
        wide = entropy > np.log(perplexity)
        low, high = np.where(wide, precision, low), np.where(wide, high, precision)
        precision = np.where(np.isinf(high), precision * 2, (low + np.where(np.isinf(high), 0, high)) / 2)
    shares = weights / sums
    table = sp.csr_array((shares.ravel(), (np.repeat(np.arange(n), k), near.ravel())), shape=(n, n))
    both = sp.coo_array((table + table.T) / (2 * n))
    both.sum_duplicates()
    return both


def _beside(points: _Points, landmarks: _Points, places: _Points, rows: NDArray[np.integer]) -> _Points:
    """Positions of further points: the weighted mean of their nearest landmarks', moved a little.

    Means of the same few landmarks would fall into one spot; the move, as far as these landmarks are from each other,
    depends on the row alone.
    """
    squared = _squared_distances(points, landmarks)
    k = min(_NEAREST, len(landmarks))
    near = np.empty((len(points), k), dtype=np.int64)
    distances = np.empty((len(points), k), dtype=np.float32)
    at = np.arange(len(points))
    for rank in range(k):  # for so few this is faster than a partition
        near[:, rank] = squared.argmin(axis=1)
        distances[:, rank] = squared[at, near[:, rank]]
        squared[at, near[:, rank]] = np.inf
    scale = np.maximum(distances.mean(axis=1, keepdims=True) - distances.min(axis=1, keepdims=True), 1e-9)
    weights = np.exp(-(distances - distances.min(axis=1, keepdims=True)) / scale)
    weights /= weights.sum(axis=1, keepdims=True)
    around = places[near]
    # The landmark nearest of all says the region: of the others only those count that are near it on the map.
    first = around[:, :1]
    apart = ((around - first) ** 2).sum(axis=2)
    reach = 4 * np.median(apart) + 1e-9
    weights = np.where(apart <= reach, weights, 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    mean = (weights[:, :, None] * around).sum(axis=1)
    spread = np.sqrt((weights[:, :, None] * (around - mean[:, None]) ** 2).sum(axis=(1, 2)))
    spread = 1.3 * np.maximum(spread, 0.6 * np.median(spread))
    angle = rows * (np.pi * (3 - np.sqrt(5)))
    length = np.sqrt((rows * 0.7548776662466927) % 1.0) * spread
    moved: _Points = (mean + np.stack([np.cos(angle), np.sin(angle)], axis=1) * length[:, None]).astype(np.float32)
    return moved


# ---------------------------------------------------------------------------------------------------------------------
# The map of a whole catalog: where each item is in the plane, and where a user's interests are among them.

_NEIGHBORS = 15  # nearest items that place an interest
_COMPONENTS = 24  # of the interactions, for models that have no vectors


@dataclass(frozen=True, eq=False)
class CatalogMap:
    """Positions of all items of a model."""

    places: NDArray[np.float32]
    """In [-1, 1], shape ``(n_items, 2)``, in the order of ``train_.items``."""

    def place(self, rows: NDArray[np.integer[Any]], few: int = 6) -> tuple[float, float]:
        """A position among the items at these rows: in the midst of the half dozen that are closest together.

        The mean of all would be in a void where they are in several places.

        >>> two = CatalogMap(np.array([[0.0, 0.0], [0.1, 0.0], [0.2, 0.0], [1.0, 1.0]], dtype=np.float32))
        >>> [round(x, 2) for x in two.place(np.arange(4), few=3)]
        [0.1, 0.0]
        """
        points = self.places[rows].astype(np.float64)
        if not len(points):
            return 0.0, 0.0
        apart = np.linalg.norm(points[:, None] - points[None], axis=2)
        near = np.argsort(apart, axis=1, kind="stable")[:, :few]
        best = int(np.take_along_axis(apart, near, axis=1).sum(axis=1).argmin())
        x, y = points[near[best]].mean(axis=0).tolist()
        return x, y


def catalog_map(model: Recommender) -> CatalogMap:
    """The map of the items of a fitted model, computed once: seconds for 100,000 items, the same every time.

    Items are near each other that the model compares as alike: by the distance or the cosine of their vectors, and for
    models without vectors by the users who took them.

    >>> from tastespace import DPCML, synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> catalog_map(DPCML(dim=8, epochs=2).fit(town)).places.shape
    (40, 2)
    """
    index = ScoringIndex(model, threads=1)
    space, source = index.interest_space, model.popularity_source
    order = np.argsort(-source.item_counts, kind="stable")
    if space is None:
        places = computed_once(source, "catalog map", lambda: plane_layout(_taken_together(source), order))
    else:
        vectors = space.item_vectors
        compared = vectors if space.metric == "l2" else _unit(vectors)
        places = computed_once(vectors, "catalog map", lambda: plane_layout(compared, order))
    return CatalogMap(places)


def interest_places(model: Recommender, row: int) -> list[tuple[float, float]]:
    """Positions of the interests of the user at this row on `catalog_map`: each among its nearest items.

    These are the nearest of the items that match it better than the user's other interests, as those on its shelf, or
    of all items where none does. One for each interest; none for models without vectors. A model after fold-in has the
    map of the model before.
    """
    index = ScoringIndex(model, threads=1)
    if index.interest_space is None:
        return []
    places = catalog_map(model)
    scores = index.interest_scores(row, np.arange(model.train_.n_items, dtype=np.int32))
    matched, found = scores.argmax(axis=0), []
    for x, of_interest in enumerate(scores):
        own = np.flatnonzero(matched == x)
        own = own if len(own) else np.arange(len(of_interest))
        found.append(places.place(own[np.argsort(-of_interest[own], kind="stable")[:_NEIGHBORS]]))
    return found


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit


def _taken_together(source: Interactions) -> NDArray[np.float32]:
    """Vectors of the items from the interactions alone, of length 1: items that the same users took are near."""
    users, items = np.maximum(1, source.user_counts), np.maximum(1, source.item_counts)
    table = sp.csr_array(source.matrix, dtype=np.float32)
    table.data[:] = 1
    weighted = sp.diags_array(users**-0.5) @ table @ sp.diags_array(items**-0.5)
    k = min(_COMPONENTS, min(weighted.shape) - 1)
    if k < 1:
        return np.zeros((source.n_items, 2), dtype=np.float32)
    start = np.random.default_rng(0).normal(size=min(weighted.shape))
    with threadpool_limits(1, "blas"):
        _, values, items_of = svds(weighted.astype(np.float64), k=k, v0=start)
    return _unit((values[:, None] * items_of).T.astype(np.float32))
