"""A recommender that mixes the scores of others, standardized per user."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tastespace._util.checks import require_choice, require_number
from tastespace.data import split
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, ParameterError
from tastespace.models.base import Recommender
from tastespace.models.blend.members import (
    BALANCED_BY,
    Balance,
    BalanceBy,
    checked_members,
    checked_weights,
    fitted_member,
    named_members,
    require_same_data,
)
from tastespace.models.blend.weights import CandidateScores, add_standardized, best_weights
from tastespace.models.dpcml.model import DPCML
from tastespace.models.linear.sparse_ease import SparseEASE
from tastespace.models.stored_values import (
    Declared,
    Models,
    Numbers,
    Plain,
)
from tastespace.models.updating import begin_update, fitted_again, update
from tastespace.models.vector_space import VectorSpace

log = logging.getLogger(__name__)

Self = TypeVar("Self", bound="Blend")


class Blend(Recommender):
    """A weighted sum of the scores of several models, each standardized per user.

    The score of an item is ``sum over members m of weights[m] * (s_m - mean) / std``, with s_m the score that member m
    gives the item, and mean and standard deviation over all items for that user. So the members' scales do not matter,
    and an item must be good by several accounts. Models that know different things gain most: DPCML and a linear
    item-to-item model.

    Interests, distances and shelves are those of the member that has several vectors per user (the one with the largest
    weight where there are several): every item of a list says which interest it is nearest to.

    Args:
        members: Unfitted models, which `fit` fits; by default DPCML and SparseEASE. For models that are fitted already
            use `Blend.of`.
        weights: One per member, 0 or more, with the sum 1. None: chosen on validation data, each from 0 to 1, so that a
            blend is not worse there than its best member, by the geometric mean of NDCG@10 and R@20. Where `fit` is
            given no validation data it holds out a fifth of each history, chooses, and fits the members to everything.
        balance: Added to the score of an item, times minus the logarithm of the share of the user's history that the
            item's interest holds: 0 ranks by the sum alone, larger values lift items of a user's smaller interests.
        balance_by: What the share is of: ``"interests"``, the vectors of the member that has several per user, or
            ``"categories"``, those of the item attributes.
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
    members_: list[Recommender]
    """The fitted members."""
    weights_: NDArray[np.float64]
    """Weight of each member, shape ``(n_members,)``; the sum is 1."""

    recipe_: dict[str, Any] | None = None
    """Report of what `tastespace.fit` tried and why it chose this blend, where it made the blend."""
    _balance: tuple[BalanceBy, Balance] | None = None

    def __init__(
        self,
        members: Sequence[Recommender] | None = None,
        weights: Sequence[float] | None = None,
        balance: float = 0.0,
        balance_by: BalanceBy = "interests",
        threads: int = 0,
    ) -> None:
        self.members = members
        self.weights = weights
        self.balance = balance
        self.balance_by = balance_by
        self.threads = threads

    @classmethod
    def of(
        cls: type[Self],
        members: Sequence[Recommender],
        weights: Sequence[float] | None = None,
        valid: Interactions | None = None,
        *,
        balance: float = 0.0,
        balance_by: BalanceBy = "interests",
        threads: int = 0,
    ) -> Self:
        """A fitted blend of fitted models, which keep what they have learned.

        Arguments as in the constructor; without weights ``valid`` is needed, held-out interactions to choose them on.

        >>> from tastespace import synthetic
        >>> from tastespace.models import CML, EASE
        >>> town = synthetic.multi_interest(n_users=60, n_items=50, n_interactions=900, seed=1).interactions
        >>> Blend.of([CML(dim=8, epochs=5).fit(town), EASE().fit(town)], [0.7, 0.3]).is_fitted
        True
        """
        fitted = checked_members(members)
        require_same_data(fitted)
        model = cls([member.clone() for member in fitted], weights, balance, balance_by, threads)
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
        return model

    # ---- learning ------------------------------------------------------------------------------------------

    def _fit(self, train: Interactions, valid: Interactions | None, progress: bool | None) -> None:
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

    def partial_fit(self, new: Interactions, progress: bool | None = None) -> Blend:
        """Learn from more interactions, which may hold new users and items; the weights of the members stay.

        Members with `partial_fit` continue at the cost of the new interactions (DPCML, CML, BPR, ALS). The others, such
        as EASE and SparseEASE, whose closed form has no cheaper way, are fitted again to old and new interactions.
        Interactions that are all known leave the model as it is, with a warning. On an error nothing has changed.
        """
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
        source = self._with_interests()
        if source is not None and not source.supports_partial_fit:
            self._drop_profiles()  # its interests were learned again
        self.members_, self.train_, self.valid_ = members, found.data, None
        vars(self).pop("_balance", None)
        return self

    def _attributes_changed(self) -> None:
        vars(self).pop("_balance", None)
        if self.balance_by == "categories":
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
        require_number("balance", self.balance, least=0.0)
        require_choice("balance_by", self.balance_by, BALANCED_BY)

    # ---- scores --------------------------------------------------------------------------------------------

    def _stored(self, learned: Mapping[str, Any]) -> Declared:
        return {
            "members_": Models("members"),
            "weights_": Numbers("float64", ("members",)),
            "recipe_": Plain((dict, type(None)), optional=True),
        }

    def score_block(self, users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The weighted sum of the members' standardized scores."""
        self.require_fitted()
        total = np.zeros((len(users), self.train_.n_items), dtype=np.float32)
        for member, weight in zip(self.members_, self.weights_, strict=True):
            if weight > 0:
                add_standardized(total, member, float(weight), users, self.threads)
        return self._balanced(total, users)

    def can_serve(self, users: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Users with a history, and others whom every member with a weight can serve."""
        members = [one for one, weight in zip(self.members_, self.weights_, strict=True) if weight > 0]
        return super().can_serve(users) | np.all([one.can_serve(users) for one in members], axis=0)

    def _balanced(self, total: NDArray[np.float32], users: NDArray[np.integer[Any]]) -> NDArray[np.float32]:
        """The scores with `balance` added, in place."""
        balance = self._balance_now()
        if balance is not None:
            total += np.float32(self.balance) * balance.of_users(users)
        return total

    def _balance_now(self) -> Balance | None:
        """Term that `balance` multiplies, made when first needed; None where that is 0."""
        if not self.balance:
            return None
        by, balance = self._balance or ("", None)
        if balance is None or by != self.balance_by:
            balance = Balance(self.train_, self.balance_by, self.interest_space(), self.threads)
            self._balance = self.balance_by, balance
        return balance

    def scores_by(self, user: int, interests: Sequence[int]) -> NDArray[np.float32]:
        """Scores of all items for the user at this index as if only these interests existed, shape ``(n_items,)``."""
        self.require_fitted()
        source = self._with_interests()
        if source is None:
            return super().scores_by(user, interests)
        rows = np.array([user], dtype=np.int32)
        total = np.zeros((1, self.train_.n_items), dtype=np.float32)
        for member, weight in zip(self.members_, self.weights_, strict=True):
            if weight > 0 and member is not source:
                add_standardized(total, member, float(weight), rows, self.threads)
        # On the scale of all interests, so that fewer of them can only lower a score.
        whole = source.score_block(rows)[0].astype(np.float64)
        weight = float(self.weights_[self.members_.index(source)])
        own = source.scores_by(user, interests)
        deviation = float(whole.std())
        if deviation:
            total[0] += (weight / deviation * (own - whole.mean())).astype(np.float32)
        return self._balanced(total, rows)[0]

    @property
    def deterministic_threads(self) -> bool:  # type: ignore[override]
        """True if all members train to the same bits for every number of threads."""
        return all(member.deterministic_threads for member in self._current())

    def evidence(self, user: int, item: int) -> NDArray[np.float32] | None:
        """Contribution of each past item to the score of the item, as far as the members have them.

        The weighted sum of the members' contributions, each divided by the standard deviation of that member's scores
        over all items for this user: the scale of the blend's scores. Members whose scores are no sums over past items
        add nothing; None where no member has contributions.
        """
        self.require_fitted()
        total: NDArray[np.float64] | None = None
        for member, weight in zip(self.members_, self.weights_, strict=True):
            found = member.evidence(user, item) if weight > 0 else None
            if found is None:
                continue
            total = np.zeros(len(found)) if total is None else total
            deviation = float(member.score_block(np.array([user]))[0].std(dtype=np.float64))
            if deviation:
                total += weight / deviation * found
        return None if total is None else total.astype(np.float32)

    # ---- interests and items, from the member that has them --------------------------------------------------

    @property
    def has_interests(self) -> bool:  # type: ignore[override]
        """True if a member has several vectors per user."""
        return any(member.has_interests for member in self._current())

    def _current(self) -> Sequence[Recommender]:
        """The fitted members, or the unfitted ones before `fit`."""
        return self.members_ if hasattr(self, "members_") else self._templates()

    def _with_interests(self) -> Recommender | None:
        """The member that interests come from: of those with several vectors per user the one with most weight."""
        found = [at for at, member in enumerate(self.members_) if member.has_interests]
        return self.members_[max(found, key=lambda at: self.weights_[at])] if found else None

    def interest_space(self) -> VectorSpace | None:
        """The vectors of the member that has several per user."""
        self.require_fitted()
        source = self._with_interests()
        return None if source is None else source.interest_space()

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
        return self._folded(histories, lambda member: member._fold_in(histories))

    @property
    def keeps_interests(self) -> bool:
        """True if the member that has interests keeps them."""
        source = self._with_interests()
        return source is None or source.keeps_interests

    def _fold_in_longer(self: Self, histories: Interactions, rows: NDArray[np.int64]) -> Self | None:
        return self._folded(histories, lambda member: member._fold_in_longer(histories, rows))

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
