"""The index that is built, stored, opened and, where it cannot be trusted, built again."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace._util.computed_once import kept
from tastespace.errors import ParameterError
from tastespace.ranking import ann as ann_index
from tastespace.ranking.ann import find_index
from tastespace.store import inspect
from tastespace.store._manifest import NAME, parse, read_text

pytestmark = pytest.mark.usefixtures("one_core")
N_ITEMS = 6_000


@pytest.fixture(scope="module")
def catalog():
    """A model of more items than are looked at one by one."""
    town = ts.synthetic.multi_interest(n_users=150, n_items=N_ITEMS, n_interactions=6_000, seed=3).interactions
    return ts.DPCML(dim=8, n_interests=3, epochs=3, threads=1, seed=1).fit(town)


@pytest.fixture
def saved(catalog, tmp_path):
    catalog.save(tmp_path / "model", index="ann")
    return tmp_path / "model"


def index_file(folder):
    return folder / parse(read_text(folder), folder)["index"]["name"]


def lists(model, **options):
    return model.recommend(list(range(40)), k=20, index="ann", **options)


def test_the_index_looks_at_a_part_of_the_items_and_finds_nearly_all(catalog):
    made = find_index(catalog)
    assert find_index(catalog) is made
    assert 1 < made.n_probe <= made.n_clusters
    assert made.recall >= 0.98
    space = catalog.vectors()
    found = made.search(space.user_vectors[:90], 50, threads=1)
    gaps = space.user_vectors[:90, None, :].astype(np.float64) - space.item_vectors
    nearest = np.argsort((gaps**2).sum(axis=2), axis=1)[:, :50]
    assert np.mean([len(np.intersect1d(*both)) / 50 for both in zip(found, nearest, strict=True)]) >= 0.97


def test_inner_products_with_a_bias_are_searched_for_as_distances():
    town = ts.synthetic.multi_interest(n_users=150, n_items=N_ITEMS, n_interactions=6_000, seed=3).interactions
    model = ts.models.BPR(dim=8, epochs=3, threads=1, seed=1).fit(town)
    model.item_bias_ = np.random.default_rng(0).normal(0, 0.2, N_ITEMS).astype(np.float32)
    exact, found = model.recommend(k=20, threads=1), model.recommend(k=20, index="ann", threads=1)
    assert exact.join(found, on=["user", "item"]).height >= 0.97 * exact.height
    before = find_index(model)
    model.item_bias_ = -model.item_bias_
    assert find_index(model) is not before


def test_a_stored_index_is_mapped_and_answers_as_the_one_that_was_built(catalog, saved, monkeypatch):
    facts = inspect(saved)["index"]
    assert facts["kind"] == "ann"
    assert facts["bytes"] == index_file(saved).stat().st_size
    assert facts["recall@100"] >= 0.98
    again = ts.load(saved)
    monkeypatch.setattr(ann_index, "build", lambda *_: pytest.fail("built again"))
    assert lists(again).equals(lists(catalog))
    assert str(index_file(saved)) in open("/proc/self/maps").read()  # noqa: PTH123, SIM115
    assert again.fold_in([[3, 7]]).recommend(0, k=5, index="ann").height == 5


def test_saving_again_keeps_the_index(catalog, saved, tmp_path, monkeypatch):
    again = ts.load(saved)
    monkeypatch.setattr(ann_index, "build", lambda *_: pytest.fail("built again"))
    again.save(tmp_path / "copy")  # it was not asked for: the file is copied
    assert index_file(tmp_path / "copy").read_bytes() == index_file(saved).read_bytes()
    lists(again)
    again.save(saved)
    assert lists(ts.load(saved)).equals(lists(catalog))
    assert len(list(saved.glob("ann-*"))) == 1
    fresh = ts.DPCML(dim=8, n_interests=3, epochs=1, threads=1, seed=2).fit(catalog.train_)
    fresh.save(saved)
    assert inspect(saved)["index"] is None
    assert not list(saved.glob("ann-*"))


@pytest.mark.parametrize("damage", ["cut off", "gone", "a changed byte", "of another model", "of nothing", "a folder"])
def test_an_index_that_cannot_be_trusted_is_built_again(catalog, saved, tmp_path, caplog, damage):
    expected, path = lists(catalog), index_file(saved)
    content = path.read_bytes()
    if damage == "cut off":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "gone":
        path.unlink()
    elif damage == "a changed byte":
        path.write_bytes(content[:-100] + bytes([content[-100] ^ 1]) + content[-99:])
    elif damage == "a folder":
        path.unlink()
        path.mkdir()
    elif damage == "of another model":  # the same shape, described by the right model.json
        other = ts.DPCML(dim=8, n_interests=3, epochs=1, threads=1, seed=2).fit(catalog.train_)
        other.save(tmp_path / "other", index="ann")
        rewrite(saved, parse(read_text(tmp_path / "other"), tmp_path / "other")["index"])
        index_file(saved).write_bytes(index_file(tmp_path / "other").read_bytes())
    else:
        entry = parse(read_text(saved), saved)["index"]
        rewrite(saved, {**entry, "about": {"vectors": entry["about"]["vectors"], "n_probe": "all"}})
    again = ts.load(saved)
    assert again.recommend(3, k=5).equals(catalog.recommend(3, k=5))  # the model itself is whole
    with caplog.at_level(logging.WARNING):
        assert lists(again).equals(expected)
    assert "A new index is built" in caplog.text
    assert str(index_file(saved)) in caplog.text
    again.save(saved)
    caplog.clear()
    assert lists(ts.load(saved)).equals(expected)
    assert not caplog.text


def rewrite(folder, entry):
    """Put another description of an index into model.json, with a checksum that fits."""
    from tastespace.store._manifest import manifest_text

    content = parse(read_text(folder), folder)
    rest = {
        name: value
        for name, value in content.items()
        if name not in ("format", "format_version", "crc32", "tastespace", "created")
    }
    (folder / NAME).write_bytes(manifest_text({**rest, "index": entry}))


@pytest.mark.parametrize("entry", [5, [], {"name": "../x.faiss"}, {"name": "ann-0123456789abcdef.faiss", "bytes": -1}])
def test_a_description_that_makes_no_sense_is_no_index(catalog, saved, entry):
    rewrite(saved, entry)
    assert ts.load(saved)._stored_index is None


@pytest.mark.parametrize(
    "about",
    [
        {"recall": "x"}, {"recall": [1]}, {"recall": None}, {"recall": -1}, {"n_probe": 10**30}, {"largest": "x"},
        {"largest": 1.0},
    ],
)  # fmt: skip
def test_forged_facts_of_an_index_are_no_index(catalog, saved, caplog, about):
    entry = parse(read_text(saved), saved)["index"]
    rewrite(saved, {**entry, "about": {**entry["about"], **about}})
    assert lists(ts.load(saved)).equals(lists(catalog))
    assert "A new index is built" in caplog.text


@pytest.mark.parametrize("number", [3e38, float("inf"), float("nan"), 1e20])
def test_vectors_that_no_index_holds_are_an_error_and_do_not_end_the_process(number):
    code = f"""
