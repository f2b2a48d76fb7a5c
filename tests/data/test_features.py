"""Content as sparse features: by properties that hold for every frame, and every bad input."""

import json
from datetime import date

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.required_services import optional_package

from tastespace.data.features import FeatureEncoder, content_for, rows_for
from tastespace.data.ids import IdMap
from tastespace.data.interactions import Interactions
from tastespace.errors import DataError, ParameterError

WORDS = st.sampled_from(["red", "blue", "Green", "x1"])
KINDS = {"size": "number", "color": "category", "tags": "tags", "about": "text"}


@st.composite
def frames(draw, least=1):
    n = draw(st.integers(least, 8))
    column = lambda values: draw(st.lists(st.none() | values, min_size=n, max_size=n))  # noqa: E731
    return pl.DataFrame(
        {
            "item": list(range(n)),
            "size": column(st.integers(-5, 5)),
            "color": column(WORDS),
            "tags": column(st.lists(WORDS, max_size=3)),
            "about": column(st.lists(WORDS, max_size=4).map(", ".join)),
        },
        schema={
            "item": pl.Int64,
            "size": pl.Int64,
            "color": pl.String,
            "tags": pl.List(pl.String),
            "about": pl.String,
        },
    )


def plain_features(frame, encoder):
    """The same features by loops and dicts."""
    rows = []
    sizes = [value for value in frame["size"] if value is not None]
    mean, deviation = (np.mean(sizes), np.std(sizes)) if sizes else (0.0, 1.0)
    for row in frame.iter_rows(named=True):
        found = {"size": 0.0 if row["size"] is None else (row["size"] - mean) / (deviation or 1.0)}
        if row["color"] is not None:
            found[f"color={row['color']}"] = 1.0
        for tag in row["tags"] or []:
            found[f"tags={tag}"] = 1.0
        words = [word for word in (row["about"] or "").lower().replace(",", " ").split() if len(word) > 1]
        counts = {word: 1 + np.log(words.count(word)) for word in words}
        length = np.sqrt(sum(value**2 for value in counts.values()))
        found |= {f"about={word}": value / length for word, value in counts.items()}
        rows.append([found.get(name, 0.0) for name in encoder.names])
    return np.array(rows)


@given(frames())
def test_features_are_what_loops_would_give(frame):
    encoder = FeatureEncoder(KINDS).fit(frame)
    found = encoder.encode(frame)
    assert found.matrix.dtype == np.float32
    assert found.unseen == {}
    np.testing.assert_allclose(found.matrix.toarray(), plain_features(frame, encoder), atol=1e-5)
    known = frame["size"].is_not_null().to_numpy()  # an average number is a feature, too
    assert found.n_empty == ((found.matrix.toarray() == 0).all(axis=1) & ~known).sum()


@given(frames(least=2), st.randoms())
def test_rows_do_not_depend_on_each_other(frame, random):
    encoder = FeatureEncoder(KINDS).fit(frame)
    order = list(range(len(frame)))
    random.shuffle(order)
    whole = encoder.encode(frame).matrix.toarray()
    np.testing.assert_array_equal(encoder.encode(frame[order]).matrix.toarray(), whole[order])
    np.testing.assert_array_equal(encoder.encode(frame[:1]).matrix.toarray(), whole[:1])


@given(frames(), frames())
def test_an_encoder_from_json_encodes_any_frame_alike(frame, other):
    encoder = FeatureEncoder(KINDS, min_count=2, max_vocabulary=2).fit(frame)
    again = FeatureEncoder.from_plain(json.loads(json.dumps(encoder.to_plain())))
    assert again.names == encoder.names
    found = again.encode(other)
    np.testing.assert_array_equal(found.matrix.toarray(), encoder.encode(other).matrix.toarray())
    assert found.matrix.shape == (len(other), encoder.n_features)
    assert sum(name.startswith("tags=") for name in encoder.names) <= 2


def test_rare_values_and_long_vocabularies_are_cut():
    frame = pl.DataFrame({"item": range(6), "tags": [["a", "b"], ["a", "b"], ["a"], ["c"], ["b", "d"], ["d", "d"]]})
    assert FeatureEncoder(min_count=2).fit(frame).names == ["tags=a", "tags=b", "tags=d"]
    assert FeatureEncoder(max_vocabulary=2).fit(frame).names == ["tags=a", "tags=b"]
    encoder = FeatureEncoder(min_count=2).fit(frame)
    assert encoder.encode(frame).unseen == {"tags": 1}
    assert encoder.encode(frame).n_empty == 1


