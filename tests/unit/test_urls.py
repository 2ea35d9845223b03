"""URLs in their one spelling."""

import json
import pickle
import re
from typing import Final
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sitemap_store.errors import BadSetting, Refused
from sitemap_store.model.protocol import CURRENT
from sitemap_store.model.urls import UrlRules, normalise, normalise_base, quote_segment

RULES: Final = UrlRules(base="https://example.com/")
CATALOG: Final = UrlRules(base="https://example.com/catalog/")
# Its base is no prefix of any other site's URL, so that each takes the way by the parts.
ANYWHERE: Final = UrlRules(base="https://elsewhere.example/", cross_submission=True)

# RFC 3986, appendix A, narrowed to what a normal loc may be.
LEGAL: Final = re.compile(
    r"https?://(?:\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::[1-9][0-9]*)?"
    r"/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-F]{2})*"
    r"(?:\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-F]{2})*)?"
)


def refusal(raw: object, rules: UrlRules = RULES) -> str:
    """The rule that refuses `raw`."""
    with pytest.raises(Refused) as caught:
        normalise(raw, rules)
    assert str(caught.value) == caught.value.detail
    assert "\n" not in caught.value.detail
    json.dumps([caught.value.loc, caught.value.detail], ensure_ascii=False).encode()
    return caught.value.rule


def dots_removed(path: str) -> str:
    """RFC 3986, section 5.2.4, step by step as it is written there."""
    output = ""
    while path:
        if path.startswith("/./"):
            path = path[2:]
        elif path == "/.":
            path = "/"
        elif path.startswith("/../") or path == "/..":
            path = "/" + path[4:]
            output = output[: output.rindex("/")] if output else ""
        else:
            end = path.find("/", 1)
            end = len(path) if end < 0 else end
            output, path = output + path[:end], path[end:]
    return output


AWKWARD: Final = (
    *("/", "//", ".", "..", "%2e", "%2E%2e", "...", "?", "#", "&", "=", "+", "[", "]", "|", "\\"),
    *("%20", "%2F", "%2f", "%7e", "%c3%a9", "%C3%A9", "%00", "%5b", "%", "%zz", "%4", " ", "é"),
    *('"', "'", "<", ">", ";", ":", "@", "错", "😀", "index.html", "a=1", "\u00a0", "\u0085"),
)
PIECES = st.one_of(
    st.sampled_from(AWKWARD),
    st.text(max_size=5),
    st.text(alphabet="abcXYZ019-._~", max_size=8),
)
ORIGINS = st.sampled_from(
    [
        *("https://example.com", "HTTPS://Example.COM:443", "http://example.com:80"),
        *("https://example.com:8443", "https://ex%61mple.com", "https://faß.de", "https://FAẞ.DE"),
        *("https://bücher.example", "https://a_b.example", "https://[2001:DB8::1]:443"),
        *(
            "https://example.com.",
            "https://xn--fa-hia.de:0443",
            "https://ｅxample．com",
            "//example.com",
        ),
        *("https://user:pw@example.com", "ftp://example.com", "https://", "https:", ""),
    ]
)
URLS = st.builds(lambda origin, pieces: origin + "".join(pieces), ORIGINS, st.lists(PIECES, max_size=8))


@given(URLS)
@example("https://example.com/%252e%252e/")
@example("https://example.com/a/%2e%2e/%2E/b/..")
@example("https://example.com/?")
@example("https://example.com/?#")
@example("https://example.com?a=/../b")
@example("https://ex%2561mple.com/")
def test_normalising_twice_is_normalising_once(raw: str) -> None:
    """A normal URL is its own normal form, with nothing left to warn about."""
    try:
        loc = normalise(raw, ANYWHERE).loc
    except Refused:
        return
    assert normalise(loc, ANYWHERE) == (loc, ())


