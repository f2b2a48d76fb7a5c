"""`tastespace profile`, `attributes` and `index`."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.answers._page import PageRequests


@pytest.fixture
def path(shop, tmp_path):
    """A copy of the shop's model, which may be changed."""
    ts.load(shop.model).save(tmp_path / "own.model", metrics={"NDCG@10": 0.5})
    return tmp_path / "own.model"


def rows_of(text):
    return pl.read_csv(text.encode())


def test_a_profile_is_stored_in_the_model_and_applied(stdout_of, path):
    weakest = ts.load(path).interests("u03")["interest"].to_list()[-1]
    shown = rows_of(stdout_of("profile", path, "u03", "--mute", weakest, "--boost", "0=2"))
    assert shown.columns == ["interest", "weight", "name", "past", "muted", "boost"]
    assert " no. " in shown["past"][0]  # titles, by which a person tells the interests apart
    assert shown.filter("muted")["interest"].to_list() == [weakest]
    assert shown.filter(pl.col("boost") != 1).select("interest", "boost").rows() == [(0, 2.0)]
    model = ts.load(path)
    assert model.profiles["u03"] == ts.Profile(frozenset({weakest}), {0: 2.0})
    assert ts.store.inspect(path)["metrics"] == {"NDCG@10": 0.5}
    assert rows_of(stdout_of("profile", path, "u03")).equals(shown)
    for command in (("recommend", path, "u03", "-k", 50), ("shelves", path, "u03")):
        assert weakest not in rows_of(stdout_of(*command))["interest"]
        assert weakest in rows_of(stdout_of(*command, "--no-profile"))["interest"]
    stdout_of("recommend", path, "-k", 50, "--out", "all.parquet")
    assert weakest not in pl.read_parquet("all.parquet").filter(user="u03")["interest"]
    stdout_of("recommend", path, "-k", 50, "--out", "all.parquet", "--no-profile")
    assert weakest in pl.read_parquet("all.parquet").filter(user="u03")["interest"]
    assert "muted" in stdout_of("profile", path, "u03", "--format", "table")
    assert "saved to other.model" in stdout_of(
        "profile", path, "u03", "--clear", "--out", "other.model", "--format", "table"
    )


def test_profiles_are_listed_changed_and_forgotten(stdout_of, path):
    stdout_of("profile", path, "u03", "--mute", 0)
    stdout_of("profile", path, "u05", "--boost", "1=3", "--out", "other.model")
    listed = json.loads(stdout_of("profile", "other.model", "--format", "json"))
    assert listed == [
        {"user": "u03", "muted": [0], "boosted": [], "factors": []},
        {"user": "u05", "muted": [], "boosted": [1], "factors": [3.0]},
    ]
    assert list(ts.load(path).profiles) == ["u03"]  # --out leaves the model as it is
    stdout_of("profile", path, "u03", "--unmute", 0, "--mute", 1)
    assert ts.load(path).profiles["u03"].muted == {1}
    stdout_of("profile", path, "u03", "--clear", "--boost", "0=2")
    assert ts.load(path).profiles["u03"] == ts.Profile(frozenset(), {0: 2.0})
    stdout_of("profile", path, "u03", "--boost", "0=1")
    assert len(ts.load(path).profiles) == 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("u03", "--mute", "77"), "interest 77 was named, but user 'u03' has the interests 0 to"),
        (("u03", "--mute", "77"), "tastespace interests MODEL USER lists them"),
        (("u03", "--boost", "0=0"), "--boost 0=0.0: expected positive factors; --mute leaves an interest out."),
        (("u03", "--boost", "1"), "--boost 1: expected interest=number, such as --boost 1=2."),
        (("u03", *(f"--mute={x}" for x in range(4))), "interest"),
        (("u99", "--mute", "0"), "the first is 'u99'"),
        (("--mute", "0"), "a profile belongs to one user"),
        (("u03", "--out", "x.model"), "--out x.model: nothing is changed"),
    ],
)
def test_errors_of_profiles_leave_the_model_as_it_is(error_of, path, flags, message):
    before = (path / "model.json").read_bytes()
    assert message in error_of("profile", path, *flags)
    assert (path / "model.json").read_bytes() == before


def test_attributes_are_replaced_in_the_model(stdout_of, path, tmp_path):
    lists = ts.load(path).recommend(k=5)
    about = pl.DataFrame({"sku": [f"i{row:02d}" for row in range(2, 52)], "name": "thing", "price": range(50)})
    about.write_parquet(tmp_path / "new.parquet")
    said = stdout_of("attributes", path, "new.parquet", "--id", "sku")
    assert said == f"{path}: name, price of 50 items, 2 of them without a value\n"
    model = ts.load(path, verify=True)
    assert model.recommend(k=5).equals(lists)
    assert model.train_.item_attributes.columns == ["item", "name", "price"]
    assert ts.store.inspect(path)["metrics"] == {"NDCG@10": 0.5}
    assert set(rows_of(stdout_of("recommend", path, "u03", "--filter", "price < 1", "--include-seen"))["item"]) == {
        "i02"
    }
    about.rename({"sku": "item"}).write_csv(tmp_path / "new.csv")
    stdout_of("attributes", path, "new.csv", "--out", "other.model")
    assert ts.load("other.model").train_.item_attributes["price"].to_list()[2] == 0
    (tmp_path / "new.txt").write_text("sku|name\ni02|caf\xe9;x\n", encoding="cp1252")
    how = ("--items-id", "sku", "--delimiter", "|", "--encoding", "cp1252")
    stdout_of("attributes", path, "new.txt", *how, "--out", "other.model")
    assert ts.load("other.model").train_.item_attributes["name"].to_list()[2] == "caf\xe9;x"


