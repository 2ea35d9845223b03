"""The JSON Schema of an event, as the OpenAPI document has it."""

from __future__ import annotations

import json


def event_schema(openapi: bytes) -> bytes:
    """A JSON Schema document (draft 2020-12) of the schema `Event` in an OpenAPI document."""
    # The extensions are the one thing that it refers to.
    schemas = json.loads(openapi.replace(b"#/components/schemas/", b"#/$defs/"))["components"]["schemas"]
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An event of sitemapd",
        **schemas["Event"],
        "$defs": {"Ext": schemas["Ext"]},
    }
    return json.dumps(schema, separators=(",", ":")).encode()
