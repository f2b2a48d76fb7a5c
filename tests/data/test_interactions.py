import itertools

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.required_services import optional_package

from tastespace import Interactions, synthetic
from tastespace.errors import DataError, ParameterError

PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=120).filter(
    lambda pairs: len({u for u, _ in pairs}) > 1 and len({i for _, i in pairs}) > 1
)


def frame(pairs, **more):
    users, items = zip(*pairs, strict=True)
    return pl.DataFrame({"user": users, "item": items, **more})


@given(PAIRS, st.integers(1, 4))
def test_interactions_are_the_distinct_pairs_in_any_row_order(pairs, threads):
    data = Interactions.from_frame(frame(pairs), threads=threads)
    assert set(data.to_frame().rows()) == set(pairs)
    assert data.n_interactions == len(set(pairs))
    assert data.cleaning.duplicates == len(pairs) - len(set(pairs))
    backwards = Interactions.from_frame(frame(pairs[::-1]))
    assert backwards.fingerprint() == data.fingerprint()
    dense = data.matrix.toarray()
    for u, i in pairs:
        assert dense[data.users.index_of([u])[0], data.items.index_of([i])[0]] == 1
    assert data.offsets.dtype == np.int64


@given(PAIRS, st.integers(1, 4), st.integers(1, 4))
def test_the_core_is_idempotent_and_keeps_its_promise(pairs, min_user, min_item):
    try:
        core = Interactions.from_frame(frame(pairs), min_user=min_user, min_item=min_item, core=True)
    except DataError:
        return  # everything filtered out, or a single user left: refused, tested below
    assert core.user_counts.min() >= min_user
    assert core.item_counts.min() >= min_item
    again = core.filter(min_user=min_user, min_item=min_item, core=True)
    assert again.fingerprint() == core.fingerprint()


@given(PAIRS, st.integers(1, 4))
def test_one_filter_alone_is_idempotent(pairs, minimum):
    data = Interactions.from_frame(frame(pairs))
    for rule in ({"min_user": minimum}, {"min_item": minimum}):
        try:
            once = data.filter(**rule)
        except DataError:
            continue
        assert once.filter(**rule).fingerprint() == once.fingerprint()


@pytest.mark.parametrize(
    ("library", "convert", "kind"),
    [
        ("polars", lambda f: f, "DataFrame"),
        ("polars", pl.DataFrame.lazy, "DataFrame"),
        ("pandas", pl.DataFrame.to_pandas, "DataFrame"),
        ("pyarrow", pl.DataFrame.to_arrow, "Table"),
    ],
)
def test_frames_come_back_in_the_library_they_came_from(library, convert, kind):
    expected = getattr(optional_package(library), kind)
    data = Interactions.from_frame(convert(frame([("ann", 3), ("bob", 3), ("ann", 5)])))
    assert data.backend == library
    assert isinstance(data.to_frame(), expected)
    assert data.items_of("ann") == [3, 5]


def test_pandas_strings_categories_and_nullable_integers():
    pd = optional_package("pandas")
    given = pd.DataFrame({"user": pd.Categorical(["ann", "bob", "ann"]), "item": pd.array([3, 4, 5], dtype="Int64")})
    data = Interactions.from_frame(given)
    assert data.items_of("ann") == [3, 5]
    given["item"] = pd.array([3, None, 5], dtype="Int64")
    with pytest.raises(DataError, match="row 1: the id in column 'item' is null"):
        Interactions.from_frame(given)


def test_weights_and_times_follow_their_pair():
    given = frame([(1, 1), (2, 2), (1, 1), (1, 2)], plays=[2.0, 5.0, 3.0, 7.0], when=[30, 40, 10, 20])
    sums = Interactions.from_frame(given, weight="plays", timestamp="when")
    assert sums.matrix.toarray().tolist() == [[5, 7], [0, 5]]
    assert sums.timestamps.tolist() == [30, 20, 40]
    last = Interactions.from_frame(given, weight="plays", timestamp="when", duplicates="last")
    assert last.matrix.toarray().tolist() == [[2, 7], [0, 5]]  # the latest by time, not by row
    by_row = Interactions.from_frame(given, weight="plays", duplicates="last")
    assert by_row.matrix.toarray().tolist() == [[3, 7], [0, 5]]
    most = Interactions.from_frame(given, weight="plays", duplicates="max")
    assert most.matrix.toarray().tolist() == [[3, 7], [0, 5]]
    with pytest.raises(DataError, match="1 rows repeat a pair"):
        Interactions.from_frame(given, duplicates="error")


