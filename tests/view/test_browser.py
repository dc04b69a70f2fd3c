"""The view in a real browser, with mouse and keyboard, over one server."""

from __future__ import annotations

import difflib
import json
import random
import re
import socket
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from agentbench.record.schema import ArtifactPaths, Cost
from agentbench.reports.adjudications import read_adjudications
from tests.view.conftest import Served, ViewPage, serve, write_runs, write_suite
from tests.view.live_run import LiveRun
from tests.web.sample import sample, write_run

pytestmark = pytest.mark.end_to_end


def test_newcomer_finds_why_an_attempt_failed(view_page: ViewPage, served: Served) -> None:
    page = view_page.go(served)
    expect(page.locator("#runs")).to_contain_text("2 of 5 passed")
    page.click("#runs a:has-text('baseline')")
    page.click("nav.sub-nav a:has-text('Attempts')")
    page.click(".vt-row a:has-text('median')")
    expect(page.locator(".lead")).to_contain_text("FAIL TESTS_FAILED")
    expect(page.get_by_text("tests/test_core.py::test_even")).to_be_visible()
    expect(page.locator("#scorers")).to_contain_text("OVERALL")
    expect(page.locator("#judge")).to_contain_text("It looks right, mostly.")
    page.click("#tab-diff")
    expect(page.locator("tr.add .tk-word").first).to_have_text("return")
    page.click("#tab-verdict")
    page.click("a:has-text('event 12')")
    expect(page.locator("#event")).to_contain_text("integrity_finding")
    page.reload()
    expect(page.locator("#event")).to_be_visible()
    view_page.assert_only(served)


def test_list_of_runs_marks_retries_and_superseded_costs(view_page: ViewPage, tmp_path: Path) -> None:
    paths = ArtifactPaths(task_dir="tasks/old")
    old = sample("a", "operator", final=False, attempt_id="old", artifact_paths=paths)
    run = write_run(tmp_path / "runs" / "again", [old, sample("a", supersedes="old")])
    meta = json.loads((run / "run.json").read_text())
    retry = {"run_id": "01R-first", "name": "first", "kind": "failed"}
    (run / "run.json").write_text(json.dumps({**meta, "retry_of": retry}))
    for served in serve(tmp_path / "runs", tasks_dir=tmp_path / "tasks"):
        page = view_page.go(served)
        expect(page.locator("#runs")).to_contain_text("retry of what did not pass in first")
        expect(page.locator("#runs")).to_contain_text("$1$0.5 of it superseded")


def test_list_of_runs_finds_a_run_by_each_of_its_suites(view_page: ViewPage, tmp_path: Path) -> None:
    suites = [sample("a", suite="a-dev", cost=Cost()), sample("b", suite="b-dev", cost=Cost())]
    write_run(tmp_path / "runs" / "both", suites)
    write_run(tmp_path / "runs" / "one", [sample("a", suite="a-dev")])
    for served in serve(tmp_path / "runs", tasks_dir=tmp_path / "tasks"):
        page = view_page.go(served)
        expect(page.locator("#runs tbody tr")).to_have_count(2)
        page.select_option("select[aria-label=suite]", "b-dev")
        expect(page.locator("#runs tbody tr")).to_have_count(1)
        expect(page.locator("#runs tbody")).to_contain_text("unknown")


def test_two_runs_are_selected_and_compared(view_page: ViewPage, served: Served) -> None:
    page = view_page.go(served)
    expect(page.locator("#compare")).to_be_disabled()
    page.check(f"tr[data-run='{served.key('a')}'] input")
    page.check(f"tr[data-run='{served.key('b')}'] input")
    page.click("#compare")
    expect(page.locator(".lead")).to_contain_text(re.compile("INCONCLUSIVE|BETTER"))
    page.click("button[aria-label='diffs of median']")
    expect(page.locator("tr.both h3")).to_have_count(2)
    expect(page.locator("tr.both .diff").first).to_be_visible()
    view_page.assert_only(served)


