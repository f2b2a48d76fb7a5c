"""Qdrant: one recommend query for all vectors of a user.

With the strategy ``best_score`` and no negative examples Qdrant ranks a point by its best similarity to any of the
positive ones: with Euclid distance, by the distance to the nearest of the user's vectors.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace._util.extras import missing
from tastespace.errors import TastespaceError
from tastespace.recommend.stores._base import Candidates, VectorStore
from tastespace.recommend.stores.vectors import ExportedVectors, plain_id

_PARTS = ("items", "users")
_OWN = {"written_by": "tastespace"}  # in the payload of every point: a collection with another point is not ours
_BATCH = 500  # points that are sent at a time
_SIGMOID_STEP = 2.5e-7  # the strategy's scores are 0.5 (s / (1 + |s|) + 1) in single precision


class QdrantStore(VectorStore):
    """``qdrant://host:6333``, or a folder without a server: ``qdrant:///path``, ``qdrant://./path``.

    ``?https=1`` for TLS; a key is read from the environment, ``QDRANT_API_KEY``.
    """

    def _connect(self) -> None:
        try:
            import qdrant_client.models
        except ImportError as problem:
            raise missing("export", "qdrant:// addresses need qdrant-client") from problem
        self._models = qdrant_client.models
        place = self.address.place
        try:
            if place == ":memory:":
                self._client = qdrant_client.QdrantClient(":memory:")
            elif place.startswith((".", "/", "~")):
                self._client = qdrant_client.QdrantClient(path=str(self.address.path))
            else:
                scheme = "https" if self.address.options.get("https", "0") not in ("", "0", "false") else "http"
                key = os.environ.get("QDRANT_API_KEY") or None
                self._client = qdrant_client.QdrantClient(
                    f"{scheme}://{place}", api_key=key, timeout=60, check_compatibility=False
                )
            self._client.get_collections()
        except Exception as problem:  # of its HTTP library, of pydantic, or of the operating system
            raise self._unreachable(problem, "" if self._is_local else "Is the server running?") from problem

    def _collection(self, part: str) -> str:
        return f"{self.address.name}_{part}"

    def write(self, vectors: ExportedVectors, replace: bool) -> None:
        """Replace both collections."""
        self._connect()
        models = self._models
        try:
            for part in _PARTS:
                if self._client.collection_exists(self._collection(part)) and not self._is_ours(part):
                    raise self._foreign(f"the collection {self._collection(part)}")
            if self._client.collection_exists(self._collection("items")) and not replace:
                self._read_config()
                self._require_same(vectors, self.metric, self.dim, replace)
            distance = models.Distance.EUCLID if vectors.metric == "l2" else models.Distance.DOT
            for part in _PARTS:
                name = self._collection(part)
                if self._client.collection_exists(name):
                    self._client.delete_collection(name)
                self._client.create_collection(
                    name, vectors_config=models.VectorParams(size=vectors.dim, distance=distance)
                )
            self._upload(
                "items", vectors.item_vectors, [{"item": item, "number": at} for at, item in enumerate(vectors.items)]
            )
            people = zip(vectors.users, vectors.interests, strict=True)
            self._upload("users", vectors.user_vectors, [{"user": one, "interest": at} for one, at in people])
            if not self._is_local:
                kinds = {"items": ("item", vectors.items), "users": ("user", vectors.users)}
                for part, (field, ids) in kinds.items():
                    types = models.PayloadSchemaType
                    schema = types.INTEGER if isinstance(ids[0], int) else types.KEYWORD
                    self._client.create_payload_index(self._collection(part), field, field_schema=schema)
        except TastespaceError:
            self.close()
            raise
        except Exception as problem:
            raise self._unreachable(problem) from problem
        self._remember(vectors)

    @property
    def _is_local(self) -> bool:
        return self.address.place.startswith((".", "/", "~", ":"))

    def _upload(self, part: str, rows: NDArray[np.float32], payloads: list[dict[str, Any]]) -> None:
        for first in range(0, len(rows), _BATCH):
            last = min(first + _BATCH, len(rows))
            points = self._models.Batch(
                ids=list(range(first, last)),
                vectors=rows[first:last].tolist(),
                payloads=[_OWN | one for one in payloads[first:last]],
            )
            self._client.upsert(self._collection(part), points, wait=True)

    def open(self) -> None:
        """Read metric, dimension and number of items of what is stored."""
        self._connect()
        try:
            for part in _PARTS:
                name = self._collection(part)
                if not self._client.collection_exists(name):
                    raise self._not_ours(f"there is no collection {name}")
                if not self._is_ours(part):
                    raise self._not_ours(f"the collection {name} was not written by tastespace")
            self._read_config()
            self.n_items = self._client.count(self._collection("items"), exact=True).count
        except TastespaceError:
            self.close()
            raise
        except Exception as problem:
            self.close()
            raise self._unreachable(problem) from problem

    def _is_ours(self, part: str) -> bool:
        """Return true if all points of a collection are ours, or there are none."""
        models = self._models
        ours = [models.FieldCondition(key=key, match=models.MatchValue(value=value)) for key, value in _OWN.items()]
        others = models.Filter(must_not=ours)
        return self._client.count(self._collection(part), count_filter=others, exact=True).count == 0

    def _read_config(self) -> None:
        config = self._client.get_collection(self._collection("items")).config.params.vectors
        if not isinstance(config, self._models.VectorParams):
            raise self._not_ours(f"the collection {self._collection('items')} has named vectors, expected one of each")
        known = {self._models.Distance.EUCLID: "l2", self._models.Distance.DOT: "dot"}
        self.metric, self.dim = known.get(config.distance, str(config.distance.value)), config.size

    def close(self) -> None:
        """Close the connection, or the folder."""
        self._client.close()

    def user_vectors(self, user: Hashable) -> NDArray[np.float32]:
        """The stored vectors of a user, shape ``(n_interests, dim)``; an unknown user is an error."""
        models = self._models
        match = models.FieldCondition(key="user", match=models.MatchValue(value=plain_id(user)))
        try:
            found, _ = self._client.scroll(
                self._collection("users"),
                scroll_filter=models.Filter(must=[match]),
                limit=100_000,
                with_vectors=True,
                with_payload=True,
            )
        except Exception as problem:
            raise self._unreachable(problem) from problem
        if not found:
            raise self._unknown_user(user)
        rows = sorted(found, key=lambda one: (one.payload or {})["interest"])
        return np.array([one.vector for one in rows], dtype=np.float32)

    def _candidates(self, vectors: NDArray[np.float32], n: int, seen: Collection[Any]) -> Candidates:
        models = self._models
        without = None
        if seen:
            kinds = [[one for one in seen if isinstance(one, kind)] for kind in (int, str)]  # one condition for each
            matches = [models.MatchAny(any=ids) for ids in kinds if ids]
            without = models.Filter(must_not=[models.FieldCondition(key="item", match=one) for one in matches])
        query = models.RecommendQuery(
            recommend=models.RecommendInput(positive=vectors.tolist(), strategy=models.RecommendStrategy.BEST_SCORE)
        )
        try:
            found = self._client.query_points(
                self._collection("items"),
                query=query,
                query_filter=without,
                limit=n,
                with_vectors=True,
                with_payload=True,
                search_params=None if self._is_local else models.SearchParams(exact=True),
            ).points
        except Exception as problem:
            raise self._unreachable(problem) from problem
        # Qdrant returns the score of a point, rounded and without its vector: scores are computed here.
        rows = np.array([one.vector for one in found], dtype=np.float64).reshape(len(found), self.dim)
        own = vectors.astype(np.float64)
        scores = -((own[:, None] - rows[None]) ** 2).sum(axis=2) if self.metric == "l2" else own @ rows.T
        bound = -np.inf
        if len(found) == n:
            last = float(scores[:, -1].max())
            bound = last + _SIGMOID_STEP * (1 + abs(last)) ** 2
        payloads = [one.payload or {} for one in found]
        return Candidates(
            np.tile(np.array([one["number"] for one in payloads], dtype=np.int64), len(own)),
            [one["item"] for one in payloads] * len(own),
            scores.ravel(),
            np.repeat(np.arange(len(own)), len(found)),
            bound,
        )
