"""Takes files of another tool into a site: each URL by the rules of a pushed event."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from sitemap_store.check.content import Broken, Content
from sitemap_store.errors import BadSetting, Refused, SitemapdError
from sitemap_store.model.dates import is_full
from sitemap_store.model.extensions import canonical, read_extensions
from sitemap_store.model.extensions.page import Page
from sitemap_store.model.protocol import CHANGEFREQS, CURRENT
from sitemap_store.model.sections import Sections
from sitemap_store.model.site import Site
from sitemap_store.model.wire import check
from sitemapd.importing.collected import Collected, Row
from sitemapd.importing.reader import Item, read_items, without_entities
from sitemapd.importing.report import Report

URLS_MAX: Final = 50_000_000
"""URLs that one import reads."""
SECTIONS_MAX: Final = 100
"""Sections that the files of one import become."""

_BATCH: Final = 2_000
_OF_THE_URL: Final = frozenset({"escaped-twice", "same-site", "fragment", "query", "normal-form"})
"""Changes of the URL itself."""
_VARIANT: Final = re.compile(r"(https?)://(www\.)?([^/?#:]+)(?::(?:80|443))?(?=[/?#]|\Z)", re.IGNORECASE)
_LOOSE_DATE: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]+([0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?) ?"
    r"(?:([Zz]|UTC|GMT)|([+-][0-9]{2}):?([0-9]{2}))?",
    re.ASCII,
)
_DECIMAL: Final = re.compile(r"[01]?\.[0-9]{1,20}|[01]", re.ASCII)
_GENERAL: Final = re.compile(r"(?<![a-z])(?:wp-)?(?:site-?maps?|index)(?:-?index)?(?![a-z])")
_NOT_IN_SECTION: Final = re.compile(r"[^a-z0-9_]+")


class Importer:
    """Reads files one by one into `collected`, and reports what it had to change or leave out.

    `same_site` takes other schemes, and the host with or without www, for the site's own. `by_file` gives the
    URLs that no pattern of the settings matches the section that their file is named after.
    """

    def __init__(
        self,
        site: Site,
        now: int,
        collected: Collected,
        report: Report,
        *,
        same_site: bool = False,
        by_file: bool = False,
    ) -> None:
        self.report = report
        self._site = site
        self._now = now
        self._collected = collected
        self._same_site = same_site
        self._by_file = by_file
        origin = urlsplit(site.rules.base)
        self._own = f"{origin.scheme}://{origin.netloc}"
        self._host = (origin.hostname or "").removeprefix("www.")
        self._port = origin.port
        self._sections: set[str] = set()

    def read(self, content: Content, name: str, address: str, *, depth: int = 0) -> list[str]:
        """Read a file that is published at an address; the addresses of the sitemaps that it lists.

        `name` is what the report calls it, `depth` how many index files are above it. Raises Unavailable, and
        SitemapdError when the files become too many sections.
        """
        report, noted = self.report, set[str]()
        report.files += 1

        def note(code: str, detail: str) -> None:
            if code not in noted:
                noted.add(code)
                report.add(code, f"{name} ({detail})" if detail else name)

        listed: list[str] = []
        before = report.urls
        items = self._urls(read_items(content, note), listed, name)
        rows = self._rows(items, name, address)
        while batch := list(islice(rows, _BATCH)):
            self._collected.add(batch)
        if content.is_gzip != urlsplit(name).path.endswith(".gz"):
            note("gzip-name", "gzip" if content.is_gzip else "not gzip")
        if report.urls - before > CURRENT.urls_per_file:
            note("too-many-urls", f"{report.urls - before:,}")
        if listed and depth:
            note("index-in-index", "")
        return listed

    def _urls(self, items: Iterator[Item], listed: list[str], name: str) -> Iterator[Item]:
        """The entries that are pages, up to a fault, which is reported; the others go into `listed`."""
        is_empty = True
        try:
            for item in items:
                is_empty = False
                if not item.is_sitemap:
                    if self.report.urls >= URLS_MAX:
                        raise Broken("too-many", "")
                    self.report.urls += 1
                    yield item
                elif len(listed) < CURRENT.sitemaps_per_index and item.loc:
                    listed.append(without_entities(item.loc))
        except Broken as broken:
            self.report.add(_code_of(broken), _place_of(broken, name))
        else:
            if is_empty:
                self.report.add("empty", name)

    def _rows(self, items: Iterator[Item], name: str, address: str) -> Iterator[Row]:
        find = self._section_finder(address) if self._by_file else None
        for item in items:
            if (row := self._row(item, name)) is not None:
                yield row if find is None else row._replace(section=self._section(find(row.loc)))

    def _section_finder(self, address: str) -> Callable[[str], str]:
        sections = self._site.sections
        return Sections(sections.rules, section_name(address) or sections.default).find

    def _section(self, section: str) -> str:
        if section not in self._sections:
            self._sections.add(section)
            if len(self._sections) > SECTIONS_MAX:
                raise SitemapdError(
                    f"the files become more than {SECTIONS_MAX} sections, so nothing was imported: leave out "
                    "--sections"
                )
        return section

    def _row(self, item: Item, name: str) -> Row | None:
        """The checked entry; None, and reported, when it breaks a rule that nothing can be done about."""
        loc, lastmod, changefreq, priority, others, _, written = item
        if not loc:
            self.report.add("no-loc", name)
            return None
        given: dict[str, Any] = {"op": "add", "loc": loc}
        if lastmod:
            given["lastmod"] = lastmod
        if changefreq:
            given["changefreq"] = changefreq
        if priority:
            given["priority"] = priority
        changes: dict[str, str] = {}
        if "&" in loc and (plain := without_entities(loc)) != loc:
            changes["escaped-twice"] = f"{loc} is {plain}"
            given["loc"] = plain
        while True:
            try:
                event, warnings = check(given, self._site, self._now)
                break
            except Refused as refused:
                if (change := self._mended(refused, given)) is None:
                    variant = refused.rule == "location" and self._variant(given["loc"])
                    self.report.add("variant" if variant else refused.rule, f"{name}: {refused.loc or loc}")
                    return None
                code, text = change
                if code in ("lastmod", "lastmod-zone"):
                    changes.pop("lastmod-form", None)  # which did not help
                changes[code] = text
        if event.loc != given["loc"]:
            code = self._url_change(event.loc, given["loc"], warnings)
            changes[code] = f"{given['loc']} is {event.loc}"
        if event.lastmod != given.get("lastmod"):
            code = "lastmod-form" if event.lastmod else "lastmod"
            changes[code] = f"{lastmod} is {event.lastmod}" if event.lastmod else lastmod
        page = Page(
            loc=event.loc,
            now=self._now,
            zone=self._site.assume_timezone,
            title_max=self._site.limits.video_title_max,
        )
        ext = canonical(read_extensions(written, page)) if written else ""
        left_out = [
            *(("element", other) for other in others),
            *(("extension", text) for text in page.warnings),
        ]
        for code, text in (*changes.items(), *left_out):
            self.report.add(code, text if code in _OF_THE_URL else f"{event.loc}: {text}")
        return Row(event.loc, event.lastmod or "", event.changefreq or "", event.priority or "", ext, "")

    def _mended(self, refused: Refused, given: dict[str, Any]) -> tuple[str, str] | None:
        """Change or leave out what a rule refuses; the reason with an example. None: nothing can be done."""
        rule = refused.rule
        if rule in _FORMS:
            value = given.pop(rule)
            form = _FORMS[rule](value)
            if form is not None and form != value:
                given[rule] = form
                return f"{rule}-form", f"{value} is {form}"
            has_no_zone = rule == "lastmod" and _LOOSE_DATE.fullmatch(value)
            return "lastmod-zone" if has_no_zone else rule, value
        if rule == "location" and self._same_site and (match := self._variant(given["loc"])):
            before, given["loc"] = given["loc"], f"{self._own}{given['loc'][match.end() :]}"
            return "same-site", f"{before} is {given['loc']}"
        return None

    def _variant(self, url: str) -> re.Match[str] | None:
        """The beginning of a URL of another variant of the site's address."""
        match = _VARIANT.match(url)
        if match is None or self._port is not None or match[3].lower() != self._host:
            return None
        return match if match[0].lower() != self._own else None

    def _url_change(self, loc: str, before: str, warnings: tuple[str, ...]) -> str:
        if warnings and "#" in before:
            return "fragment"
        is_stripped = self._site.rules.strip_query and loc.count("&") + loc.count("?") < before.count("&") + 1
        return "query" if is_stripped and "?" in before else "normal-form"


