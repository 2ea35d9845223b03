"""`python -m benchmarks.bench_backup [--urls N]`: a backup of a large site, and its restore.

The commands as a user runs them, start and import included. The restore is into an emptied Redis beside the
tree that the backup belongs to; then it is timed until the workers have compared every file with the state.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time

from benchmarks.__main__ import show
from benchmarks.bulk import bulk
from benchmarks.service import Service, running


def timed(service: Service, *args: str) -> tuple[float, dict[str, float]]:
    """A command's seconds, and its answer."""
    begin = time.perf_counter()
    done = subprocess.run(service.command(*args, "--json"), check=True, capture_output=True)
    took = time.perf_counter() - begin
    return took, json.loads(done.stdout)


def main() -> None:
    """Load a site, back it up, lose it, restore it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_backup")
    parser.add_argument("--urls", type=int, default=1_000_000)
    count: int = parser.parse_args().urls
    with running() as service:
        bulk(service, count)
        file = str(service.folder / "site.backup")
        took, made = timed(service, "backup", file)
        service.parts().client.flushall()
        back, _ = timed(service, "restore", file)
        begin = time.perf_counter()
        subprocess.run(service.command("wait", "--timeout", "600"), check=True)
        compared = time.perf_counter() - begin
    row = {
        "backup s": took,
        "file MB": made["bytes"] / 1e6,
        "bytes a URL": made["bytes"] / count,
        "restore s": back,
        "all files compared s": compared,
    }
    show("backup and restore", {f"{count:,} URLs": row})


if __name__ == "__main__":
    main()
