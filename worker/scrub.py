"""The scrubber: compares what is at the output with the state, slowly and always.

The output is not trusted: a deploy empties it, a hand edits a file, a worker on a host that stood still
writes late. Rules:

1. What differs is read again, from the output and from the state, before it counts: a worker may have
   published in between.
2. Presence is compared at each look. Content is compared when a file's inode, size or time is not the one of
   the last comparison, and otherwise once in `CONTENT_EVERY_S`.
3. What differs is wanted again, and the workers put it right: nothing is written here. Two exceptions: the
   marker of an output that was wiped, and a file in our names that no shard has, which is removed after
   `STRANGE_S` where its section is one of ours.
4. An output without the marker is put back only when no other live process sees the marker in its own
   output. Otherwise this process is configured to another folder, and publishes nothing.
5. A look costs what it costs, and the pause after it makes that at most `SHARE` of a core.

A little longer than most modules: each rule is a step of one look, and they share what the look has found.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from sitemap_store.errors import SitemapdError, Unavailable
from sitemap_store.model.site import SHARD_NAME
from sitemap_store.output.folder import Signature
from sitemap_store.reading.reader import Unreadable, plain
from sitemap_store.redis.claims import Member
from sitemap_store.redis.state import Partition
from sitemap_store.redis.store import Store
from sitemap_store.shards.render import etag_of
from worker.processes import SEEN_MS, living

log = logging.getLogger(__name__)

PAUSE_S = 2.0
SHARE = 0.02
CONTENT_EVERY_S = 12 * 3600.0
"""Half a day, so that each file is compared at least once a day whatever else a look has to do."""
CONTENT_S = 0.05
"""CPU seconds that a look gives to the content of files that nothing speaks against."""
STRANGE_S = 60.0
NAMED = 5
"""Files that a log line names."""

Difference = Literal["gone", "altered"]


class Output(Protocol):
    """Where files are published. Raises Unavailable when it can't be read now."""

    def signatures(self) -> dict[str, Signature] | None:
        """Every published file's signature; None when there is no folder."""

    def read(self, name: str) -> bytes | None:
        """A published file's bytes; None when there is none."""

    def remove(self, name: str) -> None:
        """Remove a published file."""

    def marker(self) -> str | None:
        """The id of the state that the published tree belongs to."""

    def mark(self, site: str, state_id: str) -> None:
        """Write the marker of a state."""


@dataclass(slots=True)
class Findings:
    """What a look found."""

    gone: list[str] = field(default_factory=list)
    """Files that are not at the output."""
    altered: list[str] = field(default_factory=list)
    """Files whose content is not what was published."""
    strange: list[str] = field(default_factory=list)
    """Files in our names that no shard and no index file has."""
    same: int = 0
    """Files whose content was read, and is what was published."""

    def __bool__(self) -> bool:
        return bool(self.gone or self.altered or self.strange)


class _Known(NamedTuple):
    signature: Signature
    etag: str
    at: float


