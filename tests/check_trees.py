"""Small sitemap trees for the tests of `sitemapd check`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sitemap_store.check.findings import Finding, Findings
from sitemap_store.check.folder import check_folder, find_sitemaps
from sitemap_store.check.tree import Tree
from sitemap_store.model.protocol import IMAGE_NS, NEWS_NS, SITEMAP_NS, VIDEO_NS, XHTML_NS

BASE: Final = "https://example.com/"
NOW: Final = 1_790_000_000_000
"""2026-09-21T14:13:20Z."""
HEAD: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
SPACES: Final = (
    f'xmlns:image="{IMAGE_NS}" xmlns:video="{VIDEO_NS}" xmlns:news="{NEWS_NS}" xmlns:xhtml="{XHTML_NS}"'
)


def url(path: str = "a", more: str = "") -> str:
    """One `<url>` of the site on a line, with further children as they are."""
    return f"<url><loc>{BASE}{path}</loc>{more}</url>\n"


def urlset(*urls: str, root: str = f'urlset xmlns="{SITEMAP_NS}"', head: str = HEAD) -> str:
    """A sitemap whose first URL stands on line 3."""
    return f"{head}<{root}>\n{''.join(urls)}</{root.split()[0]}>\n"


def extended(more: str, path: str = "a") -> str:
    """A sitemap of one URL with extensions."""
    return urlset(url(path, more), root=f'urlset xmlns="{SITEMAP_NS}" {SPACES}')


def index(*files: str, lastmod: str = "") -> str:
    """An index that lists files of the site's folder, the first on line 3."""
    date = f"<lastmod>{lastmod}</lastmod>" if lastmod else ""
    rows = "".join(f"<sitemap><loc>{BASE}{file}</loc>{date}</sitemap>\n" for file in files)
    return f'{HEAD}<sitemapindex xmlns="{SITEMAP_NS}">\n{rows}</sitemapindex>\n'


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files into a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def check(
    folder: Path, files: Mapping[str, str | bytes], *, base: str | None = BASE, most: int = 100
) -> list[Finding]:
    """Write files, and check them as the site's."""
    write(folder, files)
    return check_written(folder, base=base, most=most)[0]


def check_written(folder: Path, *, base: str | None = BASE, most: int = 100) -> tuple[list[Finding], Tree]:
    """Check the files of a folder; what was found, and the tree."""
    findings = Findings(most)
    tree = Tree(findings, NOW)
    robots = folder / "robots.txt"
    try:
        check_folder(
            tree,
            folder,
            find_sitemaps(folder),
            base=base,
            robots=robots if robots.exists() else None,
            whole=True,
            show=lambda path: str(path.relative_to(folder)),
        )
    finally:
        tree.close()
    return list(findings), tree
