"""`--config` and `--print-config`."""

import pytest

from tastespace.cli.config import tomllib

# Every command with most of its flags, none at its default.
COMMANDS = {
    "demo": ("--dataset", "ml-100k", "--user", "7", "--seed", "3", "--trials", "4"),
    "fit": (
        "clicks.csv", "--out", "a.model", "--model", "cml", "--user", "who", "--item", "what", "--rating", "stars",
        "--min-rating", "3.5", "--weight", "plays", "--timestamp", "at", "--min-user", "2", "--min-item", "3",
        "--items", "items.csv", "--set", "dim=8", "--set", "sampler=hars", "--valid", "0.25", "--seed", "5",
        "--threads", "1", "--minutes", "0.5", "--trials", "3", "--params", "p.toml", "--half-life", "9d",
    ),
    "update": (
        "a.model", "new.csv", "--out", "b.model", "--user", "who", "--item", "what", "--rating", "stars",
        "--min-rating", "3.5", "--min-user", "2", "--items", "items.csv", "--threads", "1",
    ),
    "recommend": (
        "a.model", "ann", "bob \"the\" builder", "-k", "3", "--filter", "title <> 'C:\\new'", "--item", "jam",
        "--item", "tea", "--include-seen", "--on-unknown", "skip", "--mix", "calibrated", "--diversity", "0.5",
        "--column", "genres", "--mute", "1", "--mute", "2", "--boost", "0=1.5", "--format", "json",
        "--out", "list.json", "--rules", "rules.toml", "--titles", "--title-column", "name", "--no-profile",
    ),
    "shelves": (
        "a.model", "ann", "--mute", "1", "--mute", "2", "--boost", "0=1.5", "--column", "genres", "-k", "4",
        "--rules", "rules.toml", "--titles", "--title-column", "name", "--no-profile",
    ),
    "interests": ("a.model", "ann", "-k", "2", "--format", "csv"),
    "map": ("a.model", "ann", "--out", "map.svg", "--filter", "year > 1990"),
    "explore": ("a.model", "ann", "bob", "--out", "ann.html", "--sample", "3", "--compare", "b.model"),
    "explain": ("a.model", "ann", "jam", "-k", "2"),
    "similar": ("a.model", "jam", "tea", "--users", "-k", "2"),
    "popular": ("a.model", "--since", "7d", "--trending", "-k", "3", "--filter", "year > 1990"),
    "together": ("a.model", "jam", "tea", "--within", "1d"),
    "next": ("a.model", "tea", "jam", "--include-seen"),
    "serve": (
        "a.model", "--host", "127.0.0.1", "--port", "8001", "--workers", "2", "--store", "feedback.sqlite",
        "--compare", "b.model", "--rules", "rules.toml", "--tokens", "tokens.json", "--allowed-host", "shop.example",
    ),
    "serve-token": ("shop", "--tokens", "t.json", "--scope", "read", "--scope", "feedback", "--rate", "5.0"),
    "report": ("feedback.sqlite", "--since", "7d", "--conversion", "purchase", "--alpha", "0.1", "--out", "rates.csv"),
    "delete-user": ("a.model", "ann", "--store", "feedback.sqlite"),
    "user-data": ("a.model", "ann", "--store", "feedback.sqlite"),
    "put-item": ("a.model", "jam", "--set", "price=12", "--unavailable", "--store", "feedback.sqlite"),
    "delete-item": ("a.model", "jam", "--store", "feedback.sqlite"),
    "profile": ("a.model", "ann", "--mute", "2", "--unmute", "1", "--boost", "0=1.5", "--clear", "--out", "b.model"),
    "diversity": ("a.model", "0.3", "--out", "b.model"),
    "attributes": ("a.model", "items.csv", "--id", "sku", "--out", "b.model"),
    "index": ("a.model", "--kind", "ann", "--out", "b.model", "--threads", "2"),
    "evaluate": ("a.model", "later.csv", "--metric", "P", "--metric", "NDCG@5", "-k", "5", "-k", "10"),
    "export": ("a.model", "vectors", "--kind", "parquet"),
    "inspect": ("a.model", "--verify", "--format", "json"),
    "run": ("--dataset", "town", "--method", "cml+hars", "--set", "dim=4", "--metric", "P", "--json", "result.json"),
    "tune": ("--dataset", "town", "--method", "cml", "--trials", "2", "--minutes", "0.5", "--journal", "j", "--store"),
    "compare": (
        "clicks.csv", "--models", "ease,als", "--minutes", "2.5", "--metric", "P@3", "--metric", "MRR",
        "--windows", "3",
        "--test-span", "7d", "--min-history", "2", "--reference", "first", "--user", "who", "--timestamp", "at",
        "--half-life", "90d", "--format", "json", "--out", "rows.json",
    ),
    "models": ("--format", "json"),
    "datasets": ("ml-1m", "--format", "csv"),
    "doctor": (),
}  # fmt: skip