@given(URLS | st.text())
def test_what_is_accepted_is_legal_and_ascii_and_what_is_not_is_refused(raw: str) -> None:
    """Any text either comes out as RFC 3986 has it, within the length, or is Refused."""
    try:
        loc, _ = normalise(raw, ANYWHERE)
    except Refused:
        return
    assert LEGAL.fullmatch(loc)
    assert 12 <= len(loc) <= 2_047
    path = loc.partition("?")[0].split("/", 3)[3]
    assert not {".", ".."} & set(path.split("/"))
    for triplet in re.findall("%(..)", loc):
        assert not re.fullmatch(r"[A-Za-z0-9._~-]", chr(int(triplet, 16)))


@given(st.lists(PIECES, max_size=10).map("".join))
def test_no_byte_of_a_path_or_query_is_lost(rest: str) -> None:
    """Decoded, the normal form is the URL that came, but for its dot segments and fragment."""
    raw = "https://example.com/x" + rest.replace(".", "")
    try:
        loc, warnings = normalise(raw, RULES)
    except Refused:
        return
    if "%2e" in raw.lower():
        return
    whole, mark, _ = raw.partition("#")
    assert unquote_to_bytes(loc) == unquote_to_bytes(whole)
    assert bool(warnings) == bool(mark)


@given(st.lists(st.sampled_from(["a", "", ".", "..", "...", ".a", "b.", "%2e", "%2E."]), max_size=8))
def test_dot_segments_go_as_the_rfc_says(segments: list[str]) -> None:
    """The outcome is that of RFC 3986's own steps, doubled slashes included."""
    path = "/" + "/".join(segments)
    decoded = path.replace("%2e", ".").replace("%2E", ".")
    assert normalise(f"https://example.com{path}", RULES).loc == (
        "https://example.com" + dots_removed(decoded)
    )


@given(st.lists(PIECES, max_size=8).map("".join))
@example("a" * 2_027)
@example("a" * 2_028)
@example("%C3%A9" * 337 + "abcde")
@example("%C3%A9" * 337 + "abcdef")
@example("")
@example("?a?b/../c")
def test_the_short_way_and_the_way_by_the_parts_agree(rest: str) -> None:
    """A URL that is told to be normal at once would have come through the parts unchanged."""
    raw = "https://example.com/" + rest

    def outcome(rules: UrlRules) -> object:
        try:
            return normalise(raw, rules)
        except Refused as refused:
            return refused.rule, refused.detail

    assert outcome(RULES) == outcome(ANYWHERE)


@pytest.mark.parametrize("start", ["https://example.com/a", "https://example.com/?a="])
@pytest.mark.parametrize("rules", [RULES, ANYWHERE], ids=["short way", "by the parts"])
def test_each_triplet_has_one_spelling(start: str, rules: UrlRules) -> None:
    """Unreserved characters are decoded, all other bytes are written in upper-case hex."""
    for byte in range(256):
        upper = f"%{byte:02X}"
        normal = chr(byte) if re.fullmatch("[A-Za-z0-9._~-]", chr(byte)) else upper
        mixed = upper[:2] + upper[2].lower(), upper[:2].lower() + upper[2]
        for spelling in (upper, upper.lower(), *mixed):
            assert normalise(f"{start}{spelling}b", rules) == (f"{start}{normal}b", ())


NORMAL = [
    "https://example.com/",
    "https://example.com/a+b?q=a+b",
    "https://example.com/%2F/a",
    "https://example.com/?",
    "https://example.com/a?b?c/d=//&&",
    "https://example.com//a//",
    "https://example.com/index.html",
    "https://example.com/A/a",
    "https://example.com/a;b=1,2/@:!$&'()*",
    "https://example.com/.well-known/...",
    "https://example.com/?a=/../b/./c",
    "https://example.com/%25%20%5B%5D",
    "https://example.com/e%CC%81",
    "https://example.com/%00%0A%FF",
]


@pytest.mark.parametrize("raw", NORMAL)
def test_what_might_mean_another_page_is_left_alone(raw: str) -> None:
    """Slashes, index pages, case, plus signs, reserved triplets and Unicode forms stay."""
    assert normalise(raw, RULES) == (raw, ())


