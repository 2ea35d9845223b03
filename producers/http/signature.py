"""Signatures of webhooks: an HMAC over the body, as the sender's header gives it."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from dataclasses import dataclass, field
from typing import Final

from producers.http.problem import Problem

ALGORITHMS: Final = ("sha256", "sha512", "sha1")
HEX: Final = r"(?:sha(?:1|256|512)=)?(?P<signature>[0-9A-Fa-f]{40,128})"
BASE64: Final = r"(?P<signature>[A-Za-z0-9+/]{27,86}={0,2})"
_SIGNED: Final = re.compile(r"\{(body|time)\}")
_MILLISECONDS: Final = 100_000_000_000
"""A time that is larger counts milliseconds: as seconds it would be the year 5138."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """How a sender signs."""

    secrets: tuple[bytes, ...] = field(repr=False)
    """Any of them may have signed: two, while one is being replaced."""
    header: str
    pattern: re.Pattern[str] = re.compile(HEX)
    """Finds the group `signature` in the header, and `time` where one is signed too."""
    signed: str = "{body}"
    algorithm: str = "sha256"
    is_base64: bool = False
    tolerance: float = 300.0
    """Seconds that a signed time may be off."""

    def check(self, header: str | None, body: bytes, now: float) -> None:
        """See that the body is the sender's; `now` in epoch seconds. Raises Problem (401)."""
        found = list(self.pattern.finditer(header or ""))
        if not found:
            raise _wrong(f"The header {self.header} has no signature in it.")
        for match in found:
            if self._fits(match, body):
                break
        else:
            raise _wrong(f"The signature in {self.header} does not fit the body: is it the same secret?")
        when = match.groupdict().get("time")
        if when is None:
            return
        seconds = int(when) / 1000 if int(when) > _MILLISECONDS else int(when)
        if abs(now - seconds) > self.tolerance:
            raise _wrong(f"The signature is from another time than now: over {self.tolerance:g} seconds off.")

    def _fits(self, match: re.Match[str], body: bytes) -> bool:
        groups = match.groupdict()
        presented = self._bytes(groups["signature"])
        time = (groups.get("time") or "").encode()
        message = b"".join(
            {"body": body, "time": time}[part] if n % 2 else part.encode()
            for n, part in enumerate(_SIGNED.split(self.signed))
        )
        fits = [
            hmac.compare_digest(hmac.digest(secret, message, self.algorithm), presented)
            for secret in self.secrets
        ]
        return any(fits)

    def _bytes(self, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True) if self.is_base64 else bytes.fromhex(text)
        except (ValueError, binascii.Error):
            return b""


def _wrong(detail: str) -> Problem:
    return Problem(401, "signature", detail)
