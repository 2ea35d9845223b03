"""`sitemapd push`: events from arguments or as NDJSON from standard input."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click

from sitemap_store.errors import Refused
from sitemap_store.wire import OPS
from sitemapd.cli import Context
from sitemapd.memory import ease_collector

if TYPE_CHECKING:
    from producers.sink import EventSink, Outcome

CHUNK = 2000
"""Lines per batch."""
LINE_MAX = 1024 * 1024
"""The most bytes of one line."""
SHOWN = 100
"""How many refusals are printed one by one; `sitemapd rejected` has more."""


class Line(NamedTuple):
    """One line of input: its number from 1, and the decoded event or its refusal."""

    number: int
    item: Any


@click.command()
@click.argument("op", metavar="add|update|delete|-")
@click.argument("urls", nargs=-1)
@click.option("--lastmod", metavar="DATE", help="When the page last changed.")
@click.option("--changefreq")
@click.option("--priority")
@click.option("--at", metavar="TIME", help="When the change happened; older events lose the race.")
@click.option("--source", metavar="NAME", help="The producer that speaks.")
@click.option("--urgent", is_flag=True, help="Deletes don't wait for min_interval.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def push(
    context: Context,
    op: str,
    urls: tuple[str, ...],
    lastmod: str | None,
    changefreq: str | None,
    priority: str | None,
    at: str | None,
    source: str | None,
    urgent: bool,
    as_json: bool,
) -> None:
    """Push URL events: `push add URL…`, or `push -` to read NDJSON from standard input.

    A line of NDJSON is an object such as {"op":"add","loc":"https://…","lastmod":"2026-03-21"}.
    Exit code 1 when an event was refused; the others are accepted all the same.
    """
    if op == "-":
        if urls:
            raise click.UsageError("`push -` reads events from standard input and takes no URLs.")
        lines = read_lines(sys.stdin.buffer)
    elif op in OPS:
        if not urls:
            raise click.UsageError(f"`push {op}` needs a URL.")
        fields = {
            "lastmod": lastmod,
            "changefreq": changefreq,
            "priority": priority,
            "at": at,
            "urgent": urgent or None,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        lines = (Line(i, {"op": op, "loc": url, **given}) for i, url in enumerate(urls, 1))
    else:
        raise click.UsageError(f"{op!r} is none of add, update, delete, -.")
    send(context, lines, source=source, bulk=op == "-", as_json=as_json)


def send(context: Context, lines: Iterator[Line], *, source: str | None, bulk: bool, as_json: bool) -> None:
    """Push lines in batches and say what became of them. Exits 1 when one was refused."""
    from sitemap_store.wire import check_source

    if source is not None:
        try:
            check_source(source)
        except Refused as refused:
            raise click.UsageError(refused.detail) from refused
    publisher = context.parts.publisher(context.site_name)
    if bulk:
        ease_collector()
    progress = Progress(quiet=as_json)
    accepted = refusals = 0
    kept: list[dict[str, object]] = []
    for batch, outcome in outcomes(publisher, lines, source=source, bulk=bulk):
        accepted += outcome.accepted
        refusals += len(outcome.refused)
        for refusal in outcome.refused:
            if len(kept) >= SHOWN:
                break
            row = {
                "line": batch[refusal.place].number,
                "loc": _printable(refusal.refused.loc),
                "rule": refusal.refused.rule,
                "detail": _printable(refusal.refused.detail),
            }
            kept.append(row)
            if not as_json:
                progress.clear()
                click.echo("line {line}: {loc}: {detail} [{rule}]".format(**row), err=True)
        for warning in outcome.warnings[: 0 if as_json else 5]:
            progress.clear()
            click.echo(f"note: {_printable(warning)}", err=True)
        progress.show(accepted, refusals)
    progress.clear()
    if as_json:
        click.echo(json.dumps({"accepted": accepted, "refused": refusals, "refusals": kept}))
    else:
        if refusals > len(kept):
            click.echo(f"… and {refusals - len(kept)} more refusals", err=True)
        click.echo(f"accepted {accepted}, refused {refusals}")
    if refusals:
        sys.exit(1)


def read_lines(stream: BinaryIO) -> Iterator[Line]:
    """The events of an NDJSON stream; blank lines are passed over, bad ones become refusals."""
    number = 0
    decode = json.JSONDecoder().raw_decode
    while raw := stream.readline(LINE_MAX + 1):
        number += 1
        if len(raw) > LINE_MAX:
            while not raw.endswith(b"\n") and (raw := stream.readline(LINE_MAX)):
                pass
            detail = f"The line is longer than {LINE_MAX} bytes."
            yield Line(number, Refused(loc="", rule="too-large", detail=detail))
            continue
        try:
            text = raw.decode().strip()
            if not text:
                continue
            item, end = decode(text)
            if end != len(text):
                raise ValueError(f"more follows after character {end}")
            yield Line(number, item)
        except (ValueError, RecursionError) as error:
            yield Line(number, Refused(loc="", rule="json", detail=f"The line is not JSON: {error}."))


def batches(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """The lines, `CHUNK` at a time."""
    while batch := list(islice(lines, CHUNK)):
        yield batch


def outcomes(
    sink: EventSink, lines: Iterator[Line], *, source: str | None, bulk: bool
) -> Iterator[tuple[list[Line], Outcome]]:
    """Push the lines batch by batch, in their order.

    While Redis takes one batch the next is read and checked, so that neither waits for the other.
    """
    with ThreadPoolExecutor(1) as pool:
        waiting: list[tuple[list[Line], Future[Outcome]]] = []
        for batch in batches(lines):
            checked = sink.check([line.item for line in batch], source=source)
            waiting.append((batch, pool.submit(sink.take, checked, bulk=bulk)))
            if len(waiting) > 1:
                earlier, taken = waiting.pop(0)
                yield earlier, taken.result()
        for batch, taken in waiting:
            yield batch, taken.result()


class Progress:
    """A count that moves, on a terminal; nothing elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._live = sys.stderr.isatty() and not quiet
        self._shown = False

    def show(self, accepted: int, refused: int) -> None:
        """Write the count over the last one."""
        if self._live:
            click.echo(f"\raccepted {accepted:,}, refused {refused:,} …", nl=False, err=True)
            self._shown = True

    def clear(self) -> None:
        """Take the count off the terminal."""
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._shown = False


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
