"""Tables that are built in mapped files are the same as those built in memory."""

import datetime
import shutil
from dataclasses import asdict

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tastespace import DPCML, Interactions
from tastespace.data.out_of_core.build import build_spilled
from tastespace.data.out_of_core.chunks import FileChunks
from tastespace.data.out_of_core.files import open_spilled
from tastespace.data.out_of_core.mapped_arrays import is_mapped
from tastespace.data.reading.options import ReadOptions
from tastespace.errors import DataError, ParameterError

SPILLED = {"offsets": True, "indices": True, "weights": False, "timestamps": False}


def same(one: Interactions, other: Interactions) -> None:
    assert one.users == other.users
    assert one.items == other.items
    for name in SPILLED:
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None), name
        if a is not None:
            np.testing.assert_array_equal(a, b, err_msg=name)
            assert a.dtype == b.dtype
    assert asdict(one.cleaning) == asdict(other.cleaning)


def outcome(build):
    """What a build gives, or its error, without the names of files."""
    try:
        return build()
    except DataError as problem:
        return str(problem).split(":")[-1]


def rows_of(ids, n, seed):
    random = np.random.default_rng(seed)
    users, items = random.integers(0, 9, n), random.integers(0, 6, n)
    kinds = {
        "numbers": lambda x: pl.Series(x - 4),
        "text": lambda x: pl.Series([f"id {i:x}é" for i in x]),
        "dates": lambda x: pl.Series([datetime.date(2024, 1, 1) + datetime.timedelta(days=int(i)) for i in x]),
        "floats": lambda x: pl.Series(x / 4),
    }
    return pl.DataFrame(
        {
            "u": kinds[ids](users),
            "i": kinds[ids](items),
            "stars": random.integers(1, 6, n).astype(np.float64),
            "n": random.random(n) * 3,
            "at": random.integers(0, 5, n),
        }
    )


@settings(max_examples=60)
@given(
    ids=st.sampled_from(["numbers", "text", "dates", "floats"]),
    n=st.integers(1, 120),
    seed=st.integers(0, 1000),
    n_files=st.integers(1, 3),
    at_once=st.integers(1, 50),
    min_rating=st.sampled_from([None, 2, 5]),
    weight=st.sampled_from([None, "n", "stars"]),
    timestamp=st.sampled_from([None, "at"]),
    minimum=st.sampled_from([(1, 1), (3, 1), (1, 4), (4, 5)]),
    core=st.booleans(),
    duplicates=st.sampled_from(["sum", "last", "max", "error"]),
)
def test_the_same_table_whatever_is_read_at_once(
    tmp_path_factory, ids, n, seed, n_files, at_once, min_rating, weight, timestamp, minimum, core, duplicates
):
    folder = tmp_path_factory.mktemp("rows")
    rows = rows_of(ids, n, seed)
    paths = []
    for number, part in enumerate(np.array_split(np.arange(n), n_files)):
        paths.append(folder / f"{number}.parquet")
        rows[part].write_parquet(paths[-1], row_group_size=13)
    named = {"user": "u", "item": "i", "rating": "stars", "weight": weight, "timestamp": timestamp}
    kept = {"min_rating": min_rating, "min_user": minimum[0], "min_item": minimum[1], "core": core}
    options = ReadOptions(**named, **kept, duplicates=duplicates, threads=1, spill=folder / "spilled")
    in_memory = outcome(lambda: Interactions.from_files(paths, **named, **kept, duplicates=duplicates))
    spilled = outcome(lambda: build_spilled(FileChunks(paths, named), options, rows_at_once=at_once))
    if isinstance(in_memory, str):
        assert spilled == in_memory
        assert not (folder / "spilled").exists() or not list((folder / "spilled").iterdir())
    else:
        same(in_memory, spilled)
        assert in_memory.fingerprint() == spilled.fingerprint()
    shutil.rmtree(folder)


@pytest.fixture
def clicks(tmp_path):
    rows = rows_of("text", 400, 3)
    path = tmp_path / "clicks.parquet"
    rows.write_parquet(path)
    return path, rows


def test_arrays_are_mapped_open_again_and_can_be_learned_from(clicks, tmp_path):
    path, _ = clicks
    data = Interactions.from_file(path, user="u", item="i", spill=tmp_path / "spilled", memory="100MB")
    plain = Interactions.from_file(path, user="u", item="i")
    assert is_mapped(data.indices)
    assert is_mapped(data.offsets)
    assert not is_mapped(plain.indices)
    same(open_spilled(tmp_path / "spilled"), plain)
    learned = [DPCML(dim=4, epochs=2).fit(one) for one in (data, plain)]
    np.testing.assert_array_equal(learned[0].user_vectors_, learned[1].user_vectors_)


