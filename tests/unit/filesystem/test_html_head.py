"""What the head of an HTML file says about being listed."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.filesystem.html_head import Head, leads_elsewhere, read_head
from producers.filesystem.mapping import Mapping
from sitemap_store.model.urls import UrlRules

NOINDEX: Final = b"<meta name=robots content=noindex>"
MAPPING: Final = Mapping("/{path}", UrlRules(base="https://example.com/"))


@pytest.mark.parametrize(
    "data",
    [
        b'<META CONTENT="NOINDEX, follow" NAME=ROBOTS>',
        b'<html><head><meta name="robots" content="none"></head>',
        b"<!DOCTYPE html><html><head><title>a</title>" + NOINDEX,
        b"<title>ma\xf1ana</title>" + NOINDEX,
        b"\xff\x00garbage<html><head>" + NOINDEX,
        b"<html><head>\n<meta charset=latin1><title>\xe4 \xfc</title>" + NOINDEX,
        b"<!-- <body> --><html><head>" + NOINDEX,
        b"<html><head><script>document.write('<body>')</script>" + NOINDEX,
        b"<html><head><style>a>b{}</style>" + NOINDEX,
        b'<html><head><meta name="description" content="a > b, <body>">' + NOINDEX,
        b"<html><head><title><body></title>" + NOINDEX,
        b"<html><head><meta name=robots content='max-snippet:5,noindex'>",
        b"<html><head><meta name=robots content=all>" + NOINDEX,
        b'<html xmlns="http://www.w3.org/1999/xhtml"><head><meta name="robots" content="none"/></head>',
        b"---\ntitle: a\n---\n<html><head>" + NOINDEX,
        b"---\ntitle: a < b\n---\n<html><head>" + NOINDEX,
        b"<html><head><noscript><link rel=stylesheet href=a.css></noscript>" + NOINDEX,
        ("\ufeff<html><head>" + NOINDEX.decode()).encode(),
        ("\ufeff<html><head>" + NOINDEX.decode()).encode("utf-16-le"),
        ("\ufeff<html><head>" + NOINDEX.decode()).encode("utf-16-be"),
        "<html><head><title>\u0130\u0130\u0130</title>".encode() + NOINDEX,
        b"<html><head>" + b"<link rel=stylesheet href=a.css>" * 1000 + NOINDEX + b"<body>",
        b"<html><head><style>" + b"a{}" * 10_000 + b"</style>" + NOINDEX + b"<body>",
    ],
)
def test_noindex_in_the_head_is_seen(data: bytes) -> None:
    """In any case, order, quoting and encoding, and past what only looks like the body's start."""
    assert read_head(data).noindex


@pytest.mark.parametrize(
    "data",
    [
        b"<html><head><!-- " + NOINDEX + b" --></head>",
        b"<html><head></head><body><pre>" + NOINDEX + b"</pre>",
        b"<html><head></head><body>" + NOINDEX,
        b"<p>text</p>" + NOINDEX,
        b"<html><head><title>" + NOINDEX + b"</title></head>",
        b"<html><head><script>x = '" + NOINDEX + b"'</script></head>",
        b"<html><head><noscript>" + NOINDEX + b"</noscript></head>",
        b"<html><head><template>" + NOINDEX + b"</template></head>",
        b"<html><head><meta name=robots content=index,follow></head>",
        b"<html><head><meta name=robots content='indexnone'></head>",
        b"<html><head><meta name=author content=noindex></head>",
        b"<html><head><meta name=description content='robots: noindex'></head>",
        b"<html><head><!-- " + NOINDEX,
        b"&lt;meta name=robots content=noindex&gt;",
        b"",
        b"\x00",
    ],
)
def test_what_is_no_noindex_in_the_head_is_not_seen(data: bytes) -> None:
    """Comments, scripts, titles and the body may hold the same text without meaning it."""
    assert not read_head(data).noindex


def test_the_other_fields_are_read() -> None:
    """Canonical, base, refresh and modified time come from their elements, entities decoded."""
    head = read_head(
        b'<head><base href="/x/"><link href="/a?b=1&amp;c=2" rel="nofollow CANONICAL">'
        b"<link rel=canonical href=/second><meta property=article:modified_time"
        b' content=" 2026-01-02T03:04:05Z "><meta http-equiv=Refresh content="5; URL=\'/next\'">'
    )
    assert head == Head("/a?b=1&c=2", "/x/", "/next", False, "2026-01-02T03:04:05Z")


