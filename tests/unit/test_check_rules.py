"""Each rule of `sitemapd check`: a file that breaks it at a line, and a right one that is almost the same."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from sitemap_store.check.rules import RULES
from tests import markdown
from tests.check_trees import BASE, HEAD, check, extended, index, url, urlset

Files = Mapping[str, str | bytes]

FETCHED: Final = {
    *("fetch-failed", "http-status", "redirected", "content-type", "content-encoding", "not-fetched"),
}
"""Rules of answers over HTTP: tests/integration/test_check_http.py has their cases."""
BY_HAND: Final = {"too-large-to-read", "unreadable", "too-many-files"}
"""Rules that a file of a table can't break: tests below, and in test_check_bounds.py."""


def one(more: str) -> Files:
    """One sitemap of one URL with further children."""
    return {"sitemap.xml": urlset(url(more=more))}


def ext(more: str) -> Files:
    """One sitemap of one URL with extensions."""
    return {"sitemap.xml": extended(more)}


def image(children: str) -> Files:
    """One URL with one image."""
    return ext(f"<image:image>{children}</image:image>")


LOC: Final = f"<image:loc>{BASE}a.jpg</image:loc>"


def video(**changed: str) -> Files:
    """One URL with one video: its needed children, and those that are given ("": left out)."""
    children = {
        "thumbnail_loc": f"{BASE}t.jpg",
        "title": "T",
        "description": "D",
        "content_loc": f"{BASE}v.mp4",
        **changed,
    }
    text = "".join(
        value if value.startswith("<") else f"<video:{name}>{value}</video:{name}>"
        for name, value in children.items()
        if value
    )
    return ext(f"<video:video>{text}</video:video>")


def news(date: str = "2026-09-21", language: str = "en", more: str = "", title: str = "T") -> Files:
    """One URL with news."""
    return ext(
        "<news:news><news:publication><news:name>N</news:name>"
        f"<news:language>{language}</news:language></news:publication>"
        f"<news:publication_date>{date}</news:publication_date>"
        f"{f'<news:title>{title}</news:title>' if title else ''}{more}</news:news>"
    )


def links(*pairs: tuple[str, str], path: str = "a") -> str:
    """A sitemap of one URL with alternates: language, path."""
    rows = "".join(
        f'<xhtml:link rel="alternate" hreflang="{language}" href="{BASE}{to}"/>' for language, to in pairs
    )
    return extended(rows, path)


def urls(count: int) -> str:
    """A sitemap of that many URLs."""
    return urlset(*(url(f"p{number}") for number in range(count)))


def dated(*dates: str) -> Files:
    """A sitemap of a URL for each date."""
    return {
        "sitemap.xml": urlset(
            *(url(f"p{number}", f"<lastmod>{date}</lastmod>") for number, date in enumerate(dates))
        )
    }


GZIP: Final = gzip.compress(urls(2).encode())
ROBOTS: Final = f"User-agent: *\nDisallow: /private/\nAllow: /private/open\nSitemap: {BASE}sitemap.xml\n"
DAYS: Final = [f"2026-09-{day:02}" for day in range(1, 11)]