def test_every_command_is_tried_here():
    from tastespace.cli.app import COMMANDS as REGISTERED

    others = {"run-daily"}  # it takes the file as an argument: test_run_daily.py
    assert [*COMMANDS, "paper"] == [command.name for command in REGISTERED if command.name not in others]


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_printed_can_be_read_again(stdout_of, tmp_path, name):
    printed = stdout_of(name, *COMMANDS[name], "--print-config")
    (tmp_path / "flags.toml").write_text(printed, encoding="utf-8")
    assert stdout_of(name, "--config", "flags.toml", "--print-config") == printed


@pytest.mark.parametrize("name", COMMANDS)
def test_keys_are_the_flags_and_values_what_was_given(stdout_of, name):
    table = tomllib.loads(stdout_of(name, *COMMANDS[name], "--print-config"))[name]
    flags, given = stdout_of(name, "--help"), COMMANDS[name]
    for key, value in table.items():
        assert f"--{key} " in flags or f" {key} " in flags or f" {key}..." in flags, key
        if f"--{key}" in given and not isinstance(value, bool):
            asked = [given[at + 1] for at, word in enumerate(given) if word == f"--{key}"]
            assert [str(one) for one in (value if isinstance(value, list) else [value])] == asked
    strange = {'bob "the" builder', "title <> 'C:\\new'"} & set(given)
    assert all(text in [*table["users"], table["filter"]] for text in strange)


@pytest.fixture
def config(tmp_path):
    """Writes the flags of recommend into a file."""

    def write(text):
        path = tmp_path / "flags.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_command_runs_from_its_file_alone(stdout_of, shop, config):
    path = config(f'[recommend]\nmodel = "{shop.model}"\nusers = ["u03", "u05"]\nk = 2\nfilter = "year > 1990"\n')
    flags = ("recommend", shop.model, "u03", "u05", "-k", 2, "--filter", "year > 1990")
    assert stdout_of("recommend", "--config", path) == stdout_of(*flags)


def test_the_command_line_counts_more_than_the_file(stdout_of, shop, config):
    path = config(f'[recommend]\nmodel = "none.model"\nusers = ["u03", "u05"]\nk = 2\nformat = "json"\n')  # noqa: F541
    text = stdout_of("recommend", shop.model, "u07", "-k", 1, "--format", "csv", "--config", path)
    assert [line.split(",")[0] for line in text.splitlines()] == ["user", "u07"]
    assert stdout_of("recommend", "--config", path, shop.model, "u07", "-k", 1, "--format", "csv") == text


def test_a_file_may_hold_several_commands_and_keys_with_either_dash(stdout_of, config):
    path = config('[recommend]\non_unknown = "skip"\ninclude-seen = true\n[shelves]\nk = 3\n')
    table = tomllib.loads(stdout_of("recommend", "a.model", "--config", path, "--print-config"))["recommend"]
    assert (table["on-unknown"], table["include-seen"], table["k"]) == ("skip", True, 10)
    assert (
        tomllib.loads(stdout_of("shelves", "a.model", "ann", "--config", path, "--print-config"))["shelves"]["k"] == 3
    )


def test_one_value_will_do_where_several_are_possible(stdout_of, config):
    path = config('[recommend]\nusers = "ann"\nitem = "jam"\nhistory = ["tea"]\n[evaluate]\nk = 5\n')
    table = tomllib.loads(stdout_of("recommend", "a.model", "--config", path, "--print-config"))["recommend"]
    assert (table["users"], table["item"], table["history"]) == (["ann"], ["jam"], ["tea"])
    assert tomllib.loads(stdout_of("evaluate", "a", "b", "--config", path, "--print-config"))["evaluate"]["k"] == [5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[recommend]\nfiltre = 'x'\n", "has no flag 'filtre'; there are model, users, k,"),
        ("[recommend]\nfiltre = 'x'\n", "Did you mean filter or item?"),
        ("[recommend]\ninclude_sean = true\n", "Did you mean include-seen?"),
        ("[recomend]\nk = 3\n[shelves]\n", "has no table [recommend]; it has [recomend], [shelves]."),
        ("recommend = 3\n", "has no table [recommend]; it has none."),
        ("", "has no table [recommend]; it has none."),
        ("[recommend\n", "is not TOML"),
        ("[recommend]\nk = = 3\n", "line 2"),
    ],
)
def test_a_file_that_is_not_understood_is_refused_in_one_line(error_of, config, text, message):
    path = config(text)
    output = error_of("recommend", "a.model", "--config", path)
    assert output.startswith(f"--config {path}")
    assert message in output


def test_a_file_that_cannot_be_read(error_of, tmp_path):
    assert "--config none.toml: cannot be read (No such file" in error_of("recommend", "--config", "none.toml")
    assert "cannot be read (Is a directory)" in error_of("recommend", "--config", tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    assert "is not TOML" in error_of("recommend", "--config", "bytes.toml")


def test_a_value_of_the_wrong_kind_names_the_flag(run, config):
    done = run("recommend", "a.model", "--config", config('[recommend]\nk = "many"\n'))
    assert (done.code, done.raw) == (2, b"")
    assert "'--k'" in done.err
