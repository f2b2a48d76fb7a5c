"""`tastespace recommend`, `shelves`, `interests`, `map`, `explain` and `similar`."""

import io
import json
from pathlib import Path

import matplotlib.image
import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.models.content_knn import ContentKNN
from tastespace.models.dropoutnet import DPCMLDN


@pytest.fixture(scope="module")
def model(shop):
    return ts.load(shop.model)


@pytest.fixture(scope="module")
def popular(shop, tmp_path_factory):
    """A model without vectors."""
    path = tmp_path_factory.mktemp("popular") / "popular.model"
    data = ts.Interactions.from_file(shop.clicks, user="who", item="what", threads=1)
    ts.MostPopular().fit(data).save(path)
    return path


# ---- recommend ---------------------------------------------------------------------------------------------


def read(text, format):
    readers = {
        "csv": lambda: pl.read_csv(text.encode()),
        "json": lambda: pl.DataFrame(json.loads(text)),
        "jsonl": lambda: pl.read_ndjson(text.encode()),
    }
    return readers[format]()


def same_rows(one, other):
    columns = ["user", "item", "rank", "interest"]
    assert one.select(columns).rows() == other.select(columns).rows()
    for column in ("score", "distance"):
        assert one[column].to_list() == pytest.approx(other[column].to_list(), rel=1e-6)


@pytest.mark.parametrize("format", ["csv", "json", "jsonl"])
def test_lists_come_in_every_format(stdout_of, shop, model, format):
    text = stdout_of("recommend", shop.model, "u03", "u01", "-k", 4, "--format", format)
    same_rows(read(text, format), model.recommend(["u03", "u01"], k=4))


def test_parquet_goes_through_a_pipe(run, shop, model):
    raw = run("recommend", shop.model, "u03", "-k", 4, "--format", "parquet").raw
    assert pl.read_parquet(io.BytesIO(raw)).equals(model.recommend(["u03"], k=4))


def test_in_a_pipe_lists_are_csv(stdout_of, shop):
    lines = stdout_of("recommend", shop.model, "u03", "-k", 2).splitlines()
    assert lines[0] == "user,item,rank,score,distance,interest"
    assert len(lines) == 3


def test_a_table_has_titles(stdout_of, shop, model):
    text = stdout_of("recommend", shop.model, "u03", "-k", 3, "--format", "table")
    attributes = model.train_.item_attributes
    for item in model.recommend(["u03"], k=3)["item"]:
        assert attributes.filter(item=item)["title"].item() in text
    assert "distance" in text
    assert "score" not in text  # the same but for the sign


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "json"])
def test_lists_of_all_users_go_into_a_file(stdout_of, shop, model, tmp_path, ending):
    path = tmp_path / "new folder" / f"all.{ending}"
    assert stdout_of("recommend", shop.model, "-k", 3, "--out", path) == ""
    found = pl.read_parquet(path) if ending == "parquet" else read(path.read_text(encoding="utf-8"), ending)
    same_rows(found, model.recommend(k=3))
    assert found["user"].n_unique() == 60


def test_lists_of_all_users_are_streamed(stdout_of, shop, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("all lists at once")

    monkeypatch.setattr(ts.DPCML, "recommend", fail)
    stdout_of("recommend", shop.model, "--out", "all.parquet", "--filter", "year < 2000", "-k", 2)
    rows = pl.read_parquet("all.parquet")
    assert rows.height == 120
    assert rows["item"].str.slice(1).cast(pl.Int64).max() < 20


def test_a_format_counts_more_than_the_ending(stdout_of, shop):
    stdout_of("recommend", shop.model, "u03", "-k", 2, "--format", "json", "--out", "list.txt")
    with open("list.txt", encoding="utf-8") as file:  # noqa: PTH123
        assert len(json.load(file)) == 2


def test_filters_and_choices_reach_the_model(stdout_of, shop, model):
    def items(*flags):
        return pl.read_csv(stdout_of("recommend", shop.model, "u03", *flags).encode())["item"].to_list()

    assert set(items("--item", "i05", "--item", "i06", "--include-seen")) == {"i05", "i06"}
    assert items("--filter", "title LIKE 'jam%'", "-k", 3) == [
        *model.recommend(["u03"], k=3, filter="title LIKE 'jam%'")["item"]
    ]
    had = set(model.train_.items_of("u03"))
    assert not had & set(items("-k", 50))
    assert had < set(items("-k", 50, "--include-seen"))


@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        (("--mix", "scaled"), {"mix": "scaled"}),
        (("--mix", "proportional", "--diversity", 0.5), {"mix": "proportional", "diversity": 0.5}),
        (("--diversity", 0.7), {"diversity": 0.7}),
        (("--mix", "calibrated", "--column", "interest"), {"mix": "calibrated", "column": "interest"}),
    ],
)
def test_lists_can_be_mixed(stdout_of, shop, model, flags, arguments):
    some = pl.read_csv(stdout_of("recommend", shop.model, "u03", "u05", *flags, "-k", 6).encode())
    same_rows(some, model.recommend(["u03", "u05"], k=6, **arguments))
    stdout_of("recommend", shop.model, *flags, "-k", 6, "--out", "mixed.parquet")
    assert pl.read_parquet("mixed.parquet").equals(model.recommend(k=6, **arguments))


