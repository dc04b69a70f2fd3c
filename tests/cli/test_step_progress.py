"""Progress of commands with several steps."""

from __future__ import annotations

import io
import re
import threading

import pytest

from agentbench.cli.step_progress import StepProgress

pytestmark = pytest.mark.component


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_steps_are_lines_with_the_elapsed_time_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with StepProgress() as progress:
        progress.step("installing 3 pinned dependencies")
        progress.show("1 of 2 run")
        progress.show("2 of 2 run")
    lines = [re.sub(r"\d+ s", "N s", line) for line in stream.getvalue().splitlines()]
    assert lines == ["installing 3 pinned dependencies (N s)", "1 of 2 run (N s)"]


def test_steps_replace_each_other_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("CI", raising=False)
    with StepProgress() as progress:
        progress.step("installing")
        progress.print("accepted")
        progress.step("running the tests")
    drawn = [re.sub(r"\d+ s", "N s", part) for part in stream.getvalue().split("\r\x1b[2K")]
    assert [part for part in dict.fromkeys(drawn) if part] == [
        "N s · installing",
        "accepted (N s)\n",
        "N s · running the tests",
    ]
    assert drawn[-1] == ""


def test_clock_ticks_while_a_step_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Watched(Terminal):
        def write(self, text: str) -> int:
            if text.count("installing"):
                self.draws += 1
                if self.draws == 3:
                    ticked.set()
            return super().write(text)

        draws = 0

    ticked = threading.Event()
    monkeypatch.setattr("agentbench.cli.step_progress._TICK_SEC", 0.01)
    monkeypatch.setattr("sys.stderr", Watched())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)
    with StepProgress() as progress:
        progress.step("installing")
        assert ticked.wait(60)
