"""What this site adds to Sphinx: generated pages and pictures, pages of the repository's root, a tolerant toctree."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import api_pages
import generated_pages
import notebook_pages
import pictures
from sphinx.directives.other import TocTree
from sphinx.ext.napoleon.docstring import GoogleDocstring

if TYPE_CHECKING:
    from docutils import nodes
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
_LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")


def with_site_links(text: str, folder: Path, source: Path = DOCS) -> str:
    """The text of a page in ``folder`` with links between pages as the site knows them.

    Links to a page of the repository's root lead to its copy in the site. Links of such a copy, which are relative to
    another folder, start at the root of the site. All others stay as they are.
    """

    def replaced(match: re.Match[str]) -> str:
        before, target, anchor, after = match.groups()
        if re.match(r"[a-z]+:|/", target):
            return match[0]
        path = Path(os.path.normpath(folder / target))
        if path.is_relative_to(ROOT) and str(path.relative_to(ROOT)) in ROOT_PAGES:
            target = f"/{ROOT_PAGES[str(path.relative_to(ROOT))]}.md"
        elif not folder.is_relative_to(DOCS):
            target = f"/{os.path.relpath(path, source)}"
        return f"{before}{target}{anchor or ''}{after}"

    return _LINK.sub(replaced, text)


class ToctreeOfExisting(TocTree):
    """A ``toctree`` without the pages that are not there: some come with other parts of the project."""

    def run(self) -> list[nodes.Node]:
        """Take out what is missing, then do what a toctree does."""
        here = Path(self.env.srcdir, self.env.docname).parent
        there = [line for line in self.content if self._exists(here, line)]
        self.content.data[:] = there
        self.content.items[:] = self.content.items[: len(there)]
        return super().run()

    def _exists(self, here: Path, line: str) -> bool:
        named = re.fullmatch(r".*<(.+)>", line.strip())
        name = (named[1] if named else line.strip()).removesuffix(".md")
        folder = Path(self.env.srcdir) if name.startswith("/") else here
        return any((folder / f"{name.lstrip('/')}{end}").exists() for end in (".md", ".rst"))


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
    content[0] = with_site_links(content[0], (Path(app.srcdir) / name).parent)


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
    app.add_directive("toctree-of-existing", ToctreeOfExisting)
    app.connect("builder-inited", _generate)
    app.connect("source-read", _relink)
    app.connect("autodoc-process-docstring", _metrics_are_no_addresses)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
