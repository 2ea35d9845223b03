"""What a test needs of its machine: on a laptop its absence skips the test, in CI it fails it.

A suite that skips in CI stays green while it proves nothing.
"""

import os
import shutil
from typing import NoReturn

import pytest


def in_ci() -> bool:
    """Say whether the environment variable CI is set to something that means yes."""
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


def missing(reason: str) -> NoReturn:
    """Skip the test with `reason`, or fail it when CI=true."""
    if in_ci():
        pytest.fail(f"CI has to have it: {reason}", pytrace=False)
    pytest.skip(reason)


def require(condition: object, reason: str) -> None:
    """Go on when `condition` holds; otherwise skip with `reason`, or fail when CI=true."""
    if not condition:
        missing(reason)


def program(name: str, *, package: str) -> str:
    """Return the path of a program, looking in the sbin folders too; skip or fail without it.

    `package` is what to install, for the reason that the reader sees.
    """
    folders = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))
    found = shutil.which(name, path=folders)
    if found is None:
        missing(f"'{name}' is not installed: install the package {package}")
    return found
