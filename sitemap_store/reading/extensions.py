"""Reads the extensions of a `<url>` as an event's `ext` would have them; nothing is checked here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from lxml import etree

from sitemap_store.model.protocol import IMAGE_NS, NEWS_NS, VIDEO_NS, XHTML_NS

NAMESPACES: Final = (IMAGE_NS, VIDEO_NS, NEWS_NS, XHTML_NS)


class Element(Protocol):
    """An element as a parser gives it. Names are those without the namespace."""

    @property
    def namespace(self) -> str:
        """Its namespace; empty for none."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def attributes(self) -> Mapping[str, str]:
        """Its attributes."""

    @property
    def text(self) -> str:
        """Its text, without that of its children."""

    @property
    def children(self) -> Sequence[Element]:
        """The elements in it."""


class _Parsed(NamedTuple):
    namespace: str
    name: str
    attributes: Mapping[str, str]
    text: str
    children: Sequence[Element]


def parsed(element: etree._Element) -> Element:
    """What lxml read."""
    name = etree.QName(element)
    return _Parsed(
        name.namespace or "",
        name.localname,
        {str(key): str(value) for key, value in element.items()},
        "".join([element.text or "", *(child.tail or "" for child in element)]),
        [parsed(child) for child in element.iterchildren("*")],
    )


def is_extension(element: Element) -> bool:
    """Whether a child of `<url>` is part of an extension."""
    return element.namespace in NAMESPACES


def read_ext(url: Element) -> dict[str, Any]:
    """Alternates, images, videos and news, as they stand there; of several news the first."""
    found: dict[str, Any] = {}
    for child in url.children:
        match child.namespace, child.name:
            case (space, "link") if space == XHTML_NS:
                if child.attributes.get("rel") == "alternate" and "hreflang" in child.attributes:
                    link = {name: child.attributes.get(name, "") for name in ("hreflang", "href")}
                    found.setdefault("alternates", []).append(link)
            case (space, "image") if space == IMAGE_NS:
                image = {field.name: _text(field) for field in child.children}
                found.setdefault("images", []).append(image["loc"] if image.keys() == {"loc"} else image)
            case (space, "video") if space == VIDEO_NS:
                found.setdefault("videos", []).append(_video(child))
            case (space, "news") if space == NEWS_NS:
                found.setdefault("news", _news(child))
    return found


def _video(video: Element) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in video.children:
        name, text = field.name, _text(field)
        match name:
            case "tag":
                found.setdefault("tag", []).append(text)
            case "restriction" | "platform":
                codes = "countries" if name == "restriction" else "platforms"
                found.setdefault(name, {"relationship": field.attributes.get("relationship"), codes: text})
            case "uploader" if (info := field.attributes.get("info")) is not None:
                found.setdefault(name, {"name": text, "info": info.strip()})
            case _:
                found.setdefault(name, text)
    return found


def _news(news: Element) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in news.children:
        parts = {part.name: _text(part) for part in field.children}
        found.setdefault(field.name, parts if field.name == "publication" else _text(field))
    return found


def _text(element: Element) -> str:
    return element.text.strip(" \t\r\n")
