"""Tables that are elsewhere: object stores, web servers, databases. Servers are real and on loopback."""

import functools
import http.server
import sqlite3
import sys
import threading

import polars as pl
import pytest
from tests.postgresql import binaries, running_postgresql
from tests.required_services import optional_package, skip_without_service

import tastespace as ts
from tastespace import Interactions
from tastespace._util.addresses import filled_in, masked_address, shown_address, with_query, without_secrets
from tastespace.errors import DataError, ParameterError

CLICKS = pl.DataFrame({"user": ["ann", "ann", "bob", "cid"], "item": ["007", "tea", "tea", "jam"], "day": [1, 2, 3, 4]})
PAIRS = {("ann", "007"), ("ann", "tea"), ("bob", "tea"), ("cid", "jam")}
SECRET = "hunter2x"


def pairs(data):
    return {row[:2] for row in data.to_frame().rows()}


# ---- addresses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://ann:{SECRET}@db:5432/shop",
        f"postgresql://ann:{SECRET}/a@b?c@db/shop?password={SECRET}",
        f"postgresql://ann:a@{SECRET}/c@db/shop",
        f"https://{SECRET}@host/clicks.csv?X-Amz-Signature={SECRET}",
        f"redis://:{SECRET}@db/0",
        f"mysql+pymysql://ann:%40{SECRET}@db/shop?query=SELECT+'a@b'",
    ],
)
def test_addresses_are_shown_without_secrets(address):
    assert SECRET not in shown_address(address)
    assert SECRET not in masked_address(address)
    assert SECRET not in without_secrets(f"cannot connect to {address}: '{SECRET}' is wrong", address)


def test_what_is_no_secret_stays():
    assert shown_address("s3://shop/day=1/a@b.csv") == "s3://shop/day=1/a@b.csv"
    assert shown_address("postgresql://db:5432/shop?query=SELECT 'a@b'") == "postgresql://db:5432/shop"
    assert masked_address("postgresql://ann:${PW}@db/shop?table=lists") == "postgresql://ann:${PW}@db/shop?table=lists"
    assert with_query("postgresql://db/shop?query=SELECT+%26&sslmode=require") == (
        "postgresql://db/shop?sslmode=require",
        "SELECT &",
    )


def test_environment_variables_fill_an_address(monkeypatch):
    monkeypatch.setenv("SHOP_PW", SECRET)
    assert filled_in("postgresql://ann:${SHOP_PW}@db/shop") == f"postgresql://ann:{SECRET}@db/shop"
    with pytest.raises(ParameterError, match="the environment variable NO_SUCH_PW is not set"):
        filled_in("postgresql://ann:${NO_SUCH_PW}@db/shop")


@pytest.mark.parametrize("name", ["s3://shop/model", "S3:/shop/model", f"postgresql:/ann:{SECRET}@db/shop"])
def test_an_address_is_never_taken_for_a_file_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = Interactions.from_frame(CLICKS)
    model = ts.MostPopular().fit(data)
    for call in (model.save, ts.load, model.recommend_to):
        with pytest.raises(ParameterError, match=r"expected the name of a file|lists are written to a file") as found:
            call(name)
        assert SECRET not in str(found.value)
    assert list(tmp_path.iterdir()) == []


# ---- object stores -----------------------------------------------------------------------------------------------


@pytest.fixture
def bucket(monkeypatch):
    """A bucket of fsspec's memory file system under s3://, as s3fs would be."""
    optional_package("fsspec")
    from fsspec.implementations.memory import MemoryFileSystem
    from fsspec.registry import _registry

    def local(path):
        return MemoryFileSystem._strip_protocol(path.replace("s3://", "memory://"))

    own = {"protocol": "s3", "store": {}, "pseudo_dirs": [""], "_strip_protocol": staticmethod(local)}
    monkeypatch.setitem(_registry, "s3", type("Bucket", (MemoryFileSystem,), own))
    return _registry["s3"]()


