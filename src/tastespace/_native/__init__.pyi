"""Types of the compiled kernels. Arrays must be C-contiguous and of exactly the type given."""

from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIMD: str
"""The SIMD variant in use: ``"generic"``, ``"v3"`` or ``"v4"``."""

VARIANTS: tuple[str, ...]
"""The SIMD variants that were built and that this processor runs, the narrowest first."""

SOURCES: str
"""Hash of the sources that the kernels were built from."""

def best_simd_variant() -> str:
    """The widest SIMD variant that this processor runs."""

def set_interrupt_check(check: Callable[[], None]) -> None:
    """Have kernels that learn call ``check`` a few times a second, in the thread that called them; what it raises ends
    them.
    """

def crc32(bytes: NDArray[np.uint8], before: int = 0) -> int:
    """CRC-32 as in zlib, continued from ``before``."""

def encode_ids(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """``(ids, codes)``: the distinct values in ascending order and each value's index among them."""

def build_csr(
    rows: NDArray[np.int32], columns: NDArray[np.int32], n_rows: int, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """``(offsets, columns)`` of the distinct pairs, columns ascending within a row."""

def build_csr_with_sources(
    rows: NDArray[np.int32], columns: NDArray[np.int32], n_rows: int, threads: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """As `build_csr`, with ``(sources, starts)``: entry ``c`` of the matrix was built from the input positions
    ``sources[starts[c]:starts[c + 1]]``, ascending.
    """

class ArrowColumns:
    """Copies of arrays of numbers, which a library of data frames takes over once, as the columns of a frame."""

    def __init__(self, columns: dict[str, NDArray[Any]]) -> None: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """The columns as a structure, in capsules of the Arrow C data interface."""

class PackedItems:
    """Item vectors in the order in which the kernels read them; nothing of it changes, so threads may share one."""

    def __init__(self, vectors: NDArray[np.float32], terms: NDArray[np.float32]) -> None: ...
    @property
    def n_items(self) -> int:
        """Number of items."""
    @property
    def dim(self) -> int:
        """Dimension of the vectors."""

def row_positions(
    offsets: NDArray[np.int64], keys: NDArray[np.float64] | NDArray[np.int64], threads: int
) -> NDArray[np.int32]:
    """The place 0 ... n_r - 1 of each entry in its row, by ascending key; equal keys as they come, NaN last."""

class UserVectors:
    """Vectors of users: user ``u`` owns the rows ``offsets[u]:offsets[u + 1]``."""

    def __init__(self, vectors: NDArray[np.float32], offsets: NDArray[np.int64]) -> None: ...

class ScoringVectors:
    """Users and items whose scores are computed.

    A score is the largest, over the user's vectors x, of ``scale * <x, v> + term of x + term of v``; ``terms`` has one
    for each vector, those of the items are in ``items``.
    """

    def __init__(self, users: UserVectors, terms: NDArray[np.float32], items: PackedItems, scale: float) -> None: ...

class ExactItems:
    """Items whose scores are computed from the differences themselves.

    Scores are minus the squared distance or, unless ``by_distance``, the inner product plus the item's bias; an empty
    ``bias``: none.
    """

    def __init__(self, vectors: NDArray[np.float32], by_distance: bool, bias: NDArray[np.float32]) -> None: ...

class ItemLists:
    """A list of items for each user, or each list: ``items[offsets[u]:offsets[u + 1]]``."""

    def __init__(self, offsets: NDArray[np.int64], items: NDArray[np.int32]) -> None: ...

class MixSettings:
    """Options of lists in which the interests share the places, see native/rank/interest_ranking.hpp."""

    def __init__(self, *, diversity: float, depth: int, k: int) -> None: ...

def rank_with_vectors(
    space: ScoringVectors,
    users: NDArray[np.int32],
    excluded: ItemLists,
    test: ItemLists,
    *,
    k: int,
    threads: int,
    allowed: NDArray[np.uint8] | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """``(test_ranks, top, nan_user)`` for a block of users.

    ``test_ranks`` has a row ``(rank, negatives above, negatives tied)`` for every test item of every user in turn,
    ``top`` a row of k item indices per user (-1 where there are fewer candidates). ``nan_user`` is the position
    in ``users`` of the first user with a NaN score, or -1. Items whose value in ``allowed`` is 0 are no candidates.
    """

def list_with_vectors(
    space: ScoringVectors,
    exact: ExactItems,
    users: NDArray[np.int32],
    excluded: ItemLists,
    *,
    k: int,
    threads: int,
    allowed: NDArray[np.uint8] | None = None,
    item_rows: NDArray[np.int32] | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32], int, int]:
    """``(top, scores, interests, n_found, nan_user)`` for a block of users, each of the first three with k per user.

    The items of `rank_with_vectors`, with the scores and in the order of `pair_scores`; -1, NaN and -1 where there are
    fewer candidates. ``n_found`` counts the entries that are items. ``item_rows`` are the rows in ``exact`` of the
    items in ``space``, where these are not all; ``top`` has such rows.
    """

def list_found(
    vectors: UserVectors,
    exact: ExactItems,
    users: NDArray[np.int32],
    found: NDArray[np.int64],
    excluded: ItemLists,
    *,
    k: int,
    threads: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32], int, int]:
    """``(top, scores, interests, n_found, nan_user)`` as of `list_with_vectors`, among the items that were found.

    ``found`` has a row for each vector of each of the users in turn; -1 and other numbers that are no item are
    left out. The excluded items of a user must ascend.
    """

class IdColumn:
    """Ids by their index: numbers, or text as UTF-8 with offsets."""

    def __init__(
        self,
        *,
        numbers: NDArray[Any] | None = None,
        offsets: NDArray[np.int64] | None = None,
        text: NDArray[np.uint8] | None = None,
    ) -> None: ...

class OneUserLists:
    """The arrays of `list_with_vectors` and ids, for lists of one user after the other; threads may share one.

    ``user_ids`` is None where they are text.
    """

    def __init__(
        self,
        space: ScoringVectors,
        exact: ExactItems,
        excluded: ItemLists,
        *,
        k: int,
        allowed: NDArray[np.uint8] | None,
        user_ids: IdColumn | None,
        item_ids: IdColumn,
        with_interests: bool,
    ) -> None: ...
    def columns(self, user: int, user_text: str | None = None) -> ArrowColumns | None:
        """The list of the user at this row: user, item, rank, score, where vectors are compared by distance
        ``distance`` and, with interests, ``interest``. None for a user with a NaN score.

        ``user_text`` is the user's id where ``user_ids`` is None.
        """

class PastRows:
    """What each past item adds to the scores of all items: the rows of a matrix.

    ``dense``, ``(n_items, n_items)``; a sparse one as ``offsets``, ``columns`` and ``values``, checked here; or the
    inner products of ``vectors``, times ``factors``, with ``items``.
    """

    def __init__(
        self,
        *,
        dense: NDArray[np.float32] | None = None,
        offsets: NDArray[np.int64] | None = None,
        columns: NDArray[np.int32] | None = None,
        values: NDArray[np.float32] | None = None,
        vectors: NDArray[np.float32] | None = None,
        factors: NDArray[np.float64] | None = None,
        items: PackedItems | None = None,
    ) -> None: ...
    @property
    def n_items(self) -> int:
        """Number of items."""
    def entries(
        self, past: NDArray[np.int32], weights: NDArray[np.float32] | None, items: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """Entries of these rows, times weights, in the columns of some items: ``(len(past), len(items))``."""

_Given = list[NDArray[np.float32] | None]
_Bad = tuple[int, int]

class BlendProgram:
    """The scores of a blend, see native/rank/blend_scores.hpp.

    A member is ``(source, weight, weights of the interactions, temperature)``; its source is `PastRows`,
    `ScoringVectors`, or True or False where its scores are given with each call: by taste, or by user. Calls take the
    users, a matrix for each member whose scores are given, and the nearest taste of each item where no member is a sum
    over past items. The last value of each answer is ``(position of the user, member)`` of the first scores that are
    not finite, -1 where there are none.
    """

    def __init__(
        self,
        *,
        members: list[tuple[PastRows | ScoringVectors | bool, float, NDArray[np.float32] | None, float]],
        n_items: int,
        past: ItemLists,
        disliked: ItemLists,
        taste_of_past: NDArray[np.int32],
        taste_offsets: NDArray[np.int64],
        focus: float,
        lift: float,
        balance: float = 0.0,
        n_categories: int = 0,
        sets: ItemLists | None = None,
        set_of_item: NDArray[np.int32] | None = None,
    ) -> None: ...
    @property
    def is_whole(self) -> bool:
        """True if nothing has to be given."""
    def parts(
        self, users: NDArray[np.int32], given: _Given, nearest: NDArray[np.int32] | None, threads: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float64], _Bad]:
        """What each taste says for all items, what is added, and weight / deviation of each member for each user."""
    def totals(
        self,
        users: NDArray[np.int32],
        given: _Given,
        nearest: NDArray[np.int32] | None,
        factors: NDArray[np.float64] | None,
        threads: int,
    ) -> tuple[NDArray[np.float32], NDArray[np.int32], _Bad]:
        """Scores of all items and the taste that says most for each."""
    def lists(
        self,
        users: NDArray[np.int32],
        given: _Given,
        nearest: NDArray[np.int32] | None,
        factors: NDArray[np.float64] | None,
        excluded: ItemLists,
        *,
        k: int,
        threads: int,
        allowed: NDArray[np.uint8] | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int32], int, int, NDArray[np.float64], _Bad]:
        """``(top, scores, tastes, n_found, nan_user, scales, bad)``, as of `list_with_vectors` and of `parts`."""

class OneUserBlendLists:
    """As `OneUserLists`, of a program that is whole."""

    def __init__(
        self,
        program: BlendProgram,
        excluded: ItemLists,
        *,
        k: int,
        allowed: NDArray[np.uint8] | None,
        user_ids: IdColumn | None,
        item_ids: IdColumn,
    ) -> None: ...
    def columns(self, user: int, user_text: str | None = None) -> ArrowColumns | None:
        """As `OneUserLists.columns`, without distances; None also where scores of a member are not finite."""

def shared_scores(
    vectors: NDArray[np.float32], past: NDArray[np.int32], items: NDArray[np.int32], scores: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Scores of items, each shared among past items in proportion to their positive inner products with the item."""

def least_squares_evidence(
    vectors: NDArray[np.float32],
    gram: NDArray[np.float64],
    ridge: float,
    past: NDArray[np.int32],
    extra: NDArray[np.float64],
    items: NDArray[np.int32],
) -> NDArray[np.float32]:
    """``(1 + extra_i) <y_j, A^-1 y_i>`` with ``A = gram + ridge I + sum of extra_i y_i y_i'`` over the past items."""

def rank_with_scores(
    scores: NDArray[np.float32],
    users: NDArray[np.int32],
    excluded: ItemLists,
    test: ItemLists,
    *,
    k: int,
    threads: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """As `rank_with_vectors`, from a block of scores of shape ``(len(users), n_items)``."""

def mix_with_vectors(
    space: ScoringVectors,
    users: NDArray[np.int32],
    weights: NDArray[np.float64],
    excluded: ItemLists,
    settings: MixSettings,
    threads: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """``(top, interests, nan_user)`` for a block of users: lists in which the interests share the places.

    ``top`` and ``interests`` have a row of k per user: items, and the interest that has each place (-1 where there are
    fewer candidates). ``weights`` has one for every vector of every user in turn. Scores and ``nan_user`` as in
    `rank_with_vectors`; for the rule see native/lists/share_places.hpp.
    """

def mix_with_scores(
    scores: NDArray[np.float32],
    interests: NDArray[np.int32],
    users: NDArray[np.int32],
    weights: NDArray[np.float64],
    first_weights: NDArray[np.int64],
    excluded: ItemLists,
    settings: MixSettings,
    threads: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
    """As `mix_with_vectors`, from a block of scores and the interest of each item, ``(len(users), n_items)`` both.

    The interests of ``users[i]`` have ``weights[first_weights[i]:first_weights[i + 1]]``.
    """

def pair_scores(
    vectors: UserVectors,
    exact: ExactItems,
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    threads: int,
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """``(scores, interests)`` of single pairs, both of shape ``(n,)``: the best score over the user's vectors, and the
    first vector that reaches it.
    """

def past_reasons(
    vectors: NDArray[np.float32],
    by_distance: bool,
    offsets: NDArray[np.int64],
    past: NDArray[np.int32],
    users: NDArray[np.int32],
    listed: NDArray[np.int32],
    k: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """``(items, closeness)``, both of shape ``(len(listed), k)``: of the past items of ``users[i]`` those closest to
    ``listed[i]``, the closest first, with minus the squared distance or the inner product; -1 where there are fewer.
    """

def taste_groups(
    vectors: NDArray[np.float32],
    offsets: NDArray[np.int64],
    past: NDArray[np.int32],
    most: int,
    items_per_taste: int,
    least_gain: float,
    threads: int,
) -> NDArray[np.int32]:
    """Group of each past item, ``(len(past),)``: user u has ``past[offsets[u]:offsets[u + 1]]``; the largest is 0.

    ``vectors`` are the items' directions, ``(n_items, dim)``. See native/lists/taste_groups.hpp.
    """

class ItemTexts:
    """JSON of each item, encoded once: ``text[offsets[row]:offsets[row + 1]]``, an object without its closing brace.

    A past item is written with the part before ``cuts[row]`` alone.
    """

    def __init__(self, *, text: bytes, offsets: NDArray[np.int64], cuts: NDArray[np.int64]) -> None: ...

class ListEntries:
    """Entries of lists; ``reasons`` are past items of each (-1: no more) with their weights, both or neither."""

    def __init__(
        self,
        *,
        rows: NDArray[np.int32],
        ranks: NDArray[np.int32],
        scores: NDArray[np.float32],
        interests: NDArray[np.int32] | None,
        distances: NDArray[np.float32] | None,
        reasons: NDArray[np.int32] | None,
        weights: NDArray[np.float64] | None,
    ) -> None: ...

def list_texts(items: ItemTexts, entries: ListEntries, ends: NDArray[np.int64]) -> list[bytes | None]:
    """The entries ``ends[i] ... ends[i + 1] - 1`` of each list as objects of JSON, with commas between them.

    None where a number is not finite.
    """

def list_pair_distances(
    top: NDArray[np.int32], vectors: NDArray[np.float32], cuts: NDArray[np.int64], threads: int
) -> NDArray[np.float64]:
    """Sum of squared distances over ordered pairs of each list's first ``cut`` items, shape ``(n, n_cuts)``."""

def list_order(
    offsets: NDArray[np.int64], scores: NDArray[np.float32], rows: NDArray[np.int32], threads: int
) -> NDArray[np.int64]:
    """The entry at each place of the lists ``offsets[i] ... offsets[i + 1] - 1``, shape ``(len(scores),)``.

    Larger scores first, equal scores by ascending row.
    """

class ItemGroups:
    """Groups of items: item j is in ``members[offsets[j]:offsets[j + 1]]`` (empty ``offsets``: in none).

    A list may hold ``most`` items of each group. ``allowed`` is 1 for each item that a longer pool could hold.
    """

    def __init__(
        self,
        *,
        offsets: NDArray[np.int64],
        members: NDArray[np.int32],
        most: NDArray[np.int32],
        allowed: NDArray[np.uint8],
    ) -> None: ...

class PinnedItems:
    """Pinned items of each list, at these ascending places, from 1."""

    def __init__(self, lists: ItemLists, places: NDArray[np.int32]) -> None: ...

class NewItems:
    """The share of a list that new items have at least; an empty ``is_new``: no such rule."""

    def __init__(self, is_new: NDArray[np.uint8], share: float) -> None: ...

def apply_list_rules(
    pools: ItemLists,
    lengths: NDArray[np.int32],
    groups: ItemGroups,
    pinned: PinnedItems,
    new_items: NewItems,
    threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.uint8]]:
    """The first ``lengths[i]`` items of each pool, best first, that obey the rules; native/lists/list_rules.hpp.

    Gives the offsets and rows of the lists, the entry of the pools that each row was (-1: a pin), and for each list
    whether a longer pool could change it.
    """

def pool_relevance(offsets: NDArray[np.int64], scores: NDArray[np.float64], threads: int) -> NDArray[np.float64]:
    """Scores of pools as relevance in [0, 1]: 1 for the best of a pool, 0 for the worst; lists/calibrated_lists.hpp.

    The pool of user i is ``scores[offsets[i]:offsets[i + 1]]``; a score above an earlier one of its pool counts as that
    one.
    """

class Pools:
    """Pools of users, best first: user i has the entries ``offsets[i] ... offsets[i + 1] - 1``.

    ``sets`` has the set of categories of each entry.
    """

    def __init__(
        self, *, offsets: NDArray[np.int64], relevance: NDArray[np.float64], sets: NDArray[np.int32]
    ) -> None: ...

class CategorySets:
    """Sets of categories: set s is the terms ``terms[offsets[s]:offsets[s + 1]]``, a term a category and its share."""

    def __init__(
        self,
        *,
        offsets: NDArray[np.int64],
        terms: NDArray[np.int32],
        categories: NDArray[np.int32],
        shares: NDArray[np.float64],
    ) -> None: ...

class Calibration:
    """Weight of calibration against relevance, share of the target in the smoothed mix, items per list."""

    def __init__(self, *, weight: float, smoothing: float, k: int) -> None: ...

def calibrated_lists(
    pools: Pools, sets: CategorySets, target: NDArray[np.float64], settings: Calibration, threads: int
) -> NDArray[np.int64]:
    """Entries of the pools that are chosen, the first k of each user in their order; lists/calibrated_lists.hpp.

    ``target`` has shape ``(n_users, n_categories)``. A ValueError where relevance rises within a pool.
    """

# ---- training: settings ------------------------------------------------------------------------------------

class Sampler(Enum):
    """Rule that chooses the negatives that enter the loss."""

    ALL = ...
    TWO_STAGE = ...
    """The `n_hardest` with the largest inner product with the positive item."""
    HARDEST = ...
    """The `n_hardest` nearest to the user."""
    DIFFERENTIABLE = ...
    """Those that violate the margin by more than the positive's gamma."""

class GammaRule(Enum):
    """Update of gamma: by projected gradient, or as a running average of the N_beta-th largest violation."""

    GRADIENT = ...
    AVERAGE = ...

class DcrsForm(Enum):
    """DCRS: none, on the spread of a user's vectors, or on the squared distance of each pair."""

    OFF = ...
    MEAN = ...
    PAIRS = ...

class Region(Enum):
    """Region of vectors."""

    UNBOUNDED = ...
    BALL = ...
    SPHERE = ...

class Optimizer(Enum):
    """Row-wise optimizers."""

    SGD = ...
    ADAGRAD = ...
    ADAM = ...

class OptimizerSettings:
    """Settings of an optimizer; `beta1` and `beta2` are Adam's."""

    optimizer: Optimizer
    learning_rate: float
    beta1: float
    beta2: float
    epsilon: float
    def __init__(
        self,
        *,
        optimizer: Optimizer,
        learning_rate: float,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None: ...

class DpcmlSettings:
    """Settings of DPCML's kernel; see native/train/dpcml.hpp."""

    sampler: Sampler
    n_negatives: int
    n_hardest: int
    margin: float
    distance_scale: float
    gamma_rule: GammaRule
    gamma_rate: float
    dcrs: DcrsForm
    spread_weight: float
    min_spread: float
    max_spread: float
    user_region: Region
    item_region: Region
    radius: float
    optimizer: OptimizerSettings
    block_size: int
    anchor: float
    temperature: float
    first_vector_only: bool
    def __init__(
        self,
        *,
        sampler: Sampler,
        n_negatives: int,
        n_hardest: int,
        margin: float,
        distance_scale: float,
        gamma_rule: GammaRule,
        gamma_rate: float,
        dcrs: DcrsForm,
        spread_weight: float,
        min_spread: float,
        max_spread: float,
        user_region: Region,
        item_region: Region,
        radius: float,
        optimizer: OptimizerSettings,
        block_size: int,
        anchor: float = 0.0,
        temperature: float = 0.0,
        first_vector_only: bool = False,
    ) -> None: ...

class BprSettings:
    """Settings of BPR's kernel."""

    regularization: float
    bias_regularization: float
    optimizer: OptimizerSettings
    block_size: int
    def __init__(
        self, *, regularization: float, bias_regularization: float, optimizer: OptimizerSettings, block_size: int
    ) -> None: ...

# ---- training: arrays; a wrong type is a TypeError, a size that does not fit a ValueError ------------------

class OptimizerState:
    """State of an optimizer for one matrix of rows; what an optimizer does not need is empty."""

    @property
    def first(self) -> NDArray[np.float32]:
        """Adagrad: sums of squares. Adam: mean gradients."""
    @property
    def second(self) -> NDArray[np.float32]:
        """Adam: mean squared gradients."""
    @property
    def steps(self) -> NDArray[np.int32]:
        """Adam: steps taken by each row."""
    def __init__(
        self, *, first: NDArray[np.float32], second: NDArray[np.float32], steps: NDArray[np.int32]
    ) -> None: ...

class DpcmlData:
    """Interactions that DPCML learns from; see native/train/dpcml.hpp."""

    def __init__(
        self,
        *,
        offsets: NDArray[np.int64],
        positives: NDArray[np.int32],
        alias_keep: NDArray[np.float32],
        alias_other: NDArray[np.int32],
        vector_offsets: NDArray[np.int64],
        loss_weight: NDArray[np.float32],
        dcrs_weight: NDArray[np.float32],
        n_beta: NDArray[np.int32],
    ) -> None: ...
    def visit(self, visited: NDArray[np.int64]) -> None:
        """Set the positives that an epoch of training goes through from now on, by their positions; empty: all."""

class AnchorState:
    """State of anchored training besides the vectors; see native/train/anchors.hpp."""

    @property
    def assignments(self) -> NDArray[np.int32]:
        """The interest of each positive, counted within its user; -1: none yet."""
    @property
    def snapshot(self) -> NDArray[np.float32]:
        """The item vectors at the last refresh, shape ``(n_items, dim)``."""
    @property
    def sums(self) -> NDArray[np.float32]:
        """Sums of the snapshot's vectors of each interest's items, shape ``(n_vectors, dim)``."""
    @property
    def counts(self) -> NDArray[np.int32]:
        """Number of items of each interest, shape ``(n_vectors,)``."""
    def __init__(
        self,
        *,
        assignments: NDArray[np.int32],
        snapshot: NDArray[np.float32],
        sums: NDArray[np.float32],
        counts: NDArray[np.int32],
    ) -> None: ...

class DpcmlState:
    """State that DPCML learns: the arrays themselves, changed in place."""

    @property
    def user_vectors(self) -> NDArray[np.float32]:
        """Shape ``(n_vectors, dim)``; with ``anchor`` above 0 the free vectors."""
    @property
    def item_vectors(self) -> NDArray[np.float32]:
        """Shape ``(n_items, dim)``."""
    @property
    def gamma(self) -> NDArray[np.float32]:
        """Thresholds of ``Sampler.DIFFERENTIABLE``, one per positive (negative: no step yet); else empty."""
    @property
    def user_optimizer(self) -> OptimizerState: ...
    @property
    def item_optimizer(self) -> OptimizerState: ...
    @property
    def anchors(self) -> AnchorState | None: ...
    def __init__(
        self,
        *,
        user_vectors: NDArray[np.float32],
        item_vectors: NDArray[np.float32],
        gamma: NDArray[np.float32],
        user_optimizer: OptimizerState,
        item_optimizer: OptimizerState,
        anchors: AnchorState | None = None,
    ) -> None: ...

class BprData:
    """Interactions that BPR learns from: the positives of each user."""

    def __init__(self, *, offsets: NDArray[np.int64], positives: NDArray[np.int32]) -> None: ...
    def visit(self, visited: NDArray[np.int64]) -> None:
        """Set the positives that an epoch of training goes through from now on, by their positions; empty: all."""

class BprState:
    """State that BPR learns: the arrays themselves, changed in place."""

    @property
    def user_vectors(self) -> NDArray[np.float32]:
        """Shape ``(n_users, dim)``."""
    @property
    def item_vectors(self) -> NDArray[np.float32]:
        """Shape ``(n_items, dim)``."""
    @property
    def bias(self) -> NDArray[np.float32]:
        """Shape ``(n_items,)``."""
    @property
    def user_optimizer(self) -> OptimizerState: ...
    @property
    def item_optimizer(self) -> OptimizerState: ...
    @property
    def bias_optimizer(self) -> OptimizerState: ...
    def __init__(
        self,
        *,
        user_vectors: NDArray[np.float32],
        item_vectors: NDArray[np.float32],
        bias: NDArray[np.float32],
        user_optimizer: OptimizerState,
        item_optimizer: OptimizerState,
        bias_optimizer: OptimizerState,
    ) -> None: ...

# ---- training: kernels -------------------------------------------------------------------------------------

class DpcmlTotals:
    """Sums over the steps of a range of positives."""

    @property
    def loss(self) -> float:
        """Weighted hinge loss."""
    @property
    def dcrs(self) -> float:
        """DCRS penalty."""
    @property
    def n_steps(self) -> int:
        """Positives that were learned from."""
    @property
    def n_skipped(self) -> int:
        """Positives without a step: of users who have every item, or with ``anchor`` 1 only one."""
    @property
    def n_pair_gradients(self) -> int: ...
    @property
    def seconds(self) -> float:
        """Seconds of the calls."""
    @property
    def serial_seconds(self) -> float:
        """Of these, in which one thread worked and the others waited for it."""
    def __init__(self) -> None: ...
    def __add__(self, other: DpcmlTotals) -> DpcmlTotals: ...

class BprTotals:
    """Sums over the steps of a range of positives."""

    @property
    def loss(self) -> float:
        """Without the regularization."""
    @property
    def n_correct(self) -> int:
        """Pairs that were in the right order before their step."""
    @property
    def n_steps(self) -> int:
        """Positives that were learned from."""
    def __init__(self) -> None: ...
    def __add__(self, other: BprTotals) -> BprTotals: ...

class PositiveStep:
    """Loss of one positive."""

    @property
    def loss(self) -> float:
        """Weighted, without DCRS."""
    @property
    def dcrs(self) -> float: ...
    @property
    def gamma_slope(self) -> float:
        """Derivative of the loss with respect to gamma, without the user's weight."""
    @property
    def negatives(self) -> NDArray[np.int32]:
        """The negatives drawn; empty where no step is possible."""

def train_dpcml(
    data: DpcmlData,
    state: DpcmlState,
    settings: DpcmlSettings,
    *,
    seed: int,
    epoch: int,
    first: int,
    last: int,
    threads: int,
) -> DpcmlTotals:
    """Train on the positives number ``first ... last - 1`` of this epoch's random order, changing ``state``.

    ``first`` must be a multiple of the block size for the same bits as one call.
    """

def refresh_anchors(
    data: DpcmlData, state: DpcmlState, settings: DpcmlSettings, *, iterations: int, threads: int
) -> None:
    """Snapshot of the items, assignments by ``iterations`` of Lloyd's algorithm, sums and counts: ``state.anchors``.

    Users without assignments get those to items far from each other first. Optimizer states may be empty.
    """

def anchored_user_vectors(
    data: DpcmlData, state: DpcmlState, settings: DpcmlSettings, *, repeat_vectors: bool = False, threads: int
) -> NDArray[np.float32]:
    """The user vectors, shape ``(n_vectors, dim)``, from the free vectors and the sums and counts of ``state.anchors``.

    Interests without items repeat the user's other vectors where ``anchor`` is 1 or ``repeat_vectors`` is set.
    """

def fold_in_dpcml(
    data: DpcmlData,
    state: DpcmlState,
    settings: DpcmlSettings,
    *,
    mean_user_vectors: NDArray[np.float32],
    seed: int,
    epochs: int,
    average: int,
    threads: int,
) -> None:
    """Learn the vectors of new users with the items fixed, each user separately, changing ``state``.

    ``mean_user_vectors`` receives the running mean over ``average`` epochs, which is what a model uses. The state of
    the item optimizer may be empty.
    """

def dpcml_loss_and_gradient(
    data: DpcmlData,
    state: DpcmlState,
    settings: DpcmlSettings,
    *,
    seed: int,
    epoch: int,
    positive_index: int,
    user_gradient: NDArray[np.float32],
    item_gradient: NDArray[np.float32],
) -> PositiveStep:
    """The loss of one positive, its gradients written into the arrays; ``state`` is not changed."""

def train_bpr(
    data: BprData,
    state: BprState,
    settings: BprSettings,
    *,
    seed: int,
    epoch: int,
    first: int,
    last: int,
    threads: int,
) -> BprTotals:
    """As `train_dpcml`, for Bayesian personalized ranking."""

def fold_in_bpr(
    data: BprData,
    state: BprState,
    settings: BprSettings,
    *,
    mean_user_vectors: NDArray[np.float32],
    seed: int,
    epochs: int,
    average: int,
    threads: int,
) -> None:
    """As `fold_in_dpcml`, for Bayesian personalized ranking."""

def train_softmax_mf(
    *,
    offsets: NDArray[np.int64],
    positives: NDArray[np.int32],
    user_rows: NDArray[np.float32],
    user_first: NDArray[np.float32],
    user_second: NDArray[np.float32],
    item_rows: NDArray[np.float32],
    item_first: NDArray[np.float32],
    item_second: NDArray[np.float32],
    users: NDArray[np.int32],
    pools: NDArray[np.int32],
    batch_size: int,
    temperature: float,
    learning_rate: float,
    first_step: int,
    threads: int,
) -> tuple[float, int]:
    """One step for each batch of ``users``, in place; gives the sum of the losses and the number of positives.

    ``pools`` has a row of items for each batch. ``_first`` are Adam's first moments, ``_second`` one number per row;
    ``first_step`` is the number of steps that went before.
    """

def fold_in_softmax_mf(
    *,
    offsets: NDArray[np.int64],
    positives: NDArray[np.int32],
    vectors: NDArray[np.float32],
    item_vectors: NDArray[np.float32],
    pool: NDArray[np.int32],
    temperature: float,
    n_steps: int,
    threads: int,
) -> None:
    """Move the unit vectors of users, in place, towards the least loss with the items fixed, by gradient descent."""

def als_half_step(
    *,
    offsets: NDArray[np.int64],
    columns: NDArray[np.int32],
    extra: NDArray[np.float32],
    fixed: NDArray[np.float32],
    gram: NDArray[np.float32],
    regularization: NDArray[np.float32],
    n_steps: int,
    vectors: NDArray[np.float32],
    threads: int,
) -> None:
    """Conjugate gradient steps for the vectors of one side of a factorization, changed in place.

    ``fixed`` are the vectors of the other side. ``gram`` is ``fixed.T @ fixed``, ``regularization`` has a
    number for each row, ``extra`` is the confidence of each entry above 1.
    """

def add_standardized(total: NDArray[np.float32], scores: NDArray[np.float32], weight: float, threads: int) -> int:
    """``total += weight * (scores - mean) / standard deviation`` by rows, in place; rows of equal scores add nothing.

    Gives the first row with a score that is not finite, -1 where there is none.
    """

def taste_totals(
    values: NDArray[np.float32],
    first: NDArray[np.int64],
    factors: NDArray[np.float64] | None,
    focus: float,
    threads: int,
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """``(1 - focus) * sum + focus * maximum`` of each user's rows times their factors, and the row that is largest.

    Both of shape ``(n_users, n_columns)``; rows with the factor 0 are left out.
    """

def score_users(space: ScoringVectors, users: NDArray[np.int32], threads: int) -> NDArray[np.float32]:
    """Scores of all items for these users, shape ``(len(users), n_items)``, as `rank_with_vectors` ranks them."""

def nearest_interests(space: ScoringVectors, users: NDArray[np.int32], threads: int) -> NDArray[np.int32]:
    """The user's vector that scores each item best, the first of equal ones; shape ``(len(users), n_items)``."""

def fit_item_regression(
    *,
    user_offsets: NDArray[np.int64],
    items: NDArray[np.int32],
    user_values: NDArray[np.float32],
    item_offsets: NDArray[np.int64],
    users: NDArray[np.int32],
    item_values: NDArray[np.float32],
    n_neighbors: int,
    row_length: int,
    regularization: float,
    self_weight: float,
    threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """``(offsets, sources, coefficients)``: item j is predicted from ``sources[offsets[j]:offsets[j + 1]]``.

    The matrix of users and items is given by rows (user_offsets, items, user_values) and by columns (item_offsets,
    users, item_values).
    """

def draw_negatives(
    offsets: NDArray[np.int64],
    positives: NDArray[np.int32],
    n_items: int,
    alias_keep: NDArray[np.float32],
    alias_other: NDArray[np.int32],
    users: NDArray[np.int32],
    n: int,
    seed: int,
    epoch: int,
    first: int,
    threads: int,
) -> NDArray[np.int32]:
    """N distinct negatives per user, -1 where there are fewer. Shape ``(len(users), n)``."""

def touched_items(
    offsets: NDArray[np.int64],
    positives: NDArray[np.int32],
    n_items: int,
    alias_keep: NDArray[np.float32],
    alias_other: NDArray[np.int32],
    n_negatives: int,
    seed: int,
    epoch: int,
    first: int,
    last: int,
    threads: int,
) -> NDArray[np.uint8]:
    """1 for items of the positives number ``first ... last - 1`` of an epoch's random order, and their negatives."""
