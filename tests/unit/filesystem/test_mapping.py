"""From a file's path to its address."""

import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.filesystem.mapping import Mapping
from producers.filesystem.source import FilesystemSource
from sitemap_store.errors import Refused
from sitemap_store.model.urls import UrlRules, normalise

BASE: Final = "https://example.com/shop/"
PAGE: Final = Path(__file__).parents[3] / "docs" / "filesystem.md"


def documented() -> list[tuple[str, str, str, str]]:
    """The rows of the table in docs/filesystem.md: url, settings, file, address."""
    section = PAGE.read_text().split("## From file to address")[1].split("\n## ")[0]
    table = section.split("| `url` | settings | file | address |")[1].split("\n\n")[0]
    rows = []
    for line in table.splitlines()[2:]:
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        rows.append((cells[0], cells[1], cells[2], cells[3]))
    return rows


def mapping(url: str = "/{path}", base: str = BASE, **options: Any) -> Mapping:
    """The mapping of a source with these settings."""
    source = FilesystemSource(name="pages", directory=Path("content"), url=url, **options)
    return Mapping(
        source.url,
        UrlRules(base=base),
        index_files=source.index_files,
        strip_extension=source.strip_extension,
        trailing_slash=source.trailing_slash,
    )


def split(path: bytes) -> tuple[bytes, bytes]:
    """A path's folder and name."""
    folder, _, name = path.rpartition(b"/")
    return folder, name


@pytest.mark.parametrize(("url", "settings", "file", "address"), documented())
def test_a_file_has_the_documented_address(url: str, settings: str, file: str, address: str) -> None:
    """Every row of the table in docs/filesystem.md holds as it is written."""
    options: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in tomllib.loads(settings).items()
    }
    path = file.replace(r"\n", "\n").encode().replace(rb"\xf1", b"\xf1")
    assert mapping(url, **options).loc(*split(path)) == BASE + address


def test_the_documented_table_was_found() -> None:
    """The table is long, so that the test above can't pass by reading nothing."""
    assert len(documented()) > 30


def test_one_page_has_one_address_however_it_is_named() -> None:
    """The file 错.html with a suffix taken off, and both ways to write its permalink, are one loc."""
    table = mapping("/{path}/", base="https://example.com/")
    locs = {
        table.loc(b"", "错.html".encode()),
        table.at("/错/"),
        table.at("/%E9%94%99/"),
        table.at("https://example.com/错/"),
    }
    assert locs == {"https://example.com/%E9%94%99/"}


def test_nfc_and_nfd_names_stay_apart() -> None:
    """A name is encoded from its bytes: nothing is composed or decomposed on the way."""
    table = mapping(base="https://example.com/")
    assert table.loc(b"", "é.html".encode()) == "https://example.com/%C3%A9.html"
    assert table.loc(b"", "e\u0301.html".encode()) == "https://example.com/e%CC%81.html"


def test_an_address_over_the_limit_is_refused_and_not_cut() -> None:
    """Three nested folders of 85 CJK characters make 2,295 characters of loc."""
    folder = b"/".join(["错".encode() * 85] * 3)
    with pytest.raises(Refused) as caught:
        mapping().loc(folder, b"page.html")
    assert caught.value.rule == "too-long"


@pytest.mark.parametrize(
    ("path", "slug", "address"),
    [
        (b"blog/hello.md", "servus", "blog/servus/"),
        (b"blog/hello/index.md", "servus", "blog/servus/"),
        (b"index.md", "servus", ""),
        (b"blog/hello.md", "a b", "blog/a%20b/"),
        (b"blog/hello.md", "né", "blog/n%C3%A9/"),
        (b"blog/hello.md", "/servus/", "servus/"),
        (b"blog/index.md", "/", ""),
    ],
)
def test_a_slug_takes_the_place_of_the_stem(path: bytes, slug: str, address: str) -> None:
    """A slug renames the page, or the folder that an index file is the page of."""
    assert mapping("/{path}/").loc(*split(path), slug=slug) == BASE + address


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("https://other.example/a", "location"),
        ("/100%", "percent-encoding"),
        ("ftp://example.com/shop/a", "scheme"),
    ],
)
def test_an_address_of_its_own_keeps_the_rules(written: str, rule: str) -> None:
    """What a page may not be listed under is refused, whoever says so."""
    with pytest.raises(Refused) as caught:
        mapping().at(written)
    assert caught.value.rule == rule


names = st.binary(min_size=1, max_size=40).filter(
    lambda name: b"/" not in name and b"\x00" not in name and name not in (b".", b"..")
)


@given(folder=st.lists(names, max_size=3), name=names, url=st.sampled_from(["/{path}", "/{path}/"]))
def test_every_name_has_a_right_address(folder: list[bytes], name: bytes, url: str) -> None:
    """Any bytes that a file system takes give a normal, ASCII loc, or a refusal with a reason."""
    table = mapping(url, base="https://example.com/")
    try:
        loc = table.loc(b"/".join(folder), name)
    except Refused as refused:
        assert refused.rule in ("too-long", "too-short", "location")
        return
    loc.encode("ascii")
    assert normalise(loc, UrlRules(base="https://example.com/")).loc == loc


@given(one=names, other=names)
def test_two_names_never_share_an_address_by_encoding(one: bytes, other: bytes) -> None:
    """With the suffix kept and no index files, two files of a folder have two addresses."""
    table = mapping(base="https://example.com/", strip_extension=False, index_files=())
    if one == other or {one, other} & {b".", b".."}:
        return
    assert table.loc(b"folder", one) != table.loc(b"folder", other)


@pytest.mark.parametrize("slug", ["..", ".", "a/../../b", "/../x", "/%2e%2e/", "/a/%2E/b"])
def test_a_slug_never_leads_to_another_page(slug: str) -> None:
    """A dot segment would make the address another page's: it is refused with its reason."""
    mapping = Mapping("/docs/{path}/", UrlRules(base="https://example.com/"), index_files=("index.md",))
    for name in (b"page.md", b"index.md"):
        with pytest.raises(Refused, match="dot segment") as caught:
            mapping.loc(b"a", name, slug=slug)
        assert caught.value.rule == "dot-segment"


@pytest.mark.parametrize("address", ["/%2e%2e/", "/a/../b/", "https://example.com/a/.%2e/b"])
def test_an_address_of_its_own_has_no_dot_segment(address: str) -> None:
    """What a page calls its permalink is refused likewise; in a query dots are only dots."""
    mapping = Mapping("/{path}", UrlRules(base="https://example.com/"))
    with pytest.raises(Refused, match="dot segment"):
        mapping.own(address)
    assert mapping.own("/a?b=/../c") == "https://example.com/a?b=/../c"


def test_dots_within_a_segment_are_names() -> None:
    """`..a` and `...` are no dot segments."""
    mapping = Mapping("/{path}/", UrlRules(base="https://example.com/"))
    assert mapping.loc(b"", b"a.md", slug="..a") == "https://example.com/..a/"
    assert mapping.loc(b"", b"a.md", slug="...") == "https://example.com/.../"


def test_a_slug_with_a_lone_surrogate_is_refused() -> None:
    """JSON can write half a character, which no address can hold."""
    mapping = Mapping("/{path}/", UrlRules(base="https://example.com/"))
    with pytest.raises(Refused, match="surrogate"):
        mapping.loc(b"", b"a.md", slug="\ud800")