def test_files_folders_and_patterns_of_a_bucket(bucket):
    with bucket.open("/shop/clicks.csv", "wb") as file:
        CLICKS.write_csv(file)
    for day, part in enumerate((CLICKS[:2], CLICKS[2:])):
        for name in (f"/shop/log/day={day}/0.parquet", f"/shop/log/_old/{day}.parquet"):
            with bucket.open(name, "wb") as file:
                part.select("user", "item").write_parquet(file)
    assert pairs(Interactions.from_file("s3://shop/clicks.csv")) == PAIRS
    assert pairs(Interactions.from_file("s3://shop/log/")) == PAIRS
    assert pairs(Interactions.from_files("s3://shop/log/day=*/*.parquet")) == PAIRS
    assert pairs(Interactions.from_files(["s3://shop/log/day=0/0.parquet", "s3://shop/log/day=1/0.parquet"])) == PAIRS
    timed = Interactions.from_file("s3://shop/log", timestamp="day")  # of the names of folders
    assert sorted(timed.timestamps.tolist()) == [0, 0, 1, 1]
    assert ts.MostPopular().fit("s3://shop/clicks.csv").train_.n_interactions == 4
    with pytest.raises(DataError, match=r"s3://shop/none\.csv: nothing is there"):
        Interactions.from_file("s3://shop/none.csv")
    with pytest.raises(DataError, match=r"^s3://shop/clicks\.csv has no column 'who'.*its columns are 'user'"):
        Interactions.from_file("s3://shop/clicks.csv", user="who")


def test_missing_packages_and_failures_of_a_store_are_named(bucket, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError("InvalidAccessKeyId")

    monkeypatch.setattr(type(bucket), "isfile", refuse)
    with pytest.raises(DataError, match=r"s3://shop/a\.csv: cannot be fetched \(PermissionError: .*Credentials"):
        Interactions.from_file("s3://shop/a.csv")
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(
        ParameterError, match=r"gs://shop/a\.csv needs gcsfs, which is not installed: .*\(the cloud extra"
    ):
        Interactions.from_file("gs://shop/a.csv")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ParameterError, match=r"s3://shop/a\.csv needs fsspec"):
        Interactions.from_file("s3://shop/a.csv")


# ---- web servers -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    """The address of a server of files that asks for a password below /closed."""
    folder = tmp_path_factory.mktemp("web")
    CLICKS.write_csv(folder / "clicks.csv")
    (folder / "closed").mkdir()
    CLICKS.write_parquet(folder / "closed" / "clicks.parquet")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            if self.path.startswith("/closed") and self.headers["Authorization"] != "Basic YW5uOmh1bnRlcjJ4":
                self.send_error(401)
            else:
                super().do_GET()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_files_of_a_web_server(web, caplog):
    assert pairs(Interactions.from_file(f"http://{web}/clicks.csv?token={SECRET}")) == PAIRS
    assert pairs(Interactions.from_file(f"http://ann:{SECRET}@{web}/closed/clicks.parquet")) == PAIRS
    with pytest.raises(
        DataError, match=r"/closed/clicks\.parquet: cannot be fetched: the server answered 401"
    ) as found:
        Interactions.from_file(f"http://ann:{SECRET}!@{web}/closed/clicks.parquet")
    assert SECRET not in str(found.value) + caplog.text
    with pytest.raises(DataError, match=r"/none\.csv: cannot be fetched: the server answered 404"):
        Interactions.from_file(f"http://{web}/none.csv")
    with pytest.raises(DataError, match=r"http://127\.0\.0\.1:1/clicks\.csv: cannot be fetched: .*refused"):
        Interactions.from_file("http://127.0.0.1:1/clicks.csv")


# ---- databases ---------------------------------------------------------------------------------------------------

QUERY = 'SELECT who AS "user", what AS item, day FROM clicks'


