"""The C++ unit tests, compiled with the address and undefined-behavior sanitizers; `make sanitize` does more."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.required_services import skip_without_service

NATIVE = Path(__file__).parents[2] / "native"
SOURCES = [
    "tests/unit_tests", "core/crc32", "core/csr", "core/row_positions", "rank/list_order", "rank/row_ranking",
    "train/negatives",
]  # fmt: skip


@pytest.mark.slow
def test_unit_tests_under_sanitizers(tmp_path):
    compiler = shutil.which("g++")
    if compiler is None:  # the library can be built with another compiler
        skip_without_service("g++ is not there")
    flags = [
        f"-I{NATIVE}",
        "-std=c++20",
        "-O1",
        "-fopenmp",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-Wall",
    ]
    sources = [str(NATIVE / f"{name}.cpp") for name in SOURCES]
    subprocess.run([compiler, *flags, "-Werror", "-o", str(tmp_path / "tests"), *sources], check=True, timeout=600)
    done = subprocess.run([str(tmp_path / "tests")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "10 unit tests hold" in done.stdout
