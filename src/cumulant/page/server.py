"""The server of the page: loopback only, four files and one question at a time, nothing from elsewhere."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, final
from urllib.parse import urlsplit

from cumulant.page.workers import Workers, refusal

LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost")  # of this machine: a page from elsewhere that resolves its name to here has another
LONGEST_BYTES = 2000  # of a question
LONGEST_LENGTH = 6  # digits of a length that is read as a number
PATIENCE_SECONDS = 15.0  # with a client that says nothing, or reads nothing
MOST_CONNECTIONS = 64  # at once; more are closed unanswered
FILES: Mapping[str, tuple[str, str]] = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/chart.js": ("chart.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
JSON = "application/json"


@final
class PageServer(ThreadingHTTPServer):
    """Serve the page on loopback; `port` 0 takes any that is free."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, workers: Workers, *, port: int = 0) -> None:
        self.workers = workers
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.contents = {
            path: ((files("cumulant.page") / "static" / name).read_bytes(), kind)
            for path, (name, kind) in FILES.items()
        }
        super().__init__((LOOPBACK, port), Handler)

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://{LOOPBACK}:{self.server_port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away."""


@final
class Handler(BaseHTTPRequestHandler):
    """Answer one client."""

    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "cumulant", ""
    timeout = PATIENCE_SECONDS

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # answers are short, and waited for

    def do_GET(self) -> None:
        content, kind = self.server.contents.get(self.path.partition("?")[0], (None, ""))
        if not self._is_asked_by_our_name():
            self._refuse(HTTPStatus.FORBIDDEN, "Forbidden", "only this machine is answered, by its own name")
        elif content is None:
            self._refuse(HTTPStatus.NOT_FOUND, "NotFound", "there is the page at / and its answers at /answer")
        else:
            self._send(HTTPStatus.OK, kind, content)

    do_HEAD = do_GET  # noqa: N815 (the base class asks for this name)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip()
        if not (self._is_asked_by_our_name() and self._is_asked_by_our_page()):
            self._refuse(HTTPStatus.FORBIDDEN, "Forbidden", "only a page of this server, on this machine, is answered")
        elif self.path != "/answer" or kind != JSON or not (length.isascii() and length.isdecimal()):
            self._refuse(HTTPStatus.BAD_REQUEST, "Malformed", "POST /answer takes JSON and its length")
        elif len(length) > LONGEST_LENGTH or int(length) > LONGEST_BYTES:
            self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "TooLong", f"a question has at most {LONGEST_BYTES} bytes"
            )
        else:
            text = self.rfile.read(int(length)).decode("utf-8", "replace")
            self._send(HTTPStatus.OK, JSON, self.server.workers.ask(text).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it)
        """Keep no log: questions are the user's."""

    def _is_asked_by_our_name(self) -> bool:
        """Return whether the client names this machine: a page whose own name leads here, too, names another."""
        return (self.headers.get("Host") or "").rsplit(":", 1)[0].lower() in NAMES

    def _is_asked_by_our_page(self) -> bool:
        """Return whether the page that asks is this server's, as browsers say; a program that is no browser may ask."""
        origin = self.headers.get("Origin")
        ours = origin is None or _is_address(origin, self.server.server_port)
        return ours and self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")

    def _refuse(self, status: HTTPStatus, kind: str, message: str) -> None:
        self.close_connection = True  # what else it sent is not read
        self._send(status, JSON, refusal(kind, message).encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _is_address(origin: str, port: int) -> bool:
    """Return whether an origin is this server.

    >>> _is_address("http://localhost:80", 80), _is_address("http://elsewhere:80", 80), _is_address("null", 80)
    (True, False, False)
    """
    try:
        parts = urlsplit(origin)
        return parts.scheme == "http" and parts.hostname in NAMES and (parts.port or 80) == port
    except ValueError:
        return False
