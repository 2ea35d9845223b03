"""How many deletes are too many."""

import pytest
import redis

from producers.guard import Guard, sentence
from sitemap_store.redis.held import Held
from sitemap_store.redis.store import Store
from tests.world import make_site


@pytest.mark.parametrize(
    ("gone", "listed", "share", "empty", "held"),
    [
        (100, 101, 0.2, False, False),
        (101, 102, 0.2, False, True),
        (200, 1000, 0.2, False, False),
        (201, 1000, 0.2, False, True),
        (1, 1, 0.2, True, True),
        (0, 0, 0.2, True, False),
        (1000, 1000, 1.0, True, False),
        (101, 1000, 0.0, False, True),
    ],
)
def test_how_much_is_too_much(gone: int, listed: int, share: float, empty: bool, held: bool) -> None:
    """Up to a hundred pass whatever share they are, if anything is left."""
    guard = Guard(Store(redis.Redis(), make_site()), "pages", "watch", share=share)
    assert guard.too_many(gone, listed, empty=empty) is held


def test_the_sentence_has_number_and_examples() -> None:
    """Of what moves and of what is gone."""
    held = Held(id="1", kind="relay", deletes=310, moves=300, listed=400, examples=("a", "b"), since=0)
    assert sentence("cms", held) == (
        "cms: 300 URLs of this source change their address: neither old nor new pass; 10 of its 400 URLs "
        "have no row any more: their deletes are held back, so they stay listed (a, b, …)."
    )
