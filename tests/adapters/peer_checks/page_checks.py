"""Blocks of the documentation that need LensKit or RecTools; run by `test_with_peers.py`, where both are installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"^```py(?:thon)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
PEER = re.compile(r"^from (lenskit|rectools)\b", re.MULTILINE)


def blocks():
    """A page's first block, which makes its data, and each block of a peer."""
    for page in sorted(DOCS.rglob("*.md")):
        found = BLOCK.findall(page.read_text(encoding="utf-8"))
        for code in found:
            if peer := PEER.search(code):
                yield pytest.param(found[0], code, id=f"{page.relative_to(DOCS)}-{peer[1]}")


@pytest.mark.parametrize(("before", "code"), list(blocks()))
def test_a_block_of_a_page_runs(before, code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    exec(compile(before, "page", "exec"), names)
    exec(compile(code, "page", "exec"), names)
    assert capsys.readouterr().out


def test_there_are_blocks_of_both():
    assert {PEER.search(param.values[1])[1] for param in blocks()} == {"lenskit", "rectools"}
