"""Approximate search: an index of the items near a vector, and lists from it that are ranked exactly."""

from __future__ import annotations

import logging
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace._util.checks import require_choice
from tastespace._util.computed_once import computed_once, kept
from tastespace._util.csr import ranges
from tastespace._util.extras import missing
from tastespace._util.model_files import MappedFile, checksum, open_regular, require_checksum
from tastespace._util.threads import resolve_threads
from tastespace.errors import Argument, DataError, ModelFileError, ParameterError
from tastespace.models.base import Recommender
from tastespace.models.vector_space import VectorSpace
from tastespace.ranking.blocks import Block, ItemLists, ScoredLists
from tastespace.ranking.scoring import Ranker, ScoringIndex, frozen, require_vectors

# ---------------------------------------------------------------------------------------------------------------------
# Items near a vector, found without looking at all of them: `index="ann"` of `Recommender.recommend`.
#
# An inverted file (faiss): items are clustered, and a search looks only at the items of the clusters nearest to the
# query, `n_probe` of them. How many that takes is measured when the index is built, with vectors of users as queries.
# It is kept with the items' vectors (`_util.computed_once`), so that a model that learns has none until it is
# built again, and it may be stored with the model. A stored one is used only if its bytes, and the vectors that it
# was made from, are those that they should be.

log = logging.getLogger(__name__)

KINDS = ("ann",)
_FEW_ITEMS = 5_000  # below which all are looked at
_TRAINED_ON = 64  # items per cluster that the clusters are learned from
_ITERATIONS = 8
_RECALL, _DEPTH, _SAMPLED_USERS = 0.99, 100, 64  # what `n_probe` is chosen for
_LARGEST = 1e15  # of numbers whose squared distances are finite
_HALF_LARGEST = 6e4  # of numbers that are stored in half precision
_FAISS_ERRORS = (RuntimeError, MemoryError)  # what faiss raises for files that it cannot read


@dataclass(frozen=True)
class StoredIndex:
    """The index file of a model directory.

    It is not part of the model, which answers without it, and may be damaged alone.
    """

    path: Path
    size: int
    crc32: str
    about: Mapping[str, Any]
    """Facts of the index, such as the checksum of the vectors that it was made from (`AnnIndex.about`)."""

    def mapped(self) -> tuple[memoryview, MappedFile]:
        """The bytes that were written, which stay in the file, and what tells whether that has changed since."""
        try:
            with open_regular(self.path) as file:
                size = self.path.stat().st_size
                if size != self.size:
                    raise ModelFileError(
                        f"{self.path} has {size:,} bytes, {self.size:,} were written: it was cut off or changed."
                    )
                guard = MappedFile(self.path, file.fileno())
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as problem:
            raise ModelFileError(f"{self.path} cannot be read ({problem.strerror or problem}).") from problem
        require_checksum(self.path, content, self.crc32)
        return memoryview(content), guard


@dataclass(frozen=True, eq=False)
class AnnIndex:
    """An index of all items of a model."""

    index: Any
    """A faiss index of squared distances; its numbers are rows of items."""
    n_probe: int
    """Clusters to look at for each vector."""
    recall: float
    """Share of the 100 best items of some users that was found when `n_probe` was chosen."""
    largest: float | None
    """Norm of all items after they got another coordinate, for inner products; None for distances."""
    vectors: str
    """Checksum of the vectors that it was made from."""
    content: memoryview | None = None
    """The bytes of the file that it is mapped from, which faiss cannot write again."""
    file: MappedFile | None = None
    """Tells whether that file has changed."""

    @property
    def n_clusters(self) -> int:
        """Clusters that the items are in."""
        return int(self.index.nlist)

    @property
    def about(self) -> dict[str, Any]:
        """Facts of the index that a model file states."""
        return {"vectors": self.vectors, "n_probe": self.n_probe, "recall": self.recall, "largest": self.largest}

    def search(
        self,
        queries: NDArray[np.float32],
        k: int,
        threads: int,
        allowed: NDArray[np.uint8] | None = None,
        wider: int = 1,
    ) -> NDArray[np.int64]:
        """Rows of about the k best items for each vector, best first, -1 where fewer were found: ``(n, k)``.

        ``allowed`` has a bit for each item (the first is the lowest of its byte), ``wider`` is how many times as many
        clusters are looked at.
        """
        if self.file is not None:
            self.file.require_unchanged()
        faiss = _import_faiss()
        faiss.omp_set_num_threads(threads)
        options: dict[str, Any] = {"nprobe": min(self.n_clusters, self.n_probe * wider)}
        if allowed is not None:
            options["sel"] = faiss.IDSelectorBitmap(allowed)
        points = _query_points(queries, self.largest)
        try:
            return self.index.search(points, k, params=faiss.SearchParametersIVF(**options))[1]
        except _FAISS_ERRORS as problem:
            raise DataError(
                f"faiss cannot search the index: {str(problem).splitlines()[-1]}. Make it again: `tastespace index`."
            ) from problem

    def to_bytes(self) -> memoryview:
        """Bytes of its file."""
        return memoryview(_import_faiss().serialize_index(self.index)) if self.content is None else self.content


