"""`tastespace fit`."""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace import load
from tastespace.training.loop import Loop

COLUMNS = ("--user", "who", "--item", "what")
DPCML = ("--model", "dpcml")
QUICK = ("--set", "dim=4", "--set", "epochs=3")
SHORT = (*DPCML, *QUICK)


@pytest.fixture
def fit(run, shop):
    """Fit with these flags; gives the opened model and the messages."""

    def call(*flags, data=shop.clicks, out="a.model"):
        done = run("fit", data, *COLUMNS, "--out", out, *flags)
        assert (done.code, done.raw) == (0, b""), done.err
        return ts.load(out), done.err

    return call


def figures_of(output):
    """Title of the table of figures, and its rows: model -> metric -> value."""
    lines = output.splitlines()
    at = next(number for number, line in enumerate(lines) if "fractions from 0 to 1" in line)
    names = lines[at + 2].replace("┃", " ").split()[1:]
    rows = {}
    for line in lines[at + 4 :]:
        if not line.startswith("│"):
            break
        name, *values = (cell.strip() for cell in line.strip("│").split("│"))
        rows[name] = dict(zip(names, map(float, values), strict=True))
    return lines[at].strip(), rows


@pytest.mark.parametrize(
    ("name", "kind", "flags"),
    [
        ("dpcml", ts.DPCML, QUICK),
        ("cml", ts.CML, QUICK),
        ("ease", ts.EASE, ("--set", "regularization=7.5")),
        ("popular", ts.MostPopular, ()),
    ],
)
def test_every_model_goes_by_its_name(fit, name, kind, flags):
    model, output = fit("--model", name, *flags)
    assert type(model) is kind
    assert f"saved {kind.__name__}(" in output


def test_the_final_model_has_seen_every_row(fit, shop):
    model, _ = fit(*SHORT)
    rows = pl.read_parquet(shop.clicks)
    assert model.train_.n_interactions == len(rows)
    pairs = pl.DataFrame(model.train_.to_frame()).rename({"user": "who", "item": "what"})
    assert pairs.sort("who", "what").equals(rows.sort("who", "what"))


def test_the_figures_of_the_held_out_part_are_printed_and_stored(fit, run):
    _, output = fit(*SHORT, "--valid", "0.2")
    title, rows = figures_of(output)
    assert title == "on 20 % of each history, drawn at random (60 users), fractions from 0 to 1"
    stored = json.loads(run("inspect", "a.model").out)["metrics"]
    assert set(stored) == {"P@10", "R@10", "NDCG@10", "MRR"}
    assert list(rows) == ["DPCML", "MostPopular", "EASE"]
    assert rows["DPCML"] == {name: round(value, 3) for name, value in stored.items()}


def test_the_reference_models_are_measured_on_the_same_part(fit, shop):
    _, output = fit("--model", "itemknn")
    whole = ts.Interactions.from_file(shop.clicks, user="who", item="what")
    parts = ts.split.hold_out(whole, 0.1, seed=0)
    held_out, train = parts.held_out, parts.rest
    _, rows = figures_of(output)
    for model in (ts.MostPopular(), ts.EASE()):
        report = ts.evaluate(model.fit(train), held_out, seen=train, k=10, metrics=["NDCG", "MRR"])
        for name in ("NDCG@10", "MRR"):
            assert rows[type(model).__name__][name] == round(report[name], 3)
    _, again = fit("--model", "ease", "--set", "regularization=3", out="b.model")
    assert list(figures_of(again)[1]) == ["EASE", "MostPopular", "EASE (default)"]
    assert list(figures_of(fit("--model", "ease", out="b.model")[1])[1]) == ["EASE", "MostPopular"]


@pytest.fixture(scope="module")
def timed_clicks(shop, tmp_path_factory):
    """The clicks of the shop in an order of time that has nothing to do with users and items."""
    rows = pl.read_parquet(shop.clicks)
    order = np.random.default_rng(5).permutation(len(rows))
    path = tmp_path_factory.mktemp("timed") / "timed.csv"
    rows.with_columns(t=1_600_000_000 + 3600 * pl.Series(order)).write_csv(path)
    return path


