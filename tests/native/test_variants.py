"""Which SIMD variant is imported where not all of them were built."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tastespace import _native


@pytest.fixture
def imported(tmp_path):
    """Import a copy of the package of kernels that has one variant alone."""
    copy = tmp_path / "kernels"
    copy.mkdir()
    source = Path(_native.__file__)
    (copy / "__init__.py").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    module = Path(import_module(f"tastespace._native.{_native.VARIANTS[-1]}").__file__)
    (copy / module.name).symlink_to(module)

    def run(**environment):
        code = "import kernels; print(kernels.SIMD, *kernels.VARIANTS, kernels.crc32.__name__)"
        environment = {**{k: v for k, v in os.environ.items() if k != "TASTESPACE_SIMD"}, **environment}
        return subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    return run


def test_the_only_variant_is_chosen(imported):
    best = _native.VARIANTS[-1]
    assert imported().stdout.split() == [best, best, "crc32"]
    assert imported(TASTESPACE_SIMD=best).stdout.split() == [best, best, "crc32"]


def test_a_variant_that_was_not_built_is_named(imported):
    best = _native.VARIANTS[-1]
    if best == "generic":
        pytest.skip("this processor runs one variant")
    error = imported(TASTESPACE_SIMD="generic").stderr.strip().splitlines()[-1]
    assert error.startswith(f"ImportError: TASTESPACE_SIMD='generic': built was {best}, as `make demo` does.")
    assert error.endswith("Unset the variable, or build all SIMD variants with `make test`.")
    assert "TASTESPACE_SIMD='v9': this processor runs" in imported(TASTESPACE_SIMD="v9").stderr
