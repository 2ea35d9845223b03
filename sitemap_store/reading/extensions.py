"""Reads the extensions of a `<url>` as an event's `ext` would have them; nothing is checked here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lxml import etree

from sitemap_store.model.protocol import IMAGE_NS, NEWS_NS, VIDEO_NS, XHTML_NS

NAMESPACES: Final = (IMAGE_NS, VIDEO_NS, NEWS_NS, XHTML_NS)


def read_ext(url: etree._Element) -> dict[str, Any]:
    """Alternates, images, videos and news, as they stand there; of several news the first."""
    found: dict[str, Any] = {}
    for space, name, child in _children(url):
        if space == XHTML_NS and name == "link":
            if child.get("rel") == "alternate" and "hreflang" in child.attrib:
                link = {"hreflang": child.get("hreflang", ""), "href": child.get("href", "")}
                found.setdefault("alternates", []).append(link)
        elif (space, name) == (IMAGE_NS, "image"):
            image = {name: _text(field) for _, name, field in _children(child)}
            found.setdefault("images", []).append(image["loc"] if image.keys() == {"loc"} else image)
        elif (space, name) == (VIDEO_NS, "video"):
            found.setdefault("videos", []).append(_video(child))
        elif (space, name) == (NEWS_NS, "news"):
            found.setdefault("news", _news(child))
    return found


def _video(video: etree._Element) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _, name, field in _children(video):
        text = _text(field)
        match name:
            case "tag":
                found.setdefault("tag", []).append(text)
            case "restriction" | "platform":
                codes = "countries" if name == "restriction" else "platforms"
                found.setdefault(name, {"relationship": field.get("relationship"), codes: text})
            case "uploader" if (info := field.get("info")) is not None:
                found.setdefault(name, {"name": text, "info": info.strip()})
            case _:
                found.setdefault(name, text)
    return found


def _news(news: etree._Element) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _, name, field in _children(news):
        parts = {part: _text(each) for _, part, each in _children(field)}
        found.setdefault(name, parts if name == "publication" else _text(field))
    return found


def _children(element: etree._Element) -> Iterator[tuple[str | None, str, etree._Element]]:
    """Namespace, name and element of each child that is an element."""
    for child in element.iterchildren("*"):
        name = etree.QName(child)
        yield name.namespace, name.localname, child


def _text(element: etree._Element) -> str:
    return "".join(map(str, element.itertext())).strip(" \t\r\n")
