"""Which processes belong to a test: those whose working folder is in the test's folder.

Everything that `sitemapd` starts inherits its working folder, and the embedded server makes the data
folder its own. So a child is found even when its parent is dead already.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.acceptance.until import until


def running(folder: Path) -> dict[int, str]:
    """Process id → command line of every process that works below that folder, zombies left out."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            place = Path(os.readlink(entry / "cwd").removesuffix(" (deleted)"))
            if place.is_relative_to(folder) and state(int(entry.name)) != "Z":
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def state(pid: int) -> str:
    """The kernel's letter: R, S, T (stopped), Z (zombie) …; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def kill_all(folder: Path) -> None:
    """Kill, by process id, whatever a test left running below its folder."""
    for pid in running(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: not running(folder), what=f"nothing runs below {folder}")


def arm(faults: Path, point: str, action: str) -> None:
    """Have the first worker to reach a point of a rewrite killed (`kill`) or stopped (`stop`) there."""
    half = faults.with_name(f"{faults.name}.{point}")
    half.write_text(action)
    half.replace(faults / point)
