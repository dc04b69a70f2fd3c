"""Errors become one message and an exit code."""

from __future__ import annotations

import errno

import pytest

from agentbench.cli.main import _report

pytestmark = pytest.mark.component


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC])
def test_full_disk_or_missing_permission_is_no_bug(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert _report(OSError(number, "No space left on device", "runs/x"), debug=False) == 3
    assert capsys.readouterr().err.startswith("error: runs/x: No space left on device\n")


def test_unexpected_error_is_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert _report(KeyError("x"), debug=False) == 3
    assert "This is a bug in ab" in capsys.readouterr().err