class Scrubber:
    """Compares one site's output with its state. Raises SitemapdError when one of them can't be read now.

    `process` is this process' own name.
    """

    def __init__(
        self,
        store: Store,
        output: Output,
        process: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._store = store
        self._output = output
        self._process = process
        self._clock = clock
        self._cpu = cpu
        self._known: dict[str, _Known] = {}
        self._strange: dict[str, tuple[Signature, float]] = {}
        self._last_logged = ""

    def run(self, stop: threading.Event) -> None:
        """Look again and again until `stop` is set."""
        pause = 0.0
        while not stop.wait(pause):
            began = self._cpu()
            try:
                self.look()
                self._log_once("")
            except SitemapdError as error:
                self._log_once(f"The output of site {self._store.site.name} can't be compared now: {error}")
            except Exception:
                log.exception("The comparison of the output failed", extra={"action": "scrub_failed"})
            pause = max(PAUSE_S, (self._cpu() - began) * (1 / SHARE - 1))
        with suppress(SitemapdError):  # another process may put back this output from now on
            self._store.partitions[0].saw_marker(self._process, there=False, within_ms=SEEN_MS)

    def look(self) -> Findings:
        """Compare the presence of all files and the content of some; what differs is wanted again."""
        if not self._ours():
            return Findings()
        return self._compare(repair=True, budget=CONTENT_S)

    def check(self) -> Findings:
        """Compare all files whole, and change nothing."""
        return self._compare(repair=False, budget=float("inf"))

    def _ours(self) -> bool:
        """Whether the output is this state's; a wiped one gets its marker back."""
        first, site = self._store.partitions[0], self._store.site.name
        state_id, names = first.state_id(), self._output.signatures()
        if state_id is None:
            return False
        if names is None:
            self._log_once(
                f"The output folder of site {site} is missing; sitemapd waits until it exists again"
            )
            return False
        marker = self._output.marker()
        others = living(first.saw_marker(self._process, there=marker == state_id, within_ms=SEEN_MS))
        if marker == state_id:
            return True
        if marker is not None:
            return False  # of another state: the workers refuse to publish, and say so
        if others:
            self._log_once(
                f"Site {site} has another output at another process ({min(others)}), which sees the marker "
                "there; this process publishes nothing: give both the same output"
            )
            return False
        if not self._store.files().issuperset(names):
            self._log_once(
                f"The output of site {site} lost its marker and holds files that sitemapd did not write"
            )
            return False
        log.warning(
            "The output of site %s was wiped, its marker too; sitemapd puts all files back",
            site,
            extra={"action": "output_wiped", "site": site},
        )
        self._output.mark(site, state_id)
        return True

    def _compare(self, *, repair: bool, budget: float) -> Findings:
        found = Findings()
        ours: set[str] = set()
        deadline = self._cpu() + budget
        files = self._output.signatures()
        if files is None:
            raise Unavailable(
                what=f"the output of site {self._store.site.name}", detail="the folder is missing"
            )
        for part, members in self._pages():
            config = part.current_config()
            different: dict[Difference, list[Member]] = {"gone": [], "altered": []}
            again: list[str] = []
            for member in members:
                ours.update((member.file, *member.old) if member.present else member.old)
                if not member.settled:
                    if not member.scheduled:
                        again.append(member.member)
                    continue
                if member.config < config and part.config:
                    again.append(member.member)
                elif not member.present:
                    if member.file in files:
                        again.append(member.member)
                        ours.add(member.file)
                        found.strange.append(member.file)
                elif member.file not in files:
                    different["gone"].append(member)
                elif self._is_altered(member, files[member.file], deadline, found):
                    different["altered"].append(member)
            for why, suspects in different.items():
                confirmed = self._confirmed(part, suspects, files)
                getattr(found, why).extend(member.file for member in confirmed)
                if repair and confirmed:
                    part.want([member.member for member in confirmed], why)
            if repair and again:
                part.want(again)
        self._find_strange(files, ours, found, repair=repair)
        for name in self._known.keys() - files.keys():
            del self._known[name]
        if repair:
            self._report(found)
        return found

    def _pages(self) -> Iterator[tuple[Partition, list[Member]]]:
        for part in self._store.partitions:
            for ids in part.shard_ids():
                yield part, part.members(ids)
            yield part, part.members(part.index_members())

    def _is_altered(self, member: Member, signature: Signature, deadline: float, found: Findings) -> bool:
        """Whether the file's content is not what was published, where there is reason and time to look."""
        known, now = self._known.get(member.file), self._clock()
        suspect = known is not None and known.etag == member.etag and known.signature != signature
        fresh = (
            known is not None and known[:2] == (signature, member.etag) and now - known.at < CONTENT_EVERY_S
        )
        if fresh and deadline != float("inf"):
            return False
        if not suspect and self._cpu() >= deadline:
            return False
        if self._etag(member.file) != member.etag:
            return True
        found.same += 1
        self._known[member.file] = _Known(signature, member.etag, now)
        return False

    def _etag(self, name: str) -> str | None:
        data = self._output.read(name)
        if data is None:
            return None
        try:
            return etag_of(plain(data))
        except Unreadable:
            return None

    def _confirmed(
        self, part: Partition, suspects: Sequence[Member], files: dict[str, Signature]
    ) -> list[Member]:
        """Those whose state is still the one that was compared: no worker published in between."""
        if not suspects:
            return []
        missing = {each.member for each in suspects if each.file not in files}
        back = self._output.signatures()
        if back is None:
            return []
        there = {each.member for each in suspects if each.file in back}
        now = {member.member: member for member in part.members([each.member for each in suspects])}
        return [
            suspect
            for suspect in suspects
            if not (suspect.member in missing and suspect.member in there)
            and (same := now.get(suspect.member)) is not None
            and same.settled
            and (same.generation, same.etag, same.file) == (suspect.generation, suspect.etag, suspect.file)
        ]

    def _find_strange(
        self, files: dict[str, Signature], ours: set[str], found: Findings, *, repair: bool
    ) -> None:
        now, strange = self._clock(), {}
        for name in files.keys() - ours:
            signature, since = self._strange.get(name, (files[name], now))
            strange[name] = (files[name], since if signature == files[name] else now)
        sections = self._sections() if strange else set()
        for name, (signature, since) in sorted(strange.items()):
            shard = SHARD_NAME.fullmatch(name)
            if not repair:
                if name not in self._store.files():
                    found.strange.append(name)
            elif now - since >= STRANGE_S and signature == files[name]:
                found.strange.append(name)
                if shard is not None and shard[1] in sections:
                    self._output.remove(name)
                    del strange[name]
                else:
                    strange[name] = (signature, float("inf"))  # said once
        if repair:
            self._strange = strange
            if found.strange:
                self._store.partitions[0].count_strange(len(found.strange))

    def _sections(self) -> set[str]:
        return {section for part in self._store.partitions for section in part.sections()}

    def _report(self, found: Findings) -> None:
        for files, said in (
            (found.gone, "Files were missing in the output and become due again"),
            (found.altered, "Files in the output have other content and become due again"),
            (found.strange, "Files in the output have names of sitemapd, and no shard has them"),
        ):
            if files:
                log.warning(
                    "%s: %s%s",
                    said,
                    ", ".join(files[:NAMED]),
                    f" and {len(files) - NAMED} more" if len(files) > NAMED else "",
                    extra={"action": "output_differs", "site": self._store.site.name},
                )

    def _log_once(self, sentence: str) -> None:
        """Log a condition once, as long as it lasts."""
        if sentence and sentence != self._last_logged:
            log.error("%s", sentence, extra={"action": "scrub_waits", "site": self._store.site.name})
        self._last_logged = sentence
