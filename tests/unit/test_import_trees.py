"""`sitemapd import` on broken trees: what is taken of each, and what its report says."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.check.content import Broken, Content
from sitemap_store.errors import SitemapdError
from sitemap_store.model.entries import Entry
from sitemap_store.model.events import Event
from sitemap_store.model.sections import SectionRule, Sections
from sitemap_store.model.site import Site
from sitemap_store.model.urls import UrlRules
from sitemapd.importing.collected import Collected, Row
from sitemapd.importing.importer import SECTIONS_MAX, Importer, section_name
from sitemapd.importing.reader import Item, read_items, without_entities
from sitemapd.importing.report import EXAMPLES, REASONS, Report
from sitemapd.importing.walk import import_folder
from tests import markdown
from tests.check_trees import HEAD, url, urlset

TREES: Final = Path(__file__).parents[1] / "fixtures" / "import"
BASE: Final = "https://shop.example.com/"
NOW: Final = 1_764_000_000_000


@dataclass
class Imported:
    """What an import read: its report, and the URLs as they would be sent."""

    report: Report
    urls: list[str]

    @property
    def reasons(self) -> dict[str, int]:
        """The counts by reason."""
        return {code: count for code, _, count in self.report.found()}


def import_tree(
    tree: Path, file: str | None = None, *, same_site: bool = False, site: Site | None = None
) -> Imported:
    """Import a folder, or one file in it, into a site of `BASE`."""
    site = site or Site(name="shop", rules=UrlRules(base=BASE), sections=Sections(()))
    with Collected("") as collected:
        report = Report()
        importer = Importer(site, NOW, collected, report, same_site=same_site)
        import_folder(importer, tree, tree / file if file else None)
        urls = [" ".join(filter(None, _shown(event))) for event in collected.events("")]
        left = sum(collected.states().values())
    assert left == len(urls) <= report.urls - report.count("skipped")
    return Imported(report, urls)


def _shown(event: Event) -> tuple[str | None, ...]:
    assert event.at == 0
    return event.loc.removeprefix(BASE), event.lastmod, event.changefreq, event.priority, event.ext


@dataclass(kw_only=True)
class Expected:
    """The report that a tree must have."""

    files: int
    read: int
    urls: list[str]
    reasons: dict[str, int]


EXPECTED: Final = {
    "absent": Expected(
        files=2,
        read=1,
        urls=["a"],
        reasons={"absent": 2},
    ),
    "before-the-declaration": Expected(
        files=3,
        read=3,
        urls=["a", "c", "b"],
        reasons={"bom": 2, "before-declaration": 2},
    ),
    "cut-off": Expected(
        files=4,
        read=3,
        urls=["a", "x", "y"],
        reasons={"not-well-formed": 2, "gzip-broken": 1},
    ),
    "doctype": Expected(
        files=2,
        read=1,
        urls=["a"],
        reasons={"doctype": 1},
    ),
    "encodings": Expected(
        files=4,
        read=6,
        urls=["caf%C3%A9", "first", "na%C3%AFve", "%E2%80%9Cquoted%E2%80%9D", "wide-%C3%A9", "th%C3%A9"],
        reasons={"encoding": 4, "normal-form": 5},
    ),
    "escaping": Expected(
        files=3,
        read=10,
        urls=[
            "a?b=1&c=2",
            "space",
            "first",
            "list?a=1&b=2",
            "list?a=1&copy=2",
            "caf%C3%A9",
            "last?x=1&y=2",
            "t?a=1&b=2",
            "t?c=1&d=2",
            "t?e=1&copy=2",
        ],
        reasons={"ampersand": 1, "escaped-twice": 3, "normal-form": 1},
    ),
    "extensions": Expected(
        files=1,
        read=2,
        urls=['a {"images":["https://shop.example.com/a.jpg","https://shop.example.com/b.jpg"]}', "b"],
        reasons={"extension": 1, "element": 1},
    ),
    "feeds": Expected(
        files=2,
        read=5,
        urls=[
            "atom/1 2025-03-02T10:00:00Z",
            "atom/2 2025-01-01T00:00:00Z",
            "news/1 2025-03-01T10:00:00+01:00",
            "news/2",
        ],
        reasons={"no-loc": 1},
    ),
    "gzip-misnamed": Expected(
        files=4,
        read=3,
        urls=["a", "b", "c"],
        reasons={"gzip-name": 2},
    ),
    "host-variants": Expected(
        files=1,
        read=7,
        urls=["a"],
        reasons={"variant": 4, "location": 2},
    ),
    "lastmods": Expected(
        files=1,
        read=16,
        urls=[
            "0",
            "1",
            "2",
            "3",
            "4",
            "5 2025-03-01T10:00:00+02:00",
            "6 2025-03-01T10:00:00+02:00",
            "7 2025-03-01T10:00:00Z",
            "8 2025-03-01",
            "9",
            "10",
            "11 2025-03-01T10:00:00Z",
            "12 2025-03-01T10:00:00.123456Z",
            "13",
            "14",
            "none",
        ],
        reasons={"lastmod-form": 4, "lastmod": 7, "lastmod-zone": 2},
    ),
    "left-over": Expected(
        files=3,
        read=3,
        urls=["post/a", "post/b", "page"],
        reasons={"unlisted": 1},
    ),
    "namespaces": Expected(
        files=4,
        read=4,
        urls=["a", "b 2025-02-03", "c", "d"],
        reasons={"namespace": 3},
    ),
    "nested": Expected(
        files=6,
        read=2,
        urls=["a", "b"],
        reasons={"index-in-index": 3, "unlisted": 1, "too-deep": 1},
    ),
    "no-sitemaps": Expected(
        files=6,
        read=1,
        urls=["a"],
        reasons={"empty": 2, "no-sitemap": 3},
    ),
    "repeated": Expected(
        files=3,
        read=8,
        urls=["a 2025-02-01", "b 2025-03-01", "c 2025-01-05", "d"],
        reasons={"normal-form": 1},
    ),
    "text": Expected(
        files=4,
        read=9,
        urls=["c", "th%C3%A9", "a", "b", "caf%C3%A9", "e", "d"],
        reasons={"bom": 1, "encoding": 1, "normal-form": 2, "not-absolute": 2},
    ),
    "urls": Expected(
        files=1,
        read=13,
        urls=["page", "Case", "a%20b", "%C3%BCber", "ok"],
        reasons={
            "fragment": 1,
            "normal-form": 3,
            "no-loc": 1,
            "not-absolute": 1,
            "scheme": 1,
            "user-info": 1,
            "host": 1,
            "port": 1,
            "percent-encoding": 1,
            "too-long": 1,
        },
    ),
    "values": Expected(
        files=1,
        read=12,
        urls=[
            "p0 0.9",
            "p1 1.0",
            "p2",
            "p3",
            "p4",
            "p5 0.5",
            "p6",
            "p7 0.7",
            "c0 daily",
            "c1 daily",
            "c2",
            "c3 weekly",
        ],
        reasons={"changefreq-form": 2, "changefreq": 1, "priority-form": 3, "priority": 4},
    ),
}


def test_every_tree_is_expected() -> None:
    """No tree is forgotten."""
    assert {path.name for path in TREES.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_broken_tree_is_read_and_reported(name: str) -> None:
    """Its URLs come in with their own dates, and each oddity is counted once."""
    imported, expected = import_tree(TREES / name), EXPECTED[name]
    assert imported.urls == expected.urls
    assert imported.reasons == expected.reasons
    assert (imported.report.files, imported.report.urls) == (expected.files, expected.read)


def test_the_page_has_every_reason() -> None:
    """docs/import.md has each reason once, in order, with its words."""
    rows = markdown.table(markdown.doc("import.md"), "code")
    assert [(markdown.plain(code), kind, what) for code, kind, what in rows] == [
        (code, reason.kind, reason.what) for code, reason in REASONS.items()
    ]


def test_every_rule_for_a_url_is_a_reason() -> None:
    """What an event is refused for by its URL has its line in the report."""
    rules = [markdown.plain(row[0]) for row in markdown.table(markdown.doc("wire-format.md"), "rule")]
    of_urls = rules[rules.index("control-character") : rules.index("too-short") + 1]
    assert "location" in of_urls
    assert {REASONS[rule].kind for rule in of_urls} == {"skipped"}


def test_variants_become_the_site_where_that_is_asked_for() -> None:
    """Scheme, www and the default port are no difference then; another host and port are."""
    imported = import_tree(TREES / "host-variants", same_site=True)
    assert imported.urls == ["http", "www", "both", "a", ""]
    assert imported.reasons == {"same-site": 4, "normal-form": 1, "location": 2}


def test_one_file_is_imported_alone_and_an_index_with_what_it_lists() -> None:
    """Naming a file takes what no index leads to, and nothing else."""
    assert import_tree(TREES / "left-over", "old-sitemap.xml").urls == ["gone"]
    listed = import_tree(TREES / "left-over", "sitemap_index.xml")
    assert (listed.urls, listed.reasons) == (["post/a", "post/b", "page"], {})


def test_a_zone_that_is_set_completes_a_time() -> None:
    """`assume_timezone` saves the lastmod that has none."""
    site = Site(
        name="shop", rules=UrlRules(base=BASE), sections=Sections(()), assume_timezone="Europe/Berlin"
    )
    imported = import_tree(TREES / "lastmods", site=site)
    assert {f"{number} 2025-03-01T10:00:00+01:00" for number in (4, 14)} <= set(imported.urls)
    assert imported.reasons == {"lastmod-form": 6, "lastmod": 7}


def test_examples_are_few_and_hold_no_password() -> None:
    """All are counted; user info never stands in a report."""
    imported = import_tree(TREES / "lastmods")
    assert len(imported.report.examples("lastmod")) == EXAMPLES < imported.reasons["lastmod"]
    urls = import_tree(TREES / "urls").report
    assert "secret" not in "".join(example for code in REASONS for example in urls.examples(code))


def test_a_report_cannot_steer_a_terminal(tmp_path: Path) -> None:
    """Control characters of a foreign file, or its name, are written as escapes."""
    (tmp_path / "sitemap-\x1b[2J.txt").write_text(f"{BASE}\x1b[31m\n{BASE}\x9b1m\n")
    report = import_tree(tmp_path).report
    (example,) = report.examples("control-character")
    assert example.endswith("sitemap-\\x1b[2J.txt: https://shop.example.com/\\x1b[31m")
    assert all(each.isprintable() for code in REASONS for each in report.examples(code))


def test_more_urls_than_a_file_may_hold_are_all_read(tmp_path: Path) -> None:
    """The limit is ours to keep, in shards of our own."""
    rows = [f"<url><loc>{BASE}{number}</loc></url>\n" for number in range(50_001)]
    (tmp_path / "sitemap.xml").write_text(urlset(*rows))
    imported = import_tree(tmp_path)
    assert len(imported.urls) == 50_001
    assert imported.reasons == {"too-many-urls": 1}


def test_an_import_ends_at_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after is not read, and each file that it concerns is named."""
    monkeypatch.setattr("sitemapd.importing.importer.URLS_MAX", 2)
    imported = import_tree(TREES / "repeated")
    assert imported.urls == ["a 2025-01-01", "b 2025-03-01"]
    assert imported.reasons == {"too-many": 3}


