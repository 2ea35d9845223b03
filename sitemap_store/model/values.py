"""changefreq and priority, checked and written the one way, and text as XML (sitemaps.org protocol)."""

import re
from typing import Final

from sitemap_store.errors import Refused
from sitemap_store.model.protocol import CHANGEFREQS

_TENTHS: Final = re.compile(r"0(?:\.([0-9])0{0,8})?|1(?:\.0{1,9})?")
_DECIMAL: Final = re.compile(r"0\.[0-9]+")


def escape(text: str) -> str:
    """Text with the five characters that the protocol wants as entities (sitemaps.org, "Entity escaping")."""
    return (
        text.replace("&", "&amp;")
        .replace("'", "&apos;")
        .replace('"', "&quot;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
    )


def check_changefreq(text: object) -> str:
    """Return `text` when it is one of the protocol's seven words, in lower case as they stand.

    Raises Refused ("changefreq") for anything else.
    """
    if isinstance(text, str) and text in CHANGEFREQS:
        return text
    detail = f"changefreq {_shown(text)} is not one of {', '.join(CHANGEFREQS)}."
    raise Refused(loc="", rule="changefreq", detail=detail)


def check_priority(value: object) -> str:
    """Return a priority of 0.0 to 1.0, in tenths, as it is written: with one decimal.

    Takes plain decimals ("1", "0.5", "0.50") and JSON numbers. Exact: nothing is rounded.
    Raises Refused ("priority") for anything else.
    """
    if not isinstance(value, str | int | float):
        raise _refused_priority(value, "is no number; write 0.0 to 1.0")
    if isinstance(value, str):
        text = value
    elif isinstance(value, float) or value in (0, 1):
        text = "0.0" if value == 0 and isinstance(value, float) else repr(value)  # JSON has a -0.0
    else:
        raise _refused_priority(value, "is not within 0.0 to 1.0")
    match = _TENTHS.fullmatch(text)
    if match is None:
        if _DECIMAL.fullmatch(text):
            raise _refused_priority(value, "is not in tenths; write one decimal, such as 0.5")
        raise _refused_priority(value, "is not a decimal of 0.0 to 1.0, such as 0.5")
    return "1.0" if text[0] == "1" else f"0.{match[1] or '0'}"


def _refused_priority(value: object, wrong: str) -> Refused:
    return Refused(loc="", rule="priority", detail=f"priority {_shown(value)} {wrong}.")


def _shown(value: object) -> str:
    # An int of thousands of digits has no repr that Python will write.
    if isinstance(value, int) and abs(value) > 10**30:
        return "of more than 30 digits"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:60] + "…"
