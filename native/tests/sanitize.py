"""Build and run the kernels under sanitizers: `make sanitize`, or `python native/tests/sanitize.py --variants v3`.

1. Address and undefined-behavior sanitizers: the modules of every SIMD variant are built with them, the C++ unit tests
   run, and then the Python tests that drive the kernels, with the sanitized modules in place of the usual ones.
2. Thread sanitizer (clang, libomp, archer): a C++ driver runs the parallel kernels with four threads. It must find
   nothing there, and must find the race that the driver plants on request.

Needs GCC with libasan; clang, libomp and compiler-rt for the second part. On Debian `.ci/install-services sanitizers`
installs them (packages cmake, g++, clang, libomp-dev, which has libarcher, and libclang-rt-dev).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "sanitize"
KERNELS = sorted(path for name in ("core", "train", "rank", "lists") for path in (ROOT / "native" / name).glob("*.cpp"))
TESTS = [
    "tests/training/test_native_dpcml.py",
    "tests/training/test_native_bpr.py",
    "tests/training/test_native_softmax_mf.py",
    "tests/training/test_native_trainer.py",
    "tests/training/test_anchored_dpcml.py",
    "tests/training/test_extreme_sizes.py",
    "tests/training/test_samplers.py",
    "tests/models/test_native_arguments.py",
    "tests/models/test_native_scores.py",
    "tests/ranking/test_blocks.py",
    "tests/ranking/test_interests.py",
    "tests/models/test_als.py",
    "tests/models/linear/test_sparse_ease.py",
    "tests/recommend/rerank/test_algorithms.py",
    "tests/recommend/rules/test_lists.py",
    "tests/recommend/test_fold_in.py",
    "tests/data/test_interactions.py",
    "tests/data/test_checks.py",
    "tests/store/test_damaged_models.py",
]
DESELECTED = (
    # The address sanitizer's own allocator ends the process where the system gives no memory.
    "tests/training/test_extreme_sizes.py::test_memory_that_runs_out_inside_a_kernel_is_an_error_of_python",
    # Starts processes for all variants, each of which has its turn here.
    "tests/ranking/test_blocks.py::test_every_simd_variant_that_runs_here_passes",
)
RUNNER = """
import sys
sys.meta_path[:] = [one for one in sys.meta_path if "ScikitBuild" not in type(one).__name__]
sys.path.insert(0, sys.argv.pop(1))
import tastespace._native as native
assert native._variant.__file__.startswith(sys.path[0]), native._variant.__file__
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def run(command: list[str], environment: dict[str, str] | None = None, check: bool = True, **options: object) -> int:
    """Run a command, said before."""
    sys.stdout.write("$ " + " ".join(command)[:200] + "\n")
    sys.stdout.flush()
    found = subprocess.run(command, env={**os.environ, **(environment or {})}, cwd=ROOT, **options)  # type: ignore[call-overload]
    if check and found.returncode != 0:
        sys.exit(f"failed with {found.returncode}: {' '.join(command)[:200]}")
    return int(found.returncode)


def build(variants: list[str], python: str) -> None:
    """The modules and the C++ tests with the address and undefined-behavior sanitizers."""
    BUILD.mkdir(parents=True, exist_ok=True)
    run(
        [
            *(
                "cmake",
                "-S",
                str(ROOT),
                "-B",
                str(BUILD),
                "-DCMAKE_BUILD_TYPE=Release",
                f"-DPython_EXECUTABLE={python}",
            ),
            *("-DTASTESPACE_SANITIZE=address,undefined", "-DTASTESPACE_TESTS=ON"),
            f"-DTASTESPACE_TEST_VARIANTS={';'.join(variants)}",
        ],
        stdout=subprocess.DEVNULL,
    )
    wanted = [*dict.fromkeys(["generic", *variants]), *(f"unit_tests_{one}" for one in variants)]
    run(["cmake", "--build", str(BUILD), "-j", str(os.cpu_count() or 1), "--target", *wanted])