@pytest.mark.parametrize("stray", ["&", "&x", "&amp", "&;", "&#xZ;", "&copy=", "&nbsp;"])
@pytest.mark.parametrize("size", range(262_130, 262_150, 3))
def test_a_stray_ampersand_is_mended_wherever_the_pieces_end(tmp_path: Path, stray: str, size: int) -> None:
    """The entities around it stay what they are."""
    path = tmp_path / "sitemap.xml"
    head = HEAD + "<urlset>"
    row = f"<url><loc>&amp;{stray}&amp;&#38;</loc></url>"
    path.write_text(head + " " * (size - len(head) - row.index(stray)) + row + "</urlset>")
    (item,) = read_items(Content(path), lambda *_: None)
    assert item == Item(f"&{stray}&&")


@given(cut=st.integers(0, 1_000), packed=st.booleans())
def test_what_is_whole_before_a_cut_is_read(cut: int, packed: bool) -> None:
    """Of a file that ends anywhere, each entry that was complete comes, once and as it is."""
    text = urlset(*(url(f"{number}", "<lastmod>2025-01-01</lastmod>") for number in range(12))).encode()
    part = text[:cut]
    with TemporaryDirectory() as folder:
        path = Path(folder, "sitemap.xml")
        path.write_bytes(gzip.compress(part) if packed else part)
        found: list[Item] = []
        try:
            found.extend(read_items(Content(path), lambda *_: None))
            assert cut == 0 or cut >= len(text) - 1
        except Broken as broken:
            assert broken.code in ("not-well-formed", "no-sitemap")
    assert found == [
        Item(f"https://example.com/{number}", "2025-01-01") for number in range(part.count(b"</url>"))
    ]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a?b=1&amp;c=2", "a?b=1&c=2"),
        ("a?b=1&amp;amp;c=2", "a?b=1&c=2"),
        ("a?b=1&copy=2&lt=3", "a?b=1&copy=2&lt=3"),
        ("caf&eacute;&#233;&#xE9;", "caféé\u00e9"),
        ("&unknown;", "&unknown;"),
    ],
)
def test_entities_are_undone_and_parameters_are_not(text: str, plain: str) -> None:
    """Only what ends with a semicolon is an entity."""
    assert without_entities(text) == plain


