"""Models whose scores or vectors are given, and tiny data sets written as lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from tastespace import Interactions
from tastespace.models import Recommender, VectorSpace


class GivenScores(Recommender):
    """Scores are looked up; `blocks` records how many users were scored at a time."""

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        self.blocks: list[int] = []

    def with_scores(self, table: Any) -> GivenScores:
        self.table_ = np.asarray(table, dtype=np.float32)
        return self

    def can_serve(self, users: Any) -> Any:
        return np.ones(len(users), dtype=bool)  # whatever their history

    def score_block(self, users: Any) -> Any:
        self.blocks.append(len(users))
        return self.table_[users]


class GivenVectors(Recommender):
    """A model of given vectors."""

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        pass

    def with_vectors(self, space: VectorSpace) -> GivenVectors:
        self.space_ = space
        return self

    def can_serve(self, users: Any) -> Any:
        return np.ones(len(users), dtype=bool)  # whatever their history

    def vectors(self) -> VectorSpace:
        return self.space_


@pytest.fixture(scope="session")
def taken() -> Callable[..., Interactions]:
    """``taken([[0, 2], [1]], n_items)``: the items of each user; ``genres`` are lists of categories, one per item."""

    def build(rows: Any, n_items: int, *, users: Any = None, items: Any = None, genres: Any = None) -> Interactions:
        table = np.zeros((len(rows), n_items))
        for user, row in enumerate(rows):
            table[user, list(row)] = 1
        data = Interactions.from_scipy(sp.csr_array(table), users=users, items=items)
        if genres is None:
            return data
        column = pl.Series("genres", genres, dtype=pl.List(pl.String))
        return replace(data, item_attributes=pl.DataFrame([data.items.series.alias("item"), column]))

    return build


@pytest.fixture(scope="session")
def scored() -> Callable[..., GivenScores]:
    """``scored(train, table)``: a fitted model with these scores; ``valid`` as in `fit`."""
    return lambda train, table, valid=None: GivenScores().fit(train, valid).with_scores(table)


@pytest.fixture(scope="session")
def with_vectors() -> Callable[..., GivenVectors]:
    """``with_vectors(train, space)``: a fitted model with these vectors."""
    return lambda train, space: GivenVectors().fit(train).with_vectors(space)
