"""Programs of the system that some tests need: where they are missing, tests skip, or fail where they must be there."""

import os
from typing import NoReturn

import pytest


def skip_without_service(reason: str) -> NoReturn:
    """Skip the test; with TASTESPACE_REQUIRE_SERVICES=1, which `.ci/run` sets, fail."""
    if os.environ.get("TASTESPACE_REQUIRE_SERVICES") == "1":
        pytest.fail(f"{reason}, and TASTESPACE_REQUIRE_SERVICES=1")
    pytest.skip(reason)
