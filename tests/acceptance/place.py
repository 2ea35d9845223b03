"""A folder in which the command runs as a user would run it, and what came of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final

from tests.acceptance import warm
from tests.acceptance.processes import kill_all, running, state
from tests.acceptance.until import PATIENCE, until
from tests.acceptance.warm import Process

ROOT: Final = Path(__file__).parents[2]
BASE: Final = "https://shop.example.com/"
COMMAND_SECONDS: Final = 120.0
STOP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a command that has ended left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output as JSON."""
        return json.loads(self.out)

    def refusal(self) -> str:
        """The one sentence of a command that refused to start, without its prefix."""
        assert self.code == 2, self
        lines = self.err.splitlines()
        assert len(lines) == 1, self
        assert lines[0].startswith("sitemapd: "), self
        assert self.out == "", self
        return lines[0].removeprefix("sitemapd: ")


Running = Process | subprocess.Popen[bytes]
Start = Callable[[IO[bytes], IO[bytes], IO[bytes]], Running]
"""Starts a command with these files as its standard input, output and error."""


class Service:
    """A command that runs until it is stopped."""

    def __init__(self, start: Start, folder: Path, number: int) -> None:
        self._out, self._err = folder / f"service-{number}.out", folder / f"service-{number}.err"
        self.folder = folder
        with open(os.devnull, "rb") as none, self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = start(none, out, err)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def out(self) -> str:
        """Its standard output so far."""
        return self._out.read_text()

    @property
    def log(self) -> str:
        """Its standard error so far, its children's too."""
        return self._err.read_text()

    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def workers(self) -> list[int]:
        """The process ids of the worker processes below the test's folder, whoever started them."""
        return sorted(pid for pid, line in running(self.folder).items() if "sitemapd.child" in line)

    def says(self, text: str, *, times: int = 1, within: float = PATIENCE) -> str:
        """Wait until its output or log holds a text that often; returns the last line that does."""

        def lines() -> list[str]:
            found = [line for line in (self.out + self.log).splitlines() if text in line]
            if not self.alive() and len(found) < times:
                raise RuntimeError(f"it ended with {self._process.poll()}:\n{self.log}")
            return found if len(found) >= times else []

        return until(lines, within=within, what=f"it says {text!r}; so far it said\n{self.out}{self.log}")[-1]

    def count(self, text: str) -> int:
        """How many lines of its log hold a text."""
        return sum(text in line for line in self.log.splitlines())

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def ended(self, *, within: float = STOP_SECONDS) -> int:
        """Wait until it has ended; its exit code, negative for a signal."""
        return self._process.wait(within)

    def stop(self) -> int:
        """Ask it to end, as an init system does; its exit code."""
        self.signal(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        """Kill it (and not its children), and see it gone."""
        self._process.kill()
        self.ended()


class Place:
    """One test's folder, the commands that ran in it, and the services that still do."""

    def __init__(
        self, folder: Path, *, env: Mapping[str, str] | None = None, prefix: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self.output = folder / "public"
        self._more = env or {}
        self.prefix = prefix
        """A command that each of the commands is run by."""
        self.secret = ""
        """Must be in no output of any command."""
        self._said: list[str] = []
        self._services: list[Service] = []

    def configure(self, text: str, *, name: str = "sitemapd.toml") -> Path:
        """Write a configuration file."""
        file = self.folder / name
        file.write_text(text)
        return file

    def command(
        self,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        within: float = COMMAND_SECONDS,
    ) -> Result:
        """Run a command to its end."""
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            process = self._start(arguments, env, given, out, err)
            try:
                code = process.wait(within)
            finally:
                process.kill()  # nothing, when it has ended
            out.seek(0)
            err.seek(0)
            result = Result(code=code, out=out.read().decode(), err=err.read().decode())
        self._said.append(result.out + result.err)
        return result

    @contextmanager
    def pipe(self, *arguments: str, code: int = 0) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
        """A command's standard input and error while it runs, and the code with which it must exit then."""
        ends = subprocess.PIPE
        with subprocess.Popen(
            self._line(arguments), cwd=self.folder, env=self._env(None), stdin=ends, stderr=ends
        ) as process:
            assert process.stdin is not None
            assert process.stderr is not None
            yield process.stdin, process.stderr
            process.stdin.close()
            assert process.wait(COMMAND_SECONDS) == code

    def ok(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Result:
        """Run a command that must exit 0."""
        result = self.command(*arguments, stdin=stdin, env=env)
        assert result.code == 0, (arguments, result)
        return result

    def service(self, *arguments: str, env: Mapping[str, str] | None = None) -> Service:
        """Start a command that runs until it is stopped; the test's end ends it if the test doesn't."""

        def start(stdin: IO[bytes], out: IO[bytes], err: IO[bytes]) -> Running:
            # Ctrl-C is for pytest, which then ends the services in its own order.
            return self._start(arguments, env, stdin, out, err, new_session=True)

        service = Service(start, self.folder, len(self._services))
        self._services.append(service)
        return service

    def worker(self, *arguments: str, env: Mapping[str, str] | None = None, processes: int = 2) -> Service:
        """Start `sitemapd worker` and wait until its processes are there."""
        service = self.service(*arguments, "worker", "--workers", str(processes), env=env)
        service.says("worker_started", times=processes)
        return service

    def events(self, *events: Mapping[str, object], code: int = 0, site: Sequence[str] = ()) -> Result:
        """Push events as NDJSON."""
        result = self.command(*site, "push", "-", stdin=ndjson(events))
        assert result.code == code, result
        return result

    def _start(
        self,
        arguments: Sequence[str],
        more: Mapping[str, str] | None,
        stdin: IO[bytes],
        out: IO[bytes],
        err: IO[bytes],
        *,
        new_session: bool = False,
    ) -> Running:
        """Start a command: as a fork of one that is warm, unless something before `main` counts."""
        set_here = [*self._more, *(more or {})]
        if not self.prefix and all(name.startswith("SITEMAPD_") for name in set_here):
            streams = (stdin.fileno(), out.fileno(), err.fileno())
            return warm.start(
                arguments, cwd=self.folder, env=self._env(more), streams=streams, new_session=new_session
            )
        return subprocess.Popen(
            self._line(arguments),
            cwd=self.folder,
            env=self._env(more),
            stdin=stdin,
            stdout=out,
            stderr=err,
            start_new_session=new_session,
        )

    def _line(self, arguments: Sequence[str]) -> list[str]:
        return [*self.prefix, sys.executable, "-m", "sitemapd", *arguments]

    def _env(self, more: Mapping[str, str] | None) -> dict[str, str]:
        """This process' environment without any setting of sitemapd."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("SITEMAPD_")}
        own = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        return {**plain, **own, **self._more, **(more or {})}

    def wait(self) -> None:
        """Return when all that was pushed is published."""
        self.ok("wait", "--timeout", str(PATIENCE))

    def close(self) -> None:
        """End everything, by process id, and check what was said: no traceback, no secret, ever."""
        for service in self._services:
            if service.alive():
                for pid in (service.pid, *service.workers()):
                    if state(pid) == "T":
                        os.kill(pid, signal.SIGCONT)
                service.signal(signal.SIGTERM)
        for service in self._services:
            with suppress(subprocess.TimeoutExpired):
                service.ended()
        kill_all(self.folder)
        for service in self._services:
            service.ended()
            self._said.append(service.out + service.log)
        for said in self._said:
            assert "Traceback" not in said, said
            assert not self.secret or self.secret not in said, said


def ndjson(events: Sequence[Mapping[str, object]]) -> bytes:
    """Events as `push -` reads them."""
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def add(path: str, **fields: object) -> dict[str, object]:
    """An event that adds the URL of that path."""
    return {"op": "add", "loc": BASE + path, **fields}


def update(path: str, **fields: object) -> dict[str, object]:
    """An event that updates the URL of that path."""
    return {"op": "update", "loc": BASE + path, **fields}


def delete(path: str, **fields: object) -> dict[str, object]:
    """An event that deletes the URL of that path."""
    return {"op": "delete", "loc": BASE + path, **fields}


def settings(redis_url: str, **site: object) -> str:
    """A configuration file of one site; `site` sets further things of it."""
    rows = {"base_url": BASE, "output": "public", **site}
    lines = [f"{name} = {json.dumps(value)}" for name, value in rows.items()]
    return "\n".join([f"redis_url = {json.dumps(redis_url)}", "[sites.main]", *lines, ""])
