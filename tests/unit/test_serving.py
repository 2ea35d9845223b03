"""Settings of the server: proxies that are trusted, and what doctor says of them."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from sitemap_store.errors import BadSetting
from sitemapd.build import Parts, build
from sitemapd.doctor.access import proxy, tokens
from sitemapd.doctor.finding import attempt
from sitemapd.serving import proxies
from sitemapd.settings import Settings


def parts(tmp_path: Path, *, token: bool = False, **given: Any) -> Parts:
    """The parts of one site."""
    site: dict[str, Any] = {"base_url": "https://shop.example.com/", "output": str(tmp_path)}
    if token:
        site["tokens"] = {"cms": {"hash": "sha256:" + "0" * 64}}
    return build(Settings.model_validate({"sites": {"shop": site}, **given}))


def test_proxies_are_addresses_and_networks(tmp_path: Path) -> None:
    """Both kinds are read; anything else is one sentence that names the setting and the value."""
    found = proxies(parts(tmp_path, trusted_proxies=["127.0.0.1", "10.0.0.0/8", "fd00::/8"]))
    assert set(found) == {ip_network(text) for text in ("127.0.0.1/32", "10.0.0.0/8", "fd00::/8")}
    for wrong in ("nginx", "10.0.0.1/8", ""):
        with pytest.raises(BadSetting, match=f"{wrong!r} is no address") as caught:
            proxies(parts(tmp_path, trusted_proxies=[wrong]))
        assert caught.value.setting == "trusted_proxies"


@pytest.mark.parametrize(
    ("token", "trusted", "fine", "said"),
    [
        (True, ["127.0.0.1"], True, "every site has one"),
        (False, [], True, "this machine alone may push"),
        (False, ["127.0.0.1"], False, "sitemapd token"),
    ],
)
def test_doctor_says_when_a_proxy_needs_a_token(
    tmp_path: Path, token: bool, trusted: list[str], fine: bool, said: str
) -> None:
    """With a proxy in front and no token nobody can push: that is wrong, and the way out is named."""
    site = parts(tmp_path, token=token, trusted_proxies=trusted)
    finding = attempt("tokens", lambda: tokens(site))
    assert finding.fine is fine
    assert said in finding.detail


@pytest.mark.parametrize(
    ("trusted", "fine", "said"),
    [
        (["10.0.0.0/8"], True, "requests of 10.0.0.0/8 count as those of the client"),
        ([], True, "behind a proxy set trusted_proxies"),
        (["nginx"], False, "trusted_proxies: 'nginx' is no address"),
    ],
)
def test_doctor_says_which_proxies_are_trusted(
    tmp_path: Path, trusted: list[str], fine: bool, said: str
) -> None:
    """And what a request through another counts as; a value that is no address is wrong."""
    site = parts(tmp_path, trusted_proxies=trusted)
    finding = attempt("proxy", lambda: proxy(site))
    assert finding.fine is fine
    assert said in finding.detail
