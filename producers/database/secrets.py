"""Keeping a dsn's password out of messages."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit


def sentence(error: BaseException, dsn: str) -> str:
    """The first line of a driver's error, without anything secret of the dsn."""
    args = error.args
    text = str(args[1] if len(args) > 1 and isinstance(args[0], int) else error)
    line = " ".join(text.split("\n")[0].split())
    for secret in secrets_of(dsn):
        line = line.replace(secret, "***")
    return line.rstrip(".") or type(error).__name__


def shown(dsn: str) -> str:
    """The dsn for people: without password and parameters."""
    parts = urlsplit(dsn)
    host = parts.hostname or ""
    at = f"{parts.username}@" if parts.username else ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{at}{host}{port}{parts.path}"


def secrets_of(dsn: str) -> list[str]:
    """The texts of a dsn that must not be shown, the longest first."""
    parts = urlsplit(dsn)
    found = {dsn, *(value for name, value in parse_qsl(parts.query) if "pass" in name)}
    if parts.password:
        found |= {parts.password, unquote(parts.password)}
    return sorted(filter(None, found), key=len, reverse=True)
