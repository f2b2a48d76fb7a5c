"""Atomic writes: the old file or the new one, whatever happens in between."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tastespace.atomic import atomic_write


def test_the_new_content_replaces_the_old(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.txt"
    for content in ("old", "new"):
        with atomic_write(path) as temporary:
            temporary.write_text(content)
        assert path.read_text() == content
    assert [file.name for file in path.parent.iterdir()] == ["file.txt"]


def test_the_temporary_file_is_in_the_same_folder_under_one_name(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "file.txt") as temporary:
        assert temporary == tmp_path / ".file.txt.partial"
        temporary.write_text("x")


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_the_old_file_and_no_temporary_one(tmp_path: Path, kind: type[BaseException]) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")

    def write() -> None:
        with atomic_write(path) as temporary:
            temporary.write_text("half")
            raise kind

    with pytest.raises(kind):
        write()
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file.txt"]


def test_a_failing_rename_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space"), atomic_write(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file.txt"]


def test_what_a_killed_process_left_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / ".file.txt.partial").write_text("left over, longer than what follows")
    with atomic_write(tmp_path / "file.txt") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "file.txt").read_text() == "new"
    assert [file.name for file in tmp_path.iterdir()] == ["file.txt"]


def test_content_and_folder_are_flushed_around_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def watched_fsync(descriptor: int) -> None:
        events.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def watched_replace(self: Path, target: Path) -> Path:
        events.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(Path, "replace", watched_replace)
    with atomic_write(tmp_path / "file.txt") as temporary:
        temporary.write_text("x")
    assert events == ["file", "rename", "folder"]