def test_with_times_the_last_interactions_are_held_out(fit, timed_clicks):
    _, output = fit("--model", "ease", "--timestamp", "t", data=timed_clicks)
    title, rows = figures_of(output)
    assert title.startswith("on the last 10 % of the interactions (")
    whole = ts.Interactions.from_file(timed_clicks, user="who", item="what", timestamp="t")
    train, test = ts.split.by_time(whole, (0.9, 0.1), min_history=1)
    report = ts.evaluate(ts.EASE().fit(train), test, seen=train, k=10, metrics=["NDCG"])
    assert rows["EASE"]["NDCG@10"] == round(report["NDCG@10"], 3)
    model, output = fit("--trials", "2", "--timestamp", "t", data=timed_clicks, out="b.model")
    assert model.recipe_["held_out"] == "the last 20 % of the interactions"
    assert "(the last 20 % of the interactions)" in " ".join(output.split())


def test_a_half_life_gives_weights(fit, error_of, timed_clicks):
    model, _ = fit("--model", "ease", "--timestamp", "t", "--half-life", "20d", data=timed_clicks)
    whole = ts.Interactions.from_file(timed_clicks, user="who", item="what", timestamp="t")
    np.testing.assert_array_equal(model.train_.weights, whole.with_half_life(20).weights)
    blend, _ = fit("--trials", 2, "--timestamp", "t", "--half-life", "20d", data=timed_clicks, out="b.model")
    np.testing.assert_array_equal(blend.train_.weights, model.train_.weights)
    for flags, message in (
        (("--model", "ease", "--half-life", "20d"), "give --timestamp as well"),
        (
            ("--model", "ease", "--timestamp", "t", "--half-life", "long"),
            "--half-life long: expected a number of days",
        ),
        (("--model", "cml", "--timestamp", "t", "--half-life", "20d"), "CML does not use weights"),
        (("--model", "ease", "--timestamp", "when"), "has no column 'when'"),
        (("--model", "ease", "--timestamp", "who"), "cannot be used as timestamps"),
    ):
        assert message in error_of("fit", timed_clicks, *COLUMNS, "--out", "c.model", *flags)


def test_parameters_of_a_file(fit, error_of, shop, tmp_path):
    (tmp_path / "p.toml").write_text('model = "ease"\n[params]\nregularization = 7.5\n')
    assert fit("--params", "p.toml")[0].regularization == 7.5
    model, _ = fit("--model", "ease", "--params", "p.toml", "--set", "regularization=8", out="b.model")
    assert model.regularization == 8
    refused = ("fit", shop.clicks, *COLUMNS, "--out", "c.model", "--params", "p.toml")
    assert "p.toml holds parameters of ease, not of als" in error_of(*refused, "--model", "als")
    (tmp_path / "p.toml").write_text('model = "ease"\n[params]\nregulation = 7.5\n')
    assert "p.toml: EASE has no parameter 'regulation'" in error_of(*refused)
    assert "none.toml: cannot be read" in error_of(*refused[:-1], "none.toml")


def test_without_a_held_out_part_nothing_is_measured(fit, run):
    _, output = fit(*SHORT, "--valid", "0")
    assert "fractions" not in output
    assert json.loads(run("inspect", "a.model").out)["metrics"] is None


def test_the_final_model_learns_for_as_long_as_the_first_was_best(fit, monkeypatch):
    fitted = []
    train = ts.CML.fit

    def watch(self, *arguments, **options):
        fitted.append(self)
        return train(self, *arguments, **options)

    monkeypatch.setattr(ts.CML, "fit", watch)
    # A learning rate at which later epochs are worse, so that the best one is not the last.
    settings = ("dim=4", "epochs=12", "learning_rate=6.0", "geometry=sphere-ball")
    model, _ = fit("--model", "cml", *(word for one in settings for word in ("--set", one)))
    first, last = fitted
    assert first.best_epoch_ < 12
    assert last.epochs == model.epochs == first.best_epoch_


