"""`python -m benchmarks.bench_backup [--urls N]`: a site's state to a file, and back into an empty Redis."""

from __future__ import annotations

import argparse
import subprocess
import time

from rich.console import Console

from benchmarks.bulk import bulk
from benchmarks.service import running


def main() -> None:
    """Print what each of the two took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_backup")
    parser.add_argument("--urls", type=int, default=1_000_000)
    urls = parser.parse_args().urls
    with running() as service:
        bulk(service, urls)
        file, took = service.folder / "main.backup", []
        client = service.parts().client
        for command in ("backup", "restore"):
            if command == "restore":
                service.stop_workers()
                client.flushall()
            begin = time.perf_counter()
            subprocess.run(service.command(command, str(file)), check=True, stdout=subprocess.DEVNULL)
            took.append(time.perf_counter() - begin)
        size = file.stat().st_size
    backup, restore = took
    Console().print(
        f"{urls:,} URLs: backup {backup:.1f} s, restore {restore:.1f} s, file {size / 1e6:.1f} MB, "
        f"{size / urls:.1f} bytes a URL"
    )


if __name__ == "__main__":
    main()
