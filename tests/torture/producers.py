"""Those who change the site: two push, one edits files, one writes to a table, one is a stranger.

Each is a thread during a round. What was not accepted is sent again, the whole batch in its order.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar

import httpx

from tests.acceptance.place import BASE, ndjson
from tests.torture import checks, fuzz, hostile
from tests.torture.checks import Found
from tests.torture.load import Step
from tests.torture.model import Push
from tests.torture.world import World

PATIENCE: Final = 90.0
"""Seconds in which a batch must be accepted, faults included."""
PAUSE: Final = 0.2
KEY_TRIES: Final = 50
"""How often a request with a key is refused, as being under way, until that is a violation."""
LATER: Final = frozenset({408, 409, 429, 503})
"""Answers after which a client sends again."""
NDJSON: Final = {"Content-Type": "application/x-ndjson"}

NASTY: Final = hostile.front_matter()

Batch = TypeVar("Batch")


class NotYet(Exception):
    """It was not accepted; the message says what came instead."""


class Producer(ABC, Generic[Batch]):
    """Sends batches, one after the other."""

    name: str

    def __init__(self, world: World) -> None:
        self.world = world
        self.found: list[Found] = []
        self.hurry = threading.Event()
        """Set when the rest is to be sent without pauses."""
        self.again = False
        """Whether batches of the last rounds are sent once more, since Redis may have lost them."""
        self.client: httpx.Client | None = None
        self.over = threading.Event()
        """Set when nothing more is to be sent."""
        self.recent: deque[Batch] = deque(maxlen=12)
        """The batches that are sent once more then."""
        self._thread: threading.Thread | None = None

    def close(self) -> None:
        """Send nothing more, and let the connections go."""
        self.over.set()
        self.hurry.set()
        if self._thread is not None:
            self._thread.join(30)
        if self.client is not None:
            self.client.close()

    @abstractmethod
    def send(self, batch: Batch) -> None:
        """Send a batch. Raises NotYet when it has to be sent again."""

    def begin(self, batches: Sequence[Batch], pause: float, *, again: bool = False) -> None:
        """Send batches in a thread; with `again`, those of the last rounds first."""
        self.hurry.clear()
        self.again = again
        every = [*self.recent, *batches] if again else list(batches)
        self.recent.extend(batches)
        self._thread = threading.Thread(target=self._run, args=(every, pause), daemon=True)
        self._thread.start()

    def done(self, within: float) -> bool:
        """Wait until all is accepted; whether it is."""
        assert self._thread is not None
        self._thread.join(within)
        return not self._thread.is_alive()

    def _run(self, batches: Sequence[Batch], pause: float) -> None:
        for batch in batches:
            self._insist(batch)
            self.hurry.wait(pause)

    def _insist(self, batch: Batch) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.over.is_set():
            try:
                self.send(batch)
            except NotYet as reason:
                if time.monotonic() > deadline:
                    self.found.append(Found("not accepted", f"{self.name}, for {PATIENCE:g} s: {reason}"))
                    return
                self.over.wait(PAUSE)
            except Exception as error:  # noqa: BLE001 - a thread that dies would look like a fault of the product
                self.found.append(Found("harness", f"{self.name}: {error!r}"))
                return
            else:
                return


class Pushing(Producer[list[Push]]):
    """What both that push share: the form of their events."""

    def body(self, batch: list[Push]) -> bytes:
        """Events as NDJSON. The clock of the run began two hours ago."""
        return ndjson([self._event(push) for push in batch])

    def _event(self, push: Push) -> dict[str, object]:
        event: dict[str, object] = {"op": push.op, "loc": BASE + push.path}
        if push.op != "delete":
            event |= {name: value for name, value in push.entry._asdict().items() if value is not None}
        if push.at is not None:
            event["at"] = (self.world.clock + timedelta(milliseconds=push.at)).isoformat(
                timespec="milliseconds"
            )
        return event


class OverHttp(Pushing):
    """Pushes over HTTP, half of the batches with a key."""

    name = "http pusher"

    def __init__(self, world: World, keys: bool) -> None:
        super().__init__(world)
        self._client = self.client = httpx.Client(timeout=10)
        self._keys = keys
        self._refused = 0

    def send(self, batch: list[Push]) -> None:
        body = self.body(batch)
        headers = dict(NDJSON)
        # With the key of the first time nothing would be taken a second time.
        if self._keys and not self.again and len(batch) % 2 and self._refused < KEY_TRIES:
            headers["Idempotency-Key"] = checks.digest(body)
        try:
            answer = post(self._client, self.world, "main", body, headers, self.found)
        except NotYet as reason:
            self._refused = self._refused + 1 if "idempotency-key" in str(reason) else 0
            if self._refused == KEY_TRIES:
                # Without the key it does no harm either, so the load goes on.
                self.found.append(Found("key held", f"for {KEY_TRIES * PAUSE:g} s: {reason}"))
            raise
        self._refused = 0
        self.found += checks.answered(len(batch), answer["accepted"], answer["refused"], ())


class ByCommand(OverHttp):
    """Pushes with `sitemapd push -`; in a hurry over HTTP, since a command takes a second to start."""

    name = "push command"

    def __init__(self, world: World) -> None:
        super().__init__(world, keys=False)

    def send(self, batch: list[Push]) -> None:
        if self.hurry.is_set():
            super().send(batch)
            return
        said = push(self.world, "main", self.body(batch), self.found)
        self.found += checks.answered(len(batch), said["accepted"], said["refusals"], ())


class Stranger(Producer[tuple[list[bytes], list[int]]]):
    """Pushes what a stranger might, over HTTP and by the command in turn, to a site that has nothing else."""

    name = "stranger"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._client = self.client = httpx.Client(timeout=20)
        self._turn = 0
        self.good: set[str] = set()
        """What must be listed of it."""

    def send(self, batch: tuple[list[bytes], list[int]]) -> None:
        rows, numbers = batch
        body = b"\n".join(rows) + b"\n"
        self._turn += 1
        if self._turn % 4:
            answer = post(self._client, self.world, "wild", body, NDJSON, self.found)
            self.found += checks.answered(len(rows), answer["accepted"], answer["refused"], fuzz.RULES)
        else:
            said = push(self.world, "wild", body, self.found)
            self.found += checks.answered(len(rows), said["accepted"], said["refusals"], fuzz.RULES)
        self.good |= {fuzz.good(number)["loc"] for number in numbers}


class Editor(Producer[list[Step]]):
    """Edits the content folder."""

    name = "editor"

    def send(self, batch: list[Step]) -> None:
        for step in batch:
            self._do(step)

    def _do(self, step: Step) -> None:
        content = self.world.content
        file, to = content / f"{step.path}.md", content / f"{step.to}.md"
        if step.kind == "write":
            file.parent.mkdir(exist_ok=True)
            text = f"---\nlastmod: {step.lastmod}\n---\nText of {step.path}\n"
            half = file.with_name(f".{file.name}.new")
            if len(step.lastmod) > 10:
                half.write_text(text)
                half.replace(file)
            else:
                file.write_text(text)
        elif step.kind == "hostile":
            file.parent.mkdir(exist_ok=True)
            file.with_suffix(".html" if step.to.startswith("head") else ".md").write_bytes(NASTY[step.to])
        elif step.kind == "remove":
            file.unlink()
        elif step.kind == "move":
            to.parent.mkdir(exist_ok=True)
            file.replace(to)
        else:
            target = content / step.to
            if target.exists():
                target.rmdir()
            (content / step.path).rename(target)


class Writer(Producer[list[Step]]):
    """Writes to the table, each step in a transaction of its own."""

    name = "table writer"

    def send(self, batch: list[Step]) -> None:
        with closing(sqlite3.connect(self.world.table, timeout=30)) as connection:
            for step in batch:
                with connection:
                    self._do(connection, step)

    def _do(self, connection: sqlite3.Connection, step: Step) -> None:
        if step.kind == "put":
            connection.execute(
                "INSERT INTO pages (slug, live, changed) VALUES (?, 1, ?) "
                "ON CONFLICT (slug) DO UPDATE SET live = 1, changed = excluded.changed",
                (step.path, step.lastmod),
            )
        elif step.kind == "hide":
            connection.execute("UPDATE pages SET live = 0 WHERE slug = ?", (step.path,))
        elif step.kind == "drop":
            connection.execute("DELETE FROM pages WHERE slug = ?", (step.path,))
        else:
            ((one,),) = connection.execute("SELECT id FROM pages WHERE slug = ?", (step.path,))
            connection.execute("UPDATE pages SET slug = NULL WHERE id = ?", (one,))
            connection.execute("UPDATE pages SET slug = ? WHERE slug = ?", (step.path, step.to))
            connection.execute("UPDATE pages SET slug = ? WHERE id = ?", (step.to, one))


def post(
    client: httpx.Client, world: World, site: str, body: bytes, headers: dict[str, str], found: list[Found]
) -> dict[str, Any]:
    """POST events; the answer of a 202. Raises NotYet."""
    address = world.find_http()
    if not address:
        raise NotYet("HTTP does not listen")
    try:
        answer = client.post(f"{address}v1/sites/{site}/events", content=body, headers=headers)
    except httpx.TransportError as error:
        raise NotYet(repr(error)) from error
    if answer.status_code == 202:
        said: dict[str, Any] = answer.json()
        return said
    if answer.status_code not in LATER:
        found.append(Found("answer", f"HTTP {answer.status_code} to {site}'s events: {answer.text[:300]}"))
    elif answer.status_code == 503 and "Retry-After" not in answer.headers:
        found.append(Found("answer", f"503 without Retry-After: {answer.text[:300]}"))
    raise NotYet(f"HTTP {answer.status_code}: {answer.text[:200]}")


def push(world: World, site: str, body: bytes, found: list[Found]) -> dict[str, Any]:
    """Push by the command; its answer in JSON. Raises NotYet."""
    try:
        result = world.place.command("--site", site, "push", "--json", "-", stdin=body)
    except subprocess.TimeoutExpired as error:
        found.append(Found("hangs", f"push took over {error.timeout:g} s"))
        raise NotYet("it hung") from error
    if result.out.strip():
        said: dict[str, Any] = json.loads(result.out)
        return said
    killed = result.code < 0
    lines = result.err.strip().splitlines()
    # A sentence of its own, and before it at most the one of the queue's Redis, which it goes on without.
    if not killed and (result.code != 1 or len(lines) not in (1, 2) or "Traceback" in result.err):
        found.append(Found("answer", f"push ended with {result.code}: {result.err[-400:]!r}"))
    raise NotYet(f"exit {result.code}: {result.err[-200:]}")


def batches_of_nonsense(
    chance: random.Random, count: int, size: int, first: int
) -> list[tuple[list[bytes], list[int]]]:
    """Batches for the stranger."""
    made = []
    for _ in range(count):
        rows, numbers = fuzz.lines(chance, size, first)
        first = numbers[-1] + 1
        made.append((rows, numbers))
    return made