def test_settings_reach_the_model(fit):
    wanted = {"dim": 5, "epochs": 2, "n_interests": 2, "sampler": "hars", "margin": 0.5}
    model, _ = fit(
        "--model",
        "dpcml",
        "--valid",
        "0",
        *(word for name, value in wanted.items() for word in ("--set", f"{name}={value}")),
    )
    assert {name: model.get_params()[name] for name in wanted} == wanted


def test_the_seed_decides_everything(fit):
    vectors = {
        out: fit(*SHORT, "--seed", seed, out=out)[0].vectors().item_vectors
        for out, seed in (("a.model", 5), ("b.model", 5), ("c.model", 6))
    }
    assert np.array_equal(vectors["a.model"], vectors["b.model"])
    assert not np.array_equal(vectors["a.model"], vectors["c.model"])


def test_a_seed_among_the_settings_is_not_overridden_by_a_flag_that_was_not_given(fit):
    assert fit(*SHORT, "--set", "seed=9")[0].seed == 9
    assert fit(*SHORT, "--seed", "4")[0].seed == 4


def test_files_of_the_two_trainings_do_not_get_into_each_others_way(fit, tmp_path):
    files = ("--set", "checkpoint=state.bin", "--set", "log_file=log.csv")
    model, _ = fit(*SHORT, *files)
    assert {path.name for path in tmp_path.iterdir()} >= {"state.bin", "state-final.bin", "log.csv", "log-final.csv"}
    assert "NDCG@10" in pl.read_csv("log.csv").columns  # only the first training has metrics
    again, _ = fit(*SHORT, *files)  # goes on from both
    assert np.array_equal(model.vectors().item_vectors, again.vectors().item_vectors)


def test_weights_reach_the_data_of_the_model(fit, tmp_path):
    (tmp_path / "plays[1].csv").write_text(
        "who,what,n\n" + "".join(f"u{row % 4},i{row % 5},{row % 3 + 1}\n" for row in range(40)), encoding="utf-8"
    )
    model, _ = fit("--model", "popular", "--weight", "n", "--valid", "0", data="plays[1].csv")
    assert model.train_.n_interactions == 20
    assert model.train_.weights.sum() == sum(row % 3 + 1 for row in range(40)), "weights of a repeated pair are added"
    assert fit("--model", "popular", "--valid", "0", data="plays[1].csv", out="b.model")[0].train_.weights is None


def test_text_and_parquet_give_the_same_model(fit, shop):
    one, _ = fit(*SHORT)
    other, _ = fit(*SHORT, data=shop.clicks_csv, out="b.model")
    assert np.array_equal(one.vectors().user_vectors, other.vectors().user_vectors)


def test_attributes_are_found_under_their_header_even_if_all_of_them_are_words(fit, tmp_path):
    (tmp_path / "words.csv").write_text("what,title\ni01,Black Tea\ni02,Green Tea\n", encoding="utf-8")
    model, _ = fit("--model", "popular", "--items", "words.csv")
    assert model.train_.item_attributes.filter(item="i02")["title"].item() == "Green Tea"


def test_ids_of_attributes_stay_as_they_are_written(run, tmp_path):
    (tmp_path / "clicks.csv").write_text("user,item\na,007\nb,007\nb,42\nc,42\n", encoding="utf-8")
    (tmp_path / "items.csv").write_text("item,title\n007,Bond\n042,nobody's\n42,Answer\n", encoding="utf-8")
    flags = ("--out", "a.model", "--model", "popular", "--valid", "0", "--items", "items.csv")
    assert run("fit", "clicks.csv", *flags).code == 0
    assert ts.load("a.model").train_.item_attributes["title"].to_list() == ["Bond", "Answer"]


