"""`sitemapd verify`: whether listed URLs are pages that search engines would list."""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from sitemap_store.errors import Refused
from sitemapd.cli import Context
from sitemapd.commands.check import many, progress_bar

if TYPE_CHECKING:
    from sitemap_store.redis.store import Store
    from sitemapd.verify import Problem

REQUEST_S: Final = 20.0
"""Seconds that one request may take."""


@click.command()
@click.argument("urls", nargs=-1)
@click.option(
    "--count",
    type=click.IntRange(1, 1_000_000),
    default=100,
    show_default=True,
    help="How many listed URLs to verify, taken at random, where none is given.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0.01, 10),
    default=1.0,
    show_default=True,
    help="The most requests in a second to a host.",
)
@click.option("--allow-private", is_flag=True, help="Fetch from private addresses too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def verify(
    context: Context, urls: tuple[str, ...], count: int, rate: float, allow_private: bool, as_json: bool
) -> None:
    """Fetch listed URLs, and find those that are gone, redirect, forbid indexing or are not canonical.

    Asks politely: one request at a time, as robots.txt allows. Exit code 1 when anything is found.
    """
    from sitemapd.fetch import Fetcher, NotFetched
    from sitemapd.verify import Verifier

    store = context.parts.store(context.site_name)
    locs = _normal(store, urls) if urls else _sample(store, count)
    problems: list[Problem] = []
    with (
        tempfile.TemporaryDirectory(prefix="sitemapd-verify-") as folder,
        progress_bar(hidden=as_json) as bar,
    ):
        fetcher = Fetcher(Path(folder), allow_private=allow_private, seconds=REQUEST_S)
        with suppress(NotFetched):  # which each URL reports
            fetcher.allow(store.site.rules.base, named=True)
        verifier = Verifier(fetcher, rate=rate)
        task = bar.add_task("Verifying", total=len(locs))
        for problem in verifier.verify(locs):
            if problem is not None:
                problems.append(problem)
                if not as_json:
                    click.echo(_line(problem))
            bar.advance(task)
    counts = Counter(problem.code for problem in problems)
    if as_json:
        click.echo(json.dumps(_report(len(locs), verifier.asked, counts, problems), indent=2))
    else:
        click.echo(
            f"{many(len(locs), 'URL')}, {verifier.asked:,} asked for: {many(len(problems), 'problem')}"
        )
    if problems:
        sys.exit(1)


def _normal(store: Store, urls: Iterable[str]) -> list[str]:
    from sitemap_store.model.urls import normalise

    try:
        return [normalise(url, store.site.rules).loc for url in urls]
    except Refused as refused:
        raise click.UsageError(refused.detail) from refused


def _sample(store: Store, count: int) -> list[str]:
    """Listed URLs at random, all of them equally likely; all when there are no more."""
    listed = (entry.loc for entry in store.listing())
    kept = list(islice(listed, count))
    for number, loc in enumerate(listed, len(kept) + 1):
        place = random.randrange(number)
        if place < count:
            kept[place] = loc
    return kept


def _line(problem: Problem) -> str:
    from sitemapd.verify import PROBLEMS

    detail = f" ({problem.detail})" if problem.detail else ""
    return f"{problem.loc}: {PROBLEMS[problem.code]}{detail} [{problem.code}]"


def _report(urls: int, asked: int, counts: Counter[str], problems: Iterable[Problem]) -> dict[str, object]:
    from sitemapd.verify import PROBLEMS

    return {
        "urls": urls,
        "asked": asked,
        "counts": dict(sorted(counts.items())),
        "problems": [
            {"code": code, "url": loc, "what": PROBLEMS[code], "detail": detail}
            for code, loc, detail in problems
        ],
    }
