"""One server over one set of run directories for all tests of a worker, and a browser page on it."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from agentbench.view.server import ViewServer, background_server, open_server
from tests.web.conftest import Watched, browser
from tests.web.sample import JUDGE, SCORERS, events, sample, write_run

__all__ = ["browser"]

HOSTILE = "<img src=x onerror='window.pwned=1'>\u202e\x1b[31m</script><script>window.pwned=1</script>"


@dataclass(frozen=True)
class Served:
    """A running server with a client that has signed in."""

    server: ViewServer
    client: httpx.Client
    folder: Path
    token: str

    @property
    def base(self) -> str:
        return str(self.client.base_url).rstrip("/")

    def get(self, path: str) -> Any:
        response = self.client.get(path)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        return self.client.post(path, json=body, headers={"origin": self.base, **headers})

    def act(self, name: str, body: object) -> httpx.Response:
        return self.post(f"/api/actions/{name}", body, **{"x-ab-action": self.action_token})

    @property
    def action_token(self) -> str:
        text = self.client.get("/").text
        data = text.partition('id="data">')[2].partition("</script>")[0]
        return str(json.loads(data)["action"])

    def key(self, name: str) -> str:
        (run,) = (run for run in self.get("/api/runs")["runs"] if run["name"] == name)
        return str(run["key"])


expect.set_options(timeout=60_000)


def serve(folder: Path, *, tasks_dir: Path, read_only: bool = False, port: int = 0) -> Generator[Served, None, None]:
    server = open_server([folder], tasks_dir=tasks_dir, read_only=read_only, port=port)
    base, _, token = server.url.partition("/?token=")
    with background_server(server), httpx.Client(base_url=base, timeout=60) as client:
        assert client.get("/", params={"token": token}).status_code == 303
        yield Served(server, client, folder, token)


def write_runs(folder: Path) -> Path:
    """Write two runs with the same tasks, and one whose every text is hostile."""
    rich = sample(
        "median", "fail", scorers=SCORERS, workspace_verdict="FAIL", mean_score=0.33, judge=JUDGE, needs_review=True
    )
    kinds = ["pass", "pass", "error", "harness", "fail"]
    write_run(folder / "a", [rich, *(sample(f"t{n}", kind) for n, kind in enumerate(kinds))])
    write_run(
        folder / "b",
        [sample("median", variant="packer"), *(sample(f"t{n}", "pass", variant="packer") for n in range(5))],
    )
    hostile = sample("hostile", "fail", variant=HOSTILE, agent=HOSTILE, needs_review=True)
    write_run(folder / "hostile", [hostile], traces={"tasks/hostile": events(HOSTILE)}, patch=HOSTILE, output=HOSTILE)
    return folder


def write_suite(folder: Path) -> Path:
    """Write a suite with one task and a commented scenario."""
    from agentbench.contract.templates import NewTask, new_task

    new_task(folder / "mine" / "example", NewTask())
    (folder / "mine" / "scenario.yaml").write_text(
        "# Scorers of the suite.\nscorers:\n- name: scope\n  type: max_files_changed\n  limit: 5\n\n# Weights are a policy choice.\n"
        "weights:\n  minimal: 0.5\n  trace: 0.25\n  maintainability: 0.25\n"
    )
    return folder


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("view")
    yield from serve(write_runs(folder / "runs"), tasks_dir=write_suite(folder / "tasks"))


class ViewPage(Watched):
    """A page of the server that records errors."""

    def go(self, served: Served, address: str = "#/") -> Page:
        if not self.page.url.startswith(served.base):
            self.page.goto(served.server.url)
            self.page.wait_for_selector("html[data-ready]")
        self.page.evaluate(
            "address => { document.getElementById('main').replaceChildren(); location.hash = '#/-'; location.hash = address; }",
            address,
        )
        self.page.wait_for_selector("main h1")
        return self.page

    def assert_only(self, served: Served) -> None:
        """Check that the page had no errors and sent requests only to its server."""
        assert self.errors == []
        assert [url for url in self.requests if not url.startswith((served.base, "blob:"))] == []
        assert self.page.evaluate("window.pwned") is None


@pytest.fixture
def view_page(browser: BrowserContext) -> Iterator[ViewPage]:
    browser.set_offline(False)
    page = browser.new_page()
    view = ViewPage(page)
    page.set_default_timeout(60_000)
    yield view
    page.close()
    browser.set_offline(True)
