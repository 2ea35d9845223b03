"""What a file says of itself."""

from pathlib import Path
from typing import Any, get_args

import pytest

from producers.filesystem.page import Facts, read_page
from producers.filesystem.source import FilesystemSource, Generator
from sitemap_store.model.dates import instant_ms

PAGE = Path(__file__).parents[3] / "docs/filesystem.md"


def read(text: str, name: bytes = b"page.md", zone: str | None = None, **options: Any) -> Facts:
    """The facts of a file with that text."""
    source = FilesystemSource(name="pages", directory=Path("content"), **options)
    return read_page(text.encode(), name, source, zone)


def yaml(*lines: str) -> str:
    """A file with these lines of front matter."""
    return "\n".join(("---", *lines, "---", "text"))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("draft: true", "draft"),
        ("draft: yes", "draft"),
        ('draft: "true"', "draft"),
        ("draft: 1", "draft"),
        ("draft: false", ""),
        ("draft: no", ""),
        ("draft:", ""),
        ("published: false", "draft"),
        ("published: true", ""),
        ("published: 2020-01-01", ""),
        ("sitemap: false", "sitemap"),
        ("sitemap: true", ""),
        ("sitemap: exclude", "sitemap"),
        ("sitemap: {disable: true}", "sitemap"),
        ("sitemap: {exclude: true}", "sitemap"),
        ("sitemap: {exclude: false}", ""),
        ("sitemap: {priority: 0.8}", ""),
        ("sitemap_exclude: true", "sitemap"),
        ("exclude_from_sitemap: true", "sitemap"),
        ("noindex: true", "sitemap"),
        ("noindex: false", ""),
        ("robots: noindex, nofollow", "noindex"),
        ("robots: [nofollow, none]", "noindex"),
        ("robots: index", ""),
        ("redirect_to: [/new/]", "refresh"),
        ("redirect: https://example.org/", "refresh"),
        ("draft: 0x" + "f" * 9000, ""),
    ],
)
def test_a_field_can_keep_a_page_out(line: str, why: str) -> None:
    """Drafts, and what asks to be left out in one of the usual ways, is not listed."""
    assert read(yaml(line)).why == why


def generator_rows() -> list[tuple[str, str]]:
    """The generators and front matter lines of the table in docs/filesystem.md."""
    found = []
    for line in PAGE.read_text().split("| generator | front matter |")[1].split("\n\n")[0].splitlines()[2:]:
        generator, written, _ = (cell.strip().strip("`") for cell in line.strip("|").split("|"))
        found.append(("" if generator == "others" else generator, written))
    return found


def test_the_table_names_every_generator() -> None:
    """Each choice of the setting has its rows."""
    assert {generator for generator, _ in generator_rows()} == set(get_args(Generator))


@pytest.mark.parametrize(("generator", "line"), generator_rows())
def test_what_a_generator_leaves_out_is_not_listed(generator: str, line: str) -> None:
    """Each row of the documented table keeps a page out, with its generator set and with none."""
    for chosen in {generator, ""}:
        facts = read(yaml(line), generator=chosen)
        now = instant_ms("2026-03-21T12:00:00Z")
        assert facts.why or facts.listed_from > now or 0 < facts.listed_until < now, (chosen, facts)


@pytest.mark.parametrize(
    "line",
    [
        "status: published", "status: new", "unlisted: false", "headless: false", "routable: true",
        "render: always", "build: {render: always, list: always}", "visible: false", "permalink: /false/",
        "redirect_from: /old/", "published: true", "redirect: false", "redirect_to:", "redirect_to: []",
    ],
)  # fmt: skip
def test_what_only_looks_like_it_is_listed(line: str) -> None:
    """The same fields with other values, and others of their kind, keep nothing out."""
    assert read(yaml(line)).why == ""


@pytest.mark.parametrize(
    ("generator", "hides"),
    [("", True), ("hugo", True), ("jekyll", True), ("hexo", False), ("docusaurus", False), ("grav", False)],
)
def test_a_date_to_come_hides_where_the_generator_hides_it(generator: str, hides: bool) -> None:
    """Hexo and others publish a page whatever its date says."""
    assert bool(read(yaml("date: 2999-01-01"), generator=generator).listed_from) is hides


def test_toml_keeps_what_it_can_of_the_text() -> None:
    """TOML has numbers and dates of its own; a slug of either is what it reads as."""
    assert [read(f"+++\nslug = {value}\n+++\n").slug for value in ("2026", "2026-03-21", "12.30")] == [
        "2026", "2026-03-21", "12.30",
    ]  # fmt: skip