def test_rating_threshold_catalog_and_what_was_dropped():
    given = frame([(1, 1), (2, 2), (1, 3), (2, 1)], stars=[5, 4, 1, 4])
    data = Interactions.from_frame(given, rating="stars", min_rating=4, catalog=range(5))
    assert (data.n_users, data.n_items, data.n_interactions) == (2, 5, 3)
    assert str(data.cleaning) == "4 rows read, dropped: 1 below min_rating"
    with pytest.raises(DataError, match="3 items of the interactions are not in the catalog"):
        Interactions.from_frame(given, catalog=[7, 8])


def test_one_pass_filter_counts_users_first_then_items():
    given = frame([(1, 1), (1, 2), (2, 1), (2, 2), (3, 2), (4, 1), (4, 3)])
    data = Interactions.from_frame(given, min_user=2, min_item=2)
    assert data.users.series.to_list() == [1, 2, 4]
    assert data.items.series.to_list() == [1, 2]
    core = Interactions.from_frame(given, min_user=2, min_item=2, core=True)
    assert core.users.series.to_list() == [1, 2]
    assert (core.cleaning.by_min_user, core.cleaning.by_min_item) == (2, 1)


def test_attributes_are_aligned_with_the_ids():
    pd = optional_package("pandas")
    titles = pd.DataFrame({"item": [3, 1, 9], "title": ["three", "one", "nine"]})
    data = Interactions.from_frame(frame([(1, 1), (2, 2), (1, 3)]), item_attributes=titles)
    assert data.item_attributes["title"].to_list() == ["one", None, "three"]
    assert data.filter(min_user=2).item_attributes["item"].to_list() == [1, 3]
    with pytest.raises(DataError, match="no column 'item'"):
        Interactions.from_frame(frame([(1, 1), (2, 2)]), item_attributes=titles.rename(columns={"item": "id"}))
    with pytest.raises(DataError, match="more than once"):
        Interactions.from_frame(frame([(1, 1), (2, 2)]), item_attributes=pd.concat([titles, titles]))
    with pytest.raises(DataError, match="Give both the same type"):
        Interactions.from_frame(frame([(1, 1), (2, 2)]), item_attributes=titles.astype({"item": str}))


