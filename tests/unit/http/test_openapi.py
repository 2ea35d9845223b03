"""The OpenAPI document says what the code does."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest

from producers.http import Api, Gate
from producers.http.app import OPENAPI
from producers.http.formats import JSON, NDJSON
from sitemap_store.model.protocol import CHANGEFREQS
from sitemap_store.model.wire import FIELDS, OPS

DOCUMENT: Final[dict[str, Any]] = json.loads(OPENAPI)
EVENT: Final = DOCUMENT["components"]["schemas"]["Event"]["properties"]


def test_its_paths_are_the_routes() -> None:
    """Each route with its method, and no other."""
    api = Api({}, gate=Gate({}), status=lambda _: {})
    routes = {
        (re.sub(r"\(\?P<(\w+)>\[\^/\]\+\)", r"{\1}", pattern.pattern), method.lower())
        for pattern, method, _ in api._routes
    }
    documented = {
        (path, method)
        for path, item in DOCUMENT["paths"].items()
        for method in item
        if method in ("get", "put", "post", "delete", "patch")
    }
    assert documented == routes


def test_its_event_is_the_wire_format_s() -> None:
    """The same fields, ops and words."""
    assert set(EVENT) == set(FIELDS)
    assert EVENT["op"]["enum"] == list(OPS)
    assert EVENT["changefreq"]["enum"] == [*CHANGEFREQS, None]


@pytest.mark.parametrize("kind", [JSON, NDJSON[0]])
def test_its_bodies_are_those_that_are_taken(kind: str) -> None:
    """Both of the events' formats are named."""
    assert kind in DOCUMENT["paths"]["/v1/sites/{site}/events"]["post"]["requestBody"]["content"]


def test_every_reference_leads_somewhere() -> None:
    """No schema, parameter or answer is named that is not there."""
    for reference in re.findall(r'"\$ref": ?"#/([^"]+)"', OPENAPI.decode()):
        found: Any = DOCUMENT
        for part in reference.split("/"):
            found = found[part]