@pytest.mark.parametrize(
    ("frame", "flags", "message"),
    [
        ({"sku": ["i01"], "x": [1]}, (), "has no column 'item' of item ids; its columns are 'sku', 'x'"),
        ({"item": ["i01"]}, (), "has no column besides the ids"),
        ({"item": ["j1"], "x": [1]}, (), "none of the 1 rows of item attributes belongs"),
        ({"item": ["i01", "i01"], "x": [1, 2]}, (), "more than once"),
    ],
)
def test_errors_of_attributes_leave_the_model_as_it_is(error_of, path, frame, flags, message):
    pl.DataFrame(frame).write_parquet("bad.parquet")
    before = (path / "model.json").read_bytes()
    assert message in error_of("attributes", path, "bad.parquet", *flags)
    assert (path / "model.json").read_bytes() == before
    shutil.rmtree(path)
    assert "no such directory" in error_of("attributes", path, "bad.parquet")


def test_the_served_diversity_is_stored_with_the_model(stdout_of, error_of, path):
    assert stdout_of("diversity", path) == "0\n"
    assert stdout_of("diversity", path, "0.3") == "0.3\n"
    assert stdout_of("diversity", path) == "0.3\n"
    found = ts.store.inspect(path)
    assert (found["served_diversity"], found["metrics"]) == (0.3, {"NDCG@10": 0.5})
    model = ts.load(path)
    assert model.served_diversity == 0.3
    plain = ts.load(path).set_served_diversity(0)
    assert model.recommend(k=5).equals(plain.recommend(k=5))  # of what is served only
    status, api = PageRequests(model).answer("GET", "/v1/users/u03/recommendations", {"k": "8"})
    assert [one["item"] for one in api["items"]] == plain.recommend("u03", 8, diversity=0.3)["item"].to_list()
    for query in ({"diversity": "0"}, {"mix": "nearest"}):
        _, api = PageRequests(model).answer("GET", "/v1/users/u03/recommendations", {"k": "8", **query})
        assert [one["item"] for one in api["items"]] == plain.recommend("u03", 8)["item"].to_list()
    _, about = PageRequests(model).answer("GET", "/v1/model")
    assert (status, about["diversity"]) == (200, 0.3)
    assert ts.update(model, pl.DataFrame({"user": ["new"], "item": ["i01"]})).served_diversity == 0.3
    assert stdout_of("diversity", path, "0", "--out", "other.model") == "0\n"
    assert "served_diversity" not in json.loads(Path("other.model/model.json").read_text())
    assert "expected a number from 0 (the plain list) to 1" in error_of("diversity", path, "1.5")
    assert "nothing is changed" in error_of("diversity", path, "--out", "x.model")
    manifest = json.loads((path / "model.json").read_text())
    assert manifest["served_diversity"] == 0.3


def test_an_index_is_stored_with_the_model_and_searched(run, stdout_of, path):
    said = stdout_of("index", path, "--kind", "ann", "--threads", 1)
    assert "index of 50 items" in said
    assert "finds 100.0 % of the 100 best" in said
    found = ts.store.inspect(path)
    assert found["metrics"] == {"NDCG@10": 0.5}
    assert found["index"]["kind"] == "ann"
    assert stdout_of("recommend", path, "u03", "--index", "ann") == stdout_of("recommend", path, "u03")
    stdout_of("recommend", path, "-k", 5, "--index", "ann", "--out", "all.parquet")
    assert pl.read_parquet("all.parquet").equals(ts.load(path).recommend(k=5))
    assert "ann" in stdout_of("inspect", path, "--format", "table")
    (path / found["index"]["name"]).write_bytes(b"cut off")
    again = run("recommend", path, "u03", "--index", "ann")
    assert again.out == stdout_of("recommend", path, "u03")
    assert "A new index is built" in " ".join(again.err.split())


def test_a_blend_is_exported_and_indexed_by_its_member_with_vectors(run, error_of, shop):
    parts = [ts.load(shop.model), ts.EASE()]
    parts[1].fit(parts[0].train_)
    blend = ts.Blend.of(parts, [0.4, 0.6])
    blend.save("blend.model", metrics={"NDCG@10": 0.25})
    done = run("export", "blend.model", "vectors.npz")
    assert done.out.split() == ["vectors.npz"]
    assert "these are the vectors of dpcml, which ranks alone there" in " ".join(done.err.split())
    with np.load("vectors.npz") as arrays:
        assert np.array_equal(arrays["item_vectors"], parts[0].vectors().item_vectors)
    named = run("export", "blend.model", "named.npz", "--member", "dpcml")
    assert "ranks alone" not in named.err
    assert Path("named.npz").read_bytes() == Path("vectors.npz").read_bytes()
    for member in ("ease", "bpr"):
        said = error_of("export", "blend.model", "no.npz", "--member", member)
        assert "its members are dpcml, ease, with vectors dpcml" in said
    assert "it is no blend" in error_of("export", shop.model, "no.npz", "--member", "dpcml")
    assert "Give --out DIRECTORY" in error_of("index", "blend.model")
    assert "index of 50 items" in run("index", "blend.model", "--out", "member.model").out
    alone = ts.load("member.model")
    assert alone.recommend(k=5, index="ann").equals(parts[0].recommend(k=5))
    assert ts.store.inspect("member.model")["metrics"] in ({}, None)  # those of the blend are not its own
    assert ts.load("blend.model").recommend(k=5).equals(blend.recommend(k=5))


def test_other_indexes_are_refused(error_of, path, shop):
    assert "--kind flat: expected one of 'ann'" in error_of("index", path, "--kind", "flat")
    assert "--index flat: expected one of 'exact', 'ann'" in error_of("recommend", path, "u03", "--index", "flat")
