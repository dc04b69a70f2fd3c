"""The HTML page in a browser, with mouse and keyboard."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner
from playwright.sync_api import Page, expect

from agentbench.cli.report import command as report_command
from agentbench.reports.gate import GateFile, check_gate
from agentbench.reports.html.page import export_attempt, write_page
from agentbench.reports.paired import compare_sides
from agentbench.reports.sources import open_run, open_sides
from agentbench.trace import events as trace_events
from tests.web.conftest import Watched
from tests.web.sample import JUDGE, SCORERS, events, sample, write_run

pytestmark = pytest.mark.component


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report of two runs on six tasks; one attempt has scorers, a judge, findings and a review flag."""
    folder = tmp_path_factory.mktemp("report")
    rich = sample(
        "median", "fail", scorers=SCORERS, workspace_verdict="FAIL", mean_score=0.33, judge=JUDGE, needs_review=True
    )
    kinds = ["pass", "pass", "error", "harness", "fail"]
    a = write_run(folder / "a", [rich, *(sample(f"t{n}", kind) for n, kind in enumerate(kinds))])
    b = write_run(
        folder / "b",
        [sample("median", variant="packer"), *(sample(f"t{n}", "pass", variant="packer") for n in range(5))],
    )
    sides = open_sides(str(a), str(b))
    return write_page(folder / "page", [open_run(a), open_run(b)], comparison=compare_sides(*sides))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three runs of three methods on eight tasks; the last is the best."""
    folder = tmp_path_factory.mktemp("runs")
    kinds = {"poor": "fail", "fair": "fail", "good": "pass"}
    return [
        write_run(
            folder / name,
            [sample(f"t{n}", "pass" if name == "fair" and n == 0 else kind, variant=name) for n in range(8)],
        )
        for name, kind in kinds.items()
    ]


def open_attempt(page: Page, task: str) -> None:
    """Open an attempt at a task from the list."""
    page.fill("#search", f"task:{task}")
    page.click(f".vt-row a:has-text('{task}')")
    page.wait_for_selector("#gates3")


@pytest.mark.req("A-10", "A-11a")
def test_page_opens_from_a_file_without_network(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    expect(page.locator("main")).to_contain_text("INCONCLUSIVE")
    expect(page.locator("main")).to_contain_text("2 of 5 passed")
    for title in (
        "Tasks",
        "Rates with 95% confidence intervals",
        "Gates and weights",
        "Cost projection",
        "Cost and precision",
    ):
        expect(page.locator("h2", has_text=title).first).to_be_visible()
    assert page.locator("svg.fig[aria-label]").count() == page.locator("svg.fig").count() >= 6
    assert "default-src 'none'" in (page.locator("meta[http-equiv]").get_attribute("content") or "")
    watched.assert_clean()


@pytest.mark.req("A-11a")
def test_attempts_are_searched_filtered_and_sorted(watched: Watched, report: Path) -> None:
    page = watched.open(report, "#/attempts")
    expect(page.locator("#total")).to_have_text("12 of 12 attempts")
    page.select_option("#f-verdict", "fail")
    expect(page.locator("#total")).to_have_text("2 of 12 attempts")
    page.select_option("#f-verdict", "")
    page.select_option("#f-run", "1")
    expect(page.locator("#total")).to_have_text("6 of 12 attempts")
    page.select_option("#f-run", "")
    page.click("#f-review")
    expect(page.locator("#total")).to_have_text("1 of 12 attempts")
    page.click("#f-review")
    page.fill("#search", "sandbox_error")
    expect(page.locator(".vt-row")).to_have_count(1)
    page.fill("#search", "no such thing")
    expect(page.get_by_text("No attempts match these filters.")).to_be_visible()
    page.fill("#search", "")
    page.click("button[aria-label='sort by task']")
    page.click("button[aria-label='sort by task']")
    expect(page.locator(".vt-row").first).to_contain_text("t4")
    assert "sort=-task" in page.url
    watched.assert_clean()


@pytest.mark.req("A-11a", "G-13")
def test_attempt_shows_independent_verdicts_and_disagreement(watched: Watched, report: Path) -> None:
    page = watched.open(report, "#/attempts")
    open_attempt(page, "median")
    expect(page.locator(".lead")).to_contain_text("FAIL TESTS_FAILED")
    tiles = page.locator("#gates3 .tile")
    expect(tiles.nth(1)).to_contain_text("FAIL")
    expect(tiles.nth(2)).to_contain_text("PASS")
    expect(tiles.nth(3)).to_contain_text("completed")
    expect(page.locator("#disagreements")).to_contain_text("the judge passes, a required scorer fails")
    expect(page.locator(".gate", has_text="passes checks")).to_contain_text("unit: because")
    expect(page.get_by_text("tests/test_core.py::test_even")).to_be_visible()
    expect(page.locator("section", has_text="Output of check unit").locator("pre").last).to_have_text("hello\nhello")
    watched.assert_clean()


@pytest.mark.req("A-11a", "G-13")
def test_scorer_rows_expand_and_required_failures_are_open(watched: Watched, report: Path) -> None:
    page = watched.open(report, "#/attempts")
    open_attempt(page, "median")
    card = page.locator("#scorers")
    expect(card.locator("header")).to_contain_text("OVERALL")
    expect(card.locator("header")).to_contain_text("0.33")
    opened = [row.get_attribute("open") is not None for row in card.locator("details").all()]
    assert opened == [True, False, False, False]
    expect(card.locator("details").nth(2)).to_contain_text("advisory")
    expect(page.get_by_text("one more skip")).to_be_hidden()
    card.locator("summary").nth(2).click()
    expect(page.get_by_text("one more skip")).to_be_visible()
    judge = page.locator("#judge")
    expect(judge.locator(".score")).to_have_count(3)
    expect(judge).to_contain_text("It looks right, mostly.")
    expect(judge).to_contain_text("judge-1 · scored 2026-01-01")
    expect(judge.locator("#facts tbody tr")).to_have_count(2)
    watched.assert_clean()


@pytest.mark.req("A-11a")
def test_diff_is_coloured_and_split_by_file(watched: Watched, report: Path) -> None:
    page = watched.open(report, "#/attempt/0/diff")
    expect(page.locator("details.file")).to_have_count(2)
    expect(page.locator("tr.add")).to_have_count(3)
    expect(page.locator("tr.del")).to_have_count(1)
    colours = {
        kind: page.locator(f"tr.{kind} td.tx").first.evaluate("e => getComputedStyle(e).backgroundColor")
        for kind in ("add", "del")
    }
    assert colours["add"] != colours["del"]
    expect(page.locator("tr.del td.ln").first).to_have_text("2")
    watched.assert_clean()


@pytest.mark.req("A-11a")
def test_trace_is_a_timeline_with_filters(watched: Watched, report: Path) -> None:
    page = watched.open(report, "#/attempt/0")
    page.click("#tab-trace")
    total = len(events())
    expect(page.locator("#shown")).to_have_text(f"{total} of {total} events")
    expect(page.locator("#event h2")).to_have_text("agent_turn_started")
    page.click(".vt-row:has-text('tool_call_finished')")
    expect(page.locator("#event")).to_contain_text("stdout")
    page.click(".chip[data-group=tool]")
    expect(page.locator("#shown")).to_have_text(f"{total - 2} of {total} events")
    page.click(".chip[data-actor=monitor]")
    expect(page.locator("#shown")).to_have_text(f"{total - 3} of {total} events")
    page.fill("#find", "acceptance_check")
    expect(page.locator(".vt-row")).to_have_count(1)
    page.fill("#find", "")
    page.click("#tab-verdict")
    page.click("a:has-text('event 12')")
    expect(page.locator("#event")).to_contain_text("integrity_finding")
    watched.assert_clean()


def test_attempt_shows_its_task_the_agents_output_and_real_failures(watched: Watched, tmp_path: Path) -> None:
    trace = events()
    decoy_runs = [
        (payload.model_copy(update={"step": f"unit~{number}"}), actor)
        for payload, actor in trace
        if isinstance(payload, trace_events.TestsFinished)
        for number in (1, 2)
    ]
    run = write_run(tmp_path / "run", [sample("median", "fail")], traces={"tasks/median": [*decoy_runs, *trace]})
    folder = run / "tasks/median"
    (folder / "task.yaml").write_text("title: Median of even lists\nstatement: It must be 2.5.\n")
    (folder / "logs/agent_stderr.txt").write_text("\x1b[31mno key\x1b[0m\n")
    page = watched.open(write_page(tmp_path / "page", [open_run(run)]), "#/attempt/0")
    expect(page.locator("h1")).to_have_text("Median of even lists")
    page.click("#statement summary")
    expect(page.locator("#statement pre")).to_have_text("It must be 2.5.")
    expect(page.locator("section", has_text="stderr of the agent's program").locator("pre")).to_have_text("no key\n")
    expect(page.locator("section", has_text="Output of check unit").last).to_contain_text("2 runs mix real tests")
    watched.assert_clean()


@pytest.mark.req("A-02", "A-10")
def test_differing_tasks_link_to_both_attempts(watched: Watched, report: Path) -> None:
    page = watched.open(report, "#/comparison")
    expect(page.locator(".lead")).to_contain_text("INCONCLUSIVE")
    expect(page.locator("main")).to_contain_text("underpowered")
    row = page.locator("tr", has_text="median")
    expect(row).to_contain_text("0% → 100%")
    colours = [link.evaluate("link => getComputedStyle(link).color") for link in row.locator("a").all()]
    assert len(set(colours)) == 2, "links to passed and failed attempts differ"
    row.locator("a").first.click()
    expect(page.locator(".lead")).to_contain_text("FAIL")
    page.go_back()
    page.locator("tr", has_text="median").locator("a").nth(1).click()
    expect(page.locator(".lead")).to_have_text("PASS")
    watched.assert_clean()


@pytest.mark.req("G-17a", "A-11a")
def test_review_queue_lists_flagged_attempts(watched: Watched, report: Path) -> None:
    page = watched.open(report, "#/review")
    expect(page.locator("main")).to_contain_text("1 attempt flagged for review")
    commands = page.locator("pre.copy").all_inner_texts()
    assert [command.partition(" --truth ")[2] for command in commands] == [
        "correct --minutes 5",
        "incorrect --minutes 5",
    ]
    assert shlex.split(commands[0])[:3] == ["ab", "adjudicate", str(report.parents[1] / "a")]
    watched.assert_clean()


@pytest.mark.req("A-11a")
def test_page_works_with_the_keyboard(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_selector("#search")
    page.keyboard.press("/")
    page.keyboard.type("median")
    expect(page.locator("#total")).to_have_text("2 of 12 attempts")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator(".vt-row[aria-selected=true]")).to_have_count(1)
    page.keyboard.press("Enter")
    page.wait_for_selector("#gates3")
    page.keyboard.press("3")
    page.wait_for_selector("#event")
    page.keyboard.press("]")
    expect(page.locator(".lead")).to_have_text("PASS")
    page.keyboard.press("Escape")
    page.wait_for_selector("#search")
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible()
    watched.assert_clean()


def test_page_asked_for_while_an_attempt_loads_is_opened(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    # The reader leaves the attempt just before its data is there.
    page.evaluate(
        "() => { const load = AB.load.bind(AB); AB.load = (name) => load(name).then((data) => { go('#/attempts'); return data; }); }"
    )
    page.evaluate("go('#/attempt/1')")
    expect(page.locator("#search")).to_be_visible()
    assert "#/attempts" in page.url
    watched.assert_clean()


@pytest.mark.req("A-11a")
def test_controls_have_names_and_colours_have_contrast(watched: Watched, report: Path) -> None:
    for address in ("#/", "#/attempts", "#/attempt/0", "#/attempt/0/trace", "#/comparison", "#/review"):
        page = watched.open(report, address)
        page.wait_for_selector("main h1, main h2")
        nameless = page.evaluate(
            "[...document.querySelectorAll('button, a, input, select, [role=listbox]')].filter(e => "
            "!(e.getAttribute('aria-label') || e.textContent.trim() || e.title)).length"
        )
        assert nameless == 0, address
        assert page.locator("h1").count() >= 1, address
    schemes: tuple[Literal["light"], Literal["dark"]] = ("light", "dark")
    for scheme in schemes:
        watched.page.emulate_media(color_scheme=scheme)
        page = watched.open(report, "#/attempts")
        assert page.evaluate(CONTRAST) >= 4.5, scheme
    watched.assert_clean()


CONTRAST = """() => {
  const light = (c) => { const v = c.map((x) => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; }); return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
  const rgb = (text) => text.match(/[0-9.]+/g).map(Number);
  let worst = 99;
  for (const one of document.querySelectorAll('.badge, .sub, .dim, .dot, .vt-head button, nav a, h1')) {
    let under = one; while (under && rgb(getComputedStyle(under).backgroundColor)[3] === 0) under = under.parentElement;
    const back = under ? rgb(getComputedStyle(under).backgroundColor) : [255, 255, 255], front = rgb(getComputedStyle(one).color);
    if (back.length === 4 && back[3] < 1) continue;
    const [a, b] = [light(front.slice(0, 3)), light(back.slice(0, 3))].sort((x, y) => y - x);
    worst = Math.min(worst, (a + 0.05) / (b + 0.05));
  }
  return worst;
}"""


def test_dark_mode_and_print(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    back = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(back)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(back) != light
    page.keyboard.press("t")
    assert page.evaluate(back) == light
    page.emulate_media(media="print")
    expect(page.locator("#bar")).to_be_hidden()
    # Printing uses light mode even if the screen is dark.
    page.keyboard.press("t")
    card = "getComputedStyle(document.querySelector('.card')).backgroundColor"
    assert page.evaluate(card) == "rgb(255, 255, 255)"
    page.emulate_media(media="screen")
    assert page.evaluate(card) != "rgb(255, 255, 255)"
    watched.assert_clean()


@pytest.mark.req("A-11a")
def test_page_fits_a_narrow_screen(watched: Watched, report: Path) -> None:
    watched.page.set_viewport_size({"width": 360, "height": 800})
    tabs = ("#/attempt/0", "#/attempt/0/diff", "#/attempt/0/trace", "#/attempt/0/record")
    for address in ("#/", "#/comparison", "#/attempts", "#/review", *tabs):
        page = watched.open(report, address)
        page.wait_for_selector("main > *")
        watched.assert_only_tables_scroll(address)
    watched.assert_clean()


def test_wide_tables_have_a_shaded_edge_on_a_narrow_screen(watched: Watched, report: Path) -> None:
    """Without it, a table that is cut between two columns looks complete."""
    watched.page.set_viewport_size({"width": 390, "height": 800})
    page = watched.open(report, "#/")
    page.wait_for_selector(".cell")
    unmarked = """() => [...document.querySelectorAll('.card *')].filter((element) =>
        element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).overflowX === 'auto'
        && getComputedStyle(element).backgroundImage === 'none').map((element) => element.className)"""
    assert page.evaluate(unmarked) == []
    watched.assert_clean()


def test_narrow_screen_keeps_cells_and_numbers_on_one_line(watched: Watched, report: Path) -> None:
    watched.page.set_viewport_size({"width": 390, "height": 800})
    page = watched.open(report, "#/")
    page.wait_for_selector(".cell")
    page.evaluate("for (const more of document.querySelectorAll('details.more')) more.open = true")
    # Lines of the text of each element; a cell with two lines overflows, and ranges of numbers made rows very high.
    lines = """(selector) => Math.max(...[...document.querySelectorAll(selector)].map((element) => {
        const range = document.createRange(); range.selectNodeContents(element);
        return range.getBoundingClientRect().height / parseFloat(getComputedStyle(element).fontSize) }))"""
    for selector in (".cell", "td.r"):
        assert page.evaluate(lines, selector) < 2, selector
    watched.assert_clean()


def test_chart_text_is_readable_on_narrow_and_wide_screens(watched: Watched, report: Path) -> None:
    smallest = """() => Math.min(...[...document.querySelectorAll('svg.fig text')].map((text) =>
        parseFloat(getComputedStyle(text).fontSize) * text.ownerSVGElement.getScreenCTM().a))"""
    for width in (360, 1300):
        watched.page.set_viewport_size({"width": width, "height": 800})
        for address in ("#/", "#/comparison"):
            page = watched.open(report, address)
            page.wait_for_selector("svg.fig text")
            assert page.evaluate(smallest) >= 10, (width, address)
    watched.assert_clean()


@pytest.mark.req("A-11a")
def test_many_failing_tests_are_folded(watched: Watched, tmp_path: Path) -> None:
    record = sample("median", "fail")
    names = tuple(f"tests/test_x.py::test_{n}" for n in range(40))
    failed = record.model_copy(update={"checks": (record.checks[0].model_copy(update={"failing_tests": names}),)})
    run = open_run(write_run(tmp_path / "run", [failed]))
    page = watched.open(write_page(tmp_path / "page", [run]), "#/attempt/0")
    expect(page.locator("ul.names li:visible")).to_have_count(12)
    page.click("details.more > summary")
    expect(page.locator("ul.names li:visible")).to_have_count(40)
    watched.assert_clean()


@pytest.mark.req("A-11a")
def test_exported_attempt_is_self_contained(watched: Watched, tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path / "run", [sample("median", "fail", scorers=SCORERS, judge=JUDGE)]))
    file = tmp_path / "elsewhere" / "attempt.html"
    file.parent.mkdir()
    file.write_text(export_attempt(run, run.rows[0]), encoding="utf-8")
    page = watched.open(file)
    expect(page.locator(".lead")).to_contain_text("FAIL TESTS_FAILED")
    page.click("#tab-trace")
    expect(page.locator("#shown")).to_have_text(f"{len(events())} of {len(events())} events")
    page.click("#tab-diff")
    expect(page.locator("tr.add")).to_have_count(3)
    assert "strict-dynamic" not in (page.locator("meta[http-equiv]").get_attribute("content") or "")
    assert len(watched.requests) == 1
    watched.assert_clean()


@pytest.mark.req("A-11a")
def test_large_runs_and_long_traces_stay_usable(watched: Watched, tmp_path: Path) -> None:
    long = [event for _ in range(500) for event in events("x" * 20)]
    good, bad = (sample("task-0000", kind).line() for kind in ("pass", "fail"))
    run = write_run(tmp_path / "run", [sample("task-0000", "fail")], traces={"tasks/task-0000": long})
    lines = [(good if n % 3 else bad).replace(b"task-0000", b"task-%04d" % n) + b"\n" for n in range(5000)]
    (run / "attempts.jsonl").write_bytes(b"".join(lines))
    page_file = write_page(tmp_path / "page", [open_run(run)])
    assert page_file.stat().st_size < 20_000_000
    page = watched.open(page_file, "#/attempts")
    expect(page.locator("#total")).to_have_text("5,000 of 5,000 attempts")
    assert page.locator(".vt-row").count() < 120
    page.locator(".vt-body").focus()
    page.keyboard.press("End")
    expect(page.locator(".vt-row[aria-selected=true]")).to_contain_text("task-4999")
    page = watched.open(page_file, "#/attempt/0/trace")
    expect(page.locator("#shown")).to_have_text("2,000 of 6,000 events")
    page.click("#more")
    expect(page.locator("#shown")).to_have_text("4,000 of 6,000 events")
    assert page.locator(".vt-row").count() < 120
    watched.assert_clean()


def test_missing_side_file_is_reported(watched: Watched, tmp_path: Path) -> None:
    page_file = write_page(tmp_path / "page", [open_run(write_run(tmp_path / "run", [sample("median")]))])
    (page_file.parent / "data" / "a0.js").unlink()
    page = watched.open(page_file, "#/attempt/0")
    expect(page.locator(".note")).to_contain_text("keep the data folder next to index.html")


@pytest.mark.req("A-11a", "U-04")
def test_pages_of_unusual_runs_open_without_errors(watched: Watched, tmp_path: Path) -> None:
    empty = open_run(write_run(tmp_path / "empty", []))
    invalid = open_run(write_run(tmp_path / "invalid", [sample("a", "task"), sample("b", "harness")]))
    single = open_run(write_run(tmp_path / "one", [sample("a")]))
    for name, runs in (("none", [empty]), ("bad", [invalid]), ("single", [single]), ("all", [empty, invalid, single])):
        page_file = write_page(tmp_path / name, runs)
        for address in ("#/", "#/attempts", "#/review", "#/comparison", "#/nowhere", "#/attempt/99"):
            page = watched.open(page_file, address)
            expect(page.locator("main > *").first).to_be_visible()
    csv = tmp_path / "results.csv"
    rows = "".join(f"t{n},{m},1,{'pass' if m == 'b' else 'fail'}\n" for n in range(6) for m in "ab")
    csv.write_text("task,method,repeat,outcome\n" + rows, encoding="utf-8")
    page = watched.open(write_page(tmp_path / "csv", [], comparison=compare_sides(*open_sides(str(csv), str(csv)))))
    expect(page.locator(".lead")).to_contain_text("B IS BETTER")
    expect(page.locator("nav a")).to_have_count(1)
    watched.assert_clean()


@pytest.mark.req("A-03")
def test_gate_verdict_comes_first(watched: Watched, tmp_path: Path) -> None:
    a, b = (write_run(tmp_path / name, [sample("t", kind)]) for name, kind in (("a", "pass"), ("b", "fail")))
    report = compare_sides(*open_sides(str(a), str(b)))
    verdict = check_gate(GateFile(max_drop=0.1), report)
    page = watched.open(write_page(tmp_path / "page", [open_run(a), open_run(b)], comparison=report, gate=verdict))
    expect(page.locator(".hero.fail")).to_contain_text("GATE FAILS: max_drop")
    page = watched.open(tmp_path / "page" / "index.html", "#/comparison")
    expect(page.get_by_text("Exit code 1")).to_be_visible()
    watched.assert_clean()


@pytest.mark.req("A-11a")
def test_leaderboard_of_several_methods_is_a_page(watched: Watched, runs: list[Path], tmp_path: Path) -> None:
    arguments = ["compare", *map(str, runs), "--strengths", "--format", "html", "--out", str(tmp_path / "page")]
    written = CliRunner().invoke(report_command, arguments)
    assert written.output == f"{tmp_path / 'page/index.html'}\n"
    page = watched.open(tmp_path / "page/index.html", "#/leaderboard")
    expect(page.locator(".lead")).to_contain_text("BEST")
    names = page.locator("section:has(h2:text('Leaderboard')) tbody .name").all_inner_texts()
    assert names == ["good", "fair", "poor"]
    matrix = page.locator("section:has(h2:text('Pairwise differences')) tbody tr")
    expect(matrix.nth(0)).to_contain_text("+87.5, p = ")
    expect(matrix.nth(1)).to_contain_text("−87.5, p = ")
    page = watched.open(tmp_path / "page/index.html")
    page.click("text=Leaderboard →")
    expect(page.locator("h2", has_text="Cost and quality")).to_be_visible()
    watched.assert_clean()


@pytest.mark.req("A-11a")
def test_compared_runs_keep_their_colours_among_others(watched: Watched, runs: list[Path], tmp_path: Path) -> None:
    compared = compare_sides(*open_sides(str(runs[1]), str(runs[2])))
    page = watched.open(write_page(tmp_path / "page", list(map(open_run, runs)), comparison=compared))
    legend = page.locator("section:has(h2:text('Cost projection')) .legend span")
    colours = {span.inner_text(): span.locator("i").get_attribute("class") for span in legend.all()}
    assert colours == {"poor": "k2", "fair": "k0", "good": "k1"}
