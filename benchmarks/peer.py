"""The peer: what a nightly job does. Reads everything, writes every file anew, with lxml."""

from __future__ import annotations

import json
import time
from itertools import islice
from pathlib import Path

from lxml import etree

from benchmarks.urls import BASE
from sitemap_store.model.protocol import SITEMAP_NS


def rebuild(source: Path, folder: Path, shard_size: int = 1000) -> float:
    """Seconds to write the sitemaps of an NDJSON file and their index, in one process."""
    folder.mkdir(exist_ok=True)
    begin = time.perf_counter()
    names: list[str] = []
    with source.open("rb") as lines:
        while batch := list(islice(lines, shard_size)):
            names.append(f"peer-{len(names) + 1}.xml")
            _write(folder / names[-1], "urlset", "url", [json.loads(line) for line in batch])
    today = time.strftime("%Y-%m-%d")
    rows = [{"loc": BASE + name, "lastmod": today} for name in names]
    _write(folder / "peer.xml", "sitemapindex", "sitemap", rows)
    return time.perf_counter() - begin


def _write(file: Path, root: str, item: str, rows: list[dict[str, str]]) -> None:
    with etree.xmlfile(str(file), encoding="UTF-8") as xml:
        xml.write_declaration()
        with xml.element(root, nsmap={None: SITEMAP_NS}):
            for row in rows:
                with xml.element(item):
                    for name in ("loc", "lastmod"):
                        with xml.element(name):
                            xml.write(row[name])
