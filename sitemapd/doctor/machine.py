"""Checks of this machine: packages, versions, disks."""

from __future__ import annotations

import importlib
import os
import platform
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from sitemap_store.errors import SitemapdError
from sitemapd.doctor.finding import size

DISK_SHARE: Final = 0.05
DISK_BYTES: Final = 1 << 30
"""A disk with less than both left is nearly full: 5 % of a large disk is plenty."""
INODES: Final = 1000
_NAMED: Final = ("redis", "rq", "lxml", "watchdog", "starlette", "uvicorn")
_REQUIREMENT: Final = re.compile(r"([\w.-]+)(?:\[[^]]*\])?\s*\(?([^);]*)")
_BOUND: Final = re.compile(r"(>=|<)\s*([\d.]+)")


def packages() -> str:
    """Check that no other installed package hides one of ours: `worker` is a common name."""
    here = Path(__file__).resolve().parents[2]
    for name in ("sitemap_store", "producers", "worker"):
        module = importlib.import_module(name)
        place = Path(module.__file__ or "").resolve()
        if not place.is_relative_to(here):
            raise SitemapdError(
                f"another package named {name} hides ours: {place}. Install sitemapd into an environment of "
                "its own"
            )
    return "no other package hides one of sitemapd's"


def versions(distribution: str = "sitemapd") -> str:
    """Check that each library has a version that this sitemapd takes."""
    try:
        given = metadata.requires(distribution) or []
        ours = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        raise SitemapdError(
            f"{distribution} runs without being installed, so the versions of its libraries can't be "
            "checked: run `pip install` for it"
        ) from None
    wrong = [fault for line in given if "extra ==" not in line for fault in _outside(line)]
    if wrong:
        raise SitemapdError(f"{'; '.join(wrong)}: run `pip install --upgrade {distribution}`")
    libraries = ", ".join(f"{name} {metadata.version(name)}" for name in _NAMED)
    return f"{distribution} {ours}, Python {platform.python_version()}, {libraries}"


def _outside(requirement: str) -> Iterator[str]:
    """A sentence where the installed version is outside what a line of Requires-Dist allows."""
    match = _REQUIREMENT.match(requirement)
    assert match is not None
    name, bounds = match[1], match[2].strip()
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        yield f"the Python package {name} is not installed"
        return
    for sign, bound in _BOUND.findall(bounds):
        if (_release(found) >= _release(bound)) != (sign == ">="):
            yield f"the Python package {name} is version {found}, and {bounds} is needed"


def _release(version: str) -> list[int]:
    numbers = re.match(r"[\d.]*", version)
    found = [int(number) for number in (numbers[0] if numbers else "").split(".") if number]
    while found and not found[-1]:
        found.pop()  # 9.0 is 9
    return found


def disk(path: Path) -> str:
    """Check that the disk of a folder, which need not exist yet, has room for files and for their names."""
    folder = path.absolute()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        found = os.statvfs(folder)
    except OSError as error:
        raise SitemapdError(
            f"{folder} can't be read ({error.strerror}): let the user that sitemapd runs as read it"
        ) from error
    left, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    said = f"{size(left)} of {size(total)} are left at {path}"
    if left < min(DISK_BYTES, total * DISK_SHARE):
        raise SitemapdError(f"only {said}: remove files from this disk, or use a larger one")
    if found.f_files and found.f_favail < INODES:
        raise SitemapdError(
            f"{path} has room for only {found.f_favail} more files: remove files from this disk, or use one "
            "with more inodes"
        )
    return said
