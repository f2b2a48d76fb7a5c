"""Titles from data never reach a terminal as escape sequences."""

import io
import os
import pty
import subprocess
import sys

import polars as pl
import pytest
from rich.table import Table

from tastespace import DPCML, Interactions, synthetic
from tastespace._util.terminal import Console, neutralized

EVIL = "jam\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r"


def test_control_characters_become_visible_and_text_stays():
    assert neutralized("plain, \té\nnaïve 日本") == "plain, \té\nnaïve 日本"
    found = neutralized(EVIL)
    assert found == "jam\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202e\\x0d"


@pytest.mark.parametrize("in_table", [True, False])
def test_a_console_keeps_its_own_styles_only(in_table):
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=200)
    if in_table:
        table = Table("title")
        table.add_row(EVIL, style="bold")
        console.print(table)
    else:
        console.print("[bold]x[/]", EVIL)
    text = file.getvalue()
    assert "\x1b[1m" in text  # bold, by rich
    assert not {"\x07", "\x9b", "\u202e", "\r"} & set(text)
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    data = synthetic.multi_interest(n_users=20, n_items=15, n_interactions=120, seed=1).interactions
    titles = pl.DataFrame({"item": data.items.series, "title": [EVIL if i % 2 else f"=1+{i}" for i in range(15)]})
    path = tmp_path_factory.mktemp("m") / "model"
    DPCML(dim=4, epochs=1, n_interests=2).fit(Interactions.from_frame(data.to_frame(), item_attributes=titles)).save(
        path
    )
    return path


def on_a_terminal(*arguments):
    """Standard output of a command that runs on a terminal."""
    parent, child = pty.openpty()
    code = "from tastespace.cli.app import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=child, stderr=subprocess.DEVNULL)
    os.close(child)
    found = b""
    try:
        while part := os.read(parent, 65536):
            found += part
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(parent)
    assert process.wait(60) == 0
    return found.decode()


@pytest.mark.parametrize(
    "command", [["recommend", "0", "--titles"], ["shelves", "0"], ["recommend", "0", "--titles", "--format", "csv"]]
)
def test_commands_neutralize_titles_on_a_terminal(model, command):
    verb, user, *rest = command
    text = on_a_terminal(verb, str(model), user, "-k", "8", *rest)
    assert "jam\\x1b]0;owned" in text
    assert "\x1b]" not in text
    assert "\x07" not in text


def test_formula_safe_csv(model):
    code = "from tastespace.cli.app import main; main()"

    def run(kind):
        arguments = ["recommend", str(model), "0", "-k", "8", "--titles", "--format", kind]
        return subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
        ).stdout

    assert ",=1+" in run("csv")
    safe = run("csv-safe")
    assert ",=1+" not in safe
    assert ",'=1+" in safe
