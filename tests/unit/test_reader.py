"""Files from outside: read within limits, or refused with a sentence."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sitemap_store.model.protocol import CURRENT, SITEMAP_NS
from sitemap_store.reading.reader import IndexedSitemap, ReadUrl, Unreadable, plain, read_index, read_urlset
from sitemap_store.shards.compression import gzip_bytes

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
URLSET = f'<urlset xmlns="{SITEMAP_NS}">'


def urls(data: bytes | str) -> list[ReadUrl]:
    """The URLs of a file."""
    return list(read_urlset(data.encode() if isinstance(data, str) else data))


def sentence(data: bytes | str) -> str:
    """Why a file is refused."""
    with pytest.raises(Unreadable) as caught:
        urls(data)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_sitemap_of_somebody_else_is_read() -> None:
    """Spaces round values, prefixes, comments, CDATA, unknown elements and entities of XML itself."""
    text = (
        f'{HEAD}<!-- made by a tool --><s:urlset xmlns:s="{SITEMAP_NS}" xmlns:o="urn:o"><s:url>'
        "<s:loc>\n  https://example.com/?a&amp;b </s:loc><s:lastmod>2026-01-01</s:lastmod>"
        "<o:image><o:loc>no</o:loc></o:image><s:changefreq><!-- x -->daily</s:changefreq>"
        "<s:priority><![CDATA[0.5]]></s:priority></s:url><s:url><s:loc>&#104;ttps://example.com/x</s:loc>"
        "</s:url></s:urlset>"
    )
    assert urls(text) == [
        ReadUrl("https://example.com/?a&b", "2026-01-01", "daily", "0.5"),
        ReadUrl("https://example.com/x", "", "", ""),
    ]


def test_gzip_is_known_by_its_bytes_and_not_by_a_name() -> None:
    """A compressed file is read like a plain one; a byte order mark is no reason to refuse it."""
    text = f"{HEAD}{URLSET}<url><loc>https://example.com/</loc></url></urlset>".encode()
    assert urls(gzip_bytes(text)) == urls(text) == urls(b"\xef\xbb\xbf" + text)
    assert plain(gzip_bytes(text)) == plain(text) == text


def test_an_index_is_read() -> None:
    """Its sitemaps with their lastmod, or without."""
    text = (
        f'{HEAD}<sitemapindex xmlns="{SITEMAP_NS}"><sitemap><loc>https://example.com/a.xml</loc>'
        "<lastmod>2026-01-01</lastmod></sitemap><sitemap><loc>https://example.com/b.xml</loc></sitemap>"
        "</sitemapindex>"
    )
    assert read_index(text.encode()) == [
        IndexedSitemap("https://example.com/a.xml", "2026-01-01"),
        IndexedSitemap("https://example.com/b.xml", ""),
    ]
    with pytest.raises(Unreadable, match="not urlset"):
        urls(text)


def test_an_external_entity_is_refused(tmp_path: Path) -> None:
    """XXE: no file of this machine comes into a value."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    text = (
        f'{HEAD}<!DOCTYPE urlset [<!ENTITY x SYSTEM "{secret.as_uri()}">]>'
        f"{URLSET}<url><loc>&x;</loc></url></urlset>"
    )
    assert "DOCTYPE" in sentence(text)


@pytest.mark.parametrize(
    "doctype",
    [
        "<!DOCTYPE urlset>",
        '<!DOCTYPE urlset SYSTEM "http://127.0.0.1:9/x.dtd">',
        '<!DOCTYPE urlset [<!ENTITY a "1">]>',
        '<!DOCTYPE urlset [<!ENTITY % p SYSTEM "http://127.0.0.1:9/x">%p;]>',
    ],
)
def test_any_doctype_is_refused(doctype: str) -> None:
    """No sitemap needs one."""
    assert "DOCTYPE" in sentence(f"{HEAD}{doctype}{URLSET}<url><loc>x</loc></url></urlset>")


