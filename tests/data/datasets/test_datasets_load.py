"""`load`, `names`, `describe`, `table` and the terms of use, on small files written by the tests."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tastespace.data import datasets
from tastespace.errors import DatasetError


def test_the_names_are_those_promised() -> None:
    assert set(datasets.names()) == {
        *("ml-100k", "ml-1m", "ml-10m", "steam-200k", "citeulike-t", "citeulike-a"),
        *("xing-2017", "lastfm-2k", "anime", "amazon-cds", "amazon-cds-m1", "yelp2018"),
    }


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(DatasetError, match=r"unknown data set 'ml1m'\. Did you mean ml-1m.*Known are ml-100k,"):
        datasets.load("ml1m")


def test_an_unknown_view_offers_the_views() -> None:
    with pytest.raises(DatasetError, match=r"'ml-1m' has no view 'publishers'\. Did you mean publisher\?.*'raw'"):
        datasets.load("ml-1m", "publishers")


@pytest.mark.parametrize("form", ["archive", "subfolder", "unpacked", "flat", "flat archive", "nested"])
def test_every_form_of_a_folder_is_recognized(form: str, tmp_path: Path, tiny_10m: object, tiny_zip: bytes) -> None:
    import zipfile

    folder = tmp_path / "mine"
    where = {
        "flat": folder,
        "unpacked": folder / "ml-10M100K",
        "nested": folder / "ml-10m" / "ml-10M100K",
    }.get(form, folder / "ml-10m")
    where.mkdir(parents=True)
    if form == "archive":
        (where / "as I called it.zip").write_bytes(tiny_zip)
    elif form == "flat archive":
        (folder / "ml-10m.zip").write_bytes(tiny_zip)
    else:
        archive = tmp_path / "a.zip"
        archive.write_bytes(tiny_zip)
        with zipfile.ZipFile(archive) as opened:
            (where / "ratings.dat").write_bytes(opened.read("ml-10M100K/ratings.dat"))
    data = datasets.load("ml-10m", data_dirs=folder, download=False)
    assert (data.n_users, data.n_items, data.n_interactions) == (4, 9, 24)
    entry = datasets.describe("ml-10m", data_dirs=[folder])
    assert entry.present
    assert entry.where.startswith(str(folder))


@pytest.mark.parametrize("flaw", ["encrypted", "unknown method", "damaged"])
def test_the_next_source_follows_an_archive_that_cannot_be_unpacked(
    flaw: str, tmp_path: Path, tiny_10m: object, tiny_zip: bytes
) -> None:
    raw = bytearray(tiny_zip)
    at = -1
    while (
        at := raw.find(b"PK\x01\x02", at + 1)
    ) >= 0:  # the entries of the table at the end, and the headers of members
        header = int.from_bytes(raw[at + 42 : at + 46], "little")
        if flaw == "encrypted":
            raw[at + 8] |= 1
            raw[header + 6] |= 1
        elif flaw == "unknown method":
            raw[at + 10] = raw[header + 8] = 77
        else:
            start = header + 30 + int.from_bytes(raw[header + 26 : header + 28], "little")
            raw[start : start + 4] = b"\xff\xff\xff\xff"
    for name, content in (("one", bytes(raw)), ("two", tiny_zip)):
        (tmp_path / name / "ml-10m").mkdir(parents=True)
        (tmp_path / name / "ml-10m" / "ml-10m.zip").write_bytes(content)
    both = [tmp_path / "one", tmp_path / "two"]
    assert datasets.load("ml-10m", data_dirs=both, download=False).n_interactions == 24
    with pytest.raises(DatasetError, match="in the archive cannot be read"):
        datasets.load("ml-10m", data_dirs=both[0], download=False)


def test_several_folders_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_10m: object, tiny_zip: bytes
) -> None:
    (tmp_path / "two" / "ml-10m").mkdir(parents=True)
    (tmp_path / "two" / "ml-10m" / "ml-10m.zip").write_bytes(tiny_zip)
    monkeypatch.setenv("TASTESPACE_DATA", f"{tmp_path / 'one'}:{tmp_path / 'two'}")
    assert datasets.load("ml-10m", download=False).n_interactions == 24


def test_raw_keeps_ratings_times_titles_and_genres(tmp_path: Path, tiny_10m: object, tiny_zip: bytes) -> None:
    (tmp_path / "ml-10m.zip").write_bytes(tiny_zip)
    data = datasets.load("ml-10m", "raw", data_dirs=tmp_path)
    assert data.n_interactions == 36
    assert data.weights is not None
    assert sorted(set(data.weights.tolist())) == [2.5, 5.0]
    assert data.timestamps is not None
    assert data.timestamps[0] == 1001
    assert data.item_attributes is not None
    assert data.item_attributes.row(0) == (1, "Film é 1 (1999)", ["Drama", "War"])


def test_a_damaged_folder_is_passed_over_for_the_next_source(
    tmp_path: Path, tiny_10m: object, tiny_zip: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "ml-10m.zip").write_bytes(tiny_zip[:-40])
    assert datasets.load("ml-10m", data_dirs=tmp_path).n_interactions == 24  # from the server
    assert "not a readable zip archive" in caplog.text


def test_a_file_of_another_size_is_refused_with_both_numbers(tmp_path: Path, tiny_10m: object) -> None:
    (tmp_path / "ratings.dat").write_text("1::1::5::1\n2::2::4::2\n")
    with pytest.raises(DatasetError, match=r"2 rows, expected 36: cut off"):
        datasets.load("ml-10m", data_dirs=tmp_path, download=False)


def test_a_damaged_side_file_is_a_reason_too(tmp_path: Path, tiny_10m: object) -> None:
    (tmp_path / "ratings.dat").write_text("1::1::5::1\n")
    (tmp_path / "movies.dat").write_text("one::Film::Drama\n")
    with pytest.raises(DatasetError, match=rf"{tmp_path}: .*conversion"):
        datasets.load("ml-10m", data_dirs=tmp_path, download=False)


def test_a_full_disk_is_a_reason_too(tiny_10m: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tastespace._util.atomic.flush", full)
    with pytest.raises(DatasetError, match="No space left on device"):
        datasets.load("ml-10m", data_dirs=())


def test_terms_are_logged_once_per_machine(
    tmp_path: Path,
    tiny_10m: object,
    tiny_zip: bytes,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "ml-10m.zip").write_bytes(tiny_zip)
    for process in range(3):
        monkeypatch.setattr(datasets, "_terms_logged", set())  # as in a new process
        datasets.load("ml-10m", data_dirs=tmp_path)
        assert caplog.text.count("no commercial use") == 1, process


def test_terms_without_a_handler_do_not_count_as_shown(
    tmp_path: Path, tiny_10m: object, tiny_zip: bytes, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ml-10m.zip").write_bytes(tiny_zip)
    monkeypatch.setattr(logging.getLogger("tastespace"), "propagate", False)
    monkeypatch.setattr(logging.getLogger("tastespace"), "handlers", [logging.NullHandler()])
    datasets.load("ml-10m", data_dirs=tmp_path)
    assert not (cache / "ml-10m" / "terms-shown").exists()


def test_nothing_is_printed(
    tmp_path: Path, tiny_10m: object, tiny_zip: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    datasets.load("ml-10m", data_dirs=())
    assert capfd.readouterr() == ("", "")


def test_the_table_says_what_is_where(tmp_path: Path) -> None:
    rows = {entry.name: entry for entry in datasets.describe_all(data_dirs=tmp_path)}
    assert list(rows) == list(datasets.names())
    assert rows["ml-1m"].where == "can be fetched"
    assert not rows["ml-1m"].present
    assert rows["ml-1m"].license == "research only"
    assert rows["steam-200k"].where.startswith("by hand: https://www.kaggle.com/")
    assert (rows["steam-200k"].users, rows["steam-200k"].items) == (3_757, 5_113)
    assert all("paper" in entry.views and "raw" in entry.views for entry in rows.values())


def test_the_table_sees_the_cache(tiny_10m: object) -> None:
    datasets.load("ml-10m", data_dirs=())
    assert datasets.describe("ml-10m", data_dirs=()).where == "cached"


def test_sets_without_split_or_content_say_which_have_one(tiny_10m: object) -> None:
    with pytest.raises(DatasetError, match="no split of 'ml-10m' was published; ml-100k, steam-200k, citeulike-a"):
        datasets.load_split("ml-10m")
    data = datasets.load("ml-10m", data_dirs=())
    with pytest.raises(DatasetError, match="no content matrices; citeulike-t, citeulike-a, xing-2017, lastfm-2k"):
        datasets.load_content("ml-10m", data)
