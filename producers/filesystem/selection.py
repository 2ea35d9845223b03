"""Which files are pages: names that never are, include and exclude patterns, `.sitemapignore`.

1. Dot files, editors' backups and half-written files are never pages, whatever the patterns say.
2. A file must match `include`, whatever the case of its letters, and neither it nor a folder above
   it may be left out.
3. Left out is what `exclude` or a `.sitemapignore` says, in git-ignore syntax. The patterns of a
   `.sitemapignore` are relative to its folder; a deeper file overrules the ones above it, and all
   of them overrule `exclude`. Folders that are left out are neither entered nor watched.
"""

from __future__ import annotations

import os
import re
from typing import Final

from pathspec import GitIgnoreSpec

from producers.filesystem.generators import is_parent
from producers.filesystem.paths import joined, split, upwards
from producers.filesystem.text import unmarked

IGNORE_FILE: Final = b".sitemapignore"
SWAPPED: Final = b"..data"
"""The link through which Kubernetes' volumes lead to their files; it is swapped when they change."""
_NEVER: Final = re.compile(
    rb"\..*"  # dot files: .#page.md of Emacs, .page.html.aB3dE5 of rsync, .page.md.swp of vim
    rb"|.*~|~\$.*|\#.*\#"  # backups, lock files of office programs, Emacs' unsaved texts
    rb"|.*\.(?:sw[a-p]|tmp|temp|part|partial|crdownload|bak|orig|rej)"
    rb"|.*___jb_(?:tmp|old|bak)___|4913",  # JetBrains' safe write, vim's probe
    re.DOTALL,
)
_SUFFIX: Final = re.compile(r"\*(\.[A-Za-z0-9_-]+)")


_ERRORS: Final = "40[0-9]|41[0-9]|42[0-9]|431|451|50[0-9]|511|4xx|5xx|50x"
_LANGUAGE: Final = "[A-Za-z]{2}(?:[-_][A-Za-z]{2,4})?"
_SERVICE: Final = re.compile(
    rf"(?:{_LANGUAGE}/)?(?:{_ERRORS})(?:/_?index)?\.[A-Za-z]+"
    r"|google[0-9a-f]+\.html|yandex_[0-9a-f]+\.(?:html|txt)|bingsiteauth\.xml|naver[0-9a-f]{20,}\.html"
    r"|(?:baidu[-_]verify_|pinterest-|mailru-verification|wmail_)[^/]*\.html".encode(),
    re.IGNORECASE,
)


def is_service_page(path: bytes) -> bool:
    """Whether a file is an error page, or there for a search engine to see whose site it is.

    Both lie at the top of a site, error pages of a language in its folder; deeper down 404 is a name
    like any.
    """
    return _SERVICE.fullmatch(path) is not None


def is_pattern(line: str) -> bool:
    """Whether a line can stand in an ignore file; comments and empty lines can."""
    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error):
        return False
    return True


def never_a_page(name: bytes) -> bool:
    """Whether a file or folder of that name is none that people publish."""
    return _NEVER.fullmatch(name) is not None


class Selection:
    """The rules of one source; `.sitemapignore` files are given to it as they are found."""

    def __init__(self, include: tuple[str, ...], exclude: tuple[str, ...], generator: str = "") -> None:
        suffixes = [_SUFFIX.fullmatch(pattern) for pattern in include]
        self._suffixes = (
            tuple(match[1].lower().encode() for match in suffixes if match) if all(suffixes) else None
        )
        self._include = GitIgnoreSpec.from_lines(pattern.lower() for pattern in include)
        self._exclude = GitIgnoreSpec.from_lines(exclude) if exclude else None
        self._ignores: dict[bytes, GitIgnoreSpec] = {}
        self._generator = generator

    def set_ignore(self, folder: bytes, text: bytes | None) -> list[str]:
        """Take in the text of a folder's `.sitemapignore`; None when it has none any more.

        Returns a sentence for each line that is no pattern; the others hold.
        """
        if not text:
            self._ignores.pop(folder, None)
            return []
        text, encoding = unmarked(text)
        wide = encoding.startswith("utf-16")
        written = text.decode(encoding, "ignore") if wide else os.fsdecode(text)
        good, bad = [], []
        lines = written.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for number, line in enumerate(lines, 1):
            if is_pattern(line):
                good.append(line)
            else:
                bad.append(f"line {number}, {line[:80]!a}, is no git-ignore pattern; the other lines hold")
        self._ignores[folder] = GitIgnoreSpec.from_lines(good)
        return bad

    def matters(self, name: bytes, is_folder: bool) -> bool:
        """Whether a page can depend on what happens to something of that name."""
        if name in (IGNORE_FILE, SWAPPED) or is_parent(self._generator, name):
            return True
        if not is_folder and self._suffixes is not None and not name.lower().endswith(self._suffixes):
            return False
        return not never_a_page(name)

    def is_page(self, folder: bytes, name: bytes) -> bool:
        """Whether the file is a page, given that its folder is entered."""
        if self._suffixes is None:
            if not self._include.match_file(_text(folder, name).lower()):
                return False
        elif not name.lower().endswith(self._suffixes):
            return False
        if _NEVER.fullmatch(name):
            return False
        return not (self._ignores or self._exclude) or not self._left_out(folder, name, "")

    def enters(self, folder: bytes, name: bytes) -> bool:
        """Whether the folder `name` in `folder` is entered, given that `folder` is."""
        return not never_a_page(name) and not self._left_out(folder, name, "/")

    def reaches(self, folder: bytes) -> bool:
        """Whether the folder itself and every folder above it is entered."""
        return all(self.enters(*split(each)) for each in upwards(folder) if each)

    def _left_out(self, folder: bytes, name: bytes, slash: str) -> bool:
        for above in upwards(folder) if self._ignores else ():
            spec = self._ignores.get(above)
            if spec is not None:
                below = folder[len(above) + 1 :] if above else folder
                verdict = spec.check_file(_text(below, name) + slash).include
                if verdict is not None:
                    return verdict
        return self._exclude is not None and self._exclude.match_file(_text(folder, name) + slash)


def _text(folder: bytes, name: bytes) -> str:
    return os.fsdecode(joined(folder, name))
