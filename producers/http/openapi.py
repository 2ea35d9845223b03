"""The OpenAPI 3.1 document of the push API. It is one value, so it is longer than most modules."""

from __future__ import annotations

from typing import Any, Final

from producers.http.splitter import JSON, NDJSON
from sitemap_store.model.protocol import CHANGEFREQS
from sitemap_store.model.wire import FIELDS, OPS

_SOURCE: Final = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$"
_RULE: Final = {"type": "string", "description": "A short stable code, such as scheme."}


def document() -> dict[str, Any]:
    """The document, as `GET /v1/openapi.json` gives it."""
    site = _path("site", "The site's name.", "^[a-z][a-z0-9_-]{0,39}$")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sitemapd push API",
            "version": "1",
            "description": "URL events go in over HTTP; the sitemaps follow.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "tags": [{"name": "push"}, {"name": "look"}],
        "paths": {
            "/v1/sites/{site}/events": {"parameters": [site], "post": _events()},
            "/v1/sites/{site}/sources/{source}": {
                "parameters": [site, _path("source", "The source that the list is of.", _SOURCE)],
                "put": _sync(),
            },
            "/v1/sites/{site}/webhooks/{webhook}": {
                "parameters": [site, _path("webhook", "The name of the mapping in the settings.", "^[^/]+$")],
                "post": _webhook(),
            },
            "/v1/sites/{site}/urls": {"parameters": [site], "get": _url()},
            "/v1/status": {"get": _status()},
            "/v1/openapi.json": {"get": _openapi()},
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Event": _event(),
                "Wanted": _wanted(),
                "Refusal": _object(
                    {
                        "line": {
                            "type": "integer",
                            "minimum": 1,
                            "description": "The line, or the place in the array.",
                        },
                        "loc": {"type": "string"},
                        "rule": _RULE,
                        "detail": {"type": "string"},
                    }
                ),
                "Outcome": _object(_outcome(), required=["accepted", "refused"]),
                "Synced": _object(
                    {
                        name: {"type": "integer", "minimum": 0}
                        for name in ("listed", "added", "updated", "deleted", "unchanged", "held")
                    }
                    | {"refused": {"type": "array", "items": _ref("Refusal")}}
                ),
                "Problem": _object(
                    {
                        "title": {"type": "string"},
                        "status": {"type": "integer"},
                        "rule": _RULE,
                        "detail": {"type": "string"},
                        **_outcome(),
                        "listed": {"type": "integer"},
                        "deletes": {"type": "integer"},
                    },
                    required=["title", "status", "rule", "detail"],
                ),
                "Entry": _entry(),
            },
        },
    }


def _events() -> dict[str, Any]:
    one = _ref("Event")
    return {
        "operationId": "pushEvents",
        "tags": ["push"],
        "summary": "Push events: one, an array, or NDJSON.",
        "description": "The answer comes after the events are stored. What is refused stops no other.",
        "parameters": [
            _query("source", "The source of events that name none.", {"type": "string", "pattern": _SOURCE}),
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "The same key with the same body within 24 hours gets the same answer, "
                "and nothing happens twice.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
            },
            _gzip(),
        ],
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": {"oneOf": [one, {"type": "array", "items": one}]}},
                NDJSON[0]: {"schema": {"type": "string", "description": "One event a line."}},
            },
        },
        "responses": {
            "202": _answer("Stored; `refused` lists what was not.", "Outcome"),
            "422": _problem("Every event was refused, or the Idempotency-Key was used for another body."),
            **_problems(400, 401, 403, 404, 408, 409, 413, 415, 429, 503),
        },
    }


def _sync() -> dict[str, Any]:
    return {
        "operationId": "syncSource",
        "tags": ["push"],
        "summary": "Give everything that a source has; only the difference becomes events.",
        "parameters": [
            _query(
                "accept_deletes", "Delete however much is missing.", {"type": "boolean", "default": False}
            ),
            _gzip(),
        ],
        "requestBody": {
            "required": True,
            "content": {NDJSON[0]: {"schema": {"type": "string", "description": "One `Wanted` a line."}}},
        },
        "responses": {
            "202": _answer("The difference is stored.", "Synced"),
            **_problems(400, 401, 403, 404, 408, 409, 413, 415, 429, 503),
        },
    }


def _webhook() -> dict[str, Any]:
    return {
        "operationId": "webhook",
        "tags": ["push"],
        "summary": "Another system's JSON, which a mapping in the settings turns into events.",
        "requestBody": {"required": True, "content": {JSON: {"schema": {}}}},
        "responses": {
            "202": _answer("Stored; nothing to do counts as that too.", "Outcome"),
            "422": _problem("Every event was refused."),
            **_problems(400, 401, 403, 404, 408, 413, 415, 429, 503),
        },
    }


