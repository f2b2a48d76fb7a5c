"""Commands whose modules are imported when they run, so that `tastespace --help` starts quickly."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from tastespace.cli.config import configured
from tastespace.cli.flag_groups import with_flag_groups


class LazyCommand(TyperCommand):
    """Stands for a command in the help; the command itself is imported when its arguments are read."""

    def __init__(self, target: str, example: str, summary: str) -> None:
        """``target`` is ``module:name`` in `tastespace.cli`: a function, or a Typer app with commands of its own."""
        self.target, self.example = target, example
        super().__init__(name=example.split()[0], help=summary, callback=None)

    def load(self) -> Any:
        """The command itself."""
        module, _, name = self.target.partition(":")
        found = getattr(import_module(f"tastespace.cli.{module}"), name)
        if isinstance(found, typer.Typer):
            return typer.main.get_group(found)
        app = typer.Typer(rich_markup_mode="rich", add_completion=False)
        title = str(self.name)
        app.command(title, epilog=f"Example: tastespace {self.example}")(configured(with_flag_groups(found), title))
        return typer.main.get_command(app)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the command itself, which then runs."""
        return self.load().make_context(info_name, args, parent, **extra)


def lazy_group(commands: list[LazyCommand]) -> type[TyperGroup]:
    """A group of these commands in this order, for ``typer.Typer(cls=...)``."""

    class LazyGroup(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.commands.update({str(one.name): one for one in commands})

    return LazyGroup
