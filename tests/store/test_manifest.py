"""model.json: its own checksum, its format and version, and every field of the expected type."""

import contextlib
import json
import re
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.model_equality import is_same_model

import tastespace
from tastespace import EASE
from tastespace.errors import ModelFileError
from tastespace.store import inspect, load, save
from tastespace.store._manifest import checksum, manifest_text, parse


@pytest.fixture
def folder(tmp_path, old):
    save(old, tmp_path / "model", metrics={"P@3": 12.5, "MRR": float("nan")})
    return tmp_path / "model"


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory, old):
    """A saved model, its folder, and the text of its model.json."""
    folder = tmp_path_factory.mktemp("unchanged") / "model"
    save(old, folder)
    return folder, (folder / "model.json").read_bytes()


def rewrite(folder, change):
    """Change the content and give it a right checksum again, as another program would."""
    content = json.loads((folder / "model.json").read_text())
    change(content)
    content["crc32"] = "00000000"
    text = json.dumps(content).encode()
    (folder / "model.json").write_bytes(text.replace(b"00000000", checksum(text).encode(), 1))


def test_it_says_what_is_in_the_directory(folder, old):
    content = json.loads((folder / "model.json").read_text(), parse_constant=pytest.fail)
    assert list(content)[:5] == ["format", "format_version", "crc32", "tastespace", "created"]
    assert content["format"] == "tastespace-model"
    assert content["format_version"] == 1
    assert content["tastespace"] == tastespace.__version__
    age = datetime.now(timezone.utc) - datetime.fromisoformat(content["created"].replace("Z", "+00:00"))
    assert timedelta(0) <= age < timedelta(days=1)
    assert content["class"] == "dpcml"
    assert content["data"]["fingerprint"] == old.train_.fingerprint()
    for entry in content["files"].values():
        raw = (folder / entry["name"]).read_bytes()
        assert (entry["bytes"], entry["crc32"]) == (len(raw), checksum(raw))
    assert str(folder) not in (folder / "model.json").read_text()


def test_the_checksum_is_that_of_the_text_with_zeros_in_its_place(folder):
    text = (folder / "model.json").read_bytes()
    noted = json.loads(text)["crc32"]
    assert checksum(re.sub(rb'("crc32": ")[0-9a-f]{8}', rb"\g<1>00000000", text, count=1)) == noted


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"", "is damaged: it is not JSON"),
        (b"{", "is damaged: it is not JSON"),
        (b'{"format": NaN}', "is damaged: it is not JSON .NaN"),
        (b"\xff\xff", "is damaged: it is not JSON"),
        (b"[" * 100_000, "is damaged: it is not JSON"),
        (b"[]", "does not belong to a tastespace model"),
        (b'{"format": "keras"}', "does not belong to a tastespace model"),
        (b'{"format": "tastespace-model"}', "is damaged: format_version is None"),
        (b'{"format": "tastespace-model", "format_version": true}', "is damaged: format_version is True"),
        (b'{"format": "tastespace-model", "format_version": 0}', "is damaged: format_version is 0"),
        (b'{"format": "tastespace-model", "format_version": 1}', "is damaged: it was changed"),
        (b'{"format": "tastespace-model", "format_version": 1, "crc32": 7}', "is damaged: it was changed"),
    ],
)
def test_a_text_that_is_no_manifest(folder, text, what):
    (folder / "model.json").write_bytes(text)
    for read in (load, inspect):
        with pytest.raises(ModelFileError, match=rf"model\.json {what}"):
            read(folder)


def test_a_newer_format_says_who_wrote_it_and_what_to_do(folder):
    rewrite(folder, lambda content: content.update(format_version=2, tastespace="9.1.0", files="elsewhere"))
    with pytest.raises(ModelFileError, match=r"format 2, written by tastespace 9\.1\.0.*up to 1\. Upgrade tastespace"):
        load(folder)


