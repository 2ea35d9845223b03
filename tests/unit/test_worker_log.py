"""What RQ logs of a job that failed: a sentence where the fault is RQ's, the traceback where it is ours."""

from __future__ import annotations

import logging

import pytest

from worker.process import Sentences

RQ = '  File "/usr/lib/rq/worker/base.py", line 1674, in perform_job\n    self._finalize_success(job)\n'
OURS = '  File "/srv/worker/jobs.py", line 90, in rewrite_shards\n    publisher.rewrite(shards)\n'


def said(frames: str, error: str) -> str:
    """What becomes of RQ's record of a failed job."""
    text = f"Traceback (most recent call last):\n{frames}{error}\n"
    message = "Worker %s: job %s: exception raised while executing (worker.jobs.rewrite_shards)\n%s"
    record = logging.LogRecord("rq.worker", logging.ERROR, "base.py", 1, message, ("w1", "j1", text), None)
    assert Sentences("w1").filter(record)
    return record.getMessage()


@pytest.mark.parametrize(
    "error",
    [
        "ValueError: Execution fe384d57 not found in Redis",
        "rq.exceptions.NoSuchJobError: No such job: rq:job:1",
        "KeyError: 'composite_key'",
        "redis.exceptions.ConnectionError: Connection closed by server.",
    ],
)
def test_what_rq_itself_fails_at_is_a_sentence(error: str) -> None:
    """Its own records were removed, or Redis went: nothing of ours is lost."""
    assert error in said(RQ, error)
    assert "\n" not in said(RQ, error)


def test_a_fault_of_ours_keeps_its_traceback() -> None:
    """The last line alone would not say where to look."""
    assert OURS in said(RQ + OURS, "KeyError: 'loc'")
