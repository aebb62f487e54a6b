"""The page in a real browser: it works by keyboard, in the dark and on paper, and asks nobody for anything."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .audits import audit, render

playwright = pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: apt install chromium)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as engine:
        found = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture(scope="module", params=["plain", "nasty"])
def address(request: Any, tmp_path_factory: Any) -> str:
    path = Path(tmp_path_factory.mktemp("report")) / "report.html"
    path.write_text(render(audit("three", nasty=True) if request.param == "nasty" else audit()), encoding="utf-8")
    return path.as_uri()


def opened(browser: Any, address: str, **options: Any) -> tuple[Any, list[str]]:
    """The page, and everything that went wrong or was asked for while it loaded."""
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(0)  # a condition is waited for as long as it takes
    heard: list[str] = []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("dialog", lambda dialog: (heard.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: heard.append(request.url) if request.url != address else None)
    page.goto(address)
    return page, heard


def test_loads_in_silence_and_alone(browser: Any, address: str) -> None:
    page, heard = opened(browser, address)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert heard == []
    assert page.locator("th button").count() > 0, "the page's own script is allowed to run"
    assert page.evaluate("getComputedStyle(document.querySelector('.hero')).display") == "grid", "and so is its style"


def test_is_four_pages_of_paper(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(render(audit()), encoding="utf-8")
    page, _ = opened(browser, path.as_uri())
    printed = page.pdf(prefer_css_page_size=True)
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 4


@pytest.mark.some(1)
def test_sorts_by_keyboard(browser: Any, address: str) -> None:
    page, _ = opened(browser, address)
    people = "#groups-1 tbody td:nth-child(2)"

    def order() -> list[int]:
        return [int(text) for text in page.locator(people).all_text_contents()]

    button = page.locator("#groups-1 thead th:nth-child(2) button")
    button.focus()
    page.keyboard.press("Enter")
    assert order() == sorted(order())
    assert page.locator("#groups-1 thead th:nth-child(2)").get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Space")
    assert order() == sorted(order(), reverse=True)
    assert page.locator("#groups-1 thead th:nth-child(2)").get_attribute("aria-sort") == "descending"
    assert page.evaluate("document.activeElement.tagName") == "BUTTON"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "the focus can be seen"


def test_searches_people_and_reads_the_curve(browser: Any, address: str) -> None:
    page, _ = opened(browser, address)
    page.locator(".find input").fill("row 1")
    shown = page.locator("ol.everybody li.pp:visible")
    assert shown.count() > 0 and all("row 1" in text for text in shown.all_text_contents())
    page.locator(".find input").fill("")
    page.locator(".find select").nth(1).select_option("name")
    names = page.locator("ol.everybody li.pp:visible h3").all_text_contents()
    assert len(names) == 70 and [int(name.split()[1]) for name in names] == sorted(int(n.split()[1]) for n in names)
    page.locator("input.explore").focus()
    before = page.locator("#reading").text_content()
    page.keyboard.press("ArrowRight")
    assert page.locator("#reading").text_content() != before


@pytest.mark.some(1)
def test_skip_link_is_first_and_leads_to_the_report(browser: Any, address: str) -> None:
    page, _ = opened(browser, address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.url.endswith("#main")


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_sticks_out_on_any_screen(browser: Any, address: str, width: int) -> None:
    page, _ = opened(browser, address, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.some(1)
def test_dark_mode_is_dark_and_paper_is_white(browser: Any, address: str) -> None:
    page, _ = opened(browser, address, color_scheme="dark")
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    assert page.evaluate(colour) == "rgb(23, 22, 19)"
    page.emulate_media(media="print")
    assert page.evaluate(colour) == "rgb(255, 255, 255)"


def test_everything_is_there_without_javascript(browser: Any, address: str) -> None:
    page, _ = opened(browser, address, java_script_enabled=False)
    assert page.locator("button, input").count() == 0
    assert page.locator(".sentence").is_visible()
    page.locator("#tomorrow details summary").first.click()
    assert page.locator("#curve-table").is_visible()


@pytest.mark.some(1)
def test_screenshot_and_print(browser: Any, address: str, tmp_path: Path) -> None:
    page, _ = opened(browser, address)
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 50_000
    page.pdf(path=tmp_path / "page.pdf", format="A4")
    written = (tmp_path / "page.pdf").read_bytes()
    assert written.startswith(b"%PDF")
    assert 4 <= written.count(b"/Type /Page\n") + written.count(b"/Type /Page ") <= 30
