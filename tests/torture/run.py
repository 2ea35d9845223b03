"""Runs the plan: load, fault, recovery, checks; round after round.

A round ends when the tree is the model's and nothing waits. One that does not end costs a violation, and the
next one begins with a new world, so that one fault found does not hide the others.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import httpx

from tests.acceptance.place import BASE
from tests.redis_server import Kind
from tests.torture import checks
from tests.torture.checks import Bad, Found, Shown
from tests.torture.crawler import Away, Crawler, FolderReader, HttpReader, settled
from tests.torture.fault import Fault, Strike
from tests.torture.faults import LEASE_S
from tests.torture.load import HOSTILE, Folder, Pusher, Table
from tests.torture.machine import Machine, peak_mb
from tests.torture.model import Entry, Model, Push, differences
from tests.torture.plan import Injection, Round, plan
from tests.torture.producers import (
    ByCommand,
    Editor,
    OverHttp,
    Producer,
    Stranger,
    Writer,
    batches_of_nonsense,
)
from tests.torture.report import QUIET_S, Report
from tests.torture.world import World

POLL: Final = 0.05
REST: Final = 0.3
"""Seconds for which a settled tree must stay as it is."""
NONSENSE: Final = 30
"""Lines of a batch that a stranger sends."""
MOST_MB: Final = 250
"""What no process of ours may come to: they have about 100 MB."""


@dataclass(slots=True, kw_only=True)
class Options:
    """What a run was asked for."""

    seconds: float
    seed: int
    faults: Mapping[str, Fault]
    rounds: int | None = None
    """No more rounds than that."""
    keys: bool = True
    """Whether half of the HTTP requests have an Idempotency-Key."""
    settle: float = 60.0
    """Seconds after which a round that does not end is a violation."""
    lease: float = LEASE_S
    """Seconds that a lease lasts; whoever is stopped for longer wakes up too late."""
    server: Kind | None = None
    """Redis or Valkey; None takes what can run with a wrong clock."""
    say: Callable[[str], None] = print


@dataclass(slots=True)
class Outcome:
    """What a run leaves."""

    report: Report
    rounds: list[Round] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Folders of worlds in which something was wrong."""
    visits: int = 0
    """Files that the crawler read."""
    events: int = 0
    injections: int = 0
    """Faults that struck."""


