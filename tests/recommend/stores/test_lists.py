"""Lists in PostgreSQL and Redis: real servers, readers that see whole lists."""

import json
import sys

import polars as pl
import pytest
from tests import redis_server
from tests.postgresql import binaries, running_postgresql
from tests.required_services import optional_package, skip_without_service

import tastespace as ts
from tastespace.errors import DataError, ParameterError
from tastespace.recommend.stores import lists as stored

pytestmark = pytest.mark.usefixtures("one_core")


@pytest.fixture(scope="module")
def model():
    town = ts.synthetic.multi_interest(n_users=40, n_items=30, n_interactions=400, seed=1).interactions
    return ts.DPCML(dim=8, epochs=3, seed=0).fit(town)


class StoppedError(Exception):
    pass


def stopping(frames):
    yield next(iter(frames))
    raise StoppedError


def test_lists_in_postgresql(model, monkeypatch):
    psycopg = optional_package("psycopg")
    if binaries() is None:
        skip_without_service("PostgreSQL is not installed (.ci/install-services)")
    with running_postgresql() as new_database:
        address = new_database()

        def rows():
            with psycopg.connect(address) as server:
                return server.execute("SELECT user_id, item_id, rank FROM shop_lists ORDER BY user_id, rank").fetchall()

        to = f"{address}&table=shop_lists"
        assert model.recommend_to(to, k=5) == 200
        wanted = model.recommend(k=5)
        assert rows() == wanted.select("user", "item", "rank").sort("user", "rank").rows()
        # Some users: theirs are replaced, the others stay.
        assert model.recommend_to(to, [3], k=2) == 2
        assert len(rows()) == 197
        # Another model without interests takes the place of all of them; a killed run changes nothing.
        popular = ts.MostPopular().fit(model.train_)
        assert popular.recommend_to(to, k=3) == len(rows()) == 120
        before = rows()
        frames = [model.recommend([1], k=3)]
        with pytest.raises(StoppedError):
            stored.write_lists(to, stopping(frames), dict(frames[0].schema), True)
        with pytest.raises(DataError, match="there is no list to write, so what is there stays"):
            stored.write_lists(to, [], dict(frames[0].schema), True)
        assert rows() == before
        wrong = address.replace("tastespace@", "tastespace:hunter2x@").replace("/shop0", "/none")
        with pytest.raises(DataError, match=r"the lists could not be written .*does not exist") as found:
            model.recommend_to(wrong, k=3)
        assert "hunter2x" not in str(found.value)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ParameterError, match=r"needs psycopg, which is not installed: .*\(the postgresql extra\)"):
        model.recommend_to(to, k=5)


def test_lists_in_redis(model, monkeypatch):
    redis = optional_package("redis")
    if not redis_server.is_installed():
        skip_without_service("Redis is not installed (.ci/install-services)")
    with redis_server.running_redis() as address:
        to = f"{address}?key=shop:lists"
        assert model.recommend_to(to, k=5) == 200
        with redis.Redis.from_url(address, decode_responses=True) as client:

            def of(user):
                return [one["item"] for one in json.loads(client.hget("shop:lists", str(user)))]

            for user in model.train_.users.series:
                assert of(user) == model.recommend([user], k=5)["item"].to_list()
            assert json.loads(client.hget("shop:lists", "1"))[0].keys() == {"item", "rank", "score", "interest"}
            model.recommend_to(to, [3], k=2)
            assert (len(of(3)), len(of(4)), client.hlen("shop:lists")) == (2, 5, 40)
            frame = pl.DataFrame({"user": ["ann"], "item": ["tea"], "rank": [1], "score": [float("nan")]})
            with pytest.raises(StoppedError):
                stored.write_lists(to, stopping([frame]), dict(frame.schema), True)
            with pytest.raises(DataError, match="there is no list to write"):
                stored.write_lists(to, [], dict(frame.schema), True)
            assert client.hlen("shop:lists") == 40
            assert stored.write_lists(to, [frame], dict(frame.schema), True) == 1
            assert client.hgetall("shop:lists") == {"ann": '[{"item": "tea", "rank": 1, "score": null}]'}
            assert client.keys() == ["shop:lists"]  # nothing of unfinished runs is left
            assert client.ttl("shop:lists") == -1
        wrong = address.replace(redis_server.PASSWORD, "hunter2x")
        with pytest.raises(DataError, match=r"redis://\*\*\*@127.*could not be written \(AuthenticationError") as found:
            model.recommend_to(wrong)
        assert "hunter2x" not in str(found.value)
    with pytest.raises(DataError, match=r"could not be written \(ConnectionError"):
        model.recommend_to(to)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ParameterError, match=r"needs redis, which is not installed: .*\(the redis extra\)"):
        model.recommend_to(to)


def test_other_addresses_are_refused(model):
    with pytest.raises(
        ParameterError, match=r"s3://shop/lists\.parquet: lists are written to a file, or to an address"
    ):
        model.recommend_to("s3://shop/lists.parquet")
    with pytest.raises(ParameterError, match=r"table='x;y': expected letters"):
        model.recommend_to("postgresql://db/shop?table=x;y")