def test_filters_of_the_data(fit, tmp_path):
    rows = [f"u{n % 7},i{n % 5},{n % 4}" for n in range(35)] + ["rare,i0,3"]
    (tmp_path / "rated.csv").write_text("who,what,stars\n" + "\n".join(rows), encoding="utf-8")
    flags = ("--model", "popular", "--valid", "0", "--rating", "stars", "--min-rating", "2", "--min-user", "2")
    model, _ = fit(*flags, data="rated.csv")
    assert "rare" not in model.train_.users
    assert model.train_.n_interactions == sum(n % 4 >= 2 for n in range(35))


def test_an_earlier_model_is_replaced_and_anything_else_is_not(fit, error_of, shop, tmp_path):
    fit("--model", "popular")
    assert type(fit("--model", "ease")[0]) is ts.EASE
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    (tmp_path / "file").write_text("keep me")
    for out, reason in (("mine", "is not empty and no tastespace model"), ("file", "is a file")):
        assert f"{out} {reason}" in error_of("fit", shop.clicks, *COLUMNS, "--out", out)
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep me"


def test_what_a_killed_save_has_left_is_no_obstacle(fit, tmp_path):
    (tmp_path / "a.model").mkdir()
    for name in (
        "learned-0123456789abcdef.safetensors",
        ".model.json.0123abcd-77-89abcdef.partial",
        ".seen-0123456789abcdef.safetensors.0123abcd-77-89abcdef.partial",
    ):
        (tmp_path / "a.model" / name).touch()
    assert fit("--model", "popular")[0].train_.n_users == 60


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((*DPCML, "--valid", "1.5"), "--valid 1.5: expected a share from 0 to below 1."),
        ((*DPCML, "--valid", "-0.1"), "--valid -0.1: expected"),
        ((*DPCML, "--valid", "nan"), "--valid nan: expected"),
        (("--model", "dcpml"), "Did you mean dpcml"),
        ((*DPCML, "--set", "dmi=3"), "Did you mean dim?"),
        ((*DPCML, "--set", "dim"), "--set dim: expected key=value"),
        (("--items", "missing.csv"), "missing.csv: no such file."),
        (("--min-user", "5000"), "--min-user 5000 drops everything"),
        (("--min-rating", "3"), "--min-rating 3.0 needs --rating"),
        (("--rating", "stars"), "has no column 'stars'"),
        (("--user", "woh"), "Did you mean who?"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_one_line(error_of, shop, tmp_path, flags, message):
    assert message in error_of("fit", shop.clicks, *COLUMNS, "--out", "a.model", *flags)
    assert not (tmp_path / "a.model").exists()


def test_a_missing_file_offers_its_neighbor(error_of, shop):
    wrong = shop.folder / "click.parquet"
    assert "no such file. Did you mean clicks.parquet" in error_of("fit", wrong, *COLUMNS, "--out", "a.model")


def test_histories_too_short_to_hold_anything_out(run, tmp_path):
    (tmp_path / "tiny.csv").write_text("who,what\na,x\nb,y\nc,x\n", encoding="utf-8")
    done = run("fit", "tiny.csv", *COLUMNS, "--model", "popular", "--out", "a.model")
    assert done.code == 0  # a warning, and a model without metrics
    assert "too short to hold out 10 %" in done.err
    assert load(tmp_path / "a.model").train_.n_interactions == 3


def test_a_catalog_shorter_than_ten(run, tmp_path):
    rows = "".join(f"{user},{item}\n" for user in "abcdef" for item in "vwxyz" if user + item not in ("av", "bw"))
    (tmp_path / "small.csv").write_text("who,what\n" + rows, encoding="utf-8")
    done = run("fit", "small.csv", *COLUMNS, "--model", "ease", "--out", "b.model", "--valid", "0.3")
    assert done.code == 0
    assert "P@5" in done.err


def test_attributes_of_users_are_content(fit, error_of, shop, tmp_path):
    users = pl.DataFrame({"who": [f"u{row:02d}" for row in range(60)], "town": ["Ulm", "Bonn"] * 30})
    users.write_csv(tmp_path / "users[1].csv")
    users.rename({"who": "user"}).write_ndjson(tmp_path / "users[1].jsonl")
    for file in ("users[1].csv", "users[1].jsonl"):
        model, _ = fit("--model", "contentknn", "--users", file, "--valid", 0)
        assert model.train_.user_attributes["town"].to_list() == users["town"].to_list()
        assert model.encoders_["user"].names == ["town=Bonn", "town=Ulm"]
    assert "missing.csv: no such file" in error_of(
        "fit", shop.clicks, *COLUMNS, "--out", "b.model", "--users", "missing.csv"
    )


def test_settings_may_be_lists_and_objects(fit, error_of, shop):
    model, _ = fit(
        "--model", "cml+dn", *QUICK, "--valid", 0, "--set", "layers=[16,8]", "--set", "training=pretrained",
        "--set", 'latent={"epochs": 1}',
    )  # fmt: skip
    assert list(model.layers) == [16, 8]
    assert model.latent == {"epochs": 1}
    message = error_of("fit", shop.clicks, *COLUMNS, "--out", "b.model", *DPCML, "--set", "layers=[16,")
    assert "--set layers=[16,: '[16,' is not valid JSON" in message


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--user", "who"),
        ("--item", "what"),
        ("--users", "a.csv"),
        ("--items", "a.csv"),
        ("--rating", "stars"),
        ("--min-rating", 4.0),
        ("--timestamp", "at"),
    ],
)
def test_flags_of_a_file_do_not_fit_a_named_data_set(error_of, flag, value):
    said = error_of("fit", "town", "--out", "b.model", flag, value)
    assert said.startswith(f"{flag} {value}: town is a named data set")


