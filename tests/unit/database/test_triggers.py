"""Conditions of the operator's, turned to a trigger's row."""

import pytest

from producers.database.triggers import about_row

COLUMNS = ["id", "published", "deleted_at", "status", "date", "kind"]


def _quote(name: str) -> str:
    return f"`{name}`"


@pytest.mark.parametrize(
    ("where", "about"),
    [
        ("published", "NEW.`published`"),
        ("NOT published AND deleted_at IS NULL", "NOT NEW.`published` AND NEW.`deleted_at` IS NULL"),
        ("Published=1", "NEW.`published`=1"),
        ("status = 'published'", "NEW.`status` = 'published'"),
        ("status = 'it''s kind'", "NEW.`status` = 'it''s kind'"),
        ("products.status = 'a' OR `status`='b'", "NEW.`status` = 'a' OR NEW.`status`='b'"),
        ("kind('x') AND `kind` > 1.5e3", "kind('x') AND NEW.`kind` > 1.5e3"),
        ("`date` > '2026-01-01'", "NEW.`date` > '2026-01-01'"),
    ],
)
def test_columns_become_those_of_the_row(where: str, about: str) -> None:
    """Names in texts, of functions and of SQL stay what they are."""
    assert about_row(where, "NEW", COLUMNS, "products", _quote) == about


@pytest.mark.parametrize(
    "where",
    [
        "EXISTS (SELECT 1 FROM stock WHERE id = products.id)",
        "deleted_at > DATE '2026-01-01'",
        "id IN (select 1)",
        'status = "kind"',
        "other.kind = 1",
    ],
)
def test_what_words_alone_do_not_tell_is_left(where: str) -> None:
    """Subqueries and columns named like words of SQL take the longer way."""
    assert about_row(where, "NEW", COLUMNS, "products", _quote) is None
