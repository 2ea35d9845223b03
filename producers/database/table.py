"""A table, or a query, that is open: one connection that leads the source, and what the runner asks of it.

1. A record of the outbox says which addresses a change may have touched, never what became of them: for each
   of these the rows that make it now are looked up. The newest speaks for it; when there is none, it is
   deleted. So a swap of two slugs, two rows with one address and records in any order end right.
2. Within one transaction: records are taken, the events are sent, the records are deleted. When Redis or the
   database goes away in between, the records are still there and everything is done again.
3. If the last step fails, another relay may have sent something newer before our events arrived. The
   addresses are therefore looked at once more, before anything else (`RelayState.redo`).
4. One relay at a time leads a source (`Dialect.lead`), so events of one address arrive in order.
5. While the whole table is compared the outbox is drained, so that changes still show within a second. A URL
   that was looked at meanwhile is left out: what the comparison read of it may be old. So it ends right
   although nothing is locked.
6. What the next relay has to know lies in the database (`checkpoint`), written in the transactions that it is
   true of.

Longer than most modules: draining and comparing share one connection, and are read together.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from producers.database.check import connect
from producers.database.dialect import Dialect
from producers.database.install import remove_stray, strays, trim
from producers.database.memory import LOOK, Memory, Seen, as_wanted
from producers.database.outbox import Record, read_checkpoint, read_lag, write_checkpoint
from producers.database.rows import MANY_ENCODED, Listed, Reader, newest
from producers.database.shape import Shape
from producers.database.triggers import plan_of
from producers.difference import CHUNK, Difference, chunks
from producers.runner import OpenSource, SourceChanged, SourceState
from producers.sink import EventSink
from sitemap_store.errors import SitemapdError
from sitemap_store.model.events import Event

log = logging.getLogger(__name__)

BATCH: Final = 4000
"""Records of one transaction."""
BULK: Final = 200
"""Events from which on the workers are better woken a little later."""
COUNT_EVERY: Final = 2.0
"""Seconds between two looks at how much waits."""
DRAIN_EVERY: Final = 0.1
"""While a comparison runs: seconds between two looks at the outbox."""
MOST_TOUCHED: Final = 100_000
"""URLs looked at while a comparison runs; from there on changes wait until it is over."""

Concerned = dict[str, tuple[object, ...]]
"""URL → the values of the address columns that make it, as the database wrote them."""


@dataclass(slots=True, kw_only=True)
class RelayState(SourceState):
    """What outlives a connection."""

    compare_due: bool = False
    """What the relay before noted in the database says whether it is."""
    redo: Concerned = field(default_factory=dict)
    """URLs of a transaction that may not have committed: they are looked up once more."""

    @property
    def application(self) -> str:
        """What its connections are called in the database."""
        return f"sitemapd {self.site}/{self.source}"


class OpenTable(OpenSource[Record]):
    """A source whose triggers are there, through a connection that leads."""

    working = "relaying"

    def __init__(self, dialect: Dialect, shape: Shape, sink: EventSink, state: RelayState) -> None:
        self._source = shape.source
        self._dialect = dialect
        self._shape = shape
        self._sink = sink
        self._state = state
        self.compare_interval = self._source.reconcile_interval
        self._reader = Reader(shape, sink.store.site, self._warn)
        self._memory = Memory(dialect, shape) if shape.feeds else None
        self._plan = plan_of(dialect, shape)
        self._ground = dialect.ground(self._plan)
        self._saved = read_checkpoint(dialect, shape.label)
        dialect.rollback()
        self._checkpoint = dict(self._saved)
        self._asked = ""
        self._lost = False
        self._touched: set[str] | None = None
        self._touched_keys: set[str] = set()
        self._next_drain = 0.0
        self._checked = state.monotonic()
        self._counted = float("-inf")
        self._resume()

    def _resume(self) -> None:
        """Go on where the relay before ended."""
        state, saved = self._state, self._saved
        state.state_id = saved.get("state_id", state.state_id)
        # A clock that was set back far must not put the next comparison off for as long.
        state.compared = state.monotonic() - abs(state.clock() - saved.get("compared", 0) / 1000)
        state.accept |= saved.get("wanted") == "accept"
        state.compare_due |= (
            "wanted" in saved
            or saved.get("held_deletes", 0) > 0
            or saved.get("fingerprint") != self._shape.fingerprint
            or saved.get("ground", self._ground) != self._ground  # changes went by unseen
        )

    def close(self) -> None:
        """Close the connection, and give the lead up."""
        self._dialect.close()

    def changes(self) -> list[Record]:
        """A batch of the outbox. Raises SourceChanged when triggers, table, outbox or file are others now."""
        if self._lost:
            raise SourceChanged  # the comparison that was asked for is made
        if self._has_moved():
            found = self._dialect.installed(self._plan)
            if self._source.triggers == "auto" or found in ("installed", "unknown"):
                raise SourceChanged
            self._lost = self._state.compare_due = True
            return []
        return self._take()

    def look(self, keys: Sequence[Record]) -> int:
        """Send what is true of the addresses now, and delete the records."""
        dialect, memory, redo = self._dialect, self._memory, self._state.redo
        try:
            rows = [record for record in keys if record.kind == "row"]
            before, now = memory.find(rows, self._reader.refuse) if memory else ({}, [])
            noted = self._linked(before, now) if memory else self._noted(rows)
            locs = {loc: values for values in noted if (loc := self._reader.loc(values)) is not None}
            for record in keys:
                if record.kind != "row":
                    self._ask("accept" if record.kind in ("accept", "truncate") else "sync")
            sent = self._send(locs)
            if memory:
                memory.remember(before, now)
            dialect.finish(self._shape.label, [record.id for record in keys])
            self._save()
        except BaseException:
            dialect.rollback()
            raise
        redo.update(locs)
        dialect.commit()
        redo.clear()
        return sent

    @contextmanager
    def list_all(self) -> Iterator[Difference]:
        """Read all rows, through a second connection."""
        state, reader, guard = self._state, self._reader, self._state.guard
        state.update(state="comparing")
        begun, state_id, self._asked = state.now(), state.state_id, ""
        for label in trim(self._dialect):
            log.warning(
                "Too many changes of %s waited in the outbox: they were dropped, its table will be compared.",
                label,
                extra=state.extra("outbox_trimmed"),
            )
        reader.without_url = reader.undated = reader.encoded = 0
        former = guard.find_former()
        self._touched, self._touched_keys = set(), set()
        try:
            with Difference(self._source.name) as difference:
                difference.touched = self._touched
                with closing(connect(self._source, application=state.application)) as second:
                    self._read_rows(second, difference)
                for name in filter(None, (self._source.name, former)):
                    for entries in chunks(self._sink.store.listing(name), CHUNK):
                        difference.have(entries)
                        self.keep_up()
                yield difference
                self._checkpoint["rows"] = difference.wanted()
        finally:
            self._touched = None
        if former and not guard.former:
            self._replace(former)
        self._report_refused()
        self._checkpoint |= {
            "fingerprint": self._shape.fingerprint,
            "state_id": state_id,
            "ground": self._ground,
            "compared": begun,
            "held_deletes": guard.held.deletes if guard.held else 0,
            "wanted": self._asked,
        }
        if not self._asked:
            del self._checkpoint["wanted"]
        self._save()
        self._dialect.commit()
        if reader.encoded >= MANY_ENCODED:
            log.warning(
                "The addresses of %d rows of %s are encoded twice (%%25 and two digits): if the column holds "
                "percent-encoded text already, write {column:encoded} in `url`.",
                reader.encoded,
                self._source.name,
                extra=state.extra("encoded_twice"),
            )

    def keep_up(self) -> None:
        """Drain the outbox, unless that was done a moment ago. Raises SourceChanged when told to stop."""
        state = self._state
        if state.stopping.is_set():
            raise SourceChanged
        if state.monotonic() < self._next_drain or len(self._touched or ()) >= MOST_TOUCHED:
            return
        more = True
        while more:
            if records := self._take():
                state.sent += self.look(records)
            more = len(records) == BATCH
        self._next_drain = state.monotonic() + DRAIN_EVERY

    def wait(self) -> None:
        """Wait for the next poll, or until the database or another thread wakes the relay."""
        self._dialect.wait(self._source.poll_interval, self._state.wake)
        self._state.rest(0)

    def update_status(self) -> None:
        """Count what waits in the outbox every few seconds."""
        state, now = self._state, self._state.monotonic()
        if now - self._counted >= COUNT_EVERY:
            self._counted = now
            lag = read_lag(self._dialect, self._shape.label)
            self._dialect.rollback()
            state.update(lag_rows=lag.rows, lag_seconds=round(lag.seconds, 3))
        shown = ("rows", "without_url", "undated", "held_deletes")
        state.update(**{name: self._checkpoint.get(name, 0) for name in shown})
        if not state.ready.is_set():
            log.info("%s is up to date", self._source.name, extra=state.extra("relay_ready"))

    def _take(self) -> list[Record]:
        redo = self._state.redo
        if redo:
            self._send(redo)
            redo.clear()
        records = self._dialect.take(self._shape.label, BATCH)
        if not records:
            self._dialect.rollback()
        return records

    def _noted(self, records: Iterable[Record]) -> Iterator[tuple[object, ...]]:
        """The address columns of rows before and after changes of the table."""
        names, decoded = self._shape.template.columns, self._dialect.decoded
        for record in records:
            for row in filter(None, (record.old, record.new)):
                try:
                    yield tuple([decoded(row[name]) for name in names])
                except KeyError:
                    self._ask("sync")  # noted by triggers of another configuration

    def _linked(self, before: Mapping[str, str], now: Iterable[Seen]) -> Iterator[tuple[object, ...]]:
        """The address columns that rows of a query had (key → address) and have."""
        if self._touched is not None:
            self._touched_keys.update(before, (seen.key for seen in now))
        return map(self._dialect.read_kept, (*before.values(), *(seen.address for seen in now)))

    def _send(self, locs: Concerned) -> int:
        """Send what is true of these URLs now. While Redis takes some of them, the next are looked up."""
        if self._touched is not None:
            self._touched.update(locs)
        events = chain.from_iterable(self._events(locs, part) for part in chunks(locs, LOOK))
        sent = self._sink.send(events, bulk=len(locs) > BULK)
        self._report_refused()
        return sent

    def _events(self, concerned: Concerned, locs: list[str]) -> list[Event]:
        """What is true now of some of the URLs."""
        shape, source = self._shape, self._source.name
        wanted = dict.fromkeys(chain.from_iterable(shape.template.spellings(concerned[loc]) for loc in locs))
        there: dict[str, Listed] = {}
        by, refuse = shape.url_columns, self._reader.refuse
        for row in self._dialect.rows(shape, shape.read_columns, by, list(wanted), refuse):
            listed = self._reader.read(row)
            if listed is not None:
                other = there.get(listed.loc)
                there[listed.loc] = listed if other is None else newest(listed, other)
        return [
            Event("add", *there[loc], source=source) if loc in there else Event("delete", loc, source=source)
            for loc in locs
        ]

    def _read_rows(self, second: Dialect, difference: Difference) -> None:
        """Fill the difference with what the rows want, and bring the memory of a query up to date."""
        memory, reader, shape = self._memory, self._reader, self._shape
        linked = memory.columns if memory else ()
        with Difference("") as fresh:
            for rows in second.published(shape, (*linked, *shape.read_columns), reader.refuse):
                listed = filter(None, (reader.read(row[len(linked) :]) for row in rows))
                difference.want(((*each, "", None) for each in listed), newest=True)
                if memory:
                    fresh.want(map(as_wanted, memory.seen(rows)), newest=True)
                self.keep_up()
            if memory:
                memory.update(fresh, second, self._touched_keys, self.keep_up)

    def _replace(self, former: str) -> None:
        """Remove the triggers and the outbox of the name that the source had before, or say how."""
        site, what = self._state.site, "are removed"
        for stray in strays(self._dialect, [self._shape]):
            if stray.label == f"{site}/{former}":
                if self._source.triggers == "auto":
                    with suppress(SitemapdError):  # `triggers list` still shows them
                        remove_stray(self._dialect, stray, keep=False)
                else:
                    what = f"stay until `sitemapd triggers uninstall --stray {stray.label}` removes them"
                log.info(
                    "The triggers that %s had as %s %s.",
                    self._source.name,
                    former,
                    what,
                    extra=self._state.extra("former_triggers"),
                )

    def _has_moved(self) -> bool:
        """Whether triggers, their table, the outbox or the file are others than when it was opened."""
        state, dialect = self._state, self._dialect
        if state.monotonic() - self._checked < self._source.check_interval:
            return False
        self._checked = state.monotonic()
        same = dialect.ground(self._plan) == self._ground
        dialect.rollback()
        if not same:
            log.warning(
                "The table, the triggers or the outbox of %s are not those that were there before: changes "
                "may have gone by unseen, so the whole table is compared.",
                self._source.name,
                extra=state.extra("ground_changed"),
            )
        return not same

    def _ask(self, kind: str) -> None:
        """Have the table compared, now or by the next relay; with `accept` it may delete whatever is gone."""
        self._asked = "accept" if "accept" in (kind, self._asked) else "sync"
        before = self._checkpoint.get("wanted")
        self._checkpoint["wanted"] = "accept" if "accept" in (before, kind) else "sync"
        self._state.compare_due = True
        self._state.accept |= kind == "accept"

    def _save(self) -> None:
        """Write what the next relay has to know, in the transaction that is open."""
        self._checkpoint |= {"without_url": self._reader.without_url, "undated": self._reader.undated}
        if self._checkpoint != self._saved:
            write_checkpoint(self._dialect, self._shape.label, self._checkpoint)
            self._saved = dict(self._checkpoint)  # or the transaction fails, and the connection with it

    def _report_refused(self) -> None:
        if self._reader.refusals:
            self._sink.store.reject([(refused, self._source.name) for refused in self._reader.refusals])
            self._reader.refusals.clear()

    def _warn(self, field: str, sentence: str) -> None:
        log.warning("%s", sentence, extra=self._state.extra(f"{field}_left_out"))