def test_minimum_counts_hold_for_named_data_too(run):
    done = run("fit", "town", "--model", "popular", "--out", "b.model", "--min-user", 40, "--valid", 0)
    assert done.code == 0
    assert ts.load("b.model").train_.user_counts.min() >= 40


def test_without_a_model_the_recipe_chooses(fit, run):
    model, output = fit("--trials", "3")
    assert type(model) is ts.Blend
    assert len(model.recipe_["trials"]) == 3
    flat = " ".join(output.split())
    for part in (
        "3 models tried on held-out data",
        "chosen blend",
        "most popular",
        "SparseEASE",
        "DPCML",
        "Chosen: ",
        "saved a blend of ",
    ):
        assert part in flat
    assert model.recipe_["tastes"] in flat
    assert [row["label"] for row in model.recipe_["references"]] == ["most popular", "EASE"]
    stored = json.loads(run("inspect", "a.model").out)["metrics"]
    assert stored["NDCG@10"] == model.recipe_["blend"]["figures"]["ndcg"]
    again, _ = fit("--trials", "3", out="b.model")
    users = np.arange(model.train_.n_users)
    np.testing.assert_array_equal(model.score_block(users), again.score_block(users))
    assert "saved a blend of 1 model to" in " ".join(fit("--trials", "1", out="c.model")[1].split())


def test_a_budget_of_no_time_gives_two_models_and_says_so(fit):
    model, output = fit("--minutes", "0.0001")
    assert len(model.recipe_["trials"]) == 2
    assert "was used up by the first models" in " ".join(output.split())


def test_histories_of_one_item_give_the_most_popular_items(run):
    Path("tiny.csv").write_text("who,what\nann,tea\nbob,jam\ncat,rye\n", encoding="utf-8")
    done = run("fit", "tiny.csv", *COLUMNS, "--out", "t.model")
    assert done.code == 0, done.err
    assert "Histories are too short to hold anything out: MostPopular()" in " ".join(done.err.split())
    assert ts.load("t.model").recommend("ann", k=5)["rank"].to_list() == [1, 2]


