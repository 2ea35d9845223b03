"""Every error that sitemapd raises on purpose, under one root."""

from typing import Self


class SitemapdError(Exception):
    """The root of all errors that sitemapd raises on purpose."""


class Refused(SitemapdError):
    """One event or value breaks a rule; it is reported to the caller and its batch goes on.

    `loc` is the URL concerned ("" where a single value is checked), `rule` a short stable code
    such as "scheme", `detail` one sentence that names the value, the rule and the way out.
    """

    def __init__(self, *, loc: str, rule: str, detail: str) -> None:
        super().__init__(detail)
        self.loc = loc
        self.rule = rule
        self.detail = detail

    def kept(self) -> Self:
        """Itself, for a list: without the traceback and the errors before it.

        They hold the whole of what was refused, which may be a megabyte for each.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self


class BadSetting(SitemapdError):
    """The operator's configuration cannot work; the command says so in one line and exits 2.

    `setting` is the dotted name as written in the configuration, `detail` a sentence that says
    what is wrong with it, `hint` (may be "") a sentence that says how to put it right.
    """

    def __init__(self, *, setting: str, detail: str, hint: str = "") -> None:
        super().__init__(f"{setting}: {detail} {hint}".rstrip())
        self.setting = setting
        self.detail = detail
        self.hint = hint


class Unavailable(SitemapdError):
    """Something outside (Redis, the output, the disk) is away for now; trying again may help.

    `what` names it, `detail` is a sentence that says what was tried and what came back.
    """

    def __init__(self, *, what: str, detail: str) -> None:
        super().__init__(f"{what}: {detail}")
        self.what = what
        self.detail = detail


class RedisUnavailable(Unavailable):
    """Redis can't be used for now: it is soon asked again, since what waits for it is a whole site."""


class RedisRefuses(RedisUnavailable):
    """Redis answers, but can't take a command for now; trying again may help.

    `because` completes the sentence "Redis can't take this now, because …".
    """

    def __init__(self, *, what: str, because: str) -> None:
        super().__init__(what=what, detail=f"can't take this now, because {because}")

    def __str__(self) -> str:
        return f"{self.what} {self.detail}"
