"""Vectors in a vector database or index, and lists from there that are those of `recommend`.

`export_to` writes the vectors of a model to a store; `open_vector_store` opens a written store without the model. Both
return a `VectorStore`, whose `recommend` sends the vectors of a user to the store and merges the answers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tastespace.recommend.stores._address import ENGINES, parse_address
from tastespace.recommend.stores._base import VectorStore
from tastespace.recommend.stores.vectors import vector_model, vectors_to_export

if TYPE_CHECKING:
    from tastespace.models.base import Recommender

__all__ = ["VectorStore", "export_to", "open_vector_store"]


def export_to(model: Recommender, address: str, replace: bool = False, member: str | None = None) -> VectorStore:
    """`Recommender.export_to`: write a model's vectors to the store at an address and return the store."""
    place = parse_address(address)
    vectors = vectors_to_export(vector_model(model, member))
    store = _class_of(place.engine)(place)
    store.write(vectors, replace)
    return store


def open_vector_store(address: str) -> VectorStore:
    """Open the store at an address that `Recommender.export_to` or `tastespace export --to` has written.

    >>> import tempfile
    >>> from tastespace import DPCML, synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> model = DPCML(dim=8, epochs=2).fit(town)
    >>> address = f"faiss://{tempfile.mkdtemp()}"
    >>> model.export_to(address)
    FaissStore(40 items, 8 dimensions, l2)
    >>> found = open_vector_store(address).recommend(7, k=3, seen=town.items_of(7))
    >>> found["item"].equals(model.recommend(7, k=3)["item"])
    True
    """
    place = parse_address(address)
    store = _class_of(place.engine)(place)
    store.open()
    return store


def _class_of(engine: str) -> type[VectorStore]:
    module, name = ENGINES[engine].rsplit(".", 1)
    found: type[VectorStore] = getattr(import_module(f"tastespace.recommend.stores.{module}"), name)
    return found
