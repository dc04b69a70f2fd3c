"""Ctrl-C while results are written does not keep them from being written."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from agentbench.cli.interrupts import graceful_interrupts, saving

pytestmark = pytest.mark.component


@pytest.fixture(autouse=True)
def signals_are_handled() -> Iterator[None]:
    """Tests started in the background ignore SIGINT, and an interrupted run ignores further signals."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_interrupt_while_saving_a_completed_run_changes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with graceful_interrupts(lambda: 0):
        with saving():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        written = True
    assert written
    assert "Still saving records" in capfd.readouterr().err


def test_second_interrupt_while_saving_an_interrupted_run_changes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    written = []

    def run() -> None:
        with graceful_interrupts(lambda: 2):
            try:
                os.kill(os.getpid(), signal.SIGINT)
            finally:
                with saving():
                    os.kill(os.getpid(), signal.SIGINT)
                    written.append("summary")

    with pytest.raises(KeyboardInterrupt):
        run()
    assert written == ["summary"]
    assert "Stopping 2 running attempts" in capfd.readouterr().err


def test_second_sigterm_changes_nothing_if_sigint_is_ignored(capfd: pytest.CaptureFixture[str]) -> None:
    """Shell scripts start programs in the background with SIGINT ignored; SIGTERM is then the only way to stop a run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    written = []

    def run() -> None:
        with graceful_interrupts(lambda: 1):
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                with saving():
                    os.kill(os.getpid(), signal.SIGTERM)
                    written.append("summary")

    with pytest.raises(KeyboardInterrupt):
        run()
    assert written == ["summary"]
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    assert "Stopping 1 running attempt and saving its record…" in capfd.readouterr().err
