"""Lists in which all interests of a user have a part: the mix that a request asks for, and its making."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tastespace._util.csr import ranges
from tastespace.data.attributes import category_column, require_category_column
from tastespace.errors import Argument, Call, ParameterError, nearest
from tastespace.models.base import Recommender
from tastespace.models.list_options import ListOptions
from tastespace.models.vector_space import VectorSpace
from tastespace.ranking.blocks import Block, BlockRanker, InterestRanker, ItemLists
from tastespace.ranking.scoring import (
    Lister,
    Lists,
    ScoringIndex,
    TopK,
    merged,
)
from tastespace.ranking.source import ScoreSource
from tastespace.recommend.interests import InterestChoices, is_given
from tastespace.recommend.rerank._algorithms import CategorySets, calibrated_lists, pool_relevance
from tastespace.recommend.rerank.pools import PoolReranker

# ---------------------------------------------------------------------------------------------------------------------
# The mix of interests that a request asks for, checked against the model.

MIXES = ("nearest", "scaled", "proportional", "calibrated")
BY_INTEREST = "interest"
"""The value of ``column`` that calibrates against the mix of interests."""


@dataclass(frozen=True)
class Mix:
    """Sharing of a list between the interests of a user; see `Recommender.recommend`."""

    name: str = "nearest"
    diversity: float = 0.0
    """Strength in [0, 1]; 0 is the plain list."""
    column: str | None = None
    """For ``"calibrated"``: the item attribute with categories (None: found by itself), or `BY_INTEREST`."""


PLAIN = Mix()


def mixes_of(index: ScoringIndex) -> list[str]:
    """Return the mixes that a model has.

    >>> from tastespace import CML, synthetic
    >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
    >>> mixes_of(ScoringIndex(CML(dim=8, epochs=2).fit(town)))
    ['nearest', 'scaled', 'proportional', 'calibrated']
    """
    found = ["nearest"]
    if index.space is not None and index.space.metric == "l2":
        found.append("scaled")
    if index.interest_space is not None:
        found.append("proportional")
    if index.interest_space is not None or _has_categories(index):
        found.append("calibrated")
    return found


def resolve_mix(index: ScoringIndex, request: ListOptions) -> Mix:
    """Return the mix of a request with its defaults filled in; a mix that the model does not have is an error."""
    mix, diversity, column, boosted = request.mix, request.diversity, request.column, is_given(request.boost)
    if mix is None and diversity is None and column is None and not boosted:
        return PLAIN
    if mix is not None and mix not in MIXES:
        raise ParameterError(Argument("mix", mix), f": expected one of {', '.join(MIXES)}.{nearest(mix, MIXES)}")
    check_diversity(diversity)
    if mix is None and column is None and not boosted and diversity == 0:
        return PLAIN
    if mix is None:
        mix = _default(index, request, boosted)
    if mix == "nearest" and diversity:
        raise ParameterError(
            Argument("mix", "nearest"),
            " is the plain list, which has no ",
            Argument("diversity", diversity),
            f". Choose another mix ({_listed(index, without='nearest')}), or leave mix out.",
        )
    if column is not None and mix != "calibrated":
        raise ParameterError(
            Argument("column", column),
            " belongs to ",
            Argument("mix", "calibrated"),
            ", given ",
            Argument("mix", mix),
            ".",
        )
    by_weight = mix == "proportional" or (mix == "calibrated" and column == BY_INTEREST)
    if boosted and not by_weight and index.tastes is None:
        raise ParameterError(
            Argument("boost"),
            " multiplies the weights of interests, which ",
            Argument("mix", mix),
            " does not use. Use ",
            Argument("mix", "proportional"),
            ", or ",
            Argument("mix", "calibrated"),
            " with ",
            Argument("column", BY_INTEREST),
            ".",
        )
    _require_supported(index, mix, column)
    strength = 1.0 if diversity is None else float(diversity)
    return PLAIN if mix == "nearest" or strength == 0 else Mix(mix, strength, column)


def boosted_mix(index: ScoringIndex, mix: Mix, request: ListOptions) -> Mix:
    """Return the mix for users whose profile boosts an interest: proportional unless the request names another.

    Factors of tastes are part of the scores, and need no mix.
    """
    free = request.mix is None and request.diversity is None and request.column is None
    return Mix("proportional", 1.0) if free and mix == PLAIN and index.tastes is None else mix


def check_diversity(diversity: Any) -> None:
    """Raise unless this is None or a number from 0 to 1."""
    if diversity is None:
        return
    if not isinstance(diversity, Real) or isinstance(diversity, bool) or not 0 <= float(diversity) <= 1:
        raise ParameterError(
            Argument("diversity", diversity),
            ": expected a number from 0 (the plain list) to 1 (the mix in its pure form).",
        )


def _default(index: ScoringIndex, request: ListOptions, boosted: bool) -> str:
    if boosted and index.tastes is None:
        return "proportional"
    if boosted and not request.diversity and request.column is None:
        return "nearest"  # factors of tastes are part of the scores
    if request.column is not None:
        return "calibrated"
    if index.model.has_interests:
        return "proportional"
    if _has_categories(index):
        return "calibrated"
    raise ParameterError(
        Argument("diversity"),
        f" needs several interests per user or categories of items: {type(index.model).__name__} does not have the "
        "former, and no item attribute looks like categories. Use a model with interests, such as DPCML, or ",
        Call("build the Interactions with item_attributes="),
        ".",
    )


def _require_supported(index: ScoringIndex, mix: str, column: str | None) -> None:
    name = type(index.model).__name__
    if mix == "scaled" and (index.space is None or index.space.metric != "l2"):
        by = "inner products" if index.space is not None else "other scores than distances"
        raise ParameterError(
            Argument("mix", "scaled"),
            f" divides squared distances, and {name} ranks by {by}. Its mixes are {_listed(index)}.",
        )
    if index.interest_space is None and (mix == "proportional" or column == BY_INTEREST):
        raise ParameterError(
            Argument("mix", mix),
            *((" with ", Argument("column", column)) if column else ()),
            f" needs interests, and {name} has no vectors, so its users have none. Its mixes are {_listed(index)}.",
        )
    if mix != "calibrated" or column == BY_INTEREST:
        return
    attributes = index.model.popularity_source.item_attributes
    if column is None and not _has_categories(index):
        instead: list[str | Argument] = (
            [
                "Use ",
                Argument("mix", "proportional"),
                " or ",
                Argument("column", BY_INTEREST),
                ", which need none, or ",
                Call("build the Interactions with item_attributes="),
            ]
            if index.interest_space is not None
            else [Call("Build the Interactions with item_attributes=")]
        )
        raise ParameterError(
            Argument("mix", "calibrated"), " needs categories of items, and there are none. ", *instead, "."
        )
    require_category_column(attributes, column, purpose=Argument("mix", "calibrated"), argument="column")


def _has_categories(index: ScoringIndex) -> bool:
    return category_column(index.model.popularity_source.item_attributes) is not None


def _listed(index: ScoringIndex, without: str = "") -> str:
    return ", ".join(one for one in mixes_of(index) if one != without) or "none"


# ---------------------------------------------------------------------------------------------------------------------
# Lists in which all interests of a user have a part.
#
# The plain list ranks an item by its nearest interest alone, so an interest whose items lie close takes most places. A
# mix shares the places out: by dividing distances (`"scaled"`), by the shares of the past items (`"proportional"`), or
# towards the user's own mix of categories (`"calibrated"`). Score, distance and interest of an item are the same in
# every mix; only the items in the list and their order differ.

_FLOOR = 0.1  # least scale of an interest, as a share of the user's mean squared distance
_USERS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class PastMatches:
    """Matches between past items of some users and their interests; one row per interest, user by user."""

    first: NDArray[np.int64]
    """User i has the rows ``first[i]:first[i + 1]``. Shape ``(n_users + 1,)``."""
    counts: NDArray[np.int64]
    """Past items that are nearest to each interest, shape ``(first[-1],)``."""
    closeness: NDArray[np.float64]
    """Sum of their scores by it: minus the squared distance, or the inner product."""

    @property
    def owner(self) -> NDArray[np.int64]:
        """Position of the user of each row."""
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))


def past_matches(index: ScoringIndex, users: NDArray[np.int32]) -> PastMatches:
    """Return the matches between training items and interests of the users at these rows."""
    if index.tastes is not None:
        first = index.tastes.first_rows(users)
        counts = index.tastes.sizes[ranges(index.tastes.offsets[users], np.diff(first))]
        return PastMatches(first, counts, np.zeros(len(counts)))
    train, vectors = index.train, index.interest_vectors.user_offsets
    n_past = train.offsets[users + 1] - train.offsets[users]
    position = np.repeat(np.arange(len(users)), n_past)
    past = train.indices[ranges(train.offsets[users], n_past)]
    closeness, interests = index.pair_interests(users[position], past)
    first = np.concatenate([[0], np.cumsum(vectors[users + 1] - vectors[users])])
    rows = first[position] + interests
    counts = np.bincount(rows, minlength=first[-1])
    sums = np.bincount(rows, closeness, minlength=first[-1]).astype(np.float64)  # else int64 without a past
    return PastMatches(first, counts, sums)


class MixedLists:
    """Lists of one mix, block by block; arguments as in `ScoringIndex.top_k`."""

    def __init__(
        self,
        index: ScoringIndex,
        mix: Mix,
        k: int,
        *,
        exclude_seen: bool = True,
        candidates: NDArray[np.int32] | None = None,
    ) -> None:
        self._index, self._mix, self._k = index, mix, k
        self._exclude_seen, self._candidates = exclude_seen, candidates
        self._reranker = None
        if mix.name == "calibrated" and mix.column != BY_INTEREST:
            options = {} if mix.column is None else {"column": mix.column}
            self._reranker = PoolReranker(index.model, "calibrated", mix.diversity, options, index.threads)

    def blocks(self, rows: NDArray[np.int32], choices: InterestChoices | None = None) -> Lists:
        """Return the lists of the users at these rows; invalid vectors are an error at once."""
        return self.lister(choices or InterestChoices())(rows, self._k)

    def lister(self, choices: InterestChoices, excluded: ItemLists | None = None) -> Lister:
        """Return a function from rows of users and a length to their lists; invalid vectors are an error at once.

        A shorter list is the head of a longer one. ``excluded`` is the result of `excluded` for these choices.
        """
        excluded = self.excluded(choices) if excluded is None else excluded
        index = self._index.with_factors(choices.factors)
        if self._mix.name == "proportional":
            interest_ranker = InterestRanker(
                index.source,
                index.interest_vectors,
                self._k,
                excluded,
                threads=index.threads,
                candidates=self._candidates,
                diversity=self._mix.diversity,
            )

            def proportional(rows: NDArray[np.int32], length: int) -> Lists:
                mixed = interest_ranker.mixed_blocks(rows, lambda users: self._weights(users, choices)[1], length)
                return ((block, self._in_order(index, block, interests)) for block, interests in mixed)

            return proportional
        if self._mix.name == "scaled":
            return lambda rows, length: self._scaled(rows, excluded, length)
        ranker = index.ranker(self._k, excluded, self._candidates)
        if self._mix.name == "nearest":
            return lambda rows, length: index.ranked(ranker, rows, length)
        n_candidates = self._index.train.n_items if self._candidates is None else len(self._candidates)
        pool = min(n_candidates, max(100, 10 * self._k))

        def calibrated(rows: NDArray[np.int32], length: int) -> Lists:
            return self._calibrated(index.ranked(ranker, rows, max(pool, length)), choices, pool, length)

        return calibrated

    def excluded(self, choices: InterestChoices) -> ItemLists:
        """Per user of the model, the items that must not be in the list: seen ones, those of muted interests."""
        train = self._index.train
        offsets, items = train.left_out if self._exclude_seen else train.disliked
        muted_rows = sorted(row for row, muted in choices.muted.items() if muted)
        if not muted_rows:
            return offsets, items
        counts = np.diff(offsets)
        parts, done = [], 0
        for row in muted_rows:
            everything = np.arange(train.n_items, dtype=np.int32)
            _, nearest = self._index.pair_interests(np.full(train.n_items, row), everything)
            left_out = np.isin(nearest, list(choices.muted[row]))
            left_out[items[offsets[row] : offsets[row + 1]]] = True
            parts += [items[done : offsets[row]], everything[left_out]]
            counts[row], done = int(left_out.sum()), offsets[row + 1]
        return np.concatenate([[0], np.cumsum(counts)]), np.concatenate([*parts, items[done:]])

    def _weights(
        self, users: NDArray[np.int32], choices: InterestChoices
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Weights of the interests of some users, as offsets and values: past items, times boosts, 0 where muted.

        Equal ones where no past item is left.
        """
        past = past_matches(self._index, users)
        weights, allowed = past.counts.astype(np.float64), np.ones(len(past.counts))
        for at, row in enumerate(users.tolist() if choices.muted or choices.boosts else ()):
            for x, factor in choices.boosts.get(row, {}).items():
                weights[past.first[at] + x] *= factor
            for x in choices.muted.get(row, ()):
                weights[past.first[at] + x] = allowed[past.first[at] + x] = 0.0
        nothing = np.add.reduceat(weights, past.first[:-1]) == 0
        return past.first, np.where(nothing[past.owner], allowed, weights)

    # ---- proportional: places by Sainte-Lague ---------------------------------------------------------------

    def _in_order(self, index: ScoringIndex, block: Block, interests: NDArray[np.int32]) -> TopK:
        """Return lists with exact scores; each interest keeps its places and fills them in the order of the scores."""
        query, place = np.nonzero(block.top >= 0)
        rows = block.top[query, place]
        scores, nearest = block.scores_of(query, rows, self._index.threads)
        group = query * (int(interests.max(initial=0)) + 1) + interests[query, place]
        slots = np.argsort(group, kind="stable")  # the places of each interest, in order
        after, before = slots[1:], slots[:-1]
        worse = (scores[after] < scores[before]) | ((scores[after] == scores[before]) & (rows[after] > rows[before]))
        swapped = (group[after] == group[before]) & ~worse
        if swapped.any():  # by rounding, in few groups
            slots = slots[np.isin(group[slots], group[after[swapped]])]
            items = slots[np.lexsort((rows[slots], -scores[slots], group[slots]))]
            rows[slots], scores[slots] = rows[items], scores[items]
            if nearest is not None:
                nearest[slots] = nearest[items]
        found = TopK(query, (place + 1).astype(np.int32), rows, scores, nearest)
        return index.matched(block.users, found)

    # ---- scaled: distances divided by the scale of the interest ---------------------------------------------

    def _scaled(self, rows: NDArray[np.int32], excluded: ItemLists, k: int) -> Lists:
        space = self._index.interest_vectors
        items = space.item_vectors.astype(np.float64)
        # -|x - v|^2 / s is the inner product of (2 x / s, -1 / s, -|x|^2 / s) and (v, |v|^2, 1).
        square = np.einsum("ij,ij->i", items, items)
        extended = np.column_stack([items, square, np.ones(len(items))]).astype(np.float32)
        offsets, left_out = excluded
        for start in range(0, len(rows), _USERS_AT_ONCE):
            users = np.ascontiguousarray(rows[start : start + _USERS_AT_ONCE])
            n_vectors = space.user_offsets[users + 1] - space.user_offsets[users]
            own = space.user_vectors[ranges(space.user_offsets[users], n_vectors)].astype(np.float64)
            inverse = interest_scales(past_matches(self._index, users)) ** -self._mix.diversity
            queries = np.column_stack([2 * own, -np.ones(len(own)), -np.einsum("ij,ij->i", own, own)])
            first = np.concatenate([[0], np.cumsum(n_vectors)])
            scaled = VectorSpace((queries * inverse[:, None]).astype(np.float32), first, extended, "dot")
            n_out = offsets[users + 1] - offsets[users]
            own_offsets = np.concatenate([[0], np.cumsum(n_out)])
            own_items = np.ascontiguousarray(left_out[ranges(offsets[users], n_out)])
            source = ScoreSource(scaled, len(users), len(items), type(self._index.model).__name__)
            ranker = BlockRanker(
                source, k, (own_offsets, own_items), threads=self._index.threads, candidates=self._candidates
            )
            top = np.concatenate([block.top for block in ranker.blocks(np.arange(len(users), dtype=np.int32))])
            query, place = np.nonzero(top >= 0)
            found = top[query, place]
            closeness, interests = space.pair_scores(users[query], found, self._index.threads)
            lists = TopK(query, (place + 1).astype(np.int32), found, closeness, interests, -closeness)
            yield block_of(users, space), lists

    # ---- calibrated: greedy towards the user's own mix --------------------------------------------------------

    def _calibrated(self, plain: Lists, choices: InterestChoices, pool_size: int, k: int) -> Lists:
        """Yield the first k of the calibrated pools, each the head of a plain list; the rest of the list follows."""
        for block, found in plain:
            rest = np.flatnonzero(found.rank > pool_size)
            pool = found.take(np.flatnonzero(found.rank <= pool_size)) if len(rest) else found
            sizes = np.bincount(pool.query, minlength=len(block.users))
            offsets = np.concatenate([[0], np.cumsum(sizes)])
            if self._reranker is not None:
                at = self._reranker.choose(block.users, offsets, pool.rows, pool.scores, k)
            else:
                at = self._by_interest(block.users, offsets, pool, choices, k)
            kept = np.minimum(sizes, k)
            rank = np.arange(1, len(at) + 1) - np.repeat(np.cumsum(kept) - kept, kept)
            chosen = pool.take(at, rank.astype(np.int32))
            yield block, merged([chosen, found.take(rest)]) if len(rest) else chosen

    def _by_interest(
        self, users: NDArray[np.int32], offsets: NDArray[np.int64], pool: TopK, choices: InterestChoices, k: int
    ) -> NDArray[np.int64]:
        """Return the entries of the pools that stay, user by user in their new order, with interests as categories."""
        assert pool.interests is not None
        first, weights = self._weights(users, choices)
        owner = np.repeat(np.arange(len(users)), np.diff(first))
        target = np.zeros((len(users), int(np.diff(first).max())))
        target[owner, np.arange(len(weights)) - first[owner]] = weights
        target /= target.sum(axis=1, keepdims=True)
        threads = self._index.threads
        relevance = pool_relevance(offsets, pool.scores, threads)
        sets = CategorySets.single(target.shape[1])
        return calibrated_lists(
            offsets, relevance, pool.interests, sets, target, weight=self._mix.diversity, k=k, threads=threads
        )