def test_interests_of_one_user_can_be_muted_and_boosted_in_lists(stdout_of, shop, model):
    def rows(*words):
        return pl.read_csv(stdout_of("recommend", shop.model, *words, "-k", 6).encode())

    same_rows(rows("u03", "--mute", 0), model.recommend("u03", k=6, mute=[0]))
    same_rows(rows("u03", "--boost", "1=3"), model.recommend("u03", k=6, boost={1: 3.0}))
    both = model.recommend_for([["i03", "i05", "i07"]], k=6, mute=[0], boost={1: 2.0})
    same_rows(rows("--history", "i03,i05,i07", "--mute", 0, "--boost", "1=2"), both)


def test_a_new_user_is_given_by_a_history(stdout_of, shop, model):
    text = stdout_of("recommend", shop.model, "--history", "i03, i05", "--history", "i07", "-k", 2)
    same_rows(pl.read_csv(text.encode()), model.recommend_for([["i03", "i05"], ["i07"]], k=2))


def test_unknown_users_and_items_can_be_left_out(stdout_of, shop):
    def users(*words):
        return pl.read_csv(stdout_of("recommend", shop.model, *words, "-k", 1).encode(), infer_schema=False)[
            "user"
        ].to_list()

    assert users("zoe", "u03", "--on-unknown", "skip") == ["u03"]
    assert users("zoe", "u03", "--on-unknown", "popular") == ["zoe", "u03"]
    assert users("zoe", "--on-unknown", "skip") == []
    assert users("--history", "i03,cake", "--on-unknown", "skip") == ["0"]


def test_lists_can_be_re_ranked_for_variety(stdout_of, shop, model):
    def items(*flags):
        return pl.read_csv(stdout_of("recommend", shop.model, *flags, "-k", 5).encode())["item"].to_list()

    assert items("u03", "--rerank", "mmr", "--weight", 0) == items("u03")
    expected = ts.rerank(model.recommend(["u03"], k=12), model, "mmr", 5, 0.9)
    assert items("u03", "--rerank", "mmr", "--weight", 0.9, "--pool", 12) == expected["item"].to_list()
    assert items("--history", "i03,i05", "--rerank", "mmr", "--weight", 0) == items("--history", "i03,i05")


@pytest.fixture
def numbered(shop, tmp_path):
    """The same shop with whole numbers for ids."""
    data = ts.Interactions.from_frame(
        pl.read_parquet(shop.clicks).select(
            user=pl.col("who").str.slice(1).cast(pl.Int32), item=pl.col("what").str.slice(1).cast(pl.UInt16)
        ),
        threads=1,
    )
    ts.CML(dim=4, epochs=2, threads=1).fit(data).save(tmp_path / "numbered.model")
    return tmp_path / "numbered.model"


