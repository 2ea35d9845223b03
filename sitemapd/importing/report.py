"""What an import read, changed and left out, counted in full, with a few examples of each reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from sitemapd.printable import printable

Kind = Literal["note", "changed", "skipped", "lost"]

EXAMPLES: Final = 5
"""Examples of each reason that are kept."""
_SHOWN: Final = 300


class Reason(NamedTuple):
    """Why something is in the report."""

    kind: Kind
    what: str
    """For people, after a count."""


KINDS: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "note": "Read all the same",
        "changed": "Changed",
        "skipped": "URLs left out",
        "lost": "Files not read, or not to their end",
    }
)
REASONS: Final[Mapping[str, Reason]] = MappingProxyType(
    {
        "bom": Reason("note", "files that begin with a byte order mark"),
        "before-declaration": Reason("note", "files with white space before the XML declaration"),
        "namespace": Reason("note", "files whose namespace is missing or wrong"),
        "encoding": Reason("note", "files that are not UTF-8"),
        "ampersand": Reason("note", "files with unescaped ampersands or entities of HTML"),
        "gzip-name": Reason("note", "files that end in .gz and are no gzip, or the other way round"),
        "index-in-index": Reason("note", "index files that an index lists"),
        "too-many-urls": Reason("note", "files with more than 50,000 URLs"),
        "empty": Reason("note", "files that list nothing"),
        "escaped-twice": Reason("changed", "URLs that were escaped more than once"),
        "same-site": Reason("changed", "URLs of another variant of the site's address"),
        "fragment": Reason("changed", "URLs whose fragment (#…) was dropped"),
        "query": Reason("changed", "URLs without the query parameters that strip_query names"),
        "normal-form": Reason("changed", "URLs that are written in another way now"),
        "lastmod-form": Reason("changed", "lastmods that are written in another way now"),
        "lastmod": Reason("changed", "lastmods that were left out: no date with a day"),
        "lastmod-zone": Reason(
            "changed", "lastmods that were left out: no time zone; assume_timezone sets one"
        ),
        "changefreq-form": Reason("changed", "changefreqs that are written in lower case now"),
        "changefreq": Reason("changed", "changefreqs that were left out: none of the seven words"),
        "priority-form": Reason("changed", "priorities that were rounded to tenths"),
        "priority": Reason("changed", "priorities that were left out: not within 0.0 to 1.0"),
        "extension": Reason(
            "changed", "extensions, or parts of them, that break a rule or are news no more: left out"
        ),
        "element": Reason("changed", "elements of neither the protocol nor an extension: left out"),
        "no-loc": Reason("skipped", "entries without a URL"),
        "variant": Reason("skipped", "URLs with another scheme or www: --same-site takes them"),
        "location": Reason("skipped", "URLs outside the folder or the host of base_url"),
        "not-absolute": Reason("skipped", "URLs that are not absolute"),
        "scheme": Reason("skipped", "URLs that are neither http nor https"),
        "user-info": Reason("skipped", "URLs with a user name or password"),
        "host": Reason("skipped", "URLs whose host is no host name"),
        "port": Reason("skipped", "URLs with a port that cannot be"),
        "control-character": Reason("skipped", "URLs with characters that no URL may hold"),
        "percent-encoding": Reason("skipped", "URLs with a percent sign that encodes nothing"),
        "too-long": Reason("skipped", "URLs that are too long for a sitemap"),
        "too-short": Reason("skipped", "URLs that are too short for a sitemap"),
        "doctype": Reason("lost", "files with a DOCTYPE, which may do harm: not read"),
        "not-well-formed": Reason("lost", "files with broken XML, read up to there"),
        "gzip-broken": Reason("lost", "files with damaged or cut-off gzip, read up to there"),
        "hostile-markup": Reason("lost", "files with markup beyond any sitemap's, read up to there"),
        "too-large-to-read": Reason("lost", "files larger than 256 MiB unpacked, read up to there"),
        "too-many": Reason("lost", "files beyond the 50,000,000 URLs of one import, read up to there"),
        "no-sitemap": Reason("lost", "files that are no sitemap, index, feed or list of URLs"),
        "unreadable": Reason("lost", "files that cannot be opened"),
        "unlisted": Reason("lost", "files that no index leads to: import them by name if they count"),
        "absent": Reason("lost", "files that are listed and not there"),
        "http-status": Reason("lost", "files that the server answered with another status than 200"),
        "fetch-failed": Reason("lost", "files of which no whole answer came"),
        "not-fetched": Reason("lost", "files on hosts that were not named, or on private addresses"),
        "too-deep": Reason("lost", "index files more than 3 levels deep, whose files were not read"),
        "too-many-files": Reason("lost", "files beyond the 100,000 that one import reads"),
    }
)


class Report:
    """Counts and examples by reason."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.files = 0
        """Files that were read."""
        self.urls = 0
        """URLs in them."""
        self._examples: dict[str, list[str]] = {}

    def add(self, code: str, example: str) -> None:
        """Count a reason, and keep an example while there is room."""
        self.counts[code] += 1
        kept = self._examples.setdefault(code, [])
        if len(kept) < EXAMPLES:
            kept.append(printable(example if len(example) <= _SHOWN else example[:_SHOWN] + "…"))

    def examples(self, code: str) -> list[str]:
        """The first examples of a reason."""
        return self._examples.get(code, [])

    def count(self, *kinds: Kind) -> int:
        """How much there is of some kinds of reasons."""
        return sum(count for code, count in self.counts.items() if REASONS[code].kind in kinds)

    def found(self) -> Iterator[tuple[str, Reason, int]]:
        """The reasons that occurred, in the order of `REASONS`, with their counts."""
        for code, reason in REASONS.items():
            if count := self.counts[code]:
                yield code, reason, count
