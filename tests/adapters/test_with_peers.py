"""LensKit and RecTools with our models in them.

LensKit needs pandas 2 and RecTools, on Python below 3.13, NumPy 1: they cannot be installed beside the newest versions
that all other tests use. So they get an environment of their own, on top of this one, with the versions that they want.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.required_services import skip_without_service

CHECKS = Path(__file__).parent / "peer_checks"
PEERS = ("lenskit>=2025.6", "rectools>=0.13", "pyarrow>=20,<21")
"""pyarrow: newer ones do without NumPy 1."""


@pytest.fixture(scope="module")
def python() -> Iterator[Path]:
    """The interpreter of an environment with LensKit and RecTools; what it lacks is taken from this one."""
    with tempfile.TemporaryDirectory(prefix="tastespace-peers-") as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=300)
        found = folder / "bin" / "python"
        here = [path for path in sys.path if path.endswith("site-packages")]
        (own,) = folder.glob("lib/python*/site-packages")
        # addsitedir reads the .pth files there too, which an editable install needs.
        lines = [f"import site; site.addsitedir({path!r})\n" for path in here]
        (own / "zz_tested.pth").write_text("".join(lines), encoding="utf-8")
        torch = f"torch=={version('torch').partition('+')[0]}"  # the one that is here, so that no other is fetched
        command = [sys.executable, "-m", "pip", "--python", found, "install", "-q", "--no-compile"]
        done = subprocess.run([*command, *PEERS, torch], capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            reason = f"LensKit and RecTools cannot be installed: {done.stderr[-500:]}"
            skip_without_service(reason)
        yield found


@pytest.mark.slow
def test_models_work_in_lenskit_and_rectools(python):
    files = [CHECKS / f"{name}_checks.py" for name in ("lenskit", "rectools", "page")]
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    n_checks = sum(path.read_text(encoding="utf-8").count("\ndef test_") for path in files) + 1  # two blocks of a page
    assert f"{n_checks} passed" in done.stdout, done.stdout[-5000:]
