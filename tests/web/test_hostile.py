"""Names, messages, output, patches and arguments are untrusted: the page must show them as text only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from agentbench.record.schema import ArtifactPaths, Fact, Judge, ScorerRecord, Tag, TerminationRecord
from agentbench.reports.html.page import embedded, export_attempt, write_page
from agentbench.reports.paired import compare_sides
from agentbench.reports.sources import open_run, open_sides
from tests.web.conftest import Watched
from tests.web.sample import events, sample, write_run

pytestmark = pytest.mark.component

ATTACKS = (
    "<img src=x onerror=window.pwned=1>",
    "</script><script>window.pwned=2</script>",
    "<!--<script>window.pwned=3//",
    "\"><svg onload=window.pwned=4><a href='javascript:window.pwned=5'>",
    "');window.pwned=6;('",
    "${window.pwned=7}`;window.pwned=8//",
    "\u2028window.pwned=9\u2029\u202eevil\u0000\x1b[31m",
    "@DATA@ @SCRIPT@ @TITLE@ \\u003c/script>",
)
TEXT = " ".join(ATTACKS)


def hostile_record(task: str, kind: str, **more: Any) -> Any:
    """Return a record with the attack in every text field that an agent, a task or a model controls."""
    plain = sample(task, kind)
    check = plain.checks[0].model_copy(
        update={"id": TEXT, "layer": TEXT, "command": TEXT, "why": TEXT, "failing_tests": (TEXT,) * 3}
    )
    gates = {gate: result.model_copy(update={"why": TEXT}) for gate, result in plain.gates.items()}
    values: dict[str, Any] = {
        "suite": TEXT,
        "variant": TEXT,
        "agent": TEXT,
        "harness_version": TEXT,
        "run_badge": TEXT,
        "model": {"name": TEXT, "provider": TEXT, "prompt_version": TEXT},
        "checks": (check,),
        "gates": gates,
        "tags": (Tag(id=TEXT, evidence=(1,), attributes={TEXT: TEXT, "__proto__": {"polluted": TEXT}}),),
        "scorers": tuple(
            ScorerRecord(name=TEXT, type=TEXT, required=True, verdict=verdict, score=0.5, detail=TEXT)
            for verdict in ("FAIL", "PASS")
        ),
        "workspace_verdict": "FAIL",
        "judge": Judge(
            verdict="FAIL",
            failure_mode=TEXT,
            facts=(Fact(claim=TEXT, verdict=TEXT, evidence=TEXT),),
            reasoning=TEXT,
            model=TEXT,
            scored_at=TEXT,
        ),
        "termination": TerminationRecord(code=plain.termination.code, rationale=TEXT),
        "contract_id": f"sha256:{task}{TEXT}",
        "env_digest": TEXT,
        "config_class": TEXT,
        "needs_review": True,
        "cost": {"total": 1.0, "unit": TEXT},
        "artifact_paths": ArtifactPaths(
            task_dir=f"tasks/{task}", passing_stdout=f"tasks/{task}/logs/passing_stdout.txt"
        ),
    }
    return plain.model_copy(update={}).model_validate({**plain.model_dump(), **values, **more})


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    patch = f"diff --git a/{TEXT} b/{TEXT}\n--- a/{TEXT}\n+++ b/{TEXT}\n@@ -1 +1 @@\n-{TEXT}\n+{TEXT}\n".replace(
        "\x00", ""
    )
    sides = []
    for name, kinds in (("a", ("fail", "task")), ("b", ("pass", "policy"))):
        records = [hostile_record(f"t{n}", kind) for n, kind in enumerate(kinds)]
        records.append(hostile_record("odd", kinds[0], task_id=TEXT, attempt_id=TEXT))
        traces = {record.artifact_paths.task_dir: events(TEXT) for record in records}
        sides.append(write_run(folder / name, records, traces=traces, patch=patch, output=TEXT))
    a, b = open_sides(*map(str, sides))
    page = write_page(folder / "page", list(map(open_run, sides)), comparison=compare_sides(a, b))
    (folder / "page" / "one.html").write_text(
        export_attempt(open_run(sides[0]), open_run(sides[0]).rows[0]), encoding="utf-8"
    )
    return page


def assert_inert(page: Page) -> None:
    """Check that there is no injected element, handler, link or changed prototype."""
    assert page.evaluate("window.pwned") is None
    assert page.evaluate("({}).polluted") is None
    elements = page.evaluate(
        """() => ({
          alien: document.querySelectorAll('main img, main script, main iframe, main object, main embed, main style, main link').length,
          handlers: [...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on'))).length,
          links: [...document.querySelectorAll('a')].map(a => a.getAttribute('href')).filter(x => !x.startsWith('#')),
          scripts: [...document.scripts].filter(s => s.type !== 'application/json').length,
        })"""
    )
    assert elements == {"alien": 0, "handlers": 0, "links": [], "scripts": 1}


@pytest.mark.req("A-11a")
def test_untrusted_fields_are_shown_as_text(watched: Watched, report: Path) -> None:
    page = watched.open(report)
    expect(page.locator("main")).to_contain_text("onerror=window.pwned=1")
    assert_inert(page)
    for address in ("#/comparison", "#/attempts", "#/review"):
        page = watched.open(report, address)
        expect(page.locator("main")).to_contain_text("window.pwned")
        assert_inert(page)
    for number in range(6):
        page = watched.open(report, f"#/attempt/{number}")
        page.wait_for_selector("#gates3")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert_inert(page)
        for tab in ("diff", "record"):
            page.click(f"#tab-{tab}")
            expect(page.locator("#panel")).to_contain_text("window.pwned")
            assert_inert(page)
    watched.assert_clean()


@pytest.mark.req("A-11a")
def test_trace_events_are_shown_as_text(watched: Watched, report: Path) -> None:
    page = watched.open(report, "#/attempt/0/trace")
    page.wait_for_selector("#row-0")
    for number in range(len(events())):
        page.locator(f"#row-{number}").click()
        assert_inert(page)
    expect(page.locator("#event")).to_contain_text("window.pwned")
    watched.assert_clean()


@pytest.mark.req("A-11a")
def test_exported_attempt_is_safe(watched: Watched, report: Path) -> None:
    page = watched.open(report.parent / "one.html")
    expect(page.locator("main")).to_contain_text("window.pwned")
    for tab in ("diff", "trace", "record", "verdict"):
        page.click(f"#tab-{tab}")
        assert_inert(page)
    watched.assert_clean()


def test_invisible_and_bidi_characters_are_escaped(watched: Watched, report: Path) -> None:
    page = watched.open(report, "#/attempt/0")
    text = page.locator("main").inner_text()
    assert "\u202e" not in text
    assert "\u2028" not in text
    assert "\x1b" not in text
    assert "\\u202e" in text


def test_policy_blocks_injected_scripts(watched: Watched, report: Path) -> None:
    """The content security policy is the second line of defence."""
    page = watched.open(report)
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=window.pwned=1>')")
    page.evaluate(
        "const s = document.createElement('iframe'); s.srcdoc = '<script>top.pwned=1</script>'; document.body.append(s)"
    )
    page.wait_for_timeout(150)
    assert page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in message for message in watched.errors)


@pytest.mark.parametrize("attack", ATTACKS)
def test_embedded_data_cannot_end_its_script(attack: str) -> None:
    assert not set("<>&\u2028\u2029") & set(embedded({"x": attack, attack: 1}))
