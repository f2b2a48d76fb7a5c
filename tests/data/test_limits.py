"""What is unpacked and fetched has limits."""

import gzip
import zipfile

import polars as pl
import pytest

from tastespace import Interactions
from tastespace.data.datasets import cache as fetch
from tastespace.data.datasets import files as file_sources
from tastespace.data.datasets._catalog import DATASETS
from tastespace.data.datasets.files import Archive
from tastespace.errors import DataError, DatasetError


def test_a_gzip_file_that_unpacks_to_more_than_memory_is_an_error(tmp_path, monkeypatch):
    path = tmp_path / "clicks.csv.gz"
    path.write_bytes(gzip.compress(b"user,item\n2,3\n" + b"1,2\n" * 100_000))
    assert Interactions.from_file(path).n_interactions == 2
    monkeypatch.setattr("tastespace.data.reading._text_files.available_gb", lambda: 1e-4)  # 100 kB, of which half
    with pytest.raises(DataError, match="unpacks to more than 5e-05 GB"):
        Interactions.from_file(path)


def test_archives_have_limits(tmp_path, monkeypatch):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("big.csv", bytes(5_000_000))
        archive.writestr("../../small.csv", b"1")
    assert Archive(path).read("small.csv") == b"1"  # read, and never written anywhere
    monkeypatch.setattr(file_sources, "ARCHIVE_BYTES", 1_000_000)
    with pytest.raises(DataError, match="would be 0 GB, at most"):
        Archive(path).read("big.csv")
    monkeypatch.setattr(file_sources, "ARCHIVE_FILES", 1)
    with pytest.raises(DataError, match="more than 1 files"):
        Archive(path).read("small.csv")


def test_every_download_has_a_checksum_of_its_file_or_of_its_rows():
    for dataset in DATASETS.values():
        for remote in dataset.remotes:
            assert remote.checksum or dataset.rows_sha256, remote


def test_downloads_are_encrypted():
    addresses = [one.url for entry in DATASETS.values() for one in entry.remotes if hasattr(one, "url")]
    assert addresses
    assert all(address.startswith("https://") for address in addresses)
    request = fetch.urllib.request.Request("https://example.org/a.zip")
    with pytest.raises(DatasetError, match="not encrypted"):
        fetch._KeepsTls().redirect_request(request, None, 302, "", {}, "http://example.org/a.zip")
    follow = fetch._KeepsTls().redirect_request(request, None, 302, "", {}, "https://example.org/b.zip")
    assert follow.full_url == "https://example.org/b.zip"


@pytest.mark.parametrize("n_rows", [2, 100])
def test_ids_have_a_length(tmp_path, n_rows):
    path = tmp_path / "clicks.csv"
    rows = [f"ann,{n}" for n in range(n_rows)]
    path.write_text("user,item\n" + "\n".join([*rows, "ü" * 500 + ",2"]))
    assert Interactions.from_file(path).n_users == 2
    path.write_text("user,item\n" + "\n".join([*rows, "ü" * 501 + ",2"]))
    with pytest.raises(DataError, match="longest id has 1,002 bytes, at most 1,000"):
        Interactions.from_file(path)
    with pytest.raises(DataError, match="longest id has 1,001 bytes"):
        Interactions.from_frame(pl.DataFrame({"user": ["x" * 1_001], "item": ["tea"]}))
