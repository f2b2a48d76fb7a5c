"""Saves that do not come to their end: crashes at every step, failing disks, Ctrl-C, no permission."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from tests.store.model_equality import assert_same_model, is_same_model, names

from tastespace.errors import ModelFileError
from tastespace.store import _manifest as manifest
from tastespace.store import load, save


def test_a_crash_at_any_moment_leaves_one_model_or_the_other(tmp_path, folder, old, new, monkeypatch):
    snapshots = []

    def watched(call):
        def before(*arguments):
            shutil.copytree(folder, tmp_path / f"crash-{len(snapshots)}")
            snapshots.append(tmp_path / f"crash-{len(snapshots)}")
            return call(*arguments)

        return before

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", watched(os.fsync))
        for name in ("replace", "unlink"):
            patched.setattr(Path, name, watched(getattr(Path, name)))
        save(new, folder)
    loaded = [load(snapshot, verify=True) for snapshot in snapshots]
    which = ["new" if is_same_model(model, new) else "old" for model in loaded]
    # Four times a file, a rename and the directory, and the file of model.json; then the directory and four old files.
    assert which == ["old"] * 14 + ["new"] * 5
    for model, name in zip(loaded, which, strict=True):
        assert_same_model(model, new if name == "new" else old)
    for snapshot in snapshots:
        save(old, snapshot)
        assert len(names(snapshot)) == 5


@pytest.mark.parametrize("nth", range(1, 11))
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failing_disk_keeps_the_old_model(folder, old, new, monkeypatch, nth, code):
    before, calls, fsync = names(folder), [], os.fsync

    def failing(handle):
        calls.append(handle)
        if len(calls) == nth:
            raise OSError(code, os.strerror(code))
        fsync(handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        with pytest.raises(ModelFileError) as caught:
            save(new, folder)
    if nth == 10:  # the rename has happened; whether it is on disk is not known
        assert "the new model is in place" in str(caught.value)
        assert_same_model(load(folder, verify=True), new)
        return
    cause = "the disk is full" if code == errno.ENOSPC else "writing failed"
    assert f"not saved, {cause}" in str(caught.value)
    assert "The model that was there is untouched." in str(caught.value)
    assert names(folder) == before
    assert_same_model(load(folder, verify=True), old)


def test_a_failed_first_save_leaves_nothing(tmp_path, new, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "a" / "b" / "model", tmp_path / "empty"):
        with pytest.raises(ModelFileError, match=r"disk is full.*Nothing is left behind\. Make room"):
            save(new, path)
    assert names(tmp_path) == ["empty"]
    assert names(tmp_path / "empty") == []


@pytest.mark.parametrize("nth", range(1, 6))
@pytest.mark.parametrize("moment", ["before", "after"])
def test_ctrl_c_around_any_rename(folder, old, new, monkeypatch, nth, moment):
    calls, replace = [], Path.replace

    def interrupted(path, target):
        calls.append(path)
        if len(calls) == nth and moment == "before":
            raise KeyboardInterrupt
        replace(path, target)
        if len(calls) == nth:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            save(new, folder)
    done = (nth, moment) == (5, "after")
    assert_same_model(load(folder, verify=True), new if done else old)
    assert not [name for name in names(folder) if name.endswith(".partial")]
    assert len(names(folder)) == (9 if done else 5)  # old files beside the new ones, for the next save to delete


def test_old_files_that_cannot_be_deleted_are_no_failure(folder, new, monkeypatch, caplog):
    def stuck(path, missing_ok=False):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", stuck)
        save(new, folder)
    assert "could not be deleted" in caplog.text
    assert_same_model(load(folder, verify=True), new)
    save(new, folder)
    assert len(names(folder)) == 5


def test_no_permission_to_write(old, new):
    with tempfile.TemporaryDirectory() as name:  # pytest's own folder is closed to other users
        Path(name).chmod(0o755)
        place = Path(name) / "model"
        save(old, place)
        user = os.geteuid()
        try:
            if user == 0:
                os.seteuid(65534)  # root may write everywhere
            else:
                place.chmod(0o555)
                Path(name).chmod(0o555)
            with pytest.raises(ModelFileError, match=r"no permission to write .*The model that was there is untouched"):
                save(new, place)
            with pytest.raises(ModelFileError, match=r"no permission to write .*Nothing is left behind"):
                save(new, Path(name) / "other" / "model")
        finally:
            os.seteuid(user)
            Path(name).chmod(0o755)
            place.chmod(0o755)
        assert_same_model(load(place, verify=True), old)


def test_no_permission_to_read(folder, monkeypatch):
    def closed(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(manifest, "read_regular", closed)
    with pytest.raises(ModelFileError, match=r"model\.json cannot be read \(Permission denied\)"):
        load(folder)
