"""A site's names for its files, and where its URLs lie."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_store.model.entries import digest
from sitemap_store.model.site import INDEX_FILE, SHARD_NAME, index_file
from sitemap_store.model.style import Style
from tests import strategies
from tests.world import BASE, make_site


@given(st.from_regex(r"\A[a-z][a-z0-9_]{0,8}(-[a-z0-9_]{1,8}){0,2}\Z"), st.integers(1, 10**9), st.booleans())
def test_a_shards_name_tells_its_section_and_number(section: str, number: int, gzip: bool) -> None:
    """The name alone leads back to the seat: a restore needs nothing else."""
    name = make_site(gzip=gzip).shard_file(section, number)
    found = SHARD_NAME.fullmatch(name)
    assert found is not None
    assert (found[1], int(found[2]), bool(found[3])) == (section, number, gzip)
    assert not INDEX_FILE.fullmatch(name)


@given(st.integers(1, 10**6))
def test_an_index_files_name_tells_its_number(number: int) -> None:
    """The first is sitemap.xml; no number has two names, and none is a shard's."""
    name = index_file(number)
    found = INDEX_FILE.fullmatch(name)
    assert found is not None
    assert int(found[1] or 1) == number
    assert not SHARD_NAME.fullmatch(name)
    assert index_file(1) == "sitemap.xml"


@pytest.mark.parametrize(
    "name",
    [
        *("sitemap-1.xml", "sitemap-02.xml", "sitemap.xml.gz", "Sitemap.xml", "sitemap-pages-0.xml"),
        *("sitemap-pages-01.xml", "sitemap-pages.xml", "sitemap--1.xml", "sitemap-Pages-1.xml"),
        *("sitemap-a--b-1.xml", "../sitemap.xml", "sitemap.xml\n", "sitemap-pages-1.xml\n"),
        *("sitemap-pages-1.xml.bz2", "robots.txt", "sitemap-1-1.xml", "xsitemap.xml", "sitemap-a/b-1.xml"),
    ],
)
def test_names_that_sitemapd_never_gives_are_not_ours(name: str) -> None:
    """Near misses are other people's files."""
    assert not SHARD_NAME.fullmatch(name)
    assert not INDEX_FILE.fullmatch(name)


@given(strategies.locs, st.integers(1, 64))
def test_a_urls_partition_is_one_of_the_sites_own(loc: str, partitions: int) -> None:
    """A URL lies in one partition, always the same."""
    site = make_site(partitions=partitions)
    place = site.partition(digest(loc))
    assert 0 <= place < partitions
    assert place == site.partition(digest(loc))


def test_partitions_take_the_shards_numbers_in_turn() -> None:
    """The first shard is the first partition's, whatever number of partitions there is."""
    assert [make_site(partitions=3).partition_of(number) for number in range(1, 7)] == [0, 1, 2, 0, 1, 2]
    assert {make_site(partitions=1).partition_of(number) for number in range(1, 7)} == {0}


def test_urls_spread_evenly_over_partitions() -> None:
    """Of 8,000 URLs each of 8 partitions gets about a thousand."""
    site = make_site(partitions=8)
    counts = [0] * 8
    for n in range(8000):
        counts[site.partition(digest(f"{BASE}{n}"))] += 1
    assert min(counts) > 850
    assert max(counts) < 1150


def test_an_address_is_the_base_and_the_name() -> None:
    """The folder's address ends in a slash, so the two are joined as they are."""
    assert make_site().address("sitemap.xml") == f"{BASE}sitemap.xml"


def test_a_section_without_a_style_is_rendered_plain() -> None:
    """Only sections that are configured have defaults of their own."""
    daily = Style(changefreq="daily")
    site = make_site(sections={"blog": "/blog/**"}, styles={"blog": daily})
    assert site.style("blog") is daily
    assert site.style("pages") == Style()
