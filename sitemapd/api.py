"""The push API of the settings: tokens and webhooks, checked."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from producers.http import Api, ApiSite, Caps, Gate, Token
from producers.http.auth import digest_of
from producers.http.mapping import Rule, Template, pointer
from producers.http.signatures import BASE64, HEX, Signature
from producers.http.webhooks import Webhook
from sitemap_store.errors import BadSetting, Refused
from sitemap_store.model.wire import check_source
from sitemap_store.redis.once import Bounds
from sitemapd.build import Parts
from sitemapd.held import held_report
from sitemapd.settings import SignatureSettings, TokenSettings, WebhookRuleSettings, WebhookSettings
from sitemapd.status import report

_FIELDS = ("lastmod", "changefreq", "priority", "at")


def tokens(parts: Parts) -> dict[str, tuple[Token, ...]]:
    """Each site's tokens. Raises BadSetting."""
    return {
        site: tuple(
            _token(f"sites.{site}.tokens.{name}", name, token) for name, token in settings.tokens.items()
        )
        for site, settings in parts.settings.sites.items()
    }


def push_api(parts: Parts) -> Api:
    """The push API of all sites, connected on first use. Raises BadSetting."""
    known = tokens(parts)
    sites = {
        name: ApiSite(
            sink=parts.publisher(name),
            tokens=known[name],
            webhooks={
                hook: _webhook(f"sites.{name}.webhooks.{hook}", options)
                for hook, options in settings.webhooks.items()
            },
            max_unfolded=settings.max_unfolded,
            owners={
                **dict.fromkeys(settings.watch, "a watched folder"),
                **dict.fromkeys(settings.database, "a database"),
            },
            remembered=Bounds(settings.idempotency_keys, settings.idempotency_bytes),
        )
        for name, settings in parts.settings.sites.items()
    }
    status = partial(_status, parts)
    settings = parts.settings
    caps = Caps(body=settings.push_max_body, array=settings.push_max_array, sync=settings.push_max_sync)
    return Api(sites, gate=Gate(known), status=status, caps=caps)


def _status(parts: Parts, site: str) -> dict[str, Any]:
    return {**report(parts.store(site), parts.command_for(site)), "held": held_report(parts, site)}


def _token(setting: str, name: str, settings: TokenSettings) -> Token:
    for source in settings.sources or ():
        _source(f"{setting}.sources", source)
    return Token(name=name, digest=digest_of(settings.hash), sources=settings.sources)


def _webhook(setting: str, settings: WebhookSettings) -> Webhook:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", setting.rpartition(".webhooks.")[2]):
        raise BadSetting(setting=setting, detail="a webhook's name is 1 to 64 of letters, digits and _ . -")
    if settings.source is not None:
        _source(f"{setting}.source", settings.source)
    signature = settings.signature
    return Webhook(
        source=settings.source,
        max_body=settings.max_body,
        signature=_signature(f"{setting}.signature", signature) if signature else None,
        rules=tuple(_rule(f"{setting}.rules.{n}", rule) for n, rule in enumerate(settings.rules, 1)),
    )


def _signature(setting: str, settings: SignatureSettings) -> Signature:
    secrets = [settings.secret, *filter(None, [settings.previous_secret])]
    if any(len(secret) < 8 for secret in secrets):
        raise BadSetting(
            setting=f"{setting}.secret",
            detail="is shorter than 8 characters.",
            hint="Take the sender's, or make a longer one.",
        )
    text = settings.pattern or (BASE64 if settings.encoding == "base64" else HEX)
    pattern = _pattern(f"{setting}.pattern", text)
    if "signature" not in pattern.groupindex:
        raise BadSetting(
            setting=f"{setting}.pattern",
            detail="has no group (?P<signature>…).",
            hint="Put that group around the signature.",
        )
    if ("{time}" in settings.signed) != ("time" in pattern.groupindex):
        raise BadSetting(
            setting=f"{setting}.signed",
            detail="has {time} when the pattern has a group (?P<time>…), and only then.",
            hint="Add the one that is missing, or remove the other.",
        )
    if settings.signed.count("{body}") != 1:
        raise BadSetting(
            setting=f"{setting}.signed",
            detail="must have {body} in it, once.",
            hint="Such as {body} or {time}.{body}.",
        )
    return Signature(
        secrets=tuple(secret.encode() for secret in secrets),
        header=settings.header,
        pattern=pattern,
        signed=settings.signed,
        algorithm=settings.algorithm,
        is_base64=settings.encoding == "base64",
        tolerance=settings.tolerance,
    )


def _rule(setting: str, settings: WebhookRuleSettings) -> Rule:
    match = None if settings.match is None else _pattern(f"{setting}.match", settings.match)
    if settings.loc is None and not (settings.op == "delete" and settings.key is not None):
        raise BadSetting(
            setting=f"{setting}.loc",
            detail="is missing: only a delete with a key needs none.",
            hint="Say where the URL is.",
        )
    loc = None if settings.loc is None else _template(f"{setting}.loc", settings.loc)
    key = None if settings.key is None else _template(f"{setting}.key", settings.key)
    if loc is not None and loc.groups > (match.groups if match is not None else 0):
        raise BadSetting(
            setting=f"{setting}.loc",
            detail=f"has {{{loc.groups}}}, and match has no such group.",
            hint="Add the group to match, or take it out of loc.",
        )
    others = {
        name: _template(f"{setting}.{name}", text)
        for name in _FIELDS
        if (text := getattr(settings, name)) is not None
    }
    when = {}
    for place, values in settings.when.items():
        if place.startswith("/"):
            _pointer(f"{setting}.when", place)
        when[place] = tuple(values) if isinstance(values, list) else (values,)
    return Rule(
        op=settings.op,
        loc=loc,
        key=key,
        when=when,
        each=_pointer(f"{setting}.each", settings.each),
        match=match,
        others=others,
    )


def _source(setting: str, source: str) -> None:
    try:
        check_source(source)
    except Refused as refused:
        raise BadSetting(setting=setting, detail=refused.detail) from refused


def _pattern(setting: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise BadSetting(
            setting=setting,
            detail=f"is no regular expression: {error}.",
            hint="Python's re describes the syntax.",
        ) from error


def _template(setting: str, text: str) -> Template:
    try:
        return Template.parse(text)
    except ValueError as error:
        raise BadSetting(setting=setting, detail=f"{error}.") from error


def _pointer(setting: str, text: str) -> tuple[str, ...]:
    try:
        return pointer(text)
    except ValueError as error:
        raise BadSetting(setting=setting, detail=f"{error}.") from error
