"""The YAML that most front matter is: a name and a value a line, read without PyYAML.

PyYAML takes about 100 µs for a block of five lines, even with libyaml. This module reads a block
only when nothing in it can mean two things, and gives what PyYAML would. Escapes, values within values,
numbers other than small whole ones, tabs and comments behind values are left to PyYAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import yaml

_OTHERS: Final = r"\u00a1-\u2027\u2030-\ud7ff"
"""Characters beyond ASCII that YAML takes as they are: no controls and no line ends of its own."""
_LINE: Final = re.compile(
    r"([A-Za-z][A-Za-z0-9_-]{0,60}):(?: ++(?:"
    rf'"([ !#-\[\]-~{_OTHERS}]*)"'
    rf"|'([ -&(-~{_OTHERS}]*)'"
    rf'|([A-Za-z0-9/_](?:[ -"$-9;-~{_OTHERS}]++|:(?=[^ \n]))*+)'
    r"|\[([A-Za-z0-9 ,\"'._/-]*)\]"
    rf")?)? *+\n|(?:\#[ -~{_OTHERS}]*)?\n"
)
_LIST: Final = re.compile(r"( *)- [A-Za-z0-9 \"'._/-]+\n(?:\1- [A-Za-z0-9 \"'._/-]+\n)*")
_ITEM: Final = re.compile(r"([A-Za-z][A-Za-z0-9 ._/-]*)|\"([^\"']*)\"|'([^\"']*)'")
_END: Final = re.compile(r"(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)
_WORDS: Final[dict[str, bool | None]] = {
    form: meaning
    for word, meaning in (
        ("yes", True), ("true", True), ("on", True), ("no", False), ("false", False), ("off", False),
        ("null", None),
    )
    for form in (word, word.title(), word.upper())
}  # fmt: skip
_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_NUMBERS: Final = [
    form
    for tag, form in yaml.SafeLoader.yaml_implicit_resolvers["0"]
    if tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
]


def read_plain(text: str) -> dict[str, object] | None:
    """The fields of a YAML front matter from `---` on; None when it is PyYAML's to say what they are."""
    if not text.startswith("---\n"):
        return None
    fields: dict[str, object] = {}
    place = 4
    while match := _LINE.match(text, place):
        place = match.end()
        name, double, single, plain, items = match.groups()
        if name is None:
            continue
        value: object = None
        if plain is not None:
            value = plain = plain.rstrip(" ")
            if plain in _WORDS:
                value = _WORDS[plain]
            elif "0" <= plain[0] <= "9":
                if _WHOLE.fullmatch(plain):
                    value = int(plain)
                elif any(form.match(plain) for form in _NUMBERS):
                    return None
        elif double is not None:
            value = double
        elif single is not None:
            value = single
        elif items is not None:
            value = _items(items.split(",")) if items.strip(" ") else []
            if value is None:
                return None
        elif match := _LIST.match(text, place):
            place = match.end()
            value = _items(line.lstrip(" ")[2:] for line in match[0].splitlines())
            if value is None:
                return None
        if name in _WORDS:
            return None
        fields[name] = value
    return fields if _END.match(text, place) else None


def _items(texts: Iterable[str]) -> list[str] | None:
    found = []
    for item in texts:
        match = _ITEM.fullmatch(item.strip(" "))
        if match is None or match[1] in _WORDS:
            return None
        found.append(match[match.lastindex or 0])
    return found
