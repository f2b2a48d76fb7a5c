"""A recommender that mixes the scores of others, standardized per user."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tastespace._util.checks import require_number, require_whole
from tastespace._util.computed_once import computed_once, freeze
from tastespace._util.threads import resolve_threads
from tastespace.data import split
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, ParameterError
from tastespace.models.base import Recommender, TrainingData
from tastespace.models.blend.members import (
    Balance,
    checked_members,
    checked_weights,
    fitted_member,
    named_members,
    require_same_data,
)
from tastespace.models.blend.program import Program
from tastespace.models.blend.weights import CandidateScores, best_weights
from tastespace.models.dpcml.model import DPCML
from tastespace.models.linear.sparse_ease import SparseEASE
from tastespace.models.linear.spectral import normalized_matrix, singular_vectors_of
from tastespace.models.stored_values import (
    Declared,
    Models,
    Numbers,
    Plain,
)
from tastespace.models.updating import begin_update, fitted_again, new_interactions, update
from tastespace.models.vector_space import VectorSpace
from tastespace.tastes import TasteParts, Tastes, carried_over, directions, group_tastes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tastespace.data.reading.options import TableArguments

log = logging.getLogger(__name__)

_TASTE_DIM, _TASTE_ITERATIONS = 32, 3  # of directions of items where no member has vectors

Self = TypeVar("Self", bound="Blend")


class Blend(Recommender):
    """A weighted sum of the scores of several models, each standardized per user.

    The score of an item is ``sum over members m of weights[m] * (s_m - mean) / std``, with s_m the score that member m
    gives the item, and mean and standard deviation over all items for that user. So the members' scales do not matter,
    and an item must be good by several accounts. Models that know different things gain most: DPCML and a linear
    item-to-item model.

    A user's past items are grouped into tastes, and the score of an item is split among them: exactly for members whose
    scores are sums over past items (EASE, SparseEASE, ItemKNN, RP3beta, Spectral), in proportion to these for all
    others. Every item of a list says which taste speaks for it most; shelves, explanations, muted and boosted interests
    follow from the same parts.

    Args:
        members: Unfitted models, which `fit` fits; by default DPCML and SparseEASE. For models that are fitted already
            use `Blend.of`.
        weights: One per member, 0 or more, with the sum 1. None: chosen on validation data, each from 0 to 1, so that a
            blend is not worse there than its best member, by the geometric mean of NDCG@10 and R@20. Where `fit` is
            given no validation data it holds out a fifth of each history, chooses, and fits the members to everything.
        n_tastes: Tastes of a user, at most; fewer for short histories and for people whose past items are alike.
        focus: How much the strongest taste alone decides: the score of an item is ``(1 - focus)`` times the sum of what
            the tastes say for it and ``focus`` times the largest of these, from 0 to 1.
        lift: What a taste says counts ``share ** -lift`` times as much, with its share of the user's history: larger
            values lift smaller tastes. 0 or more.
        category_balance: Added to the score of an item, times minus the logarithm of the share of the user's history
            that its categories hold, from the item attributes: 0 leaves it out.
        threads: For mixing the scores, 0 means all cores; members have ``threads`` of their own. The result does not
            depend on it.

    Weights of interactions go to the members that use them; the others learn from the interactions alone.

    >>> from tastespace import split, synthetic
    >>> from tastespace.models import CML, EASE
    >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
    >>> train, valid, test = split.per_user(town, seed=0)
    >>> model = Blend([CML(dim=8, epochs=5), EASE()]).fit(train, valid=valid)
    >>> round(float(model.weights_.sum()), 6), model.recommend(7, k=2)["rank"].to_list()
    (1.0, [1, 2])
    """

    uses_weights = True
    splits_scores = True
    members_: list[Recommender]
    """The fitted members."""
    weights_: NDArray[np.float64]
    """Weight of each member, shape ``(n_members,)``; the sum is 1."""
    taste_of_past_: NDArray[np.int32]
    """Taste of each interaction of ``train_``, from 0 for each user: shape ``(n_interactions,)``."""
    taste_vectors_: NDArray[np.float32]
    """Directions of the items by which past items are grouped, ``(n_items, dim)``; only where no member has vectors."""

    recipe_: dict[str, Any] | None = None
    """Report of what `tastespace.fit` tried and why it chose this blend, where it made the blend."""
    _balance: Balance | None = None
    _tastes: Tastes | None = None
    _taste_space: VectorSpace | None = None
    _program: Program | None = None
    _said_slow = False

    def __init__(
        self,
        members: Sequence[Recommender] | None = None,
        weights: Sequence[float] | None = None,
        n_tastes: int = 5,
        focus: float = 0.0,
        lift: float = 0.0,
        category_balance: float = 0.0,
        threads: int = 0,
    ) -> None:
        self.members = members
        self.weights = weights
        self.n_tastes = n_tastes
        self.focus = focus
        self.lift = lift
        self.category_balance = category_balance
        self.threads = threads

    @classmethod
    def of(
        cls: type[Self],
        members: Sequence[Recommender],
        weights: Sequence[float] | None = None,
        valid: Interactions | None = None,
        **parameters: Any,
    ) -> Self:
        """A fitted blend of fitted models, which keep what they have learned.

        Arguments as in the constructor, by name; without weights ``valid`` is needed, held-out interactions to choose
        them on.

        >>> from tastespace import synthetic
        >>> from tastespace.models import CML, EASE
        >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
        >>> Blend.of([CML(dim=8, epochs=5).fit(town), EASE().fit(town)], [0.7, 0.3]).is_fitted
        True
        """
        fitted = checked_members(members)
        require_same_data(fitted)
        model = cls([member.clone() for member in fitted], weights, **parameters)
        if weights is None and valid is None:
            raise ParameterError("Blend.of was given neither weights nor valid, held-out interactions to choose them.")
        if valid is not None and not isinstance(valid, Interactions):
            raise DataError(f"valid is {type(valid).__name__}, expected Interactions.")
        given = checked_weights(weights, len(fitted))
        model.members_ = fitted
        model.weights_ = model._chosen(valid) if given is None else given
        weighted = [member.train_ for member in fitted if member.train_.weights is not None]
        model.train_, model.valid_ = (weighted or [fitted[0].train_])[0], valid
        model._balance_now()
        model._group_tastes(model.train_)
        return model

    # ---- learning ------------------------------------------------------------------------------------------

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        self._fit_members(train, valid, progress)
        self._group_tastes(train)

    def _fit_members(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
        templates = self._templates()
        given = checked_weights(self.weights, len(templates))
        for stale in ("_balance", "recipe_"):
            vars(self).pop(stale, None)
        if given is not None:
            self.members_ = [fitted_member(member.clone(), train, valid, progress) for member in templates]
            self.weights_ = given
            return
        rest, held_out = split.inner(train) if valid is None else (train, valid)
        if not held_out.n_interactions:
            reason = "histories are too short to hold out a part" if valid is None else "valid is empty"
            log.warning("%s, so weights cannot be chosen: all members weigh the same", reason)
            self.members_ = [fitted_member(member.clone(), train, None, progress) for member in templates]
            self.weights_ = np.full(len(templates), 1 / len(templates))
            return
        self.members_ = [fitted_member(member.clone(), rest, held_out, progress) for member in templates]
        self.weights_ = self._chosen(held_out)
        if valid is None:
            self.members_ = [fitted_member(member.as_chosen(), train, None, progress) for member in self.members_]

    def partial_fit(self, new: TrainingData, progress: bool | None = None, **columns: Unpack[TableArguments]) -> Blend:
        """Learn from more interactions, which may hold new users and items; the weights of the members stay.

        Members with `partial_fit` continue at the cost of the new interactions (DPCML, CML, BPR, ALS). The others, such
        as EASE and SparseEASE, whose closed form has no cheaper way, are fitted again to old and new interactions.
        Interactions that are all known leave the model as it is, with a warning. On an error nothing has changed.
        """
        new = new_interactions("partial_fit", self, new, columns)
        found = begin_update(self, new)
        if found is None:
            return self
        members = []
        for member in self.members_:
            if not member.supports_partial_fit:
                members.append(fitted_again(member, found.data, progress))
            elif found.nothing and not member.uses_weights:
                members.append(member)  # what is new are weights
            else:
                members.append(update(member, new if member.uses_weights else new.without_weights(), progress))
        before, tastes = self.train_, self.tastes()
        self.members_, self.train_, self.valid_ = members, found.data, None
        vars(self).pop("_balance", None)
        self._drop_tastes()
        if hasattr(self, "taste_vectors_"):
            self.taste_vectors_ = self._vectors_without_members(found.data)
        old_users = before.users.find(found.data.users.series)
        self._set_tastes(
            carried_over(tastes, before, found.data, old_users, self._directions(), self.n_tastes, self.threads)
        )
        return self

    def _attributes_changed(self) -> None:
        vars(self).pop("_balance", None)
        self._balance_now()  # new attributes without categories are refused at once, not by the next list

    def as_chosen(self: Self) -> Self:
        """An unfitted copy with the weights that were chosen, and members with what was chosen for them."""
        again = self.clone()
        again.members = [member.as_chosen() for member in self.members_]
        again.weights = [float(weight) for weight in self.weights_]
        return again

    def _chosen(self, valid: Interactions | None) -> NDArray[np.float64]:
        assert valid is not None
        scores = CandidateScores.of(self.members_, valid, threads=self.threads)
        return best_weights(scores)

    def _templates(self) -> list[Recommender]:
        return [DPCML(), SparseEASE()] if self.members is None else checked_members(self.members)

    def _check(self) -> None:
        super()._check()
        checked_weights(self.weights, len(self._templates()))
        require_whole("n_tastes", self.n_tastes)
        require_number("focus", self.focus, least=0.0)
        if self.focus > 1:
            raise ParameterError(f"focus={self.focus!r}: expected a number from 0 (sum) to 1 (strongest taste).")
        require_number("lift", self.lift, least=0.0)
        require_number("category_balance", self.category_balance, least=0.0)

    # ---- scores --------------------------------------------------------------------------------------------

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        return {
            "members_": Models("members"),
            "weights_": Numbers("float64", ("members",)),
            "taste_of_past_": Numbers("int32", ("interactions",), least=0),
            "taste_vectors_": Numbers("float32", ("items", "taste_dim"), optional=True),
            "recipe_": Plain((dict, type(None)), optional=True),
        }

    def program(self) -> Program:
        """The kernel that computes scores and lists from the members as they are now."""
        self.require_fitted()
        found = self._program
        if found is None or not found.is_current:
            given = [] if found is None else [type(one) for one in found.given_members]
            found = self._program = Program(self)
            others = sorted({type(one).__name__ for one in found.given_members if type(one) not in given})
            if others and not self._said_slow:
                self._said_slow = True
                log.info(
                    "scores of %s are computed apart from the blend's kernel, which takes longer", ", ".join(others)
                )
        return found

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The weighted sum of the members' standardized scores, with `focus`, `lift` and `category_balance`."""
        return self.program().totals(users, None, resolve_threads(self.threads))[0]

    def taste_parts(self, users: NDArray[np.integer[Any]]) -> TasteParts:
        """Scores of all items for these users, split by taste.

        Members whose scores are sums over past items are split exactly. What the others say of an item goes to the
        tastes in proportion to these parts; where no member can be split, to the taste whose past items are nearest to
        the item. `category_balance` is added apart.
        """
        return self.program().parts(users, resolve_threads(self.threads))

    def can_serve(self, users: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Users with a history, and others whom every member with a weight can serve."""
        members = [one for one, weight in zip(self.members_, self.weights_, strict=True) if weight > 0]
        return super().can_serve(users) | np.all([one.can_serve(users) for one in members], axis=0)

    def _balance_now(self) -> Balance | None:
        """Term that `category_balance` multiplies, made when first needed; None where that is 0."""
        if not self.category_balance:
            return None
        if self._balance is None:
            self._balance = Balance(self.train_)
        return self._balance

    def scores_by(self, user: int, interests: Sequence[int]) -> NDArray[np.float32]:
        """Scores of all items for the user at this index as if only these tastes existed, shape ``(n_items,)``."""
        parts = self.taste_parts(np.array([user]))
        factors = np.zeros(len(parts.values))
        factors[list(interests)] = 1.0
        return parts.totals(factors)[0]

    @property
    def deterministic_threads(self) -> bool:  # type: ignore[override]
        """True if all members train to the same bits for every number of threads."""
        return all(member.deterministic_threads for member in self._current())

    def evidence(self, user: int, items: NDArray[np.integer[Any]]) -> NDArray[np.float32] | None:
        """Contribution of each past item to the scores of the items, as far as the members have them.

        The weighted sum of the members' contributions, each divided by the standard deviation of that member's scores
        over all items for this user: the scale of the blend's scores. Members whose scores are no sums over past items
        add nothing; None where no member has contributions.
        """
        self.require_fitted()
        total: NDArray[np.float64] | None = None
        for member, weight, scale in zip(self.members_, self.weights_, self.program().scales(user), strict=True):
            found = member.evidence(user, items) if weight > 0 else None
            if found is not None:
                total = np.zeros(found.shape) if total is None else total
                total += scale * found
        return None if total is None else total.astype(np.float32)

    # ---- tastes, and items from the member that compares them ------------------------------------------------

    @property
    def has_interests(self) -> bool:  # type: ignore[override]
        """True: the interests of a blend are the tastes of its users."""
        return True

    def tastes(self) -> Tastes:
        """The tastes of the users."""
        self.require_fitted()
        if self._tastes is None:
            self._tastes = Tastes.of(self.taste_of_past_, self.train_.offsets)
        return self._tastes

    def _group_tastes(self, train: Interactions) -> None:
        """Group the past items of all users."""
        self._drop_tastes()
        vars(self).pop("taste_vectors_", None)
        self.train_ = train  # the members have it already
        if self._member_vectors() is None:
            self.taste_vectors_ = self._vectors_without_members(train)
        self._set_tastes(group_tastes(train, self._directions(), self.n_tastes, self.threads))

    def _set_tastes(self, tastes: Tastes) -> None:
        self._tastes, self.taste_of_past_ = tastes, tastes.of_past

    def _drop_tastes(self) -> None:
        self._tastes = self._taste_space = self._program = None

    def _directions(self) -> NDArray[np.float32]:
        """Directions of the items by which past items are grouped."""
        vectors = self._member_vectors()
        if vectors is None:
            return self.taste_vectors_
        counts = self.popularity_source.item_counts
        freeze(vectors)
        return computed_once(vectors, "directions", lambda: directions(vectors, counts))

    def _member_vectors(self) -> NDArray[np.float32] | None:
        """Item vectors of the member with several vectors per user, else of the first member with any."""
        space = self.item_space()
        return None if space is None else space.item_vectors

    def _vectors_without_members(self, train: Interactions) -> NDArray[np.float32]:
        """Directions of the items from the interactions alone, by `singular_vectors_of`."""
        vectors = singular_vectors_of(train, _TASTE_DIM, _TASTE_ITERATIONS, 0, resolve_threads(self.threads))
        lengths = np.linalg.norm(normalized_matrix(train.without_weights().matrix) @ vectors, axis=0)
        return directions((vectors * lengths).astype(np.float32), train.item_counts)

    def interest_space(self) -> VectorSpace:
        """The tastes as the centers of their past items, by which users are compared and the map is drawn."""
        tastes = self.tastes()
        if self._taste_space is None:
            vectors = self._directions()
            self._taste_space = VectorSpace(tastes.centers(self.train_, vectors), tastes.offsets, vectors, "l2")
        return self._taste_space

    def _current(self) -> Sequence[Recommender]:
        """The fitted members, or the unfitted ones before `fit`."""
        return self.members_ if hasattr(self, "members_") else self._templates()

    def _with_interests(self) -> Recommender | None:
        """The member that compares items: of those with several vectors per user the one with most weight."""
        found = [at for at, member in enumerate(self.members_) if member.has_interests]
        return self.members_[max(found, key=lambda at: self.weights_[at])] if found else None

    def item_space(self) -> VectorSpace | None:
        """The vectors by which items are compared: those of the member with interests, else of the first with any."""
        self.require_fitted()
        source = self._with_interests()
        for member in ([source] if source is not None else []) + self.members_:
            space = member.item_space()
            if space is not None:
                return space
        return None

    def item_scores(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.float32] | None:
        """Similarity of items as the first member that compares them gives it."""
        self.require_fitted()
        found = (member.item_scores(rows) for member in self.members_)
        return next((scores for scores in found if scores is not None), None)

    # ---- users who were not in training -----------------------------------------------------------------------

    @property
    def supports_fold_in(self) -> bool:
        """True if all members accept the histories of users who were not in training."""
        return all(member.supports_fold_in for member in self._current())

    @property
    def supports_cold_start(self) -> bool:
        """False: features of users go to models that learn from them alone."""
        return False

    def _fold_in(self: Self, histories: Interactions) -> Self | None:
        model = self._folded(histories, lambda member: member._fold_in(histories))
        model._set_tastes(group_tastes(histories, self._directions(), self.n_tastes, self.threads))
        return model

    @property
    def keeps_interests(self) -> bool:
        """True: past items keep their tastes, new ones join the nearest."""
        return True

    def _fold_in_longer(self: Self, histories: Interactions, rows: NDArray[np.int64]) -> Self | None:
        model = self._folded(histories, lambda member: member._fold_in_longer(histories, rows))
        model._set_tastes(
            carried_over(self.tastes(), self.train_, histories, rows, self._directions(), self.n_tastes, self.threads)
        )
        return model

    def _folded(self: Self, histories: Interactions, fold: Callable[[Recommender], Recommender | None]) -> Self:
        members = []
        for member in self.members_:
            folded = fold(member)
            if folded is None:
                raise ParameterError(
                    f"{type(member).__name__}, a member of the Blend, has no fold-in for users who were not in "
                    "training. Leave it out of the blend, or fit it with them."
                )
            folded.train_, folded.valid_ = histories, None
            folded._popularity_source = member.popularity_source
            members.append(folded)
        model = copy.copy(self)
        model.members_ = members
        vars(model).pop("_balance", None)  # that of the users before
        model._drop_tastes()
        return model

    # ---- parameters -----------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters; with ``deep`` also those of the members, such as ``dpcml__dim``.

        A member is named as in `tastespace.models.create`; a second one of a kind is ``dpcml_2``.
        """
        found = super().get_params(deep=False)
        if deep:
            for name, member in named_members(self._templates()).items():
                found.update({f"{name}__{inner}": value for inner, value in member.get_params().items()})
        return found

    def set_params(self: Self, **parameters: Any) -> Self:
        """Change parameters, ``dpcml__dim=8`` those of a member; unknown names are an error."""
        own = {name: value for name, value in parameters.items() if "__" not in name}
        nested: dict[str, dict[str, Any]] = {}
        for name, value in parameters.items():
            member, is_nested, inner = name.partition("__")
            if is_nested:
                nested.setdefault(member, {})[inner] = value
        super().set_params(**own)
        if not nested:
            return self
        members = self._templates()
        named = named_members(members)
        for member, inner_values in nested.items():
            if member not in named:
                raise ParameterError(
                    f"Blend has no parameter {member}__{next(iter(inner_values))}: its members are {', '.join(named)}, "
                    f"so names begin with {next(iter(named))}__ and the like."
                )
        before = repr(members)
        for member, inner_values in nested.items():
            named[member].set_params(**inner_values)
        if self.members is None and repr(members) != before:  # the default members, changed
            self.members = members
        return self
