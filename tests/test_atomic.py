"""Atomic writes: the old file or the new one, whatever happens in between."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tastespace._util.atomic import atomic_write, written_name


def test_the_new_content_replaces_the_old(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.txt"
    for content in ("old", "new"):
        with atomic_write(path) as temporary:
            temporary.write_text(content)
        assert path.read_text() == content
    assert [file.name for file in path.parent.iterdir()] == ["file.txt"]


def test_the_temporary_file_is_in_the_same_folder_under_a_name_of_its_own(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "file.txt") as temporary:
        assert temporary.parent == tmp_path
        assert written_name(temporary.name) == "file.txt"
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


KILLED = """
import os, signal, sys
from pathlib import Path
from tastespace._util.atomic import atomic_write
with atomic_write(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_by_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    others = [".other.txt.0123abcd-77-89abcdef.partial", ".file.txt.00000000-1-00000000.partial", "notes.partial"]
    for name in others:  # another file, another machine, not ours
        (tmp_path / name).write_text("keep")
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert len(list(tmp_path.iterdir())) == 4
    with atomic_write(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new"
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([*others, "file.txt"])


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    with atomic_write(path) as first:
        first.write_text("first")
        with atomic_write(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
        assert first.read_text() == "first"
    assert path.read_text() == "first"
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