def test_a_blend_goes_by_the_names_of_its_members(fit):
    model, _ = fit(
        "--model", "blend:cml+ease", "--set", "cml__dim=4", "--set", "cml__epochs=2", "--set", "weights=[0.5,0.5]"
    )
    assert [type(member) for member in model.members_] == [ts.CML, ts.EASE]
    assert model.members_[0].item_vectors_.shape[1] == 4
    assert model.weights_.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--set", "dim=3"), "--set without --model: it is for one model; name it with --model"),
        (("--valid", "0.2"), "--valid without --model"),
        ((*DPCML, "--minutes", "1"), "--minutes with --model dpcml: it is for the default recipe"),
        ((*DPCML, "--trials", "1"), "--trials with --model dpcml"),
        (("--minutes", "0"), "--minutes 0.0: expected"),
        (("--trials", "0"), "--trials 0: expected"),
        (("--model", "blend:dpcml+eese"), "'eese' is no model"),
    ],
)
def test_flags_of_the_recipe_and_of_one_model_do_not_mix(error_of, shop, flags, message):
    assert message in error_of("fit", shop.clicks, *COLUMNS, "--out", "a.model", *flags)


def test_the_seed_reaches_the_members_of_a_blend(fit):
    model, _ = fit("--model", "blend:cml+ease", "--seed", "7", "--set", "cml__dim=4", "--set", "cml__epochs=2")
    assert model.members_[0].seed == 7
    assert model.weights == model.weights_.tolist()  # those that were chosen and measured


def test_a_number_of_interests_that_was_chosen_is_the_one_that_is_saved(fit):
    model, _ = fit(*SHORT, "--set", "n_interests=auto")
    assert model.n_interests in (1, 2, 4)


def test_files_of_recbole_are_fitted_with_a_card(run, error_of, shop, tmp_path):
    clicks = ts.Interactions.from_file(shop.clicks, user="who", item="what").to_frame()
    lines = ["user_id:token\titem_id:token", *(f"{user}\t{item}" for user, item in clicks.rows())]
    (tmp_path / "shop.inter").write_text("\n".join(lines) + "\n")
    done = run("fit", "shop.inter", "--model", "ease", "--out", "a.model", "--card")
    assert done.code == 0, done.err
    model = ts.load("a.model")
    assert model.train_.n_interactions == len(clicks)
    card = (tmp_path / "a.model" / "README.md").read_text()
    assert "* Source: shop.inter" in card
    assert "the saved model was then fitted to everything" in card
    assert f"| NDCG@10 | {ts.store.inspect('a.model')['metrics']['NDCG@10']:.4f} | fraction |" in card
    message = error_of("fit", "shop.inter", "--model", "ease", "--out", "b.model", "--delimiter", ",")
    assert "--delimiter with shop.inter: atomic files of RecBole say themselves what they hold" in message


def press_in_epoch(monkeypatch, number, signal_of):
    """Send this process a signal at the end of the epoch with this number."""
    one_epoch = Loop._one_epoch

    def train(self, epoch, bar):
        go_on = one_epoch(self, epoch, bar)
        if epoch + 1 == number:
            os.kill(os.getpid(), signal_of)
            time.sleep(1)  # the signal comes here
        return go_on

    monkeypatch.setattr(Loop, "_one_epoch", train)