def test_explorer_groups_pivots_filters_and_keeps_its_address(view_page: ViewPage, served: Served) -> None:
    page = view_page.go(served, "#/explorer")
    expect(page.locator("#table")).to_contain_text("packer")
    expect(page.locator("svg.fig")).to_have_attribute("aria-label", "pass rate by variant")
    page.select_option("#pivot", "task")
    expect(page.locator("#table caption")).to_have_text("pass rate by variant and task")
    page.click("#add-filter")
    expect(page.locator("select[aria-label=field]")).to_have_count(2)  # the first leaves out retries in new runs
    page.locator("select[aria-label=field]").last.select_option("variant")
    page.locator("input[aria-label=value]").last.fill("packer")
    page.keyboard.press("Tab")
    expect(page.locator("#table tbody tr")).to_have_count(1)
    page.reload()
    expect(page.locator("#table tbody tr")).to_have_count(1)
    page.click("summary:has-text('SQL')")
    page.fill("#sql", "select 6 * 7 as answer")
    page.click("#run-sql")
    expect(page.locator("#table tbody")).to_have_text("42")
    with page.expect_download() as download:
        page.click("button:has-text('CSV')")
    assert download.value.suggested_filename == "attempts.csv"
    page.fill("#sql", "drop table attempts")
    page.click("#run-sql")
    expect(page.locator("#result")).to_contain_text("expected one read-only statement")


def test_badges_of_the_queue_tell_invalid_attempts_from_failed_ones(view_page: ViewPage, tmp_path: Path) -> None:
    kinds = {"pass": "✓PASS", "fail": "✕TESTS_FAILED", "error": "!ACCEPTANCE_ERROR", "operator": "–INVALID INTERRUPTED"}
    write_run(tmp_path / "runs" / "a", [sample(kind, kind, needs_review=True) for kind in kinds])
    for served in serve(tmp_path / "runs", tasks_dir=tmp_path):
        page = view_page.go(served, "#/queue")
        for kind, text in kinds.items():
            tone = "invalid" if kind == "operator" else kind
            badge = page.locator(f".review[data-attempt='01-{kind}-1'] .badge.{tone}")
            expect(badge).to_have_text(text)
        view_page.assert_only(served)


def test_attempt_is_adjudicated_and_a_scenario_edited(view_page: ViewPage, tmp_path: Path) -> None:
    tasks = write_suite(tmp_path / "tasks")
    for served in serve(write_runs(tmp_path / "runs"), tasks_dir=tasks):
        page = view_page.go(served, "#/queue")
        card = page.locator(".review", has_text="median")
        card.get_by_label("incorrect", exact=True).check()
        card.get_by_label("Minutes of review").fill("2")
        card.get_by_label("Note").fill("loses the last row")
        card.get_by_role("button", name="Record").click()
        expect(page.locator(".review", has_text="median")).to_contain_text("incorrect by")
        (adjudication,) = read_adjudications(served.folder / "a")
        assert (adjudication.minutes, adjudication.note) == (2.0, "loses the last row")
        page = view_page.go(served, "#/tasks/mine/scenario")
        page.fill(".scorer-row [data-field=limit]", "-3")
        page.click("#review")
        expect(page.locator("#preview")).to_contain_text("limit")
        expect(page.locator("#save")).to_be_disabled()
        page.fill(".scorer-row [data-field=limit]", "9")
        page.click("#review")
        expect(page.locator("#preview tr.add")).to_contain_text("limit: 9")
        page.click("#save")
        expect(page.locator("#preview")).to_contain_text("written")
        assert "limit: 9" in (tasks / "mine" / "scenario.yaml").read_text()
        view_page.assert_only(served)


