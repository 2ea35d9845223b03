"""Which URLs the things of a webhook have, by the sender's own key: an id is enough to take them down.

1. A delivery that adds URLs for a key deletes those that the key had before and has no more; one that
   deletes a key deletes all that it had.
2. A URL belongs to the key that named it last. So when two things swap their URLs, the delivery of the
   second does not delete what the first has just been given.
3. What is remembered is one hash for each webhook, `hook:<webhook>`: `k` and the digest of a key → its URLs,
   and `u` and the digest of a URL → the digest of its key. A key with a URL of 80 characters takes about 300
   bytes; `KEYS_MAX` keys with `URLS_MAX` URLs each are remembered, and no more.
4. It is written after the events are stored: a delivery that broke off in between is sent again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sitemap_store.redis.connection import translated
from sitemap_store.redis.store import Store

KEYS_MAX: Final = 200_000
URLS_MAX: Final = 100


class KeyedUrls:
    """The keys of one webhook. Its methods raise Unavailable, and run in one delivery at a time."""

    def __init__(self, store: Store, webhook: str) -> None:
        self._client = store.client
        self._name = f"{store.partitions[0].prefix}:hook:{webhook}"

    def read(self, keys: Collection[str]) -> dict[str, list[str]]:
        """The URLs that still belong to each key."""
        digests = [_digest(key) for key in keys]
        with translated():
            texts = self._values([b"k" + digest for digest in digests])
            urls = [text.decode().split("\n") if text else [] for text in texts]
            every = [url for some in urls for url in some]
            owners = dict(zip(every, self._values([b"u" + _digest(url) for url in every]), strict=True))
        return {
            key: [url for url in some if owners[url] == digest]
            for key, digest, some in zip(keys, digests, urls, strict=True)
        }

    def write(self, before: Mapping[str, Sequence[str]], now: Mapping[str, Sequence[str]]) -> list[str]:
        """Remember what each key has now; returns the keys for which there is no room."""
        with translated(), self._client.pipeline(transaction=True) as pipe:
            room = 2 * KEYS_MAX - int(self._size())
            left_out = []
            for key, urls in now.items():
                digest, kept = _digest(key), list(dict.fromkeys(urls))[:URLS_MAX]
                gone = [url for url in before[key] if url not in kept]
                if gone:
                    pipe.hdel(self._name, *[b"u" + _digest(url) for url in gone])
                if not kept:
                    pipe.hdel(self._name, b"k" + digest)
                elif before[key] or room > 0:
                    room -= 1 + len(kept)
                    pipe.hset(self._name, b"k" + digest, "\n".join(kept).encode())
                    for url in kept:
                        pipe.hset(self._name, b"u" + _digest(url), digest)
                else:
                    left_out.append(key)
            pipe.execute()
        return left_out

    def _values(self, fields: Sequence[bytes]) -> list[Any]:
        values: Any = self._client.hmget(self._name, fields) if fields else []
        return list(values)

    def _size(self) -> Any:
        return self._client.hlen(self._name)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).digest()
