"""`tastespace doctor`: what is installed, what the processor can do, where data is looked for."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version

from rich.markup import escape
from rich.table import Table

import tastespace
from tastespace import _native, threads
from tastespace.data.datasets.cache import cache_root
from tastespace.data.datasets.file_sources import user_folders
from tastespace.extras import EXTRAS
from tastespace.terminal import Console

_CORE = (
    "numpy", "scipy", "polars", "narwhals", "safetensors", "threadpoolctl", "typer", "rich", "pooch", "platformdirs",
    "filelock", "tomli-w",
)  # fmt: skip


def doctor() -> None:
    """Print versions, the SIMD variant chosen, threads, data directories and which optional packages are there."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("tastespace", tastespace.__version__)
    table.add_row("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    table.add_row("kernels", _kernels())
    table.add_row("threads", f"{threads.available()} (threads=0 uses all of them)")
    folders = [f"{folder}{'' if folder.is_dir() else ' (no such folder)'}" for folder in user_folders(None)]
    table.add_row("data folders", "\n".join(folders) or "none (set TASTESPACE_DATA)")
    table.add_row("cache", str(cache_root()))
    table.add_row("core", ", ".join(f"{name} {_version(name)}" for name in _CORE))
    for name, extra in EXTRAS.items():
        packages = [re.split("[<>=]", one)[0] for one in extra.packages]
        found = ", ".join(f"{one} {_version(one) or '[dim]absent[/]'}" for one in packages)
        install = "" if all(map(_version, packages)) else f" ({escape(extra.command)}: {extra.purpose})"
        table.add_row(name, found + install)
    Console().print(table)


def _kernels() -> str:
    names = {"generic": "portable", "v3": "AVX2 + FMA (x86-64-v3)", "v4": "AVX-512 (x86-64-v4)"}
    forced = ", forced by TASTESPACE_SIMD" if os.environ.get("TASTESPACE_SIMD") else ""
    return f"{names[_native.SIMD]}{forced}; best for this processor: {names[_native.best_simd_variant()]}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
