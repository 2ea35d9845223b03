"""Installing and removing the triggers of a source, and their SQL as people read it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from producers.database.check import shape_of
from producers.database.dialect import Broken, Dialect
from producers.database.outbox import read_definition
from producers.database.shape import SOURCES, TABLES, Shape
from producers.database.source import DatabaseSource
from producers.database.triggers import label_in, literal, plan_of
from sitemap_store.errors import BadSetting
from sitemap_store.model.site import Site

log = logging.getLogger(__name__)

MOST_WAITING: Final = 1_000_000
"""Rows of one source in the outbox; comparing its table is quicker than looking each of them up."""


WRONG: Final = {
    "missing": "are not installed",
    "broken": "can't work: they are disabled, or the user with whose rights they run was dropped",
    "different": "are those of another configuration",
}
"""What is wrong with triggers that aren't `installed`, after "the triggers"."""


def prepared(dialect: Dialect, source: DatabaseSource, site: Site) -> Shape:
    """The shape of a source whose triggers are there, or made now (`auto`). Raises BadSetting."""
    shape = shape_of(dialect, source, site)
    plan = plan_of(dialect, shape)
    found = dialect.installed(plan)
    if found == "unknown":
        try:
            noted = read_definition(dialect, shape.label)
            found = "installed" if noted == plan.definition else "different"
        except Broken:
            found = "missing"
    dialect.rollback()
    if found == "missing" and source.kind == "sqlite" and dialect.found_triggers(plan):
        # While a table is missing that a trigger names, SQLite refuses the application's statements.
        dialect.define_all(plan.tables)
        found = dialect.installed(plan)
    if found == "installed":
        return shape
    if source.triggers == "auto":
        install(dialect, shape)
        log.info(
            "Installed the triggers of %s",
            source.name,
            extra={"action": "triggers_installed", "site": site.name, "source": source.name},
        )
        return shape
    raise BadSetting(
        setting=f"database.{source.name}",
        detail=f"its triggers {WRONG[found]}.",
        hint=f"Run `sitemapd triggers install {source.name}`.",
    )


def install(dialect: Dialect, shape: Shape) -> None:
    """Make the triggers, and tables where they are missing: in one transaction where the database can.

    Doing it again changes nothing. The next comparison covers what happened before: the relay sees that the
    triggers are others, or that what it noted was taken back.
    """
    plan = plan_of(dialect, shape)
    dialect.define_all((*plan.tables, *plan.create))
    if read_definition(dialect, shape.label) != plan.definition:
        dialect.define(plan.note)
    dialect.commit()


def uninstall(dialect: Dialect, shape: Shape) -> None:
    """Remove the triggers and what is kept of the source; the tables too when it was the last source."""
    plan = plan_of(dialect, shape)
    # The tables are made first, so that what follows can't fail for their lack.
    dialect.define_all((*plan.drop, *plan.tables, *_forget(dialect, shape.label)))
    if not dialect.run(f"SELECT 1 FROM {dialect.ours(SOURCES)} LIMIT 1"):
        dialect.define_all(f"DROP TABLE IF EXISTS {dialect.ours(name)}" for name in TABLES)


def _forget(dialect: Dialect, label: str) -> list[str]:
    return [f"DELETE FROM {dialect.ours(name)} WHERE source = {literal(label)}" for name in TABLES]


class Stray(NamedTuple):
    """What is left in a database of a source, or of an earlier setting of it."""

    label: str
    """SITE/SOURCE."""
    drop: tuple[str, ...]
    """Statements that remove its triggers."""
    waiting: int
    """Rows in the outbox that no relay takes; 0 where the source is configured."""


def strays(dialect: Dialect, shapes: Iterable[Shape]) -> list[Stray]:
    """Triggers and rows of sources that are none of these: renamed or removed ones, or on another table."""
    known: set[str] = set()
    drops: set[str] = set()
    for shape in shapes:
        known.add(shape.label)
        drops.update(plan_of(dialect, shape).drop)
    found: dict[str, list[str]] = {}
    for body, drop in dialect.marked():
        label = label_in(body)
        if label and drop not in drops and dialect.outbox in body:
            found.setdefault(label, []).append(drop)
    waiting: dict[str, int] = {}
    try:
        waiting = dict(dialect.run(f"SELECT source, count(*) FROM {dialect.outbox} GROUP BY source"))
        noted = [label for (label,) in dialect.run(f"SELECT source FROM {dialect.ours(SOURCES)}")]
    except Broken:  # the tables of sitemapd are not there
        noted = []
    dialect.rollback()
    labels = dict.fromkeys([*found, *(each for each in (*noted, *waiting) if each not in known)])
    return [
        Stray(label, tuple(found.get(label, ())), 0 if label in known else int(waiting.get(label, 0)))
        for label in labels
    ]


def remove_stray(dialect: Dialect, stray: Stray, *, keep: bool) -> None:
    """Remove its triggers, and what is kept of the source unless another setting of it is in use (`keep`)."""
    dialect.define_all((*stray.drop, *(() if keep else _forget(dialect, stray.label))))


def trim(dialect: Dialect) -> list[str]:
    """Bound the outbox: where too much waits for a source, a request for a comparison takes its place."""
    sql = f"SELECT source FROM {dialect.outbox} GROUP BY source HAVING count(*) > {MOST_WAITING}"
    labels = [label for (label,) in dialect.run(sql)]
    for label in labels:
        source = literal(label)
        dialect.define(f"DELETE FROM {dialect.outbox} WHERE source = {source}")
        dialect.define(f"INSERT INTO {dialect.outbox} (source, kind) VALUES ({source}, 'failed')")
    dialect.commit()
    return labels


def script(dialect: Dialect, shape: Shape, *, remove: bool = False) -> str:
    """The SQL that `install` (or `uninstall`) runs, for a person or the database's own client."""
    plan = plan_of(dialect, shape)
    lines = [f"-- sitemapd: the triggers of source {shape.source.name} of site {shape.site}", ""]
    statements = list(plan.drop)
    if not remove:
        if shape.source.kind == "mysql":
            lines += [
                "-- Run it as a user who stays: without its DEFINER a trigger fails every statement.",
                "",
            ]
        if plan.grants:
            lines += ["-- The relay needs no more than this. `sitemapd` stands for the role of its dsn:"]
            lines += [*(f"--   {grant};" for grant in plan.grants), ""]
        statements = [*plan.tables, *plan.create, plan.note]
        begin = {"postgresql": "BEGIN", "sqlite": "BEGIN IMMEDIATE"}.get(shape.source.kind)
        if begin:
            statements = [begin, *statements, "COMMIT"]
    if shape.source.kind == "mysql":
        # A trigger's body holds semicolons, so the client is told another end of a statement.
        statements = ["DELIMITER //", *(f"{statement} //\n" for statement in statements), "DELIMITER ;", ""]
    else:
        statements = [f"{statement};\n" for statement in statements]
    return "\n".join([*lines, *statements])