@pytest.mark.parametrize(
    ("raw", "loc"),
    [
        ("https://example.com", "https://example.com/"),
        ("https://example.com?a", "https://example.com/?a"),
        ("https://example.com:/x", "https://example.com/x"),
        ("https://example.com:0443/x", "https://example.com/x"),
        ("https://example.com:000000443/x", "https://example.com/x"),
        ("https://EXAMPLE.com/X", "https://example.com/X"),
        ("https://ex%61mple.com/", "https://example.com/"),
        ("https://ｅxample．com/", "https://example.com/"),
        ("https://example.com/a/%2E%2e/b", "https://example.com/b"),
        ("https://example.com/../../a", "https://example.com/a"),
        ("https://example.com/a/.", "https://example.com/a/"),
        ("https://example.com/a/..", "https://example.com/"),
        ("https://example.com/a//../b", "https://example.com/a/b"),
        ("https://example.com/[a]?b[]=1", "https://example.com/%5Ba%5D?b%5B%5D=1"),
        ("https://example.com/a\\b|c^d`{}", "https://example.com/a%5Cb%7Cc%5Ed%60%7B%7D"),
        ("https://example.com/\u00a0\u0085", "https://example.com/%C2%A0%C2%85"),
        ("https://example.com/%e9%94%99/错", "https://example.com/%E9%94%99/%E9%94%99"),
        ("https://example.com/?q=%7e%2f%c3%a9", "https://example.com/?q=~%2F%C3%A9"),
        ("https://example.com/é", "https://example.com/%C3%A9"),
        ("https://example.com/e\u0301", "https://example.com/e%CC%81"),
        ("https://example.com/a ", "https://example.com/a%20"),
    ],
)
def test_spellings_of_one_resource_become_one(raw: str, loc: str) -> None:
    """What RFC 3986 calls equivalent has one normal form, without a warning."""
    assert normalise(raw, RULES) == (loc, ())


@pytest.mark.parametrize(
    ("raw", "host"),
    [
        ("https://faß.de/", "xn--fa-hia.de"),
        ("https://FAẞ.DE/", "xn--fa-hia.de"),
        ("https://b%C3%BCcher.example/", "xn--bcher-kva.example"),
        ("https://bu\u0308cher.example/", "xn--bcher-kva.example"),
        ("https://例え。テスト/", "xn--r8jz45g.xn--zckzah"),
        ("https://مثال.إختبار/", "xn--mgbh0fb.xn--kgbechtv"),
        ("https://XN--FA-HIA.de/", "xn--fa-hia.de"),
        ("https://a_b.example/", "a_b.example"),
        ("https://example.com./", "example.com."),
        ("https://127.0.0.1:8080/", "127.0.0.1:8080"),
        ("https://[2001:DB8::A]:8080/", "[2001:db8::a]:8080"),
        ("https://[::ffff:192.0.2.1]/", "[::ffff:192.0.2.1]"),
        ("http://example.com:443/", "example.com:443"),
    ],
)
def test_a_host_is_lower_case_ascii(raw: str, host: str) -> None:
    """Names become their A-labels (UTS 46, nontransitional), addresses lower case."""
    assert normalise(raw, ANYWHERE).loc.split("/")[2] == host


@pytest.mark.parametrize(
    "host",
    [
        *("", "a..b", ".example.com", "-a.example", "a-.example", "exa mple.com", "a,b", "a%2Fb"),
        *("example.com\\", "😀.example", "a／b.example", "℀.example", "a\u200db.example", "\u00ad"),
        *("a" * 64 + ".example", "a." * 127 + "ab", "ü" * 2_000, "%FF.example", "%2561.example"),
        *("[::1", "::1]", "[]", "[::1%25eth0]", "[v1.a]", "[1.2.3.4]", "[::1]a", "a[::1]"),
        *("b\u00fccher..example", "xn--é.example", "[:::1]", "ü%40evil.example"),
    ],
)
def test_what_names_no_host_is_refused(host: str) -> None:
    """Bad labels, over-long names and malformed addresses are refused by the rule "host"."""
    assert refusal(f"https://{host}/a", ANYWHERE) == "host"