CASES: Final[list[tuple[str, int, Files, Files]]] = [
    # Files: code, line, the wrong ones, the right ones.
    ("gzip-broken", 0, {"sitemap.xml.gz": GZIP[:-9]}, {"sitemap.xml.gz": GZIP}),
    ("gzip-broken", 0, {"sitemap.xml.gz": GZIP + b"junk"}, {"sitemap.xml.gz": GZIP + GZIP}),
    ("gzip-broken", 0, {"sitemap.xml.gz": GZIP[:12] + bytes(20)}, {"sitemap.xml.gz": GZIP}),
    ("gzip-name", 0, {"sitemap.xml": GZIP}, {"sitemap.xml.gz": GZIP}),
    ("gzip-name", 0, {"sitemap.xml.gz": urls(1)}, {"sitemap.xml": urls(1)}),
    ("bom", 1, {"sitemap.xml": "\ufeff" + urls(1)}, {"sitemap.xml": urls(1)}),
    ("before-declaration", 1, {"sitemap.xml": "\n\n" + urls(1)}, {"sitemap.xml": urls(1)}),
    (
        "encoding",
        1,
        {"sitemap.xml": urls(1).replace("UTF-8", "ISO-8859-1")},
        {"sitemap.xml": urls(1).replace("UTF-8", "utf-8")},
    ),
    (
        "encoding",
        1,
        {"sitemap.xml": urls(1).replace("UTF-8", "UTF-16").encode("utf-16")},
        {"sitemap.xml": urls(1)},
    ),
    (
        "encoding",
        2,
        {"sitemap.txt": f"{BASE}a\n".encode() + b"\xff\n"},
        {"sitemap.txt": f"{BASE}a\r\n\n{BASE}b"},
    ),
    ("not-well-formed", 4, {"sitemap.xml": urls(2)[:-20]}, {"sitemap.xml": urls(2)}),
    ("not-well-formed", 3, one("<lastmod>&</lastmod>"), one("<!-- &#38; -->")),
    (
        "doctype",
        2,
        {
            "sitemap.xml": urls(1).replace(
                "<urlset", '<!DOCTYPE urlset [<!ENTITY x SYSTEM "file:///etc/passwd">]><urlset'
            )
        },
        {"sitemap.xml": urls(1).replace("<urlset", "<!-- DOCTYPE --><urlset")},
    ),
    ("hostile-markup", 3, one("<x>" * 20 + "</x>" * 20), one('<o:x xmlns:o="urn:o"><o:y/></o:x>')),
    ("empty", 0, {"sitemap.xml": urlset()}, {"sitemap.xml": urls(1)}),
    ("empty", 0, {"sitemap.xml": ""}, {"sitemap.xml": urls(1)}),
    ("empty", 0, {"sitemap.xml": index()}, {"sitemap.xml": index("b.xml"), "b.xml": urls(1)}),
    ("empty", 0, {"sitemap.txt": "\n"}, {"sitemap.txt": f"{BASE}a\n"}),
    ("wrong-root", 1, {"sitemap.xml": "<html><body/></html>"}, {"sitemap.xml": urls(1)}),
    (
        "wrong-namespace",
        2,
        {"sitemap.xml": urlset(url(), root='urlset xmlns="http://www.google.com/schemas/sitemap/0.84"')},
        {
            "sitemap.xml": urls(1)
            .replace("xmlns=", "xmlns:s=")
            .replace("<", "<s:")
            .replace("<s:/", "</s:")
            .replace("<s:?", "<?")
        },
    ),
    ("wrong-namespace", 2, {"sitemap.xml": urlset(url(), root="urlset")}, {"sitemap.xml": urls(1)}),
    (
        "unchecked-feed",
        1,
        {"sitemap.xml": index("feed.rss"), "feed.rss": '<rss version="2.0"><channel/></rss>'},
        {"sitemap.xml": index("b.xml"), "b.xml": urls(1)},
    ),
    ("too-many-urls", 0, {"sitemap.xml": urls(50_001)}, {"sitemap.xml": urls(50_000)}),
    (
        "too-many-bytes",
        0,
        {"sitemap.xml": urls(1) + " " * (52_428_801 - len(urls(1)))},
        {"sitemap.xml": urls(1) + " " * (52_428_800 - len(urls(1)))},
    ),
    (
        "too-many-sitemaps",
        50_003,
        {"sitemap.xml": index(*map(str, range(50_001)))},
        {"sitemap.xml": index(*map(str, range(50_000)))},
    ),
    # Elements
    ("unknown-element", 3, one("<image/>"), one('<o:image xmlns:o="urn:o"/>')),
    ("unknown-element", 3, {"sitemap.xml": urlset("<page/>\n", url())}, {"sitemap.xml": urlset(url())}),
    ("unknown-element", 3, one("<lastmod><b/>2026-01-01</lastmod>"), one("<lastmod>2026-01-01</lastmod>")),
    ("stray-text", 3, {"sitemap.xml": urlset(url(more="&amp;"))}, {"sitemap.xml": urlset(url(more="\n "))}),
    ("stray-text", 2, {"sitemap.xml": urlset("text", url())}, {"sitemap.xml": urlset(" \n", url())}),
    (
        "repeated-element",
        3,
        one("<priority>0.5</priority><priority>0.5</priority>"),
        one("<priority>0.5</priority>"),
    ),
    (
        "wrong-order",
        3,
        one("<priority>0.5</priority><lastmod>2026-01-01</lastmod>"),
        one("<lastmod>2026-01-01</lastmod><priority>0.5</priority>"),
    ),
    ("wrong-order", 3, ext(f"<image:image>{LOC}</image:image><lastmod>2026-01-01</lastmod>"), image(LOC)),
    ("padded-value", 3, one("<priority> 0.5</priority>"), one("<priority>0.5</priority>")),
    # URLs
    ("missing-loc", 3, {"sitemap.xml": urlset("<url/>", url())}, {"sitemap.xml": urlset(url())}),
    ("missing-loc", 3, {"sitemap.xml": urlset("<url><loc> </loc></url>")}, {"sitemap.xml": urlset(url())}),
    *(
        (
            "loc-invalid",
            3,
            {"sitemap.xml": urlset(f"<url><loc>{loc}</loc></url>")},
            {"sitemap.xml": urlset(url())},
        )
        for loc in (
            "/a.html",
            "www.example.com/",
            "ftp://example.com/a",
            "https://u:p@example.com/",
            f"{BASE}%zz",
        )
    ),
    ("loc-invalid", 1, {"sitemap.txt": "a list\n"}, {"sitemap.txt": f"{BASE}a"}),
    (
        "loc-too-long",
        3,
        {"sitemap.xml": urlset(url("a" * (2_048 - len(BASE))))},
        {"sitemap.xml": urlset(url("a" * (2_047 - len(BASE))))},
    ),
    (
        "loc-too-short",
        3,
        {"sitemap.xml": urlset("<url><loc>http://a.b/</loc></url>")},
        {"sitemap.xml": urlset(url())},
    ),
    *(
        ("not-normalised", 3, {"sitemap.xml": urlset(url(wrong))}, {"sitemap.xml": urlset(url(right))})
        for wrong, right in (
            ("é", "%C3%A9"),
            ("%c3%a9", "%C3%A9"),
            ("a/../b", "b"),
            ("a#b", "a"),
            ("a b", "a%20b"),
            ("%7Eu", "~u"),
        )
    ),
    (
        "outside-location",
        3,
        {"shop/sitemap.xml": urlset(url("images/x"))},
        {"shop/sitemap.xml": urlset(url("shop/x"))},
    ),
    (
        "outside-location",
        3,
        {"shop/sitemap.xml": index("b.xml"), "b.xml": urls(1)},
        {"sitemap.xml": index("shop/b.xml"), "shop/b.xml": urlset(url("shop/a"))},
    ),
    *(
        (
            "other-host",
            3,
            {"sitemap.xml": urlset(f"<url><loc>{origin}/a</loc></url>")},
            {"sitemap.xml": urlset(url())},
        )
        for origin in ("https://www.example.com", "https://example.com:8443", "https://example.org")
    ),
    (
        "other-protocol",
        3,
        {"sitemap.xml": urlset(url().replace("https", "http"))},
        {"sitemap.xml": urlset(url())},
    ),
    (
        "duplicate-url",
        4,
        {"sitemap.xml": urlset(url("a"), url("a"))},
        {"sitemap.xml": urlset(url("a"), url("A"))},
    ),
    (
        "duplicate-url",
        3,
        {"sitemap.xml": index("a.xml", "b.xml"), "a.xml": urls(3), "b.xml": urlset(url("p2"))},
        {"sitemap.xml": index("a.xml", "b.xml"), "a.xml": urls(3), "b.xml": urlset(url("p3"))},
    ),
    (
        "duplicate-url",
        4,
        {"sitemap.xml": urlset(url("%C3%A9"), url("é"))},
        {"sitemap.xml": urlset(url("%C3%A9"), url("e"))},
    ),
    # Values
    *(
        ("lastmod-invalid", 3, one(f"<lastmod>{date}</lastmod>"), one("<lastmod>2024-02-29</lastmod>"))
        for date in ("2026-02-29", "21.3.2026", "2026-03-21T11:22:22", "2026-03-21T24:00:00Z", "")
    ),
    *(
        ("lastmod-form", 3, one(f"<lastmod>{date}</lastmod>"), one("<lastmod>2026-03-21T11:22:00Z</lastmod>"))
        for date in ("2026", "2026-03", "2026-03-21T11:22Z")
    ),
    # 14:13:20Z is still the 21st everywhere but east of +09:46.
    ("lastmod-future", 3, one("<lastmod>2026-09-23</lastmod>"), one("<lastmod>2026-09-22</lastmod>")),
    (
        "lastmod-future",
        3,
        one("<lastmod>2026-09-21T14:18:21Z</lastmod>"),
        one("<lastmod>2026-09-21T16:18:20+02:00</lastmod>"),
    ),
    ("lastmod-all-equal", 0, dated(*["2026-09-01"] * 10), dated(*["2026-09-01"] * 9)),
    ("lastmod-all-equal", 0, dated(*["2026-09-01T00:00:00Z"] * 10), dated(*DAYS)),
    ("changefreq-invalid", 3, one("<changefreq>Daily</changefreq>"), one("<changefreq>daily</changefreq>")),
    *(
        ("priority-invalid", 3, one(f"<priority>{value}</priority>"), one("<priority>1</priority>"))
        for value in ("1.01", "-0.1", "0,5", "NaN", "5e-1", "")
    ),
    # Index files
    (
        "index-in-index",
        3,
        {"sitemap.xml": index("b.xml"), "b.xml": index("c.xml"), "c.xml": urls(1)},
        {"sitemap.xml": index("c.xml"), "c.xml": urls(1)},
    ),
    (
        "index-names-absent",
        4,
        {"sitemap.xml": index("a.xml", "b.xml"), "a.xml": urls(1)},
        {"sitemap.xml": index("a.xml"), "a.xml": urls(1)},
    ),
    (
        "index-names-twice",
        4,
        {"sitemap.xml": index("a.xml", "a.xml"), "a.xml": urls(1)},
        {"sitemap.xml": index("a.xml", "b.xml"), "a.xml": urls(1), "b.xml": urlset(url("b"))},
    ),
    (
        "index-lastmod-old",
        3,
        {
            "sitemap.xml": index("sitemap-1.xml", lastmod="2026-09-01"),
            "sitemap-1.xml": dated("2026-09-02")["sitemap.xml"],
        },
        {
            "sitemap.xml": index("sitemap-1.xml", lastmod="2026-09-02"),
            "sitemap-1.xml": dated("2026-09-02T23:59:59Z")["sitemap.xml"],
        },
    ),
    (
        "orphan",
        0,
        {"sitemap.xml": index("a.xml"), "a.xml": urls(1), "b.xml": urlset(url("b"))},
        {"a.xml": urls(1), "b.xml": urlset(url("b"))},
    ),
    # robots.txt
    (
        "robots-forbids",
        4,
        {"robots.txt": ROBOTS, "sitemap.xml": urlset(url("private/open"), url("private/x"))},
        {"robots.txt": ROBOTS, "sitemap.xml": urlset(url("private/open"), url("privately"))},
    ),
    (
        "robots-forbids",
        3,
        {"robots.txt": "User-agent: Bingbot\nDisallow: /*?sort=", "sitemap.xml": urlset(url("a?sort=1"))},
        {"robots.txt": "User-agent: Otherbot\nDisallow: /*?sort=", "sitemap.xml": urlset(url("a?sort=1"))},
    ),
    (
        "robots-does-not-list",
        0,
        {"robots.txt": ROBOTS, "sitemap-2.xml": urls(1)},
        {"robots.txt": ROBOTS, "sitemap.xml": index("sitemap-2.xml"), "sitemap-2.xml": urls(1)},
    ),
    (
        "robots-names-absent",
        4,
        {"robots.txt": ROBOTS, "sitemap-2.xml": urls(1)},
        {"robots.txt": ROBOTS, "sitemap.xml": urls(1)},
    ),
    (
        "robots-sitemap-invalid",
        1,
        {"robots.txt": "Sitemap: /sitemap.xml", "sitemap.xml": urls(1)},
        {"robots.txt": f"SITEMAP : {BASE}sitemap.xml # here", "sitemap.xml": urls(1)},
    ),
    # Extensions
    ("extension-missing", 3, image(""), image(LOC)),
    *(
        ("extension-missing", 3, video(**{name: ""}), video())
        for name in ("thumbnail_loc", "title", "description")
    ),
    ("extension-missing", 3, video(content_loc=""), video(content_loc="", player_loc=f"{BASE}player")),
    ("extension-missing", 3, news(title=""), news()),
    ("extension-value", 3, image("<image:loc>/a.jpg</image:loc>"), image(LOC)),
    ("extension-value", 3, video(content_loc=f"{BASE}a"), video()),
    *(
        ("extension-value", 3, video(**{name: wrong}), video(**{name: right}))
        for name, wrong, right in (
            ("title", "t" * 101, "t" * 100),
            ("description", "d" * 2_049, "d" * 2_048),
            ("thumbnail_loc", "t.jpg", f"{BASE}t.png"),
            ("duration", "0", "1"),
            ("duration", "28801", "28800"),
            ("duration", "12.5", "12"),
            ("expiration_date", "2026-13-01", "2026-12-01T00:00:00+01:00"),
            ("rating", "5.1", "4.25"),
            ("view_count", "-1", "0"),
            ("tag", " ", "tea"),
            ("family_friendly", "true", "yes"),
            ("live", "1", "no"),
            ("requires_subscription", "maybe", "Yes"),
            ("uploader", "u" * 256, "u" * 255),
            (
                "restriction",
                '<video:restriction relationship="allow">IE UK</video:restriction>',
                '<video:restriction relationship="allow">IE GB</video:restriction>',
            ),
            (
                "restriction",
                "<video:restriction>IE</video:restriction>",
                '<video:restriction relationship="deny">IE</video:restriction>',
            ),
            (
                "platform",
                '<video:platform relationship="allow">phone</video:platform>',
                '<video:platform relationship="allow">web tv</video:platform>',
            ),
        )
    ),
    *(("extension-value", 3, news(language=wrong), news(language="zh-cn")) for wrong in ("pt-br", "EN", "")),
    ("extension-value", 3, news(date="2026-09"), news(date="2026-09-21T10:00:00Z")),
    ("extension-unknown", 3, image(f"{LOC}<image:alt>a</image:alt>"), image(LOC)),
    ("extension-unknown", 3, ext("<video:film/>"), video()),
    (
        "extension-order",
        3,
        video(duration="60", player_loc=f"{BASE}p"),
        video(player_loc=f"{BASE}p", duration="60"),
    ),
    ("extension-repeated", 3, image(LOC + LOC), image(LOC)),
    (
        "extension-too-many",
        3,
        ext(f"<image:image>{LOC}</image:image>" * 1_001),
        ext(f"<image:image>{LOC}</image:image>" * 1_000),
    ),
    (
        "extension-too-many",
        3,
        video(tag="<video:tag>t</video:tag>" * 33),
        video(tag="<video:tag>t</video:tag>" * 32),
    ),
    ("extension-deprecated", 3, image(f"{LOC}<image:caption>A</image:caption>"), image(LOC)),
    ("extension-deprecated", 3, news(more="<news:keywords>k</news:keywords>"), news()),
    ("news-old", 3, news(date="2026-09-19T14:13:19Z"), news(date="2026-09-19T14:13:20Z")),
    *(
        (
            "hreflang-invalid",
            3,
            {"sitemap.xml": links((wrong, "a"))},
            {"sitemap.xml": links(("en-GB", "a"), ("x-default", "a"), ("zh-Hant-TW", "a"))},
        )
        for wrong in ("en-UK", "eng", "english", "")
    ),
    (
        "hreflang-twice",
        3,
        {"sitemap.xml": links(("en", "a"), ("EN", "b"))},
        {"sitemap.xml": links(("en", "a"), ("de", "b"))},
    ),
    ("hreflang-no-self", 3, {"sitemap.xml": links(("de", "b"))}, {"sitemap.xml": links(("en", "a"))}),
    (
        "hreflang-no-return",
        3,
        {"sitemap-a.xml": links(("en", "a"), ("de", "b")), "sitemap-b.xml": links(("de", "b"), path="b")},
        {
            "sitemap-a.xml": links(("en", "a"), ("de", "b")),
            "sitemap-b.xml": links(("de", "b"), ("en", "a"), path="b"),
        },
    ),
]


