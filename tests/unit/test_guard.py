"""Whether a state may publish over a tree."""

import pytest

from sitemap_store.model.guard import Verdict, judge


@pytest.mark.parametrize(
    ("state_id", "marker", "has_files", "verdict"),
    [
        (None, None, False, Verdict.BEGIN),
        (None, "a", False, Verdict.BEGIN),
        ("a", "a", True, Verdict.GO),
        ("a", "a", False, Verdict.GO),
        ("a", None, False, Verdict.REPUBLISH),
        ("a", "b", False, Verdict.REPUBLISH),
        (None, "a", True, Verdict.FORGOTTEN),
        ("b", "a", True, Verdict.FORGOTTEN),
        (None, None, True, Verdict.FOREIGN),
        ("a", None, True, Verdict.FOREIGN),
    ],
)
def test_every_meeting_of_state_and_tree_has_its_verdict(
    state_id: str | None, marker: str | None, has_files: bool, verdict: Verdict
) -> None:
    """All combinations of a state's id, the output's marker and files that are there."""
    assert judge(state_id, marker, has_files) is verdict


@pytest.mark.parametrize("state_id", [None, "a"])
@pytest.mark.parametrize("marker", [None, "a", "b"])
def test_files_that_the_state_does_not_remember_are_never_published_over(
    state_id: str | None, marker: str | None
) -> None:
    """With files there, the only way to go on is the state's own id in the marker."""
    allowed = judge(state_id, marker, True) in (Verdict.GO, Verdict.BEGIN, Verdict.REPUBLISH)
    assert allowed == (state_id is not None and state_id == marker)
