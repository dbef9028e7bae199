"""The page in a real browser: the journeys of a trainer, a planner and an auditor; accessibility; hostile input."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cumulant as cm
from cumulant.page.server import PageServer
from cumulant.page.workers import Workers

sync_api = pytest.importorskip("playwright.sync_api", reason="the page is not looked at: Playwright is not installed")
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="the page is not looked at: there is no Chromium here")
PATIENCE_MS = 60_000.0
SEEN: dict[str, dict[str, Any]] = {
    "light": {},
    "dark": {"color_scheme": "dark"},
    "narrow": {"viewport": {"width": 360, "height": 740}},
}


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('ledger')}/budget.db"
    with cm.Ledger(url) as opened:
        opened.open("customers", epsilon=1.0, delta=1e-6, neighbors=cm.ADD_REMOVE, unit="one <b>customer</b>")
        opened.spend("customers", cm.Laplace(scale=20.0), by="team-a", key="1")
    return url


@pytest.fixture(scope="module")
def address(ledger: str) -> Iterator[str]:
    workers = Workers(2, ledger=ledger)
    with PageServer(workers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.address
        server.shutdown()
    workers.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as tools:
        started = tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])  # in CI it runs as root
        yield started
        started.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    opened = context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    opened.on("dialog", lambda dialog: faults.append(dialog.message))
    opened.goto(address)
    yield opened
    assert faults == []
    context.close()


def number(page: Any) -> float:
    """Return the number that is shown, once it is that of the newest question."""
    page.locator("#number:not(.old)").wait_for()
    return float(page.locator("#number .value").inner_text())


def shown(page: Any, sigma: str) -> float:
    page.get_by_label("Noise multiplier", exact=True).fill(sigma)
    wait_for_command(page, f"--noise-multiplier {sigma} \\")
    return number(page)


def wait_for_command(page: Any, part: str) -> None:
    """Wait until what is shown answers a question that has this in its command."""
    page.locator("#command", has_text=part).wait_for()


def test_a_trainer_says_what_the_loader_does_and_reads_what_it_costs(page: Any) -> None:
    assert number(page) == pytest.approx(2.822653, abs=1e-6)
    page.get_by_text("Shuffle, then walk").click()
    page.locator("#number .symbol", has_text="≤").wait_for()
    assert number(page) > 10
    assert "Shuffle" in page.locator("label:has(:checked)").first.inner_text()
    page.get_by_text("Every record picks a batch").click()
    page.locator("#bins").wait_for(state="visible")
    wait_for_command(page, "--bins fresh")
    assert number(page) < 2.822653
    page.locator("#chart-loaders rect").nth(5).wait_for(state="attached", timeout=PATIENCE_MS)
    page.locator("#chart-curve path.line").nth(1).wait_for(state="attached", timeout=PATIENCE_MS)


def test_batches_that_are_cut_and_people_with_several_records_cost_more(page: Any) -> None:
    whole = number(page)
    page.get_by_label("Batches are cut to").fill("280")
    wait_for_command(page, "--max-batch 280")
    assert number(page) > whole
    page.get_by_label("Batches are cut to").fill("")
    page.get_by_label("Records of one person").fill("2")
    wait_for_command(page, "--records-per-user 2")
    assert number(page) > 1.5 * whole


def test_a_planner_asks_for_noise_and_plans(page: Any) -> None:
    page.get_by_text("noise for an ε").click()
    page.locator("#number .symbol", has_text="σ").wait_for()
    run = cm.dp_sgd(noise_multiplier=number(page), batch_size=256, dataset_size=60_000, epochs=60)
    assert run.epsilon(delta=1e-5) <= 3
    page.get_by_role("button", name="Plan").click()
    page.locator("#planned dt").nth(2).wait_for(state="attached", timeout=PATIENCE_MS)
    assert "at least 0.968" in page.locator("#planned").inner_text()


def test_an_auditor_reads_interval_statement_and_account_and_passes_the_link_on(page: Any, browser: Any) -> None:
    page.get_by_label("Epochs", exact=True).fill("30")
    wait_for_command(page, "--epochs 30")
    page.locator("#proof .interval >> text=certified").wait_for()
    assert "whoever accuses" in page.locator("#statement").inner_text()
    epsilon, link = number(page), page.url
    other = browser.new_page()
    other.goto(link)
    wait_for_command(other, "--epochs 30")
    assert number(other) == epsilon
    other.close()
    page.locator("#account").wait_for(state="visible")
    assert "one <b>customer</b>" in page.locator("#account-status").inner_text()
    assert "team-a" in page.locator("#account-spenders").inner_text()


def test_a_slider_is_moved_by_keys_and_the_number_follows(page: Any) -> None:
    before, slider = number(page), page.get_by_label("Noise multiplier, slider")
    slider.focus()
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    sigma = page.get_by_label("Noise multiplier", exact=True).input_value()
    assert float(sigma) > 1
    wait_for_command(page, f"--noise-multiplier {sigma} \\")
    run = cm.dp_sgd(noise_multiplier=float(sigma), batch_size=256, dataset_size=60_000, epochs=60)
    assert number(page) == pytest.approx(run.epsilon(delta=1e-5), rel=1e-6)
    assert number(page) < before


def test_hostile_input_is_shown_as_text(page: Any) -> None:
    for text in ("<img src=x onerror=alert(1)>", "1e999999999999", "-1", "9" * 500, "'; DROP TABLE"):
        page.get_by_label("Noise multiplier", exact=True).fill(text)
        page.locator("#e-noise_multiplier:not(:empty)").wait_for()
        assert page.locator("#noise_multiplier").get_attribute("aria-invalid") == "true"
        assert page.locator("#number").get_attribute("class") == "old"
        shown(page, "2")
        assert page.locator("#e-noise_multiplier").inner_text() == ""


def test_all_is_reached_by_keys_in_the_order_of_the_page(page: Any) -> None:
    seen: list[str] = []
    for _ in range(20):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("(document.activeElement.name || document.activeElement.className || '')"))
    order = ["skip", "sampling", "ask", "noise_multiplier", "batch_size", "dataset_size", "epochs", "delta"]
    places = [seen.index(name) for name in order]
    assert places == sorted(places)


@pytest.mark.parametrize("how", SEEN)
def test_the_page_is_accessible(browser: Any, address: str, how: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    context = browser.new_context(**SEEN[how])
    page = context.new_page()
    page.goto(address)
    page.locator("#chart-loaders rect").nth(5).wait_for(state="attached", timeout=PATIENCE_MS)
    found = axe.Axe().run(page).response["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []
    assert page.evaluate(
        "document.documentElement.scrollWidth <= window.innerWidth"
    )  # nothing is wider than the screen
    context.close()


def test_the_browser_asks_nobody_else(browser: Any, address: str) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    number(page)
    page.close()
    assert {re.sub(r"[^/]*$", "", url) for url in asked} == {address}
    assert Path(CHROMIUM).exists()
