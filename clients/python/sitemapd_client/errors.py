"""What a call raises when sitemapd took nothing, or only a part."""

from __future__ import annotations


class ClientError(Exception):
    """The root of all errors that this package raises on purpose.

    `accepted` is how many events of the call were stored before the error.
    """

    def __init__(self, message: str, *, accepted: int = 0) -> None:
        super().__init__(message)
        self.accepted = accepted


class Unavailable(ClientError):
    """sitemapd can't be reached or can't take more now; the same call may succeed later.

    `wait` is the number of seconds after which sitemapd asked to be tried again, None when it named none.
    """

    def __init__(self, message: str, *, wait: float | None = None, accepted: int = 0) -> None:
        super().__init__(message, accepted=accepted)
        self.wait = wait


class Problem(ClientError):
    """sitemapd turned a request away, and would again.

    `status` is the HTTP status, `rule` a stable code (docs/push.md), "" where the answer has none, and
    `detail` a sentence that says what is wrong.
    """

    def __init__(self, message: str, *, status: int, rule: str, detail: str, accepted: int = 0) -> None:
        super().__init__(message, accepted=accepted)
        self.status = status
        self.rule = rule
        self.detail = detail
