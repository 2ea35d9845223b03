"""The settings of one filesystem source, checked when they are built."""

from __future__ import annotations

import dataclasses
import re
import string
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Final, NoReturn
from urllib.parse import unquote

from producers.filesystem.selection import is_pattern
from sitemap_store.errors import BadSetting, Refused
from sitemap_store.model.wire import check_source

PLACEHOLDERS: Final = ("path", "dir", "stem", "name", "ext")
LASTMOD_CHOICES: Final = ("front-matter", "meta", "git", "content", "mtime")
TRAILING_SLASH: Final = ("keep", "always", "never")
GENERATORS: Final = ("", "jekyll", "hugo", "eleventy", "astro", "docusaurus", "mkdocs", "grav", "hexo")
_HIDES_FUTURE: Final = ("", "jekyll", "hugo")
"""Generators that leave a page out until its `date` has come."""
_SOURCES_ONLY: Final = {
    "jekyll": (
        "_drafts/",
        "_includes/",
        "_layouts/",
        "_data/",
        "_sass/",
        "/_site/",
        "/vendor/",
        "node_modules/",
    ),
    "hugo": ("/archetypes/", "/layouts/", "/themes/", "/public/", "/resources/", "node_modules/"),
    "eleventy": ("_includes/", "_data/", "/_site/", "node_modules/"),
    "hexo": ("_drafts/", "/themes/", "/scaffolds/", "/public/", "node_modules/"),
}
"""Folders of templates, drafts and results, from which the generator makes no pages."""
POLLING: Final = ("auto", "always", "never")
_TELLING: Final = ("path", "stem", "name")
_TYPES: Final = {
    "str": (str,),
    "float": (int, float),
    "bool": (bool,),
    "bool | None": (bool, NoneType),
}
_NAMES: Final = {
    "str": "text",
    "float": "number",
    "bool": "true or false",
    "bool | None": "true or false",
}
_FIELD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemSource:
    """A content directory whose files are pages. Raises BadSetting, naming `watch.NAME.OPTION`."""

    name: str
    """What the entries' source says; letters, digits and ``. _ : -``."""
    directory: Path
    """May be a symbolic link that is swapped. It need not exist yet."""
    url: str = "/{path}"
    """The template of a page's address, below the site's base_url."""
    include: tuple[str, ...] = ("*.html", "*.htm", "*.md", "*.markdown")
    """Which files are pages: git-ignore patterns."""
    exclude: tuple[str, ...] = ()
    """Which files and folders are left out: git-ignore patterns."""
    index_files: tuple[str, ...] = (
        "index.html",
        "index.htm",
        "index.md",
        "index.markdown",
        "_index.md",
    )
    """Names of files that are the page of their folder."""
    strip_extension: bool | None = None
    """Take the suffix off in `{path}`; None: off Markdown files, and off all before a slash."""
    trailing_slash: str = "keep"
    """keep (as the template has it), always, or never."""
    generator: str = ""
    """What makes the site of the files, which decides what keeps a page out; "": any, at its strictest."""
    service_pages: bool = False
    """List error pages (404.html) and the files by which search engines verify a site."""
    front_matter: bool = True
    """Read what a file says of itself between `---`, `+++` or braces at its start."""
    html_head: bool = True
    """Read canonical, robots, refresh and modified time from the head of HTML files."""
    lastmod: tuple[str, ...] = ("front-matter", "mtime")
    """Where the date comes from; the first of them that has one decides. Empty: no lastmod."""
    lastmod_fields: tuple[str, ...] = ("lastmod", "updated", "last_modified_at", "modified", "date")
    """Front matter fields that may hold the date; the first that has one decides."""
    follow_symlinks: bool = False
    """Follow links below the directory, out of it too."""
    polling: str = "auto"
    """auto (where the file system tells no changes), always, or never."""
    poll_interval: float = 2.0
    """Seconds between two looks at the whole tree when polling."""
    rescan_interval: float = 3600.0
    """Seconds between two full comparisons with disk and state; 0 for none."""
    debounce: float = 0.1
    """Seconds that a path must be quiet before it is looked at."""
    debounce_max: float = 1.0
    """Seconds after which a path that is never quiet is looked at all the same."""
    max_delete: float = 0.2
    """The share of the source's URLs, 0 to 1, that a scan may delete if it is over 100 of them."""

    def __post_init__(self) -> None:
        try:
            check_source(self.name)
        except Refused as refused:
            raise BadSetting(setting=f"watch.{self.name}", detail=refused.detail) from refused
        self._check_types()
        self._check_url()
        if not self.include:
            self._bad("include", "is empty, so no file would be a page.")
        for name in self.index_files:
            if not name or "/" in name:
                self._bad("index_files", f"{name!r} is no file name.")
        for pattern in (*self.include, *self.exclude):
            if not pattern.strip() or "\n" in pattern or not is_pattern(pattern):
                option = "include" if pattern in self.include else "exclude"
                self._bad(option, f"{pattern!r} is no git-ignore pattern.")
        for field in self.lastmod_fields:
            if not _FIELD.fullmatch(field):
                self._bad("lastmod_fields", f"{field!r} is no field name.")
        for choice in self.lastmod:
            self._one_of("lastmod", choice, LASTMOD_CHOICES)
        self._one_of("trailing_slash", self.trailing_slash, TRAILING_SLASH)
        self._one_of("polling", self.polling, POLLING)
        self._one_of("generator", self.generator, GENERATORS)
        self._within("poll_interval", 0.05, 86_400)
        self._within("debounce", 0, 60)
        self._within("debounce_max", self.debounce, 600)
        self._within("max_delete", 0, 1)
        if self.rescan_interval != 0:
            self._within("rescan_interval", 1, 31 * 86_400)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The patterns of `exclude`, after those of the generator's own folders."""
        return (*_SOURCES_ONLY.get(self.generator, ()), *self.exclude)

    @property
    def opening_fields(self) -> tuple[str, ...]:
        """Front matter fields before whose date a page is not listed, by their plain names."""
        fields = ("publishdate", "pubdate")
        return (*fields, "date") if self.generator in _HIDES_FUTURE else fields

    def _check_types(self) -> None:
        for field in dataclasses.fields(self):
            value, kind = getattr(self, field.name), str(field.type)
            if kind.startswith("tuple"):
                # A configuration file may give one value where a list of one is meant.
                several = (value,) if isinstance(value, str) else tuple(value or ())
                if not all(isinstance(each, str) for each in several):
                    self._bad(field.name, f"{value!r} is no list of texts.")
                object.__setattr__(self, field.name, several)
            elif field.name == "directory":
                object.__setattr__(self, field.name, Path(value))
            elif not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and "bool" not in kind):
                self._bad(field.name, f"{value!r} is no {_NAMES[kind]}.")

    def _check_url(self) -> None:
        if not self.url.startswith("/"):
            self._bad("url", f"{self.url!r} must begin with a slash.", "Write /{path}")
        if "?" in self.url or "#" in self.url:
            self._bad("url", f"{self.url!r} has a ? or #; a file's address is a path.")
        try:
            parts = list(string.Formatter().parse(self.url))
        except ValueError as error:
            self._bad("url", f"{self.url!r} has a brace without its partner ({error}).")
        names = []
        if any(unquote(segment) in (".", "..") for segment in self.url.split("/")):
            self._bad("url", f"{self.url!r} has a dot segment, which would lead to another folder.")
        for _, name, form, conversion in parts:
            if name is None:
                continue
            if name not in PLACEHOLDERS or form or conversion:
                known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
                self._bad("url", f"{self.url!r} has {{{name}}}.", f"There are {known}.")
            names.append(name)
        if not set(names) & set(_TELLING):
            self._bad(
                "url",
                f"{self.url!r} gives all files of a folder one address.",
                "Use {path}, {stem} or {name}.",
            )

    def _one_of(self, option: str, value: str, choices: tuple[str, ...]) -> None:
        if value not in choices:
            self._bad(option, f"{value!r} is none of {', '.join(filter(None, choices))}.")

    def _within(self, option: str, low: float, high: float) -> None:
        value = getattr(self, option)
        if not low <= value <= high:
            self._bad(option, f"{value} is not within {low:g} to {high:g}.")

    def _bad(self, option: str, detail: str, hint: str = "") -> NoReturn:
        raise BadSetting(setting=f"watch.{self.name}.{option}", detail=detail, hint=hint)
