"""The processes that look at a site's output, by name, and which of them may still run."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable

SEEN_MS = 20_000
"""How long a process that saw the marker counts as alive."""


def process_name() -> str:
    """A name for this process among those that look at outputs: its host, its pid and a random part."""
    return f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(3)}"


def living(processes: Iterable[str]) -> set[str]:
    """The processes that may still run: all but those of this host that certainly ended."""
    return {name for name in processes if not _has_ended(name)}


def _has_ended(process: str) -> bool:
    host, pid, _ = process.split("/")
    if host != socket.gethostname():
        return False
    if int(pid) == os.getpid():
        return True  # an earlier process that had our pid, as in a container
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