def test_kinds_are_chosen_by_type():
    frame = pl.DataFrame(
        {
            "user": [1, 2, 3, 4],
            "name": ["Ann", "Bob", "Cy", "Di"],
            "age": [20, 30, 40, 50],
            "member": [True, False, True, True],
            "town": ["Ulm", "Ulm", "Bonn", "Bonn"],
            "says": ["I like cats", "I like dogs", "cats, always", "no"],
        }
    )
    names = FeatureEncoder().fit(frame, "user").names
    assert names[:5] == ["age", "member=false", "member=true", "town=Bonn", "town=Ulm"]
    assert "says=cats" in names
    assert not any(name.startswith(("user", "name")) for name in names)


def test_tags_of_a_file_without_lists(tmp_path):
    (tmp_path / "films.csv").write_text("item,genres\n1,Action|Comedy\n2,Comedy\n3,\n4, Drama | Action|\n")
    films = pl.read_csv(tmp_path / "films.csv")
    encoder = FeatureEncoder().fit(films, "item")
    assert encoder.names == ["genres=Action", "genres=Comedy", "genres=Drama"]
    assert encoder.encode(films).matrix.toarray().tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 1]]
    told = FeatureEncoder({"genres": "tags"}).fit(films.filter(pl.col("item") == 2), "item")
    assert told.names == ["genres=Comedy"]
    lists = pl.DataFrame({"item": [8], "genres": [["Drama", "Comedy"]]})
    assert encoder.encode(lists).matrix.toarray().tolist() == [[0, 1, 1]]  # the same in another file
    titles = pl.DataFrame({"item": [1, 2], "about": ["Cats and dogs | a film", "Horses | a film"]})
    assert "about=horses" in FeatureEncoder().fit(titles, "item").names  # what does not come again is no tag


def test_codes_are_categories_where_said_and_gaps_do_not_change_them():
    pd = optional_package("pandas")
    encoder = FeatureEncoder({"job": "category"}).fit(pl.DataFrame({"user": [1, 2, 3], "job": [7, 4, 7]}), "user")
    assert encoder.names == ["job=4", "job=7"]
    with_gap = pd.DataFrame({"user": [5, 6], "job": [7.0, None]})
    assert encoder.encode(with_gap).matrix.toarray().tolist() == [[0, 1], [0, 0]]


def test_columns_of_a_matrix_are_scaled():
    matrix = sp.csr_array(np.array([[1, 0, -50], [0, 0, 25.0]]))
    encoder = FeatureEncoder().fit(matrix)
    assert encoder.encode(matrix).matrix.toarray().tolist() == [[1, 0, -1], [0, 0, 0.5]]
    again = FeatureEncoder.from_plain(json.loads(json.dumps(encoder.to_plain())))
    assert again.encode(np.array([[0, 2, 100]])).matrix.toarray().tolist() == [[0, 2, 2]]
    assert matrix.toarray()[0, 2] == -50
    assert again.names == ["0", "1", "2"]


# ---- what cannot be used -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [
        ([1.0, float("nan")], "number", "1 of 2 numbers are NaN or infinite, the first in row 1"),
        (["a", "b"], "number", "cannot be used as 'number'"),
        ([1, 2], "tags", "that needs lists"),
        ([1, 2], "text", "holds numbers"),
    ],
)
def test_columns_that_do_not_fit_their_kind(column, kind, message):
    with pytest.raises(DataError, match=message):
        FeatureEncoder({"x": kind}).fit(pl.DataFrame({"item": [1, 2], "x": column}))


def test_a_column_whose_type_changed_since_training():
    encoder = FeatureEncoder({"year": "number", "kind": "category"}).fit(
        pl.DataFrame({"item": [1, 2], "year": [1990, 2000], "kind": ["a", "a"]})
    )
    with pytest.raises(DataError, match="'year' held numbers in training and holds text"):
        encoder.encode(pl.DataFrame({"item": [3], "year": ["2010"], "kind": ["a"]}))
    with pytest.raises(DataError, match="'kind' held text in training and holds numbers"):
        encoder.encode(pl.DataFrame({"item": [3], "year": [2010], "kind": [4]}))
    with pytest.raises(DataError, match=r"no column 'year'.*Did you mean"):
        encoder.encode(pl.DataFrame({"item": [3], "years": [2010], "kind": ["a"]}))
    nothing = pl.DataFrame({"item": [3], "year": [None], "kind": [None]})
    assert encoder.encode(nothing).n_empty == 1
    with pytest.raises(DataError, match="Give a frame"):
        encoder.encode(np.zeros((1, 2)))