@pytest.mark.parametrize(
    ("content", "target"),
    [
        (b"0;url=/b", "/b"),
        (b"0; URL=/b", "/b"),
        (b"0,url='/b'", "/b"),
        (b"0;/b", "/b"),
        (b" 0.5 ; url = /b ", "/b"),
        (b"300", ""),
        (b"", ""),
    ],
)
def test_a_refresh_is_read_as_browsers_do(content: bytes, target: str) -> None:
    """With an address it is a redirect; without one the page only loads itself again."""
    assert read_head(b'<meta http-equiv="refresh" content="' + content + b'">').refresh == target


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (Head(), ""),
        (Head(noindex=True), "noindex"),
        (Head(canonical="./"), ""),
        (Head(canonical="https://example.com/a/"), ""),
        (Head(canonical="HTTPS://Example.com:443/%61/"), ""),
        (Head(canonical="/a/#top"), ""),
        (Head(canonical="/b/"), "canonical"),
        (Head(canonical="https://other.example/"), "canonical"),
        (Head(canonical="https://example.com/a"), "canonical"),
        (Head(canonical="http://[bad"), "canonical"),
        (Head(canonical="file:///usr/share/doc/a.html"), ""),
        (Head(refresh="javascript:history.back()"), ""),
        (Head(canonical="./", base="/b/"), "canonical"),
        (Head(canonical="./", base="https://example.com/a/"), ""),
        (Head(canonical="a/", base="/"), ""),
        (Head(refresh="/b/"), "refresh"),
        (Head(refresh="/a/"), ""),
    ],
)
def test_a_page_that_points_elsewhere_is_not_listed(head: Head, why: str) -> None:
    """Canonical and refresh count when they lead to another address than the page's own."""
    assert leads_elsewhere(head, "https://example.com/a/", MAPPING) == why


def test_a_canonical_in_another_script_is_the_same_page() -> None:
    """The characters and their percent-encoding are one address."""
    loc = MAPPING.at("/错/")
    assert leads_elsewhere(Head(canonical="/错/"), loc, MAPPING) == ""
    assert leads_elsewhere(Head(canonical="/%E9%94%99/"), loc, MAPPING) == ""


@pytest.mark.parametrize(
    ("charset", "written", "text"),
    [
        ("windows-1251", '<meta charset="windows-1251">', "о-нас"),
        (
            "windows-1251",
            '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">',
            "о-нас",
        ),
        ("windows-1251", "<META CHARSET = 'X-CP1251'>", "о-нас"),
        ("iso8859-5", "<meta charset=ISO-8859-5>", "о-нас"),
        ("koi8-u", "<meta charset=koi8-u>", "їжак"),
        ("cp866", "<meta charset=ibm866>", "о-нас"),
        ("cp1250", "<meta charset=windows-1250>", "łódź"),
        ("cp932", "<meta charset=x-sjis>", "会社"),
        ("cp932", "<meta charset=Shift_JIS>", "会社"),
        ("gb18030", "<meta charset=gb2312>", "关于"),
        ("iso2022_jp", "<meta charset=iso-2022-jp>", "会社"),
        ("koi8-r", '<?xml version="1.0" encoding="koi8-r"?><html><head>', "привет"),
        ("cp1252", "<meta charset=iso-8859-1>", "café–"),
        ("cp1252", "", "café"),
        ("cp1252", "<meta charset=nonsense>", "café"),
        ("cp1252", "<meta charset=base64>", "café"),
        ("cp1252", "<meta charset=undefined>", "café"),
        ("utf-8", "<meta charset=windows-1252>", "о-нас"),
    ],
)
def test_a_canonical_is_read_in_the_pages_charset(charset: str, written: str, text: str) -> None:
    """Browsers read the bytes by the charset that the page names, and send the address as UTF-8."""
    mapping = Mapping("/{path}", UrlRules(base="https://example.com/"))
    html = f'{written}<link rel="canonical" href="https://example.com/{text}.html">'
    head = read_head(html.encode(charset))
    for page, why in ((text, ""), (f"{text}-x", "canonical")):
        loc = mapping.loc(b"", f"{page}.html".encode())
        assert leads_elsewhere(head, loc, mapping) == why


@given(st.lists(st.sampled_from(
    [b"<", b">", b"<!--", b"-->", b"<meta ", b"name=robots ", b"content=noindex", b"'", b'"', b"<title>",
     b"</title>", b"<body>", b"canonical", b"<link rel=canonical href=", b"\xff", b"\x00", b"&#0;", b" "]
), max_size=30).map(b"".join) | st.binary(max_size=100))  # fmt: skip
def test_no_bytes_make_it_fail(data: bytes) -> None:
    """Whatever a file holds, there is an answer."""
    assert isinstance(read_head(data), Head)


@pytest.mark.parametrize("piece", [b'<meta "', b"<a '", b"<meta ", b'<meta x="', b"<link a=\"'<meta '\""])
def test_tags_that_never_end_cost_no_more_than_their_length(piece: bytes) -> None:
    """Half a megabyte of them would take minutes if each were read to the end of the file."""
    assert read_head(piece * (500_000 // len(piece))) == Head()


def test_a_few_unended_tags_hide_nothing() -> None:
    """A quote that is opened and not closed spoils its own tag."""
    assert read_head(b"<html><head>" + NOINDEX + b'<meta "').noindex
    assert read_head(b'<html><head><meta "x ' + NOINDEX).noindex
