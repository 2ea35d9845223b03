"""Hostile files: `sitemapd check` reads what it can, says what it left, and stays small."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest

from sitemap_store.check import content, folder
from sitemap_store.check.address import UNKNOWN
from tests.check_trees import BASE, HEAD, check, check_written, index, url, urlset, write

ROOT = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
MIB = 1024 * 1024


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("<url>" + "<a>" * 200_000, id="deep"),
        pytest.param("<url>" + "<a/>" * 100_000, id="many children"),
        pytest.param("<url><loc>" + "a" * 12 * MIB, id="long text"),
        pytest.param("<url><a b='" + "a" * 3 * MIB, id="long attribute"),
        pytest.param("<!--" + "a" * 3 * MIB, id="long comment"),
        pytest.param("<url>" + "".join(f"<a{number}/>" for number in range(2_000)), id="many names"),
        pytest.param(
            "<url>" + "".join(f"<a b{number}=''/>" for number in range(2_000)), id="many attributes"
        ),
        pytest.param(
            "<url>" + "".join(f"<a xmlns='{number}'/>" for number in range(2_000)), id="many namespaces"
        ),
    ],
)
def test_markup_that_no_sitemap_has_ends_the_reading(tmp_path: Path, text: str) -> None:
    """One finding, with less memory than a tree of the file would take."""
    write(tmp_path, {"sitemap.xml": HEAD + ROOT + text})
    del text
    tracemalloc.start()
    try:
        found, _ = check_written(tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [each.code for each in found] == ["hostile-markup"]
    assert peak < 48 * MIB


@pytest.mark.parametrize("name", ["sitemap.xml", "sitemap.xml.gz"])
def test_no_more_than_the_bound_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Of a file, or of what a small one unpacks to; its URLs until there are checked."""
    monkeypatch.setattr(content, "READ_MAX", MIB)
    data = (urlset(url("b a"), url())[: -len("</urlset>\n")] + " " * 2 * MIB + "</urlset>").encode()
    found = check(tmp_path, {name: gzip.compress(data) if name.endswith(".gz") else data})
    assert {each.code for each in found} == {"not-normalised", "too-large-to-read"}


def test_a_bomb_in_gzip_costs_no_memory(tmp_path: Path) -> None:
    """64 KiB that unpack to 64 MiB are read in pieces."""
    write(tmp_path, {"sitemap.xml.gz": gzip.compress(b" " * 64 * MIB)})
    tracemalloc.start()
    try:
        found, _ = check_written(tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert {each.code for each in found} >= {"not-well-formed", "too-many-bytes"}
    assert peak < 8 * MIB


def test_entities_are_not_resolved(tmp_path: Path) -> None:
    """Neither a file of this machine nor a billion laughs get into a finding or into memory."""
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    entities = f'<!ENTITY s SYSTEM "{secret.as_uri()}"><!ENTITY a "{"a" * 1000}"><!ENTITY b "{"&a;" * 1000}">'
    text = f"{HEAD}<!DOCTYPE urlset [{entities}]>{ROOT}{url('&s;')}{url('&b;')}</urlset>"
    for data in (text.encode(), text.replace("UTF-8", "UTF-16").encode("utf-16")):
        found = check(tmp_path / "tree", {"sitemap.xml": data})
        assert "doctype" in {each.code for each in found}
        assert "hunter2" not in str(found)


def test_findings_are_counted_and_only_some_are_kept(tmp_path: Path) -> None:
    """Ten thousand wrong URLs take the room of twenty, and a value is cut."""
    write(tmp_path, {"sitemap.xml": urlset(*(url(f"é{number}" + "x" * 900) for number in range(10_000)))})
    found, tree = check_written(tmp_path, most=20)
    assert len(found) == 20
    assert tree.findings.counts["not-normalised"] == 10_000
    assert max(len(each.value) for each in found) <= 201


def test_values_are_printable(tmp_path: Path) -> None:
    """A terminal must not do what a sitemap says."""
    found = check(tmp_path, {"sitemap.xml": urlset("<url><loc>x&#x9b;31m&#xd;\u202e</loc></url>")})
    assert found
    assert all(each.value.isprintable() and each.detail.isprintable() for each in found)


def test_an_index_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    """Dots in an address, written or encoded, and links are no way to a file outside."""
    write(tmp_path, {"secret.xml": "<secret/>"})
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "sitemap-link.xml").symlink_to(tmp_path / "secret.xml")
    names = (
        "../secret.xml",
        "%2e%2e/secret.xml",
        "..%2Fsecret.xml",
        "/secret.xml",
        "sitemap-link.xml",
        "%00",
    )
    found = check(tmp_path / "tree", {"sitemap.xml": index(*names)})
    assert {each.file for each in found} == {"sitemap.xml"}
    assert "wrong-root" not in {each.code for each in found}


def test_an_index_that_lists_itself_ends(tmp_path: Path) -> None:
    """A ring of index files is read once."""
    found = check(tmp_path, {"sitemap.xml": index("sitemap-b.xml"), "sitemap-b.xml": index("sitemap.xml")})
    assert [each.code for each in found] == ["index-in-index", "index-in-index"]


def test_a_tree_has_a_largest_number_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is named and not read."""
    monkeypatch.setattr(folder, "FILES_MAX", 2)
    files = {f"sitemap-{number}.xml": urlset(url(f"p{number}")) for number in range(4)}
    assert [each.code for each in check(tmp_path, files)] == ["too-many-files"]


@pytest.mark.parametrize(
    ("files", "base"),
    [
        ({"sitemap.xml": index("a.xml"), "a.xml": urlset(url())}, BASE),
        ({"sitemap.xml": index("shop/a.xml"), "a.xml": urlset(url("shop/a"))}, f"{BASE}shop/"),
        ({"s/sitemap.xml": index("s/a.xml"), "s/a.xml": urlset(url("s/a"))}, BASE),
        ({"robots.txt": f"Sitemap: {BASE}x/sitemap.xml", "sitemap.xml": urlset(url("x/a"))}, f"{BASE}x/"),
        ({"shop/sitemap.xml": urlset(url("shop/a"))}, BASE),
        ({"sitemap.xml": urlset()}, UNKNOWN),
    ],
)
def test_the_address_of_a_folder_is_inferred(tmp_path: Path, files: dict[str, str], base: str) -> None:
    """From what the index or robots.txt lists, where such a file is; else from the first URL."""
    write(tmp_path, files)
    found, tree = check_written(tmp_path, base=None)
    assert tree.files[0].where.base.startswith(base)
    assert {each.code for each in found} <= {"empty"}