def find_index(model: Recommender, threads: int = 0) -> AnnIndex:
    """The index of a model: the one that it has, the one that is stored with it, or one that is built now."""
    _import_faiss()
    space = frozen(require_vectors(model, "index='ann'"))
    assert space is not None
    stored = model._stored_index

    def make() -> AnnIndex:
        found = None if stored is None else _opened(stored, space)
        return build(space, resolve_threads(threads)) if found is None else found

    return computed_once(space.item_vectors, _key(space), lambda: _Kept(make(), space.item_bias)).ann


def build_index(model: Recommender, kind: str = "ann", threads: int = 0) -> AnnIndex:
    """`Recommender.build_index`."""
    require_choice("kind", kind, KINDS)
    return find_index(model, threads)


def index_to_store(model: Recommender, kind: str | None) -> tuple[memoryview, Mapping[str, Any]] | None:
    """The bytes of the index to save with a model and its metadata; for None the one that the model has."""
    if kind is not None:
        require_choice("index", kind, KINDS)
        found = find_index(model)
        return found.to_bytes(), found.about
    model.require_fitted()
    space = model.vectors()
    if space is None:
        return None
    here: _Kept | None = kept(space.item_vectors, _key(space))
    if here is not None:
        return here.ann.to_bytes(), here.ann.about
    stored = model._stored_index
    if stored is None or stored.about.get("vectors") != _checksum(space):
        return None
    try:
        return stored.mapped()[0], stored.about
    except ModelFileError as problem:
        log.warning("the index of the model is not saved with it: %s", problem)
        return None


