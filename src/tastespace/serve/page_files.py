"""The built page: files of the package, read once and sent with strict headers."""

from __future__ import annotations

import hashlib
import mimetypes
from pathlib import Path

from tastespace.serve.endpoint_table import Answer
from tastespace.serve.errors import HttpError

FOLDER = Path(__file__).parent / "page"
_POLICY = (
    b"default-src 'self'; img-src 'self' data: blob:; worker-src 'self' blob:; object-src 'none'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class PageFiles:
    """The files below a folder. Only names that were found there are ever opened, whatever a request names."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._paths = {}
        for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
            if path.is_file():
                name = path.relative_to(folder).as_posix()
                # Assets stand in the folder itself or in its folder static.
                self._paths["/static/" + name.removeprefix("static/")] = path
        index = folder / "index.html"
        if index.is_file():
            self._paths["/"] = index

    def answer(self, raw_path: bytes) -> Answer:
        """The file at a path."""
        name = raw_path.decode("latin-1")
        path = self._paths.get(name)
        if path is None:
            if name == "/":
                raise HttpError(
                    404, "page_not_built", "the page is not part of this installation.",
                    "In a clone, make page builds it. The API is there: GET /openapi.json.",
                )  # fmt: skip
            raise HttpError(404, "not_found", "there is no such file of the page.")
        content = path.read_bytes()
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        if kind.startswith("text/") or kind in ("application/javascript", "application/json"):
            kind += "; charset=utf-8"
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'.encode()
        caching = b"no-cache" if name == "/" else b"public, max-age=31536000, immutable"
        return Answer(
            content, content_type=kind.encode(), headers=(*_HEADERS, (b"cache-control", caching), (b"etag", tag))
        )
