"""Python processes of their own that use the client, as apps do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

CLIENT: Final = Path(__file__).parents[2] / "clients" / "python"


def environment() -> dict[str, str]:
    """This process' environment, in which the client of this tree is found and no other."""
    return {**os.environ, "PYTHONPATH": str(CLIENT), "PYTHONDONTWRITEBYTECODE": "1"}


def start(code: str, *arguments: str, python: str = sys.executable) -> subprocess.Popen[str]:
    """Start a script whose output is read."""
    return subprocess.Popen(
        [python, "-X", "faulthandler", "-W", "default", "-c", code, *arguments],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(code: str, *arguments: str, python: str = sys.executable) -> tuple[str, str]:
    """Run a script that must succeed; its output and its standard error."""
    process = start(code, *arguments, python=python)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out, err
