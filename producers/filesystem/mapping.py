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

import itertools
import os
import re
import string
from typing import Final, NamedTuple
from urllib.parse import unquote

from sitemap_store.errors import Refused
from sitemap_store.model.urls import UrlRules, normalise, quote_segment

MARKDOWN: Final = frozenset({b".md", b".markdown", b".mdown", b".mkd"})
MOST_SUFFIXES: Final = 100
"""Suffixes whose addresses are prepared at a time; in `page.1`, `page.2` they never end."""
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
        pieces = _pieces(template)
        if trailing_slash == "always" and not template.endswith("/"):
            pieces.append(_Piece("/", None))
        self._pieces = pieces
        self._pretty = _slash_follows_path(pieces)
        self._strip = strip_extension
        self._never = trailing_slash == "never"
        self._index = frozenset(name.encode() for name in index_files)
        before = pieces[0].literal
        self._folder_prefix = before[: before.rindex("/") + 1]
        self._folder = b""
        self._around: dict[bytes, list[str]] = {}
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
            if folder != self._folder or len(self._around) > MOST_SUFFIXES:  # files come folder by folder
                self._folder = folder
                self._around.clear()
            around = self._around.get(suffix)
            if around is None:
                around = self._around[suffix] = self._without_stem(folder, suffix)
            path = quoted(_octets(slug) if slug else stem).join(around)
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

    def _without_stem(self, folder: bytes, suffix: bytes) -> list[str]:
        """The addresses of a folder's files of one suffix, cut where their stem goes."""
        strip = self._strip
        if strip is None:
            strip = self._pretty or suffix.lower() in MARKDOWN
        above, ending = _quoted_folder(folder), quoted(suffix)
        parts = [""]
        for literal, field in self._pieces:
            parts[-1] += literal
            if field == "dir":
                parts[-1] += above[:-1]
            elif field == "ext":
                parts[-1] += quoted(suffix[1:])
            elif field is not None:
                if field == "path":
                    parts[-1] += above
                parts.append("" if field == "stem" or (field == "path" and strip) else ending)
        return parts


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
        detail = f"The slug {slug[:80]!a} holds a lone surrogate, which stands for no character."
        raise Refused(loc="", rule="control-character", detail=detail) from error


def quoted(path: bytes) -> str:
    """A relative path with each of its segments percent-encoded."""
    if _PLAIN.fullmatch(path):
        return path.decode("ascii")
    return "/".join(map(quote_segment, path.split(b"/")))


def _quoted_folder(folder: bytes) -> str:
    return quoted(folder) + "/" if folder else ""


class _Piece(NamedTuple):
    literal: str
    field: str | None


def _pieces(template: str) -> list[_Piece]:
    return [_Piece(literal, field) for literal, field, _, _ in string.Formatter().parse(template)]


def _slash_follows_path(pieces: list[_Piece]) -> bool:
    pairs = itertools.pairwise(pieces)
    followers = [after.literal for piece, after in pairs if piece.field == "path"]
    return bool(followers) and all(literal.startswith("/") for literal in followers)
