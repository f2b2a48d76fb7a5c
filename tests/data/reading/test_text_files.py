"""Encodings of text files: recognized, given by name, named in the error where they are neither."""

import gzip

import pytest

from tastespace import Interactions
from tastespace.data.reading._text_files import likely_encoding
from tastespace.errors import DataError, ParameterError

TEXT = "user,item\nann,café\nbob,crème\nann,crème\n"


def items_of(path, **arguments):
    return Interactions.from_file(path, **arguments).items.series.to_list()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("packed", [False, True])
def test_unicode_is_recognized(tmp_path, encoding, packed):
    path = tmp_path / "a.csv"
    raw = TEXT.encode(encoding)
    path.write_bytes(gzip.compress(raw) if packed else raw)
    assert items_of(path) == ["café", "crème"]


@pytest.mark.parametrize(("encoding", "other"), [("cp1252", "café"), ("shift_jis", "日本"), ("cp1251", "мир")])
def test_other_encodings_are_given_by_name(tmp_path, encoding, other):
    path = tmp_path / "a.csv"
    path.write_bytes(f"user;item\nann;{other}\nbob;b\n".encode(encoding))
    assert items_of(path, encoding=encoding) == sorted([other, "b"])


@pytest.mark.parametrize("text", [TEXT, "user,Stück\nann,a\nbob,b\n"])
def test_the_error_names_the_likely_encoding(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode("cp1252"))
    with pytest.raises(
        DataError, match=r"not UTF-8 \(line \d holds the byte 0x\w\w\), most likely cp1252.*--encoding cp1252"
    ):
        Interactions.from_file(path, item="Stück" if "Stück" in text else "item")


def test_guesses():
    assert likely_encoding("日本語の本".encode("shift_jis")) == "shift_jis"
    assert likely_encoding("Война и мир".encode("cp1251")) == "cp1251"
    assert likely_encoding(b"caf\xe9 \x81") == "iso8859-1"  # cp1252 does not have the last byte


def test_a_wrong_encoding_is_an_error(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(TEXT, encoding="utf-8")
    with pytest.raises(DataError, match=r"the text is not ascii .*most likely utf-8"):
        Interactions.from_file(path, encoding="ascii")
    for name in ("klingon", "hex", "", 5):
        with pytest.raises(ParameterError, match="encoding="):
            Interactions.from_file(path, encoding=name)