def test_hostile_text_stays_text_on_every_page(view_page: ViewPage, served: Served) -> None:
    key = served.key("hostile")
    attempt = served.get(f"/api/run/{key}/page")["attempts"][0][1]
    addresses = [
        "#/",
        f"#/run/{key}",
        f"#/run/{key}/attempts",
        "#/explorer",
        "#/explorer?group=",
        "#/queue",
        "#/tasks/mine",
    ]
    addresses += [f"#/run/{key}/attempt/{attempt}/{tab}" for tab in ("verdict", "diff", "trace", "record", "replay")]
    addresses += ["#/run/<img src=x onerror=window.pwned=1>", "#/tasks/%3Cscript%3E"]
    for address in addresses[:-2]:
        page = view_page.go(served, address)
        page.wait_for_timeout(50)
        assert page.locator("main img, main script").count() == 0, address
    view_page.assert_only(served)
    for address in addresses[-2:]:
        view_page.page.evaluate("address => { location.hash = address; }", address)
        expect(view_page.page.locator("main .note")).to_be_visible()
    assert view_page.page.evaluate("window.pwned") is None


def test_pages_have_names_and_fit_a_narrow_dark_screen(view_page: ViewPage, served: Served) -> None:
    key = served.key("a")
    view_page.page.emulate_media(color_scheme="dark")
    view_page.page.set_viewport_size({"width": 360, "height": 800})
    for address in (
        "#/",
        f"#/run/{key}",
        "#/explorer",
        "#/queue",
        "#/tasks",
        "#/tasks/mine",
        "#/tasks/mine/scenario",
        "#/pilots",
    ):
        page = view_page.go(served, address)
        expect(page.locator("h1").first).to_be_attached()
        if address == "#/explorer":
            expect(page.locator("svg.fig")).to_be_visible()
        nameless = page.evaluate(
            "[...document.querySelectorAll('button, a, input, select, textarea')].filter(e => !e.closest('[hidden]') && "
            "!(e.getAttribute('aria-label') || e.textContent.trim() || e.title || e.labels?.length)).length"
        )
        assert nameless == 0, address
        view_page.assert_only_tables_scroll(address)
        page.emulate_media(media="print")
        expect(page.locator("#bar")).to_be_hidden()
        page.emulate_media(media="screen")
    view_page.assert_only(served)