def test_queries_to_files_of_sqlite_and_duckdb(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("shop.db") as database:
        database.execute("CREATE TABLE clicks (who TEXT, what TEXT, day INTEGER)")
        database.executemany("INSERT INTO clicks VALUES (?, ?, ?)", CLICKS.rows())
    database.close()
    data = Interactions.from_file("sqlite://shop.db", query=QUERY, timestamp="day")
    assert pairs(data) == PAIRS
    assert (
        pairs(Interactions.from_file(f"sqlite://{tmp_path}/shop.db?query=SELECT+who+AS+user,what+AS+item+FROM+clicks"))
        == PAIRS
    )
    optional_package("sqlalchemy")
    assert pairs(Interactions.from_file("sqlite+pysqlite:///shop.db", query=QUERY)) == PAIRS
    duckdb = optional_package("duckdb")
    with duckdb.connect("shop.duckdb") as database:
        database.execute("CREATE TABLE clicks (who TEXT, what TEXT, day INTEGER)")
        database.executemany("INSERT INTO clicks VALUES (?, ?, ?)", CLICKS.rows())
    assert pairs(Interactions.from_file("duckdb://shop.duckdb", query=QUERY)) == PAIRS
    CLICKS.write_csv("clicks.csv")
    assert (
        pairs(Interactions.from_file("duckdb://", query="SELECT * FROM read_csv('clicks.csv', all_varchar = true)"))
        == PAIRS
    )
    for query, message in (
        (f"{QUERY} WHERE day > 9", "sqlite://shop.db: the query returned no rows. Expected one row per interaction"),
        ("SELECT * FROM none", "sqlite://shop.db: the database cannot be read .*no such table: none"),
        ("DELETE FROM clicks", "sqlite://shop.db: the database cannot be read"),
        ("SELECT who, what FROM clicks", "sqlite://shop.db has no column 'user'.*its columns are 'who', 'what'"),
    ):
        with pytest.raises(DataError, match=message):
            Interactions.from_file("sqlite://shop.db", query=query)
    assert pairs(Interactions.from_file("sqlite://shop.db", query=QUERY)) == PAIRS  # it was opened for reading
    with pytest.raises(DataError, match=r"sqlite:///shop\.db: no such file /shop\.db.*sqlite://shop\.db here"):
        Interactions.from_file("sqlite:///shop.db", query=QUERY)


@pytest.mark.parametrize(
    ("source", "query", "message"),
    [
        ("clicks.csv", QUERY, "query=.*: expected the address of a database beside it"),
        ("s3://shop/clicks.csv", QUERY, "s3://shop/clicks.csv is a file, not a database: leave out query="),
        ("postgresql://db/shop", None, r"postgresql://db/shop is the address of a database: give query="),
        ("postgresql://db/shop?query=SELECT+1", QUERY, "has a query, and another was given"),
        ("nosuch://db/shop", QUERY, "nosuch://db/shop: no database of this kind can be opened"),
        ("sqlite://shop.db", "", "query='': expected a statement"),
    ],
)
def test_a_query_that_does_not_fit_its_source(source, query, message):
    with pytest.raises(ParameterError, match=message):
        Interactions.from_file(source, query=query)
    with pytest.raises(ParameterError, match="query='SELECT 1': it is for a database, not for a frame"):
        Interactions.from_frame(CLICKS, query="SELECT 1")


def test_queries_to_postgresql(monkeypatch):
    psycopg = optional_package("psycopg")
    if binaries() is None:
        skip_without_service("PostgreSQL is not installed (.ci/install-services)")
    with running_postgresql() as new_database:
        address = new_database()
        with psycopg.connect(address) as server:
            server.execute("CREATE TABLE clicks (who TEXT, what TEXT, day TIMESTAMPTZ, price NUMERIC, id UUID)")
            rows = [
                (*row[:2], f"2024-05-0{row[2]}", 1.5, "11111111-2222-3333-4444-555555555555") for row in CLICKS.rows()
            ]
            with server.cursor() as cursor:
                cursor.executemany("INSERT INTO clicks VALUES (%s, %s, %s, %s, %s)", rows)
        query = "SELECT who AS user_id, what AS item, day, price FROM clicks WHERE what LIKE '%'"
        data = Interactions.from_file(address, query=query, user="user_id", timestamp="day", weight="price")
        assert pairs(data) == PAIRS
        assert data.weights.tolist() == [1.5] * 4
        named = address.replace("tastespace@", f"tastespace:{SECRET}@")
        for wrong, message in (
            ("SELECT nothing FROM clicks", 'column "nothing" does not exist'),
            ("WITH gone AS (DELETE FROM clicks RETURNING *) SELECT * FROM gone", "read-only transaction"),
            ("SELECT id AS user, what AS item FROM clicks WHERE false", "the query returned no rows"),
        ):
            with pytest.raises(DataError, match=message) as found:
                Interactions.from_file(named, query=wrong)
            assert SECRET not in str(found.value)
        model = ts.EASE().fit(address, query=query, user="user_id")
        later = "SELECT 'ann' AS user, 'jam' AS item"
        assert ts.evaluate(model, address, query=later, k=2, metrics=["R"]).n_users["R@2"] == 1
        assert ts.update(model, address, query=later).train_.n_interactions == 5
    with pytest.raises(DataError, match=r"postgresql://\*\*\*@/shop0: the database cannot be read") as found:
        Interactions.from_file(named, query=query)
    assert SECRET not in str(found.value)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ParameterError, match=r"needs psycopg, which is not installed: .*\(the postgresql extra\)"):
        Interactions.from_file(named, query=query)