def interest_scales(past: PastMatches) -> NDArray[np.float64]:
    """Mean squared distance of the past items to each interest that they are nearest to, one value for each row.

    Never less than a tenth of the user's mean over all past items, so that an interest with one past item at its very
    place keeps a scale; an interest without past items has the user's mean. All are 1 without a past, and where that
    mean is 0.
    """
    n, owner = len(past.first) - 1, past.owner
    total = np.bincount(owner, -past.closeness, minlength=n) / np.maximum(1, np.bincount(owner, past.counts, n))
    mean = np.where(total > 0, total, 1.0)[owner]
    known = (past.counts > 0) & (total > 0)[owner]
    own = np.where(known, -past.closeness / np.maximum(1, past.counts), mean)
    return np.maximum(own, _FLOOR * mean)


def block_of(users: NDArray[np.int32], source: VectorSpace | None = None) -> Block:
    """The users of some lists, and the vectors that give scores where they do; the items are in `TopK`."""
    no_scores = np.empty((0, 0), dtype=np.float32)
    none = np.empty(0, dtype=np.int32)
    top = np.empty((len(users), 0), dtype=np.int32)
    return Block(
        users,
        top,
        np.zeros(len(users), dtype=np.int64),
        none.reshape(0, 3),
        none,
        no_scores if source is None else source,
    )


def require_served_diversity(model: Recommender, diversity: Any) -> float:
    """Return the diversity that a model is to be served with; one that its lists cannot have is an error."""
    model.require_fitted()
    check_diversity(diversity)
    if diversity is None:
        raise ParameterError(Argument("diversity", None), ": expected a number from 0 to 1.")
    resolve_mix(ScoringIndex(model, threads=1), ListOptions(diversity=float(diversity)))
    return float(diversity)