@pytest.mark.parametrize(
    ("address", "section"),
    [
        ("/sitemap-products-2.xml.gz", "products"),
        ("/page-sitemap.xml", "page"),
        ("/post_tag-sitemap3.xml", "post_tag"),
        ("/products/sitemap.xml", "products"),
        ("/sitemaps/sitemap_index.xml", None),
        ("/sitemap.xml", None),
        ("/2024-05.xml", None),
        ("/sitemap_Blog%20Posts_0001.xml", "blog-posts"),
        ("/wp-sitemap-posts-page-1.xml", "posts-page"),
        ("/" + "x" * 60 + ".xml", "x" * 40),
    ],
)
def test_a_section_is_named_after_its_file(address: str, section: str | None) -> None:
    """What every sitemap's name has, and its number, is left out."""
    assert section_name(BASE + address.removeprefix("/")) == section


def test_files_become_sections_unless_a_pattern_holds_the_url(tmp_path: Path) -> None:
    """The settings come first; a file without a name of its own is the default section."""
    site = Site(
        name="shop",
        rules=UrlRules(base=BASE),
        sections=Sections([SectionRule(name="blog", patterns=("/blog/**",))]),
    )
    rows = "".join(f"<url><loc>{BASE}{path}</loc></url>" for path in ("p/1", "blog/1"))
    (tmp_path / "sitemap-products-1.xml").write_text(urlset(rows))
    (tmp_path / "sitemap-products-2.xml").write_text(urlset(rows.replace("1", "2")))
    (tmp_path / "sitemap.xml").write_text(urlset(rows.replace("1", "3")))
    with Collected("") as collected:
        import_folder(Importer(site, NOW, collected, Report(), by_file=True), tmp_path)
        assert collected.sections() == {"products": 2, "blog": 3, "pages": 1}


