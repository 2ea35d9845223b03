"""Redis users with few rights (ACL)."""

from __future__ import annotations

import pytest

from tests.acceptance.place import BASE, Place, add, settings
from tests.published import published
from tests.redis_server import RedisServer

VERSION, POLICY, APPEND_ONLY = (
    "version is 6.2 or newer",
    "maxmemory-policy is noeviction",
    "appendonly is yes",
)
UNSEEN: dict[str, set[str]] = {
    "-config -info": {VERSION, POLICY, APPEND_ONLY},
    "-config": set(),  # INFO tells of both
    "-info": {VERSION},
}


@pytest.mark.parametrize(
    "rights",
    ["-config -info", *[pytest.param(each, marks=pytest.mark.long) for each in ("-config", "-info")]],
)
def test_what_could_not_be_checked_is_a_warning(
    place: Place, any_redis: RedisServer, redis_url: str, rights: str
) -> None:
    """With a user who may not ask, a service starts and publishes; log and `doctor` say what they missed."""
    user = f"reset on >secret ~sm:* ~rq:* &* +@all {rights}".split()
    place.configure(settings(f"unix://app:secret@{redis_url.removeprefix('unix://')}"))
    with any_redis.client() as client:
        client.execute_command("ACL", "SETUSER", "app", *user)
        try:
            worker = place.worker(processes=1)
            place.events(add("x"))
            place.wait()
            assert set(published(place.output)) == {BASE + "x"}
            told = place.ok("doctor").out
            assert worker.stop() == 0
        finally:
            client.execute_command("ACL", "DELUSER", "app")
    for said in (worker.log, told):
        assert ("could not be checked" in said) == bool(UNSEEN[rights])
        assert {what for what in (VERSION, POLICY, APPEND_ONLY) if what in said} == UNSEEN[rights]