@pytest.mark.parametrize("signal_of", [signal.SIGINT, signal.SIGTERM])
def test_a_training_that_is_stopped_saves_what_it_has_learned_elsewhere(fit, run, shop, monkeypatch, signal_of):
    fit("--model", "ease")
    press_in_epoch(monkeypatch, 2, signal_of)
    flags = (*DPCML, "--set", "dim=4", "--set", "epochs=9", "--set", "patience=0", "--out", "a.model")
    done = run("fit", shop.clicks, *COLUMNS, *flags)
    assert done.code == 130
    said = " ".join(done.err.split())
    assert "a.model is the model from before. What was learned in 2 epochs, of the data without" in said
    assert "is saved to a.model.interrupted" in said
    assert isinstance(ts.load("a.model"), ts.EASE)
    kept = ts.load("a.model.interrupted")
    assert isinstance(kept, ts.DPCML)
    assert kept.stopped_ == "interrupted"
    assert len(kept.history_) == 2
    assert len(kept.recommend("u03", k=3)) == 3
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_training_resumes_from_the_checkpoint_which_is_deleted_at_the_end(fit, run, shop, monkeypatch):
    flags = (*SHORT, "--set", "checkpoint_epochs=1", "--checkpoint", "work")
    with monkeypatch.context() as patch:
        press_in_epoch(patch, 2, signal.SIGINT)
        done = run("fit", shop.clicks, *COLUMNS, "--out", "a.model", *flags)
    assert done.code == 130
    assert "The same command resumes from the checkpoint work/training.safetensors" in " ".join(done.err.split())
    model, _ = fit(*flags, "--resume")
    assert model.checkpoint is None
    assert not Path("work").exists()
    assert np.array_equal(model.vectors().item_vectors, fit(*SHORT, out="b.model")[0].vectors().item_vectors)


def test_the_recipe_resumes_from_its_checkpoint(fit, run, shop, monkeypatch):
    flags = ("--trials", "3", "--checkpoint", "work")
    with monkeypatch.context() as patch:
        press_in_epoch(patch, 2, signal.SIGTERM)
        done = run("fit", shop.clicks, *COLUMNS, "--out", "a.model", *flags)
    assert done.code == 130
    said = " ".join(done.err.split())
    assert "a.model was not written. Kept in work: 2 models that were tried. Do the same again to resume there." in said
    model, _ = fit(*flags, "--resume")
    assert not Path("work").exists()
    expected, _ = fit("--trials", "3", out="b.model")
    users = np.arange(expected.train_.n_users)
    np.testing.assert_array_equal(model.score_block(users), expected.score_block(users))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--resume",), "--resume without --checkpoint"),
        (("--checkpoint", "none", "--resume"), "--resume: none holds no run. Begin one"),
        (("--model", "ease", "--checkpoint", "w"), "--checkpoint with --model ease: it does not train by epochs"),
        ((*DPCML, "--checkpoint", "w", "--set", "checkpoint=a"), "--checkpoint and --set checkpoint=... are the same"),
        ((*DPCML, "--checkpoint", "mine"), "--checkpoint mine: it holds other files"),
    ],
)
def test_flags_of_the_checkpoint(error_of, shop, flags, message):
    Path("mine").mkdir()
    Path("mine/notes.txt").touch()
    assert message in error_of("fit", shop.clicks, *COLUMNS, "--out", "a.model", *flags)


def test_a_folder_of_other_files_is_no_checkpoint(run, shop):
    Path("mine").mkdir()
    Path("mine/notes.txt").touch()
    done = run("fit", shop.clicks, *COLUMNS, "--out", "a.model", "--checkpoint", "mine")
    assert done.code == 2
    assert "error: --checkpoint mine is there already, and no checkpoint of a recipe" in " ".join(done.err.split())
    assert Path("mine/notes.txt").exists()


def test_the_number_of_models_is_the_same_everywhere(fit):
    model, output = fit("--trials", "4")
    report = ts.recipe.RecipeReport(**model.recipe_)
    beside = sum(model.weights_ == 0)
    n = len(model.members_) - beside
    said = " ".join(output.split())
    assert f"saved a blend of {n} model" in said
    assert ("beside that groups past items" in said) == (beside > 0)
    assert (f"the blend of {n} models" in report.reason) == (n > 1)
    rows = [row for row in report.trials if row["best"]]
    alone = report.blend["best_member"]
    assert any(abs(row["NDCG@10"] - alone["ndcg"]) < 1e-6 and row["model"] == alone["model"] for row in rows)