def test_too_many_sections_are_refused(tmp_path: Path) -> None:
    """A file for each day or product would be one; the sentence says what to leave out."""
    for number in range(SECTIONS_MAX + 1):
        name = chr(97 + number // 26) + chr(97 + number % 26)
        (tmp_path / f"sitemap-{name}.xml").write_text(urlset(f"<url><loc>{BASE}{name}</loc></url>"))
    site = Site(name="shop", rules=UrlRules(base=BASE), sections=Sections(()))
    with Collected("") as collected, pytest.raises(SitemapdError, match="leave out --sections"):
        import_folder(Importer(site, NOW, collected, Report(), by_file=True), tmp_path)


def test_what_the_site_has_is_not_sent() -> None:
    """Sent is what is new, or what an earlier import brought otherwise; what came from elsewhere stays."""
    rows = [Row(BASE + name, "2025-01-01", "", "", "", "") for name in ("new", "same", "other", "site")]
    with Collected("pages") as collected:
        collected.add(rows)
        collected.compare(
            [
                Entry(BASE + "same", "2025-01-01", source="pages"),
                Entry(BASE + "other", "2024-01-01", source="pages"),
                Entry(BASE + "site", "2024-01-01", at=NOW),
                Entry(BASE + "not-in-the-tree"),
            ]
        )
        assert collected.states() == {"new": 1, "updated": 1, "unchanged": 1, "kept": 1}
        assert [event.loc for event in collected.events("")] == [BASE + "new", BASE + "other"]
