"""URLs in the one spelling that the store knows them by (RFC 3986 section 6.2, RFC 3987, UTS 46).

1. Only what RFC 3986 calls the same resource is changed. Query order, an empty `?`, trailing and
   doubled slashes, path case, `+` and reserved triplets such as `%2F` are left as they came.
2. Characters that no loc may hold are looked for first, on the text as it came, so that nothing
   can be deleted from a URL on its way to becoming another one.
3. Unreserved triplets are decoded before dot segments are removed, and the location rule is
   checked after that: `/catalog/%2e%2e/x` is `/x`.
4. Almost every URL is already normal. Such a one is told by one regular expression (the base,
   then nothing that would change, within the length) and one search for `/.`, and returned as it
   is; everything else takes the way by the parts.

A little longer than most modules: the steps of `normalise` share the expressions at its beginning.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import Final, NamedTuple
from urllib.parse import unquote, unquote_to_bytes

import idna

from sitemap_store.errors import BadSetting, Refused
from sitemap_store.model.protocol import STRICT, Limits

_UNRESERVED: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_SEGMENT: Final = _UNRESERVED + "!$&'()*+,;=:@"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SHOWN: Final = 120  # characters of a refused value that a sentence quotes
_KEPT: Final = 2_048  # characters of a refused URL that its refusal keeps
_BASE_HINT: Final = "Write the address of the folder, such as https://shop.example.com/"
_HOST_MAX: Final = 253
_RAW_HOST_MAX: Final = 4 * _HOST_MAX  # UTS 46 may drop characters

_CLASS: Final = re.escape(_SEGMENT)
_KEPT_TRIPLET: Final = "%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|[46]0|5[B-E]|7[BCDF])"
_FORBIDDEN: Final = re.compile("[\x00-\x1f\x7f\ufffe\uffff\ud800-\udfff]")
_PARTS: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):"
    r"(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?P<fragment>#.*)?",
    re.DOTALL,
)
_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>.*))?", re.DOTALL)
_HOST: Final = re.compile(
    r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*\.?"
)
_PORT: Final = re.compile(r"0*([0-9]{1,5})")
_BAD_TRIPLET: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
# Triplets with a lower-case digit, and those of unreserved characters.
_CHANGED_TRIPLET: Final = "%(?:[0-9A-Fa-f][a-f]|[a-f][0-9A-F]|2[DE]|3[0-9]|[46][1-9A-F]|5[0-9AF]|7[0-9AE])"
_PATH_CHANGES: Final = re.compile(rf"{_CHANGED_TRIPLET}|[^%{_CLASS}/]+")
_QUERY_CHANGES: Final = re.compile(rf"{_CHANGED_TRIPLET}|[^%{_CLASS}/?]+")
_TRIPLETS: Final = tuple(f"%{byte:02X}" for byte in range(256))
_SEGMENT_BYTES: Final = tuple(chr(byte) if chr(byte) in _SEGMENT else _TRIPLETS[byte] for byte in range(256))
_SITEMAP_FILE: Final = re.compile(r".*/[^/]+\.xml(?:\.gz)?/?")


class Normalised(NamedTuple):
    """A loc as the store keeps it (ASCII, RFC 3986), and what was lost on the way, in sentences."""

    loc: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlRules:
    """Which URLs one site's sitemaps may hold.

    `base` is the address of the folder that they are published at, as `normalise_base` returns
    it. `cross_submission` lifts the location rule. `strip_query` names the query parameters
    (decoded, exact case) that are taken out. Raises BadSetting when `base` is not normal.
    """

    base: str
    cross_submission: bool = False
    strip_query: frozenset[str] = frozenset()
    limits: Limits = STRICT
    is_plain: Callable[[str], object] = field(init=False, repr=False, compare=False)
    """Truthy for a URL that is normal, within the rules, unless it has a dot segment."""

    def __post_init__(self) -> None:
        # The location rule is a prefix test: without the "/" it would let other hosts in.
        normal = normalise_base(self.base)
        if normal != self.base:
            raise _bad_base("base_url", f"{_shown(self.base)} is not in its normal form.", f"Write {normal}")
        longest = self.limits.loc_max - len(self.base)
        if longest < 0:
            raise _bad_base("base_url", f"{_shown(self.base)} is longer than any URL in a sitemap may be.")
        shortest = max(0, self.limits.loc_min - len(self.base))
        characters = f"[{_CLASS}/]" if self.strip_query else f"[{_CLASS}/?]"
        plain = re.compile(
            rf"{re.escape(self.base)}(?=.{{{shortest},{longest}}}\Z)"
            rf"{characters}*+(?:{_KEPT_TRIPLET}{characters}*+)*+"
        )
        object.__setattr__(self, "is_plain", plain.fullmatch)


class _Parts(NamedTuple):
    origin: str
    path: str
    query: str | None
    fragment: str | None


def normalise(raw: object, rules: UrlRules) -> Normalised:
    """Bring one URL into its normal form, or refuse it.

    Normalising twice is normalising once. The loc is counted in characters after
    percent-encoding and before XML escaping (`rules.limits.loc_min` to `loc_max`).
    Raises Refused with rule "type", "control-character", "not-absolute", "scheme", "user-info",
    "percent-encoding", "host", "port", "location", "too-long" or "too-short"; its `loc` is the
    URL as it came, cut at 2,048 characters, with lone surrogates written as escapes and user
    info left out.
    Source: RFC 3986 sections 5.2.4 and 6.2; sitemaps.org protocol, "Sitemap file location".
    """
    if not isinstance(raw, str):
        raise Refused(loc="", rule="type", detail=f"A loc must be text, not {type(raw).__name__}.")
    if rules.is_plain(raw) and "/." not in raw:
        return tuple.__new__(Normalised, (raw, ()))  # half the time of Normalised(raw, ())
    return _normalise_by_parts(raw, rules)


def normalise_listed(raw: object, rules: UrlRules) -> Normalised:
    """As `normalise`, of a URL that may be listed since before `base` or `strip_query` changed: a delete's.

    The location rule does not hold, and no parameter is taken out: whoever deletes `/q?utm_source=x` does not
    mean `/q`. What differs from the URL that an add would list is said in a warning.
    """
    found = normalise(raw, _unscoped(rules))
    try:
        covered = normalise(raw, rules)
    except Refused as refused:
        if refused.rule != "location":
            raise
        said = f"{_shown(found.loc)} is outside {rules.base}: it goes if it is still listed from before."
    else:
        if covered.loc == found.loc:
            return found
        said = (
            f"strip_query counts for adds alone: this deletes {_shown(found.loc)}, not {_shown(covered.loc)}."
        )
    return Normalised(found.loc, (*found.warnings, said))


@lru_cache(maxsize=256)
def _unscoped(rules: UrlRules) -> UrlRules:
    return replace(rules, cross_submission=True, strip_query=frozenset())


def normalise_base(url: object, setting: str = "base_url") -> str:
    """Return the normal form of a site's `base_url`, the address of a folder, ending in "/".

    Raises BadSetting of `setting` for what is no http(s) address of a folder.
    """
    if not isinstance(url, str):
        raise _bad_base(setting, f"must be text, not {type(url).__name__}.")
    try:
        parts = _parts(url)
    except Refused as refused:
        raise _bad_base(setting, refused.detail) from refused
    if parts.query is not None or parts.fragment is not None:
        raise _bad_base(setting, f"{_shown(url)} has a query or a fragment, which no folder has.")
    if _SITEMAP_FILE.fullmatch(parts.path):
        raise _bad_base(setting, f"{_shown(url)} is the address of a sitemap and not of its folder.")
    return parts.origin + (parts.path if parts.path.endswith("/") else parts.path + "/")


def quote_segment(data: bytes | str) -> str:
    """Percent-encode one path segment, such as a file's name, so that each byte stands for itself.

    Unreserved characters, sub-delims, ":" and "@" stay; "%", "/", "?", "#" and all else become
    triplets. Text is taken as UTF-8, and surrogate escapes as the bytes that they came from.
    Raises Refused ("control-character") for a lone surrogate that stands for no byte.
    Source: RFC 3986 section 3.3 (pchar).
    """
    try:
        octets = data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        detail = f"{data!r} has a lone surrogate, which is not a byte."
        raise Refused(loc="", rule="control-character", detail=detail) from error
    return "".join(map(_SEGMENT_BYTES.__getitem__, octets))


def _normalise_by_parts(raw: str, rules: UrlRules) -> Normalised:
    origin, path, query, fragment = _parts(raw)
    if query is not None and rules.strip_query:
        query = _stripped(query, rules.strip_query)
    loc = origin + path if query is None else f"{origin}{path}?{query}"
    if not rules.cross_submission and not loc.startswith(rules.base):
        detail = (
            f"{_shown(loc)} is outside {rules.base}, the folder of the sitemaps; "
            "a sitemap covers its own folder only, unless cross_submission is on."
        )
        raise _refused(raw, "location", detail)
    if len(loc) > (longest := rules.limits.loc_max):
        detail = f"{_shown(loc)} has {len(loc):,} characters; a loc has at most {longest:,}."
        raise _refused(raw, "too-long", detail)
    if len(loc) < (shortest := rules.limits.loc_min):
        detail = f"{_shown(loc)} has {len(loc)} characters; a loc has at least {shortest}."
        raise _refused(raw, "too-short", detail)
    if fragment is None:
        return Normalised(loc, ())
    warning = f"The fragment {_shown(fragment)} was dropped: a sitemap lists whole pages."
    return Normalised(loc, (warning,))


def _parts(raw: str) -> _Parts:
    if found := _FORBIDDEN.search(raw):
        detail = (
            f"{_shown(raw)} holds U+{ord(found[0]):04X} at position {found.start()}, "
            "which no loc may hold; percent-encode it or take it out."
        )
        raise _refused(raw, "control-character", detail)
    match = _PARTS.fullmatch(raw)
    if match is None:
        detail = f"{_shown(raw)} is not absolute; write it from https:// on."
        raise _refused(raw, "not-absolute", detail)
    scheme = match["scheme"].lower()
    if scheme not in _DEFAULT_PORTS:
        detail = f"{_shown(raw)} has the scheme {_shown(scheme)}; it must be http or https."
        raise _refused(raw, "scheme", detail)
    if match["authority"] is None:
        detail = f"{_shown(raw)} is not absolute; write it as {scheme}:// and a host."
        raise _refused(raw, "not-absolute", detail)
    origin = f"{scheme}://{_authority(raw, match['authority'], _DEFAULT_PORTS[scheme])}"
    path, query = match["path"], match["query"]
    for part in (path, query):
        if part and (bad := _BAD_TRIPLET.search(part)):
            detail = (
                f"{_shown(raw)} has {_shown(part[bad.start() : bad.start() + 3])}, which is no "
                "percent-encoding; write a percent sign as %25."
            )
            raise _refused(raw, "percent-encoding", detail)
    path = _without_dot_segments(_PATH_CHANGES.sub(_changed, path)) if path else "/"
    query = _QUERY_CHANGES.sub(_changed, query) if query else query
    return _Parts(origin, path, query, match["fragment"])


def _authority(raw: str, authority: str, default_port: int) -> str:
    if "@" in authority:
        # User info may be a password, which has no place in a report.
        raise _refused(
            raw.replace(authority, "…@" + authority.rpartition("@")[2], 1),
            "user-info",
            "The URL has user info before its host, which a public address cannot have; "
            "take out everything up to the @.",
        )
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise _refused(raw, "host", f"{_shown(authority)} is no host name.")
    host = _host(raw, match["host"])
    if not match["port"]:
        return host
    port = _PORT.fullmatch(match["port"])
    if port is None or not 1 <= int(port[1]) <= 65_535:
        detail = f"{_shown(raw)} has the port {_shown(match['port'])}; it must be 1 to 65535."
        raise _refused(raw, "port", detail)
    return host if int(port[1]) == default_port else f"{host}:{int(port[1])}"


def _host(raw: str, host: str) -> str:
    if not host or len(host) > _RAW_HOST_MAX:
        wrong = "has no host." if not host else f"has a host of more than {_HOST_MAX} characters."
        raise _refused(raw, "host", f"{_shown(raw)} {wrong}")
    try:
        if host.startswith("["):
            name = host.lower()
            if "%" in name:
                raise AddressValueError("a zone means something on one machine only")
            IPv6Address(name[1:-1])
            return name
        if "%" in host:
            if _BAD_TRIPLET.search(host):
                detail = f"{_shown(raw)} has a % in its host that starts no percent-encoding."
                raise _refused(raw, "percent-encoding", detail)
            host = unquote_to_bytes(host).decode("utf-8")
        # The standard library's "idna" codec is IDNA 2003, which makes fass.de of faß.de.
        name = host.lower() if host.isascii() else idna.encode(host, uts46=True).decode("ascii")
    except (ValueError, idna.IDNAError) as error:
        raise _refused(raw, "host", f"{_shown(host)} is no host name: {error}.") from error
    if not _HOST.fullmatch(name) or len(name.removesuffix(".")) > _HOST_MAX:
        raise _refused(raw, "host", f"{_shown(host)} is no host name.")
    return name


def _without_dot_segments(path: str) -> str:
    if "/." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _stripped(query: str, names: frozenset[str]) -> str | None:
    parameters = query.split("&")
    kept = [each for each in parameters if unquote(each.partition("=")[0]) not in names]
    if len(kept) == len(parameters):
        return query
    return "&".join(kept) or None


def _changed(match: re.Match[str]) -> str:
    found = match[0]
    if found[0] == "%":
        character = chr(int(found[1:], 16))
        return character if character in _UNRESERVED else found.upper()
    return "".join(map(_TRIPLETS.__getitem__, found.encode("utf-8")))


def _refused(raw: str, rule: str, detail: str) -> Refused:
    loc = raw[:_KEPT].encode("utf-8", "backslashreplace").decode("utf-8")[:_KEPT]
    return Refused(loc=loc, rule=rule, detail=detail)


def _bad_base(setting: str, detail: str, hint: str = _BASE_HINT) -> BadSetting:
    return BadSetting(setting=setting, detail=detail, hint=hint)


def _shown(value: str) -> str:
    return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")