def test_ids_that_are_numbers_are_typed_as_text(stdout_of, error_of, numbered):
    rows = pl.read_csv(stdout_of("recommend", numbered, "7", "-k", 1).encode())
    assert rows["user"].to_list() == [7]
    assert json.loads(stdout_of("explain", numbered, "7", str(rows["item"][0])))["rank"] == 1
    assert stdout_of("recommend", numbered, "zoe", "7", "-k", 1, "--on-unknown", "skip").count("\n") == 2
    assert stdout_of("recommend", numbered, "--history", "3,zoe", "-k", 1, "--on-unknown", "skip").count("\n") == 2
    assert "'zoe' (str)" in error_of("recommend", numbered, "zoe", "7")
    assert "'zoe' (str)" in error_of("recommend", numbered, "--history", "zoe")
    assert "'7.5' (str)" in error_of("recommend", numbered, "7.5")
    assert "'99999999999' (str)" in error_of("recommend", numbered, "99999999999")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("u99",), "1 of 1 user ids are unknown, the first is 'u99' (str)"),
        (("u003",), "Did you mean u03"),
        (("u03", "--history", "i03"), "give user ids, --history or --features, not several"),
        (("--history", "i98,i99"), "2 of 2 item ids are unknown, the first is 'i98'"),
        (("--history", ","), "1 histories hold no item of the model"),
        (("u03", "--item", "i99"), "the first is 'i99'"),
        (("u03", "--filter", "year > 3000"), "leaves none of the 50 items"),
        (("u03", "--filter", "yaer > 3000"), "Did you mean year"),
        (("u03", "--filter", "((("), "cannot be read"),
        (("u03", "-k", "0"), "-k 0: expected"),
        (("u03", "--on-unknown", "ignore"), "--on-unknown ignore: expected"),
        (("u03", "--threads", "-1"), "--threads -1: expected 0 (all cores)"),
        (("u03", "--rerank", "mrm"), "Did you mean mmr?"),
        (("u03", "--rerank", "mmr", "--weight", "2"), "--weight 2.0: expected"),
        (("u03", "--mix", "proportinal"), "Did you mean proportional?"),
        (("u03", "--diversity", "2"), "--diversity 2.0: expected a number from 0"),
        (("u03", "u05", "--mute", "1"), "--mute and --boost concern one user: give one user id or one --history."),
        (("--boost", "1=2"), "--mute and --boost concern one user"),
        (("u03", "--mute", "77"), "interest 77 was named, but user 'u03' has the interests 0 to"),
        (("u03", "--mute", "77"), "; tastespace interests MODEL USER lists them."),
        (("u03", "--boost", "1"), "--boost 1: expected interest=number"),
        (
            ("u03", "--boost", "1=2", "--mix", "scaled"),
            "--boost multiplies the weights of interests, which --mix scaled does not use. Use --mix proportional, or "
            "--mix calibrated with --column interest.",
        ),
        (("u03", "--boost", "0=-1"), "--boost 0=-1.0: expected positive factors; --mute leaves an interest out."),
        (("u03", "--rules", "none.toml"), "rules none.toml: cannot be read (No such file"),
        (("u03", "--rules", "none.toml", "--rerank", "mmr"), "cannot be read"),
        (("u03", "--title-column", "titel"), "--title-column titel: there is no item attribute 'titel'"),
        (("u03", "--rerank", "mmr", "--mix", "scaled"), "--rerank reorders the plain list"),
        (("u03", "--out", "list.txt"), "ends in .json, .jsonl, .csv, .parquet, or --format"),
        (("u03", "--out", "list.csv", "--format", "table"), "a table is formatted for a terminal"),
        (("--out", "/proc/none/all.parquet"), "could not be written"),
        (("u03", "--out", "/proc/none/all.csv"), "cannot be written"),
    ],
)
def test_what_cannot_be_recommended_is_refused_in_one_line(error_of, shop, words, message):
    assert message in error_of("recommend", shop.model, *words)


def test_a_model_that_is_not_there(error_of, shop):
    assert "Did you mean shop.model" in error_of("recommend", shop.folder / "shop.modle", "u03")
    assert "no such directory" in error_of("recommend", "none.model", "u03")
    assert "is no saved model" in error_of("recommend", shop.folder, "u03")
    assert "is a file" in error_of("recommend", shop.clicks, "u03")


# ---- rules and titles --------------------------------------------------------------------------------------


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text('exclude = ["i07", "i99"]\npinned = ["i31"]\n[max_per]\ngenres = 2\n')
    return path


