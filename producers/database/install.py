"""Installing and removing the triggers of a source, and their SQL as people read it."""

from __future__ import annotations

import logging

from producers.database.check import plan_of, shape_of
from producers.database.dialect import Broken, Dialect
from producers.database.shape import OUTBOX, SOURCES, URLS, Shape
from producers.database.source import DatabaseSource
from sitemap_store.errors import BadSetting
from sitemap_store.site import Site

log = logging.getLogger(__name__)


def prepared(dialect: Dialect, source: DatabaseSource, site: Site) -> Shape:
    """The shape of a source whose triggers are there, or made now (`auto`). Raises BadSetting."""
    shape = shape_of(dialect, source, site)
    plan = plan_of(dialect, shape)
    found = dialect.installed(plan)
    if found == "unknown":
        try:
            found = "installed" if dialect.noted(shape.label)[0] == plan.definition else "different"
        except Broken:
            found = "missing"
    dialect.rollback()
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
    what = "are not installed" if found == "missing" else "are those of another configuration"
    raise BadSetting(
        setting=f"database.{source.name}",
        detail=f"its triggers {what}.",
        hint=f"Run `sitemapd triggers install {source.name}`.",
    )


def install(dialect: Dialect, shape: Shape) -> None:
    """Make the triggers, and tables where they are missing: in one transaction where the database can.

    Doing it again changes nothing. The next comparison covers what happened before.
    """
    plan = plan_of(dialect, shape)
    try:
        for statement in (*plan.tables, *plan.create):
            dialect.define(statement)
        if dialect.noted(shape.label)[0] != plan.definition:
            dialect.upsert(shape.label, "definition", plan.definition)
            dialect.upsert(shape.label, "told", None)
        dialect.commit()
    except BaseException:
        dialect.rollback()
        raise


def uninstall(dialect: Dialect, shape: Shape) -> None:
    """Remove the triggers and what is kept of the source; the tables too when it was the last source."""
    plan = plan_of(dialect, shape)
    try:
        for statement in plan.drop:
            dialect.define(statement)
        for statement in plan.tables:  # so that what follows can't fail for their lack
            dialect.define(statement)
        for name in (OUTBOX, SOURCES, URLS):
            dialect.run(f"DELETE FROM {dialect.ours(name)} WHERE source = {dialect.mark}", [shape.label])
        if not dialect.run(f"SELECT 1 FROM {dialect.ours(SOURCES)} LIMIT 1"):
            for statement in plan.drop_tables:
                dialect.define(statement)
        dialect.commit()
    except BaseException:
        dialect.rollback()
        raise


def script(dialect: Dialect, shape: Shape, *, remove: bool = False) -> str:
    """The SQL that `install` (or `uninstall`) runs, for a person or the database's own client."""
    plan = plan_of(dialect, shape)
    lines = [f"-- sitemapd: the triggers of source {shape.source.name} of site {shape.site}", ""]
    if remove:
        return "\n".join([*lines, *_statements(dialect, plan.drop)])
    if plan.grants:
        lines += ["-- The relay needs no more than this. `sitemapd` stands for the role of its dsn:"]
        lines += [f"--   {grant};" for grant in plan.grants]
        lines += [""]
    transaction = {"postgresql": "BEGIN", "sqlite": "BEGIN IMMEDIATE"}.get(shape.source.kind)
    note = (
        f"INSERT INTO {dialect.ours(SOURCES)} (source, definition)\n"
        f"    VALUES ('{shape.label}', '{plan.definition}')\n"
    ) + (
        "    ON DUPLICATE KEY UPDATE definition = VALUES(definition), told = NULL"
        if shape.source.kind == "mysql"
        else "    ON CONFLICT (source) DO UPDATE SET definition = excluded.definition, told = NULL"
    )
    statements = [*plan.tables, *plan.create, note]
    if transaction:
        statements = [transaction, *statements, "COMMIT"]
    return "\n".join([*lines, *_statements(dialect, statements)])


def _statements(dialect: Dialect, statements: list[str] | tuple[str, ...]) -> list[str]:
    if dialect.source.kind != "mysql":
        return [f"{statement};\n" for statement in statements]
    # A trigger's body holds semicolons, so the client is told another end of a statement.
    return ["DELIMITER //", *(f"{statement} //\n" for statement in statements), "DELIMITER ;", ""]
