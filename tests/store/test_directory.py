"""The model directory: whole or not at all, other people's files left alone, failures explained."""

import contextlib
import shutil
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.model_equality import assert_same_model, names

from tastespace._util import atomic
from tastespace.errors import ModelFileError
from tastespace.store import (
    _manifest as manifest,
)
from tastespace.store import (
    inspect,
    load,
    save,
)


def parts_of(folder):
    return {name.partition("-")[0] for name in names(folder)}


COMPLETE = {"model.json", "learned", "seen", "users", "items"}


# ---- where a model may go ----------------------------------------------------------------------------------


def test_new_names_empty_directories_and_models(tmp_path, old, new, monkeypatch):
    save(old, tmp_path / "deep" / "er" / "model")
    (tmp_path / "empty").mkdir()
    save(old, tmp_path / "empty")
    save(new, str(tmp_path / "empty"))
    assert parts_of(tmp_path / "empty") == COMPLETE
    assert_same_model(load(tmp_path / "empty"), new)
    monkeypatch.chdir(tmp_path)
    save(new, "here")
    assert_same_model(load("here"), new)
    (tmp_path / "link").symlink_to(tmp_path / "here")
    save(old, tmp_path / "link")
    assert_same_model(load("here"), old)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert_same_model(load("~/here"), old)


def test_a_model_can_be_moved(folder, old, tmp_path):
    moved = tmp_path / "elsewhere"
    shutil.move(folder, moved)
    assert_same_model(load(moved, verify=True), old)


def test_a_model_can_be_saved_to_where_it_was_loaded_from(folder, old):
    for _ in range(3):
        save(load(folder), folder)
    assert_same_model(load(folder, verify=True), old)
    assert parts_of(folder) == COMPLETE
    assert len(names(folder)) == 5


def test_directories_of_others_are_refused(tmp_path, new):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("cat")
    with pytest.raises(ModelFileError, match=r"photos is not empty and no tastespace model: it holds cat\.jpg\."):
        save(new, tmp_path / "photos")
    assert names(tmp_path / "photos") == ["cat.jpg"]
    (tmp_path / "keras").mkdir()
    (tmp_path / "keras" / "model.json").write_text('{"class_name": "Sequential"}')
    with pytest.raises(ModelFileError, match=r"keras is not empty and no tastespace model: it holds model\.json"):
        save(new, tmp_path / "keras")
    assert names(tmp_path / "keras") == ["model.json"]


def test_a_file_is_not_written_over(tmp_path, new):
    (tmp_path / "file").write_text("text")
    for path in (tmp_path / "file", tmp_path / "file" / "model"):
        with pytest.raises(ModelFileError, match=r"file is a file; a model is saved as a directory"):
            save(new, path)
    assert (tmp_path / "file").read_text() == "text"


def test_files_of_others_beside_a_model_stay(folder, new):
    others = [
        "notes.txt",
        "users-2024.parquet",
        "items-0123456789abcdef.csv",
        "model.json.bak",
        ".git",
        ".notes.txt.partial",
    ]
    for name in others:
        (folder / name).write_text("mine")
    (folder / "seen-0123456789abcdef.safetensors").mkdir()  # a directory, whatever its name
    save(new, folder)
    assert set(others) < set(names(folder))
    assert (folder / "seen-0123456789abcdef.safetensors").is_dir()
    assert_same_model(load(folder, verify=True), new)


def test_what_killed_saves_left_is_tidied_up(tmp_path, folder, new):
    killed = f"{atomic._host()}-{2**30}-01234567"  # a process that is no more
    leftovers = [
        f".learned-0123456789abcdef.safetensors.{killed}.partial",
        "users-fedcba9876543210.parquet",
        f".model.json.{killed}.partial",
    ]
    (tmp_path / "begun").mkdir()
    for place in (folder, tmp_path / "begun"):
        for name in leftovers:
            (place / name).write_bytes(b"half")
    with pytest.raises(ModelFileError, match="no saved model"):
        load(tmp_path / "begun")
    for place in (folder, tmp_path / "begun"):
        save(new, place)
        assert len(names(place)) == 5
        assert_same_model(load(place, verify=True), new)


