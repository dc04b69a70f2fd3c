"""Progress of runs: verdicts as lines, a status line with a clock on a terminal, questions to the operator."""

from __future__ import annotations

import io
import re
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentbench.cli import progress as module
from agentbench.cli.progress import Progress, clock
from agentbench.execution.operator import PendingQuestion
from tests.reports.runs import record

pytestmark = pytest.mark.component


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "400")
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return stream


def row(task: str, repeat: int = 1) -> Any:
    return SimpleNamespace(key=(task, "v", repeat))


QUESTION = PendingQuestion(
    "01A-7", "01A", "one", "v", 1, "os.privilege_escalation", "sudo make-it-42", 7, "now", "2026-11-16T12:10:00+00:00"
)


def test_durations_have_the_largest_useful_unit() -> None:
    assert [clock(seconds) for seconds in (0, 59.9, 187, 3727)] == ["0 s", "59 s", "3:07 min", "1:02:07 h"]


def test_status_line_has_counts_clock_estimate_spend_and_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    progress = Progress()
    progress.planned(3)
    progress.started(row("one"))
    finished = record("one", "fail")
    priced = finished.model_copy(update={"cost": finished.cost.model_copy(update={"total": 1.5, "unit": "usd"})})
    progress.finished(row("one"), priced)
    progress.phase(row("two"), "grading")
    progress.close()
    status = [part for part in terminal.getvalue().split("\r\x1b[2K") if "two" in part][-1]
    assert re.fullmatch(
        r"1/3 done, 0 passed · \d+ s · about \d+ s left · 1\.50 usd · two · v \(grading \d+ s\)", status
    ), status


def test_status_line_of_a_resumed_run_has_what_was_spent_before(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    progress = Progress()
    progress.spent_before = 0.5
    progress.planned(2)
    finished = record("one", "fail")
    progress.finished(
        row("one"), finished.model_copy(update={"cost": finished.cost.model_copy(update={"unit": "usd"})})
    )
    progress.phase(row("two"), "grading")
    progress.close()
    assert " · 1.00 usd, 0.50 of it before · two · v" in terminal.getvalue()


def test_repeats_of_one_task_can_be_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    progress = Progress()
    progress.planned(2)
    progress.started(row("one"))
    progress.started(row("one", 2))
    assert re.search(r"one · v \(starting \d+ s\), one · v · repeat 2 \(starting", terminal.getvalue())
    Progress().asked(Path("runs/a"), replace(QUESTION, repeat=2))
    assert "PAUSED one · v · repeat 2: waiting" in terminal.getvalue()
    progress.close()


def test_clock_ticks_while_attempts_run(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setattr(module, "TICK_SEC", 0.01)
    progress = Progress()
    progress.planned(1)
    progress.started(row("one"))
    drawn = terminal.getvalue().count("one · v (starting")
    while terminal.getvalue().count("one · v (starting") < drawn + 3:
        time.sleep(0.01)
    progress.close()
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_verdicts_are_coloured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    progress = Progress()
    progress.finished(row("one"), record("one", "fail"))
    progress.finished(row("two"), record("two"))
    assert "\x1b[31m\x1b[1mFAIL TESTS_FAILED" in terminal.getvalue()
    assert "\x1b[32m\x1b[1mPASS\x1b[0m" in terminal.getvalue()


@pytest.mark.parametrize("variable", ["NO_COLOR", "CI"])
def test_terminal_is_not_coloured_in_ci_or_on_request(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setenv(variable, "1")
    progress = Progress()
    progress.finished(row("two"), record("two"))
    progress.asked(Path("runs/a"), QUESTION)
    assert "\x1b[3" not in terminal.getvalue()
    assert "\a" not in terminal.getvalue()


@pytest.mark.parametrize("quiet", [False, True])
def test_questions_are_printed_with_the_lines_to_type(monkeypatch: pytest.MonkeyPatch, *, quiet: bool) -> None:
    terminal = open_terminal(monkeypatch)
    Progress(quiet=quiet).asked(Path("runs/my run"), QUESTION)
    text = terminal.getvalue()
    assert "\a" in text
    assert "PAUSED one · v: waiting for your decision until 2026-11-16T12:10:00+00:00" in text
    assert "os.privilege_escalation: sudo make-it-42\n" in text
    for answer in ("continue", "stop"):
        assert f" operator decide 'runs/my run' --question 01A-7 --{answer} --reason '" in text