def test_a_partitioned_folder_and_a_catalog(clicks, tmp_path):
    _, rows = clicks
    for day in (1, 2):
        folder = tmp_path / "lake" / f"day={day}"
        folder.mkdir(parents=True)
        rows[(day - 1) * 200 : day * 200].write_parquet(folder / "0.parquet")
    (tmp_path / "lake" / "_SUCCESS").touch()
    named = {"user": "u", "item": "i", "timestamp": "day", "catalog": [*rows["i"].unique(), "another"]}
    plain = Interactions.from_file(tmp_path / "lake", **named)
    assert plain.n_items == rows["i"].n_unique() + 1
    assert set(plain.timestamps.tolist()) <= {1, 2}
    assert plain.cleaning.rows == 400
    same(Interactions.from_file(tmp_path / "lake", **named, spill=tmp_path / "spilled"), plain)
    with pytest.raises(DataError, match="not in the catalog"):
        Interactions.from_file(
            tmp_path / "lake", user="u", item="i", catalog=["x"], spill=tmp_path / "other", memory="64MB"
        )
    assert not list((tmp_path / "other").glob("*")) if (tmp_path / "other").exists() else True


def test_text_files_and_files_of_different_types(tmp_path):
    (tmp_path / "a.csv").write_text("user,item,at\n1,7,2024-01-02\n2,8,2024-01-03\n")
    (tmp_path / "b.csv").write_text("user,item,at\n007,7,2024-01-04\n2,8,2023-01-03\n")
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    more = {"timestamp": "at", "date_format": "%Y-%m-%d"}
    same(Interactions.from_files(paths, **more, spill=tmp_path / "s"), Interactions.from_files(paths, **more))
    with pytest.raises(ParameterError, match="give date_format="):
        Interactions.from_files(paths, timestamp="at", spill=tmp_path / "s")
    same(open_spilled(tmp_path / "s"), Interactions.from_files(paths, **more))  # the failed build left it


def test_all_unreadable_files_are_named(clicks, tmp_path):
    path, rows = clicks
    broken = path.read_bytes()
    (tmp_path / "cut.parquet").write_bytes(broken[: len(broken) // 2])
    middle = bytearray(broken)
    middle[4:200] = bytes(196)
    (tmp_path / "hole.parquet").write_bytes(middle)
    rows.write_parquet(tmp_path / "fine.parquet")
    (tmp_path / "text.parquet").write_text("user,item\n")
    several = [tmp_path / name for name in ("cut.parquet", "fine.parquet", "text.parquet")]
    for spill in (None, tmp_path / "s"):
        with pytest.raises(DataError, match=r"(?s)2 files cannot be read.*cut\.parquet.*text\.parquet") as caught:
            Interactions.from_files(several, user="u", item="i", spill=spill)
        assert "fine.parquet" not in str(caught.value)
    with pytest.raises(DataError, match=r"hole\.parquet"):  # its footer is fine
        Interactions.from_files([path, tmp_path / "hole.parquet"], user="u", item="i", spill=tmp_path / "s")
    assert not (tmp_path / "s").exists() or not list((tmp_path / "s").iterdir())


def test_mixed_schemas_are_named(clicks, tmp_path):
    path, rows = clicks
    rows.with_columns(u=pl.lit([1])).write_parquet(tmp_path / "lists.parquet")
    rows.rename({"i": "sku"}).write_parquet(tmp_path / "renamed.parquet")
    for spill in (None, tmp_path / "s"):
        with pytest.raises(DataError, match=r"renamed\.parquet has no column 'i'"):
            Interactions.from_files([path, tmp_path / "renamed.parquet"], user="u", item="i", spill=spill)
    with pytest.raises(DataError, match=r"List\(Int32\) in .*lists\.parquet|'u' has type"):
        Interactions.from_files(
            [tmp_path / "lists.parquet", tmp_path / "lists.parquet"], user="u", item="i", spill=tmp_path / "s"
        )


def test_folders_and_sizes_that_cannot_be(clicks, tmp_path):
    path, _ = clicks
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.doc").touch()
    with pytest.raises(DataError, match="holds other files"):
        Interactions.from_file(path, user="u", item="i", spill=tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.doc").exists()
    for memory in ("lots", -1, "1MB", True):
        with pytest.raises(ParameterError, match="memory="):
            Interactions.from_file(path, user="u", item="i", spill=tmp_path / "s", memory=memory)
    with pytest.raises(DataError, match="no table of interactions"):
        open_spilled(tmp_path / "nowhere")
    data = Interactions.from_file(path, user="u", item="i", spill=tmp_path / "s")
    file = next((tmp_path / "s").glob("table-*/indices.bin"))
    del data
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(DataError, match="is damaged"):
        open_spilled(tmp_path / "s")


def test_a_second_build_replaces_the_first(clicks, tmp_path):
    path, rows = clicks
    first = Interactions.from_file(path, user="u", item="i", spill=tmp_path / "s")
    before = first.indices.copy()
    rows.head(4).write_parquet(tmp_path / "few.parquet")
    second = Interactions.from_file(tmp_path / "few.parquet", user="u", item="i", spill=tmp_path / "s")
    assert second.n_users < first.n_users
    np.testing.assert_array_equal(first.indices, before)  # still mapped
    assert len(list((tmp_path / "s").glob("table-*"))) == 1


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_text_whose_first_column_is_not_read(tmp_path, ending):
    path = tmp_path / f"clicks.{ending}"
    rows = pl.DataFrame({"at": [3, 2, 1], "user": ["a", "b", "a"], "item": [7, 7, 8]})
    path.write_text(rows.write_csv() if ending == "csv" else rows.write_ndjson())
    same(Interactions.from_file(path, spill=tmp_path / "spilled"), Interactions.from_file(path))