def test_toml_and_json_say_the_same_as_yaml() -> None:
    """The three kinds of front matter give the same facts."""
    told = read(yaml("date: 2026-01-02", "sitemap: {priority: 0.8, changefreq: daily}"))
    assert told == read('+++\ndate = 2026-01-02\n[sitemap]\npriority = 0.8\nchangefreq = "daily"\n+++\n')
    assert told == read('{"date": "2026-01-02", "sitemap": {"priority": 0.8, "changefreq": "daily"}}')
    assert (told.priority, told.changefreq, told.dates) == ("0.8", "daily", ("2026-01-02",))


def test_bad_values_are_left_out_with_a_warning() -> None:
    """A page with a priority of 7 is listed without one, and somebody hears of it."""
    facts = read(yaml("sitemap: {priority: 7, changefreq: sometimes}"))
    assert (facts.why, facts.priority, facts.changefreq) == ("", "", "")
    assert len(facts.warnings) == 2


def test_dates_come_in_the_order_of_the_setting() -> None:
    """The sitemap's own lastmod first, then the fields as `lastmod_fields` has them."""
    text = yaml("date: 2020-01-01", "updated: 2021-01-01", "sitemap: {lastmod: 2022-01-01}")
    assert read(text).dates == ("2022-01-01", "2021-01-01", "2020-01-01")
    order = read(text, lastmod_fields=("date", "updated")).dates
    assert order == ("2022-01-01", "2020-01-01", "2021-01-01")


def test_a_naive_time_is_in_the_sites_zone() -> None:
    """The site's zone decides what an hour without one means."""
    text = yaml("date: 2015-10-01 01:00:00")
    assert read(text, zone="+02:00").dates == ("2015-10-01T01:00:00+02:00",)
    assert read(text).dates == ("2015-10-01",)


def test_publish_and_expiry_dates_bound_the_listing() -> None:
    """publishDate counts before date; expiryDate ends it."""
    facts = read(yaml("date: 2020-01-01", "publishDate: 2030-01-01", "expiryDate: 2031-01-01"))
    assert facts.listed_from == instant_ms("2030-01-01T00:00:00Z")
    assert facts.listed_until == instant_ms("2031-01-01T00:00:00Z")
    assert read(yaml("date: 2020-01-01")).listed_from == instant_ms("2020-01-01")


@pytest.mark.parametrize(
    ("line", "address", "slug", "warned"),
    [
        ("permalink: /a/", "/a/", "", False),
        ("url: https://example.com/a/", "https://example.com/a/", "", False),
        ("permalink: /:year/:title/", "", "", True),
        ("permalink: pretty", "", "", True),
        ("slug: hello", "", "hello", False),
        ("slug: 2026", "", "2026", False),
        ("slug: 010", "", "010", False),
        ("slug: no", "", "no", False),
        ("slug: 1_000", "", "1_000", False),
        ("slug: 2026-03-21", "", "2026-03-21", False),
        ("slug: 1e3", "", "1e3", False),
        ("permalink: 12:30", "/12:30", "", False),
        ("permalink: 010", "/010", "", False),
        ("permalink: about.html", "/about.html", "", False),
        ("permalink: /talk:page/", "/talk:page/", "", False),
        ('permalink: "/{{ title | slug }}/"', "", "", True),
        ("permalink: false", "", "", False),
        ("url: false", "", "", False),
        ("permalink: true", "", "", False),
        ("slug: [a]", "", "", False),
        ("slug: a/b/", "", "a/b", False),
        ("slug: /a/", "", "/a/", False),
        ("slug:", "", "", False),
        ("url: ''", "", "", False),
    ],
)
def test_a_page_can_name_its_address(line: str, address: str, slug: str, warned: bool) -> None:
    """permalink, url and slug are taken; patterns are not followed, and that is said."""
    facts = read(yaml(line))
    assert (facts.address, facts.slug, bool(facts.warnings)) == (address, slug, warned)


def test_the_head_is_read_of_html_files_only() -> None:
    """A Markdown file may quote a meta element without meaning it."""
    text = "<meta name=robots content=noindex>"
    assert read(text, b"page.HTML").head.noindex
    assert not read(text, b"page.md").head.noindex
    assert not read(text, b"page.html", html_head=False).head.noindex


def test_front_matter_can_be_switched_off() -> None:
    """Without front_matter the block is text like any other."""
    assert read(yaml("draft: true"), front_matter=False).why == ""


def test_an_html_file_may_have_both() -> None:
    """Front matter and head count together."""
    facts = read(yaml("date: 2020-01-01") + "<html><head>"
                 "<meta property=article:modified_time content=2021-01-01>", b"a.html")  # fmt: skip
    assert (facts.dates, facts.modified) == (("2020-01-01",), "2021-01-01")
