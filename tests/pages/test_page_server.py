"""The server of the page: who is answered, within which bounds."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cumulant.page import workers as module
from cumulant.page.server import LONGEST_BYTES, MOST_CONNECTIONS, PageServer
from cumulant.page.workers import Workers

QUESTION = json.dumps(
    {"ask": "epsilon", "noise_multiplier": 1, "batch_size": 1, "dataset_size": 100, "epochs": 10, "delta": "1e-5"}
)


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    started = Workers(2)
    yield started
    started.close()


@pytest.fixture(scope="module")
def server(workers: Workers) -> Iterator[PageServer]:
    with PageServer(workers) as started:
        thread = threading.Thread(target=started.serve_forever, daemon=True)
        thread.start()
        yield started
        started.shutdown()


def ask(
    server: PageServer, method: str = "POST", path: str = "/answer", body: str | None = QUESTION, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        named = {"Content-Type": "application/json", **named}
    connection.request(method, path, body, named)
    response = connection.getresponse()
    found = response.status, dict(response.headers), response.read()
    connection.close()
    return found


def test_a_question_is_answered(server: PageServer) -> None:
    status, headers, body = ask(server)
    assert status == 200
    assert json.loads(body)["epsilon"] == pytest.approx(1.8282366665, abs=1e-9)  # 1000 steps at a rate of 0.01
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "Access-Control-Allow-Origin" not in headers


def test_the_files_of_the_page_are_served_and_nothing_else(server: PageServer) -> None:
    for path in ("/", "/page.css", "/page.js", "/chart.js", "/icon.svg", "/?x=1"):
        status, headers, body = ask(server, "GET", path, None)
        assert status == 200
        assert len(body) == int(headers["Content-Length"]) > 0
    for path in ("/../server.py", "/%2e%2e/server.py", "/index.html/", "//etc/passwd", "/answer", "/page.css/.."):
        assert ask(server, "GET", path, None)[0] == 404
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        assert ask(server, method, "/answer")[0] == 501


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://[::1"},
        {"Sec_Fetch_Site": "cross-site"},
    ],
)
def test_pages_from_elsewhere_are_refused(server: PageServer, headers: dict[str, str]) -> None:
    status, _, body = ask(server, **headers)
    assert status == 403
    assert json.loads(body)["error"]["kind"] == "Forbidden"


def test_our_own_page_is_answered_by_either_name(server: PageServer) -> None:
    for name in ("127.0.0.1", "localhost", "LOCALHOST"):
        host = f"{name}:{server.server_port}"
        assert ask(server, Host=host, Origin=f"http://{host.lower()}", Sec_Fetch_Site="same-origin")[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content_Type": "text/plain"}, 400),
        ({"Content_Length": "-1"}, 400),
        ({"Content_Length": "1e3"}, 400),
        ({"Content_Length": "٣"}, 400),
        ({"Content_Length": str(LONGEST_BYTES + 1)}, 413),
        ({"Content_Length": "9" * 5000}, 413),
    ],
)
def test_bodies_that_are_no_question_are_refused_unread(
    server: PageServer, headers: dict[str, str], status: int
) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
        named = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": "2"}
        named.update({name.replace("_", "-"): value for name, value in headers.items()})
        lines = ["POST /answer HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
        connection.sendall("\r\n".join([*lines, "", "{}"]).encode())
        assert f" {status} ".encode() in connection.recv(100)


def test_ten_clients_at_once_are_all_answered(server: PageServer) -> None:
    with ThreadPoolExecutor(10) as clients:
        found = list(clients.map(lambda _: ask(server), range(30)))
    assert {status for status, _, _ in found} == {200}
    assert len({body for _, _, body in found}) == 1


def test_clients_that_say_nothing_do_not_keep_others_waiting(server: PageServer) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(MOST_CONNECTIONS // 2)]
    try:
        assert ask(server)[0] == 200
    finally:
        for connection in silent:
            connection.close()


def test_it_listens_on_loopback_only(server: PageServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    with socket.socket() as elsewhere:  # another address of this machine that would lead to it if it listened on all
        elsewhere.settimeout(2)
        assert elsewhere.connect_ex(("127.0.0.2", server.server_port)) != 0


@pytest.mark.slow
def test_a_process_that_dies_or_takes_too_long_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    few = Workers(1, most_seconds=1.0)
    try:
        assert "epsilon" in json.loads(few.ask(QUESTION))
        (worker,) = few._all
        worker.process.kill()
        assert json.loads(few.ask(QUESTION))["error"]["kind"] == "OutOfReach"
        assert_answers_again(few)
        (worker,) = few._all
        monkeypatch.setattr(type(worker.pipe), "poll", lambda *_: False)  # as if there were no answer in time
        assert json.loads(few.ask(QUESTION))["error"]["message"].startswith("there is no answer within 1 s")
        monkeypatch.undo()
        assert not worker.process.is_alive()
        assert_answers_again(few)
    finally:
        few.close()


def assert_answers_again(few: Workers) -> None:
    answer: dict[str, Any] = {}
    for _ in range(60):
        answer = json.loads(few.ask(QUESTION))
        if "epsilon" in answer:
            return
        assert answer["error"]["kind"] in ("Busy", "OutOfReach")
        time.sleep(0.2)
    raise AssertionError(answer)


def test_memory_is_bounded() -> None:
    from multiprocessing import get_context

    context = get_context("spawn")
    process = context.Process(target=take_too_much)
    process.start()
    process.join(60)
    assert process.exitcode == 0


def take_too_much() -> None:
    module._limit_memory()
    small = bytearray(module.MOST_BYTES // 4)
    try:
        bytearray(2 * module.MOST_BYTES)
    except MemoryError:
        raise SystemExit(0 if small else 2) from None
    raise SystemExit(1)
