"""A file that is sent in pieces is closed however its request ends."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sitemapd.web.files import PIECE, _pieces, _Streamed


@pytest.mark.parametrize("fails_at", [0, 1, 2, 3])
def test_a_client_that_leaves_leaves_no_open_file(tmp_path: Path, fails_at: int) -> None:
    """Before the headers, before the first piece, in the middle."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * (3 * PIECE))
    file = path.open("rb")
    response = _Streamed(_pieces(file, 3 * PIECE), file, {})
    sent = 0

    async def send(_message: Any) -> None:
        nonlocal sent
        if sent == fails_at:
            raise OSError("gone")
        sent += 1

    async def receive() -> dict[str, str]:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    def ask() -> None:
        scope = {"type": "http", "method": "GET", "asgi": {"spec_version": "2.4"}}
        with suppress(Exception):
            asyncio.run(response(scope, receive, send))

    with ThreadPoolExecutor(1) as thread:  # browser tests leave a loop in the main one
        thread.submit(ask).result()
    assert sent == fails_at
    assert file.closed
