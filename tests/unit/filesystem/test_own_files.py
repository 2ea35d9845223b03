"""What sitemapd itself writes is no page of what it watches."""

import os
from pathlib import Path
from typing import Any

import pytest

from producers.filesystem.selection import Selection
from sitemap_store.errors import BadSetting
from sitemapd.settings import Settings
from sitemapd.sources import filesystem_sources


def selection(tmp_path: Path, output: str, *, data_dir: str = "state", **options: Any) -> Selection:
    """The rules of a source on `tmp_path`, with an output and a data_dir below it."""
    watch = {"pages": {"directory": tmp_path, "include": ["*"], **options}}
    site = {"base_url": "https://example.com/", "output": tmp_path / output, "watch": watch}
    settings = Settings.model_validate({"data_dir": tmp_path / data_dir, "sites": {"main": site}})
    (source,) = filesystem_sources(settings)["main"]
    return Selection(source.include, source.left_out)


@pytest.mark.parametrize("include", [["*"], ["*.xml", "*.gz", "*.html"], ["/*"]])
def test_a_watched_output_leaves_out_its_own_files(tmp_path: Path, include: list[str]) -> None:
    """The output may be the watched folder: what is published there sets nothing off."""
    rules = selection(tmp_path, ".", include=include)
    for name in (b"sitemap.xml", b"sitemap-2.xml", b"sitemap-pages-1.xml", b"sitemap-pages-1.xml.gz"):
        assert rules.matters(name, False)
        assert not rules.is_page(b"", name), name
    if include != ["*.xml", "*.gz", "*.html"]:
        assert rules.is_page(b"", b"about.txt")
    assert rules.is_page(b"", b"about.html")


@pytest.mark.parametrize("output", ["public", "a[1] !b#", "deep/*.d", "ends "])
def test_an_output_below_is_not_entered(tmp_path: Path, output: str) -> None:
    """Whatever its name: it is that folder and no pattern."""
    rules = selection(tmp_path, output)
    assert not rules.reaches(os.fsencode(output))
    assert not rules.enters(b"", b"state")
    assert rules.enters(b"", b"a1 !b#")
    assert rules.enters(b"deep", b"x.d")


def test_the_output_of_another_site_is_left_out_too(tmp_path: Path) -> None:
    """Two sites that watch each other's output would never come to rest."""
    sites = {
        name: {
            "base_url": f"https://{name}.example.com/",
            "output": tmp_path / other,
            "watch": {"pages": {"directory": tmp_path / name, "include": ["*"]}},
        }
        for name, other in (("one", "two"), ("two", "one"))
    }
    settings = Settings.model_validate({"data_dir": tmp_path / "state", "sites": sites})
    for (source,) in filesystem_sources(settings).values():
        assert not Selection(source.include, source.left_out).is_page(b"", b"sitemap.xml")


def test_data_dir_is_not_watched(tmp_path: Path) -> None:
    """Where the watcher keeps its own files it would see itself write."""
    with pytest.raises(BadSetting, match="folder of its own"):
        selection(tmp_path, "public", data_dir=".")
