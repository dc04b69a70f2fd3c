"""A real run in the view while it is made: live updates, the operator's answer, the end of the run; and the command itself."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from tests.execution.conftest import Ab, ab, shared_state
from tests.execution.tasks import ASKS, make_suite
from tests.view.conftest import ViewPage

__all__ = ["ab", "shared_state"]

pytestmark = pytest.mark.end_to_end


@pytest.mark.timeout(400)
def test_run_is_watched_and_its_question_answered(ab: Ab, view_page: ViewPage, tmp_path: Path) -> None:
    tasks = make_suite(tmp_path / "tasks", "one")
    (tmp_path / "asks.yaml").write_text(ASKS)
    process = ab.start(
        *("run", "--suite", "tiny", "--tasks-dir", tasks, "--agent", "scripted", "--script", tmp_path / "asks.yaml"),
        *("--operator", "--out", tmp_path / "out", "--json", "--workers", "1"),
    )
    (tmp_path / "out").mkdir(exist_ok=True)
    view = ab.start("view", tmp_path / "out", "--tasks-dir", tasks, "--json")
    try:
        assert view.stdout is not None
        url = json.loads(view.stdout.readline())["url"]
        page = view_page.page
        page.goto(f"{url}#/latest")
        expect(page.locator("#live")).to_be_visible(timeout=100_000)
        expect(page.locator("#workers .step")).to_contain_text("one", timeout=60_000)
        expect(page.locator("#log")).to_contain_text("monitor_alert", timeout=60_000)
        page.click("#workers a")
        expect(page.locator("#shown")).to_contain_text("events", timeout=60_000)
        expect(page.locator("#follow")).to_have_attribute("aria-pressed", "true")
        page.click("nav a:has-text('Queue')")
        page.locator(".question input[name=reason]").fill("it may", timeout=60_000)
        page.click("button:has-text('Let it continue')")
        stdout, stderr = process.communicate(timeout=110)
        assert process.returncode == 0, stderr
        (record,) = json.loads(stdout)["attempts"]
        assert record["result"]["passed"]
        page.click("nav a:has-text('Runs')")
        expect(page.locator("#runs tbody")).to_contain_text("1 of 1 passed", timeout=60_000)
        page.click("#runs tbody a.strong")
        page.click("nav.sub-nav a:has-text('Attempts')")
        page.click(".vt-row a")
        page.click("#tab-replay", timeout=60_000)
        expect(page.locator("#replay tr.add")).to_have_text(["1+42"], timeout=60_000)
        assert view_page.errors == []
        view.send_signal(signal.SIGINT)
        assert view.wait(60) == 0
    finally:
        for started in (process, view):
            started.kill()
            started.communicate()


def test_run_with_view_prints_its_address_and_ends(ab: Ab, tmp_path: Path) -> None:
    tasks = make_suite(tmp_path / "tasks", "one")
    (tmp_path / "asks.yaml").write_text(ASKS)
    process = ab.start(
        *("run", "--suite", "tiny", "--tasks-dir", tasks, "--agent", "scripted", "--script", tmp_path / "asks.yaml"),
        *("--out", tmp_path / "out", "--json", "--view"),
    )
    try:
        assert process.stderr is not None
        address = process.stderr.readline().removeprefix("View: ").strip()
        url, _, fragment = address.partition("#")
        assert fragment == "/latest"
        with httpx.Client(timeout=60) as client:
            assert client.get(url).status_code == 303
            base = url.partition("?")[0]
            assert client.get(f"{base}api/runs").status_code == 200
        stdout, stderr = process.communicate(timeout=110)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, stderr
    assert len(json.loads(stdout)["attempts"]) == 1


@pytest.mark.component
def test_missing_folder_and_used_port_are_explained(ab: Ab, tmp_path: Path) -> None:
    missing = ab("view", tmp_path / "nothing")
    assert missing.code == 2
    assert "is not a folder" in missing.stderr
