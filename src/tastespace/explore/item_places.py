"""The map of a whole catalog: where each item is in the plane, and where a user's interests are among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds
from threadpoolctl import threadpool_limits

from tastespace.computed_once import computed_once
from tastespace.data.interactions import Interactions
from tastespace.explore.map_layout import plane_layout
from tastespace.models.base import Recommender
from tastespace.recommend.scoring import ScoringIndex

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