def test_matrices_that_do_not_fit():
    encoder = FeatureEncoder().fit(np.eye(3))
    with pytest.raises(DataError, match="has 2 features, in training there were 3"):
        encoder.encode(np.eye(2))
    with pytest.raises(DataError, match="1 features are NaN or infinite, the first in row 1"):
        encoder.encode(np.array([[0, 0, 1], [0, np.nan, 0]]))
    with pytest.raises(DataError, match="Give a matrix"):
        encoder.encode(pl.DataFrame({"item": [1]}))
    with pytest.raises(DataError, match="NaN"):
        FeatureEncoder().fit(np.array([[np.inf]]))


def test_bad_settings():
    with pytest.raises(ParameterError, match="Did you mean tags"):
        FeatureEncoder({"genres": "tag"})
    for name in ("min_count", "max_vocabulary"):
        with pytest.raises(ParameterError, match=name):
            FeatureEncoder(**{name: 0})
    with pytest.raises(DataError, match="named as a feature"):
        FeatureEncoder({"genres": "tags"}).fit(pl.DataFrame({"item": [1]}))
    with pytest.raises(DataError, match="dates or times"):
        FeatureEncoder().fit(pl.DataFrame({"item": [1], "day": [date(2020, 1, 1)]}))


def test_rows_are_brought_into_the_order_of_the_ids():
    ids = IdMap(pl.Series(["a", "b", "c"]), "item")
    frame = pl.DataFrame({"item": ["c", "z", "a", "b"], "x": [3, 9, 1, 2]})
    assert rows_for(frame, ids, "item")["x"].to_list() == [1, 2, 3]
    with pytest.raises(DataError, match="2 of 3 items have no row of features, such as 'a', 'b'; 1 rows are of others"):
        rows_for(frame.head(2), ids, "item")
    with pytest.raises(DataError, match="1 items have several rows of features, such as 'c'"):
        rows_for(pl.concat([frame, frame[:1]]), ids, "item")
    with pytest.raises(DataError, match="has no column 'item'"):
        rows_for(frame.rename({"item": "id"}), ids, "item")
    with pytest.raises(DataError, match="2 rows, expected one for each of the 3 items"):
        rows_for(np.eye(2), ids, "item")


def test_content_is_what_was_given_or_what_the_data_carries():
    pairs = pl.DataFrame({"user": [1, 1, 2], "item": ["a", "b", "a"]})
    bare = Interactions.from_frame(pairs)
    assert content_for(bare, "item", None).shape == (2, 0)
    carrying = Interactions.from_frame(pairs, item_attributes=pl.DataFrame({"item": ["b", "a"], "x": [2, 1]}))
    assert content_for(carrying, "item", None)["x"].to_list() == [1, 2]
    assert content_for(carrying, "item", np.eye(2)).shape == (2, 2)


# ---- corners -----------------------------------------------------------------------------------------------


def test_large_codes_are_categories_like_others():
    frame = pl.DataFrame({"item": [1, 2, 3], "code": [1e30, 7.0, -1e19]})
    encoder = FeatureEncoder({"code": "category"}).fit(frame)
    assert encoder.n_features == 3
    assert encoder.encode(frame).n_empty == 0
    assert encoder.encode(frame).unseen == {}


def test_nan_is_a_gap_among_categories_and_tags():
    frame = pl.DataFrame({"item": [1, 2], "code": [3.0, float("nan")], "tags": [[1.0, float("nan")], [2.0]]})
    encoder = FeatureEncoder({"code": "category", "tags": "tags"}).fit(frame)
    assert encoder.names == ["code=3", "tags=1", "tags=2"]


def test_the_error_for_nan_names_the_way_to_null_in_pandas():
    pd = optional_package("pandas")
    frame = pd.DataFrame({"item": [1, 2, 3], "age": [20.0, None, 40.0]})
    with pytest.raises(DataError, match=r"convert_dtypes\(\)"):
        FeatureEncoder().fit(frame)
    assert FeatureEncoder().fit(frame.convert_dtypes()).encode(frame.convert_dtypes()).n_empty == 1


def test_huge_numbers_keep_their_differences():
    frame = pl.DataFrame({"item": [1, 2, 3], "x": [1e308, -1e308, 0.0]})
    encoder = FeatureEncoder().fit(frame)
    expected = [np.sqrt(1.5), -np.sqrt(1.5), 0.0]
    np.testing.assert_allclose(encoder.encode(frame).matrix.toarray()[:, 0], expected, rtol=1e-6)
    small = FeatureEncoder().fit(pl.DataFrame({"item": [1, 2], "x": [0.0, 1.0]}))
    far = small.encode(pl.DataFrame({"item": [3], "x": [1e308]})).matrix.toarray()
    assert far.tolist() == [[1e6]]