def build(space: VectorSpace, threads: int) -> AnnIndex:
    """An index of the items of a space; `n_probe` is chosen with vectors of its users."""
    faiss = _import_faiss()
    faiss.omp_set_num_threads(threads)
    points, largest = _item_points(space)
    n, dim = points.shape
    if not np.abs(points).max(initial=0.0) <= _LARGEST:  # NaN neither: in faiss that would end the process
        raise DataError(
            f"the model has vectors with numbers above {_LARGEST:g}, or none: no index can be made of them. Recommend "
            "without an index; if training diverged, fit the model again."
        )
    n_clusters = 1 if n < _FEW_ITEMS else round(2 * n**0.5)
    log.info("building an index of %s items in %s clusters", f"{n:,}", f"{n_clusters:,}")
    fine = "Flat" if np.abs(points).max(initial=0.0) > _HALF_LARGEST else "SQfp16"
    index = faiss.index_factory(dim, f"IVF{n_clusters},{fine}")
    index.cp.niter, index.cp.min_points_per_centroid, index.cp.max_points_per_centroid = _ITERATIONS, 1, _TRAINED_ON
    step = max(1, n // (n_clusters * _TRAINED_ON))
    index.train(np.ascontiguousarray(points[::step]))
    index.add(points)
    made = AnnIndex(index, 1, 1.0, largest, _checksum(space))
    n_probe, recall = _chosen_probes(made, space, points, threads)
    return AnnIndex(index, n_probe, recall, largest, made.vectors)


def _chosen_probes(made: AnnIndex, space: VectorSpace, points: NDArray[np.float32], threads: int) -> tuple[int, float]:
    """The number of clusters to look at, and the share of the best items of some users that is found then."""
    vectors, offsets = space.user_vectors, space.user_offsets
    if not len(vectors):  # nobody asks; items stand for users with one vector
        vectors, offsets = space.item_vectors, np.arange(len(points) + 1)
    users = np.unique(np.linspace(0, len(offsets) - 2, _SAMPLED_USERS).astype(np.int64))
    counts = offsets[users + 1] - offsets[users]
    queries, first = vectors[ranges(offsets[users], counts)], np.cumsum(counts) - counts
    queries, first = queries[: counts.sum()], first[counts > 0]
    k = min(_DEPTH, len(points))
    distances, nearest = _import_faiss().knn(_query_points(queries, made.largest), points, k)
    parts = zip(np.split(distances, first[1:]), np.split(nearest, first[1:]), strict=True)
    best = [_best_rows(*part, k) for part in parts]
    n_probe = 1
    while True:
        found = np.split(made.search(queries, k, threads, wider=n_probe), first[1:])
        shares = [np.isin(wanted, rows).mean() for wanted, rows in zip(best, found, strict=True)]
        if np.mean(shares) >= _RECALL or n_probe >= made.n_clusters:
            return n_probe, float(np.mean(shares))
        n_probe = min(max(n_probe + 1, 9 * n_probe // 8), made.n_clusters)


def _best_rows(distances: NDArray[np.float32], rows: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The k rows with the smallest distance to any of a user's vectors, from the nearest of each."""
    by_distance = rows.ravel()[np.argsort(distances, axis=None, kind="stable")]
    _, first = np.unique(by_distance, return_index=True)
    return by_distance[np.sort(first)[:k]]


def _item_points(space: VectorSpace) -> tuple[NDArray[np.float32], float | None]:
    """Items as points of which those near a query's point score best.

    For inner products each gets its bias and then what is missing to the norm of the longest as further coordinates: of
    points at one distance from the origin, those with the largest inner product are the nearest.
    """
    items = np.ascontiguousarray(space.item_vectors, dtype=np.float32)
    if space.metric == "l2":
        return items, None
    bias = np.zeros(len(items)) if space.item_bias is None else space.item_bias
    points = np.hstack([items, bias.astype(np.float32)[:, None]])
    squares = np.einsum("ij,ij->i", points, points, dtype=np.float64)
    largest = max(float(squares.max(initial=0.0)), np.finfo(np.float32).tiny)
    rest = np.sqrt(np.maximum(0.0, largest - squares)).astype(np.float32)
    return np.ascontiguousarray(np.hstack([points, rest[:, None]])), largest**0.5


def _query_points(queries: NDArray[np.float32], largest: float | None) -> NDArray[np.float32]:
    """Vectors of users as points: for inner products with 1 for the bias, 0 for the rest, and the norm of the items."""
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    if largest is None:
        return queries
    n = len(queries)
    points = np.hstack([queries, np.ones((n, 1), dtype=np.float32), np.zeros((n, 1), dtype=np.float32)])
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    return np.ascontiguousarray(points * (largest / norms), dtype=np.float32)


def _opened(stored: StoredIndex, space: VectorSpace) -> AnnIndex | None:
    """The index in a file, mapped; None, with a warning, where it cannot be used."""
    faiss, about = _import_faiss(), stored.about
    try:
        content, file = stored.mapped()
        if about.get("vectors") != _checksum(space):
            raise ModelFileError(f"{stored.path} is the index of other vectors than the model's.")
        try:
            index = faiss.read_index(str(stored.path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        except _FAISS_ERRORS as problem:
            raise ModelFileError(f"{stored.path} cannot be read by faiss: {str(problem).splitlines()[-1]}") from problem
        n_probe, recall, largest = (about.get(name) for name in ("n_probe", "recall", "largest"))
        dim = space.item_vectors.shape[1] + (0 if space.metric == "l2" else 2)
        fits = isinstance(index, faiss.IndexIVF) and (index.ntotal, index.d) == (len(space.item_vectors), dim)
        numbers = [recall, *([] if largest is None else [largest])]
        is_known = all(isinstance(one, (int, float)) and 0 <= one < np.inf for one in numbers)
        if not fits or not is_known or type(n_probe) is not int or not 1 <= n_probe <= index.nlist:
            raise ModelFileError(f"{stored.path} is no index of the model's items.")
        if (largest is None) != (space.metric == "l2") or index.metric_type != faiss.METRIC_L2:
            raise ModelFileError(f"{stored.path} is no index of the model's items.")
    except (ModelFileError, OSError) as problem:
        log.warning("%s A new index is built; `tastespace index MODEL` stores it.", problem)
        return None
    _without_readers(faiss, index)
    return AnnIndex(index, n_probe, float(recall or 0.0), largest, about["vectors"], content, file)


def _without_readers(faiss: Any, index: Any) -> None:
    """Keep mapped lists from starting threads that read ahead for each search."""
    lists = faiss.downcast_InvertedLists(index.invlists)
    if hasattr(lists, "prefetch_nthread"):
        lists.prefetch_nthread = 0


class _Kept(NamedTuple):
    """An index as it is kept with the items' vectors."""

    ann: AnnIndex
    bias: NDArray[np.float32] | None
    """Held with what was computed from it, so that no other array has its number."""


def _key(space: VectorSpace) -> tuple[Any, ...]:
    return ("ann", space.metric, None if space.item_bias is None else id(space.item_bias))


def _checksum(space: VectorSpace) -> str:
    """Of the item vectors, and of what they are compared by."""
    vectors = computed_once(space.item_vectors, "checksum", lambda: _bytes_checksum(space.item_vectors))
    bias = "" if space.item_bias is None else _bytes_checksum(space.item_bias)
    return f"{space.metric}-{vectors}-{bias}"


def _bytes_checksum(array: NDArray[np.float32]) -> str:
    return checksum(np.ascontiguousarray(array).view(np.uint8).data)


def _import_faiss() -> Any:
    try:
        import faiss
    except ImportError as problem:
        raise ParameterError(
            Argument("index", "ann"),
            *missing("ann", " needs faiss").args,
            " ",
            Argument("index", "exact"),
            " needs nothing.",
        ) from problem
    return faiss


# ---------------------------------------------------------------------------------------------------------------------
# Lists of users by approximate search: one search for each of a user's vectors, and an exact ranking of what is found.
#
# The best k items under the smallest distance lie in the union of the best k of each vector, so all that an approximate
# search can lose is what the searches of single vectors miss. Where that would be much, or nothing would be gained, all
# items are compared as always: for narrow filters and for users of whom very many items are left out.


INDEXES = ("exact", "ann")
_USERS_AT_ONCE = 1024
_FEW_VECTORS = 16  # searched for by one thread: those of faiss wait busily for one that has no core
_NARROW = 0.1  # share of all items below which candidates are compared one by one
_DEEPEST = 0.02  # share of all items that one search may ask for, and a number that it always may
_ALWAYS = 1_000
_MARGIN = 16  # items asked for beyond those needed: in the index vectors have half precision


class AnnScoringIndex(ScoringIndex):
    """`ScoringIndex` whose lists of users come from an index of the items, which is built where there is none."""

    def __init__(self, model: Recommender, threads: int = 0) -> None:
        super().__init__(model, threads)
        self._ann = find_index(model, threads)

    def ranker(self, k: int, excluded: ItemLists, candidates: NDArray[np.int32] | None) -> Ranker:
        """The object that finds the lists of `top_k`: exact among few candidates."""
        if candidates is not None and len(candidates) < _NARROW * self.train.n_items:
            log.info("index='ann': %d candidates are compared one by one", len(candidates))
            return super().ranker(k, excluded, candidates)
        return AnnRanker(self, self._ann, k, excluded, candidates)

    def exact_ranker(self, k: int, excluded: ItemLists, candidates: NDArray[np.int32] | None) -> Ranker:
        """The object that compares all items."""
        return super().ranker(k, excluded, candidates)


class _Lists(NamedTuple):
    """Lists with their scores, each of shape ``(n_users, k)``; see `ScoredLists`."""

    top: NDArray[np.int32]
    scores: NDArray[np.float32]
    interests: NDArray[np.int32]

    @classmethod
    def empty(cls, n_users: int, k: int) -> _Lists:
        """Lists without items."""
        none = np.full((n_users, k), -1, dtype=np.int32)
        return cls(none, np.full((n_users, k), np.nan, dtype=np.float32), none.copy())

    def put(
        self,
        at: NDArray[np.int64],
        top: NDArray[np.int32],
        scores: NDArray[np.float32],
        interests: NDArray[np.int32],
    ) -> None:
        """Set the lists at these positions."""
        self.top[at], self.scores[at], self.interests[at] = top, scores, interests


class AnnRanker:
    """Finds lists of users by searches; arguments as in `ScoringIndex.ranker`."""

    def __init__(
        self,
        scoring: AnnScoringIndex,
        ann: AnnIndex,
        k: int,
        excluded: ItemLists,
        candidates: NDArray[np.int32] | None,
    ) -> None:
        space = scoring.space
        assert space is not None  # `find_index` raises for models without vectors
        self._scoring, self._ann, self._space = scoring, ann, space
        self._k, self._excluded, self._candidates = k, excluded, candidates
        self._native_excluded = _native.ItemLists(*excluded)
        self._n_items = scoring.train.n_items
        self._n_candidates = self._n_items if candidates is None else len(candidates)
        self._wider = -(-self._n_items // max(1, self._n_candidates))

    def blocks(self, users: NDArray[np.int32], k: int | None = None) -> Iterator[Block]:
        """The blocks of these users, in order; lists of another length where k is given."""
        for first in range(0, len(users), _USERS_AT_ONCE):
            part = np.ascontiguousarray(users[first : first + _USERS_AT_ONCE])
            yield self._block(part, self._k if k is None else k)

    def _block(self, users: NDArray[np.int32], k: int) -> Block:
        lists = _Lists.empty(len(users), k)
        offsets, _ = self._excluded
        n_excluded = offsets[users + 1] - offsets[users]
        depth = k + n_excluded + _MARGIN
        left = depth > max(_ALWAYS, _DEEPEST * self._n_items)  # of whom all items are compared
        asked = np.ceil(np.log2(depth)).astype(np.int64)  # users of about the same depth are searched for together
        for size in np.unique(asked[~left]):
            at = np.flatnonzero((asked == size) & ~left)
            lists.put(at, *self._found(users[at], k, int(depth[at].max())))
            # Nothing more is left for the user, or the search has not looked far enough.
            left[at] = lists.top[at, -1] < 0
        if left.any():
            log.info("index='ann': all items are compared for %d of %d users", int(left.sum()), len(users))
            rest = np.flatnonzero(left)
            first = 0
            for block in self._exact.blocks(users[rest], k):
                at = rest[first : first + len(block.users)]
                assert block.scored is not None  # the exact ranker was made to give scores
                lists.put(at, block.top, block.scored.scores, block.scored.interests)
                first += len(block.users)
        none = np.empty(0, dtype=np.int32)
        no_tests = (np.zeros(len(users), dtype=np.int64), none.reshape(0, 3), none)
        scored = ScoredLists(lists.scores, lists.interests, int((lists.top >= 0).sum()))
        return Block(users, lists.top, *no_tests, self._space, scored)

    def _found(self, users: NDArray[np.int32], k: int, depth: int) -> _Lists:
        """The best k items in the union of the searches of each user's vectors, -1 where fewer were found."""
        starts = self._space.user_offsets[users]
        rows = ranges(starts, self._space.user_offsets[users + 1] - starts)
        threads = 1 if len(rows) <= _FEW_VECTORS else self._scoring.threads
        queries = self._space.user_vectors[rows]
        items = self._ann.search(queries, min(depth, self._n_items), threads, self._allowed, self._wider)
        top, scores, interests, _, nan_user = _native.list_found(
            self._space.native_users, self._space.exact_items, users, items, self._native_excluded, k=k, threads=threads
        )
        # Of a NaN score the exact ranker says what is wrong.
        return _Lists(top, scores, interests) if nan_user < 0 else _Lists.empty(len(users), k)

    @cached_property
    def _allowed(self) -> NDArray[np.uint8] | None:
        """A bit for each item that is a candidate; None where all are."""
        if self._candidates is None:
            return None
        allowed = np.zeros(self._n_items, dtype=bool)
        allowed[self._candidates] = True
        return np.packbits(allowed, bitorder="little")

    @cached_property
    def _exact(self) -> Ranker:
        return self._scoring.exact_ranker(self._k, self._excluded, self._candidates)


def scoring_index(model: Recommender, threads: int, index: str) -> ScoringIndex:
    """The scoring index of a request with ``index="exact"`` or ``"ann"``."""
    require_choice("index", index, INDEXES)
    return ScoringIndex(model, threads) if index == "exact" else AnnScoringIndex(model, threads)
