"""The sitemap protocol's rules for single values, one numbered vector after the other.

Sources: sitemaps.org protocol, its XSDs, W3C NOTE-datetime, RFC 3986 and 3987, UTS 46. What comes
out is also shown to libxml2, which has its own idea of xs:anyURI, xs:date and xs:dateTime.
"""

import datetime
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from sitemap_store.errors import Refused
from sitemap_store.model.dates import parse_lastmod
from sitemap_store.model.protocol import CHANGEFREQS
from sitemap_store.model.urls import UrlRules, normalise
from sitemap_store.model.values import check_changefreq, check_priority, escape

SITE: Final = UrlRules(base="https://example.com/")
CATALOG: Final = UrlRules(base="https://example.com/catalog/")
CROSS: Final = UrlRules(base="https://example.com/", cross_submission=True)

TYPES: Final = etree.XMLSchema(
    etree.fromstring(
        """
        <xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
          <xs:element name="loc">
            <xs:simpleType>
              <xs:restriction base="xs:anyURI">
                <xs:minLength value="12"/><xs:maxLength value="2048"/>
              </xs:restriction>
            </xs:simpleType>
          </xs:element>
          <xs:element name="lastmod">
            <xs:simpleType><xs:union memberTypes="xs:date xs:dateTime"/></xs:simpleType>
          </xs:element>
          <xs:element name="priority">
            <xs:simpleType>
              <xs:restriction base="xs:decimal">
                <xs:minInclusive value="0"/><xs:maxInclusive value="1"/>
              </xs:restriction>
            </xs:simpleType>
          </xs:element>
        </xs:schema>
        """
    )
)


def assert_valid(name: str, text: str) -> None:
    """Show one value to libxml2, escaped as the renderer does it."""
    element = etree.fromstring(f"<{name}>{escape(text)}</{name}>")
    assert element.text == text
    assert TYPES.validate(element), (text, TYPES.error_log)


URL = "https://example.com"
LONGEST = f"{URL}/{'a' * 2_027}"
AMPERSANDS = f"{URL}/?{'&' * 2_026}"

TAKEN = [
    ("1", "/?a=1&b=2", "/?a=1&b=2", "/?a=1&amp;b=2"),
    (
        "2",
        "/?q=\"x\"&r='y'<z>",
        "/?q=%22x%22&r='y'%3Cz%3E",
        "/?q=%22x%22&amp;r=&apos;y&apos;%3Cz%3E",
    ),
    ("3", "/😀", "/%F0%9F%98%80", None),
    ("4", "/a b", "/a%20b", None),
    ("5", "/a+b?q=a+b", "/a+b?q=a+b", None),
    ("6", LONGEST.removeprefix(URL), LONGEST.removeprefix(URL), None),
    (
        "8",
        AMPERSANDS.removeprefix(URL),
        AMPERSANDS.removeprefix(URL),
        "/?" + "&amp;" * 2_026,
    ),
    ("10", "/%7euser/%c3%a9", "/~user/%C3%A9", None),
    ("11", "/%2F/a", "/%2F/a", None),
]


@pytest.mark.parametrize(("raw", "loc", "xml"), [row[1:] for row in TAKEN], ids=[row[0] for row in TAKEN])
def test_a_url_is_written_in_its_normal_form(raw: str, loc: str, xml: str | None) -> None:
    """Vectors 1-6, 8, 10 and 11: encoded, counted and escaped as the protocol has it."""
    assert normalise(URL + raw, SITE) == (URL + loc, ())
    assert escape(URL + loc) == URL + (xml or loc)
    assert_valid("loc", URL + loc)


def test_the_lengths_of_the_vectors_are_what_they_are_meant_to_be() -> None:
    """Vectors 6 and 8 have 2,047 characters, and the second one more than 2,047 once escaped."""
    assert len(LONGEST) == len(AMPERSANDS) == 2_047
    assert len(escape(AMPERSANDS)) > 2_047


def test_scheme_host_and_port_are_written_in_their_normal_form() -> None:
    """Vector 9: lower case, and no default port."""
    assert normalise("HTTPS://Example.COM:443/", SITE) == (f"{URL}/", ())
    assert normalise("HTTP://Example.COM:80/", CROSS) == ("http://example.com/", ())


def test_a_fragment_is_dropped_with_a_warning() -> None:
    """Vector 13."""
    loc, warnings = normalise(f"{URL}/p#frag", SITE)
    assert loc == f"{URL}/p"
    assert "#frag" in warnings[0]


def test_an_international_host_is_written_by_idna_2008() -> None:
    """The ß stays a letter of its own, as UTS 46 has it without transitional processing."""
    assert normalise("https://faß.de/", CROSS).loc == "https://xn--fa-hia.de/"


FORBIDDEN = [*map(chr, range(0x20)), "\x7f", "\ufffe", "\uffff", "\ud800", "\udbff", "\udc80"]

NOT_TAKEN = [
    ("7", SITE, f"{LONGEST}a", "too-long"),
    ("7 escaped", SITE, f"{URL}/{'é' * 338}", "too-long"),
    ("12 alone", SITE, f"{URL}/100%", "percent-encoding"),
    ("12 no hex", SITE, f"{URL}/%zz", "percent-encoding"),
    ("14 no scheme", SITE, "//host/path", "not-absolute"),
    ("14 path", SITE, "/a.html", "not-absolute"),
    ("14 host", SITE, "www.example.com/", "not-absolute"),
    ("15 javascript", SITE, "javascript:alert(1)", "scheme"),
    ("15 ftp", SITE, "ftp://example.com/a", "scheme"),
    ("16", SITE, "https://user:pw@example.com/", "user-info"),
    *[(f"17 U+{ord(c):04X}", SITE, f"{URL}/a{c}b", "control-character") for c in FORBIDDEN],
    ("18", SITE, "https://exa\nmple.com/", "control-character"),
    ("18 tab", SITE, "ht\ttps://example.com/", "control-character"),
    ("18 end", SITE, f"{URL}/\n", "control-character"),
    ("19 beside", CATALOG, f"{URL}/images/x", "location"),
    ("19 itself", CATALOG, f"{URL}/catalog", "location"),
    ("20 scheme", SITE, "http://example.com/x", "location"),
    ("20 host", SITE, "https://sub.example.com/x", "location"),
]


