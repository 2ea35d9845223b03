"""The HTTP server: `/healthz` and the published files, on loopback unless told otherwise."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from email.utils import formatdate, parsedate_to_datetime
from hashlib import blake2b

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sitemap_store.errors import BadSetting, SitemapdError
from sitemap_store.output import Folder
from sitemap_store.site import INDEX_FILE, SHARD_NAME

_HEADERS = {"X-Robots-Tag": "noindex", "X-Content-Type-Options": "nosniff"}

Health = Callable[[], tuple[bool, Mapping[str, object]]]


def application(folders: Mapping[str, Folder], health: Health) -> Starlette:
    """The application.

    With one site its files are at `/`, with several at `/SITE/`. `/healthz` answers 200 once
    everything is ready and 503 before, with what it waits for.
    """

    def healthz(request: Request) -> Response:
        ready, detail = health()
        return JSONResponse({"ready": ready, **detail}, status_code=200 if ready else 503, headers=_HEADERS)

    def home(request: Request) -> Response:
        lines = [
            f"{request.url.scheme}://{request.url.netloc}/{prefix}{name}"
            for prefix, folder in _by_prefix(folders).items()
            for name in folder.published()
            if INDEX_FILE.fullmatch(name)
        ]
        text = "\n".join(lines) if lines else "Nothing is published yet."
        return PlainTextResponse(text + "\n", headers=_HEADERS)

    def file(request: Request) -> Response:
        prefix = request.path_params.get("site")
        folder = folders.get(prefix) if prefix else next(iter(folders.values()))
        if folder is None or (prefix is None) != (len(folders) == 1):
            return _missing()
        return _serve(request, folder, request.path_params["name"])

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/", home),
            Route("/{name}", file),
            Route("/{site}/{name}", file),
        ]
    )


def _by_prefix(folders: Mapping[str, Folder]) -> dict[str, Folder]:
    if len(folders) == 1:
        return {"": next(iter(folders.values()))}
    return {f"{name}/": folder for name, folder in folders.items()}


def _serve(request: Request, folder: Folder, name: str) -> Response:
    if not (INDEX_FILE.fullmatch(name) or SHARD_NAME.fullmatch(name)):
        return _missing()
    try:
        data, modified = folder.read(name), folder.modified(name)
    except SitemapdError:
        return PlainTextResponse("The file can't be read now.\n", 503, headers=_HEADERS)
    if data is None or modified is None:
        return _missing()
    etag = f'"{blake2b(data, digest_size=12).hexdigest()}"'
    headers = {
        **_HEADERS,
        "ETag": etag,
        "Last-Modified": formatdate(modified, usegmt=True),
        "Cache-Control": "no-cache",
    }
    if _not_modified(request, etag, int(modified)):
        return Response(status_code=304, headers=headers)
    kind = "application/gzip" if name.endswith(".gz") else "application/xml"
    return Response(data, media_type=kind, headers=headers)


def _not_modified(request: Request, etag: str, modified: int) -> bool:
    if (tags := request.headers.get("if-none-match")) is not None:
        return tags.strip() == "*" or etag in [tag.strip().removeprefix("W/") for tag in tags.split(",")]
    since = request.headers.get("if-modified-since")
    if since is None:
        return False
    try:
        return modified <= parsedate_to_datetime(since).timestamp()
    except (TypeError, ValueError):
        return False


def _missing() -> Response:
    return PlainTextResponse("There is no such sitemap file.\n", 404, headers=_HEADERS)


def listen(host: str, port: int) -> socket.socket:
    """Take a port, 0 for any that is free, before anything else is started. Raises BadSetting."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise BadSetting(
            setting="--port",
            detail=f"{host}:{port} can't be listened on ({error.strerror}).",
            hint="Choose another port, or 0 for any that is free.",
        ) from error
    return listener


class Server:
    """A uvicorn server in a thread of its own; `listener` (see `listen`) stays the caller's to close."""

    def __init__(self, app: Starlette, listener: socket.socket) -> None:
        self._socket = listener
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=3,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        host, port, *_ = listener.getsockname()
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{port}/"

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the requests in hand and end."""
        self._server.should_exit = True
        self._thread.join(5)

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])