def overlay() -> Path:
    """The package with links to the Python files and the sanitized modules."""
    folder = BUILD / "package"
    shutil.rmtree(folder, ignore_errors=True)
    for path in (ROOT / "src" / "tastespace").rglob("*"):
        if path.is_file() and path.suffix != ".so" and "__pycache__" not in path.parts:
            link = folder / path.relative_to(ROOT / "src")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    for path in BUILD.glob("*.so"):
        (folder / "tastespace" / "_native" / path.name).symlink_to(path)
    return folder


def address(variants: list[str], python: str, tests: list[str]) -> None:
    """Unit tests and Python tests with sanitized modules."""
    build(variants, python)
    for variant in variants:
        run([str(BUILD / f"unit_tests_{variant}")], {"ASAN_OPTIONS": "detect_leaks=1"})
    # Exceptions are intercepted where libstdc++ is loaded as early as the sanitizer.
    libraries = [
        subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip()
        for name in ("libasan.so", "libstdc++.so.6")
    ]
    folder = overlay()
    for variant in variants:
        environment = {
            "LD_PRELOAD": " ".join(libraries),
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",  # Python's own memory is never freed
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
            "TASTESPACE_SIMD": variant,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        options = ["-q", "--capture=sys", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not slow"]
        options += [f"--deselect={name}" for name in DESELECTED]
        run([python, "-c", RUNNER, str(folder), *options, *tests], environment)


def threads() -> None:
    """The driver under the thread sanitizer: nothing but the planted race is found."""
    BUILD.mkdir(parents=True, exist_ok=True)
    driver = BUILD / "thread_driver"
    flags = ["-std=c++20", "-O1", "-g1", "-fopenmp", "-fsanitize=thread"]
    run(["clang++", *flags, "-Inative", "-o", str(driver), "native/tests/thread_driver.cpp", *map(str, KERNELS)])
    environment = {"OMP_TOOL_LIBRARIES": str(archer()), "TSAN_OPTIONS": "ignore_noninstrumented_modules=1 exitcode=66"}
    run([str(driver)], environment)
    if run([str(driver), "race"], environment, check=False, stderr=subprocess.DEVNULL) != 66:
        sys.exit("the planted race was not found: the thread sanitizer does not work here.")
    sys.stdout.write("the planted race was found\n")


INSTALL = "Debian: .ci/install-services sanitizers. Or give --only address."


def require_tools(only: str | None) -> None:
    """Say at once what is missing, before anything is built."""
    if only != "threads":
        for tool in ("cmake", "gcc"):
            if shutil.which(tool) is None:
                sys.exit(f"{tool} is not there. Debian: .ci/install-services sanitizers.")
        if not Path(subprocess.check_output(["gcc", "-print-file-name=libasan.so"], text=True).strip()).is_absolute():
            sys.exit("libasan.so is not there. Debian: .ci/install-services sanitizers.")
    if only != "address":
        if shutil.which("clang++") is None:
            sys.exit(f"clang++ is not there. {INSTALL}")
        if archer() is None:
            sys.exit(
                "libarcher.so is not there: without it the thread sanitizer reports OpenMP's own synchronization as "
                f"races. {INSTALL}"
            )


def archer() -> str | None:
    """The library that tells the thread sanitizer of OpenMP's synchronization."""
    said = subprocess.run(["clang++", "-print-file-name=libarcher.so"], capture_output=True, text=True).stdout.strip()
    found = [Path(said), *sorted(Path("/usr/lib").glob("llvm-*/lib/libarcher.so"))]
    return next((str(path) for path in found if path.is_absolute() and path.is_file()), None)


def main() -> None:
    """Run the sanitizers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", nargs="*", help="SIMD variants; by default all that this processor runs")
    parser.add_argument("--only", choices=["address", "threads"])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--tests", nargs="*", default=TESTS)
    given = parser.parse_args()
    require_tools(given.only)
    began = time.monotonic()
    if given.only != "threads":
        code = "import tastespace._native as n; print(*n.VARIANTS)"
        found = subprocess.run([given.python, "-c", code], capture_output=True, text=True, check=True).stdout.split()
        address(given.variants or found, given.python, given.tests)
    if given.only != "address":
        threads()
    sys.stdout.write(f"sanitizers: nothing found, {time.monotonic() - began:.0f} s\n")


if __name__ == "__main__":
    main()
