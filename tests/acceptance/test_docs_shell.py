"""Each block of shell in the docs runs, line by line, in the order of its page.

A line above a block that says `<!-- not run: reason -->` excuses the block. The port and the folder for
backups are replaced by the test's own. `curl` fails on an error status, a line that ends in
`grep` may have to be repeated, and a service goes on until the next one starts.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests import markdown, needs
from tests.acceptance.place import ROOT
from tests.acceptance.processes import kill_all
from tests.acceptance.until import until
from tests.markdown import DOCS

SETTINGS: Final = """
[sites.shop]
base_url = "https://shop.example.com/"
output = "public"

[sites.shop.sections.products]
match = "/products/**"

[sites.shop.watch.pages]
directory = "content"

[sites.shop.database.catalogue]
dsn = "sqlite:///shop.db"
table = "products"
url = "/products/{slug}"
"""
NOT_RUN: Final = re.compile(r"<!-- not run: (.+) -->")
LONG: Final = {"README.md", "docs/commands.md", "docs/deployment.md"}
"""Pages that take longer than five seconds."""


def shell_blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Give each block of shell of a page, and why it is not run, if it is not."""
    before = ""
    for part in re.split(r"(^ *```\w*\n.*?^ *```$)", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL):
        for block in markdown.blocks(part, "sh"):
            excuse = NOT_RUN.search(before.rstrip().rpartition("\n")[2])
            yield block, excuse[1] if excuse else ""
        before = part


PAGES: Final = [
    pytest.param(
        page,
        id=markdown.name(page),
        marks=[pytest.mark.long] if markdown.name(page) in LONG else [],
    )
    for page in DOCS
    if any(not excuse for _, excuse in shell_blocks(page))
]


class Shell:
    """A terminal whose folder and variables stay from line to line, and the service of another terminal."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._home = folder / "home"
        self._work = folder / "work"
        self._programs = folder / "bin"
        for each in (self._home, self._work, self._programs):
            each.mkdir()
        self._state = self._home / "state"
        self._state.write_text(f"cd {self._work}\n")
        (self._home / ".curlrc").write_text("fail\nmax-time=30\n")
        sitemapd = f'exec {sys.executable} -m sitemapd "$@"'
        run = f'for word; do [ "$word" = run ] && {sitemapd} --port {self.port}; done'
        self._program("sitemapd", f"{run}\n{sitemapd}")
        make = needs.program("make", package="make")
        self._program("make", f'exec {make} "$@" BIN={self._programs} PORT={self.port}')
        self._env = {
            "HOME": str(self._home),
            "PATH": f"{self._programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "SITEMAPD_ACCESS_LOG": "false",
        }
        self._service: subprocess.Popen[bytes] | None = None

    def clone(self) -> None:
        """Put what `make run` needs into the folder, as if the installation had been made."""
        for name in ("Makefile", "pyproject.toml", "requirements.lock"):
            shutil.copy(ROOT / name, self._work)
        shutil.copytree(ROOT / "examples", self._work / "examples")
        (self._work / ".venv").mkdir()
        (self._work / ".venv" / ".run-stamp").touch()

    def shop(self, base: str) -> None:
        """Put the configuration and the files into the folder that the pages' commands name."""
        (self._work / "sitemapd.toml").write_text(SETTINGS)
        (self._work / "content").mkdir()
        (self._work / "content" / "about.html").write_text("<title>About</title>")
        (self._work.parent / "backups").mkdir()
        with closing(sqlite3.connect(self._work / "shop.db")) as database, database:
            database.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, slug TEXT NOT NULL)")
            database.execute("INSERT INTO products (slug) VALUES ('tea')")
        lines = "".join(f'{{"op":"add","loc":"{base}{path}"}}\n' for path in ("tea", "coffee"))
        for name in ("events.ndjson", "all.ndjson"):
            (self._work / name).write_text(lines)
        (self._work / "urls.ndjson").write_text(lines.replace('"op":"add",', ""))

    def run(self, block: str) -> None:
        """Run a block of a page."""
        local = f"http://127.0.0.1:{self.port}"
        for written, here in (
            ("http://127.0.0.1:8321", local),
            ("/var/backups/sitemapd", str(self._work.parent / "backups")),
            ("\\\n", " "),
        ):
            block = block.replace(written, here)
        for line in block.splitlines():
            if line == "make run" or line.startswith("sitemapd run"):
                self.start(line)
            elif re.search(r"\| grep\b.*$", line):
                until(partial(self._passes, line), what=line)
            else:
                # The README shows how a line is refused.
                assert self._ends(line) == ('"loc":"/tea"' in line), line

    def start(self, line: str) -> None:
        """End the service that runs, start another, and return when it is ready."""
        self.stop()
        self._service = subprocess.Popen(
            ["bash", "-c", f"{self._state.read_text()}exec {line}"],
            env=self._env,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        until(self._ready, what=f"{line} is ready")

    def stop(self) -> None:
        """End the service."""
        if self._service is not None:
            os.killpg(self._service.pid, signal.SIGTERM)
            self._service.wait(60)
            self._service = None

    def _ends(self, line: str) -> int:
        """Run a line, and return its exit code."""
        keep = f"{{ export -p; echo cd \"'$PWD'\"; }} > {self._state}"
        script = f"{self._state.read_text()}set -eo pipefail\n{line}\n{keep}"
        return subprocess.run(
            ["bash", "-c", script], env=self._env, stdin=subprocess.DEVNULL, timeout=120
        ).returncode

    def _passes(self, line: str) -> bool:
        return self._ends(line) == 0

    def _ready(self) -> bool:
        assert self._service is not None
        if self._service.poll() is not None:
            raise RuntimeError(f"the service ended with {self._service.returncode}")
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def _program(self, name: str, script: str) -> None:
        file = self._programs / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """Give a terminal, and end what it started."""
    for program in ("bash", "curl", "git"):
        needs.program(program, package=program)
    shell = Shell(tmp_path)
    try:
        yield shell
        shell.stop()
    finally:
        kill_all(tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_shell_of_the_docs_runs(shell: Shell, page: Path) -> None:
    """Every line of a page's blocks ends with 0, but for the one whose refusal the README shows."""
    todo = [block for block, excuse in shell_blocks(page) if not excuse]
    if any("make run" in block for block in todo):
        shell.clone()
    elif page.name == "push.md":
        shell.clone()
        shell.run("make run")
        shell.shop(f"http://127.0.0.1:{shell.port}/")
    else:
        shell.shop("https://shop.example.com/")
        shell.run("sitemapd triggers install catalogue\nsitemapd run")
    for block in todo:
        shell.run(block)


def test_each_excuse_is_true() -> None:
    """A block that is not run says why, and a test that it names is there."""
    for page in DOCS:
        text = page.read_text("utf-8")
        excuses = [excuse for _, excuse in shell_blocks(page) if excuse]
        assert len(excuses) == len(NOT_RUN.findall(text)), f"{page}: an excuse without a block"
        for named in re.findall(r"tests/[\w/.]+\.py", " ".join(excuses)):
            assert (ROOT / named).exists(), named