def _code_of(broken: Broken) -> str:
    if broken.code == "doctype" and broken.detail.lower() == "html":
        return "no-sitemap"
    return "not-well-formed" if broken.code == "encoding" else broken.code


def _place_of(broken: Broken, name: str) -> str:
    place = f"{name}:{broken.line}" if broken.line else name
    return f"{place} ({broken.detail})" if broken.detail else place


def _lastmod_form(value: str) -> str | None:
    """A date-time with a space for its T, or a zone in another form, as W3C writes it."""
    match = _LOOSE_DATE.fullmatch(value)
    if match is None:
        return None
    day, time, utc, hours, minutes = match.groups()
    text = f"{day}T{time if time.count(':') == 2 else time + ':00'}"
    zone = "Z" if utc else f"{hours}:{minutes}" if hours else ""
    return text + zone if not zone or is_full(text + zone) else None


def _changefreq_form(value: str) -> str | None:
    word = value.lower()
    return word if word in CHANGEFREQS else None


def _priority_form(value: str) -> str | None:
    text = value.replace(",", ".")
    if _DECIMAL.fullmatch(text) is None:
        return None
    return str(Decimal(text).quantize(Decimal("0.1"), ROUND_HALF_UP))


# The fields without which a URL is worth listing, and the form that a value may have been meant in.
_FORMS: Final[dict[str, Callable[[str], str | None]]] = {
    "lastmod": _lastmod_form,
    "changefreq": _changefreq_form,
    "priority": _priority_form,
}


def section_name(address: str) -> str | None:
    """The section that a sitemap's file is named after, without "sitemap" and numbers; None for no such name.

    `/sitemap-products-2.xml.gz` and `/products/sitemap.xml` are "products".
    """
    path = unquote(urlsplit(address).path).lower()
    *folders, file = path.strip("/").split("/")
    for part in (file.partition(".")[0], *reversed(folders)):
        words = _GENERAL.sub("-", part)
        name = re.sub(r"^[^a-z]+|[-_0-9]+$", "", _NOT_IN_SECTION.sub("-", words))[:40].rstrip("-_")
        if name:
            try:
                Sections((), name)
            except BadSetting:
                continue
            return name
    return None