def test_one_changed_digit_is_found_without_verify(folder):
    text = (folder / "model.json").read_text()
    (folder / "model.json").write_text(text.replace('"dim": 6', '"dim": 7'))
    with pytest.raises(ModelFileError, match=r"changed after it was written"):
        load(folder)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda c: c.pop("class"), "class is 'None'"),
        (lambda c: c.update(parameters=[]), "parameters is"),
        (lambda c: c.pop("metrics"), "metrics is 'None'"),
        (lambda c: c["data"].update(users="7"), r"data\.users is '7'"),
        (lambda c: c["data"].update(items=True), r"data\.items is 'True'"),
        (lambda c: c["data"].update(interactions=-1), r"data\.interactions is negative"),
        (lambda c: c["vectors"].pop("count"), r"vectors\.count"),
        (lambda c: c["files"].pop("seen"), r"files\.seen"),
        (
            lambda c: c["files"]["seen"].update(name="../seen-0123456789abcdef.safetensors"),
            "the file of seen is called",
        ),
        (lambda c: c["files"]["seen"].update(name=c["files"]["learned"]["name"]), "the file of seen is called"),
        (lambda c: c["files"]["users"].update(bytes="12"), "the file of users has the size '12'"),
    ],
)
def test_fields_of_another_kind_are_refused(folder, change, what):
    rewrite(folder, change)
    with pytest.raises(ModelFileError, match=rf"model\.json is damaged: .*{what}"):
        load(folder)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda c: c["data"].update(users=39), "holds 40 user ids, model.json says 39"),
        (lambda c: c["data"].update(interactions=3), "expected .* 3 interactions"),
        (lambda c: c["data"].update(item_attributes=["color"]), "has the columns"),
        (lambda c: c["learned"]["item_vectors_"].update(shape=[3, 6]), "The files belong to different models"),
        (lambda c: c["learned"]["item_vectors_"].update(dtype="I32"), "The files belong to different models"),
        (lambda c: c.update({"class": "ease"}), "but this version's EASE has no such parameter"),
        (lambda c: c.update({"class": "sasrec"}), "class 'sasrec', which this version of tastespace does not have"),
    ],
)
def test_counts_and_names_that_do_not_fit_the_files(folder, change, what):
    rewrite(folder, change)
    with pytest.raises(ModelFileError, match=what):
        load(folder)


@given(st.data())
def test_no_change_of_the_text_goes_unseen(unchanged, old, data):
    folder, text = unchanged
    raw = bytearray(text)
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    del raw[data.draw(st.one_of(st.just(len(raw)), st.integers(0, len(raw)))) :]
    (folder / "model.json").write_bytes(raw)
    try:
        loaded = load(folder, verify=True)
    except ModelFileError:
        return
    assert is_same_model(loaded, old)


anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 100),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
        st.sampled_from(["dpcml", "ease", "os:path", "F32", "item_vectors_", "nan"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["$array", "$csr", "$dict", "$float", "$numpy", "$path", "$tuple", "value", "shape", "x"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)


def places(content, at=()):
    """All paths into nested dicts and lists."""
    yield at
    inside = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, part in inside:
        yield from places(part, (*at, key))


@given(st.data())
def test_any_other_value_in_any_field_ends_in_our_own_error(unchanged, data):
    folder, text = unchanged
    (folder / "model.json").write_bytes(text)
    every = [place for place in places(json.loads(text)) if place]
    *outer, last = data.draw(st.sampled_from(every))

    def change(content):
        for key in outer:
            content = content[key]
        content[last] = data.draw(anything)

    rewrite(folder, change)
    for read in (load, inspect):
        with contextlib.suppress(ModelFileError):
            read(folder, verify=True)


def test_text_and_parse_are_inverse(folder, tmp_path, parts):
    content = json.loads((folder / "model.json").read_text())
    del content["crc32"]
    again = parse(manifest_text({**content, "metrics": {"odd \ud800 \u2028": 1}}), folder)
    assert again["metrics"] == {"odd \ud800 \u2028": 1}
    save(EASE().fit(parts[0]), tmp_path / "linear")
    assert inspect(tmp_path / "linear")["vectors"] is None
