"""Every rule that `sitemapd check` applies: its code, severity, source and remedy.

docs/check.md has the same table, and a test compares the two. The module is longer than most because it is
that table. A code never changes its meaning; scripts depend on it.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Severity = Literal["error", "warning", "note"]

_PROTOCOL: Final = "sitemaps.org, protocol"
_LOCATION: Final = "sitemaps.org, Sitemap file location"
_XSD: Final = "sitemap.xsd"
_INDEX_XSD: Final = "siteindex.xsd"
_XML: Final = "XML 1.0"
_URI: Final = "RFC 3986, section 6.2"
_BUILD: Final = "Google, Build and submit a sitemap"
_INDEX: Final = "Google, Manage large sitemaps"
_ALTERNATES: Final = "Google, Localized versions of a page"
_EXTENSION: Final = "Google, sitemap extensions"
_NEWS: Final = "Google, News sitemaps"
_ROBOTS: Final = "RFC 9309; sitemaps.org, robots.txt"
_HTTP: Final = "RFC 9110"
_GZIP: Final = "RFC 1952; sitemaps.org, protocol"


class Rule(NamedTuple):
    """One rule: what it finds, how serious that is, who says so, and what to do."""

    code: str
    severity: Severity
    what: str
    """What is wrong, as a sentence without its full stop."""
    source: str
    remedy: str


_TABLE: Final = (
    # Files
    Rule("unreadable", "error", "The file cannot be read", _PROTOCOL, "Make the file readable."),
    Rule(
        "too-large-to-read",
        "error",
        "The file is larger than 256 MiB uncompressed, so its rest was not checked",
        _PROTOCOL,
        "Split the file.",
    ),
    Rule(
        "gzip-broken",
        "error",
        "The gzip data is damaged, cut off or followed by other bytes",
        _GZIP,
        "Compress the file again.",
    ),
    Rule(
        "gzip-name",
        "warning",
        "The name ends in .gz and the content is not gzip, or the other way round",
        _GZIP,
        "Name gzip files .xml.gz and plain files .xml.",
    ),
    Rule("bom", "warning", "The file begins with a byte order mark", _PROTOCOL, "Save as UTF-8 without BOM."),
    Rule(
        "before-declaration",
        "error",
        "White space stands before the XML declaration",
        f"{_XML}, section 2.8",
        "Let the file begin with the declaration.",
    ),
    Rule("encoding", "error", "The file is not UTF-8", _PROTOCOL, "Save as UTF-8 and declare UTF-8."),
    Rule(
        "not-well-formed",
        "error",
        "The file is not well-formed XML",
        _XML,
        "Escape ampersands, and close every tag.",
    ),
    Rule(
        "doctype",
        "error",
        "The file has a DOCTYPE; the rest was not read, and no entity was resolved",
        _XSD,
        "Remove the DOCTYPE.",
    ),
    Rule(
        "hostile-markup",
        "error",
        "The markup is too deep or too large for any sitemap, so the rest was not read",
        _XSD,
        "Write the file with a sitemap tool.",
    ),
    Rule("empty", "error", "The file lists nothing", _XSD, "Remove the file, and its entry in the index."),
    Rule(
        "wrong-root",
        "error",
        "The root element is not urlset or sitemapindex",
        _XSD,
        "Publish a sitemap at this address.",
    ),
    Rule(
        "wrong-namespace",
        "error",
        "The namespace of the root element is missing or wrong",
        _XSD,
        'Write xmlns="http://www.sitemaps.org/schemas/sitemap/0.9".',
    ),
    Rule(
        "unchecked-feed",
        "note",
        "An RSS or Atom feed is not checked",
        _PROTOCOL,
        "List pages in a sitemap too.",
    ),
    Rule(
        "too-many-urls",
        "error",
        "The file has more than 50,000 URLs",
        _PROTOCOL,
        "Split the file; add an index.",
    ),
    Rule(
        "too-many-bytes",
        "error",
        "The file has more than 52,428,800 bytes uncompressed",
        _PROTOCOL,
        "Split the file; add an index.",
    ),
    Rule(
        "too-many-sitemaps",
        "error",
        "The index lists more than 50,000 sitemaps",
        _INDEX,
        "Split the index, and list each part in robots.txt.",
    ),
    # Elements
    Rule(
        "unknown-element",
        "error",
        "The sitemap namespace has no such element here",
        _XSD,
        "Remove it, or give it its own namespace.",
    ),
    Rule("stray-text", "error", "Text stands where only elements may stand", _XSD, "Remove the text."),
    Rule("repeated-element", "error", "The element stands more than once", _XSD, "Keep one."),
    Rule(
        "wrong-order",
        "error",
        "The children stand in another order than loc, lastmod, changefreq, priority, extensions",
        _XSD,
        "Write the children in that order.",
    ),
    Rule("padded-value", "warning", "White space surrounds the value", _XSD, "Remove the white space."),
    # URLs
    Rule("missing-loc", "error", "The entry has no loc", _XSD, "Write a loc, or remove the entry."),
    Rule("loc-invalid", "error", "The loc is no absolute http or https URL", _PROTOCOL, "Write a full URL."),
    Rule(
        "loc-too-long",
        "error",
        "The loc has more than 2,047 characters",
        _PROTOCOL,
        "Shorten the address of the page.",
    ),
    Rule("loc-too-short", "error", "The loc has fewer than 12 characters", _XSD, "Write a full URL."),
    Rule(
        "not-normalised",
        "warning",
        "The URL has another normal form, so crawlers may count it as two",
        _URI,
        "Write the normal form.",
    ),
    Rule(
        "outside-location",
        "error",
        "The URL is outside the folder of the sitemap that lists it",
        _LOCATION,
        "Publish the sitemap in a folder above the URL.",
    ),
    Rule(
        "other-host",
        "error",
        "The URL has another host or port than the sitemap",
        _LOCATION,
        "List it on its own host, or list the sitemap in the robots.txt of that host.",
    ),
    Rule(
        "other-protocol",
        "error",
        "The URL has another protocol than the sitemap: http and https are mixed",
        _LOCATION,
        "Write the protocol that the pages are served with.",
    ),
    Rule("duplicate-url", "warning", "The URL is listed more than once", _BUILD, "List each URL once."),
    # Values
    Rule(
        "lastmod-invalid",
        "error",
        "The lastmod is no date that exists, or is written in another form",
        "W3C NOTE-datetime",
        "Write YYYY-MM-DD or YYYY-MM-DDThh:mm:ss+hh:mm.",
    ),
    Rule(
        "lastmod-form",
        "warning",
        "The lastmod is a W3C date that the schema does not accept: day or seconds are missing",
        _XSD,
        "Write YYYY-MM-DD or YYYY-MM-DDThh:mm:ss+hh:mm.",
    ),
    Rule("lastmod-future", "warning", "The lastmod is in the future", _BUILD, "Write when the page changed."),
    Rule(
        "lastmod-all-equal",
        "warning",
        "All of ten or more URLs have the same lastmod, as if each page changed at once",
        _BUILD,
        "Write when each page changed, or leave lastmod out.",
    ),
    Rule(
        "changefreq-invalid",
        "error",
        "The changefreq is none of the seven words",
        _XSD,
        "Write always, hourly, daily, weekly, monthly, yearly or never.",
    ),
    Rule("priority-invalid", "error", "The priority is no number from 0.0 to 1.0", _XSD, "Write 0.0 to 1.0."),
    # Index files
    Rule("index-in-index", "error", "The index lists another index", _INDEX, "List the sitemaps themselves."),
    Rule(
        "index-names-absent",
        "error",
        "The index lists a file that does not exist",
        _INDEX,
        "Remove the entry.",
    ),
    Rule("index-names-twice", "warning", "The index lists a sitemap twice", _INDEX, "Keep one entry."),
    Rule(
        "index-lastmod-old",
        "warning",
        "The lastmod of the sitemap is older than that of a URL in it, so crawlers may skip the file",
        "sitemaps.org, Sitemap index",
        "Write when the file changed.",
    ),
    Rule(
        "orphan",
        "warning",
        "No index and no robots.txt lists the file",
        _INDEX,
        "List the file, or remove it.",
    ),
    # robots.txt
    Rule(
        "robots-forbids",
        "warning",
        "robots.txt forbids the listed URL",
        _ROBOTS,
        "Allow the URL, or delist it.",
    ),
    Rule(
        "robots-does-not-list",
        "warning",
        "robots.txt does not list the sitemap",
        _ROBOTS,
        "Add the line Sitemap: and the address.",
    ),
    Rule(
        "robots-names-absent",
        "error",
        "robots.txt lists a file that does not exist",
        _ROBOTS,
        "Remove the line.",
    ),
    Rule(
        "robots-sitemap-invalid",
        "error",
        "A Sitemap line of robots.txt has no absolute URL",
        _ROBOTS,
        "Write the full URL.",
    ),
    # Extensions
    Rule("extension-missing", "error", "The extension lacks a required child", _EXTENSION, "Add the child."),
    Rule(
        "extension-value",
        "error",
        "The value breaks the rule of its element",
        _EXTENSION,
        "Correct the value.",
    ),
    Rule(
        "extension-unknown", "error", "The extension has no such element", _EXTENSION, "Remove the element."
    ),
    Rule(
        "extension-order",
        "warning",
        "The children stand in another order than in the schema",
        "sitemap-video.xsd, sitemap-news.xsd",
        "Write the children in the order of the schema.",
    ),
    Rule("extension-repeated", "error", "The child stands more than once", _EXTENSION, "Keep one."),
    Rule("extension-too-many", "error", "There are more than the limit", _EXTENSION, "Remove the rest."),
    Rule(
        "extension-deprecated", "note", "Search engines ignore the element", _EXTENSION, "Remove the element."
    ),
    Rule(
        "news-old",
        "warning",
        "The article is older than 48 hours and still in a news sitemap",
        _NEWS,
        "Remove the news element.",
    ),
    Rule(
        "hreflang-invalid",
        "error",
        "The hreflang is no language with an optional script and region",
        _ALTERNATES,
        "Write ISO 639-1, ISO 15924 and ISO 3166-1 codes, or x-default.",
    ),
    Rule("hreflang-twice", "error", "Two alternates have the same hreflang", _ALTERNATES, "Keep one."),
    Rule(
        "hreflang-no-self",
        "warning",
        "The alternates do not list the URL itself",
        _ALTERNATES,
        "Add the URL.",
    ),
    Rule(
        "hreflang-no-return",
        "warning",
        "The alternate does not link back, so search engines ignore both links",
        _ALTERNATES,
        "List the same alternates at each of the pages.",
    ),
    # Fetched files
    Rule("fetch-failed", "error", "The file cannot be fetched", _HTTP, "Make the server answer."),
    Rule("http-status", "error", "The server does not answer 200", _HTTP, "Serve the file, or delist it."),
    Rule("redirected", "warning", "The address of the sitemap redirects", _HTTP, "List the final address."),
    Rule(
        "content-type",
        "warning",
        "The Content-Type does not fit the content",
        _HTTP,
        "Serve .xml as application/xml, .gz as application/gzip, .txt as text/plain.",
    ),
    Rule(
        "content-encoding",
        "warning",
        "A .gz file has a Content-Encoding, so clients may unpack it twice",
        _HTTP,
        "Serve .gz files without Content-Encoding.",
    ),
    Rule(
        "not-fetched",
        "note",
        "The address was not fetched, because neither the command nor robots.txt names its host",
        _LOCATION,
        "Check that host with a command of its own.",
    ),
    Rule(
        "too-many-files",
        "note",
        "The tree has more than 100,000 files, so the rest was not checked",
        _INDEX,
        "Check the parts separately.",
    ),
)

RULES: Final = {rule.code: rule for rule in _TABLE}
