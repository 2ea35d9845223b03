"""Signatures of webhooks: an HMAC over the body, as the sender's header gives it."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from producers.http.problems import Problem

ALGORITHMS: Final = ("sha256", "sha512", "sha1")
HEX: Final = r"(?:sha(?:1|256|512)=)?(?P<signature>[0-9A-Fa-f]{40,128})"
BASE64: Final = r"(?P<signature>[A-Za-z0-9+/]{27,86}={0,2})"
PRESENTED: Final = 8
"""Signatures of one header that are compared: a sender that replaces its secret sends two."""
_MILLISECONDS: Final = 100_000_000_000
"""A time that is larger counts milliseconds: as seconds it would be the year 5138."""
_DIGITS: Final = 15


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

    def begin(self, header: str | None, now: float) -> Checking:
        """Start to check a body that is still to come; `now` in epoch seconds. Raises Problem (401)."""
        found = [match.groupdict() for match in islice(self.pattern.finditer(header or ""), PRESENTED)]
        if not found:
            raise _wrong(f"The header {self.header} has no signature in it.")
        # A sender signs one moment: the first that the header gives.
        time = found[0].get("time")
        if time is not None:
            if not (time.isascii() and time.isdecimal() and len(time) <= _DIGITS):
                raise _wrong(f"The time in {self.header} is no number of seconds since 1970.")
            seconds = int(time) / 1000 if int(time) > _MILLISECONDS else int(time)
            if abs(now - seconds) > self.tolerance:
                raise _wrong(
                    f"The signature is from another time than now: over {self.tolerance:g} seconds off."
                )
        presented = [self._bytes(each["signature"]) for each in found if each.get("time") == time]
        before, after = (part.replace("{time}", time or "").encode() for part in self.signed.split("{body}"))
        macs = [hmac.new(secret, before, self.algorithm) for secret in self.secrets]
        return Checking(self.header, macs, after, presented)

    def _bytes(self, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True) if self.is_base64 else bytes.fromhex(text)
        except (ValueError, binascii.Error):
            return b""


class Checking:
    """The check of one body: each secret's digest is computed once, while the body comes."""

    def __init__(self, header: str, macs: list[hmac.HMAC], after: bytes, presented: list[bytes]) -> None:
        self._header = header
        self._macs = macs
        self._after = after
        self._presented = presented

    def update(self, piece: bytes) -> None:
        """Take the next piece of the body."""
        for mac in self._macs:
            mac.update(piece)

    def finish(self) -> None:
        """The body is complete: see that it is the sender's. Raises Problem (401)."""
        self.update(self._after)
        expected = [mac.digest() for mac in self._macs]
        fits = [hmac.compare_digest(one, other) for one in expected for other in self._presented]
        if not any(fits):
            raise _wrong(f"The signature in {self._header} does not fit the body: is it the same secret?")


def _wrong(detail: str) -> Problem:
    return Problem(401, "signature", detail)
