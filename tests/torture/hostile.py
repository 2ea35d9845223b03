"""Files made to hurt who reads them: XML for readers of the output, front matter for the watcher. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import cache
from typing import Final

from sitemap_store.model.protocol import SITEMAP_NS

_HEAD: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
_URL: Final = "https://shop.example.com/hostile"


@cache
def xml(root: str) -> Mapping[str, bytes]:
    """What a `urlset` or `sitemapindex` must not be: none is both well-formed and valid."""
    row = "url" if root == "urlset" else "sitemap"
    opened = f'<{root} xmlns="{SITEMAP_NS}">'

    def whole(body: str, before: str = "") -> bytes:
        return f"{_HEAD}{before}{opened}{body}</{root}>\n".encode()

    def one(loc: str) -> str:
        return f"<{row}><loc>{loc}</loc></{row}>"

    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    attributes = " ".join(f'a{n}="1"' for n in range(100_000))
    return {
        "entity bomb": whole(one(f"{_URL}&l11;"), f'<!DOCTYPE {root} [<!ENTITY l0 "ha">{laughs}]>'),
        "quadratic bomb": whole(one("&a;" * 50_000), f'<!DOCTYPE {root} [<!ENTITY a "{"a" * 50_000}">]>'),
        "file entity": whole(one("&f;"), f'<!DOCTYPE {root} [<!ENTITY f SYSTEM "file:///etc/passwd">]>'),
        "foreign DTD": whole(one(_URL), f'<!DOCTYPE {root} SYSTEM "http://127.0.0.1:9/evil.dtd">'),
        "entity loop": whole(one("&x;"), f'<!DOCTYPE {root} [<!ENTITY x "&y;"><!ENTITY y "&x;">]>'),
        "deep": whole("<a>" * 100_000 + "</a>" * 100_000),
        "large attribute": whole(f'<{row} a="{"x" * 9_000_000}"><loc>{_URL}</loc></{row}>'),
        "many attributes": whole(f"<{row} {attributes}/>"),
        "same attribute": whole(f'<{row} a="1" a="2"/>'),
        "long name": whole(f"<{'n' * 5_000_000}/>"),
        "NUL": whole(one(f"{_URL}\0")),
        "UTF-16": whole(one(_URL)).decode().encode("utf-16"),
        "UTF-16 that says UTF-8": whole(one(_URL)).decode().encode("utf-16-be"),
        "UTF-7": f'<?xml version="1.0" encoding="UTF-7"?>+ADw-{root}+AD4-'.encode(),
        "not UTF-8": whole(one(f"{_URL}/é")).decode().encode("latin-1"),
        "unknown encoding": f'<?xml version="1.0" encoding="x-none"?>{opened}<a/></{root}>'.encode(),
        "gzip bomb": _gzip_bomb(),
        "torn gzip": _gzip_bomb()[:2000],
        "empty": b"",
        "blank": b" " * 1000,
        "JSON": b'{"urlset": []}',
    }


def _gzip_bomb() -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = b" " * (1 << 20)
    return b"".join(packer.compress(block) for _ in range(200)) + packer.flush()


@cache
def front_matter() -> Mapping[str, bytes]:
    """Starts of pages that a generator would refuse, or choke on."""
    merges = "\n".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12))
    aliases = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))
    used = "\n".join(
        f"{name}: *a11" for name in ("lastmod", "slug", "permalink", "sitemap", "robots", "date")
    )
    key = ".".join(["a"] * 40_000)
    return {
        "YAML merge bomb": _yaml(f"a0: &a0 {{k: v}}\n{merges}"),
        "YAML alias bomb": _yaml(f"a0: &a0 [ha]\n{aliases}\n{used}"),
        "YAML loop": _yaml("a: &a [*a]\nb: &b {c: *b}\nlastmod: *a\nslug: *b"),
        "YAML deep lists": _yaml(f"a: {'[' * 100_000}"),
        "YAML deep dashes": _yaml("- " * 20_000),
        "YAML deep maps": _yaml("".join(f"{' ' * n}a:\n" for n in range(700))),
        "YAML long key": _yaml(f"? {'k' * 400_000}\n: v"),
        "YAML many keys": _yaml("\n".join(f"k{n}: v" for n in range(40_000))),
        "YAML list as key": _yaml("? [a, b]\n: v\n? {a: b}\n: w"),
        "YAML Python tag": _yaml('lastmod: !!python/object/apply:os.system ["touch /nonexistent/x"]'),
        "YAML two documents": _yaml("a: 1\n--- \nb: 2"),
        "YAML NUL": _yaml("lastmod: 2026-03-21\0"),
        "YAML controls": _yaml("slug: \x1b[31m\x08"),
        "YAML tab": _yaml("a:\n\t- b"),
        "YAML not UTF-8": b"---\nslug: \xff\xfe\xfd\n---\n",
        "YAML never ends": b"---\nlastmod: 2026-03-21\n" + b"text\n" * 1000,
        "YAML year 0": _yaml("lastmod: 0000-00-00\ndate: 99999-12-31T25:61:61+99:99"),
        "YAML large number": _yaml(f"lastmod: {'9' * 100_000}\npriority: 1e999999"),
        "TOML long dotted key": _toml(f"{key} = 1"),
        "TOML long spaced key": _toml(f"{key.replace('.', ' . ')} = 1"),
        "TOML long table": _toml(f"[{key}]\na = 1"),
        "TOML long inline key": _toml(f"x = {{ {key} = 1 }}"),
        "TOML many tables": _toml("".join(f"[a.b.c.d{n}]\n" for n in range(20_000))),
        "TOML deep": _toml(f"a = {'[' * 100_000}"),
        "TOML deep inline": _toml(f"a = {'{a = ' * 50_000}"),
        "TOML large number": _toml(f"lastmod = {'9' * 100_000}"),
        "TOML NUL": _toml('lastmod = "\0"'),
        "TOML twice": _toml("a = 1\na = 2"),
        "TOML date": _toml("lastmod = 0000-00-00"),
        "JSON deep": b'{"a":' + b"[" * 200_000,
        "JSON deep objects": b'{"a":' * 100_000,
        "JSON large number": b'{"lastmod": ' + b"9" * 100_000 + b"}",
        "JSON surrogate": b'{"slug": "\\ud800", "lastmod": "\\udfff"}',
        "JSON NUL": b'{"slug": "\\u0000a", "permalink": "/\\u0000"}',
        "JSON cut": b'{"slug": "a',
        "UTF-16": "---\nlastmod: 2026-03-21\n---\n".encode("utf-16"),
        "UTF-16 cut": "---\nlastmod: 2026-03-21\n---\n".encode("utf-16")[:-1],
        "slug of dots": _yaml("slug: ../../../../etc/passwd"),
        "foreign address": _yaml("permalink: https://evil.example.net/"),
        "long slug": _yaml(f"slug: {'a' * 5000}"),
        "head of tags": b"<html><head>" + b"<meta " * 80_000,
        "head of quotes": b"<html><head><meta content=" + b"'\"" * 200_000,
        "head of comments": b"<html><head>" + b"<!--" * 100_000,
    }


def _yaml(text: str) -> bytes:
    return f"---\n{text}\n---\ntext\n".encode()


def _toml(text: str) -> bytes:
    return f"+++\n{text}\n+++\ntext\n".encode()
