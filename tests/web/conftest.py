"""One offline Chromium for the page tests of a module."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Dialog, Page, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    # Ends with the module: while Playwright runs, its event loop occupies the thread, so no second one could start.
    chromium = shutil.which("chromium")
    if chromium is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is missing; CI must run the page tests")
        pytest.skip("chromium is missing")
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=chromium,
            headless=True,
            args=FLAGS,
            offline=True,
            viewport={"width": 1300, "height": 860},
        )
        yield context
        context.close()


WIDE_BOXES = """() => {
    const room = (box) => box.clientWidth - 2 * parseFloat(getComputedStyle(box).paddingLeft);
    const exceeds = (box, parts) =>
        [...box.querySelectorAll(parts)].some((part) => part.getBoundingClientRect().width > room(box) + 1);
    return [...document.querySelectorAll('*')]
        .filter((box) => box.scrollWidth > box.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(box).overflowX))
        .filter((box) => !box.matches('.vt, .vt-body') && (!exceeds(box, 'table') || exceeds(box, 'svg')))
        .map((box) => box.outerHTML.slice(0, 80)) }"""
"""Elements that scroll sideways and neither are nor contain a wide table; `.vt` is the table of attempts."""


class Watched:
    """A page that records requests, console messages, dialogs and errors."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on(
            "console",
            lambda message: self.errors.append(message.text) if message.type in {"error", "warning"} else None,
        )
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", self._dialog)
        page.set_default_timeout(10_000)

    def _dialog(self, dialog: Dialog) -> None:
        self.errors.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def open(self, file: Path, address: str = "#/") -> Page:
        before = self.page.url.partition("#")[0]
        if before == f"file://{file}":
            # The page is already open: navigate like a link.
            self.page.evaluate(
                "address => { document.getElementById('main').replaceChildren(); location.hash = '#/-'; location.hash = address; }",
                address,
            )
            self.page.wait_for_selector("main > *")
            return self.page
        self.page.goto(f"file://{file}{address}")
        self.page.wait_for_selector("html[data-ready]")
        return self.page

    def assert_only_tables_scroll(self, place: str) -> None:
        """Check that the page is not wider than the screen, and that only tables scroll sideways."""
        assert self.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, place
        assert self.page.evaluate(WIDE_BOXES) == [], place

    def assert_clean(self) -> None:
        assert self.errors == []
        assert [url for url in self.requests if not url.startswith("file://")] == []
        assert self.page.evaluate("window.pwned") is None


@pytest.fixture
def watched(browser: BrowserContext) -> Iterator[Watched]:
    page = browser.new_page()
    yield Watched(page)
    page.close()