def _url() -> dict[str, Any]:
    loc = _query("loc", "The URL, in any spelling that means the same.", {"type": "string"})
    return {
        "operationId": "findUrl",
        "tags": ["look"],
        "summary": "What is known of one URL.",
        "parameters": [loc | {"required": True}],
        "responses": {
            "200": _answer("It is listed.", "Entry"),
            "422": _problem("It is no URL of the site."),
            **_problems(400, 401, 403, 404, 503),
        },
    }


def _status() -> dict[str, Any]:
    return {
        "operationId": "status",
        "tags": ["look"],
        "summary": "How the sites stand that the token may see, as `sitemapd status --json` says it.",
        "responses": {
            "200": _answer("By site.", None)
            | {"content": {JSON: {"schema": _object({"sites": {"type": "object"}})}}},
            **_problems(401, 503),
        },
    }


def _openapi() -> dict[str, Any]:
    return {
        "operationId": "openapi",
        "tags": ["look"],
        "summary": "This document.",
        "security": [],
        "responses": {
            "200": _answer("OpenAPI 3.1.", None) | {"content": {JSON: {"schema": {"type": "object"}}}}
        },
    }


def _event() -> dict[str, Any]:
    fields: dict[str, Any] = {
        "op": {"enum": list(OPS)},
        "loc": {"type": "string", "description": "The absolute URL."},
        "lastmod": _optional({"type": "string"}, "When the page last changed: a W3C date or date-time."),
        "changefreq": {"enum": [*CHANGEFREQS, None]},
        "priority": {"type": ["number", "string", "null"], "description": "0.0 to 1.0 in tenths."},
        "at": _optional({"type": "string"}, "When the change happened; older events lose the race."),
        "source": _optional({"type": "string", "pattern": _SOURCE}, "Who vouches for the entry."),
        "urgent": _optional({"type": "boolean"}, "A delete that does not wait."),
        "ext": _optional({"type": "object"}, "Extensions."),
    }
    return _object({name: fields[name] for name in FIELDS}, required=["op", "loc"])


def _wanted() -> dict[str, Any]:
    event = _event()
    names = ("op", "loc", "lastmod", "changefreq", "priority", "at", "source", "ext")
    wanted = {name: event["properties"][name] for name in names} | {"op": {"enum": ["add"]}}
    return _object(wanted, required=["loc"])


def _entry() -> dict[str, Any]:
    text = {"type": ["string", "null"]}
    return _object(
        {
            "loc": {"type": "string"},
            **dict.fromkeys(("lastmod", "changefreq", "priority"), text),
            "ext": {"type": "object"},
            "at": {"type": "string"},
            "source": text,
            "section": {"type": "string"},
            "shard": {"type": "integer"},
            "file": text,
        }
    )


def _outcome() -> dict[str, Any]:
    return {
        "accepted": {"type": "integer", "minimum": 0},
        "refused": {"type": "array", "items": _ref("Refusal"), "maxItems": 1000},
        "refused_total": {"type": "integer", "description": "When `refused` does not list them all."},
        "warnings": {"type": "array", "items": {"type": "string"}, "maxItems": 100},
    }


_PROBLEMS: Final = {
    400: "Malformed; what came before it may be accepted.",
    401: "No token, one that is not known, or a wrong signature.",
    403: "The token may not do that, or there are no tokens and the request is not from this machine.",
    404: "There is no such thing.",
    408: "The body came too slowly.",
    409: "Another request is at it, a sync would delete too much, or the source has another owner.",
    413: "Over a cap on size; what came before it may be accepted.",
    415: "Another Content-Type, charset or Content-Encoding.",
    429: "Too much waits to be published, or is on its way. Retry-After says when to come again.",
    503: "Redis is away. Retry-After says when to come again.",
}


def _problems(*statuses: int) -> dict[str, Any]:
    return {str(status): _problem(_PROBLEMS[status]) for status in statuses}


def _problem(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {"application/problem+json": {"schema": _ref("Problem")}},
    }


def _answer(description: str, schema: str | None) -> dict[str, Any]:
    if schema is None:
        return {"description": description}
    return {"description": description, "content": {JSON: {"schema": _ref(schema)}}}


def _path(name: str, description: str, pattern: str) -> dict[str, Any]:
    schema = {"type": "string", "pattern": pattern}
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def _query(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _gzip() -> dict[str, Any]:
    return {"name": "Content-Encoding", "in": "header", "schema": {"enum": ["gzip", "identity"]}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(properties: dict[str, Any], *, required: list[str] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


def _optional(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"], "description": description}