@pytest.mark.parametrize("constant", [5.0, 0.1, 0.0])
def test_a_constant_number_gives_zero_and_no_row_is_empty_for_it(constant):
    frame = pl.DataFrame({"item": [1, 2, 3], "x": [constant] * 3})
    encoder = FeatureEncoder().fit(frame)
    assert encoder.encode(frame).n_empty == 0
    later = pl.DataFrame({"item": [4, 5], "x": [1e9, None]})
    assert encoder.encode(later).matrix.nnz == 0
    assert encoder.encode(later).n_empty == 1


@pytest.mark.parametrize("dtype", [pl.Null, pl.String, pl.Float64, pl.List(pl.String)])
@pytest.mark.parametrize("later", [["x", None], [1.5, None], [["x"], None], [None, None]])
def test_a_column_that_was_all_null_counts_as_nothing_later(dtype, later):
    frame = pl.DataFrame({"item": [1, 2], "x": pl.Series([None, None], dtype=dtype), "y": [1, 2]})
    encoder = FeatureEncoder.from_plain(json.loads(json.dumps(FeatureEncoder().fit(frame).to_plain())))
    found = encoder.encode(pl.DataFrame({"item": [3, 4], "x": later, "y": [1, 2]}))
    assert found.unseen == ({"x": 1} if later[0] is not None else {})
    assert found.matrix.toarray()[:, -1].tolist() == [-1, 1]


@pytest.mark.parametrize("dtype", [pl.Null, pl.String, pl.Float64, pl.List(pl.String)])
def test_nulls_of_any_type_say_nothing(dtype):
    frame = pl.DataFrame({"item": [1, 2], "n": [1, 2], "c": ["ab", "ab"], "t": [["a"], ["b"]], "w": ["one two", "two"]})
    encoder = FeatureEncoder({"n": "number", "c": "category", "t": "tags", "w": "text"}).fit(frame)
    gone = pl.Series([None, None], dtype=dtype)
    found = encoder.encode(pl.DataFrame({"item": [3, 4], "n": gone, "c": gone, "t": gone, "w": gone}))
    assert (found.matrix.nnz, found.n_empty, found.unseen) == (0, 2, {})


def test_short_columns_of_single_letters_are_categories():
    frame = pl.DataFrame({"item": [1, 2, 3], "kind": ["a", "b", None]})
    assert FeatureEncoder().fit(frame).names == ["kind=a", "kind=b"]


def test_lists_of_lists_are_refused():
    nested = pl.DataFrame({"item": [1], "x": [[["a"], ["b"]]]})
    with pytest.raises(DataError, match="'x' holds lists of lists or records"):
        FeatureEncoder().fit(nested)
    with pytest.raises(DataError, match="cannot be used as 'tags'"):
        FeatureEncoder({"x": "tags"}).fit(nested)
    encoder = FeatureEncoder().fit(pl.DataFrame({"item": [1], "x": [["a"]]}))
    with pytest.raises(DataError, match="held lists in training and holds lists of lists"):
        encoder.encode(nested)


@pytest.mark.parametrize("columns", [["likes"], "likes", {3: "tags"}])
def test_columns_are_a_dict_of_names(columns):
    with pytest.raises(ParameterError, match="columns="):
        FeatureEncoder(columns)


@pytest.mark.parametrize(
    "matrix",
    [
        np.array([["a", 1]], dtype=object),
        np.array([["a", "b"]]),
        np.array([[1 + 2j, 0]]),
        sp.csr_array(np.array([[1 + 2j, 0]])),
    ],
)
def test_matrices_of_other_than_real_numbers(matrix):
    with pytest.raises(DataError, match="expected real numbers"):
        FeatureEncoder().fit(matrix)
    with pytest.raises(DataError, match="expected real numbers"):
        FeatureEncoder().fit(np.eye(2)).encode(matrix)


@pytest.mark.parametrize("content", [[1, 2], "file.csv", np.arange(3), 7])
def test_what_is_neither_frame_nor_matrix(content):
    with pytest.raises(DataError, match=r"features are a .*expected a data frame") as refusal:
        FeatureEncoder().fit(content)
    assert "Interactions" not in str(refusal.value)


def test_a_dict_of_columns_is_a_frame():
    found = FeatureEncoder().fit({"item": [1, 2], "tags": [["a"], ["b"]]})
    assert found.names == ["tags=a", "tags=b"]
    with pytest.raises(DataError, match="columns of one length"):
        found.encode({"item": [1, 2, 3], "tags": [["a"], ["b"]]})
