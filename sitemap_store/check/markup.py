"""Reads the XML of a sitemap in one pass, of any size, in bounded memory.

Expat and not lxml: it gives the line of every element, and builds no tree that a hostile file could let grow.

1. Nothing is resolved: a DOCTYPE ends the reading before any entity is declared.
2. One child of the root (in RSS 2.0: of its channel) is kept at a time, with everything below it, and handed
   out when its end tag comes.
3. What expat keeps for the whole file (names, namespaces, open tags, an unfinished tag) is bounded by the
   numbers below; a file beyond them is no sitemap and raises Broken ("hostile-markup").
"""

from __future__ import annotations

from typing import Any, Final
from xml.parsers import expat

from sitemap_store.check.content import Broken

_DEPTH: Final = 16
_NAMES: Final = 1_000
"""Names of elements, attributes and namespaces of one file."""
_NODES: Final = 50_000
"""Elements below one child of the root."""
_ITEM_BYTES: Final = 8 * 1024 * 1024
"""Bytes of one child of the root."""
_TAG_BYTES: Final = 1024 * 1024
"""Bytes that expat holds while it waits for the end of a tag."""
_SEPARATOR: Final = " "
_SHOWN: Final = 200


class Node:
    """One element: what was written, and where."""

    __slots__ = ("attributes", "children", "line", "name", "namespace", "text")

    def __init__(self, qualified: str, attributes: dict[str, str], line: int) -> None:
        self.namespace, _, self.name = qualified.rpartition(_SEPARATOR)
        self.attributes = attributes
        """Those in a namespace have it before the name, with a space between."""
        self.line = line
        self.text = ""
        """The element's own text, without that of its children."""
        self.children: list[Node] = []


class Markup:
    """A reader that is fed with pieces of one file.

    `skipped` is how many lines were cut off before the first piece. `encoding` counts instead of the one that
    the file declares; LookupError when Python has none of that name.
    """

    def __init__(self, skipped: int = 0, encoding: str | None = None) -> None:
        self.root: Node | None = None
        """The root element, without its children."""
        self.encoding = "utf-8"
        """As the file declares it, in lower case."""
        self._skipped = skipped
        self._done: list[Node] = []
        self._open: list[Node] = []
        self._fed = 0
        self._begin = 0
        self._nodes = 0
        self._level = 1
        """How deep the elements lie that are handed out."""
        self._names: set[str] = set()
        self._parser = parser = expat.ParserCreate(encoding, _SEPARATOR)
        parser.buffer_text = True
        parser.buffer_size = 65_536
        parser.XmlDeclHandler = self._declared
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartNamespaceDeclHandler = self._namespace
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text

    def feed(self, piece: bytes, *, last: bool = False) -> list[Node]:
        """The elements to hand out that end in this piece. Raises Broken."""
        self._fed += len(piece)
        try:
            self._parser.Parse(piece, last)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code) or "unknown"
            raise self._broken("not-well-formed", reason, line=error.lineno) from error
        except (LookupError, ValueError) as error:
            raise self._broken("encoding", str(error)) from error
        if self._fed - self._parser.CurrentByteIndex > _TAG_BYTES:
            raise self._broken("hostile-markup", "a tag is longer than 1 MiB")
        return self.take()

    def take(self) -> list[Node]:
        """The elements to hand out that ended before a fault."""
        done, self._done = self._done, []
        return done

    @property
    def line(self) -> int:
        """The line that was read last."""
        return self._skipped + self._parser.CurrentLineNumber

    def _declared(self, _version: str, encoding: str | None, _standalone: int) -> None:
        self.encoding = (encoding or "utf-8").lower()

    def _doctype(self, name: str, *_: Any) -> None:
        raise self._broken("doctype", name)

    def _namespace(self, prefix: str | None, uri: str | None) -> None:
        self._know(f"{prefix} {uri}")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        node = Node(name, attributes, self.line)
        self._know(name)
        for each in attributes:
            self._know(each)
        depth = len(self._open)
        if depth == 0:
            self.root = node
            self._level = 2 if node.name == "rss" else 1
        elif depth == self._level:
            self._begin = self._parser.CurrentByteIndex
            self._nodes = 0
        elif depth > self._level:
            self._nodes += 1
            if (
                depth > _DEPTH
                or self._nodes > _NODES
                or self._parser.CurrentByteIndex - self._begin > _ITEM_BYTES
            ):
                raise self._broken("hostile-markup", name)
            self._open[-1].children.append(node)
        self._open.append(node)

    def _end(self, _name: str) -> None:
        node = self._open.pop()
        if len(self._open) == self._level:
            self._done.append(node)

    def _text(self, text: str) -> None:
        node = self._open[-1]
        if len(self._open) <= self._level:
            # Of the root's text only whether there is some: it may have any length.
            node.text = node.text or text.strip()[:_SHOWN]
        elif self._parser.CurrentByteIndex - self._begin > _ITEM_BYTES:
            raise self._broken("hostile-markup", node.name)
        else:
            node.text += text

    def _know(self, name: str) -> None:
        self._names.add(name)
        if len(self._names) > _NAMES:
            raise self._broken("hostile-markup", "more than 1,000 names")

    def _broken(self, code: str, detail: str, line: int | None = None) -> Broken:
        found = self.line if line is None else self._skipped + line
        return Broken(code, detail, found)
