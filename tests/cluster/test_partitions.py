"""Partitions that workers make of Parquet files are those of the table that one process reads."""

import numpy as np
import polars as pl
import pytest
from tests.cluster.same_models import same

import tastespace as ts
from tastespace.cluster import ClusterOptions, fit_files
from tastespace.errors import DataError, ParameterError

MODEL = ts.DPCML(dim=4, epochs=2, seed=3)


def rows_of(kind, n=600):
    random = np.random.default_rng(5)
    users, items = random.integers(0, 50, n), (30 * random.power(0.5, n)).astype(int)
    if kind == "text":
        return pl.DataFrame({"user": [f"é{u}" for u in users], "item": [f"i{i}" for i in items]})
    return pl.DataFrame({"user": users - 7, "item": items.astype(np.int32)})


def inline(**more):
    return ClusterOptions("inline", **{"partitions": 4, "rounds_per_epoch": 2, **more})


@pytest.mark.parametrize("kind", ["numbers", "text"])
@pytest.mark.parametrize("minimum", [{}, {"min_user": 11, "min_item": 9}])
def test_files_give_the_model_of_the_table(kind, minimum, tmp_path):
    rows = rows_of(kind)
    clicks = tmp_path / "clicks"
    clicks.mkdir()
    for number in range(3):
        rows[number * 200 : (number + 1) * 200].write_parquet(clicks / f"{number}.parquet")
    data = ts.Interactions.from_files(clicks / "*.parquet", **minimum)
    expected = MODEL.clone().fit(data, cluster=inline())
    model = MODEL.clone()
    fit_files(model, clicks / "*.parquet", inline(storage=str(tmp_path / "run")), **minimum)
    assert model.train_.fingerprint() == data.fingerprint()
    same(model, expected)
    again = MODEL.clone()
    fit_files(again, clicks, inline(storage=str(tmp_path / "run")), **minimum)  # finished: nothing is read again
    same(again, expected)
    assert not list((tmp_path / "run" / "shards").iterdir())
    assert model.recommend(data.users.series.to_list()[:3], k=2).equals(
        expected.recommend(data.users.series.to_list()[:3], k=2)
    )


def test_files_of_different_types_are_brought_to_one(tmp_path):
    rows_of("numbers").with_columns(pl.col("user").cast(pl.Int16)).write_parquet(tmp_path / "0.parquet")
    rows_of("numbers", 90).with_columns(pl.col("user").cast(pl.String)).write_parquet(tmp_path / "1.parquet")
    model = MODEL.clone()
    fit_files(model, tmp_path, inline())
    assert model.train_.fingerprint() == ts.Interactions.from_files(tmp_path / "*.parquet").fingerprint()


def test_bad_files_are_named_and_leave_no_run(tmp_path):
    rows_of("numbers").write_parquet(tmp_path / "good.parquet")
    for name in ("cut", "torn"):
        (tmp_path / f"{name}.parquet").write_bytes((tmp_path / "good.parquet").read_bytes()[:70])
    with pytest.raises(DataError, match=r"(?s)2 files cannot be read.*cut\.parquet.*torn\.parquet"):
        fit_files(MODEL.clone(), tmp_path / "*.parquet", inline(storage=str(tmp_path / "run")))
    content = bytearray((tmp_path / "good.parquet").read_bytes())
    content[10:200] = bytes(190)  # the footer stays: noticed when the rows are read, by a worker
    for name in ("cut", "torn"):
        (tmp_path / f"{name}.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"(?s)2 files cannot be read.*cut\.parquet.*torn\.parquet"):
        fit_files(MODEL.clone(), tmp_path / "*.parquet", inline(storage=str(tmp_path / "run")))
    with pytest.raises(DataError, match=r"(?s)2 files cannot be read.*cut\.parquet.*torn\.parquet"):
        ts.Interactions.from_files(tmp_path / "*.parquet")
    for name, column in (("cut", "user"), ("torn", "item")):
        rows_of("numbers").select(column).write_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(DataError, match=r"(?s)cut\.parquet has no column 'item'.*torn\.parquet has no column 'user'"):
        fit_files(MODEL.clone(), tmp_path / "*.parquet", inline(storage=str(tmp_path / "run")))
    assert not (tmp_path / "run" / "run.json").exists()
    good = tmp_path / "good.parquet"
    with pytest.raises(DataError, match="min_user=1 and min_item=9999 drop everything"):
        fit_files(MODEL.clone(), good, inline(), min_item=9999)
    with pytest.raises(ParameterError, match="Take fewer partitions"):
        fit_files(MODEL.clone(), good, inline(partitions=200))
    pl.DataFrame({"user": [1.5], "item": [1]}).write_parquet(tmp_path / "floats.parquet")
    with pytest.raises(DataError, match="ids of type Float64 cannot be divided"):
        fit_files(MODEL.clone(), tmp_path / "floats.parquet", inline())
    pl.DataFrame({"user": [1, None], "item": [1, 2]}).write_parquet(tmp_path / "null.parquet")
    with pytest.raises(DataError, match=r"null\.parquet, row 1: the id in column 'user' is null"):
        fit_files(MODEL.clone(), tmp_path / "null.parquet", inline())
