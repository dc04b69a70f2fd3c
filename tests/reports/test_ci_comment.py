"""The comment on a pull request: verdict first, bounded, and without any effect of hostile text."""

from __future__ import annotations

import dataclasses
import json
import re
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench.cli.ci import command
from agentbench.reports.ci_comment import MAX_COMMENT, comment, task_annotations
from agentbench.reports.sources import Run, open_run

DEMO_RUNS = Path(__file__).parents[1] / "data" / "demo-runs.tar.xz"
HOSTILE = "@everyone #1 ![x](https://evil.example/i.png) <img src=x> </details> `x` | [a](b) https://evil.example\n\n# head\n::error::x"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    with tarfile.open(DEMO_RUNS) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)  # noqa: S202 - an archive of our own
    (folder / "gate.yaml").write_text("max_drop: 0.05\n")
    return folder


@pytest.fixture(scope="module")
def partial(demo: Path) -> Run:
    return open_run(demo / "demo-partial")


def with_finals(run: Run, changes: list[dict[str, object]]) -> Run:
    """Return a run whose records are copies of the first that did not pass, changed."""
    (first, *_) = [record for record in run.finals if not record.result.passed]
    changed = dataclasses.replace(run)
    changed.__dict__["finals"] = tuple(first.model_copy(update=update) for update in changes)
    return changed


def outside_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "CODE", text)


def ci(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(command, list(map(str, arguments)))
    return result.exit_code, result.stdout


def test_gate_decides_first_line_and_exit_code(demo: Path) -> None:
    options: list[str | Path] = ["--compare", demo / "demo-reference", "--gate", demo / "gate.yaml"]
    code, text = ci("comment", demo / "demo-partial", *options)
    lines = text.splitlines()
    assert code == 1
    assert lines[0] == "<!-- agentbench: results -->"
    assert lines[2].startswith("### AgentBench: **GATE FAILS**: `max_drop:")
    assert "| `shelf-cents` | 100% | 0% |" in lines
    code, document = ci("comment", demo / "demo-partial", *options, "--json")
    assert code == 1
    assert json.loads(document)["comment"] == text
    assert json.loads(document)["gate"]["exit_code"] == 1
    code, text = ci(
        "comment", demo / "demo-reference", "--compare", demo / "demo-partial", "--gate", demo / "gate.yaml"
    )
    assert code == 0
    assert "**GATE HOLDS**" in text


def test_comment_without_a_baseline_has_the_summary(demo: Path) -> None:
    code, text = ci("comment", demo / "demo-reference", "--key", "custom-dev")
    assert code == 0
    assert text.startswith("<!-- agentbench: custom-dev -->\n\n### AgentBench: `6 of 6 passed")
    assert "All 6 attempts passed." in text


@pytest.mark.parametrize("key", ["--> <b>", "a--b", "", "-x"])
def test_key_cannot_end_the_marker(demo: Path, key: str) -> None:
    code, _ = ci("comment", demo / "demo-reference", f"--key={key}")
    assert code == 2


def test_hostile_text_stays_in_code_spans(partial: Run) -> None:
    run = with_finals(partial, [{"task_id": HOSTILE, "variant": HOSTILE}])
    text = comment(run, None, None, "results")
    rest = outside_code(text)
    for part in ("@everyone", "evil", "<img", "![", "# head", "](", "::error"):
        assert part not in rest
    assert rest.count("</details>") == 1
    assert "`@everyone #1" in text


def test_comment_is_bounded_and_closed(partial: Run) -> None:
    run = with_finals(partial, [{"task_id": f"{number:04} " + "x" * 290} for number in range(3000)])
    text = comment(run, None, None, "results")
    assert len(text) <= MAX_COMMENT
    assert text.endswith("</details>\n")
    assert "2800 more" in text or "truncated" in text


def test_annotations_name_the_task_file(partial: Run) -> None:
    lines = list(task_annotations(partial, "tasks"))
    assert lines[0].startswith("::error file=tasks/demo/duration-compound/task.yaml,line=1,title=duration-compound")
    assert len(lines) == 3


def test_annotations_are_escaped_and_limited(partial: Run) -> None:
    run = with_finals(partial, [{"task_id": "a,b:c%\n::error::x"}] * 30)
    lines = list(task_annotations(run, "tasks"))
    assert len(lines) == 10
    assert all("\n" not in line for line in lines)
    assert "a%2Cb%3Ac%25" in lines[0]
    assert lines[-1] == "::notice ::21 further attempts did not pass"
