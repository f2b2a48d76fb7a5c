"""`tastespace evaluate`, `export` and `inspect`."""

import json
import math
import shutil

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.models import create
from tastespace.recommend.stores import open_vector_store

COLUMNS = ("--user", "who", "--item", "what")


def test_figures_are_the_librarys(stdout_of, shop):
    rows = pl.read_csv(
        stdout_of("evaluate", shop.model, shop.later, *COLUMNS, "--metric", "NDCG", "-k", 5, "-k", 7).encode()
    )
    held_out = ts.Interactions.from_file(shop.later, user="who", item="what", threads=1)
    expected = ts.evaluate(ts.load(shop.model), held_out, k=[5, 7], metrics=["NDCG"], threads=1)
    assert dict(rows.select("metric", "value").rows()) == pytest.approx(dict(expected.metrics))
    assert rows["metric"].to_list() == ["NDCG@5", "NDCG@7"]


@pytest.mark.parametrize("protocol", ["full", "paper"])
def test_metrics_as_a_table_and_in_json(stdout_of, shop, protocol):
    call = ("evaluate", shop.model, shop.later, *COLUMNS, "--protocol", protocol)
    rows = json.loads(stdout_of(*call, "--format", "json"))
    table = stdout_of(*call, "--format", "table")
    for row in rows:
        line = next(line for line in table.splitlines() if f" {row['metric']} " in line)
        # Users have one test item, so none counts for the paper's protocol, which asks for three.
        assert (row["value"] is None) == (protocol == "paper")
        assert ("- " if row["value"] is None else f"{row['value']:.4f}") in line


def test_held_out_rows_may_be_chosen_by_rating(stdout_of, shop):
    rows = pl.read_csv(shop.later).with_columns(stars=pl.int_range(pl.len()) % 5 + 1)
    rows.write_csv("rated.csv")
    rows.filter(pl.col("stars") >= 4).write_csv("good.csv")
    flags = ("--user", "who", "--item", "what")
    chosen = stdout_of("evaluate", shop.model, "rated.csv", *flags, "--rating", "stars", "--min-rating", 4)
    assert chosen == stdout_of("evaluate", shop.model, "good.csv", *flags)


