"""Whether a state may publish over a tree (never publish over what we don't remember)."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    """What start-up does."""

    GO = "the tree is this state's own"
    BEGIN = "a new state over an empty output: give it an id and mark the output"
    REPUBLISH = "the output was emptied or replaced: mark it and render everything again"
    FOREIGN = "the output holds sitemaps that sitemapd did not write"
    FORGOTTEN = "Redis does not remember the tree that is published"


def judge(state_id: str | None, marker: str | None, has_files: bool) -> Verdict:
    """Compare the state's id with the output's marker; `has_files`: sitemap files are there."""
    if has_files and marker is None:
        return Verdict.FOREIGN
    if state_id is None:
        return Verdict.FORGOTTEN if has_files else Verdict.BEGIN
    if marker == state_id:
        return Verdict.GO
    return Verdict.FORGOTTEN if has_files else Verdict.REPUBLISH
