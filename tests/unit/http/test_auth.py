"""Who may push: tokens, and this machine where there are none."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from producers.http.auth import LOCAL, PROXIED, Gate, Token, digest_of, hash_of, new_token
from producers.http.problems import Problem

CMS, OLD, DOCS = new_token(), new_token(), new_token()


def token(name: str, secret: str, sources: frozenset[str] | None = None) -> Token:
    """A token as the settings give it."""
    return Token(name=name, digest=digest_of(hash_of(secret)), sources=sources)


def request(*, client: str = "203.0.113.9", host: str = "sitemaps.example.com", **headers: str) -> Request:
    """A request of that client."""
    pairs = [(b"host", host.encode())]
    pairs += [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "headers": pairs, "client": (client, 5)})


GATE = Gate(
    {
        "shop": (token("cms", CMS, frozenset({"cms"})), token("old", OLD)),
        "docs": (token("docs", DOCS),),
        "open": (),
    }
)


def status(site: str, asked: Request) -> int:
    """0 when the gate lets a request in, otherwise the status of its answer."""
    try:
        GATE.admit(asked, site)
    except Problem as problem:
        return problem.status
    return 0


def test_each_token_of_a_site_is_taken() -> None:
    """Several tokens hold at a time, so that one can be replaced without a gap."""
    assert GATE.admit(request(authorization=f"Bearer {CMS}"), "shop").name == "cms"
    assert GATE.admit(request(authorization=f"bearer  {OLD} "), "shop").name == "old"


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Basic {CMS}",
        f"Bearer {CMS}x",
        f"Bearer {CMS[:-1]}",
        CMS,
        "Bearer ü\xff",
    ],
    ids=[
        "none",
        "empty",
        "no token",
        "no token but a space",
        "basic",
        "longer",
        "shorter",
        "bare",
        "not ASCII",
    ],
)
def test_without_a_valid_token_nothing_is_told(header: str | None) -> None:
    """No token, a wrong one or one in another scheme is 401, for sites that exist and sites that don't."""
    asked = request() if header is None else request(authorization=header)
    for site in ("shop", "nope"):
        with pytest.raises(Problem) as caught:
            GATE.admit(asked, site)
        assert caught.value.status == 401
        assert caught.value.headers["WWW-Authenticate"].startswith("Bearer")
        assert "smd_" not in caught.value.detail


def test_token_of_another_site_is_forbidden() -> None:
    """A valid token for another site is 403, and 404 where there is no such site."""
    asked = request(authorization=f"Bearer {DOCS}")
    assert status("docs", asked) == 0
    assert status("shop", asked) == 403
    assert status("nope", asked) == 404


@pytest.mark.parametrize(
    ("client", "host", "headers", "expected"),
    [
        ("127.0.0.1", "127.0.0.1:8321", {}, 0),
        ("127.9.9.9", "localhost", {}, 0),
        ("::1", "[::1]:8321", {}, 0),
        ("::ffff:127.0.0.1", "localhost:1", {}, 0),
        ("192.168.0.7", "127.0.0.1", {}, 403),
        ("203.0.113.9", "localhost", {}, 403),
        ("127.0.0.1", "rebound.example", {}, 403),
        ("127.0.0.1", "127.0.0.1.example", {}, 403),
        ("127.0.0.1", "", {}, 403),
        ("127.0.0.1", "localhost", {"x_forwarded_for": "203.0.113.9"}, 403),
        ("127.0.0.1", "localhost", {"forwarded": "for=127.0.0.1"}, 403),
        ("127.0.0.1", "localhost", {"x_forwarded_proto": "https"}, 403),
        ("127.0.0.1", "localhost", {"x_forwarded_anything": ""}, 403),
        ("127.0.0.1", "localhost", {"via": "1.1 cache"}, 403),
        ("127.0.0.1", "[::1].evil.example", {}, 403),
        ("127.0.0.1", "[::1]evil.example:80", {}, 403),
        ("127.0.0.1", "localhost:80.evil.example", {}, 403),
        ("127.0.0.1", "localhost", {"sec_fetch_site": "cross-site"}, 403),
        ("127.0.0.1", "localhost", {"sec_fetch_site": "same-site"}, 403),
        ("127.0.0.1", "localhost:8321", {"origin": "http://localhost:9000"}, 403),
        ("127.0.0.1", "localhost:8321", {"origin": "null"}, 403),
        (
            "127.0.0.1",
            "localhost:8321",
            {"origin": "http://localhost:8321", "sec_fetch_site": "same-origin"},
            0,
        ),
        ("127.0.0.1", "localhost", {"x_real_ip": "127.0.0.1"}, 403),
    ],
)
def test_site_without_tokens_is_for_this_machine(
    client: str, host: str, headers: dict[str, str], expected: int
) -> None:
    """Only a direct request from and to a loopback address passes: no proxy's, no re-bound name's."""
    assert status("open", request(client=client, host=host, **headers)) == expected


def test_this_machine_needs_a_token_where_there_are_some() -> None:
    """A site with tokens asks for one of everybody."""
    assert status("shop", request(client="127.0.0.1", host="localhost")) == 401
    assert GATE.admit(request(client="127.0.0.1", host="localhost"), "open") is LOCAL


def test_visible_sites_are_those_of_the_token() -> None:
    """A status shows the sites of the token, and this machine those without tokens too."""
    assert set(GATE.visible(request(authorization=f"Bearer {OLD}"))) == {"shop"}
    here = request(client="127.0.0.1", host="localhost", authorization=f"Bearer {OLD}")
    assert set(GATE.visible(here)) == {"shop", "open"}
    with pytest.raises(Problem):
        GATE.visible(request())


def test_token_may_speak_for_its_sources() -> None:
    """A scope of one source is the default source; none at all may look only; no scope may do everything."""
    one, two, none, every = (
        Token(name="", digest=b"", sources=sources)
        for sources in (frozenset({"cms"}), frozenset({"cms", "shop"}), frozenset[str](), None)
    )
    assert (one.source, two.source, none.source, every.source) == ("cms", None, None, None)
    assert [each.may("cms") for each in (one, two, none, every)] == [True, True, False, True]
    assert [each.may(None) for each in (one, two, none, every)] == [False, False, False, True]


def test_settings_keep_a_hash_that_tells_nothing() -> None:
    """A token is long and random, its hash is another text, and neither is in what is printed of it."""
    assert len({new_token() for _ in range(50)}) == 50
    assert len(CMS) > 40
    assert CMS not in hash_of(CMS)
    assert digest_of(hash_of(CMS)).hex() not in repr(token("cms", CMS))
    for wrong in (CMS, "sha256:", "sha256:" + "0" * 63, "sha256:" + "g" * 64, "md5:" + "0" * 64):
        with pytest.raises(ValueError, match=r"hex|sha256"):
            digest_of(wrong)


def test_a_proxy_that_says_nothing_is_no_local_client() -> None:
    """nginx speaks HTTP/1.0 unless told otherwise, and a trusted proxy is known by its address."""
    for shown in ({"http_version": "1.0"}, {PROXIED: True}):
        asked = request(client="127.0.0.1", host="localhost")
        asked.scope.update(shown)
        assert status("open", asked) == 403


def test_two_hosts_are_no_local_client() -> None:
    """A request with two Host headers is nobody's that means well."""
    asked = request(client="127.0.0.1", host="localhost")
    asked.scope["headers"].append((b"host", b"evil.example"))
    assert status("open", asked) == 403