def test_ids_of_a_later_file_may_look_like_another_type(run, stdout_of, tmp_path):
    def write(name, *rows):
        (tmp_path / name).write_text("\n".join(["user,item", *rows]), encoding="utf-8")

    write("clicks.csv", *(f"{user},{item}" for user in ("1", "2", "x") for item in ("10", "11", "y")), "2,12", "1,13")
    flags = ("--model", "ease", "--out", "a.model", "--valid", "0")
    assert run("fit", "clicks.csv", *flags).code == 0
    write("later.csv", "1,12", "2,13")  # whole numbers, where the model has text
    assert "MRR,1.0,fraction,2\n" in stdout_of("evaluate", "a.model", "later.csv")

    write("clicks.csv", *(f"{user},{item}" for user in (1, 2, 3) for item in (10, 11)), "2,12", "1,13")
    assert run("fit", "clicks.csv", *flags).code == 0
    pl.DataFrame({"user": ["1", "2"], "item": ["12", "13"]}).write_parquet(
        "later.parquet"
    )  # text, where it has numbers
    assert "MRR,1.0,fraction,2\n" in stdout_of("evaluate", "a.model", "later.parquet")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--user", "woh"), "has no column 'woh'"),
        (("--metric", "NDGC"), "Did you mean NDCG"),
        (("--protocol", "papre"), "Did you mean paper"),
        (("-k", "0"), "-k 0: expected a length of list"),
        (("--on-unknown", "ignore"), "--on-unknown ignore"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(error_of, shop, flags, message):
    assert message in error_of("evaluate", shop.model, shop.later, *COLUMNS, *flags)


def test_unknown_ids_in_the_test_are_an_error_or_skipped(stdout_of, error_of, shop, tmp_path):
    more = tmp_path / "more.csv"
    more.write_text(shop.later.read_text(encoding="utf-8") + "zoe,i03\n", encoding="utf-8")
    assert "1 users and 0 items that the model has never seen (for example 'zoe')" in error_of(
        "evaluate", shop.model, more, *COLUMNS
    )
    without = stdout_of("evaluate", shop.model, shop.later, *COLUMNS)
    assert stdout_of("evaluate", shop.model, more, *COLUMNS, "--on-unknown", "skip") == without


def test_a_test_that_was_seen_gives_a_warning(run, shop):
    done = run("evaluate", shop.model, shop.clicks, *COLUMNS)
    assert (done.code, done.raw) == (2, b"")
    warned, error = done.err.splitlines()
    assert warned.startswith("warning: ")
    assert "are among the seen ones" in warned
    assert error.startswith("error: ")


CATEGORY_METRICS = [
    "MinorityRecall@20", "CalibrationKL@20", "CalibrationJS@20", "SubtopicRecall@20", "AlphaNDCG@20", "CategoryILD@20",
]  # fmt: skip
USE_METRICS = ["EffectiveInterests", "DeadInterests", "CollapsedInterests"]


@pytest.fixture(scope="module")
def plain_models(shop):
    """Models without item attributes, saved beside the shop's: CML, which has one vector per user, and EASE."""
    clicks = ts.Interactions.from_file(shop.clicks, user="who", item="what", threads=1)
    ts.CML(dim=8, epochs=2, threads=1).fit(clicks).save(shop.folder / "cml.model")
    ts.EASE(threads=1).fit(clicks).save(shop.folder / "ease.model")
    return {name: shop.folder / f"{name}.model" for name in ("cml", "ease")}


def kinds_of(shop):
    """A file with one category for each item; in the shop's own all items are food, so that none is in a minority."""
    path = shop.folder / "kinds.csv"
    pl.read_csv(shop.items).select("what", kind=pl.col("genres").str.head(3)).write_csv(path)
    return path


def test_tastes_adds_the_metrics_for_several_tastes(run, shop):
    by_kind = ("--tastes", "--metric", "R@5", "--column", "kind", "--items", kinds_of(shop))
    rows = pl.read_csv(run("evaluate", shop.model, shop.later, *COLUMNS, *by_kind).raw)
    by_interest = ["TasteAlphaNDCG@20", "InterestCoverage@20", *USE_METRICS, "StableNames"]
    assert rows["metric"].to_list() == ["R@5", *CATEGORY_METRICS, *by_interest]
    held_out = ts.Interactions.from_file(shop.later, user="who", item="what", threads=1)
    about = pl.read_csv(kinds_of(shop)).rename({"what": "item"})
    expected = ts.evaluate(
        ts.load(shop.model), held_out, metrics=rows["metric"].to_list(), item_attributes=about, threads=1
    )
    assert not any(map(math.isnan, expected.metrics.values()))
    assert dict(rows.select("metric", "value").rows()) == pytest.approx(dict(expected.metrics))
    assert dict(rows.select("metric", "unit").rows()) == expected.units
    table = run("evaluate", shop.model, shop.later, *COLUMNS, "--tastes", "--format", "table").out
    assert "nats" in table
    assert "share of the interests" in table
    assert "NDCG@10" in table  # besides the usual ones


def test_tastes_at_other_lengths(run, shop):
    rows = pl.read_csv(run("evaluate", shop.model, shop.later, *COLUMNS, "--tastes", "-k", 3, "-k", 4).raw)
    assert {"AlphaNDCG@3", "AlphaNDCG@4", "InterestCoverage@4", *USE_METRICS} < set(rows["metric"])
    assert not any(name.endswith("@20") for name in rows["metric"])


def test_tastes_says_what_is_left_out_and_why(run, shop, plain_models):
    done = run("evaluate", plain_models["ease"], shop.later, *COLUMNS, "--tastes", "--metric", "P@5")
    assert done.code == 0
    assert pl.read_csv(done.raw)["metric"].to_list() == ["P@5"]
    by_category, by_interest = done.err.splitlines()
    assert by_category == (
        f"left out: {', '.join(name.removesuffix('@20') for name in CATEGORY_METRICS)}: the model has no item "
        "attributes; give them with --items FILE."
    )
    of_interests = ", ".join(["TasteAlphaNDCG", "InterestCoverage", *USE_METRICS, "TruthOfReasons", "StableNames"])
    assert by_interest == f"left out: {of_interests}: users have no interests, because EASE has no vectors."
    done = run("evaluate", plain_models["cml"], shop.later, *COLUMNS, "--tastes", "--items", shop.items)
    assert set(CATEGORY_METRICS) < set(pl.read_csv(done.raw)["metric"])
    assert done.err == f"left out: {of_interests}: CML has one vector per user, which every item is nearest to.\n"


def test_tastes_checks_what_shelves_say_where_the_model_gives_reasons(run, shop):
    """DPCML does not say how much past items add; a blend with EASE does."""
    done = run("evaluate", shop.model, shop.later, *COLUMNS, "--tastes", "--metric", "P@5")
    assert done.err == "left out: TruthOfReasons: DPCML does not say how much each past item adds to a score.\n"
    clicks = ts.Interactions.from_file(shop.clicks, user="who", item="what", threads=1)
    members = [ts.CML(dim=8, epochs=2, threads=1).fit(clicks), ts.EASE(threads=1).fit(clicks)]
    ts.Blend.of(members, [0.3, 0.7], n_tastes=3, threads=1).save(shop.folder / "blend.model")
    done = run(
        "evaluate", shop.folder / "blend.model", shop.later, *COLUMNS, "--tastes", "-k", 5, "--items", shop.items
    )
    assert done.err == ""
    found = dict(pl.read_csv(done.raw).select("metric", "value").rows())
    assert found["TruthOfReasons@5"] == found["StableNames"] == 1.0
    assert 1 < found["EffectiveInterests"] <= 3


def test_items_gives_the_attributes_that_the_model_lacks(run, stdout_of, shop, plain_models):
    """The same values as with a model that was fitted with the attributes."""
    flags = (*COLUMNS, "--tastes", "--format", "json")
    found = json.loads(run("evaluate", plain_models["ease"], shop.later, *flags, "--items", kinds_of(shop)).raw)
    about = pl.read_csv(kinds_of(shop))
    clicks = ts.Interactions.from_file(shop.clicks, user="who", item="what", item_attributes=about, threads=1)
    held_out = ts.Interactions.from_file(shop.later, user="who", item="what", threads=1)
    labels = [row["metric"] for row in found]
    assert set(CATEGORY_METRICS) < set(labels)
    expected = ts.evaluate(ts.EASE(threads=1).fit(clicks), held_out, metrics=labels, threads=1)
    assert {row["metric"]: row["value"] for row in found} == pytest.approx(dict(expected.metrics))
    # The categories may be in another attribute, which --column names.
    by_year = ("--metric", "CategoryILD@5", "--column", "year")
    assert "CategoryILD@5,1.0," in stdout_of("evaluate", shop.model, shop.later, *COLUMNS, *by_year)


def test_items_are_joined_by_ids_of_any_type(run, stdout_of, tmp_path):
    """Ids of a text file are read as they are written; the model's are numbers."""
    pairs = [(user, item) for user in (1, 2, 3) for item in (10, 11, 12, 13) if user != item % 3]
    pl.DataFrame(pairs, schema=["user", "item"], orient="row").write_csv("clicks.csv")
    (tmp_path / "later.csv").write_text("user,item\n1,10\n2,11\n", encoding="utf-8")
    (tmp_path / "items.csv").write_text("kind,item\na,11\nb,10\nb,12\na,13\nc,99\n", encoding="utf-8")
    assert run("fit", "clicks.csv", "--model", "ease", "--out", "a.model", "--valid", "0").code == 0
    flags = ("--metric", "SubtopicRecall@1", "--column", "kind")
    rows = pl.read_csv(stdout_of("evaluate", "a.model", "later.csv", "--items", "items.csv", *flags).encode())
    assert rows["users"].to_list() == [2]


def test_attributes_that_hold_no_categories(run, error_of, shop, plain_models, tmp_path):
    about = pl.read_csv(shop.items)
    about.select("what", "year").write_csv("years.csv")
    call = ("evaluate", plain_models["ease"], shop.later, *COLUMNS, "--tastes")
    assert "no item attribute looks like categories (year); name one with --column." in run(
        *call, "--items", "years.csv"
    ).err.replace("\n", " ")
    about.select("what", genres=pl.lit("")).write_csv("empty.csv")
    assert "no item has a category in the attribute 'genres'" in run(*call, "--items", "empty.csv").err
    assert "--column genres: the model has no item attributes; give them with --items FILE." in error_of(
        *call, "--column", "genres"
    )
    assert "categories='genre': expected an item attribute" in error_of(
        *call, "--items", shop.items, "--column", "genre"
    )
    about.rename({"what": "sku"}).write_csv("sku.csv")
    assert "has no column 'what' of item ids; its columns are 'sku'" in error_of(*call, "--items", "sku.csv")


def test_a_metric_that_no_user_counts_for_has_no_value(stdout_of, shop):
    call = ("evaluate", shop.model, shop.later, *COLUMNS, "--metric", "CategoryILD@1")
    assert json.loads(stdout_of(*call, "--format", "json")) == [
        {"metric": "CategoryILD@1", "value": None, "unit": "Jaccard distance", "users": 0}
    ]
    assert "CategoryILD@1,,Jaccard distance,0" in stdout_of(*call)
    assert "nan" not in stdout_of(*call, "--format", "table")


def test_seen_files_leave_the_ranking_besides_the_training_data(stdout_of, shop, tmp_path):
    held_out = ts.Interactions.from_file(shop.later, user="who", item="what", threads=1)
    model = ts.load(shop.model)
    best = pl.DataFrame(model.recommend(k=3)).select(who="user", what="item")
    best = best.join(pl.read_csv(shop.later), on=["who", "what"], how="anti")
    first, second = best[::2], best[1::2].vstack(pl.DataFrame({"who": ["zoe"], "what": ["i03"]}))  # zoe is unknown
    first.write_csv("first.csv")
    second.write_parquet("second.parquet")
    call = ("evaluate", shop.model, shop.later, *COLUMNS, "--metric", "MRR", "--format", "json")
    seen = ("--seen", "first.csv", "--seen", "second.parquet")
    found = {n: json.loads(stdout_of(*call, *seen[: 2 * n]))[0]["value"] for n in (0, 1, 2)}
    parts = [ts.Interactions.from_frame(frame, user="who", item="what", threads=1) for frame in (first, second)]
    for n, value in found.items():
        expected = ts.evaluate(model, held_out, seen=[model.train_, *parts[:n]], metrics="MRR", threads=1)
        assert value == pytest.approx(expected["MRR"])
    assert found[0] < found[1] < found[2]


def test_the_papers_protocol_leaves_only_training_data_out(error_of, shop):
    call = ("evaluate", shop.model, shop.later, *COLUMNS, "--protocol", "paper", "--seen", shop.later)
    assert "the protocol 'paper' leaves only training data out of the ranking" in error_of(*call)


@pytest.mark.parametrize("name", ["popular", "ease", "itemknn", "cml", "bpr", "sparse-ease"])
def test_every_saved_model_can_be_evaluated(run, shop, name, tmp_path):
    about = pl.read_csv(shop.items)
    clicks = ts.Interactions.from_file(shop.clicks, user="who", item="what", item_attributes=about, threads=1)
    model = create(name)
    model.set_params(**{key: value for key, value in (("epochs", 2), ("threads", 1)) if key in model.get_params()})
    model.fit(clicks).save("a.model")
    done = run("evaluate", "a.model", shop.later, *COLUMNS, "--tastes")
    assert done.code == 0, done.err
    assert set(CATEGORY_METRICS) < set(pl.read_csv(done.raw)["metric"])


def test_vectors_are_exported_to_a_database(stdout_of, error_of, shop, tmp_path):
    address = f"sqlite://{tmp_path / 'shop.sqlite'}?name=shop"
    assert "SqliteVecStore(" in stdout_of("export", shop.model, "--to", address)
    model = ts.load(shop.model)
    user = model.train_.users[0]
    with open_vector_store(address) as store:
        found = store.recommend(user, k=3, seen=model.train_.items_of(user))
    assert found["item"].to_list() == model.recommend([user], k=3)["item"].to_list()
    assert "give one" in error_of("export", shop.model, "out.npz", "--to", address)
    assert "give one" in error_of("export", shop.model)
    assert "--replace is for --to" in error_of("export", shop.model, "out.npz", "--replace")


def test_vectors_are_exported_and_the_files_named(stdout_of, shop, tmp_path):
    space = ts.load(shop.model).vectors()
    assert stdout_of("export", shop.model, "vectors.npz") == "vectors.npz\n"
    with np.load("vectors.npz") as arrays:
        assert any(np.array_equal(one, space.item_vectors) for one in arrays.values())
        assert any(np.array_equal(one, space.user_vectors) for one in arrays.values())
    named = stdout_of("export", shop.model, "folder", "--kind", "parquet").splitlines()
    assert named
    assert all((tmp_path / name).is_file() for name in named)
    tables = [pl.read_parquet(name) for name in named if name.endswith(".parquet")]
    assert sorted(len(table) for table in tables) == sorted([50, len(space.user_vectors)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("vectors", "--kind", "parqet"), "Did you mean parquet?"),
        (("/proc/none/vectors.npz",), "could not be written"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_line(error_of, shop, words, message):
    assert message in error_of("export", shop.model, *words)


def test_inspect_tells_what_is_in_a_model(stdout_of, shop):
    facts = json.loads(stdout_of("inspect", shop.model))
    assert (facts["class"], facts["users"], facts["items"], facts["dimension"]) == ("dpcml", 60, 50, 8)
    assert facts["parameters"]["dim"] == 8
    assert set(facts["metrics"]) == {"P@10", "R@10", "NDCG@10", "MRR"}
    assert facts == json.loads(stdout_of("inspect", shop.model, "--verify", "--format", "json"))
    table = stdout_of("inspect", shop.model, "--format", "table")
    for word in ("dpcml", "dim: 8", "NDCG@10: ", f"{facts['interactions']:,}", facts["fingerprint"]):
        assert word in table


def test_inspect_has_two_formats(error_of, shop):
    assert "--format csv: inspect supports table and json" in error_of("inspect", shop.model, "--format", "csv")


def test_verify_reads_every_byte(stdout_of, error_of, shop, tmp_path):
    copy = tmp_path / "copy.model"
    shutil.copytree(shop.model, copy)
    weights = next(copy.glob("learned-*"))
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    weights.write_bytes(raw)
    assert json.loads(stdout_of("inspect", copy))["class"] == "dpcml"
    assert "is damaged" in error_of("inspect", copy, "--verify")


def test_a_model_that_is_not_there(error_of, shop):
    for words in (("inspect",), ("export", "a.npz"), ("evaluate", shop.later)):
        assert "no such directory" in error_of(words[0], "none.model", *words[1:])
