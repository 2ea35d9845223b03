"""Alternates: the same page in other languages (hreflang, as xhtml:link)."""

from __future__ import annotations

from typing import Final

from sitemap_store.errors import Refused
from sitemap_store.model.extensions.codes import SHORT_LANGUAGES, written_hreflang
from sitemap_store.model.extensions.page import Page, as_list, read_object, read_text, read_url, wrong
from sitemap_store.model.values import escape

MOST: Final = 100
"""Alternates of one URL, itself among them."""
_IGNORED: Final = frozenset({"rel"})
_REGIONS: Final = {"uk": "GB"}
"""What is written for a country whose code is another."""


def read_alternates(raw: object, page: Page) -> list[dict[str, str]]:
    """The languages by their hreflang; the list must hold the page itself, or nothing is left of it.

    Where it does not, and the event says the page's own `lang`, that one is added.
    """
    found: dict[str, str] = {}
    for item in as_list(raw):
        if not isinstance(item, dict):
            page.warn(f"alternates: one was left out: {wrong(item, 'has no hreflang and href').detail}")
            continue
        link = read_object(item, {"hreflang": _read_hreflang, "href": read_url}, _IGNORED, "alternates", page)
        if len(link) < 2:
            page.warn("alternates: one was left out: it needs an hreflang and an href that are right.")
        elif link["hreflang"] in found:
            page.warn(f"alternates: a second {link['hreflang']} was left out: a language has one page.")
        else:
            found[link["hreflang"]] = link["href"]
    if found and page.loc not in found.values():
        _add_itself(found, page)
    if len(found) > MOST:
        page.warn(f"alternates: the first {MOST} of {len(found)} were taken; a URL has no more.")
        # Itself among them: without it search engines ignore the list.
        found = dict(sorted(found.items(), key=lambda link: link[1] != page.loc)[:MOST])
    return [{"hreflang": lang, "href": found[lang]} for lang in sorted(found)]


def write_alternates(alternates: list[dict[str, str]]) -> str:
    """The `<xhtml:link>` elements."""
    return "".join(
        f'<xhtml:link rel="alternate" hreflang="{link["hreflang"]}" href="{escape(link["href"])}"/>'
        for link in alternates
    )


def read_hreflang(value: object) -> str:
    """`x-default`, or a language with an optional script and region as BCP 47 writes it. Raises Refused."""
    text = value if isinstance(value, str) else ""
    if text.lower() == "x-default":
        return "x-default"
    if (written := written_hreflang(text)) is not None:
        return written
    language, _, more = text.replace("_", "-").partition("-")
    language = SHORT_LANGUAGES.get(language.lower(), language)
    meant = written_hreflang("-".join(filter(None, (language, _REGIONS.get(more.lower(), more)))))
    hint = f"write {meant}" if meant else "write x-default, or a language such as de, zh-Hant or en-GB"
    raise wrong(value, f"is no hreflang; {hint}")


def _read_hreflang(value: object, page: Page) -> str:
    return read_hreflang(read_text(value, page))


def _add_itself(found: dict[str, str], page: Page) -> None:
    if page.lang is None:
        page.warn(
            f"alternates: all were left out: they don't hold {page.loc} itself; add it, or say its lang."
        )
        found.clear()
        return
    try:
        own = read_hreflang(page.lang)
    except Refused as refused:
        page.warn(f"alternates: all were left out: the lang {refused.detail}")
        found.clear()
        return
    if own in found:
        page.warn(f"alternates: all were left out: their {own} is {found[own]}, and not {page.loc} itself.")
        found.clear()
        return
    page.warn(f"alternates: {page.loc} itself was added as {own}.")
    found[own] = page.loc