def test_pages_are_reached_with_the_keyboard(view_page: ViewPage, served: Served) -> None:
    page = view_page.go(served)
    expect(page.locator("#runs tbody tr")).to_have_count(3)
    page.keyboard.press("/")
    page.keyboard.type("packer")
    expect(page.locator("#runs tbody tr")).to_have_count(1)
    page.locator("#runs tbody a.strong").focus()
    page.keyboard.press("Enter")
    expect(page.locator("nav.sub-nav")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_selector(".vt-row")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("#gates3")
    page.keyboard.press("5")
    expect(page.locator("#replay")).to_be_visible()
    page.keyboard.press("Escape")
    page.wait_for_selector(".vt-row")
    view_page.assert_only(served)


def test_replay_composes_the_diffs_of_steps(view_page: ViewPage, served: Served) -> None:
    """Apply the composed edit to the first version: the result must be the last version, whatever the steps were."""
    page = view_page.go(served)
    rng = random.Random(7)
    for _ in range(40):
        versions = [[f"line {number}" for number in range(rng.randrange(1, 30))]]
        for _ in range(4):
            lines = list(versions[-1])
            for _ in range(rng.randrange(1, 5)):
                place = rng.randrange(len(lines) + 1)
                lines[place : place + rng.randrange(3)] = [f"new {rng.randrange(6)}" for _ in range(rng.randrange(3))]
            versions.append(lines)
        steps = [
            "diff --git a/f.py b/f.py\n"
            + "\n".join(difflib.unified_diff(before, after, "a/f.py", "b/f.py", lineterm=""))
            for before, after in pairwise(versions)
        ]
        edit = page.evaluate(
            """diffs => { const steps = replaySteps(diffs.map((text, seq) => ({ seq, type: "workspace_mutated", payload: { files: [], diff: { text } } })));
            return steps[steps.length - 1].files.get("f.py") || []; }""",
            steps,
        )
        assert applied(versions[0], edit) == versions[-1]


def applied(lines: list[str], edit: list[dict[str, Any]]) -> list[str]:
    rest, result = list(lines), []
    for operation in edit:
        if "add" in operation:
            result.append(operation["add"])
        elif "del" in operation:
            assert rest.pop(0) == operation["del"]
        else:
            kept, rest = rest[: operation["keep"]], rest[operation["keep"] :]
            assert "text" not in operation or kept == [operation["text"]]
            result += kept
    return result + rest


def test_page_goes_on_when_its_server_is_started_again(view_page: ViewPage, tmp_path: Path) -> None:
    with LiveRun(tmp_path / "runs" / "live", 2) as run:
        first = serve(tmp_path / "runs", tasks_dir=tmp_path, port=free_port())
        served = next(first)
        page = view_page.go(served, f"#/run/{served.key('live')}")
        run.step(0, "make before")
        expect(page.locator("#log")).to_contain_text("make before")
        first.close()
        run.step(0, "make meanwhile")
        expect(page.locator("#offline")).to_be_visible()
        for _ in serve(tmp_path / "runs", tasks_dir=tmp_path, port=served.client.base_url.port or 0):
            expect(page.locator("#log")).to_contain_text("make meanwhile")
            run.step(1, "make after")
            expect(page.locator("#log")).to_contain_text("make after")
            expect(page.locator("#offline")).to_have_count(0)


def test_server_with_another_secret_asks_for_its_address(view_page: ViewPage, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_run(runs / "a", [])
    first = serve(runs, tasks_dir=tmp_path)
    served = next(first)
    page = view_page.go(served)
    port = served.client.base_url.port or 0
    first.close()
    expect(page.locator("#offline")).to_contain_text("does not answer")
    for again in serve(runs, tasks_dir=tmp_path, port=port):
        expect(page.locator("#offline")).to_contain_text("Open the address that the current one printed")
        page.goto(again.server.url)
        expect(page.locator("#runs tbody tr")).to_have_count(1)
        expect(page.locator("#offline")).to_have_count(0)


def test_running_run_shows_progress_and_spending(view_page: ViewPage, tmp_path: Path) -> None:
    with LiveRun(tmp_path / "runs" / "live", 4, planned=10, cap=2.5) as run:
        run.seal(0)
        for served in serve(tmp_path / "runs", tasks_dir=tmp_path):
            page = view_page.go(served)
            row = page.locator("#runs tbody tr")
            expect(row).to_contain_text("running")
            expect(row).to_contain_text("0 done · 3 running · 7 waiting")
            expect(row).to_contain_text("attempts per hour")
            expect(row).to_contain_text("left")
            expect(row).to_contain_text("0 of 2.5")
            run.seal(1)
            expect(row).to_contain_text("2 running")
            page.evaluate("location.hash = '#/latest'")
            expect(page.locator("#progress")).to_contain_text("2 running")
            expect(page.locator("#workers .step")).to_have_count(2)
            view_page.assert_only(served)


def test_two_hundred_parallel_attempts_are_followed(view_page: ViewPage, tmp_path: Path) -> None:
    with LiveRun(tmp_path / "runs" / "live", 200) as run:
        for served in serve(tmp_path / "runs", tasks_dir=tmp_path):
            page = view_page.go(served, f"#/run/{served.key('live')}")
            expect(page.locator("#workers .step")).to_have_count(200)
            node = page.locator(".step[data-attempt=A007]").element_handle()
            for turn in range(3):
                for number in range(200):
                    run.step(number, f"make turn {turn} of {number}")
            expect(page.locator(".step[data-attempt=A199]")).to_contain_text("make turn 2 of 199")
            expect(page.locator(".step[data-attempt=A007]")).to_contain_text("make turn 2 of 7")
            expect(page.locator(".step[data-attempt=A007]")).to_contain_text("task-7 · repeat 2")
            expect(page.locator("#log > div").last).to_contain_text("task-199 · repeat 2 ")
            assert node is not None
            assert node.evaluate("node => node.isConnected"), "a worker is updated in place"
            assert page.locator("#log > div").count() <= 300
            for number in range(0, 200, 2):
                run.seal(number)
            expect(page.locator("#workers .step")).to_have_count(100)
            view_page.assert_only(served)


def test_running_attempt_is_followed_until_a_row_is_chosen(view_page: ViewPage, tmp_path: Path) -> None:
    with LiveRun(tmp_path / "runs" / "live", 1) as run:
        for served in serve(tmp_path / "runs", tasks_dir=tmp_path):
            run.step(0, "make first")
            page = view_page.go(served, f"#/run/{served.key('live')}/live/A000")
            expect(page.locator("#event")).to_contain_text("make first")
            run.step(0, "make second")
            expect(page.locator("#event")).to_contain_text("make second")
            page.locator(".vt-row").first.click()
            expect(page.locator("#event")).to_contain_text("make first")
            run.step(0, "make third")
            expect(page.locator("#shown")).to_contain_text("3 events")
            expect(page.locator("#event")).to_contain_text("make first")
            page.click("#follow")
            expect(page.locator("#event")).to_contain_text("make third")
            run.seal(0)
            expect(page.get_by_text("The attempt has ended")).to_be_visible()


@pytest.mark.req("A-11b")
def test_explorer_sorts_and_leads_to_attempts_by_mouse(view_page: ViewPage, served: Served) -> None:
    page = view_page.go(served, "#/explorer")
    page.get_by_role("link", name="attempts of packer").click()
    expect(page.locator("#table tbody tr")).to_have_count(6)
    page.get_by_role("button", name="task", exact=True).click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("task")
    expect(page.locator("#table tbody tr").first).to_contain_text("t4")
    page.click("summary:has-text('Columns')")
    expect(page.locator("#table thead")).to_contain_text("judge")
    page.get_by_label("judge", exact=True).uncheck()
    expect(page.locator("#table thead")).not_to_contain_text("judge")
    page.get_by_role("link", name="open").first.click()
    expect(page.locator(".lead")).to_contain_text("PASS")
    view_page.assert_only(served)


def test_attempt_is_adjudicated_where_it_is_read(view_page: ViewPage, tmp_path: Path) -> None:
    for served in serve(write_runs(tmp_path / "runs"), tasks_dir=tmp_path):
        page = view_page.go(served, f"#/run/{served.key('a')}/attempts")
        page.click(".vt-row a:has-text('median')")
        page.click("summary:has-text('Adjudicate')")
        page.get_by_label("cannot be decided").check()
        page.get_by_label("Minutes of review").fill("3")
        page.get_by_role("button", name="Record").click()
        expect(page.locator("#adjudicate")).to_contain_text("Adjudicated:")
        (adjudication,) = read_adjudications(served.folder / "a")
        assert (adjudication.truth, adjudication.minutes) == ("undecidable", 3.0)
        page.click("nav.sub-nav a:has-text('To adjudicate')")
        expect(page.locator("h1")).to_have_text("Queue")
        page.click("#adjudicated summary")
        expect(page.locator(".review")).to_contain_text("undecidable by")


def test_pages_have_landmarks_for_screen_readers(view_page: ViewPage, served: Served) -> None:
    key = served.key("a")
    page = view_page.go(served)
    for role in ("banner", "navigation", "main", "contentinfo"):
        assert page.get_by_role(role).count() >= 1, role
    expect(page.get_by_role("table")).to_be_visible()
    expect(page.get_by_role("columnheader", name="result")).to_be_visible()
    expect(page.get_by_role("searchbox", name="Search runs")).to_be_visible()
    expect(page.get_by_role("checkbox", name="select a to compare")).to_be_visible()
    expect(page.get_by_role("link", name="Runs", exact=True)).to_have_attribute("aria-current", "page")
    view_page.go(served, f"#/run/{key}/attempts")
    page.click(".vt-row a:has-text('median')")
    expect(page.get_by_role("tab", name="Verdict")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tabpanel")).to_be_visible()
    page.get_by_role("tab", name="Verdict").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Diff")).to_be_focused()
    expect(page.get_by_role("tab", name="Diff")).to_have_attribute("aria-selected", "true")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
