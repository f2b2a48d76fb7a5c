"""The built page (`make page`), as files for a server and as one text for a file that holds everything."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import tastespace.errors as errors

PAGE = Path(errors.__file__).parent / "serve" / "page"
"""Folder with index.html, static files, and the script and style of the widget."""

_LINK = re.compile(r'<link rel="(?P<rel>\w+)" href="(?P<file>[^"]+)">')
_SCRIPT = re.compile(r'<script src="(?P<file>[^"]+)" defer></script>')


def whole_page(data: dict[str, Any], title: str) -> str:
    """The page with its script, style and data inside; it loads nothing, and its policy forbids to.

    >>> page = whole_page({"title": "</script><b>"}, "A & B")
    >>> "<title>A &amp; B</title>" in page, "</script><b>" in page
    (True, False)
    """
    index = (PAGE / "index.html").read_text(encoding="utf-8")
    script_found = _SCRIPT.search(index)
    assert script_found is not None  # written by page/build.mjs
    script = (PAGE / script_found["file"]).read_text(encoding="utf-8").replace("</script", "<\\/script")
    style = icon = ""
    for found in _LINK.finditer(index):
        content = (PAGE / found["file"]).read_text(encoding="utf-8")
        if found["rel"] == "stylesheet":
            style = content
        else:
            icon = "data:image/svg+xml;base64," + base64.b64encode(content.encode()).decode()
    policy = f"default-src 'none'; img-src data:; script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    # In a script element only "<" can end it, or begin a comment.
    embedded = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str).replace("<", "\\u003c")
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<link rel="icon" href="{icon}">\n<style>{style}</style>'
    )
    escaped = title.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    lines = [line for line in index.splitlines() if not _LINK.search(line) and not _SCRIPT.search(line)]
    page = "\n".join(lines).replace("<title>tastespace</title>", f"<title>{escaped}</title>\n{head}")
    tail = (
        f'<script type="application/json" id="tastespace-data">{embedded}</script>\n<script>{script}</script>\n</body>'
    )
    return page.replace("</body>", tail) + "\n"


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