import tastespace as ts
from tastespace.errors import DataError
town = ts.synthetic.multi_interest(n_users=60, n_items=400, n_interactions=2_000).interactions
model = ts.models.create("als").fit(town)
vectors = model.item_vectors_.copy()
vectors[3, 2] = {"float('" + str(number) + "')"}
model.item_vectors_ = vectors
try:
    model.build_index()
except ts.errors.TastespaceError as problem:
    print("refused", problem)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused"), done.stdout


def test_a_model_that_learns_has_a_new_index(catalog, saved, caplog):
    model = ts.load(saved)
    with caplog.at_level(logging.WARNING):
        new = ts.Interactions.from_frame(pl.DataFrame({"user": range(50), "item": [7, 8] * 25}))
        updated = ts.update(model, new)
        found = lists(updated)
    exact = updated.recommend(list(range(40)), k=20)
    assert exact.join(found, on=["user", "item"]).height >= 0.97 * exact.height
    refitted = ts.load(saved).fit(catalog.train_)
    assert refitted._stored_index is None


def test_few_items_are_all_looked_at(dpcml, tmp_path):
    assert find_index(dpcml).n_clusters == 1
    users = dpcml.train_.users.series.to_list()
    assert dpcml.recommend(users, k=10, index="ann").equals(dpcml.recommend(users, k=10))


def test_vectors_beyond_half_precision_are_stored_whole(catalog):
    large = ts.models.VectorSpace(
        catalog.user_vectors_ * np.float32(1e6), catalog.user_offsets_, catalog.item_vectors_ * np.float32(1e6)
    )
    assert ann_index.build(large, 1).recall >= 0.98


def test_what_has_no_vectors_or_another_name_is_an_error(ease, catalog, tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match="EASE has no vectors"):
        ease.recommend(k=3, index="ann")
    with pytest.raises(ParameterError, match="index='hnsw': expected one of 'exact', 'ann'"):
        catalog.recommend(3, index="hnsw")
    for ask in (lambda: catalog.build_index("flat"), lambda: catalog.save(tmp_path / "m", index="flat")):
        with pytest.raises(ParameterError, match="'flat': expected one of 'ann'"):
            ask()
    assert not (tmp_path / "m").exists()
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ParameterError, match=r"index='ann' needs faiss, which is not installed: pip install"):
        catalog.recommend(3, index="ann")


def test_a_stored_index_does_not_need_faiss_to_be_saved_again(saved, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    ts.load(saved).save(tmp_path / "copy")
    assert inspect(tmp_path / "copy")["index"]["bytes"] == inspect(saved)["index"]["bytes"]


def test_kept_values_are_those_of_frozen_arrays(catalog):
    find_index(catalog)
    assert kept(catalog.item_vectors_, ("ann", "l2", None)) is not None
    assert kept(catalog.item_vectors_.copy(), ("ann", "l2", None)) is None


def test_the_document_describes_the_entry(saved):
    entry = json.loads((saved / NAME).read_text())["index"]
    assert set(entry) == {"name", "bytes", "crc32", "about"}
    assert set(entry["about"]) == {"vectors", "n_probe", "recall", "largest"}
