"""The flags of a table of interactions and the options of the library are the same."""

import dataclasses

from tastespace.cli.flags import TableFlags
from tastespace.data import ReadOptions

WRITTEN_OTHERWISE = {
    "items": "item_attributes",  # files instead of frames
    "users": "user_attributes",
    "no_header": "header",
    "all_items": "catalog",
    "event": "events",
}
ONLY_FLAGS = {"half_life", "items_id"}
ONLY_OPTIONS = {"core", "duplicates"}
OF_COMMANDS = {"part", "threads", "spill", "memory", "target"}  # flags of some commands, or what a command is about


def test_flags_and_options_have_the_same_names_and_defaults():
    flags = {field.name: field.default for field in dataclasses.fields(TableFlags)}
    options = {field.name: field.default for field in dataclasses.fields(ReadOptions)}
    named = {WRITTEN_OTHERWISE.get(name, name) for name in flags.keys() - ONLY_FLAGS}
    assert named == options.keys() - ONLY_OPTIONS - OF_COMMANDS
    for name in flags.keys() & options.keys() - {"user", "item"}:
        assert flags[name] == options[name], name
    assert (flags["user"], flags["item"]) == (None, None)  # which columns they are by default depends on the file