def test_rules_from_a_file_hold_in_lists_files_and_shelves(run, shop, model, rules, tmp_path):
    given = ts.Rules(exclude=["i07", "i99"], pinned=["i31"], max_per={"genres": 2})
    done = run("recommend", shop.model, "u03", "u05", "-k", 2, "--rules", rules, "--mix", "proportional")
    assert done.code == 0
    assert "unknown item ids are ignored: 1 in exclude (such as 'i99')" in " ".join(done.err.split())
    same_rows(read(done.out, "csv"), model.recommend(["u03", "u05"], k=2, rules=given, mix="proportional"))
    history = run("recommend", shop.model, "--history", "i03,i05", "-k", 2, "--rules", rules)
    same_rows(read(history.out, "csv"), model.recommend_for([["i03", "i05"]], k=2, rules=given))
    assert run("recommend", shop.model, "-k", 2, "--rules", rules, "--out", "all.parquet").code == 0
    assert pl.read_parquet("all.parquet").equals(model.recommend(k=2, rules=given))
    shelves = run("shelves", shop.model, "u03", "-k", 2, "--rules", rules)
    assert (
        read(shelves.out, "csv")["item"].to_list() == model.shelves("u03", 2, rules=given).to_frame()["item"].to_list()
    )
    assert "--rerank reorders a list, after which it may break --rules" in run(
        "recommend", shop.model, "u03", "--rules", rules, "--rerank", "mmr"
    ).err.replace("\n", " ")


def test_ids_in_rules_have_the_type_of_the_models(run, tmp_path):
    numbers = pl.DataFrame({"user": [1, 1, 2, 2], "item": [10, 11, 11, 12]})
    ts.EASE().fit(numbers).save(tmp_path / "numbers.model")
    (tmp_path / "rules.toml").write_text('exclude = ["10"]\n')
    rows = pl.read_csv(run("recommend", "numbers.model", "--rules", "rules.toml").out.encode())
    assert 10 not in rows["item"].to_list()


def test_titles_are_in_rows_where_they_are_asked_for(stdout_of, shop, model, tmp_path):
    titles = dict(model.train_.item_attributes.select("item", "title").rows())
    for format in ("csv", "json", "jsonl"):
        rows = read(stdout_of("recommend", shop.model, "u03", "-k", 4, "--titles", "--format", format), format)
        assert rows.columns[:4] == ["user", "item", "title", "rank"]
        assert [titles[item] for item in rows["item"]] == rows["title"].to_list()
        shelves = read(stdout_of("shelves", shop.model, "u03", "-k", 4, "--titles", "--format", format), format)
        assert [titles[item] for item in shelves["item"]] == shelves["title"].to_list()
    stdout_of("recommend", shop.model, "-k", 2, "--title-column", "year", "--out", "all.csv")
    streamed = pl.read_csv("all.csv")
    assert streamed["title"].to_list() == [1980 + int(item[1:]) for item in streamed["item"]]
    ranked = read(stdout_of("recommend", shop.model, "u03", "-k", 2, "--rerank", "mmr", "--titles"), "csv")
    assert [titles[item] for item in ranked["item"]] == ranked["title"].to_list()
    table = stdout_of("recommend", shop.model, "u03", "-k", 2, "--format", "table", "--title-column", "genres")
    assert "|food" in table
    table = stdout_of("shelves", shop.model, "u03", "-k", 2, "--format", "table", "--title-column", "genres")
    assert "|food" in table


# ---- shelves and interests ---------------------------------------------------------------------------------


def test_shelves_for_programs_are_the_librarys(stdout_of, shop, model):
    rows = pl.read_csv(stdout_of("shelves", shop.model, "u03", "-k", 3).encode())
    expected = model.shelves("u03", 3).to_frame()
    assert (
        rows.select("user", "shelf", "item", "rank").rows() == expected.select("user", "shelf", "item", "rank").rows()
    )


def test_shelves_as_text_have_names_reasons_and_titles(stdout_of, shop, model):
    text = stdout_of("shelves", shop.model, "u03", "-k", 2, "--format", "table")
    for shelf in model.shelves("u03", 2):
        reasons = shelf.because_titles if shelf.label else ()  # else they are the name
        for word in (shelf.name, f"{100 * shelf.weight:.0f} % of the history", *shelf.titles, *reasons):
            assert word in text


