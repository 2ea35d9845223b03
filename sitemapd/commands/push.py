"""`sitemapd push`: events from arguments or as NDJSON from standard input."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from producers.ndjson import Lines, read_lines, urls_or_objects
from sitemap_store.errors import Refused
from sitemap_store.model.wire import OPS
from sitemapd.cli import Context
from sitemapd.commands.look import await_published
from sitemapd.memory import ease_collector

if TYPE_CHECKING:
    pass

BULK = 200
"""Lines that come at once and are more than this are a bulk load: their shards wait to be full."""
NO_OP = "The line has no op: write one, or use `sitemapd push add -`, which takes lines without."
SHOWN = 100
"""How many refusals are printed one by one; `sitemapd rejected` has more."""


@click.command()
@click.argument("op", metavar="add|update|delete|-")
@click.argument("urls", nargs=-1)
@click.option("--lastmod", metavar="DATE", help="When the page last changed.")
@click.option("--changefreq")
@click.option("--priority")
@click.option(
    "--at", metavar="TIME", help="When the change happened. An older event does not undo a newer one."
)
@click.option("--source", metavar="NAME", help="The source of the events.")
@click.option(
    "--image", "images", multiple=True, metavar="URL", help="An image of the page; may be repeated."
)
@click.option("--ext", metavar="JSON", help="Images, videos, news and languages, as in an event.")
@click.option("--strict", is_flag=True, help="Refuse an event if an image or anything else in ext is wrong.")
@click.option("--urgent", is_flag=True, help="Deletes don't wait for min_interval.")
@click.option(
    "--wait",
    type=float,
    metavar="SECONDS",
    help="Wait this long until everything is published; exit 1 on time-out.",
)
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
    images: tuple[str, ...],
    ext: str | None,
    strict: bool,
    urgent: bool,
    wait: float | None,
    as_json: bool,
) -> None:
    """Push URL events: `push add URL…`, or `push -` to read NDJSON from standard input.

    A line of NDJSON is an object such as {"op":"add","loc":"https://…","lastmod":"2026-03-21"}.
    `push add -` reads lines that have no op: plain URLs, or such objects without it.
    Exit code 1 when an event was refused; the others are accepted all the same.
    """
    if op == "-":
        if urls:
            raise click.UsageError(
                f"`push -` reads events from standard input: leave out {urls[0]!r}, or write `push add`."
            )
        lines = _without_op(read_lines(sys.stdin.buffer))
    elif op in OPS:
        if not urls:
            raise click.UsageError(
                f"`push {op}` needs a URL: write `push {op} https://…`, or `push {op} -` for standard input."
            )
        fields = {
            "lastmod": lastmod,
            "changefreq": changefreq,
            "priority": priority,
            "at": at,
            "ext": _ext(ext, images),
            "strict": strict or None,
            "urgent": urgent or None,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        if "-" in urls:
            if len(urls) > 1:
                raise click.UsageError(
                    f"`push {op} -` reads URLs from standard input: leave out the - or the other URLs."
                )
            lines = _with_op(read_lines(sys.stdin.buffer, urls_or_objects), op, given)
        else:
            items = [{"op": op, "loc": url, **given} for url in urls]
            lines = iter([Lines(range(1, len(urls) + 1), items)])
    else:
        raise click.UsageError(
            f"{op!r} is none of add, update, delete and -: write `push add {op}` to add a URL."
        )
    refused = send(context, lines, source=source, as_json=as_json)
    if wait is not None:
        await_published(context, wait)
    if refused:
        sys.exit(1)


def _ext(text: str | None, images: tuple[str, ...]) -> dict[str, Any] | None:
    """The extensions that the options name. Raises UsageError for what is no object of JSON."""
    try:
        ext = json.loads(text) if text is not None else {}
    except (ValueError, RecursionError):
        ext = None
    if not isinstance(ext, dict):
        raise click.UsageError(
            f'--ext {text!r:.60} is no JSON object such as \'{{"images": ["https://…"]}}\'.'
        )
    if images:
        ext["images"] = list(images)
    return ext or None


def _with_op(lines: Iterator[Lines], op: str, given: dict[str, Any]) -> Iterator[Lines]:
    """Lines of URLs or objects as events of one op; `given` holds for what a line leaves out."""

    def event(item: Any) -> Any:
        if isinstance(item, str):
            return {"op": op, "loc": item, **given}
        if not isinstance(item, dict):
            return item
        if item.get("op", op) != op:
            loc = item.get("loc")
            detail = f"The line says op {item['op']!r:.20}: leave the op out, or use `sitemapd push -`."
            return Refused(loc=loc if isinstance(loc, str) else "", rule="op", detail=detail)
        return {**given, **item, "op": op}

    for batch in lines:
        yield Lines(batch.numbers, [event(item) for item in batch.items])


def _without_op(lines: Iterator[Lines]) -> Iterator[Lines]:
    """The lines; of those that have no op the first is refused with the way out, and the rest passed over."""
    said = 0
    for batch in lines:
        lacking = {n for n, item in enumerate(batch.items) if type(item) is dict and "op" not in item}
        if not lacking:
            yield batch
            continue
        kept = [n for n in range(len(batch.items)) if n not in lacking]
        if not said:
            first = min(lacking)
            loc = batch.items[first].get("loc")
            batch.items[first] = Refused(loc=loc if isinstance(loc, str) else "", rule="op", detail=NO_OP)
            kept = sorted([first, *kept])
        said += len(lacking)
        if kept:
            yield Lines([batch.numbers[n] for n in kept], [batch.items[n] for n in kept])
    if said > 1:
        click.echo(f"{said - 1} more lines have no op either", err=True)


def send(context: Context, lines: Iterator[Lines], *, source: str | None, as_json: bool) -> int:
    """Push lines as they come and say what became of them; returns how many were refused."""
    from sitemap_store.model.wire import check_source

    if source is not None:
        try:
            check_source(source)
        except Refused as refused:
            raise click.UsageError(refused.detail) from refused
    publisher = context.parts.publisher(context.site_name)
    ease_collector()
    progress = Progress(quiet=as_json)
    accepted = refusals = 0
    kept: list[dict[str, object]] = []
    for batch in lines:
        outcome = publisher.push(batch.items, source=source, bulk=len(batch.items) > BULK)
        accepted += outcome.accepted
        refusals += len(outcome.refused)
        for refusal in outcome.refused:
            if len(kept) >= SHOWN:
                break
            row = {
                "line": batch.numbers[refusal.place],
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
    return refusals


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