@pytest.mark.parametrize(
    ("code", "line", "wrong", "right"),
    [pytest.param(*case, id=f"{case[0]}-{number}") for number, case in enumerate(CASES)],
)
def test_each_rule_finds_the_wrong_and_not_the_right(
    tmp_path: Path, code: str, line: int, wrong: Files, right: Files
) -> None:
    """The wrong file has the finding at that line; the right one has it nowhere."""
    found = check(tmp_path / "wrong", wrong)
    assert line in {each.line for each in found if each.code == code}, found
    assert code not in {each.code for each in check(tmp_path / "right", right)}


def test_each_rule_has_a_case() -> None:
    """No rule is without a file that breaks it."""
    assert {case[0] for case in CASES} | FETCHED | BY_HAND == set(RULES)


def test_rules_are_as_documented() -> None:
    """docs/check.md has each rule once, in order, with its words."""
    rows = markdown.table(markdown.doc("check.md"), "code")
    assert [[row[0].strip("`"), *row[1:]] for row in rows] == [
        [rule.code, rule.severity, rule.what, rule.source, rule.remedy] for rule in RULES.values()
    ]


def test_an_unreadable_file_is_a_finding(tmp_path: Path) -> None:
    """A link to a file that is gone costs only itself."""
    (tmp_path / "sitemap-b.xml").symlink_to(tmp_path / "gone.xml")
    found = check(tmp_path, {"sitemap.xml": urls(1)})
    assert [(each.code, each.file) for each in found] == [("unreadable", "sitemap-b.xml")]


def test_a_right_tree_has_no_finding(tmp_path: Path) -> None:
    """Everything that a good site publishes, in any of the ways in which it may be written."""
    english = f'<xhtml:link rel="alternate" hreflang="en" href="{BASE}a"/>'
    german = f'<xhtml:link rel="alternate" hreflang="de" href="{BASE}b"/>'
    found = check(
        tmp_path,
        {
            "robots.txt": ROBOTS,
            "sitemap.xml": index(
                "sitemap-1.xml", "sitemap-2.xml.gz", "s/3.xml", "sitemap.txt", lastmod="2026-09-20"
            ),
            "sitemap-1.xml": extended(english + german),
            "sitemap-2.xml.gz": gzip.compress(extended(english + german, "b").encode()),
            "s/3.xml": HEAD.replace("UTF-8", "utf-8")
            + urlset(url("s/?a=1&amp;b=2", "<priority>.5</priority>"), head=""),
            "sitemap.txt": f"{BASE}x?a=1&b=2\r\n{BASE}y\r\n",
            "feed.xml": "<rss/>",
            ".git/sitemap.xml": "<",
        },
    )
    assert found == []