def test_interests_can_be_muted_and_boosted(stdout_of, shop, model):
    strongest = model.shelves("u03", 4)[0].interest

    def rows(*flags):
        return pl.read_csv(stdout_of("shelves", shop.model, "u03", "-k", 4, *flags).encode())

    assert rows().filter(shelf=1).height == 4
    assert rows().filter(interest=strongest).height > 0
    assert rows("--mute", strongest).filter(interest=strongest).height == 0
    assert rows("--boost", f"{strongest}=1.5").filter(shelf=1).height == 6


def test_shelves_are_named_by_the_given_column(stdout_of, shop):
    rows = pl.read_csv(stdout_of("shelves", shop.model, "u03", "--column", "title").encode())
    assert rows["name"].str.starts_with("like ").all()  # no title is shared by a fifth of an interest


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--boost", "2"), "--boost 2: expected interest=number, such as --boost 2=1.5."),
        (("--boost", "one=2"), "--boost one=2: expected"),
        (("--boost", "1=much"), "--boost 1=much: expected"),
        (("--boost", "0=-1"), "--boost 0=-1.0: expected positive factors; --mute leaves an interest out."),
        (("--boost", "0=nan"), "expected positive factors"),
        (("--mute", "77"), "interest 77 was named, but this user has the interests 0 to"),
        (("--rules", "none.toml"), "rules none.toml: cannot be read"),
        (("--title-column", "titel"), "Did you mean title?"),
        (("--column", "genre"), "Did you mean genres?"),
        (("--picture", "shelves.gif"), "ends in .png, .svg, .pdf"),
        (("--filter", "year = 1"), "leaves none"),
    ],
)
def test_shelves_that_cannot_be_filled(error_of, shop, flags, message):
    assert message in error_of("shelves", shop.model, "u03", *flags)


def test_interests_as_rows_and_as_a_table(stdout_of, shop, model):
    rows = [
        json.loads(line)
        for line in stdout_of("interests", shop.model, "u03", "-k", 2, "--format", "jsonl").splitlines()
    ]
    assert rows == model.interests("u03", 2).to_dicts()
    csv = pl.read_csv(stdout_of("interests", shop.model, "u03", "-k", 2).encode())
    assert csv["nearest"][0] == "|".join(rows[0]["nearest"])
    table = stdout_of("interests", shop.model, "u03", "-k", 2, "--format", "table")
    titles = dict(model.train_.item_attributes.select("item", "title").rows())
    assert ", ".join(titles[item] for item in rows[0]["nearest"]) in table


# ---- pictures ----------------------------------------------------------------------------------------------


def test_pictures_are_drawn_and_their_path_is_printed(stdout_of, shop):
    assert stdout_of("map", shop.model, "u03", "--out", "pictures/map.png") == "pictures/map.png\n"
    assert stdout_of("shelves", shop.model, "u03", "--picture", "shelves.png") == "shelves.png\n"
    for path in ("pictures/map.png", "shelves.png"):
        red, green, blue = np.rint(255 * matplotlib.image.imread(path)[..., :3]).astype(np.int64).reshape(-1, 3).T
        assert len(np.unique((red << 16) | (green << 8) | blue)) > 10


def test_a_map_shows_only_what_the_filter_lets_through(stdout_of, shop):
    stdout_of("map", shop.model, "u03", "--out", "map.svg", "--filter", "title LIKE 'tea%'")
    with open("map.svg", encoding="utf-8") as file:  # noqa: PTH123
        text = file.read()
    assert "tea no. " in text
    assert "oil no. " not in text


def test_a_map_that_cannot_be_drawn(error_of, shop, popular):
    assert "ends in .png, .svg, .pdf" in error_of("map", shop.model, "u03", "--out", "map.jpeg")
    assert "cannot be written" in error_of("map", shop.model, "u03", "--out", "/proc/none/map.png")
    assert "ids are unknown" in error_of("map", shop.model, "u99", "--out", "map.png")
    assert "has no taste map" in error_of("map", popular, "u03", "--out", "map.png")


# ---- explain and similar -----------------------------------------------------------------------------------


TOUR = Path(__file__).parents[2] / "docs" / "tour.md"
GERMAN = TOUR.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]  # the example in the docs


