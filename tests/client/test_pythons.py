"""The client on the Pythons that it promises: 3.9 and what came since."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import needs
from tests.client.processes import CLIENT, environment

MODULES = sorted(CLIENT.rglob("*.py"))


def others() -> list[str]:
    """The other Pythons of this machine, from 3.9 on: those on the PATH, and those of pyenv."""
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    found = [shutil.which(f"python3.{minor}") for minor in range(9, 30)]
    found += [str(path) for path in sorted(root.glob("versions/3.*/bin/python"))]
    check = "import sys; sys.exit(sys.version_info < (3, 9))"
    # A shim of pyenv is on the PATH for each version, and runs the chosen one alone.
    return [
        each
        for each in found
        if each and subprocess.run([each, "-c", check], capture_output=True).returncode == 0
    ]


def exercised(python: str) -> str:
    """What the exercise says on a Python."""
    done = subprocess.run(
        [python, "-W", "error", CLIENT / "exercise.py"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_oldest() -> None:
    """PyPy 7.3 of Debian 12 is a Python 3.9, the oldest that Debian still has."""
    assert exercised(needs.program("pypy3", package="pypy3")).startswith("fine on pypy 3.")


@pytest.mark.parametrize("python", [sys.executable, *others()])
def test_others(python: str) -> None:
    """This Python, and each other one of the machine."""
    assert exercised(python).startswith("fine on cpython 3.")


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_syntax_is_that_of_the_oldest(module: Path) -> None:
    """No module has syntax that Python 3.9 can't read, and ruff holds the rest to 3.9."""
    ast.parse(module.read_text("utf-8"), feature_version=(3, 9))
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text("utf-8"))
    assert project["tool"]["ruff"]["target-version"] == "py39"
    assert project["project"]["requires-python"] == ">=3.9"
