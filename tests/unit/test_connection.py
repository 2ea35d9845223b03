"""Redis' error replies in our words."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from redis._parsers.base import BaseParser

from sitemap_store.errors import RedisRefuses, Unavailable
from sitemap_store.redis.connection import translated
from tests.error_replies import REPLIES


def _parsed(reply: str) -> redis.RedisError:
    """The error that redis-py makes of a reply."""
    parser: Any = BaseParser  # it is not typed
    error: redis.RedisError = parser.parse_error(reply)
    return error


@pytest.mark.parametrize("reply", REPLIES.values(), ids=list(REPLIES))
@pytest.mark.parametrize(
    "form",
    [
        "{}",
        "{} script: 1b2c, on @user_script:12.",
        "ERR Error running script (call to f_1b2c): @user_script:12: -{}",
    ],
    ids=["plain", "script", "script of 6.2"],
)
def test_a_reply_that_says_not_now_is_one_kind_of_error(reply: str, form: str) -> None:
    """Each such reply, also when a script got it, is the error that says why and may be tried again."""
    if reply.startswith("MOVED"):
        form = "{}"  # a script's keys are looked at before it runs
    with pytest.raises(RedisRefuses, match=r"^Redis can't take this now, because \S") as caught, translated():
        raise _parsed(form.format(reply))
    assert isinstance(caught.value, Unavailable)


@pytest.mark.parametrize(
    "reply",
    ["ERR wrong number of arguments", "WRONGTYPE Operation against a key", "ERR the BUSY bee", "BUSYGROUP x"],
)
def test_a_reply_to_a_wrong_command_stays_a_fault(reply: str) -> None:
    """What trying again can't help is not called unavailable, even if it holds a word such as BUSY."""
    with pytest.raises(redis.ResponseError), translated():
        raise _parsed(reply)