def test_an_explanation_as_json_and_as_text(stdout_of, shop, model):
    expected = model.explain("u03", "i05", 3)
    assert json.loads(stdout_of("explain", shop.model, "u03", "i05", "-k", 3)) == expected.to_dict()
    assert stdout_of("explain", shop.model, "u03", "i05", "-k", 3, "--format", "table") == f"{expected}\n"
    row = pl.read_csv(stdout_of("explain", shop.model, "u03", "i05", "-k", 3, "--format", "csv").encode()).row(
        0, named=True
    )
    assert row["beside"] == "|".join(item for item, _, _ in expected.beside)
    assert (row["rank"], row["rank_without"]) == (expected.rank, expected.rank_without)


def test_an_explanation_in_words(stdout_of, error_of, shop, model, tmp_path):
    command = ("explain", shop.model, "u03", "i05", "-k", 3)
    sentence = model.explain("u03", "i05", 3, words=True)
    assert sentence.startswith("Because you took ")
    for flags in (("--words",), ("--words", "--format", "table")):
        assert stdout_of(*command, *flags) == f"{sentence}\n"
    assert json.loads(stdout_of(*command, "--words", "--format", "json")) == [
        {"user": "u03", "item": "i05", "words": sentence}
    ]
    german = tmp_path / "de.toml"
    german.write_text(GERMAN, encoding="utf-8")
    expected = model.explain("u03", "i05", 3, words=True, wording=german)
    assert expected.startswith("Weil du ")
    for flags in (("--words",), ()):  # a wording asks for words
        assert stdout_of(*command, *flags, "--wording", german) == f"{expected}\n"
    text = stdout_of("shelves", shop.model, "u03", "-k", 2, "--wording", german, "--format", "table")
    named = [shelf.name for shelf in model.shelves("u03", 2, wording=german)]
    assert any(name.startswith("wie ") for name in named)
    assert all(name in text for name in named)
    german.write_text(GERMAN.replace("{second}", "{zweitens}", 1), encoding="utf-8")
    assert "unknown placeholder {zweitens}" in error_of(*command, "--words", "--wording", german)
    assert "cannot be read" in error_of(*command, "--wording", tmp_path / "none.toml")


def test_explanations_need_known_ids_and_vectors(error_of, shop, popular):
    assert "user ids are unknown" in error_of("explain", shop.model, "zoe", "i05")
    assert "item ids are unknown" in error_of("explain", shop.model, "u03", "cake")
    assert "has no explanations" in error_of("explain", popular, "u03", "i05")


def test_a_model_without_vectors_explains_by_past_items(stdout_of, shop, model):
    model = ts.EASE(threads=1).fit(model.train_)
    model.save(shop.folder / "explaining.model")
    command = ("explain", shop.folder / "explaining.model", "u03", "i05", "-k", 2)
    expected = model.explain("u03", "i05", 2)
    assert len(expected.because) == 2
    assert json.loads(stdout_of(*command)) == expected.to_dict()
    assert stdout_of(*command, "--format", "table") == f"{expected}\n"
    row = pl.read_csv(stdout_of(*command, "--format", "csv").encode()).row(0, named=True)
    assert row["because"] == "|".join(item for item, _, _ in expected.because)
    assert (row["rank"], row["interest"], row["beside"]) == (expected.rank, None, "")
    line = json.loads(stdout_of(*command, "--format", "jsonl"))
    assert (line["beside"], line["because"]) == ([], [item for item, _, _ in expected.because])


def test_neighbors_of_items_and_of_users(stdout_of, shop, model):
    items = pl.read_csv(stdout_of("similar", shop.model, "i05", "i01", "-k", 3).encode())
    assert items["similar"].to_list() == model.similar_items(["i05", "i01"], 3)["similar"].to_list()
    users = pl.read_csv(stdout_of("similar", shop.model, "u05", "--users", "-k", 3).encode())
    assert users["similar"].to_list() == model.similar_users(["u05"], 3)["similar"].to_list()
    titles = dict(model.train_.item_attributes.select("item", "title").rows())
    table = stdout_of("similar", shop.model, "i05", "-k", 1, "--format", "table")
    assert titles[items["similar"][0]] in table
    assert users["similar"][0] in stdout_of("similar", shop.model, "u05", "--users", "-k", 1, "--format", "table")


