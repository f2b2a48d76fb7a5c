"""Lists for batches of users: in this process, in Dask and in Spark the same as those of the model."""

import importlib.util
import pickle
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tastespace as ts
from tastespace.cluster import BatchAnswers
from tastespace.cluster.executors import local_cluster
from tastespace.errors import DataError, ParameterError


@pytest.fixture(scope="module")
def saved(parts, tmp_path_factory):
    rows = parts[0].to_frame().with_columns(pl.format("u{}", "user").alias("user"))
    data = ts.Interactions.from_frame(rows)
    model = ts.DPCML(dim=6, epochs=2).fit(data)
    path = tmp_path_factory.mktemp("batch") / "town.model"
    model.save(path)
    return model, str(path)


def expected(model, users, k):
    lists = model.recommend(users, k=k).select("user", "item", "rank")
    return sorted(lists.rows())


def found(lists):
    frame = pl.DataFrame({name: list(lists[name]) for name in ("user", "item", "rank")})
    return sorted(frame.rows())


def test_frames_of_every_library_and_users_in_their_order(saved):
    model, path = saved
    answers = pickle.loads(pickle.dumps(BatchAnswers(path, k=3)))
    users = ["u7", "u1", "nobody", "u30"]
    for batch in (pl.DataFrame({"user": users}), pd.DataFrame({"user": users}), pa.table({"user": users})):
        lists = answers(batch)
        assert type(lists) is type(batch)
        known = [user for user in users if user != "nobody"]
        columns = {n: (lists[n].to_pylist() if hasattr(lists[n], "to_pylist") else list(lists[n])) for n in ("user",)}
        assert list(dict.fromkeys(columns["user"])) == known
    assert found(answers(pd.DataFrame({"user": users}))) == expected(model, known, 3)
    assert len(answers(pd.DataFrame({"user": []}, dtype=object))) == 0
    assert list(answers(pd.DataFrame({"user": ["nobody"]})).columns) == ["user", "item", "rank", "score"]
    with pytest.raises(DataError, match="a batch has no column 'user'; its columns are who"):
        answers(pd.DataFrame({"who": users}))
    with pytest.raises(ParameterError, match="on_unknown='x'"):
        BatchAnswers(path, on_unknown="x")
    assert list(answers.schema()) == ["user", "item", "rank", "score"]


def test_new_users_are_answered_from_what_they_have_taken(saved):
    model, path = saved
    items = model.train_.items.series.to_list()
    batch = pd.DataFrame({"user": ["u3", "new", "newer", "empty"], "took": [None, items[:3], [items[5], "?"], []]})
    lists = BatchAnswers(path, k=4, items="took")(batch)
    assert list(lists["user"].unique()) == ["u3", "new", "newer"]
    own = model.recommend_for({"new": items[:3], "newer": [items[5]]}, k=4)
    got = sorted(zip(lists["user"], lists["item"], lists["rank"], strict=True))
    assert [row for row in got if row[0] != "u3"] == sorted(own.select("user", "item", "rank").rows())
    popular = BatchAnswers(path, k=2, on_unknown="popular")(pd.DataFrame({"user": ["u3", "nobody"]}))
    assert set(popular["user"]) == {"u3", "nobody"}


def example(name):
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def users_and_lists(saved, tmp_path_factory):
    """Two files of users, one of them new, and the lists that they must get."""
    model, _ = saved
    users, items = model.train_.users.series.to_list(), model.train_.items.series.to_list()
    frame = pl.DataFrame({"user": [*users, "new", "nobody"], "took": [None] * len(users) + [items[:3], None]})
    folder = tmp_path_factory.mktemp("users")
    for number in range(2):
        frame[number::2].write_parquet(folder / f"{number}.parquet")
    new = model.recommend_for({"new": items[:3]}, k=3).select("user", "item", "rank").rows()
    return str(folder), sorted([*expected(model, users, 3), *new])


@pytest.mark.slow
def test_dask_map_partitions(saved, users_and_lists, tmp_path):
    from distributed import Client

    users, lists = users_and_lists
    with local_cluster(1) as cluster, Client(cluster, timeout=60):
        example("lists_on_dask").write_lists(BatchAnswers(saved[1], k=3, items="took"), users, str(tmp_path / "lists"))
    assert found(pl.read_parquet(tmp_path / "lists" / "*.parquet")) == lists


@pytest.mark.slow
def test_spark_map_in_pandas_and_in_arrow(saved, users_and_lists, tmp_path, monkeypatch):
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    users, lists = users_and_lists
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    try:
        for arrow in (False, True):
            out = str(tmp_path / f"lists-{arrow}")
            example("lists_on_spark").write_lists(spark, BatchAnswers(saved[1], k=3, items="took"), users, out, arrow)
            assert found(pl.read_parquet(f"{out}/*.parquet")) == lists
    finally:
        spark.stop()
