"""Random and near-miss events in great number, by push, HTTP and the RQ job, to one site.

Each is accepted or refused by a rule, none takes another of its batch along, and the memory of those that
take them stays what it was.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
from rq import Queue
from rq.serializers import JSONSerializer

from sitemap_store.model.wire import PUSH_EVENTS, QUEUE
from sitemap_store.redis.counts import totals
from sitemapd.build import build
from sitemapd.settings import load
from tests.acceptance.place import Place, Service, settings
from tests.acceptance.until import until
from tests.published import published
from tests.redis_server import RedisServer, any_kind
from tests.torture import fuzz
from tests.torture.checks import Found, answered
from tests.torture.machine import memory_mb

BATCH: Final = 800
"""Lines of one request, of one job and of a part of a push."""
ROOM_MB: Final = 48
"""How much more memory a process may have at the end than after a fifth of the events."""
PATIENCE_S: Final = 600.0


@dataclass
class Wild:
    """The events of one seed, and what came of them."""

    count: int
    seed: int
    say: Callable[[str], None]
    found: list[Found] = field(default_factory=list)
    memory: dict[str, list[int]] = field(default_factory=dict)
    """MB of each process, after each fifth of the events."""

    def run(self) -> None:
        """Send all of them; what is wrong is in `found`."""
        with tempfile.TemporaryDirectory(prefix="sm-wild-") as scratch:
            server, place = RedisServer(any_kind()), Place(Path(scratch))
            server.start()
            try:
                self._run(server, place)
            finally:
                with suppress(Exception):
                    place.close()
                server.close()

    def _run(self, server: RedisServer, place: Place) -> None:
        text = settings(server.url, base_url=fuzz.BASE).replace("[sites.main]", "[sites.wild]")
        file = place.configure(text)
        worker = place.worker()
        http = place.service("serve", "--port", "0")
        address = http.says("Serving at").split("http://")[1].split("/")[0]
        store = build(load(file)).store("wild")
        with httpx.Client(base_url=f"http://{address}", timeout=60) as client, server.client() as state:
            queue = Queue(QUEUE, connection=state, serializer=JSONSerializer)
            good = self._send(place, client, queue, {"serve": http, "worker": worker})
            until(lambda: self._counted(store) >= self.count, what="all are counted", within=PATIENCE_S)
        place.ok("wait", "--timeout", str(PATIENCE_S))
        if (counted := self._counted(store)) != self.count:
            self.found.append(Found("unanswered", f"{self.count} events, {counted} counted"))
        rules = set(totals(store).refusals)
        if not rules <= fuzz.RULES:
            self.found.append(Found("no rule", f"refused by {sorted(rules - fuzz.RULES)}"))
        if missing := good - published(place.output).keys():
            self.found.append(Found("lost", f"{len(missing)} good events, such as {min(missing)}"))
        for name, sizes in self.memory.items():
            self.say(f"{name}: {', '.join(map(str, sizes))} MB after each fifth")
            if sizes[-1] > sizes[0] + ROOM_MB:
                self.found.append(Found("memory", f"{name} grew: {sizes} MB"))

    def _send(
        self, place: Place, client: httpx.Client, queue: Queue, services: dict[str, Service]
    ) -> set[str]:
        """Send them, in turn by each of the three ways; the URLs that must be listed."""
        chance, first, sent, fifths, whole = random.Random(self.seed), 0, 0, 0, self.count
        ways = (self._over_http, self._by_job, self._by_command)
        good: set[str] = set()
        began = time.monotonic()
        while sent < whole:
            # A command takes a second to start, so it gets many lines at once.
            way = ways[0 if chance.random() < 0.5 else 1] if chance.random() < 0.97 else ways[2]
            size = min(BATCH * (10 if way == self._by_command else 1), whole - sent)
            rows, numbers = fuzz.lines(chance, size, first)
            first = numbers[-1] + 1
            good |= {fuzz.good(number)["loc"] for number in numbers}
            way(rows, place, client, queue)
            sent += size
            while len(queue) > 20:
                time.sleep(0.05)
            if sent * 5 // whole > fifths:
                fifths = sent * 5 // whole
                self._measure(services)
                self.say(f"{sent:,} events in {time.monotonic() - began:.0f} s")
        return good

    def _over_http(self, rows: list[bytes], _place: Place, client: httpx.Client, _queue: Queue) -> None:
        headers = {"Content-Type": "application/x-ndjson"}
        answer = client.post("/v1/sites/wild/events", content=b"\n".join(rows), headers=headers)
        if answer.status_code not in (202, 422):
            self.found.append(Found("answer", f"HTTP {answer.status_code}: {answer.text[:300]}"))
            return
        said = answer.json()
        self.found += answered(len(rows), said["accepted"], said["refused"], fuzz.RULES)

    def _by_command(self, rows: list[bytes], place: Place, _client: httpx.Client, _queue: Queue) -> None:
        result = place.command("push", "-", "--json", stdin=b"\n".join(rows) + b"\n")
        said = result.json if result.code in (0, 1) else {"accepted": 0, "refused": 0}
        # Of lines without an op the first is refused, and the others passed over.
        over = re.search(r"^(\d+) more lines have no op", result.err, re.MULTILINE)
        passed_over = int(over[1]) if over else 0
        self.count -= passed_over
        if said["accepted"] + said["refused"] + passed_over != len(rows):
            self.found.append(Found("unanswered", f"{len(rows)} lines: {said} {result.err[-300:]}"))

    def _by_job(self, rows: list[bytes], _place: Place, _client: httpx.Client, queue: Queue) -> None:
        queue.enqueue(PUSH_EVENTS, "wild", [_item(row) for row in rows], result_ttl=0)

    def _measure(self, services: dict[str, Service]) -> None:
        for name, service in services.items():
            pids = [service.pid, *(service.workers() if name == "worker" else ())]
            self.memory.setdefault(name, []).append(sum(map(memory_mb, pids)))

    def _counted(self, store: Any) -> int:
        counts = totals(store)
        return sum(counts.accepted.values()) + sum(counts.refused.values())


def _item(row: bytes) -> object:
    """What an app's job could carry of a line."""
    try:
        return json.loads(row)
    except (ValueError, RecursionError):
        return row.decode("utf-8", "replace")