@pytest.mark.parametrize("port", ["0", "65536", "070000", "a", "-1", "8 0", "٨٠", "1" * 5_000])
def test_a_port_outside_1_to_65535_is_refused(port: str) -> None:
    """Other numbers and other digits are refused by the rule "port"."""
    assert refusal(f"https://example.com:{port}/a") == "port"


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        ("", "not-absolute"),
        (" https://example.com/", "not-absolute"),
        ("https:example.com/", "not-absolute"),
        ("https:/example.com/", "not-absolute"),
        ("example.com/a:b", "not-absolute"),
        ("ｈttps://example.com/", "not-absolute"),
        ("https//example.com/", "not-absolute"),
        ("mailto:a@example.com", "scheme"),
        ("data:,x", "scheme"),
        ("httpss://example.com/", "scheme"),
        ("https://@example.com/", "user-info"),
        ("https://example.com\\@evil.example/", "user-info"),
        ("https://example.com:443@evil.example/", "user-info"),
        ("https://example.com/%", "percent-encoding"),
        ("https://example.com/%a", "percent-encoding"),
        ("https://example.com/%٠٠", "percent-encoding"),
        ("https://example.com/?q=%g0", "percent-encoding"),
        ("https://ex%zzmple.com/", "percent-encoding"),
        ("https://example.com.evil.example/", "location"),
        ("https://example.com:8443/", "location"),
        ("https://example.com./", "location"),
        ("http://a.b", "location"),
    ],
)
def test_a_broken_url_is_refused_by_its_rule(raw: str, rule: str) -> None:
    """Each fault has its own stable code."""
    assert refusal(raw) == rule


@pytest.mark.parametrize(
    "place",
    [
        "{}https://a.example/",
        "ht{}tps://a.example/",
        "https://a{}.example/",
        "https://a.example/{}",
        "https://a.example/?{}",
        "https://a.example/#{}",
    ],
)
@pytest.mark.parametrize("code", [*range(0x20), 0x7F, 0xFFFE, 0xFFFF, 0xD800, 0xDC80, 0xDFFF])
def test_a_forbidden_character_is_refused_wherever_it_stands(place: str, code: int) -> None:
    """Nothing is deleted from a URL, a line feed in its host or fragment included."""
    assert refusal(place.format(chr(code)), ANYWHERE) == "control-character"


@pytest.mark.parametrize("value", [None, 1, b"https://example.com/", ["https://example.com/"], True])
def test_what_is_no_text_is_no_url(value: object) -> None:
    """A value of another type is refused by the rule "type"."""
    assert refusal(value) == "type"


def test_a_refusal_does_not_repeat_a_password() -> None:
    """User info is left out of both the detail and the loc of its refusal."""
    with pytest.raises(Refused) as caught:
        normalise("https://user:s3cret@example.com/a", RULES)
    assert "s3cret" not in caught.value.detail + caught.value.loc
    assert caught.value.loc == "https://…@example.com/a"


def test_a_refusal_of_a_huge_url_is_short() -> None:
    """The rejected are kept, so a refusal's size is bounded whatever was pushed."""
    with pytest.raises(Refused) as caught:
        normalise("https://example.com/" + "é" * 100_000, RULES)
    assert caught.value.rule == "too-long"
    assert len(caught.value.detail) < 500
    assert len(caught.value.loc) == 2_048
    assert "600,020" in caught.value.detail
    with pytest.raises(Refused) as caught:
        normalise("https://example.com/" + "\ud800" * 100_000, RULES)
    assert len(caught.value.loc) == 2_048