def test_billion_laughs_is_refused() -> None:
    """Entities that hold entities are never expanded."""
    entities = '<!ENTITY l0 "ha">' + "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    text = f"{HEAD}<!DOCTYPE urlset [{entities}]>{URLSET}<url><loc>&l9;</loc></url></urlset>"
    assert "DOCTYPE" in sentence(text)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "cp037"])
def test_another_encoding_hides_no_doctype(encoding: str) -> None:
    """What is not the UTF-8 that it has to be is refused before an entity of it is read."""
    text = (
        f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE urlset [<!ENTITY a "https://evil.example/">]>'
        f"{URLSET}<url><loc>&a;</loc></url></urlset>"
    )
    assert sentence(text.encode(encoding))


def test_utf_7_without_a_bare_doctype_is_refused() -> None:
    """The declaration is ASCII in UTF-7, and what follows hides as +ADw-: still nothing is read."""
    body = '+ADwAIQ-DOCTYPE urlset +AFsAPAAh-ENTITY a "x"+AD4AXQA+-'
    text = f'<?xml version="1.0" encoding="utf-7"?>{body}{URLSET}<url><loc>x</loc></url></urlset>'
    assert sentence(text)


@pytest.mark.parametrize(
    "data",
    [
        f"{HEAD}{URLSET}<url><loc>https://example.com/ä</loc></url></urlset>".encode("latin-1"),
        f'<?xml version="1.0" encoding="iso-8859-1"?>{URLSET}<url><loc>ä</loc></url></urlset>'.encode(
            "latin-1"
        ),
        f"{HEAD}{URLSET}<url><loc>a\0b</loc></url></urlset>".encode(),
        f"{HEAD}{URLSET}<url><loc>\x01</loc></url></urlset>".encode(),
        f"{HEAD}{URLSET}<url><loc>\ud800</loc></url></urlset>".encode("utf-8", "surrogatepass"),
    ],
    ids=["undeclared latin-1", "declared latin-1", "NUL", "control character", "lone surrogate"],
)
def test_what_is_not_utf_8_is_refused(data: bytes) -> None:
    """Protocol: a sitemap is UTF-8, whatever it declares."""
    assert sentence(data)


def test_a_gzip_bomb_is_refused() -> None:
    """60 megabytes of zeros in 60 kilobytes: read up to the limit and no further."""
    bomb = gzip_bytes(bytes(CURRENT.bytes_per_file + 10_000_000))
    assert len(bomb) < 100_000
    assert "more than 52428800 bytes" in sentence(bomb)


def test_a_plain_file_over_the_limit_is_refused() -> None:
    """The same limit without compression."""
    assert "larger than 52428800 bytes" in sentence(HEAD.encode() + b" " * CURRENT.bytes_per_file)


@pytest.mark.parametrize(
    "data",
    [
        b"\x1f\x8b",
        gzip.compress(b"<urlset/>")[:-2],
        gzip.compress(b"x" * 100)[:10] + b"\xff" * 50,
    ],
    ids=["two bytes", "cut", "damaged"],
)
def test_a_broken_gzip_file_is_refused(data: bytes) -> None:
    """Cut or damaged, in our own words."""
    assert "gzip" in sentence(data)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "well-formed"),
        ("no xml", "well-formed"),
        (f"{HEAD}{URLSET}<url>", "well-formed"),
        (f"\n{HEAD}{URLSET}</urlset>", "well-formed"),
        (f"{HEAD}<urlset><url><loc>https://example.com/</loc></url></urlset>", "root is urlset"),
        (f'{HEAD}<urlset xmlns="http://www.google.com/schemas/sitemap/0.84"/>', "0.84"),
        (f'{HEAD}<sitemapindex xmlns="{SITEMAP_NS}"/>', "sitemapindex"),
        ("<html><body>404</body></html>", "root is html"),
    ],
)
def test_what_is_no_sitemap_is_refused(text: str, named: str) -> None:
    """An error page, half a file, an old namespace: named in the sentence."""
    assert named in sentence(text)


def test_a_deep_tree_is_refused() -> None:
    """libxml2's own limits hold."""
    assert sentence(f"{HEAD}{URLSET}{'<a>' * 5000}{'</a>' * 5000}</urlset>")
