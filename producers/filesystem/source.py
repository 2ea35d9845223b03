"""The settings of one filesystem source, checked when they are built."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, Self
from urllib.parse import unquote

from pydantic import AfterValidator, Field, field_validator, model_validator

from producers.filesystem.selection import is_pattern
from producers.settings import SEVERAL, SourceSettings, Texts, within

PLACEHOLDERS: Final = ("path", "dir", "stem", "name", "ext")
Generator = Literal["", "jekyll", "hugo", "eleventy", "astro", "docusaurus", "mkdocs", "grav", "hexo"]
Dates = Literal["front-matter", "meta", "git", "content", "mtime"]
"""Where a page's date may come from."""
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
_TELLING: Final = ("path", "stem", "name")
_FIELD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def _patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        if not pattern.strip() or "\n" in pattern or not is_pattern(pattern):
            raise ValueError(f"{pattern!r} is no git-ignore pattern.")
    return patterns


Patterns = Annotated[Texts, AfterValidator(_patterns)]


class FilesystemSource(SourceSettings):
    """A content directory whose files are pages. Raises BadSetting, named `watch.NAME.OPTION`."""

    group: ClassVar[str] = "watch"

    directory: Annotated[Path, Field(strict=False)]
    """May be a symbolic link that is swapped. It need not exist yet."""
    url: str = "/{path}"
    """The template of a page's address, below the site's base_url."""
    include: Patterns = ("*.html", "*.htm", "*.md", "*.markdown")
    """Which files are pages: git-ignore patterns."""
    exclude: Patterns = ()
    """Which files and folders are left out: git-ignore patterns."""
    index_files: Texts = (
        "index.html",
        "index.htm",
        "index.md",
        "index.markdown",
        "_index.md",
    )
    """Names of files that are the page of their folder."""
    strip_extension: bool | None = None
    """Take the suffix off in `{path}`; None: off Markdown files, and off all before a slash."""
    trailing_slash: Literal["keep", "always", "never"] = "keep"
    """keep (as the template has it), always, or never."""
    generator: Generator = ""
    """What makes the site of the files, which decides what keeps a page out; "": any, at its strictest."""
    service_pages: bool = False
    """List error pages (404.html) and the files by which search engines verify a site."""
    front_matter: bool = True
    """Read what a file says of itself between `---`, `+++` or braces at its start."""
    html_head: bool = True
    """Read canonical, robots, refresh and modified time from the head of HTML files."""
    images: Literal["off", "og"] = "off"
    """og: list `og:image` of the head, and `images` or `image` of the front matter, as the page's images."""
    alternates: bool = True
    """List the languages that the head of an HTML file names by `<link rel="alternate" hreflang>`."""
    lastmod: Annotated[tuple[Dates, ...], SEVERAL] = ("front-matter", "mtime")
    """Where the date comes from; the first of them that has one decides. Empty: no lastmod."""
    lastmod_fields: Texts = ("lastmod", "updated", "last_modified_at", "modified", "date")
    """Front matter fields that may hold the date; the first that has one decides."""
    follow_symlinks: bool = False
    """Follow links below the directory, out of it too."""
    polling: Literal["auto", "always", "never"] = "auto"
    """auto (where the file system tells no changes), always, or never."""
    poll_interval: Annotated[float, within(0.05, 86_400)] = 2.0
    """Seconds between two looks at the whole tree when polling."""
    rescan_interval: Annotated[float, within(1, 31 * 86_400, zero=True)] = 3600.0
    """Seconds between two full comparisons with disk and state; 0 for none."""
    debounce: Annotated[float, within(0, 60)] = 0.1
    """Seconds that a path must be quiet before it is looked at."""
    debounce_max: Annotated[float, within(0, 600)] = 1.0
    """Seconds after which a path that is never quiet is looked at all the same."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """The patterns of `exclude`, after those of the generator's own folders."""
        return (*_SOURCES_ONLY.get(self.generator, ()), *self.exclude)

    @property
    def opening_fields(self) -> tuple[str, ...]:
        """Front matter fields before whose date a page is not listed, by their plain names."""
        fields = ("publishdate", "pubdate")
        return (*fields, "date") if self.generator in _HIDES_FUTURE else fields

    @field_validator("url")
    @classmethod
    def _is_template(cls, url: str) -> str:
        if not url.startswith("/"):
            raise ValueError(f"{url!r} must begin with a slash. Write /{{path}}")
        if "?" in url or "#" in url:
            raise ValueError(f"{url!r} has a ? or #; a file's address is a path.")
        if any(unquote(segment) in (".", "..") for segment in url.split("/")):
            raise ValueError(f"{url!r} has a dot segment, which would lead to another folder.")
        try:
            parts = list(string.Formatter().parse(url))
        except ValueError as error:
            raise ValueError(f"{url!r} has a brace without its partner ({error}).") from error
        for _, name, form, conversion in parts:
            if name is not None and (name not in PLACEHOLDERS or form or conversion):
                known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
                raise ValueError(f"{url!r} has {{{name}}}. There are {known}.")
        if not any(name in _TELLING for _, name, _, _ in parts):
            raise ValueError(
                f"{url!r} gives all files of a folder one address. Use {{path}}, {{stem}} or {{name}}."
            )
        return url

    @field_validator("include")
    @classmethod
    def _includes_any(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        if not patterns:
            raise ValueError("is empty, so no file would be a page.")
        return patterns

    @field_validator("index_files")
    @classmethod
    def _are_file_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not name or "/" in name:
                raise ValueError(f"{name!r} is no file name.")
        return names

    @field_validator("lastmod_fields")
    @classmethod
    def _are_field_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not _FIELD.fullmatch(name):
                raise ValueError(f"{name!r} is no field name.")
        return names

    @model_validator(mode="after")
    def _waits_as_long_as_debounce(self) -> Self:
        if self.debounce_max < self.debounce:
            self.bad("debounce_max", f"{self.debounce_max} is not within {self.debounce:g} to 600.")
        return self
