"""The files by which a generator's pages inherit front matter, and what they give to which pages.

1. Hugo: `cascade` in a folder's `_index` file gives fields to that page and to all below: one map, or a list
   of maps, each of which may have a `target`. A page's own field wins, then the nearest folder's, then the
   earlier map's (gohugo.io, "Front matter", "Configure cascade"). An `_index` file that is a draft, in the
   future or expired hides its own page alone: Hugo builds what is below, unless a cascade says otherwise
   (gohugo.io, "Basic usage"; so since 0.123).
   A folder with an `index` file is a leaf bundle: all other files in it and below are resources of
   that page ("Page bundles"). The watched folder itself is never taken for a bundle.
2. Eleventy: `posts/posts.json` and `posts/posts.11tydata.json` hold data of all pages below `posts/`,
   `page.json` and `page.11tydata.json` those of the page beside them. The page's own win, then the nearer
   folder's, then 11tydata; maps are merged (11ty.dev, "Template and directory specific data files"). Data
   files in JavaScript are programs, and not read.
3. Jekyll: `defaults` in `_config.yml` give fields by path and type. The longer path wins, then the one with
   a type, then the later one; maps are merged (jekyllrb.com, "Front matter defaults").
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from collections.abc import Mapping as Fields
from functools import lru_cache
from typing import Final, NamedTuple

from producers.filesystem.front_matter import FrontMatterError, front_matter, plain, settings_file

_LANGUAGE: Final = r"(?:\.([a-z]{2}(?:-[a-z]{2,4})?))?"
_CONTENT: Final = r"\.(?:md|markdown|mdown|html?|org|adoc|asciidoc|ad|rst|pandoc|pdc)"
_PAGE: Final = re.compile(rf"(.+?){_LANGUAGE}\.[a-z]+")
_BRANCH: Final = re.compile(rf"_index{_LANGUAGE}{_CONTENT}")
_DEFAULT: Final = {"lang": "en", "environment": "production"}
"""Hugo's own: the language of a file whose name has none, and the environment of `hugo` without options."""
_TAXONOMIES: Final = ("tags", "categories")
_NOT_PASSED: Final = ("target", "params", "kind", "path", "lang", "cascade")
_SINGULAR: Final = ("page", "post", "draft")
_TOKEN: Final = re.compile(r"\\(.)|(\[[^\]]+\])|(\*\*|.)", re.DOTALL)


class Rule(NamedTuple):
    """What pages inherit whose aspects match all the patterns of `target`."""

    fields: Fields[str, object]
    target: tuple[tuple[str, str], ...] | None = ()
    """Names of aspects, each with a shell pattern; None for all that its folder holds beside its own page."""
    why: str = ""
    """Why such pages are not to be listed, whatever they say of themselves."""


class Generator(NamedTuple):
    """How one generator passes front matter on."""

    parents: re.Pattern[bytes]
    """The names of files that pages may inherit from."""
    choose: Callable[[list[bytes], bytes, bytes], list[bytes]]
    """Of the names in a folder with that title those of such files; the first of them wins."""
    read: Callable[[bytes, bytes, bytes, Callable[[], bytes]], list[Rule]]
    """The rules in such a file: folder, the title of that, name, how to read it. Raises FrontMatterError."""
    aspects: Callable[[bytes, bytes], Fields[str, str]]
    """What is known of a page by its folder and name."""
    merges: bool
    """Maps are merged, and not replaced."""

    def placed(self, rule: Rule, folder: bytes) -> Rule:
        """A rule of a folder with the patterns that its target means there."""
        if rule.target is not None:
            return rule
        path = self.aspects(folder, b"index.md")["path"]
        return rule._replace(target=(("path", f"{literal(path)}/**"),))


def matches(rule: Rule, aspects: Fields[str, str]) -> bool:
    """Whether a page with these aspects inherits by a rule that is `placed`."""
    return all(glob(pattern).fullmatch(aspects[name]) for name, pattern in rule.target or ())


_BUNDLE: Final = Rule({}, None, "no page")
"""One object for all: a site may have a hundred thousand bundles."""


def _hugo_page(folder: bytes, name: bytes) -> dict[str, str]:
    place = os.fsdecode(folder).lower().replace(" ", "-")
    file = os.fsdecode(name).lower().replace(" ", "-")
    match = _PAGE.fullmatch(file)
    stem, language = match.groups() if match else (file, None)
    kind = "page"
    if stem == "_index":
        top, _, below = place.partition("/")
        kind = "home" if not place else "section"
        if top in _TAXONOMIES:
            kind = "term" if below else "taxonomy"
    path = "/".join(filter(None, (place, "" if stem in ("index", "_index") else stem)))
    return _DEFAULT | {"path": f"/{path}", "kind": kind} | ({"lang": language} if language else {})


def _hugo_rules(folder: bytes, title: bytes, name: bytes, data: Callable[[], bytes]) -> list[Rule]:
    branch = _BRANCH.fullmatch(os.fsdecode(name).lower())
    if branch is None:
        # HTML without front matter is what Hugo made, and not what it makes pages from.
        is_page = not name.lower().endswith((b".html", b".htm")) or front_matter(data())
        return [_BUNDLE] if folder and is_page else []
    rules = []
    for cascade in _maps(front_matter(data()).get("cascade")):
        options = {plain(key): value for key, value in cascade.items()}
        fields = {key: value for key, value in options.items() if key not in _NOT_PASSED}
        for params in _maps(options.get("params")):
            fields = {plain(key): value for key, value in params.items()} | fields
        target = {"lang": branch[1]} if branch[1] else {}
        for wanted in _maps(options.get("target")):
            target |= {key.lower(): value.lower() for key, value in wanted.items() if isinstance(value, str)}
            if languages := _inner(wanted, "sites", "matrix", "languages"):
                several = languages if isinstance(languages, list) else [languages]
                target["lang"] = f"{{{','.join(str(each).lower() for each in several)}}}"
        rules.append(_rule(fields, target, ("path", "kind", "lang", "environment")))
    return rules


