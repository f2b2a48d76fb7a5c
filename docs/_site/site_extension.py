"""Additions of this site to Sphinx: generated pages and pictures, pages of the repository's root, redirected links."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import api_pages
import generated_pages
import notebook_pages
import pictures
from sphinx.ext.napoleon.docstring import GoogleDocstring

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
# Pages outside docs/ that the site shows, and the name that each has there.
ROOT_PAGES = {
    "CHANGELOG.md": "generated/changelog",
    "CONTRIBUTING.md": "generated/contributing",
    "SECURITY.md": "generated/security",
    "benchmarks/RESULTS.md": "generated/measured",
}
# Files that a page links to, so that it can be read on a code host, and what the site shows in their place.
REDIRECTS = {
    **ROOT_PAGES,
    **{f"examples/{path.name}": f"generated/notebooks/{path.stem}" for path in (ROOT / "examples").glob("*.ipynb")},
    **{f"docs/pictures/{name}.svg": f"generated/pictures/{name}.svg" for name in pictures.PICTURES},
    **{f"src/tastespace/{path}": f"generated/api/{name}" for name, path in api_pages.SOURCES.items()},
    "src/tastespace/cli/app.py": "generated/commands",
}
_LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")


def with_site_links(text: str, folder: Path, source: Path = DOCS) -> str:
    """Return the text of a page in ``folder`` with links between pages as the site knows them.

    Links to a file in `REDIRECTS` lead to what the site has in its place. Links of a page of the repository's root,
    which are relative to another folder, start at the root of the site. All others stay as they are.
    """

    def replaced(match: re.Match[str]) -> str:
        before, target, anchor, after = match.groups()
        if re.match(r"[a-z]+:|/", target):
            return match[0]
        path = Path(os.path.normpath(folder / target))
        if path.is_relative_to(ROOT) and str(path.relative_to(ROOT)) in REDIRECTS:
            page = REDIRECTS[str(path.relative_to(ROOT))]
            target = f"/{page}" if page.endswith(".svg") else f"/{page}.md"
        elif not folder.is_relative_to(DOCS):
            target = f"/{os.path.relpath(path, source)}"
        return f"{before}{target}{anchor or ''}{after}"

    return _LINK.sub(replaced, text)


def _generate(app: Sphinx) -> None:
    source = Path(app.srcdir)
    notebooks = notebook_pages.pages(source / "generated" / "notebooks" / "outputs")
    texts = {**generated_pages.pages(), **api_pages.pages(), **notebooks}
    made = {f"generated/{name}": text for name, text in texts.items()}
    for path, name in ROOT_PAGES.items():
        made[name] = with_site_links((ROOT / path).read_text(encoding="utf-8"), (ROOT / path).parent)
    for name, text in made.items():
        _write_if_changed(source / f"{name}.md", text)
    for old in (source / "generated").rglob("*.md"):
        if str(old.relative_to(source).with_suffix("")) not in made:
            old.unlink()
    pictures.draw_all(source / "generated" / "pictures")


def _write_if_changed(path: Path, text: str) -> None:
    """An unchanged page keeps its time and is not read again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _relink(app: Sphinx, name: str, content: list[str]) -> None:
    text = (
        generated_pages.with_tables(content[0], is_site=True)
        if name in generated_pages.PAGES_WITH_TABLES
        else content[0]
    )
    content[0] = with_site_links(text, (Path(app.srcdir) / name).parent)


def _metrics_are_no_addresses(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """NDCG@10 in a docstring would become a link to send mail."""
    for at, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = line.split("``")  # every second one is code
            parts[::2] = [re.sub(r"\b([A-Za-z]+)@(?=\w)", r"\1\\@", part) for part in parts[::2]]
            lines[at] = "``".join(parts)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    # Napoleon takes "Name of the file: a path." of an attribute for a type; ours are sentences.
    GoogleDocstring._parse_attribute_docstring = lambda self: list(self._lines)  # type: ignore[method-assign]
    app.connect("builder-inited", _generate)
    app.connect("source-read", _relink)
    app.connect("autodoc-process-docstring", _metrics_are_no_addresses)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
