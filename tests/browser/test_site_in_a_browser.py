"""The site in a real browser: built without a warning, and what people look for is found in two steps."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="the site is not looked at: Playwright is not installed")
pytest.importorskip("myst_parser", reason="the site is not built: pip install '.[docs]'")
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="the site is not looked at: there is no Chromium here")
DOCS = Path(__file__).parents[2] / "docs"
LOOKED_FOR = {
    "epsilon Opacus run": {"with-opacus.html", "coming-from.html", "train.html", "tutorial.html"},
    "noise for a budget": {"coming-from.html", "tutorial.html", "page.html", "reference/planning.html", "train.html"},
    "shuffled loader": {"choose.html", "glossary.html"},
    "budget teams": {"ledger.html", "glossary.html"},
    "own mechanism": {"extend.html"},
    "certified": {"glossary.html", "exact.html"},
}
"""What is typed into the search, and the pages that answer."""
FIRST = 5  # results that people look at


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it)
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", str(DOCS), str(built)]
    subprocess.run(command, check=True, timeout=600)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(built))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as tools:
        started = tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.mark.parametrize("words", LOOKED_FOR)
def test_what_people_look_for_is_found_in_two_steps(browser: Any, site: str, words: str) -> None:
    page = browser.new_page()
    page.goto(f"{site}/index.html")
    box = page.locator("input[name=q]").first
    box.fill(words)
    box.press("Enter")
    page.locator("#search-results li a").first.wait_for()
    page.locator("#search-results p.search-summary", has_text="found").wait_for()
    found = [link.get_attribute("href") or "" for link in page.locator("#search-results li > a").all()[:FIRST]]
    pages = [href.split("#")[0].split("?")[0].removeprefix(f"{site}/") for href in found]
    assert LOOKED_FOR[words] & set(pages), pages
    page.close()


def test_every_link_of_the_site_leads_somewhere(browser: Any, site: str) -> None:
    page = browser.new_page()
    page.goto(f"{site}/index.html")
    names = {href for link in page.locator("a[href$='.html']").all() if (href := link.get_attribute("href"))}
    for name in sorted(one for one in names if "://" not in one):
        answer = page.request.get(f"{site}/{name}")
        assert answer.ok, name
    page.close()
