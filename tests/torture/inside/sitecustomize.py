"""Python runs this at the start of every process under torture, since its folder is on their PYTHONPATH.

It brings about what no one can from outside, as files in the folder `SITEMAPD_TORTURE` say:

1. `eio`: file calls below a folder fail with EIO. Its first line is the folder, the others are names of
   functions of `os`.
2. `clock-hosts`: by how many seconds the clock is wrong. libfaketime would do without us, but has
   `time.sleep` fail.
3. A lease lasts `SITEMAPD_TORTURE_LEASE` seconds, and not a minute. As with the product's own values, a
   worker that holds one for two thirds of that is killed.
"""

from __future__ import annotations

import datetime
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ["SITEMAPD_TORTURE"])
EIO, CLOCK = FOLDER / "eio", FOLDER / "clock-hosts"


def _path(name: object) -> str:
    """The path of a file that is given as `os` takes it: a path or a descriptor."""
    if isinstance(name, int):
        return os.readlink(f"/proc/self/fd/{name}")
    return os.fsdecode(name) if isinstance(name, (str, bytes, os.PathLike)) else ""


def _failing(call: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            folder, *names = EIO.read_text().splitlines()
        except FileNotFoundError:
            return call(*args, **kwargs)
        if call.__name__ in names and args and _path(args[0]).startswith(folder):
            raise OSError(errno.EIO, os.strerror(errno.EIO), _path(args[0]))
        return call(*args, **kwargs)

    return called


for each in (os.fsync, os.replace, os.unlink, os.scandir):
    setattr(os, each.__name__, _failing(each))

_time = time.time


def _wrong() -> int:
    return int(CLOCK.read_text())


class WrongDatetime(datetime.datetime):
    """What `datetime.now` of every other module is."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> WrongDatetime:
        return super().now(tz) + datetime.timedelta(seconds=_wrong())


time.time = lambda: _time() + _wrong()
time.time_ns = lambda: int(time.time() * 1e9)
setattr(datetime, "datetime", WrongDatetime)  # noqa: B010 - a checker takes a class's name for a type

import sitemap_store.redis.state as state  # noqa: E402 - with the patched modules

lease = round(float(os.environ["SITEMAPD_TORTURE_LEASE"]) * 1000)
state.LEASE_MS, state.STUCK_MS = lease, lease * 2 // 3
