"""The block of settings at the start of a file: YAML in `---`, TOML in `+++`, or a JSON object.

YAML's plain values stay the text that was written: `slug: 010` is `010`, and `slug: no` is `no`. Whoever asks
for a date, a boolean or a number reads it from that text.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from typing import Final

import yaml

from producers.filesystem.text import MARKS, unmarked
from sitemap_store.errors import SitemapdError

_YAML: Final = re.compile(r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE)
_TOML: Final = re.compile(r"\+\+\+[ \t]*\n(.*?)^\+\+\+[ \t]*$", re.DOTALL | re.MULTILINE)
_LONG_KEY: Final = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}""")
"""A TOML key of very many parts: the parser's memory grows with their square."""
_OPENERS: Final = (b"---", b"+++", b"{", *MARKS)
_KEPT_TAGS: Final = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")
_JSON: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


class FrontMatterError(SitemapdError):
    """A file's front matter is not written as its kind wants it."""


def _null(loader: yaml.CSafeLoader, node: yaml.Node) -> None:
    return None


def _as_written(loader: yaml.CSafeLoader, node: yaml.Node) -> object:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return str(node.value)


class _Text(yaml.CSafeLoader):
    """YAML whose scalars are text or null, whatever tag they have."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - a class attribute of PyYAML's own
        first: [(tag, form) for tag, form in known if tag in _KEPT_TAGS]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    yaml_constructors = {"tag:yaml.org,2002:null": _null, None: _as_written}  # noqa: RUF012 - likewise


def front_matter(data: bytes) -> dict[str, object]:
    """The fields of a file's front matter; empty when it has none.

    Names are in lower case and without ``-`` and ``_``, as publishDate and publish_date are one.
    Raises FrontMatterError.
    """
    return _fields(data, _block) if data.startswith(_OPENERS) else {}


def settings_file(data: bytes, suffix: str) -> dict[str, object]:
    """The fields of a file of nothing but settings, in JSON (`.json`) or YAML. Raises FrontMatterError."""
    return _fields(data, _JSON.decode if suffix == ".json" else _yaml)


def _fields(data: bytes, read: Callable[[str], object]) -> dict[str, object]:
    text = _decoded(data).replace("\r\n", "\n").replace("\r", "\n")
    try:
        found = read(text)
    except RecursionError:
        raise FrontMatterError("its front matter is nested too deeply") from None
    except (yaml.YAMLError, tomllib.TOMLDecodeError, ValueError, TypeError, OverflowError) as error:
        said = " ".join(str(error).split()).encode("ascii", "backslashreplace").decode()
        raise FrontMatterError(f"its front matter can't be read ({said[:200]})") from error
    if not isinstance(found, dict):
        return {}  # a line of text between two rules
    return {plain(name): value for name, value in found.items() if isinstance(name, str)}


def plain(name: str) -> str:
    """A field's name as `front_matter` gives it."""
    return name.lower().replace("-", "").replace("_", "")


def _yaml(text: str) -> object:
    return yaml.load(text, _Text)


def _block(text: str) -> object:
    if text.startswith("---"):
        match = _YAML.match(text)
        return _yaml(match[1]) if match else None
    if text.startswith("+++"):
        match = _TOML.match(text)
        if match and _LONG_KEY.search(match[1]):
            raise FrontMatterError("a key in its front matter has more than 64 parts")
        return tomllib.loads(match[1], parse_float=str) if match else None
    if not text.startswith("{") or text.startswith(("{{", "{%")):
        return None
    try:
        return _JSON.raw_decode(text)[0]
    except ValueError:
        return None  # a text may well begin with a brace


def _decoded(data: bytes) -> str:
    data, encoding = unmarked(data)
    if encoding.startswith("utf-16"):
        return data.decode(encoding, "ignore")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        # Cut in the middle of a character, or another encoding.
        tail = error.end >= len(data) - 3 and error.reason == "unexpected end of data"
        return data[: error.start].decode() if tail else data.decode("latin-1")
