"""The methods that users call on a fitted model.

The functions behind them are in `tastespace.recommend` and `tastespace.store`, packages that import this one. Each
method imports its function when it is called: this is the one module of the package that imports upwards.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tastespace.errors import Argument, ParameterError
from tastespace.models.list_options import Filter, Frame, Ids, ListOptions, takes_list_options
from tastespace.models.profiles import Profiles

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame
    from typing_extensions import Unpack

    from tastespace.data.interactions import Interactions
    from tastespace.data.reading.dates import Duration
    from tastespace.evaluation.report import Report
    from tastespace.models.base import Recommender, SparseMatrix
    from tastespace.models.list_options import IndexKeywords, ListKeywords
    from tastespace.models.vector_space import VectorSpace
    from tastespace.ranking.ann import StoredIndex
    from tastespace.recommend.explanations import Explanation
    from tastespace.recommend.pages import Page
    from tastespace.recommend.rules.rules import Rules
    from tastespace.recommend.shelves import Shelf, Shelves
    from tastespace.recommend.stores import VectorStore
    from tastespace.recommend.wording import WordingLike

Histories: TypeAlias = "Interactions | IntoFrame | Mapping[Any, Iterable[Hashable]] | Sequence[Iterable[Hashable]]"
"""Items of users who were not in training, see `InferenceMixin.fold_in`."""
Features: TypeAlias = "IntoFrame | Mapping[str, Sequence[Any]] | NDArray[Any] | SparseMatrix"
"""Features of users or items: a frame, a dict of columns, or a matrix with a row for each."""
Self = TypeVar("Self", bound="InferenceMixin")


class InferenceMixin:
    """Recommendations, shelves, explanations, neighbors, fold-in and files of a fitted model."""

    has_interests: bool = False
    """True where users have several vectors, so that a recommendation matches one of several interests."""
    _profiles: Profiles | None = None
    _served_diversity: float = 0.0
    _stored_index: StoredIndex | None = None
    """The index file of the directory that the model was loaded from."""
    _mapped_files: tuple[Any, ...] = ()
    """`MappedFile` of each file that the arrays of a loaded model stay in."""

    _kept_lists: Any = None
    """Lists of the last plain request, `recommend.lists.TopKLists`; not part of copies and files."""

    _kept_space: VectorSpace | None = None
    """Last result of `vectors`; not part of copies and files."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_kept_lists", "_kept_space")}

    def _fit_on_cluster(
        self,
        train: Interactions,
        valid: Interactions | None,
        cluster: Any,
        progress: bool | None,
        callbacks: Sequence[Any],
    ) -> None:
        """Train on partitions of the users, see `tastespace.cluster.fit_on_cluster`."""
        from tastespace.cluster.fit import fit_on_cluster

        fit_on_cluster(self, train, valid, cluster, progress, callbacks)

    @property
    def supports_fold_in(self) -> bool:
        """True where `fold_in` and `recommend_for` accept the histories of users who were not in training."""
        return type(self)._fold_in is not InferenceMixin._fold_in

    @property
    def supports_cold_start(self) -> bool:
        """True where `fold_in` and `recommend_for` accept ``features`` of users who have no history."""
        return type(self)._fold_in_with is not InferenceMixin._fold_in_with

    @property
    def supports_partial_fit(self) -> bool:
        """True where the model has ``partial_fit``, which continues training with more data."""
        return hasattr(self, "partial_fit")

    # ---- lists ---------------------------------------------------------------------------------------------

    @takes_list_options
    def recommend(self, users: Ids | None = None, k: int = 10, **options: Unpack[ListKeywords]) -> Frame:
        """Return the best k items for each user, as a frame in the library that the data came from.

        Columns: ``user``, ``item``, ``rank`` (from 1), ``score`` (larger is better); for metric models ``distance``,
        squared, which is minus the score; for models with several vectors per user ``interest``, the number of the
        vector that the item is nearest to. A model that ranks by other scores than its vectors has its own ``score``
        in addition to the ``distance`` to the nearest interest. Fewer candidates than k give fewer rows.

        By default items are ranked by score alone. A ``mix`` gives all interests of a user a part of the list; the
        columns say the same of an item in every mix, so scores need not fall along a mixed list.

        ================== =====================================================================================
        mix                the list
        ================== =====================================================================================
        ``"nearest"``      by score: for metric models, the distance to the nearest interest
        ``"scaled"``       distances to an interest are divided by the mean squared distance of the past items
                           that are nearest to it; for models that rank by distance only
        ``"proportional"`` an interest has the share of the places that it has of the past items, in every
                           prefix (Sainte-Lague); an item belongs to its nearest interest
        ``"calibrated"``   greedy towards the mix of categories in the user's past (Steck 2018), from the
                           best max(100, 10 k) items
        ================== =====================================================================================

        Args:
            users: User ids, one id, or None for all users.
            k: Items per user.
            exclude_seen: Leave out the items that the user had in training.
            items: Recommend only among these item ids.
            filter: Recommend only items whose attributes satisfy this: a condition such as ``"year >= 1990"``,
                a polars expression, or a function from the frame of attributes to one true or false per item. Or
                these values themselves, in the order of ``train_.items``: an array of bool that is computed once takes
                no time for each request.
            on_unknown: Treatment of unknown users, and of users without a training history whom the model cannot serve
                (`Recommender.can_serve`): ``"error"``, ``"skip"``, or ``"popular"``: the most popular items, with null
                scores. Where all users are requested, ``"error"`` leaves the latter out, with a note.
            mix: Sharing of the list between interests, see above. By default the plain list, or where ``diversity`` is
                given ``"proportional"`` for models with interests and ``"calibrated"`` for others.
            diversity: Strength of the mix, from 0 (exactly the plain list) to 1 (the mix in its pure form, the default
                where ``mix`` is given). In between, ``"proportional"`` weighs an interest's claim to the next place
                against the relevance of its item: 1 for the user's best item, 0 from the 100th best on.
            column: For ``"calibrated"``: the item attribute that holds categories (default: the one that looks like
                categories), or ``"interest"`` for the mix of interests.
            mute: Interests to leave out: items nearest to them are not in the list. For one user ``[1]``, for several
                by user id, ``{"ann": [1]}``.
            boost: Factors for the weights of interests, ``{0: 2.0}`` or ``{"ann": {0: 2.0}}``. Implies
                ``mix="proportional"``; with ``diversity=0`` it changes nothing.
            rules: `tastespace.Rules`: limits per brand, pinned items, stock, new items and others.
            profile: Apply the profiles that `mute` and `boost` have stored. Stored boosts are used by the mixes that
                use weights of interests, and give users who have some a proportional list where no mix is asked for.
            titles: Add a column ``title``, from the item attribute title or name, or from the one named here.
            threads: 0 means all cores.
            index: ``"exact"`` compares a user with all items. ``"ann"`` looks near each of the user's vectors only, for
                catalogs of hundreds of thousands of items: see `build_index`. Its items have exact scores.

        >>> from tastespace import CML, DPCML, synthetic
        >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
        >>> CML(dim=8, epochs=2).fit(town).recommend(k=3).columns
        ['user', 'item', 'rank', 'score', 'distance']
        >>> model = DPCML(dim=8, epochs=2).fit(town)
        >>> len(model.recommend(7, k=6, mix="proportional", mute=[0]).filter(interest=0))
        0
        """
        from tastespace.recommend.lists import recommend

        return recommend(_recommender(self), users, ListOptions.from_keywords("recommend", k, options))

    @takes_list_options
    def recommend_indices(
        self, rows: ArrayLike | None = None, k: int = 10, **options: Unpack[IndexKeywords]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return lists as indices and arrays, without the cost of ids and frames.

        Gives item indices and scores, both of shape ``(n, k)``; -1 and NaN where there are fewer candidates, and for
        users without a training history. An index is the place of an id in ``train_.users`` or ``train_.items``.
        Options as in `recommend`; keys of ``mute`` and ``boost`` by user are indices of users, too.
        """
        from tastespace.recommend.lists import recommend_indices

        return recommend_indices(_recommender(self), rows, ListOptions.from_keywords("recommend_indices", k, options))

    @takes_list_options
    def recommend_to(
        self, path: str | Path, users: Ids | None = None, k: int = 10, **options: Unpack[ListKeywords]
    ) -> int:
        """Write the lists of many users to a file or database, block by block; returns the number of rows.

        ``path`` is a .parquet, .csv or .jsonl file, or an address: ``postgresql://host/database?table=lists`` has a row
        for each user and rank, ``redis://host:6379/0?key=lists`` a hash with a list as JSON for each user. Readers see
        the old lists or the new ones, whole: those of all users take the place of what was there, those of ``users``
        are put beside the others.

        Memory does not grow with the number of users. Options as in `recommend`.
        """
        from tastespace.recommend.lists import recommend_to

        return recommend_to(_recommender(self), path, users, ListOptions.from_keywords("recommend_to", k, options))

    # ---- profiles ------------------------------------------------------------------------------------------

    @property
    def profiles(self) -> Profiles:
        """Stored interests that users have muted and boosted, by user id: see `mute`."""
        if self._profiles is None:
            self._profiles = Profiles()
        return self._profiles

    def mute(self: Self, user: Hashable, interests: int | Iterable[int] | Shelf) -> Self:
        """Leave items nearest to these interests out of all lists and shelves of a user from now on.

        Numbers are those of the column ``interest`` of lists; a `Shelf` stands for all of its interests. Interests
        muted before stay muted, and one interest must be left. Profiles are saved with the model. `fit` drops them,
        because it renumbers interests; ``partial_fit`` keeps the vectors that exist, so it keeps profiles too.
        Users that are folded in have none.

        >>> from tastespace import DPCML, synthetic
        >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
        >>> model = DPCML(dim=8, n_interests=3, epochs=2).fit(town)
        >>> 2 in model.mute(7, [2]).recommend(7, k=20)["interest"]
        False
        >>> 2 in model.recommend(7, k=20, profile=False)["interest"]
        True
        """
        from tastespace.recommend.interests import mute

        mute(_recommender(self), user, interests)
        return self

    def unmute(self: Self, user: Hashable, interests: int | Iterable[int] | Shelf) -> Self:
        """Show these interests of a user again."""
        from tastespace.recommend.interests import unmute

        unmute(_recommender(self), user, interests)
        return self

    def boost(self: Self, user: Hashable, factors: Mapping[int, float]) -> Self:
        """Multiply the weights of interests of a user by these factors from now on; a factor of 1 takes that back.

        Other interests keep the factors that they have. See `mute` for how long this is remembered.
        """
        from tastespace.recommend.interests import boost

        boost(_recommender(self), user, factors)
        return self

    def clear_profile(self: Self, user: Hashable) -> Self:
        """Delete the stored profile of a user."""
        from tastespace.recommend.interests import clear

        clear(_recommender(self), user)
        return self

    # ---- attributes ----------------------------------------------------------------------------------------

    def set_item_attributes(self: Self, attributes: IntoFrame, id: str = "item") -> Self:
        """Replace the attributes of the items (titles, categories, stock, ...) without a new fit.

        The learned parameters stay; titles, labels, filters, rules and calibrated lists follow the new attributes at
        once, and so does ``balance`` by categories. Items without a row have nulls, rows of other items are not used.

        Args:
            attributes: A frame of any library with a row per item.
            id: Its column of item ids.

        >>> import polars as pl
        >>> from tastespace import EASE, synthetic
        >>> model = EASE().fit(synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions)
        >>> prices = pl.DataFrame({"sku": range(40), "price": range(40)})
        >>> model.set_item_attributes(prices, id="sku").recommend(7, k=3, filter="price < 2")["item"].max() < 2
        True
        """
        from tastespace.recommend.labels import set_item_attributes

        set_item_attributes(_recommender(self), attributes, id)
        return self

    # ---- lists that are served -----------------------------------------------------------------------------

    @property
    def served_diversity(self) -> float:
        """Diversity of lists that say nothing of it, in the server, on its page and in pages and widgets.

        0, the plain list, unless `set_served_diversity` has changed it. `recommend` does not use it.
        """
        return self._served_diversity

    def set_served_diversity(self: Self, diversity: float) -> Self:
        """Choose the diversity of the lists that a server and its page show where a request gives neither mix nor
        diversity: from 0, the plain list, to 1, as in `recommend`. It is saved with the model.

        >>> from tastespace import DPCML, synthetic
        >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
        >>> DPCML(dim=8, epochs=2).fit(town).set_served_diversity(0.3).served_diversity
        0.3
        """
        from tastespace.recommend.mix import require_served_diversity

        self._served_diversity = require_served_diversity(_recommender(self), diversity)
        return self

    # ---- interests -----------------------------------------------------------------------------------------

    def shelves(
        self,
        user: Hashable,
        k: int | Mapping[int, int] = 10,
        *,
        mute: int | Iterable[int] | Shelf = (),
        boost: Mapping[int, float] | None = None,
        merge: float = 0.8,
        exclude_seen: bool = True,
        items: Ids | None = None,
        filter: Filter | None = None,
        column: str | None = None,
        wording: WordingLike = None,
        rules: Rules | None = None,
        profile: bool = True,
    ) -> Shelves:
        """One list of recommendations for each of a user's interests, the strongest interest first.

        An item is on the shelf of the interest that it is nearest to. Interests whose best items are mostly the
        same share a shelf, and one that no past item belongs to joins the nearest.

        Args:
            user: Id of one user.
            k: Items on each shelf, or a number for each interest: ``{0: 12, 2: 4}`` (10 where none is given).
            mute: Interests to leave out: items nearest to them are on no shelf. A shelf stands for all of its
                interests.
            boost: Interests to show more of: ``{2: 1.5}`` makes a shelf half as long again and moves it up as if half
                as many past items again belonged to it.
            merge: Interests share a shelf from this overlap of their best items on, in (0, 1]; above 1 never.
            exclude_seen, items, filter: As in `recommend`.
            column: Attribute of the items from which shelves are named; by default one that holds categories. A shelf
                is named by a category only where at least three quarters of its items belong to it, and no two by the
                same; else its name is "like X and Y", the past items that stand for it most.
            wording: Templates of such names: a `tastespace.Wording`, a dict, or the name of a TOML file.
            rules: `tastespace.Rules`, which hold on each shelf; a pinned item is on the shelf of its interest.
            profile: Apply the profile that `mute` and `boost` have stored.
        """
        from tastespace.recommend.shelves import shelves

        return shelves(
            _recommender(self), user, k, mute=mute, boost=boost, merge=merge, exclude_seen=exclude_seen, items=items,
            filter=filter, column=column, wording=wording, rules=rules, profile=profile,
        )  # fmt: skip

    def interests(self, user: Hashable, k: int = 5, *, column: str | None = None) -> Frame:
        """A frame with a row for each vector of a user, the strongest first.

        Columns: ``interest`` (its number), ``weight`` (share of the past items that belong to it), ``name``
        (a category that fits, else "like X and Y"), ``past`` (up to k past items, those that stand for it most first)
        and ``nearest`` (its k best items that the user does not have).
        """
        from tastespace.recommend.shelves import interests

        return interests(_recommender(self), user, k, column=column)

    @overload
    def explain(
        self,
        user: Hashable,
        item: Hashable,
        k: int = 5,
        *,
        column: str | None = None,
        words: Literal[False] = False,
        wording: None = None,
    ) -> Explanation: ...

    @overload
    def explain(
        self,
        user: Hashable,
        item: Hashable,
        k: int = 5,
        *,
        column: str | None = None,
        words: Literal[True],
        wording: WordingLike = None,
    ) -> str: ...

    def explain(
        self,
        user: Hashable,
        item: Hashable,
        k: int = 5,
        *,
        column: str | None = None,
        words: bool = False,
        wording: WordingLike = None,
    ) -> Explanation | str:
        """Explain the rank of an item among those that the user does not have.

        From models with vectors: the interest that the item matches, its distance, its rank if the user did not have
        that interest, and the k past items nearest to it. From models whose scores are sums over past items (EASE,
        SparseEASE, ItemKNN, blends with one of them): the k past items that add most to the score, and the share of
        each. A blend may have both; a model with neither has no explanations, which is an error.

        ``words=True`` returns a sentence for customers instead: "Because you took A and B, like 140 others who took
        this." 140 is the number of other users in the training data who took A, B and this item. ``wording`` has other
        templates, such as those of another language: a `tastespace.Wording`, a dict, or the name of a TOML file.

        >>> from tastespace import EASE, synthetic
        >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
        >>> found = EASE().fit(town).explain(7, 3, k=2)
        >>> len(found.because), found.interest
        (2, None)
        >>> EASE().fit(town).explain(7, 3, words=True).split(",")[0]
        'Because you took Jazz no. 23 and Chess no. 25'
        """
        from tastespace.recommend.explanations import explain, explanation_words

        if wording is not None and not words:
            raise ParameterError(
                Argument("wording"), " chooses the sentences of ", Argument("words", True), ": give both."
            )
        found = explain(_recommender(self), user, item, k, column=column)
        return explanation_words(_recommender(self), found, wording) if words else found

    # ---- the page --------------------------------------------------------------------------------------------

    def explore(
        self,
        user: Hashable | None = None,
        *,
        compare: Recommender | None = None,
        images: str | None = None,
        hide_categories: Iterable[str] = (),
    ) -> Any:
        """A widget for notebooks: shelves, the map of the catalog, sliders and explanations (the `notebook` extra).

        Args:
            user: User who is shown first; others can be searched for.
            compare: Another model of the same items, whose list can be shown alongside.
            images: Item attribute with addresses of pictures, which the page then loads; "auto" finds one by its name.
            hide_categories: Categories that are neither shown nor part of names.

        >>> from tastespace import DPCML, synthetic
        >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
        >>> DPCML(dim=8, epochs=2).fit(town).explore(7)  # doctest: +SKIP
        """
        from tastespace.answers.display import Display
        from tastespace.answers.widget import explore

        display = Display(images, tuple(hide_categories))
        return explore(_recommender(self), user, compare=compare, display=display)

    def save_page(
        self,
        path: str | Path,
        users: Iterable[Hashable] | None = None,
        *,
        n_users: int = 5,
        compare: Recommender | None = None,
        images: str | None = None,
        hide_categories: Iterable[str] = (),
    ) -> Path:
        """Write a page with shelves, map, sliders and explanations of some users: one .html file that needs no server.

        It holds the ids, titles and places of all items, and the history and best items of each user, and loads nothing
        from anywhere but pictures, if ``images`` is given. Sliders and lists work as with a server; people who are not
        in the file need one.

        Args:
            path: An .html file.
            users: User ids; None: ``n_users`` whose past is spread over several interests.
            n_users: Number of users, where none are named.
            compare: Another model of the same users, whose list is shown alongside.
            images: Item attribute with addresses of pictures, which the page then loads; "auto" finds one by its name.
            hide_categories: Categories that are neither shown nor part of names.

        >>> import tempfile
        >>> from tastespace import DPCML, synthetic
        >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
        >>> page = DPCML(dim=8, epochs=2).fit(town).save_page(Path(tempfile.mkdtemp()) / "town.html", users=[7])
        >>> page.stat().st_size > 50_000
        True
        """
        from tastespace.answers.display import Display
        from tastespace.answers.saved_page import save_page

        display = Display(images, tuple(hide_categories))
        return save_page(_recommender(self), path, users, n_users=n_users, compare=compare, display=display)

    # ---- neighbors -----------------------------------------------------------------------------------------

    def similar_items(self, items: Ids, k: int = 10) -> Frame:
        """The k items nearest to each given item: a frame of item, similar, rank, score (and distance)."""
        from tastespace.recommend.lists import similar_items

        return similar_items(_recommender(self), items, k)

    def similar_users(self, users: Ids, k: int = 10) -> Frame:
        """The k users most like each given user: a frame of user, similar, rank, score (and distance).

        With several vectors each, the distance between two users is the squared distance from a vector to the other's
        nearest one: its mean over the vectors of either user, and the mean of the two.
        """
        from tastespace.recommend.lists import similar_users

        return similar_users(_recommender(self), users, k)

    # ---- lists that are not about one user's taste --------------------------------------------------------

    def popular_items(
        self, k: int = 10, *, since: Duration | None = None, trending: bool = False, filter: Filter | None = None
    ) -> Frame:
        """The most popular items, of all time, of a window of time or by their rise: item, rank, score, users.

        Args:
            k: Length of the list.
            since: Length of the window before the latest interaction, such as ``"7d"``; the model needs times.
            trending: Rank by how far the number of interactions in the window (7 days unless given) is above what the
                item's share of the four windows before gives, in standard deviations of a Poisson count.
            filter: As in `recommend`.

        >>> from tastespace import EASE, synthetic
        >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
        >>> EASE().fit(town).popular_items(3).columns
        ['item', 'rank', 'score', 'users']
        """
        from tastespace.recommend.popular import popular_items

        return popular_items(_recommender(self), k, since, trending, filter)

    def taken_together(
        self, items: Ids, k: int = 10, *, within: Duration | None = None, filter: Filter | None = None
    ) -> Frame:
        """Items that the same people take as each of these: item, together, rank, lift, users.

        ``users`` counts the people with both, ``lift`` is that number over the one that chance gives plus 10, so that a
        few common users of rare items do not count for much. ``within``: both were taken within this time, ``"1d"``.
        """
        from tastespace.recommend.together import taken_together

        return taken_together(_recommender(self), items, k, within, filter)

    def next_items(
        self, session: Iterable[Hashable], k: int = 10, *, filter: Filter | None = None, include_seen: bool = False
    ) -> Frame:
        """Items that come next in a session, a list of item ids from the oldest to the last: item, rank, score.

        Late items count more than early ones, and so does what followed them in the training data, where that has
        times; see `tastespace.recommend.together.next_scores`. Unknown items are left out.
        """
        from tastespace.recommend.together import next_items

        return next_items(_recommender(self), session, k, filter, include_seen)

    @takes_list_options
    def recommend_page(self, user: Hashable, k: int = 10, *, after: str = "", **options: Unpack[ListKeywords]) -> Page:
        """A page of a user's list: ``items`` as in `recommend`, and ``next``, the token of the next page.

        ``after`` is the token of the page before, empty for the first one. It names what was shown, so no item comes
        twice, whatever was learned meanwhile; nothing is stored. A list ends after 1,000 items.

        >>> from tastespace import EASE, synthetic
        >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
        >>> model = EASE().fit(town)
        >>> first = model.recommend_page(7, k=3)
        >>> second = model.recommend_page(7, k=3, after=first.next)
        >>> [*first.items["item"], *second.items["item"]] == list(model.recommend(7, k=6)["item"])
        True
        """
        from tastespace.recommend.pages import recommend_page

        return recommend_page(_recommender(self), user, after, ListOptions.from_keywords("recommend_page", k, options))

    # ---- users who were not in training --------------------------------------------------------------------

    def fold_in(
        self: Self, histories: Histories | None = None, on_unknown: str = "error", *, features: Features | None = None
    ) -> Self:
        """A fitted model of the same items for users who were not in training.

        The items stay as they are; the new users get vectors or scores from their histories. `recommend`, `shelves`,
        `explain` and the rest work on the model that comes back.

        Args:
            histories: A list of lists of item ids (the users are then 0, 1, ...), a mapping from a user to such a
                list, or a frame with the columns ``user`` and ``item``.
            on_unknown: Items that are not in the model are an error, or left out with ``"skip"``.
            features: For models that learn from content: a frame with a column ``user`` and the columns of training,
                or a matrix with a row for each user (0, 1, ..., or in the order of ``histories``). Histories may then
                be short, of some users only, or left out.

        >>> from tastespace import EASE, synthetic
        >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
        >>> EASE().fit(town).fold_in({"zoe": [3, 7]}).recommend("zoe", k=2)["rank"].to_list()
        [1, 2]
        """
        from tastespace.recommend.fold_in import fold_in

        return cast(Self, fold_in(_recommender(self), histories, on_unknown, features))

    @takes_list_options
    def recommend_for(
        self,
        histories: Histories | None = None,
        k: int = 10,
        *,
        features: Features | None = None,
        **options: Unpack[ListKeywords],
    ) -> Frame:
        """Return lists of users who were not in training, from their histories or their features.

        See `fold_in` for ``histories`` and ``features``, `recommend` for the rest; these users have no stored profile.
        Items that the model does not know are left out, with a warning. A user without any known item is an error; with
        ``on_unknown="popular"`` such a user gets the most popular items, with ``"skip"`` no rows, without a warning.

        >>> from tastespace import EASE, synthetic
        >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
        >>> EASE().fit(town).recommend_for([[3, 7], [5]], k=2)["user"].to_list()
        [0, 0, 1, 1]
        """
        from tastespace.recommend.fold_in import recommend_for

        asked = ListOptions.from_keywords("recommend_for", k, options)
        return recommend_for(_recommender(self), histories, asked, features)

    def _fold_in(self: Self, histories: Interactions) -> Self | None:
        """A fitted model of the same items for the users of ``histories``; None for models without fold-in."""
        return None

    def _fold_in_longer(self: Self, histories: Interactions, rows: NDArray[np.int64]) -> Self | None:
        """The same for users at these rows of the model, whose histories have become longer.

        Where `keeps_interests`, interests stay what they are and have the same numbers.
        """
        return self._fold_in(histories)

    @property
    def keeps_interests(self) -> bool:
        """True where users of the model keep their interests and their numbers when they have more past items."""
        return False

    def _fold_in_with(self: Self, histories: Interactions, features: Any) -> Self | None:
        """The same from features, a row for each user of ``histories``; None for models that use no features."""
        return None

    # ---- validation during training ------------------------------------------------------------------------

    @staticmethod
    def _check_metric(metric: str, protocol: str) -> None:
        """Raise unless this is the name of one metric of which larger values are better and the protocol is known."""
        from tastespace.evaluation.metrics import columns_for
        from tastespace.evaluation.protocols import find_protocol

        find_protocol(protocol)
        columns = columns_for([metric], (3, 10))
        if [column.label for column in columns] != [metric]:
            raise ParameterError(f"monitor={metric!r}: expected the name of one metric, such as 'NDCG@10' or 'MAP'.")
        if columns[0].metric.lower_is_better:
            raise ParameterError(
                f"monitor={metric!r}: the epoch with the largest value is kept, and of {metric} smaller values are "
                "better. Choose a metric such as 'NDCG@10' or 'MinorityRecall@20'."
            )

    def _measure(self, test: Interactions, seen: Interactions, metric: str, protocol: str, threads: int) -> float:
        """One metric of `tastespace.evaluate`."""
        from tastespace.evaluation import evaluate

        return evaluate(_recommender(self), test, seen=seen, protocol=protocol, metrics=[metric], threads=threads)[
            metric
        ]

    # ---- files ---------------------------------------------------------------------------------------------

    def save(
        self,
        path: str | Path,
        metrics: Mapping[str, float] | Report | None = None,
        index: str | None = None,
        card: bool | Mapping[str, str] | None = None,
    ) -> None:
        """Write the model as a directory that `tastespace.load` opens; ``metrics``, such as a report, are kept with it.

        ``index="ann"`` stores an index of the items with it, see `build_index`; one that the model has is stored in
        any case. A crash leaves the old model or the new one. The format is documented in docs/model-format.md.

        ``card=True`` writes a model card, README.md with YAML front matter as the Hugging Face Hub reads it: the model,
        the data, and the metrics that were given with their protocol. A dict states more: ``name``, ``license``,
        ``data``, ``data_license``, ``intended_use``, ``protocol``. By default an existing card is rewritten.
        """
        from tastespace.ranking.ann import index_to_store
        from tastespace.store import save

        save(_recommender(self), path, metrics, index_to_store(_recommender(self), index), card)

    def build_index(self: Self, kind: str = "ann", threads: int = 0) -> Self:
        """Build the index of the items that ``recommend(..., index="ann")`` searches, unless the model has it.

        For models that rank by vectors; needs faiss (the ``ann`` extra). Items are clustered, and a search looks at the
        clusters near each of a user's vectors, as many as find 99 of the 100 best items of a sample of users; what
        was found is then ranked by its exact scores. `save` stores the index with the model, and a model that is loaded
        maps it. Without `build_index`, the first request builds it. Below 5,000 items all of them are looked at.

        >>> from tastespace import DPCML, synthetic
        >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
        >>> model = DPCML(dim=8, epochs=2).fit(town).build_index("ann")
        >>> model.recommend(7, index="ann").equals(model.recommend(7))
        True
        """
        from tastespace.ranking.ann import build_index

        build_index(_recommender(self), kind, threads)
        return self

    def export(self, path: str | Path, kind: str = "npz", *, member: str | None = None) -> list[Path]:
        """Write item and user vectors: ``"npz"``, ``"parquet"``, ``"faiss"`` or ``"usearch"``; returns the files.

        A search for each vector of a user, merged by distance, finds exactly what `recommend` returns. Of a blend, such
        as `tastespace.fit` makes, these are the vectors of one ``member``, named as in its parameters (``"dpcml"``): by
        default the one with vectors that has most weight. Its lists are those of the member alone.
        """
        from tastespace.recommend.stores.vectors import export

        return export(_recommender(self), path, kind, member)

    def export_to(self, address: str, *, replace: bool = False, member: str | None = None) -> VectorStore:
        """Write item and user vectors to a vector database; returns the store, which makes lists from them.

        Addresses are ``qdrant://host:6333`` (or a folder, ``qdrant://./folder``), ``lance://folder``,
        ``pgvector://user@host/database``, ``duckdb://file``, ``sqlite://file`` (with sqlite-vec), ``faiss://folder``
        and ``usearch://folder``. ``?name=shop`` names the tables or collections ``shop_items`` and ``shop_users``.
        `tastespace.recommend.stores.open_vector_store` opens a store later, without the model.

        Args:
            address: Address of the database.
            replace: True replaces vectors of another dimension or metric under the same name; vectors of the same kind
                are always replaced, tables that this library did not write never.
            member: Of a blend: the member whose vectors are written, see `export`.

        >>> import tempfile
        >>> from tastespace import DPCML, synthetic
        >>> town = synthetic.multi_interest(n_users=50, n_items=40, n_interactions=400).interactions
        >>> model = DPCML(dim=8, epochs=2).fit(town)
        >>> store = model.export_to(f"faiss://{tempfile.mkdtemp()}")
        >>> found = store.recommend(7, k=3, seen=town.items_of(7))
        >>> found["item"].equals(model.recommend(7, k=3)["item"])
        True
        """
        from tastespace.recommend.stores import export_to

        return export_to(_recommender(self), address, replace, member)


def load_if_path(model: Any) -> Any:
    """Return the saved model at ``model`` if that is a path, else ``model`` itself."""
    from tastespace.store import load

    return load(model) if isinstance(model, (str, Path)) else model


def _recommender(model: InferenceMixin) -> Recommender:
    """Return the model with the type `Recommender`, the only class with this mixin; this module cannot import it."""
    return cast("Recommender", model)
