"""The page at /, in a real browser."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from isonomy.service import Settings, create_app, new_key
from isonomy.service.web import PAGE

from .example import rows, served
from .test_watch import until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")


def test_the_page_needs_nothing_from_elsewhere() -> None:
    assert "http://" not in PAGE.replace("http://www.w3.org/2000/svg", "") and "https://" not in PAGE
    assert "innerHTML" not in PAGE and "style=" not in PAGE


@contextmanager
def running(database: Path, **settings: Any) -> Iterator[str]:
    options: dict[str, Any] = {"window": 150, "every": 50, "least": 50, "pause": 0.0, "sample": 100, **settings}
    app = create_app(served(), Settings(database=f"sqlite:///{database}", **options))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page(viewport={"width": 1200, "height": 1500})
        page.set_default_timeout(0)  # a condition is waited for as long as it takes
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on(
            "console",
            lambda message: (
                page.problems.append(message.text) if message.type == "error" and "401" not in message.text else None
            ),
        )
        yield page
        chromium.close()


def post(address: str, body: Any, key: str = "") -> None:
    import httpx

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    assert httpx.post(f"{address}/v1/predictions", json=body, headers=headers, timeout=None).status_code == 200


@needs_browser
def test_what_the_page_shows(tmp_path: Path) -> None:
    import httpx

    with running(tmp_path / "audit.db") as address, browser() as page:
        for turn in range(3):
            post(address, {"individuals": rows(50, seed=60 + turn), "budget_ms": 1000, "counterpart": turn == 2})
            until(lambda: httpx.get(f"{address}/v1/monitor").json().get("number", 0) > turn)  # noqa: B023
        for turn in range(3, 6):
            post(address, {"individuals": rows(50, seed=60 + turn, richer=140.0)})
            until(lambda: httpx.get(f"{address}/v1/monitor").json().get("number", 0) > turn)  # noqa: B023
        page.goto(address)
        page.wait_for_selector("#history circle", state="attached")
        assert page.inner_text("#state") == "expired"
        stated = page.inner_text("#statement")
        assert "people has an average largest change above" in stated and "violation" not in stated
        assert stated[-60:] == served().statement[-60:] and "quick bounds" in page.inner_text("#recent")
        assert "gamma" in page.inner_text("#reason")
        assert page.locator("#history rect").count() == 6
        kinds = page.eval_on_selector_all("#history rect", "all => all.map(one => one.className.baseVal)")
        states = [kind.removeprefix("fill-") for kind in kinds]
        assert states[-1] == "expired" and states[0] != "expired"
        assert "certified" in page.inner_text("#verdicts") and "%" in page.inner_text("#verdicts")
        assert "sex: female" in page.inner_text("#groups")
        assert page.locator("#recent tbody tr").count() == 20
        for value in (0.35525, 0.3553, 0.1 + 0.2, 0.00004, 0.0, 1.0, 0.29999999999999993, 12.00001):
            above, below = (float(page.evaluate(f"{name}({value!r})")) for name in ("atMost", "atLeast"))
            assert below <= value <= above and above - below < 2.5e-4
        assert page.problems == []
        page.screenshot(path=str(tmp_path / "dashboard.png"))
        page.set_viewport_size({"width": 380, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= 380


@needs_browser
def test_the_page_asks_for_a_key(tmp_path: Path) -> None:
    secret, key = new_key("viewer")
    with running(tmp_path / "audit.db", keys=(key,)) as address, browser() as page:
        post(address, {"individuals": rows(5)}, secret)
        page.goto(address)
        page.wait_for_selector("#locked", state="visible")
        assert not page.is_visible("#content")
        page.fill("#key", "iso_wrong")
        with page.expect_response(lambda answer: answer.status == 401):
            page.click("button")
        assert page.is_visible("#locked")
        page.fill("#key", secret)
        page.click("button")
        page.wait_for_selector("#content", state="visible")
        assert page.inner_text("#state") == "undecided"
        assert page.locator("#recent tbody tr").count() == 5
        assert page.problems == []