@pytest.mark.parametrize(
    ("rules", "raw", "rule"), [row[1:] for row in NOT_TAKEN], ids=[row[0] for row in NOT_TAKEN]
)
def test_a_url_that_breaks_a_rule_is_refused(rules: UrlRules, raw: str, rule: str) -> None:
    """Vectors 7, 12 and 14-20: refused by the rule's name, never mended into another URL."""
    with pytest.raises(Refused) as caught:
        normalise(raw, rules)
    assert caught.value.rule == rule


def test_a_sitemap_covers_its_own_folder() -> None:
    """The protocol's own example for vector 19, with the two that it lets in."""
    for loc in (f"{URL}/catalog/show?item=23", f"{URL}/catalog/show?item=233&user=3453"):
        assert normalise(loc, CATALOG) == (loc, ())


@pytest.mark.parametrize("loc", ["http://example.com/x", "https://sub.example.com/x"])
def test_cross_submission_takes_urls_of_other_places(loc: str) -> None:
    """Vector 20, with the setting on."""
    assert normalise(loc, CROSS) == (loc, ())


@pytest.mark.parametrize(
    "text",
    [
        *("2026-13-01", "2026-02-29"),  # 21
        *("2026-03-21T24:00:00Z", "2026-03-21T11:22:22+0100", "2026-03-21 11:22:22Z", "20260321"),
    ],
)
def test_a_date_that_breaks_a_rule_is_refused(text: str) -> None:
    """Vectors 21 and 23."""
    with pytest.raises(Refused) as caught:
        parse_lastmod(text)
    assert caught.value.rule == "lastmod"


def test_a_time_without_a_zone_is_refused_by_naming_the_setting() -> None:
    """Vector 22, and the same with the setting given."""
    with pytest.raises(Refused, match="assume_timezone"):
        parse_lastmod("2026-03-21T11:22:22")
    written = parse_lastmod("2026-03-21T11:22:22", assume_zone="+01:00").text
    assert written == "2026-03-21T11:22:22+01:00"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-03-21", "2026-03-21"),
        ("2026-03-21T11:22:22Z", "2026-03-21T11:22:22Z"),
        ("2026-03-21T11:22:22.5-03:30", "2026-03-21T11:22:22.5-03:30"),
        ("2026-03-21T11:22+01:00", "2026-03-21T11:22:00+01:00"),
        ("1997", None),
        ("1997-07", None),
    ],
)
def test_the_w3c_forms_are_written_as_the_xsd_takes_them(text: str, written: str | None) -> None:
    """Whole dates stay, seconds are completed, a year or a month alone is left out and told."""
    parsed = parse_lastmod(text)
    assert parsed.text == written
    assert (parsed.warning is None) == (written is not None)
    if written is not None:
        assert_valid("lastmod", written)


def test_a_priority_is_written_with_one_decimal() -> None:
    """Vector 24, for all eleven tenths."""
    assert check_priority("1") == "1.0"
    for text in (*(f"0.{tenth}" for tenth in range(10)), "1.0"):
        assert check_priority(text) == text
        assert_valid("priority", text)


@pytest.mark.parametrize("text", ["-0.1", "1.01", "NaN", "0,5", "5e-1", "", "0_5", "٠.٥"])
def test_what_is_no_priority_is_refused(text: str) -> None:
    """Vector 25, and the spellings that Python's own numbers would take."""
    with pytest.raises(Refused) as caught:
        check_priority(text)
    assert caught.value.rule == "priority"


@pytest.mark.parametrize("text", ["Daily", ""])
def test_what_is_no_changefreq_is_refused(text: str) -> None:
    """Vector 26."""
    with pytest.raises(Refused) as caught:
        check_changefreq(text)
    assert caught.value.rule == "changefreq"


def test_the_seven_changefreqs_are_taken() -> None:
    """The protocol's words, all of them and no other."""
    words = "always hourly daily weekly monthly yearly never"
    assert " ".join(map(check_changefreq, CHANGEFREQS)) == words


@given(st.text())
def test_libxml2_takes_every_loc_that_we_write(rest: str) -> None:
    """Whatever text a URL goes on with, its normal form is an xs:anyURI of the right length."""
    try:
        loc = normalise(f"{URL}/{rest}", SITE).loc
    except Refused:
        return
    assert_valid("loc", loc)


@given(st.datetimes(), st.integers(-840, 840), st.integers(0, 6))
def test_libxml2_takes_every_lastmod_that_we_write(
    moment: datetime.datetime, offset: int, digits: int
) -> None:
    """Any day, fraction and zone that we accept is an xs:date or an xs:dateTime."""
    day, clock = str(moment)[:10], str(moment)[11:19]
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"
    fraction = f".{'123456'[:digits]}" if digits else ""
    for text in (day, f"{day}T{clock}{fraction}{zone}", f"{day}T{clock[:5]}Z"):
        written = parse_lastmod(text).text
        assert written is not None
        assert_valid("lastmod", written)
