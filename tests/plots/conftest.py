"""Models whose vectors are known, and the texts of a picture."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.recommend.toy_models import Given

import tastespace as ts
from tastespace.models.vector_space import VectorSpace
from tastespace.plots import draw_shelves, taste_map


@pytest.fixture(scope="session")
def fans():
    """Users with up to four interests, items with titles and genres."""
    town = ts.synthetic.multi_interest(n_users=40, n_items=80, n_interactions=900, n_categories=5, seed=2)
    kinds = ("Drama", "Comedy", "Western", "Noir", "Science Fiction")
    about = pl.DataFrame(
        {
            "item": range(80),
            "title": [f"{kinds[kind]} Film {row}" for row, kind in enumerate(town.item_category)],
            "genres": [[kinds[kind]] for kind in town.item_category],
        }
    )
    frame = town.interactions.to_frame()
    return ts.Interactions.from_frame(frame, item_attributes=about, catalog=range(80), threads=1)


@pytest.fixture(scope="session")
def dpcml(fans):
    return ts.DPCML(**ts.DPCML.paper_form(), learning_rate=0.1, dim=8, epochs=15, n_interests=4, threads=1, seed=1).fit(
        fans
    )


@pytest.fixture(scope="session")
def draw(dpcml):
    """Either picture of the same user."""
    return {
        "shelves": lambda path: draw_shelves(dpcml.shelves(7), path),
        "map": lambda path: taste_map(dpcml, 7, path),
    }


@pytest.fixture
def placed():
    """A model of one user whose interests and items are at given positions, and of zoe, who has every item."""

    def make(interests, items, past, titles=None, user="ann"):
        items, interests = np.asarray(items, dtype=np.float32), np.asarray(interests, dtype=np.float32)
        names = [f"i{row:03d}" for row in range(len(items))]
        taken = [(user, names[row]) for row in past] + [("zoe", name) for name in names]
        about = None if titles is None else pl.DataFrame({"item": names, "title": titles})
        frame = pl.DataFrame(taken, schema=["user", "item"], orient="row")
        train = ts.Interactions.from_frame(frame, item_attributes=about, threads=1)
        vectors = np.vstack([interests, np.zeros((1, items.shape[1]))]).astype(np.float32)
        offsets = np.array([0, len(interests), len(vectors)], dtype=np.int64)
        return Given(VectorSpace(vectors, offsets, items)).fit(train)

    return make


@pytest.fixture(scope="session")
def words():
    """The texts of an .svg."""

    def find(path: Path) -> list[str]:
        found = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))
        marks = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))
        for mark, sign in marks:
            found = [text.replace(mark, sign) for text in found]
        return found

    return find