class Life:
    """One world with its load, its model and its crawler."""

    def __init__(self, world: World, seed: int, keys: bool) -> None:
        self.world = world
        self.model = Model()
        self._events = [
            Pusher(name, place, 2, random.Random(f"{name} {seed}")) for place, name in enumerate("hc")
        ]
        self._folder = Folder(random.Random(f"folder {seed}"))
        self._table = Table(random.Random(f"table {seed}"))
        self._nonsense = random.Random(f"nonsense {seed}")
        self._good = 0
        self._stranger = Stranger(world)
        self.producers: list[Producer[Any]] = [
            OverHttp(world, keys),
            ByCommand(world),
            Editor(world),
            Writer(world),
            self._stranger,
        ]
        self.pushers: list[Producer[Any]] = [*self.producers[:2], self._stranger]
        """Those who send again what Redis may have lost; the others' sources are compared."""
        self.crawler = Crawler(world, seed)
        self.tree: dict[str, Shown] = {}
        """The settled tree of the round before."""
        self.touched: set[str] = set()
        """Locs that the events of this round and the one before were about."""
        self._before: set[str] = set()
        self._logs: dict[str, int] = {}
        self.again = False
        """Whether the last batches are to be pushed again."""
        self._http = HttpReader(world)

    def begin(self, part: Round) -> int:
        """Let the producers send a round's load; how many changes that is."""
        # A command takes a second to start, so it pushes fewer batches than HTTP.
        counts = (part.batches, 1 + part.number % 2)
        pushed: list[list[list[Push]]] = [
            [pusher.batch(part.size) for _ in range(count)]
            for pusher, count in zip(self._events, counts, strict=True)
        ]
        passed = {path for path in self.expected() if path.startswith(("pages/", "rows/"))}
        for batches in pushed:
            for batch in batches:
                self.model.apply(batch)
        edits = [self._folder.batch(max(1, part.size // 4)) for _ in range(part.batches)]
        rows = [self._table.batch(max(1, part.size // 4)) for _ in range(part.batches)]
        now = {BASE + push.path for batches in pushed for batch in batches for push in batch}
        now |= {BASE + path for path in passed | self._folder.passed | self._table.passed}
        self._folder.passed.clear()
        self._table.passed.clear()
        self.touched, self._before = now | self._before, now
        nonsense = batches_of_nonsense(self._nonsense, 1, NONSENSE, self._good)
        self._good = nonsense[-1][1][-1] + 1
        loads: list[Any] = [*pushed, edits, rows, nonsense]
        for producer, batches in zip(self.producers, loads, strict=True):
            producer.begin(batches, part.pause)
        return sum(len(batch) for batches in loads[:-1] for batch in batches) + NONSENSE

    def push_again(self) -> None:
        """Push what was pushed of late once more, as docs/reliability.md asks for after a loss."""
        # What is said again takes its URLs through older states: their files change, and change back.
        batches = [batch for producer in self.producers[:2] for batch in producer.recent]
        self.touched |= {BASE + push.path for batch in batches for push in batch}
        for producer in self.pushers:
            producer.begin([], 0.0, again=True)

    def expected(self) -> dict[str, Entry]:
        """What must be listed, by path."""
        return {**self.model.entries, **self._folder.expected(), **self._table.expected()}

    def differs(self) -> list[str]:
        """How the tree differs from the model, in words; empty when it doesn't and nothing waits."""
        try:
            _, tree = settled(FolderReader(self.world.output))
            _, wild = settled(FolderReader(self.world.folder / "wild"))
            waits = self.world.waits()
        except Bad as bad:
            return [str(bad)]
        except (httpx.HTTPError, OSError) as error:
            return [f"no status: {error!r}"]
        found = {loc.removeprefix(BASE): entry for rows in tree.values() for loc, entry in rows.items()}
        found = {path: entry for path, entry in found.items() if not path.startswith(HOSTILE)}
        words = differences(found, self.expected())
        listed = {loc for rows in wild.values() for loc in rows}
        words += [f"{loc} of the wild site is missing" for loc in sorted(self._stranger.good - listed)[:3]]
        return words or (["something waits to be published"] if waits else [])

    def at_rest(self, altered: set[str]) -> Iterator[Found]:
        """Check a settled tree against the one of the round before, HTTP, and itself a moment later."""
        try:
            shown, tree = settled(FolderReader(self.world.output))
            time.sleep(REST)
            again, _ = settled(FolderReader(self.world.output))
            over_http, _ = settled(self._http)
        except Bad as bad:
            yield Found("malformed", f"at rest: {bad}")
            return
        except Away:
            yield Found("service", "HTTP does not answer at rest")
            return
        yield from checks.twice(tree)
        touched = partial(self.world.held_in, locs=self.touched)
        yield from checks.lastmods(self.tree, shown, touched, altered)
        yield from checks.restless(shown, again)
        yield from [Found("http", f"{row.detail} over HTTP") for row in checks.restless(again, over_http)]
        self.tree = again

    def services(self) -> Iterator[Found]:
        """Tracebacks of services, and services that ended by themselves; these are started again."""
        for name, service in [*self.world.past, *self.world.services.items()]:
            key = f"{name} {service.pid}"
            lines = service.log.splitlines()
            yield from checks.told(lines[self._logs.get(key, 0) :], name)
            self._logs[key] = len(lines)
        for name, service in list(self.world.services.items()):
            for pid in (service.pid, *self.world.workers(name)):
                if (peak := peak_mb(pid)) > MOST_MB:
                    yield Found("memory", f"{name} ({pid}) had {peak} MB")
            if not service.alive():
                yield Found(
                    "service", f"{name} ended by itself with {service.ended()}: {service.log[-300:]!r}"
                )
                self.world.begin(name)

    def close(self) -> list[str]:
        """End everything; what was wrong with that."""
        for producer in self.producers:
            producer.over.set()
        for producer in self.producers:
            producer.close()
        self.crawler.close()
        self._http.close()
        return self.world.close()


class Torture:
    """One run."""

    def __init__(self, options: Options) -> None:
        self._options = options
        faults = options.faults
        self.outcome = Outcome(
            Report({name: (fault.promised, fault.within) for name, fault in faults.items()})
        )
        self._life: Life | None = None
        self._worlds = 0

    def run(self) -> Outcome:
        """Run until the time is over. Whatever was started is ended, also when it is interrupted."""
        deadline = time.monotonic() + self._options.seconds
        try:
            usable = dict(self._options.faults)
            world = self._living().world
            for name, fault in self._options.faults.items():
                if reason := fault.needs(world):
                    self.outcome.report.rows[name].skipped = reason
                    del usable[name]
            groups = {name: fault.group for name, fault in usable.items()}
            alone = {name for name, fault in usable.items() if fault.loses}
            for part in plan(self._options.seed, groups, alone):
                if time.monotonic() >= deadline or part.number > (self._options.rounds or part.number):
                    break
                self._round(part)
        finally:
            self._end()
        return self.outcome

    def _living(self) -> Life:
        if self._life is None:
            world = World(self._options.lease, self._options.server)
            try:
                world.start()
            except BaseException:
                world.close()
                raise
            self._life = Life(world, self._options.seed + 1000 * self._worlds, self._options.keys)
            self._worlds += 1
        return self._life

    def _round(self, part: Round) -> None:
        life = self._living()
        self.outcome.rounds.append(part)
        planned = [self._options.faults[injection.fault] for injection in part.injections]
        life.crawler.excuse(frozenset[str]().union(*(fault.excuses for fault in planned)))
        self.outcome.events += life.begin(part)
        found: list[Found] = []
        altered: set[str] = set()
        with ExitStack() as stack:
            struck = [
                fault
                for fault, injection in zip(planned, part.injections, strict=True)
                if self._strike(life, fault, injection, stack, altered, found)
            ]
        machine = Machine()
        self._all_accepted(life, life.producers, machine, found)
        pushing_again = 0.0
        if any(fault.loses for fault in struck):
            before = machine.seconds
            life.push_again()
            self._all_accepted(life, life.pushers, machine, found)
            # That is load of the harness, and as long as the pushers make it.
            pushing_again = machine.seconds - before
        words = self._published(life, machine)
        recovery = None if words else machine.seconds - pushing_again
        allowed = max((fault.within for fault in struck), default=QUIET_S) * machine.slowness
        if recovery is not None and recovery > allowed:
            found.append(Found("late", f"published after {recovery:.1f} s; {allowed:.1f} s were allowed"))
        found += life.services()
        if words:
            found.append(Found("not published", f"after {self._options.settle:g} s: {'; '.join(words)}"))
        else:
            found += life.at_rest(altered)
        life.crawler.excuse(frozenset())
        found += life.crawler.take()
        found = list(dict.fromkeys(found))
        self._tell(part, struck, found, recovery)
        if found:
            self.outcome.kept.append(str(life.world.folder))
        if words:
            self._end()

    def _strike(
        self,
        life: Life,
        fault: Fault,
        injection: Injection,
        stack: ExitStack,
        altered: set[str],
        found: list[Found],
    ) -> bool:
        """Let a fault strike and last; whether it struck anybody."""
        time.sleep(injection.delay)
        low, high = fault.lasts
        strike = Strike(
            world=life.world,
            chance=random.Random(injection.seed),
            lasts=low + injection.share * (high - low),
            altered=altered,
            found=found,
        )
        stack.enter_context(fault.means(strike))
        time.sleep(strike.lasts)
        return not strike.missed

    def _all_accepted(
        self, life: Life, producers: list[Producer[Any]], machine: Machine, found: list[Found]
    ) -> None:
        for producer in producers:
            producer.hurry.set()
        for producer in producers:
            while not producer.done(0.1):
                machine.look()
                found += life.services()
            found += producer.found
            producer.found.clear()

    def _published(self, life: Life, machine: Machine) -> list[str]:
        """Wait until all is published; what is not after `settle` seconds, in words."""
        deadline = time.monotonic() + self._options.settle
        while words := life.differs():
            if time.monotonic() > deadline:
                break
            machine.look()
            time.sleep(POLL)
        return words

    def _tell(self, part: Round, struck: list[Fault], found: list[Found], recovery: float | None) -> None:
        names = [fault.name for fault in struck]
        self.outcome.injections += len(names)
        self.outcome.report.round(names, found, recovery)
        took = "never published" if recovery is None else f"published after {recovery:.2f} s"
        self._options.say(f"round {part.number}: {' and '.join(names) or 'no fault'}, {took}")
        for rule, detail in found:
            self._options.say(f"  VIOLATION {rule}: {detail}")

    def _end(self) -> None:
        """End the world, and remove its folder unless something was wrong in it."""
        life, self._life = self._life, None
        if life is None:
            return
        wrong = life.close()
        self.outcome.visits += life.crawler.visits
        if wrong:
            found = [Found("end", text) for text in wrong]
            self.outcome.report.round([], found, None)
            self.outcome.kept.append(str(life.world.folder))
            for rule, detail in found:
                self._options.say(f"  VIOLATION {rule}: {detail}")
        if str(life.world.folder) not in self.outcome.kept:
            life.world.remove()
