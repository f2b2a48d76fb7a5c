"""Programs and optional packages that some tests need: without them tests skip, or fail where they are required."""

import importlib
import os
from typing import Any, NoReturn

import pytest


def skip_without_service(reason: str) -> NoReturn:
    """Skip the test; with TASTESPACE_REQUIRE_SERVICES=1, which `.ci/run` sets, fail."""
    if os.environ.get("TASTESPACE_REQUIRE_SERVICES") == "1":
        pytest.fail(f"{reason}, and TASTESPACE_REQUIRE_SERVICES=1")
    pytest.skip(reason)


def optional_package(name: str) -> Any:
    """Import an optional package. Without it skip the test; with TASTESPACE_REQUIRE_EXTRAS=1 (`make test`), fail."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        if os.environ.get("TASTESPACE_REQUIRE_EXTRAS") == "1":
            pytest.fail(f"{name} is not installed, and TASTESPACE_REQUIRE_EXTRAS=1")
        pytest.skip(f"{name} is not installed")
