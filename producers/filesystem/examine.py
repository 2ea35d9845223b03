"""Looks at one file and says what its row is: what the sitemap is to say of it, or why nothing.

1. A file whose size, times and inode are those of its row is unchanged and not read, unless an
   event named it.
2. Its front matter and head decide whether it is listed, and where; its path otherwise.
3. The first of the source's lastmod choices that has a date gives it. `content` and `mtime` never
   move it back, or on, for the same bytes: only a newer mtime moves `mtime` on.
4. What can't be read keeps the row that it had. Each problem is reported once.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat as st
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from time import gmtime, strftime
from typing import Final, NamedTuple

from producers.dates import written_ms
from producers.filesystem.cache import Row, row_of
from producers.filesystem.html_head import HEAD_BYTES, NO_HEAD, leads_elsewhere
from producers.filesystem.inherit import NOTHING, Inherited
from producers.filesystem.mapping import Mapping
from producers.filesystem.page import NO_FACTS, Facts, FrontMatterError, ext_of, read_page
from producers.filesystem.paths import joined
from producers.filesystem.problems import Problem, shown
from producers.filesystem.selection import is_service_page
from producers.filesystem.source import FilesystemSource
from sitemap_store.errors import Refused
from sitemap_store.model.extensions import canonical, read_extensions
from sitemap_store.model.extensions.page import Page
from sitemap_store.model.site import Site

log = logging.getLogger(__name__)

_DAY_MS: Final = 86_400_000
_PLACEHOLDERS: Final = (0, 1_000, 315_532_800_000, 499_162_500_000)
"""What packages put where a file's time was: 1970, Nix' second after it, zip's 1980, npm's 1985."""
_LAST: Final = 253_402_300_800  # the year 10000
_CHUNK: Final = 1 << 20
_MOST: Final = (1 << 63) - 1
"""The largest number that SQLite holds: some file systems have inodes and times beyond it."""
LARGE: Final = 16 << 20
"""Bytes from which on a file is not read whole: only its head, and its end to see that it changed."""
DIGEST_BYTES: Final = 8


class Look(NamedTuple):
    """One file at the moment at which it is looked at."""

    root: bytes
    folder: bytes
    name: bytes
    found: os.stat_result
    old: Row | None
    """What was known of it."""
    now: int
    """Epoch milliseconds."""
    inherited: Inherited = NOTHING

    @property
    def path(self) -> bytes:
        """Its path below the root."""
        return joined(self.folder, self.name)


class Examiner:
    """Makes rows for one source and site. `committed` tells a file's last commit (epoch ms)."""

    def __init__(
        self,
        source: FilesystemSource,
        site: Site,
        *,
        settle_ns: int,
        report: Callable[[Problem], None],
        committed: Callable[[bytes, bytes], int] | None = None,
    ) -> None:
        self._source = source
        self._zone = site.assume_timezone
        self._mapping = Mapping(
            source.url,
            site.rules,
            index_files=source.index_files,
            strip_extension=source.strip_extension,
            trailing_slash=source.trailing_slash,
        )
        self._settle_ns = settle_ns
        self._report = report
        self._committed = committed
        self._reads = source.front_matter or source.html_head or "content" in source.lastmod

    def unchanged(self, row: Row, found: os.stat_result, inherited: Inherited = NOTHING) -> bool:
        """Whether a file, and what it inherits, are certainly those that its row tells of."""
        return (
            row.mtime == found.st_mtime_ns
            and row.ctime == found.st_ctime_ns
            and row.size == found.st_size
            and row.inode == found.st_ino & _MOST
            and (row.inherited == inherited.digest or not inherited.known)
        )

    def examine(self, look: Look) -> Row | None:
        """The row of a file; None when it is gone, or no file."""
        if not look.inherited.known:
            return look.old or _blank(look, "inheritance")
        try:
            return self._examine(look)
        except Exception as error:
            # A bug that one file brings to light must not stop the others.
            log.exception("Looking at %s failed.", shown(look.path), extra={"action": "file_failed"})
            detail = f"can't be made sense of ({type(error).__name__}); what was known of it stays"
            return self._kept(look, "failed", detail)

    def _examine(self, look: Look) -> Row | None:
        digest, facts = b"", NO_FACTS
        if self._reads:
            try:
                read = self._read(look)
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:
                detail = f"can't be read ({error.strerror}); what was known of it stays"
                return self._kept(look, "unreadable", detail)
            except FrontMatterError as error:
                return self._kept(look, "front matter", str(error))
            if read is None:
                return None
            digest, facts, found = read
            look = look._replace(found=found)
        why, loc = self._address(look, digest, facts)
        if facts.warnings and (look.old is None or look.old.digest != digest):
            for warning in facts.warnings:
                self._report(Problem(look.path, "front matter", warning))
        if not look.name.isascii():
            self._report_twin(look)
        lastmod, changed, by = self._lastmod(look, facts, digest)
        ext = self._ext(look, loc, digest, facts) if loc else ""
        found, now = look.found, look.now
        times = _fitting(found.st_mtime_ns), _fitting(found.st_ctime_ns)
        if now * 1_000_000 - times[1] < self._settle_ns:
            times = times[0], 0
        since, until = facts.listed_from, facts.listed_until
        live = int(loc != "" and since <= now and (until == 0 or now < until))
        return row_of((
            look.folder, look.name, found.st_size, *times, found.st_ino & _MOST, digest, loc, why, lastmod,
            by, changed, facts.changefreq, facts.priority, since, until, live, look.inherited.digest,
            ext,
        ))  # fmt: skip

    def _address(self, look: Look, digest: bytes, facts: Facts) -> tuple[str, str]:
        """Why a file is not to be listed, or else the URL that it has."""
        if not self._source.service_pages and is_service_page(look.path):
            return "service page", ""
        if facts.why:
            return facts.why, ""
        try:
            if facts.address:
                loc = self._mapping.own(facts.address)
            else:
                loc = self._mapping.loc(look.folder, look.name, slug=facts.slug)
            why = "" if facts.head is NO_HEAD else leads_elsewhere(facts.head, loc, self._mapping)
        except Refused as refused:
            if look.old is None or look.old.why != "refused" or look.old.digest != digest:
                self._report(Problem(look.path, "refused", refused.detail, refused))
            return "refused", ""
        return why, "" if why else loc

    def _ext(self, look: Look, loc: str, digest: bytes, facts: Facts) -> str:
        """The page's extensions; what is wrong in them is left out, and reported once."""
        raw = ext_of(facts, loc, self._source)
        if not raw:
            return ""
        page = Page(loc=loc, now=look.now)
        ext = canonical(read_extensions(raw, page))
        if page.warnings and (look.old is None or look.old.digest != digest):
            for warning in page.warnings:
                self._report(Problem(look.path, "extension", warning))
        return ext

    def _read(self, look: Look) -> tuple[bytes, Facts, os.stat_result] | None:
        # Not to hang on a pipe that took the file's place.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(look.root + b"/" + look.path, flags)
        try:
            found = os.fstat(descriptor)
            if not st.S_ISREG(found.st_mode):
                return None
            # A byte more than it has, so that the end is seen; a larger buffer costs more than that.
            wanted = min(found.st_size + 1, _CHUNK)
            data = more = os.read(descriptor, wanted)
            digest = hashlib.blake2b(data, digest_size=DIGEST_BYTES)
            if found.st_size > LARGE:
                digest.update(b"%d" % found.st_size + os.pread(descriptor, _CHUNK, found.st_size - _CHUNK))
                wanted = 0
            while len(more) == wanted:
                wanted = _CHUNK
                more = os.read(descriptor, wanted)
                digest.update(more)
        finally:
            os.close(descriptor)
        facts = read_page(data[:HEAD_BYTES], look.name, self._source, self._zone, look.inherited)
        return digest.digest(), facts, found

    def _kept(self, look: Look, kind: str, detail: str) -> Row:
        self._report(Problem(look.path, kind, detail))
        return look.old or _blank(look, kind)

    def _report_twin(self, look: Look) -> None:
        written = os.fsdecode(look.name)
        for form in ("NFC", "NFD"):
            twin = os.fsencode(unicodedata.normalize(form, written))
            if twin != look.name and os.path.lexists(look.root + b"/" + joined(look.folder, twin)):
                detail = "there is a second file whose name looks the same (one NFC, one NFD)"
                self._report(Problem(joined(look.folder, min(look.name, twin)), "twin", detail))

    def _lastmod(self, look: Look, facts: Facts, digest: bytes) -> tuple[str, int, str]:
        """The date as it is written, its instant in epoch milliseconds, and the choice that gave it."""
        for choice in self._source.lastmod:
            if choice in ("front-matter", "meta"):
                for text in facts.dates if choice == "front-matter" else filter(None, (facts.modified,)):
                    changed = written_ms(text)
                    if changed <= look.now + _DAY_MS:
                        return text, changed, choice
                continue
            if choice == "git":
                when = (self._committed(look.folder, look.name) if self._committed else 0) or None
            else:
                when = self._from_times(choice, look, digest)
            if when is not None and (text := _written(when // 1000)):
                return text, when - when % 1000, choice
        return "", 0, ""

    def _from_times(self, choice: str, look: Look, digest: bytes) -> int | None:
        old, written = look.old, look.found.st_mtime_ns // 1_000_000
        when = min(written, look.now)
        if when in _PLACEHOLDERS:
            return None
        if old is not None and old.lastmod_by == choice and old.lastmod:
            same = old.digest == digest if digest and old.digest else old.size == look.found.st_size
            if same:
                # A time to come is no news of bytes that are still the same.
                moves = choice == "mtime" and written <= look.now
                return max(old.changed, when) if moves else old.changed
            if choice == "content" and when <= old.changed:
                return max(look.now, old.changed)
        return when


def _blank(look: Look, why: str) -> Row:
    # A row without times is never taken for unchanged, so that it is read as soon as may be.
    return Row(look.folder, look.name, 0, 0, 0, 0, b"", "", why, "", "", 0, "", "", 0, 0, 0)


def _fitting(ns: int) -> int:
    return max(-_MOST, min(ns, _MOST))


@lru_cache(maxsize=256)  # a deploy or a checkout gives many files one time
def _written(seconds: int) -> str:
    if not 0 <= seconds < _LAST:
        return ""  # a file from before 1970 has lost its date
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds))
