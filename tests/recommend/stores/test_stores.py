"""Vector stores: real engines must give the lists that `recommend` gives, whatever is in them."""

from __future__ import annotations

import itertools
import sqlite3
import sys
import warnings

import numpy as np
import polars as pl
import pytest
from tests.recommend.toy_models import Given, blend_of, space_of, taken

import tastespace as ts
from tastespace.errors import DataError, ParameterError, UnknownIdError
from tastespace.models import BPR
from tastespace.recommend.stores import open_vector_store
from tastespace.recommend.stores._address import parse_address
from tastespace.recommend.stores._base import Candidates, merged_list

pytestmark = pytest.mark.usefixtures("one_core")

LOCAL = ("faiss", "usearch", "duckdb", "sqlite", "lance")
ENGINES = (*LOCAL, "qdrant", "pgvector")


@pytest.fixture(scope="session")
def postgresql_with_vectors(tmp_path_factory):
    """A real PostgreSQL with pgvector, from the package pgserver; gives its address."""
    pgserver = pytest.importorskip("pgserver")  # no wheels for Python 3.13 and later
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = pgserver.get_server(tmp_path_factory.mktemp("pg") / "data", cleanup_mode="stop")
    yield server.get_uri().replace("postgresql://", "pgvector://")
    server.cleanup()


@pytest.fixture
def address_of(tmp_path, request):
    """The address of a new store of an engine."""

    def find(engine, name="shop"):
        if engine == "qdrant":
            return f"qdrant://:memory:?name={name}"
        if engine == "pgvector":
            # One server for all tests: a name of its own for each.
            own = f"{name}_{abs(hash(request.node.nodeid)) % 10**9}"
            return f"{request.getfixturevalue('postgresql_with_vectors')}&name={own}"
        if engine in ("faiss", "usearch"):
            return f"{engine}://{tmp_path / engine / name}"
        return f"{engine}://{tmp_path / engine}?name={name}"

    return find


@pytest.fixture(scope="module")
def bpr(shop):
    return BPR(dim=6, epochs=5, threads=1, seed=1).fit(shop)


def reopened(store, address):
    """The store as another program would open it; what is in memory cannot be."""
    if ":memory:" in address:
        return store
    store.close()
    return open_vector_store(address)


def assert_same_lists(store, model, users, k=10):
    clear = 0
    for user in users:
        seen = model.train_.items_of(user)
        found, expected = store.recommend(user, k=k, seen=seen), model.recommend([user], k=k)
        np.testing.assert_allclose(found["score"].to_numpy(), expected["score"].to_numpy(), atol=1e-5)
        scores = expected["score"].to_numpy()
        # Items that differ by rounding only may change places.
        apart = (-np.diff(scores, append=-np.inf) > 1e-5) & (-np.diff(scores, prepend=np.inf) > 1e-5)
        columns = [name for name in ("user", "item", "rank", "interest") if name in expected.columns]
        assert found.select(columns).filter(apart).rows() == expected.select(columns).filter(apart).rows()
        assert ("distance" in found.columns) == ("distance" in expected.columns)
        clear += int(apart.sum())
    assert clear > 0.9 * k * len(users)


@pytest.mark.parametrize("engine", ENGINES)
def test_lists_are_those_of_recommend(engine, dpcml, bpr, address_of):
    for model, name in ((dpcml, "by_distance"), (bpr, "by_product")):
        address = address_of(engine, name)
        with reopened(model.export_to(address), address) as store:
            assert (store.metric, store.n_items) == (model.vectors().metric, 90)
            users = [f"u{n:03d}" for n in range(0, 120, 12)]
            assert_same_lists(store, model, users)
            assert len(store.recommend("u003", k=500)) == 90
            mine = store.user_vectors("u003")
            assert len(mine) == np.diff(model.vectors().user_offsets)[3]
            with pytest.raises(UnknownIdError, match="has no vectors of the user 'nobody'"):
                store.recommend("nobody")
            with pytest.raises(UnknownIdError, match="has no vectors of the user 3"):
                store.recommend(3)
            with pytest.raises(DataError, match=r"vectors have the shape \(3,\); expected one or more rows of "):
                store.search([1.0, 2.0, 3.0])


