"""The protocol's numbers and names."""

import dataclasses

import pytest

from sitemap_store.model import protocol
from sitemap_store.model.protocol import CURRENT, STRICT


def test_every_strict_bound_is_within_the_current_one() -> None:
    """What is valid under the strict limits is valid under today's."""
    for field in dataclasses.fields(protocol.Limits):
        strict, current = getattr(STRICT, field.name), getattr(CURRENT, field.name)
        assert strict >= current if field.name == "loc_min" else strict <= current, field.name


def test_the_strict_limits_are_those_of_the_2008_text() -> None:
    """The strict limits hold 50,000 URLs and 10 MiB a file, and 1,000 sitemaps an index."""
    assert dataclasses.astuple(STRICT) == (50_000, 10 * 2**20, 1_000, 10 * 2**20, 2_047, 12, 100)


def test_the_current_limits_are_those_of_todays_text() -> None:
    """The current limits hold 50,000 URLs and 50 MiB a file, and 50,000 sitemaps an index."""
    assert dataclasses.astuple(CURRENT) == (50_000, 50 * 2**20, 50_000, 50 * 2**20, 2_047, 12, 2_048)


def test_limits_cannot_be_changed() -> None:
    """Limits are shared by all sites of a process, so that nothing can assign to them."""
    for field in dataclasses.fields(STRICT):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(STRICT, field.name, 1)


def test_the_namespaces_are_those_that_crawlers_compare_with() -> None:
    """A namespace is an exact string: one slash or one letter more and a crawler reads nothing."""
    assert {
        protocol.SITEMAP_NS,
        protocol.IMAGE_NS,
        protocol.VIDEO_NS,
        protocol.NEWS_NS,
        protocol.XHTML_NS,
    } == {
        "http://www.sitemaps.org/schemas/sitemap/0.9",
        "http://www.google.com/schemas/sitemap-image/1.1",
        "http://www.google.com/schemas/sitemap-video/1.1",
        "http://www.google.com/schemas/sitemap-news/0.9",
        "http://www.w3.org/1999/xhtml",
    }