def _eleventy_files(names: list[bytes], folder: bytes, title: bytes) -> list[bytes]:
    pages = {name.rpartition(b".")[0] for name in names if not name.endswith(b".json")}
    stems = {name: _data_stem(name) for name in names if name.endswith(b".json")}
    found = [name for name, stem in stems.items() if stem == title or stem in pages]
    return sorted(found, key=lambda name: (stems[name] == title, b".11tydata." not in name))


def _eleventy_rules(folder: bytes, title: bytes, name: bytes, data: Callable[[], bytes]) -> list[Rule]:
    fields, stem = settings_file(data(), ".json"), _data_stem(name)
    if stem == title:
        return [Rule(fields)]
    return [_rule(fields, {"path": literal(_eleventy_page(folder, stem + b".md")["path"])}, ("path",))]


def _data_stem(name: bytes) -> bytes:
    return name.removesuffix(b".json").removesuffix(b".11tydata")


def _eleventy_page(folder: bytes, name: bytes) -> dict[str, str]:
    return {"path": os.fsdecode(os.path.join(folder, name.rpartition(b".")[0]))}


def _jekyll_rules(folder: bytes, title: bytes, name: bytes, data: Callable[[], bytes]) -> list[Rule]:
    ranked = []
    for number, default in enumerate(_maps(settings_file(data(), ".yml").get("defaults"))):
        target: dict[str, str] = {}
        for scope in _maps(default.get("scope") or {}):
            path, kind = (str(scope.get(key) or "").strip("/") for key in ("path", "type"))
            if path:
                target["path"] = f"{path if '*' in path else literal(path)}{{,/**}}"
            if kind:
                target["type"] = f"{kind}s" if kind in _SINGULAR else kind
            ranked.append(((len(path), bool(kind), number), target, default))
    rules = []
    for _, target, default in sorted(ranked, key=lambda each: each[0], reverse=True):
        for values in _maps(default.get("values")):
            fields = {plain(key): value for key, value in values.items()}
            rules.append(_rule(fields, target, ("path", "type")))
    return rules


def _jekyll_page(folder: bytes, name: bytes) -> dict[str, str]:
    special = [part[1:] for part in os.fsdecode(folder).split("/") if part.startswith("_")]
    return {"path": os.fsdecode(os.path.join(folder, name)), "type": special[-1] if special else "pages"}


def _rule(fields: Fields[str, object], target: Fields[str, str], aspects: Iterable[str]) -> Rule:
    patterns = tuple((aspect, target[aspect]) for aspect in aspects if target.get(aspect))
    for _, pattern in patterns:
        try:
            glob(pattern)
        except re.error as error:
            raise FrontMatterError(f"{pattern!r} is no pattern of pages") from error
    return Rule(fields, patterns)


def _inner(value: object, *keys: str) -> object:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _maps(value: object) -> list[dict[str, object]]:
    several = value if isinstance(value, list) else [value]
    return [{str(key): each[key] for key in each} for each in several if isinstance(each, dict)]


def literal(text: str) -> str:
    """The pattern that matches a text and nothing else."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", text)


@lru_cache(maxsize=1024)
def glob(pattern: str) -> re.Pattern[str]:
    r"""A shell pattern with `**`, `[a-z]`, `{one,two}` and `\`. Raises re.error."""
    depth, written = 0, ""
    for escaped, group, char in _TOKEN.findall(pattern):
        if group:
            written += group.replace("[!", "[^", 1)
        elif char in ("{", "}"):
            depth += 1 if char == "{" else -1
            written += "(?:" if char == "{" else ")"
        elif char == "," and depth:
            written += "|"
        else:
            written += {"**": ".*", "*": "[^/]*", "?": "[^/]"}.get(char) or re.escape(escaped or char)
    return re.compile(written, re.DOTALL)


GENERATORS: Final = {
    "hugo": Generator(
        parents=re.compile(rf"_?index{_LANGUAGE}{_CONTENT}".encode(), re.IGNORECASE),
        choose=lambda names, folder, title: sorted(names),
        read=_hugo_rules,
        aspects=_hugo_page,
        merges=False,
    ),
    "eleventy": Generator(
        parents=re.compile(rb".+\.json"),
        choose=_eleventy_files,
        read=_eleventy_rules,
        aspects=_eleventy_page,
        merges=True,
    ),
    "jekyll": Generator(
        parents=re.compile(rb"_config\.ya?ml"),
        choose=lambda names, folder, title: [] if folder else sorted(names),
        read=_jekyll_rules,
        aspects=_jekyll_page,
        merges=True,
    ),
}


def is_parent(generator: str, name: bytes) -> bool:
    """Whether pages may inherit from a file of that name."""
    found = GENERATORS.get(generator)
    return found is not None and found.parents.fullmatch(name) is not None