@pytest.mark.parametrize("engine", ENGINES)
def test_ties_are_broken_as_recommend_breaks_them(engine, address_of):
    """Whole numbers: many items are equally far, and everything is exact."""
    rng = np.random.default_rng(4)
    users = [rng.integers(-2, 3, size=(1 + number % 3, 2)) for number in range(8)]
    space = space_of(users, rng.integers(-2, 3, size=(60, 2)))
    histories = {number: rng.choice(60, 5, replace=False).tolist() for number in range(8)}
    model = Given(space).fit(taken(histories, range(60)))
    address = address_of(engine)
    with reopened(model.export_to(address), address) as store:
        for user in range(8):
            found = store.recommend(user, k=7, seen=histories[user])
            expected = model.recommend(user, k=7)
            assert found["item"].to_list() == expected["item"].to_list()
            assert found["interest"].to_list() == expected["interest"].to_list()


@pytest.mark.parametrize("engine", ENGINES)
def test_other_vectors_under_the_same_name_are_not_replaced_by_mistake(engine, address_of, tmp_path):
    # In memory every client of Qdrant has its own.
    address = f"qdrant://{tmp_path / 'qdrant'}" if engine == "qdrant" else address_of(engine)
    data = taken({"ann": "xy", "bob": "yz"}, "xyz")
    model = Given(space_of([[[0, 1]], [[1, 0], [2, 2]]], [[5, 6], [7, 8], [0, 0]])).fit(data)
    other = Given(space_of([[[1, 2, 3]], [[3, 4, 5]]], [[5, 6, 7], [7, 8, 9], [0, 0, 0]])).fit(data)
    model.export_to(address).close()
    model.export_to(address).close()  # the same kind of vectors
    with pytest.raises(ParameterError, match=r"vectors of 2 dimensions compared by l2 .*; the model's have 3"):
        other.export_to(address)
    with open_vector_store(address) as store:
        assert store.dim == 2
        assert store.recommend("bob", k=1)["item"].to_list() == ["z"]
    other.export_to(address, replace=True).close()
    with open_vector_store(address) as store:
        assert (store.dim, store.n_items) == (3, 3)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("qdrant://127.0.0.1:9", "cannot be reached or used: .*Is the server running"),
        ("pgvector://nobody@127.0.0.1:9/shop", "cannot be reached or used: .*Is the server running"),
        ("pgvector://nobody:secret@127.0.0.1:9/shop", r"pgvector://nobody:\*\*\*@127.0.0.1"),
        ("duckdb:///nowhere/at/all/shop.duckdb", "there is no folder /nowhere/at/all. Make it first"),
        ("sqlite:///nowhere/at/all/shop.sqlite", "there is no folder /nowhere/at/all. Make it first"),
        ("lance:///proc/nowhere", "cannot be reached or used"),
        ("faiss:///proc/nowhere", "could not be written"),
    ],
)
def test_stores_that_cannot_be_reached_are_an_error(dpcml, address, message):
    with pytest.raises(DataError, match=message) as caught:
        dpcml.export_to(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("engine", LOCAL)
def test_what_was_not_written_is_not_opened(engine, tmp_path):
    with pytest.raises(DataError, match=r"Write vectors there with export_to"):
        open_vector_store(f"{engine}://{tmp_path / 'nothing'}")


def test_files_of_others_are_refused(tmp_path, dpcml):
    (tmp_path / "text.sqlite").write_text("This is no database. " * 100)
    with pytest.raises(DataError, match="file is not a database"):
        dpcml.export_to(f"sqlite://{tmp_path / 'text.sqlite'}")
    with sqlite3.connect(tmp_path / "shop.sqlite") as connection:
        connection.execute("CREATE TABLE tastespace_items (id INTEGER)")
    connection.close()
    with pytest.raises(DataError, match="the table tastespace_items is there and was not written by"):
        dpcml.export_to(f"sqlite://{tmp_path / 'shop.sqlite'}")
    dpcml.export(tmp_path / "folder", "faiss")
    (tmp_path / "folder" / "items.faiss").write_bytes(b"nothing")
    with pytest.raises(DataError, match="no index of faiss"):
        open_vector_store(f"faiss://{tmp_path / 'folder'}")
    dpcml.export(tmp_path / "folder", "usearch")
    (tmp_path / "folder" / "items.usearch").write_bytes(b"nothing")
    with pytest.raises(DataError, match="no index of usearch"):
        open_vector_store(f"usearch://{tmp_path / 'folder'}")


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize(
    ("engine", "part"),
    [
        *itertools.product(["sqlite", "duckdb", "lance", "qdrant", "pgvector"], ["items", "users"]),
        *itertools.product(["sqlite", "duckdb", "pgvector"], ["about"]),
    ],
)
def test_tables_of_others_are_never_dropped(engine, part, replace, dpcml, address_of, tmp_path):
    name = f"shop_{part}"
    address = f"qdrant://{tmp_path / 'qdrant'}?name=shop" if engine == "qdrant" else address_of(engine)
    if engine == "sqlite":
        with sqlite3.connect(tmp_path / engine) as connection:
            connection.execute(f"CREATE TABLE {name.upper()} (mail TEXT)")
        connection.close()
    elif engine == "duckdb":
        with pytest.importorskip("duckdb").connect(tmp_path / engine) as connection:
            connection.execute(f"CREATE TABLE {name.upper()} (mail TEXT)")
    elif engine == "lance":
        pytest.importorskip("lancedb").connect(tmp_path / engine).create_table(name, pl.DataFrame({"mail": ["a"]}))
    elif engine == "qdrant":
        qdrant = pytest.importorskip("qdrant_client")
        client = qdrant.QdrantClient(path=str(tmp_path / engine))
        kind = qdrant.models.VectorParams(size=dpcml.vectors().item_vectors.shape[1], distance="Euclid")
        client.create_collection(name, vectors_config=kind)
        client.upsert(name, [qdrant.models.PointStruct(id=1, vector=[0.0] * kind.size, payload={"mail": "a"})])
        client.close()
    else:
        psycopg = pytest.importorskip("psycopg")
        name = f"{parse_address(address).name}_{part}"
        server = address.replace("pgvector://", "postgresql://").rsplit("&name=", 1)[0]
        with psycopg.connect(server) as connection:
            connection.execute(f"DROP TABLE IF EXISTS {name}")
            connection.execute(f"CREATE TABLE {name} (mail TEXT)")
    with pytest.raises(DataError, match=rf"{name} is there and was not written by tastespace.*Choose another name"):
        dpcml.export_to(address, replace=replace)


def test_a_table_that_duckdb_shows_as_a_database_is_refused(tmp_path, dpcml):
    (tmp_path / "clicks.csv").write_text("user,item\n1,2\n")
    with pytest.raises(DataError, match=r"no database of DuckDB is there|not a valid DuckDB database file"):
        dpcml.export_to(f"duckdb://{tmp_path / 'clicks.csv'}")


@pytest.mark.parametrize("engine", [*LOCAL, "qdrant"])
def test_bad_requests_are_errors_of_ours(engine, dpcml, address_of):
    with dpcml.export_to(address_of(engine)) as store:
        user = dpcml.train_.users.series[0]
        for vectors in ("abc", [[1.0], [1.0, 2.0]]):
            with pytest.raises(DataError, match="vectors are no rows of"):
                store.recommend(user, vectors=vectors)
        for seen in (None, 5, "jam"):
            with pytest.raises(ParameterError, match="expected a list of items to leave out"):
                store.recommend(user, seen=seen)
        assert len(store.recommend(user, k=3, seen=[1, "jam"])) == 3
        with pytest.raises(UnknownIdError, match="has no vectors of the user"):
            store.recommend(10**30)


def test_addresses_are_checked():
    assert parse_address("sqlite:///data/shop.sqlite?name=shop").path.as_posix() == "/data/shop.sqlite"
    for bad, message in {
        "qdrnt://x": r"is no address of a vector store: expected ENGINE://PLACE .* Did you mean qdrant\?",
        "vectors.npz": "is no address of a vector store",
        "sqlite://": "names no place",
        "sqlite://x?name=a-b": "name='a-b': expected at most 51 letters",
        "sqlite://x?nme=a": r"nme=a: sqlite addresses take name\. Did you mean name\?",
        "qdrant://x?htps=1": r"htps=1: qdrant addresses take name, https\. Did you mean https\?",
        "faiss://x?name=a": "name=a: faiss addresses take no options",
        "postgresql://ann:secret@host/shop": r"'postgresql://ann:\*\*\*@host/shop' is no address",
        7: "expected the address of a vector store",
    }.items():
        with pytest.raises(ParameterError, match=message):
            parse_address(bad)


def test_options_of_postgresql_are_checked_before_it_is_asked(dpcml):
    pytest.importorskip("psycopg")
    for option, wanted in {"nme": "name", "sslmod": "sslmode"}.items():
        with pytest.raises(ParameterError, match=rf"{option}=x: pgvector addresses take name .* Did you mean {wanted}"):
            dpcml.export_to(f"pgvector://ann@127.0.0.1:9/shop?{option}=x")


def test_a_collection_with_one_point_of_somebody_else_is_left_as_it_is(dpcml, tmp_path):
    qdrant = pytest.importorskip("qdrant_client")
    address = f"qdrant://{tmp_path / 'qdrant'}?name=shop"
    dpcml.export_to(address).close()
    client = qdrant.QdrantClient(path=str(tmp_path / "qdrant"))
    n = client.count("shop_users").count
    vector = [0.0] * dpcml.vectors().item_vectors.shape[1]
    payload = {"user": "ann", "interest": 0}  # looks like ours
    client.upsert("shop_users", [qdrant.models.PointStruct(id=n, vector=vector, payload=payload)])
    client.close()
    with pytest.raises(DataError, match="the collection shop_users is there and was not written by tastespace"):
        dpcml.export_to(address, replace=True)
    with pytest.raises(DataError, match="the collection shop_users was not written by tastespace"):
        open_vector_store(address)


def test_models_without_vectors_are_refused_with_advice(ease, dpcml, popular, tmp_path):
    address = f"faiss://{tmp_path / 'x'}"
    with pytest.raises(ParameterError, match="EASE has no vectors, so it has no vectors to export"):
        ease.export_to(address)
    with pytest.raises(ParameterError, match="its members ease, popular, none of which has vectors"):
        ts.Blend.of([ease, popular], [0.5, 0.5]).export_to(address)
    with pytest.raises(ParameterError, match="has no vectors"):
        blend_of(dpcml).export_to(address)
    assert not (tmp_path / "x").exists()


def test_of_a_blend_the_member_with_vectors_is_written(ease, dpcml, bpr, tmp_path, caplog):
    blend = ts.Blend.of([ease, bpr, dpcml], [0.6, 0.1, 0.3])
    users = dpcml.train_.users.series[:20].to_list()

    def lists(store):
        return [store.recommend(one, k=5, seen=dpcml.train_.items_of(one))["item"].to_list() for one in users]

    with blend.export_to(f"faiss://{tmp_path / 'x'}") as store:
        assert lists(store) == [dpcml.recommend(one, k=5)["item"].to_list() for one in users]
    assert caplog.text.count("these are the vectors of dpcml") == 1
    with blend.export_to(f"faiss://{tmp_path / 'y'}", member="bpr") as store:
        assert lists(store) == [bpr.recommend(one, k=5)["item"].to_list() for one in users]
    assert caplog.text.count("these are the vectors of") == 1


@pytest.mark.parametrize("module", ["qdrant_client", "lancedb", "duckdb", "sqlite_vec", "usearch.index"])
def test_missing_packages_are_named(module, dpcml, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    engine = {"qdrant_client": "qdrant", "lancedb": "lance", "sqlite_vec": "sqlite", "usearch.index": "usearch"}
    with pytest.raises(ParameterError, match=r"which is not installed: pip install .* \(the export extra\)"):
        dpcml.export_to(f"{engine.get(module, module)}://{tmp_path / 'x'}")


def test_merging_keeps_the_best_of_each_item():
    found = Candidates(
        np.array([0, 1, 2, 1, 3]),
        ["a", "b", "c", "b", "d"],
        np.array([-1.0, -2, -3, -0.5, -3]),
        np.array([0, 0, 0, 1, 1]),
        -3.0,
    )
    merged, certain = merged_list(found, 2, {"a"})
    assert (merged.items, merged.interests.tolist(), certain) == (["b", "c"], [1, 0], False)
    assert merged_list(found, 1, {"a"})[1]
    assert merged_list(replace_bound(found), 9, {"a"})[0].items == ["b", "c", "d"]


def replace_bound(found):
    return found._replace(bound=-np.inf)


def test_the_sql_is_a_union_of_searches(dpcml, tmp_path):
    with dpcml.export_to(f"duckdb://{tmp_path / 'x.duckdb'}") as store:
        mine = store.user_vectors("u003")
        sql = store.sql(len(mine), k=5)
        assert sql.count("UNION ALL") == len(mine) - 1
        frame = pl.DataFrame(
            store._connection.execute(sql, mine.tolist()).fetchall(),
            schema=["number", "item", "interest", "distance"],
            orient="row",
        )
        best = frame.group_by("item").agg(pl.col("distance").min()).sort("distance", "item").head(5)
        assert best["item"].to_list() == dpcml.recommend("u003", k=5, exclude_seen=False)["item"].to_list()


def test_dates_as_ids_are_text_in_a_store(tmp_path):
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 1, 3), eager=True).to_list()
    frame = pl.DataFrame({"user": days, "item": days})
    model = Given(space_of([[[0]], [[1]], [[2]]], [[0], [1], [2]])).fit(ts.Interactions.from_frame(frame))
    for engine in ("faiss", "sqlite"):
        with model.export_to(f"{engine}://{tmp_path / engine}") as store:
            assert store.recommend(days[2], k=1, seen=[days[2]])["item"].to_list() == ["2024-01-02"]