@pytest.mark.parametrize(
    ("rest", "inside"),
    [
        ("/catalog/", True),
        ("/catalog/a/../b", True),
        ("/catalog/?a=/../../", True),
        ("/%63atalog/x", True),
        ("/x/../catalog/x", True),
        ("/catalog", False),
        ("/catalog?a", False),
        ("/Catalog/x", False),
        ("/catalogue/x", False),
        ("/catalog/../x", False),
        ("/catalog/%2e%2E/x", False),
        ("/catalog%2Fx", False),
        ("//catalog/x", False),
    ],
)
def test_the_location_is_that_of_the_normal_url(rest: str, inside: bool) -> None:
    """Dot segments and triplets lead nobody out of the folder unseen, and keep nobody out."""
    raw = "https://example.com" + rest
    if inside:
        assert normalise(raw, CATALOG).loc.startswith(CATALOG.base)
    else:
        assert refusal(raw, CATALOG) == "location"


def test_cross_submission_lifts_the_location_rule_alone() -> None:
    """Other hosts are then accepted, other schemes than http and https are not."""
    assert normalise("http://other.example/x", ANYWHERE) == ("http://other.example/x", ())
    assert refusal("ftp://other.example/x", ANYWHERE) == "scheme"


@pytest.mark.parametrize("raw", ["http://a.b/", "http://a.b"])
def test_eleven_characters_are_too_few(raw: str) -> None:
    """The XSD wants 12 at least, counted in the normal form, whichever way it is found."""
    assert refusal(raw, UrlRules(base="http://a.b/")) == "too-short"
    assert refusal(raw, ANYWHERE) == "too-short"
    assert normalise("http://a.bc", ANYWHERE).loc == "http://a.bc/"


def test_the_length_is_that_of_the_normal_form() -> None:
    """What normalising shortens may be longer, and what it lengthens counts as it is written."""
    base = "https://example.com/"
    room = 2_047 - len(base)
    assert len(normalise(base + "%7e" * room, RULES).loc) == 2_047
    assert len(normalise(base + "a/../" * 1_000 + "#" + "x" * 5_000, RULES).loc) == len(base)
    assert refusal(base + "é" * (room // 6 + 1)) == "too-long"
    assert len(normalise(base + "a" * room, UrlRules(base=base, limits=CURRENT)).loc) == 2_047


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("?utm_source=x", ""),
        ("?utm_source", ""),
        ("?a=1&utm_source=x&b=2", "?a=1&b=2"),
        ("?utm%5Fsource=x&a", "?a"),
        ("?a%5B%5D=1&b", "?b"),
        ("?a[]=1&b", "?b"),
        ("?utm_source=1&utm_source=2#f", ""),
        ("?", "?"),
        ("?b=2&a=1&&", "?b=2&a=1&&"),
        ("?UTM_SOURCE=x", "?UTM_SOURCE=x"),
        ("?x=utm_source", "?x=utm_source"),
    ],
)
def test_only_the_listed_parameters_are_stripped(query: str, left: str) -> None:
    """Names are compared decoded and by case; the others keep their order and spelling."""
    rules = UrlRules(base="https://example.com/", strip_query=frozenset({"utm_source", "a[]"}))
    assert normalise(f"https://example.com/p{query}", rules).loc == f"https://example.com/p{left}"


def test_parameters_are_kept_where_none_are_listed() -> None:
    """Stripping changes which page is meant, so nobody's list is empty by surprise."""
    raw = "https://example.com/?utm_source=x"
    assert normalise(raw, RULES) == (raw, ())