def test_a_damaged_model_may_be_written_over(folder, new):
    (folder / "model.json").write_bytes((folder / "model.json").read_bytes()[:200])
    save(new, folder)
    assert_same_model(load(folder, verify=True), new)


# ---- several at once ---------------------------------------------------------------------------------------


def test_readers_and_two_writers_at_once(folder, old, new):
    stop, failed = threading.Event(), []

    def write(model):
        try:
            while not stop.is_set():
                save(model, folder)
        except BaseException as problem:
            failed.append(problem)

    writers = [threading.Thread(target=write, args=(model,)) for model in (old, new)]
    for writer in writers:
        writer.start()
    try:
        found = [type(load(folder, verify=True)) for _ in range(40)]
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert failed == []
    assert set(found) <= {type(old), type(new)}
    assert parts_of(folder) == COMPLETE
    assert len(names(folder)) == 5


def test_a_reader_that_never_finds_a_quiet_moment_gives_up(folder, monkeypatch):
    counter = iter(range(10_000))
    monkeypatch.setattr(manifest, "read_regular", lambda path: b'{"format": "%d"}' % next(counter))
    with pytest.raises(ModelFileError, match="no moment was found to read it"):
        load(folder)


# ---- what is there does not add up -------------------------------------------------------------------------


def test_nothing_there(tmp_path, folder):
    with pytest.raises(ModelFileError, match=r"modell: there is no such directory\. Did you mean model\?"):
        load(tmp_path / "modell")
    with pytest.raises(ModelFileError, match=r"there is no such directory\.$"):
        inspect(tmp_path / "no" / "such" / "place")


def test_not_a_model(tmp_path, folder):
    (tmp_path / "file.txt").write_text("text")
    with pytest.raises(ModelFileError, match=r"file\.txt is a file; a saved model is a directory"):
        load(tmp_path / "file.txt")
    with pytest.raises(ModelFileError, match=r"Give its directory, .*model\.$"):
        load(folder / "model.json")
    with pytest.raises(ModelFileError, match=r"is no saved model: there is no model\.json in it"):
        load(tmp_path)


@pytest.mark.parametrize("part", ["learned", "seen", "users", "items"])
def test_missing_cut_and_changed_files(folder, part):
    path = next(folder.glob(f"{part}-*"))
    raw = path.read_bytes()
    for content, what in (
        (raw[:-1], "bytes, .* were written: it was cut off"),
        (raw + b"x", "were written"),
        (b"", "has 0 bytes"),
    ):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=what):
            load(folder)
        with pytest.raises(ModelFileError, match=what):
            inspect(folder)
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    with pytest.raises(ModelFileError, match="its checksum differs"):
        load(folder, verify=True)
    with pytest.raises(ModelFileError, match="its checksum differs"):
        inspect(folder, verify=True)
    if path.suffix == ".parquet":  # read in full anyway, so always checked
        with pytest.raises(ModelFileError, match="its checksum differs"):
            load(folder)
    elif part == "learned":
        with pytest.raises(ModelFileError, match="its checksum differs"):
            load(folder)
        load(folder, verify=False)  # a number that is no index
    path.unlink()
    with pytest.raises(ModelFileError, match=r"is missing, .*the model is not complete"):
        load(folder)


@given(st.data())
def test_no_flipped_bit_goes_unseen(tmp_path_factory, old, data):
    folder = tmp_path_factory.mktemp("flipped") / "model"
    save(old, folder)
    path = data.draw(st.sampled_from(sorted(folder.iterdir(), key=lambda path: path.name.partition("-")[0])))
    raw = bytearray(path.read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(raw)
    with pytest.raises(ModelFileError):
        load(folder, verify=True)


@given(st.data())
def test_any_damage_without_verify_is_our_own_error_or_none(tmp_path_factory, old, data):
    folder = tmp_path_factory.mktemp("flipped") / "model"
    save(old, folder)
    path = next(folder.glob(data.draw(st.sampled_from(["learned-*", "seen-*"]))))
    raw = bytearray(path.read_bytes())
    end = 8 + int.from_bytes(raw[:8], "little")
    raw[data.draw(st.integers(0, end + 100))] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    with contextlib.suppress(ModelFileError):
        load(folder)
