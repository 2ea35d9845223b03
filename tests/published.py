"""Reads a published tree the way a crawler does, and checks every rule on the way."""

from __future__ import annotations

import gzip
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from lxml import etree

from sitemap_store.model.protocol import IMAGE_NS
from sitemap_store.model.site import INDEX_FILE, SHARD_NAME

NS = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
IMAGE = f"{{{IMAGE_NS}}}"
SCHEMAS = Path(__file__).parent / "schemas"


def schema(name: str) -> etree.XMLSchema:
    """One of the project's own schemas."""
    return etree.XMLSchema(etree.parse(str(SCHEMAS / f"{name}.xsd")))


URLSET = schema("urlset")
SITEMAPINDEX = schema("sitemapindex")


@lru_cache(maxsize=4096)
def parse(data: bytes, rules: etree.XMLSchema) -> etree._Element:
    """Parse a file with lxml and validate it; remembered, since most files are seen again."""
    assert data.startswith(b'<?xml version="1.0" encoding="UTF-8"?>'), data[:60]
    root = etree.fromstring(data)
    rules.assertValid(root.getroottree())
    return root


def content(path: Path) -> bytes:
    """A published file's XML."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def index_files(folder: Path) -> list[Path]:
    """The index files of an output folder."""
    return sorted(path for path in folder.iterdir() if INDEX_FILE.fullmatch(path.name))


def listed(folder: Path) -> dict[str, str]:
    """File name → lastmod as the index files list them; every listed file must be there."""
    found: dict[str, str] = {}
    for path in index_files(folder):
        for sitemap in parse(path.read_bytes(), SITEMAPINDEX):
            name = (sitemap.findtext(f"{NS}loc") or "").rpartition("/")[2]
            assert SHARD_NAME.fullmatch(name), name
            assert name not in found, f"{name} is listed twice"
            assert (folder / name).is_file(), f"the index names {name}, which is not there"
            found[name] = sitemap.findtext(f"{NS}lastmod") or ""
    return found


def shard_files(folder: Path) -> list[Path]:
    """The shard files of an output folder, listed or not."""
    return sorted(path for path in folder.iterdir() if SHARD_NAME.fullmatch(path.name))


class Url(NamedTuple):
    """One URL of a shard file; None for what is not there."""

    loc: str
    lastmod: str | None
    changefreq: str | None
    priority: str | None


def urls_of(path: Path) -> list[Url]:
    """The URLs of a shard file."""
    return [
        Url(
            url.findtext(f"{NS}loc") or "",
            url.findtext(f"{NS}lastmod"),
            url.findtext(f"{NS}changefreq"),
            url.findtext(f"{NS}priority"),
        )
        for url in parse(content(path), URLSET)
    ]


def published(folder: Path) -> dict[str, tuple[str | None, str | None, str | None]]:
    """Every URL that a crawler finds from the index on; none may come twice."""
    found: dict[str, tuple[str | None, str | None, str | None]] = {}
    for name in listed(folder):
        for url in urls_of(folder / name):
            assert url.loc not in found, f"{url.loc} is published twice"
            found[url.loc] = (url.lastmod, url.changefreq, url.priority)
    return found


def images(folder: Path) -> dict[str, str]:
    """The URLs with an image, and their first."""
    found = {}
    for name in listed(folder):
        for url in parse(content(folder / name), URLSET):
            if image := url.findtext(f"{IMAGE}image/{IMAGE}loc"):
                found[url.findtext(f"{NS}loc") or ""] = image
    return found


def valid_now(folder: Path) -> None:
    """What must hold at every moment: whole, valid files, and no index that names a missing one."""
    listed(folder)
    for path in shard_files(folder):
        urls_of(path)


def picture(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """Bytes, inode and mtime of every file: to see what a change touched."""
    return {
        path.name: (path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns)
        for path in folder.iterdir()
        if path.is_file() and re.match(r"sitemap", path.name)
    }