def test_scipy_in_scipy_out_with_and_without_ids():
    matrix = sp.random_array((20, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    data = Interactions.from_scipy(matrix, weight=True)
    assert np.allclose(data.matrix.toarray(), matrix.toarray().astype(np.float32))
    names = [f"u{20 - i:02}" for i in range(20)]
    named = Interactions.from_scipy(matrix, users=names)
    assert named.items_of("u20") == data.items_of(0)
    repeated = sp.coo_array((np.ones(3), ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert Interactions.from_scipy(repeated, weight=True).matrix.toarray().tolist() == [[0, 2], [1, 0]]
    assert Interactions.from_scipy(repeated).weights is None


def test_weights_of_a_matrix_must_fit_float32():
    large = sp.csr_array(np.array([[1e300, 0.0], [0.0, 1.0]]))
    with pytest.raises(DataError, match="the largest weight is 1e\\+300"):
        Interactions.from_scipy(large, weight=True)
    assert Interactions.from_scipy(large).n_interactions == 2
    with pytest.raises(ParameterError, match="weight='plays': expected True"):
        Interactions.from_scipy(large, weight="plays")


@pytest.mark.parametrize(("duplicates", "expected"), [("sum", [6.0, 4.0]), ("last", [1.0, 4.0]), ("max", [5.0, 4.0])])
def test_the_weight_of_a_repeated_pair(duplicates, expected):
    rows = frame([(1, 1), (1, 1), (2, 2)]).with_columns(pl.Series("weight", [5.0, 1.0, 4.0]))
    weighted = Interactions.from_frame(rows, weight="weight", duplicates=duplicates)
    assert weighted.weights.tolist() == expected
    unweighted = Interactions.from_frame(rows, duplicates=duplicates)
    assert unweighted.weights is None
    assert weighted.without_weights().fingerprint() == unweighted.fingerprint()
    assert weighted.without_weights().matrix.toarray().tolist() == [[1, 0], [0, 1]]
    assert weighted.weights.tolist() == expected, "the original keeps its weights"


BAD_FRAMES = {
    "missing column": (
        frame([(1, 1), (2, 2)]).rename({"user": "userid"}),
        {},
        r"no column 'user'.*'userid', 'item'",
    ),
    "null id": (frame([(1, 1), (None, 2)]), {}, "row 1: the id in column 'user' is null"),
    "nan rating": (
        frame([(1, 1), (2, 2)], stars=[1.0, float("nan")]),
        {"rating": "stars"},
        "row 1: nan in column 'stars'",
    ),
    "infinite weight": (
        frame([(1, 1), (2, 2)], w=[np.inf, 1.0]),
        {"weight": "w"},
        "row 0: inf in column 'w'",
    ),
    "rating of text": (frame([(1, 1), (2, 2)], stars=["a", "b"]), {"rating": "stars"}, "expected numbers"),
    "empty": (frame([(1, 1), (2, 2)]).clear(), {}, "has no rows"),
    "all below rating": (
        frame([(1, 1), (2, 2)], stars=[1, 2]),
        {"rating": "stars", "min_rating": 4},
        "min_rating=4 drops everything: the largest of 2 ratings",
    ),
    "all below min_user": (
        frame([(1, 1), (2, 2)]),
        {"min_user": 3},
        "min_user=3 drops everything.*more than 1",
    ),
    "all below min_item": (frame([(1, 1), (2, 2)]), {"min_item": 3}, "min_item=3 drops everything.*no item"),
    "one user": (frame([(1, 1), (1, 2)]), {}, "holds 1 user; at least 2"),
    "one item": (frame([(1, 1), (2, 1)]), {}, "holds 1 item; at least 2"),
    "no frame": ([1, 2, 3], {}, "expected a data frame.*given list"),
}


@pytest.mark.parametrize("case", BAD_FRAMES)
def test_bad_tables_get_a_clear_error(case):
    table, arguments, message = BAD_FRAMES[case]
    with pytest.raises(DataError, match=message):
        Interactions.from_frame(table, **arguments)


def test_mixed_id_types_in_a_pandas_column():
    pd = optional_package("pandas")
    given = pd.DataFrame({"user": [1, "two"], "item": [1, 2]})
    with pytest.raises(DataError, match="column 'user' mixes types"):
        Interactions.from_frame(given)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_rating": 4}, "needs rating="),
        ({"min_user": -1}, "min_user=-1"),
        ({"min_item": 2.5}, "min_item=2.5"),
        ({"duplicates": "mean"}, "expected one of sum, last, max, error"),
        ({"user": "item"}, "the same column"),
        ({"threads": -2}, "threads=-2"),
    ],
)
def test_bad_arguments_get_a_clear_error(arguments, message):
    with pytest.raises(ParameterError, match=message):
        Interactions.from_frame(frame([(1, 1), (2, 2)]), **arguments)


@pytest.mark.parametrize(
    ("matrix", "arguments", "message"),
    [
        (np.ones((2, 2)), {}, "expected a SciPy sparse matrix"),
        (sp.csr_array((2, 2)), {}, "holds no non-zero"),
        (sp.csr_array(np.array([[np.nan, 1], [1, 1]])), {}, "NaN or infinite"),
        (sp.csr_array(np.eye(2)), {"users": ["a"]}, "1 user ids"),
        (sp.csr_array(np.eye(2)), {"items": ["a", "a"]}, "1 distinct"),
    ],
)
def test_bad_matrices_get_a_clear_error(matrix, arguments, message):
    with pytest.raises(DataError, match=message):
        Interactions.from_scipy(matrix, **arguments)


def test_frames_with_repeated_or_unnamed_columns():
    pd = optional_package("pandas")
    twice = pd.DataFrame([[1, 2, 3]], columns=["user", "user", "item"])
    with pytest.raises(DataError, match="same name"):
        Interactions.from_frame(twice)
    with pytest.raises(ParameterError, match="user=0: expected the name of a column"):
        Interactions.from_frame(frame([(1, 1), (2, 2)]), user=0)


def test_true_and_one_are_not_the_same_id():
    pd = optional_package("pandas")
    with pytest.raises(DataError, match=r"mixes types: True \(bool\), 1 \(int\)"):
        Interactions.from_frame(pd.DataFrame({"user": pd.Series([True, 1], dtype=object), "item": [1, 2]}))


def test_ids_beyond_64_bits_survive():
    data = Interactions.from_frame(
        pl.DataFrame({"user": [2**70, 1], "item": [1, 2]}, schema_overrides={"user": pl.Int128})
    )
    assert data.items_of(2**70) == [1]


def test_attributes_of_any_kind_are_kept():
    pd = optional_package("pandas")
    about = pd.DataFrame({"item": [1, 2], "_at": ["x", "y"], "mixed": pd.Series([1, "one"], dtype=object)})
    data = Interactions.from_frame(frame([(1, 1), (2, 2)]), item_attributes=about)
    assert data.item_attributes["_at"].to_list() == ["x", "y"]
    assert data.item_attributes["mixed"].to_list() == ["1", "one"]


def test_fingerprints_tell_texts_apart():
    left = Interactions.from_frame(frame([("a\x1fb", 1), ("c", 2)]))
    right = Interactions.from_frame(frame([("a", 1), ("b\x1fc", 2)]))
    assert left.fingerprint() != right.fingerprint()


@pytest.mark.parametrize(
    ("more", "arguments", "message"),
    [
        ({"w": [1e300, 1.0]}, {"weight": "w"}, "the largest weight is 1e"),
        ({"t": [None, 5]}, {"timestamp": "t"}, "row 0: the time in column 't' is null"),
        ({"t": ["noon", "later"]}, {"timestamp": "t"}, "cannot be used as timestamps"),
        ({"t": [2**63, 1]}, {"timestamp": "t"}, "cannot be used as timestamps"),
    ],
)
def test_bad_weights_and_times(more, arguments, message):
    given = pl.DataFrame({"user": [1, 2], "item": [1, 2], **{k: pl.Series(v, strict=False) for k, v in more.items()}})
    with pytest.raises(DataError, match=message):
        Interactions.from_frame(given, **arguments)


STARS = {"user": [1, 1, 2, 2, 3], "item": [1, 2, 1, 3, 2], "stars": [5, 1, 2, 4, 1]}


def test_ratings_that_select_nothing_are_named(caplog, tmp_path):
    """All rows count as liked without a threshold: a warning says how many have low ratings, from memory and files."""
    given = pl.DataFrame(STARS)
    given.write_parquet(tmp_path / "stars.parquet")
    for read in (
        lambda **more: Interactions.from_frame(given, rating="stars", **more),
        lambda **more: Interactions.from_file(
            tmp_path / "stars.parquet",
            rating="stars",
            spill=tmp_path / f"spill{len(caplog.records)}{len(more)}",
            **more,
        ),
    ):
        caplog.clear()
        assert read().n_interactions == 5
        (record,) = [one for one in caplog.records if one.levelname == "WARNING"]
        said = record.getMessage()
        assert "rating='stars' without min_rating= (--min-rating): all 5 rows count as liked, 60 % of them" in said
        assert "a rating below 3, the middle of 1 to 5" in said
        assert "min_rating=1 keeps all" in said
        caplog.clear()
        assert read(min_rating=1).n_interactions == 5
        assert not caplog.records or caplog.records[-1].levelname != "WARNING"


def test_items_without_clicks_are_reported_and_may_be_kept(caplog, tmp_path):
    clicks = pl.DataFrame(STARS).drop("stars").cast({"item": pl.Int32})
    about = pl.DataFrame({"item": [2, 3, 4, 5], "title": ["b", "c", "d", "e"]})
    clicks.write_parquet(tmp_path / "clicks.parquet")

    def read(at, **more):
        more["item_attributes"] = about
        if at is None:
            return Interactions.from_frame(clicks, **more)
        return Interactions.from_file(tmp_path / "clicks.parquet", spill=tmp_path / at, **more)

    for at in (None, "spilled"):
        caplog.clear()
        data = read(at)
        assert data.items.series.to_list() == [1, 2, 3]
        assert str(data.cleaning).endswith("; 2 items with attributes have no row")
        assert "2 of 4 items with attributes have no interactions" in caplog.text
        assert "catalog='attributes' (--all-items) keeps them" in caplog.text
        caplog.clear()
        data = read(at and f"{at} all", catalog="attributes", min_item=2)
        assert data.items.series.to_list() == [1, 2, 3, 4, 5]
        assert data.item_attributes["title"].to_list() == [None, "b", "c", "d", "e"]
        assert data.item_counts.tolist() == [2, 2, 0, 0, 0]
        assert "no interactions" not in caplog.text
        read(at and f"{at} part", part=True)  # of an update: titles of the whole catalog are as it should be
        assert "no interactions" not in caplog.text
    with pytest.raises(ParameterError, match="catalog='attributes' needs item_attributes"):
        Interactions.from_frame(clicks, catalog="attributes")
    with pytest.raises(ParameterError, match="catalog='all': expected item ids, or 'attributes'"):
        Interactions.from_frame(clicks, catalog="all", item_attributes=about)
    with pytest.raises(DataError, match="Give both the same type"):
        Interactions.from_frame(clicks, catalog="attributes", item_attributes=about.cast({"item": pl.String}))


def test_min_rating_must_be_a_number():
    with pytest.raises(ParameterError, match="min_rating='4'"):
        Interactions.from_frame(frame([(1, 1), (2, 2)], stars=[1, 2]), rating="stars", min_rating="4")


def test_subset_needs_one_value_per_interaction():
    with pytest.raises(DataError, match="expected one value for each of 2 rows"):
        Interactions.from_frame(frame([(1, 1), (2, 2)])).subset([True])


def test_histories_of_chosen_users_stand_one_after_the_other():
    data = synthetic.multi_interest(n_users=30, n_items=20, n_interactions=200, seed=3).interactions
    offsets, items = data.rows_of(np.array([7, 0, 7]))
    found = [items[a:b].tolist() for a, b in itertools.pairwise(offsets)]
    assert found == [data.matrix[[row]].indices.tolist() for row in (7, 0, 7)]
    assert [part.tolist() for part in data.rows_of(np.array([], dtype=int))] == [[0], []]
