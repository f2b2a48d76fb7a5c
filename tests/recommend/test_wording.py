"""Templates of sentences for customers: placeholders, plural forms, files, mistakes."""

from __future__ import annotations

import pytest

import tastespace as ts
from tastespace.errors import ParameterError
from tastespace.recommend.wording import ENGLISH, Wording


def said(wording, n, past=("A", "B")):
    return wording.sentence(list(past), others=n, others_any=n + 5, item="I", user="u")


def counted(**forms):
    """Templates whose sentences are the given forms, with the past items in front."""
    past = {"two": "{first} {second} ", "one": "{first} ", "none": ""}
    return {key: {form: start + text for form, text in forms.items()} for key, start in past.items()}


def test_english():
    words = ts.Wording()
    assert said(words, 140) == "Because you took A and B, like 140 others who took this."
    assert said(words, 1) == "Because you took A and B, like one other who took this."
    assert said(words, 0) == "Because you took A and B."
    assert said(words, 2, ["A"]) == "Because you took A, like 2 others who took this."
    assert [said(words, n, []) for n in (0, 1, 9)] == [
        "Nobody else has taken this yet.", "One other took this.", "9 others took this.",
    ]  # fmt: skip
    assert words.already_has("I", "u") == "You have this already."
    assert (words.interest_name(["A", "B"]), words.interest_name(["A"])) == ("like A and B", "like A")
    assert words.templates == ENGLISH


def test_titles_are_written_as_they_are():
    assert said(Wording(), 0, ["{first} & {x}", "{}"]) == "Because you took {first} & {x} and {}."


def test_all_placeholders():
    text = "{first}/{second}/{others}/{others_any}/{item}/{user}"
    words = Wording({**ENGLISH, "two": dict.fromkeys(("zero", "one", "other"), text)})
    assert said(words, 3) == "A/B/3/8/I/u"


@pytest.mark.parametrize(
    ("plural", "forms"),
    [
        ("english", {1: "one", 2: "other", 5: "other", 21: "other", 101: "other"}),
        ("japanese", {1: "other", 2: "other", 21: "other"}),
        ("czech", {1: "one", 2: "few", 4: "few", 5: "other", 22: "other"}),
        (
            "polish",
            {1: "one", 2: "few", 4: "few", 5: "many", 12: "many", 21: "many", 22: "few", 112: "many", 124: "few"},
        ),
        ("russian", {1: "one", 2: "few", 5: "many", 11: "many", 12: "many", 21: "one", 22: "few", 111: "many"}),
    ],
)
def test_plural_forms(plural, forms):
    texts = {form: f"{form} {{others}}" for form in {"zero", *forms.values()}}
    words = Wording({**ENGLISH, "plural": plural, **counted(**texts)})
    assert {n: said(words, n, []).split()[0] for n in forms} == forms
    assert said(words, 0, []) == "zero 0"


def test_a_file(tmp_path):
    path = tmp_path / "de.toml"
    path.write_text(
        """
seen = "Schon da."
name_two = "wegen {first} und {second}"
name_one = "wegen {first}"
[two]
zero = "Weil {first} und {second}."
one = "Weil {first} und {second}, wie eine andere Person."
other = "Weil {first} und {second}, wie {others} andere."
[one]
zero = "Weil {first}."
one = "Weil {first}, wie eine andere Person."
other = "Weil {first}, wie {others} andere."
[none]
zero = "Ganz neu für uns."
one = "Einmal genommen."
other = "{others}-mal genommen."
""",
        encoding="utf-8",
    )
    for given in (path, str(path), Wording.read(path), Wording.read(path).templates):
        words = Wording.of(given)
        assert said(words, 7) == "Weil A und B, wie 7 andere."
        assert said(words, 0, []) == "Ganz neu für uns."
    assert Wording.of(None).templates == ENGLISH


MISTAKES = [
    (
        {"seen": "{itme}"},
        r"seen = '\{itme\}' has the unknown placeholder \{itme\}; known there are .*Did you mean item",
    ),
    ({"seen": "{first}"}, r"unknown placeholder \{first\}"),
    ({"name_two": "{first}"}, r"name_two = '\{first\}' lacks the placeholder \{second\}"),
    ({"one": {**ENGLISH["one"], "zero": "Because."}}, r"one.zero = 'Because.' lacks the placeholder \{first\}"),
    ({"none": {**ENGLISH["none"], "other": "Many."}}, r"none.other = 'Many.' stands for several numbers"),
    ({"none": {"zero": "x", "other": "{others}"}}, r"none, with the plural rule 'english', has no one: expected"),
    ({"none": {**ENGLISH["none"], "few": "x"}}, r"has 'few'; expected only zero, one, other"),
    ({"plural": "polish"}, r"two, with the plural rule 'polish', has 'other'; expected only zero, one, few, many"),
    ({"plural": "klingon"}, "plural='klingon': expected one of english, japanese"),
    ({"plural": 3}, "plural=3: expected one of"),
    ({"sean": "x"}, r"the wording has 'sean'; expected only .*Did you mean seen"),
    ({"seen": "a {"}, r"seen = 'a \{' cannot be read"),
    ({"seen": "{item:>9}"}, r"expected a plain placeholder such as \{item\}"),
    ({"seen": "{item.real}"}, r"unknown placeholder \{item.real\}"),
    ({"seen": "{}"}, r"unknown placeholder \{\}"),
    ({"seen": " "}, "seen = ' ': expected a text"),
    ({"seen": 3}, "seen = 3: expected a text"),
    ({"two": "x"}, "two='x': expected a template for each of zero, one, other"),
]


@pytest.mark.parametrize(("change", "message"), MISTAKES)
def test_mistakes_are_refused(change, message):
    with pytest.raises(ParameterError, match=message):
        Wording({**ENGLISH, **change})


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(ParameterError, match="the wording has no two, one, none, name_two, name_one: expected"):
        Wording({"seen": "x"})
    with pytest.raises(ParameterError, match="expected a Wording, a dict of templates or the name of a file"):
        Wording.of(3)
    with pytest.raises(ParameterError, match=r"no\.toml: cannot be read"):
        Wording.read(tmp_path / "no.toml")
    (tmp_path / "bad.toml").write_text("seen = ")
    with pytest.raises(ParameterError, match=r"bad\.toml: expected a TOML file"):
        Wording.read(tmp_path / "bad.toml")
    (tmp_path / "few.toml").write_text('seen = "x"')
    with pytest.raises(ParameterError, match=r"few\.toml: the wording has no two"):
        Wording.read(tmp_path / "few.toml")
