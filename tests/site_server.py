"""A web server on the loopback whose pages a test sets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.check_trees import BASE

XML = {"Content-Type": "application/xml; charset=utf-8"}
Page = tuple[int, dict[str, str], bytes]


class Server:
    """Pages by path, and the requests that came: the path, after HEAD where it was one."""

    def __init__(self) -> None:
        self.pages: dict[str, Page | Callable[[BaseHTTPRequestHandler], None]] = {}
        self.asked: list[str] = []
        self.agents: set[str] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                is_head = self.command == "HEAD"
                outer.asked.append(f"HEAD {self.path}" if is_head else self.path)
                outer.agents.add(self.headers["User-Agent"])
                page = outer.pages.get(self.path, (404, {}, b""))
                if callable(page):
                    page(self)
                    return
                status, headers, body = page
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if not is_head:
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        self.base = f"http://127.0.0.1:{self.http.server_port}/"

    def put(self, path: str, text: str | bytes, status: int = 200, **headers: str) -> None:
        """Publish a page; the site's address in it becomes the server's."""
        body = text if isinstance(text, bytes) else text.replace(BASE, self.base).encode()
        named = {name.replace("_", "-"): value.replace(BASE, self.base) for name, value in headers.items()}
        self.pages[path] = (status, {**XML, **named}, body)

    def close(self) -> None:
        """End it."""
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()
