"""What `status` and the page call a problem: each has a sentence and the command that mends it."""

from __future__ import annotations

from typing import Any

import pytest

from sitemapd.status import LATE_MS, problems

FINE: dict[str, Any] = {
    "workers": 2,
    "waiting_ms": LATE_MS,
    "aside": {},
    "producers": {"pages": {"state": "watching", "problem": None}},
    "uncovered": {"urls": 0, "examples": [], "command": "sitemapd sync --leave-scope"},
    "refused": 7,
    "refused_day": 0,
}
HELD = {"sentence": "shop: 9 of its 10 URLs are gone.", "command": "sitemapd accept-deletes shop"}
LEFT = {**FINE["uncovered"], "urls": 2000, "examples": ["https://old.example/a"]}


def test_a_site_in_order_has_none() -> None:
    """Not even for what was refused long ago, or for a change that has just come."""
    assert list(problems(FINE, {}, "sitemapd")) == []


@pytest.mark.parametrize(
    ("wrong", "words", "command"),
    [
        ({"workers": 0}, "No worker was seen", "sitemapd worker"),
        ({"waiting_ms": 180_000}, "has waited for 3 min", "sitemapd doctor"),
        ({"aside": {"sitemap-a-1.xml": "ValueError"}}, "sitemap-a-1.xml can't be rendered", "rebuild"),
        ({"producers": {"pages": {"problem": "disk on fire"}}}, "pages failed: disk on fire", "doctor"),
        ({"uncovered": LEFT}, "no longer cover 2,000 published URLs, such as https://old", "--leave-scope"),
        ({"refused_day": 3}, "3 events were refused in the last 24 hours", "sitemapd rejected"),
    ],
)
def test_each_has_a_sentence_and_a_command(wrong: dict[str, Any], words: str, command: str) -> None:
    """One problem for one thing that is wrong."""
    (found,) = problems({**FINE, **wrong}, {}, "sitemapd")
    assert words in found.detail
    assert found.command.endswith(command)


def test_the_worst_comes_first() -> None:
    """Nothing published, then what stays listed wrongly, then what was refused."""
    wrong = {**FINE, "workers": 0, "uncovered": LEFT, "refused_day": 1}
    first, *others = (found.command for found in problems(wrong, {"shop": HELD}, "sitemapd --site x"))
    assert first == "sitemapd --site x worker"
    assert others == [HELD["command"], LEFT["command"], "sitemapd --site x rejected"]