def test_a_dropped_fragment_is_told() -> None:
    """The warning is a sentence that names what was lost."""
    loc, warnings = normalise("https://example.com/p#frag?x", RULES)
    assert loc == "https://example.com/p"
    assert len(warnings) == 1
    assert "'#frag?x'" in warnings[0]


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://shop.example.com", "https://shop.example.com/"),
        ("https://shop.example.com/", "https://shop.example.com/"),
        ("HTTPS://Shop.Example.com:443/a", "https://shop.example.com/a/"),
        ("http://localhost:8321", "http://localhost:8321/"),
        ("http://a/", "http://a/"),
        ("https://faß.de/über/", "https://xn--fa-hia.de/%C3%BCber/"),
        ("https://example.com/a/../b//", "https://example.com/b//"),
    ],
)
def test_a_base_is_the_normal_address_of_a_folder(url: str, base: str) -> None:
    """It ends in a slash, is spelled as URLs are, and stays when it is read again."""
    assert normalise_base(url) == base
    assert normalise_base(base) == base
    assert UrlRules(base=base).base == base


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "shop.example.com",
            "/srv/site",
            "//shop.example.com/",
            "https://",
            "ftp://a.example/",
        ),
        *("https://a.example/?b", "https://a.example/?", "https://a.example/#b", "https://a b/"),
        *(
            "https://u@a.example/",
            "https://a.example:0/",
            "https://a.example/%",
            "https://a.example/\n",
        ),
        *("https://a.example/sitemap.xml", "https://a.example/b/sitemap.xml.gz", None, 1),
    ],
)
def test_what_is_no_folders_address_is_a_bad_setting(url: object) -> None:
    """The operator hears which setting, what is wrong and what to write."""
    with pytest.raises(BadSetting) as caught:
        normalise_base(url)
    assert caught.value.setting == "base_url"
    assert "https://shop.example.com/" in caught.value.hint
    assert str(caught.value).startswith("base_url: ")


@pytest.mark.parametrize("base", ["https://example.com", "https://Example.com/", "https://example.com/a"])
def test_rules_take_no_base_that_is_not_normal(base: str) -> None:
    """Without its slash the base would be a prefix of other hosts and folders."""
    with pytest.raises(BadSetting, match="normal form"):
        UrlRules(base=base)


def test_rules_take_no_base_that_leaves_no_room() -> None:
    """A base longer than a loc may be could never hold a URL."""
    with pytest.raises(BadSetting, match="longer"):
        UrlRules(base=f"https://example.com/{'a' * 2_027}/")


def test_rules_are_values() -> None:
    """Rules compare by what they say and pass between processes."""
    rules = UrlRules(base="https://example.com/", strip_query=frozenset({"a"}))
    assert rules == UrlRules(base="https://example.com/", strip_query=frozenset({"a"}))
    assert rules != RULES
    assert "is_plain" not in repr(rules)
    assert pickle.loads(pickle.dumps(rules)) == rules


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("+%# +.md", "+%25%23%20+.md"),
        ("escape-+ #%20[].md", "escape-+%20%23%2520%5B%5D.md"),
        ("a/b?c", "a%2Fb%3Fc"),
        ("-._~!$&'()*+,;=:@", "-._~!$&'()*+,;=:@"),
        ("错.html", "%E9%94%99.html"),
        ("\u00e9", "%C3%A9"),
        ("e\u0301", "e%CC%81"),
        (b"ma\xf1ana.html", "ma%F1ana.html"),
        ("ma\udcf1ana.html", "ma%F1ana.html"),
        ("a\nb", "a%0Ab"),
        ("\\", "%5C"),
        ("", ""),
    ],
)
def test_a_files_name_becomes_one_segment(name: bytes | str, quoted: str) -> None:
    """Each byte stands for itself; nothing in a name can end the segment or begin a query."""
    assert quote_segment(name) == quoted


@given(st.binary())
def test_a_quoted_name_decodes_to_its_bytes_and_is_normal(name: bytes) -> None:
    """Quoting loses nothing, and normalising afterwards changes nothing."""
    quoted = quote_segment(name)
    assert unquote_to_bytes(quoted) == name
    assert quote_segment(name.decode("utf-8", "surrogateescape")) == quoted
    if len(quoted) < 2_000:
        raw = f"https://example.com/x{quoted}"
        assert normalise(raw, RULES) == (raw, ())


def test_a_surrogate_that_stands_for_no_byte_is_refused() -> None:
    """No operating system gives such a name; it is refused and nothing crashes."""
    with pytest.raises(Refused, match="surrogate"):
        quote_segment("a\ud800b")
