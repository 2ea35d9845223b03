"""Path → URL: pure, and the same for every file name that a file system allows.

1. `{path}` is the path below the directory, `{dir}` its folder, `{name}` the file's name, `{stem}`
   the name without its suffix, `{ext}` the suffix without its dot.
2. `{path}` loses the suffix of Markdown files always, and of all files where a slash follows it.
   `strip_extension` says otherwise.
3. An index file is its folder's page: what stands before the first placeholder, then the folder,
   then a slash.
4. Every segment is percent-encoded from its bytes: a file called `%20` is not one called ` `.
5. Runs of slashes, which an empty `{dir}` leaves behind, become one.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from sitemap_store.errors import Refused
from sitemap_store.model.urls import UrlRules, normalise, quote_segment

MARKDOWN: Final = frozenset({b".md", b".markdown", b".mdown", b".mkd"})
_PLAIN: Final = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=:@/-]*")
_SLASHES: Final = re.compile("/{2,}")


class Mapping:
    """The table of one source and site: `loc` maps a path, `at` an address from front matter."""

    def __init__(
        self,
        template: str,
        rules: UrlRules,
        *,
        index_files: tuple[str, ...] = (),
        strip_extension: bool | None = None,
        trailing_slash: str = "keep",
    ) -> None:
        if trailing_slash == "always" and not template.endswith("/"):
            template += "/"
        followers = re.findall(r"\{path\}(.?)", template)
        self._template = template
        self._strip = strip_extension
        self._is_pretty = bool(followers) and all(each == "/" for each in followers)
        self._never = trailing_slash == "never"
        self._index = frozenset(name.encode() for name in index_files)
        before = template[: template.index("{")]
        self._folder_prefix = before[: before.rindex("/") + 1]
        self._rules = rules
        self._base = rules.base[:-1]

    def loc(self, folder: bytes, name: bytes, *, slug: str = "") -> str:
        """The normalised address of the file `name` in `folder` (relative, "" for the root).

        `slug` takes the place of the stem, and of an index file's folder; one with a slash at its
        start, of the whole path. Raises Refused.
        """
        if slug.startswith("/"):
            return self.own(self._folder_prefix + slug.lstrip("/"))
        if name in self._index:
            if slug and folder:
                folder = folder[: folder.rfind(b"/") + 1] + _octets(slug)
            path = self._folder_prefix + _quoted_folder(folder)
        else:
            dot = name.rfind(b".")
            stem, suffix = (name[:dot], name[dot:]) if dot > 0 else (name, b"")
            strip = self._strip
            if strip is None:
                strip = self._is_pretty or suffix.lower() in MARKDOWN
            bare, ending = quoted(_octets(slug) if slug else stem), quoted(suffix)
            above, full = _quoted_folder(folder), bare + ending
            path = self._template.format(
                path=above + (bare if strip else full), dir=above[:-1], name=full, stem=bare, ext=ending[1:]
            )
        if "//" in path:
            path = _SLASHES.sub("/", path)
        if self._never and len(path) > 1 and path.endswith("/"):
            path = path[:-1]
        loc = self._base + path
        if "/." in path:
            _check_segments(path)
        elif self._rules.is_plain(loc):
            return loc  # as almost all; it is what `normalise` says, in half the time
        return normalise(loc, self._rules).loc

    def own(self, address: str) -> str:
        """`at` for an address that a page is to have: one with a dot segment is refused."""
        _check_segments(re.split(r"[?#]", address, maxsplit=1)[0])
        return self.at(address)

    def at(self, address: str) -> str:
        """The normalised address that a page gives itself: absolute, or below base_url.

        Raises Refused.
        """
        if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", address):
            address = f"{self._base}/{address.lstrip('/')}"
        return normalise(address, self._rules).loc


def _check_segments(path: str) -> None:
    for segment in path.split("/"):
        if unquote(segment) in (".", ".."):
            detail = (
                f"{path[:120]!r} has the dot segment {segment!r}, which would make it another page's "
                "address; write the address without it."
            )
            raise Refused(loc=path[:2048], rule="dot-segment", detail=detail)


def _octets(slug: str) -> bytes:
    try:
        return os.fsencode(slug)
    except UnicodeEncodeError as error:
        detail = f"The slug {slug[:80]!a} has a lone surrogate, which is not a character."
        raise Refused(loc="", rule="control-character", detail=detail) from error


def quoted(path: bytes) -> str:
    """A relative path with each of its segments percent-encoded."""
    if _PLAIN.fullmatch(path):
        return path.decode("ascii")
    return "/".join(map(quote_segment, path.split(b"/")))


@lru_cache(maxsize=16)  # files come folder by folder
def _quoted_folder(folder: bytes) -> str:
    return quoted(folder) + "/" if folder else ""
