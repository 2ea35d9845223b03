"""The block of settings at the start of a file: YAML in `---`, TOML in `+++`, or a JSON object."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Final

import yaml

from producers.filesystem.plain_yaml import read_plain
from sitemap_store.errors import SitemapdError

_YAML: Final = re.compile(r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_TOML: Final = re.compile(r"\+\+\+[ \t]*\r?\n(.*?)^\+\+\+[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_OPENERS: Final = (b"---", b"+++", b"{", b"\xef\xbb\xbf")


class FrontMatterError(SitemapdError):
    """A file's front matter is not written as its kind wants it."""


class PlainDates(yaml.CSafeLoader):
    """YAML whose dates stay text: PyYAML raises on 0000-00-00 and shifts others."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - a class attribute of PyYAML's own
        first: [(tag, form) for tag, form in known if tag != "tag:yaml.org,2002:timestamp"]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def front_matter(data: bytes) -> dict[str, object]:
    """The fields of a file's front matter; empty when it has none.

    Names are in lower case and without ``-`` and ``_``, as publishDate and publish_date are one.
    Raises FrontMatterError.
    """
    if not data.startswith(_OPENERS):
        return {}
    text = _decoded(data.removeprefix(b"\xef\xbb\xbf"))
    try:
        found = _read(text)
    except RecursionError:
        raise FrontMatterError("its front matter is nested too deeply") from None
    except (yaml.YAMLError, tomllib.TOMLDecodeError, ValueError, TypeError, OverflowError) as error:
        said = " ".join(str(error).split())
        raise FrontMatterError(f"its front matter can't be read ({said[:200]})") from error
    if not isinstance(found, dict):
        return {}  # a line of text between two rules
    return {plain(name): value for name, value in found.items() if isinstance(name, str)}


def plain(name: str) -> str:
    """A field's name as `front_matter` gives it."""
    return name.lower().replace("-", "").replace("_", "")


def _read(text: str) -> object:
    if text.startswith("---"):
        fields = read_plain(text)
        if fields is not None:
            return fields
        match = _YAML.match(text)
        return yaml.load(match[1], PlainDates) if match else None
    if text.startswith("+++"):
        match = _TOML.match(text)
        return tomllib.loads(match[1].replace("\r\n", "\n")) if match else None
    if not text.startswith("{") or text.startswith(("{{", "{%")):
        return None
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except ValueError:
        return None  # a text may well begin with a brace


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        # Cut in the middle of a character, or another encoding.
        tail = error.end >= len(data) - 3 and error.reason == "unexpected end of data"
        return data[: error.start].decode() if tail else data.decode("latin-1")