def test_neighbors_of_unknown_ids_are_an_error(error_of, shop):
    assert "item ids are unknown" in error_of("similar", shop.model, "u05")
    assert "user ids are unknown" in error_of("similar", shop.model, "i05", "--users")


def test_lists_without_scores_cannot_be_re_ranked(error_of, shop):
    lists = ("recommend", shop.model, "--rerank", "mmr", "--on-unknown")
    assert "lists without scores" in error_of(*lists, "popular", "zoe")
    assert "no item of any --history is in the model" in error_of(*lists, "skip", "--history", "cake")


# ---- cold-start users by features ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def by_content(shop, tmp_path_factory):
    """A model fitted with a feature of the users, and cold-start users in a frame."""
    path = tmp_path_factory.mktemp("content") / "content.model"
    data = ts.Interactions.from_file(shop.clicks, user="who", item="what", threads=1)
    people = pl.DataFrame({"user": data.users.series, "town": [("Ulm", "Bonn", "Rome")[i % 3] for i in range(60)]})
    ContentKNN(n_neighbors=5).fit(data, user_features=people).save(path)
    return path, pl.DataFrame({"user": ["zoe", "abe"], "town": ["Bonn", "Ulm"]})


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_cold_start_users_are_given_by_a_file_of_features(stdout_of, by_content, tmp_path, ending):
    path, new = by_content
    file = tmp_path / f"new.{ending}"
    {"csv": new.write_csv, "parquet": new.write_parquet, "jsonl": new.write_ndjson}[ending](file)
    found = pl.read_csv(stdout_of("recommend", path, "--features", file, "-k", 3).encode())
    expected = ts.load(path).recommend_for(features=new, k=3)
    assert found["user"].to_list() == ["zoe"] * 3 + ["abe"] * 3
    assert found.select("user", "item", "rank").rows() == expected.select("user", "item", "rank").rows()


def test_lists_of_cold_start_users_may_be_re_ranked(stdout_of, by_content, tmp_path):
    path, new = by_content
    new.write_csv(tmp_path / "new.csv")
    text = stdout_of("recommend", path, "--features", "new.csv", "-k", 2, "--rerank", "pd", "--weight", 0.5)
    assert pl.read_csv(text.encode())["user"].to_list() == ["abe"] * 2 + ["zoe"] * 2


def test_features_that_cannot_be_used_are_refused_in_one_line(error_of, by_content, shop, tmp_path):
    path, new = by_content
    new.write_csv(tmp_path / "new.csv")
    new.rename({"user": "usr"}).write_csv(tmp_path / "unnamed.csv")
    new.with_columns(user=pl.Series(["u03", "zoe"])).write_csv(tmp_path / "known.csv")
    (tmp_path / "broken.jsonl").write_text("no json\n", encoding="utf-8")
    for words, message in (
        (("u03", "--features", "new.csv"), "give user ids, --history or --features, not several"),
        (("--features", "unnamed.csv"), "no column 'user' of user ids; its columns are 'usr', 'town'. Did you mean"),
        (("--features", "known.csv"), "1 of 2 users with features are known to the model already, such as 'u03'"),
        (("--features", "broken.jsonl"), "cannot be read as JSON lines"),
        (("--features", "none.csv"), "no such file"),
    ):
        assert message in error_of("recommend", path, *words)
    assert "does not learn from features" in error_of("recommend", shop.model, "--features", "new.csv")


def test_shelves_of_a_user_without_a_history(stdout_of, shop, tmp_path):
    data = ts.Interactions.from_file(shop.clicks, user="who", item="what", threads=1)
    people = pl.DataFrame({"user": data.users.series, "town": ["Ulm", "Bonn"] * 30})
    setting = {"dim": 4, "n_interests": 2, "layers": (8,), "epochs": 2, "threads": 1}
    model = DPCMLDN(**setting).fit(data, user_features=people)
    model.add_users({"user": ["zoe"], "town": ["Bonn"]}).save(tmp_path / "a.model")
    text = stdout_of("shelves", "a.model", "zoe", "-k", 2, "--format", "table")
    assert "% of the interests; interest" in text
    assert "of the history" not in text
