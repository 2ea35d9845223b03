"""Signatures of webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

import pytest

from producers.http.problems import Problem
from producers.http.signatures import BASE64, Signature

SECRET = b"a secret of both"
BODY = b'{"ref":"refs/heads/main"}'
NOW = 1_790_000_000.0


def mac(message: bytes, algorithm: str = "sha256") -> bytes:
    """The HMAC that a sender would make."""
    return hmac.new(SECRET, message, getattr(hashlib, algorithm)).digest()


def refused(signature: Signature, header: str | None, body: bytes = BODY, now: float = NOW) -> bool:
    """Whether a signature is turned away."""
    try:
        checking = signature.begin(header, now)
        checking.update(body[:7])
        checking.update(body[7:])
        checking.finish()
    except Problem as problem:
        assert problem.status == 401
        assert SECRET.decode() not in problem.detail
        return True
    return False


GITHUB = Signature(secrets=(SECRET,), header="X-Hub-Signature-256")
GHOST = Signature(
    secrets=(SECRET,),
    header="X-Ghost-Signature",
    pattern=re.compile(r"sha256=(?P<signature>[0-9a-f]{64}), ?t=(?P<time>[0-9]{1,15})"),
    signed="{body}{time}",
)


def test_hex_of_the_body() -> None:
    """An HMAC of the body in hex, with or without a prefix, is taken; one of another body is not."""
    good = mac(BODY).hex()
    assert not refused(GITHUB, f"sha256={good}")
    assert not refused(GITHUB, good.upper())
    assert refused(GITHUB, f"sha256={good}", BODY + b" ")
    for header in (None, "", "sha256=", "sha256=" + "0" * 64, good[:-2], "x" * 10_000):
        assert refused(GITHUB, header), header


def test_published_vector() -> None:
    """The example of GitHub's documentation is taken."""
    signature = Signature(secrets=(b"It's a Secret to Everybody",), header="X-Hub-Signature-256")
    value = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert not refused(signature, f"sha256={value}", b"Hello, World!")


def test_signed_time_must_be_near() -> None:
    """Where a time is signed, an old delivery can't be played again, nor its time be changed."""
    for moment in (str(int(NOW)), str(int(NOW * 1000))):
        header = f"sha256={mac(BODY + moment.encode()).hex()}, t={moment}"
        assert not refused(GHOST, header)
        assert not refused(GHOST, header, now=NOW + 299)
        assert refused(GHOST, header, now=NOW + 301)
        assert refused(GHOST, header, now=NOW - 301)
        assert refused(GHOST, header.replace(f"t={moment}", f"t={moment[:-1]}9"))
    assert refused(GHOST, f"sha256={mac(BODY).hex()}")


def test_base64_and_another_hash() -> None:
    """Base64 and the other hashes that systems sign with are understood."""
    signature = Signature(
        secrets=(SECRET,), header="X-WC-Webhook-Signature", pattern=re.compile(BASE64), is_base64=True
    )
    assert not refused(signature, base64.b64encode(mac(BODY)).decode())
    assert refused(signature, base64.b64encode(mac(b"other")).decode())
    sha1 = Signature(secrets=(SECRET,), header="X-Hub-Signature", algorithm="sha1")
    assert not refused(sha1, "sha1=" + mac(BODY, "sha1").hex())
    assert refused(sha1, mac(BODY).hex())


def test_either_secret_while_one_is_replaced() -> None:
    """Two secrets hold at a time; the secret is in no repr."""
    both = Signature(secrets=(b"the new secret", SECRET), header="X-Hub-Signature-256")
    assert not refused(both, mac(BODY).hex())
    assert SECRET.decode() not in repr(both)


@pytest.mark.parametrize("count", [2, 5])
def test_any_of_several_signatures(count: int) -> None:
    """A header with several signatures is taken when one of them fits."""
    several = ["0" * 64] * (count - 1) + [mac(BODY).hex()]
    assert not refused(GITHUB, ",".join(f"sha256={each}" for each in several))


def test_only_eight_signatures_are_looked_at() -> None:
    """The right one in eighth place is taken, in ninth refused: what a stranger sends has a bound."""
    for place, expected in ((8, False), (9, True)):
        several = ["0" * 64] * (place - 1) + [mac(BODY).hex()]
        assert refused(GITHUB, ",".join(several)) is expected, place


def test_the_body_is_digested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many signatures a header has, and times beside them, each secret's digest is computed once."""
    began: list[bytes] = []
    real = hmac.new

    def counted(key: bytes, message: bytes, algorithm: str) -> hmac.HMAC:
        began.append(key)
        return real(key, message, algorithm)

    monkeypatch.setattr(hmac, "new", counted)
    moment = int(NOW)
    header = ", ".join(f"sha256={'0' * 64}, t={moment + n}" for n in range(8))
    checking = GHOST.begin(header, NOW)
    checking.update(BODY)
    with pytest.raises(Problem):
        checking.finish()
    assert began == [SECRET]


@pytest.mark.parametrize("time", ["", "9" * 400, "12x", "\N{ARABIC-INDIC DIGIT ONE}"])
def test_a_time_that_is_none_is_refused(time: str) -> None:
    """A pattern of the settings may let anything through as the time: it is no error of ours."""
    loose = Signature(
        secrets=(SECRET,),
        header="X",
        pattern=re.compile(r"(?P<signature>[0-9a-f]{64}),t=(?P<time>.*)"),
        signed="{time}.{body}",
    )
    assert refused(loose, f"{mac(time.encode() + b'.' + BODY).hex()},t={time}")
