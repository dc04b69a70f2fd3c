"""The summary of a single graded patch."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.reports.single_patch import write_verdict
from tests.reports.runs import record, run_dir

pytestmark = pytest.mark.component


def test_summary_of_one_patch_is_its_verdict(tmp_path: Path) -> None:
    text = write_verdict(run_dir(tmp_path / "run", [record("toy", "fail")])).read_text(encoding="utf-8")
    first, *rest = text.split("\n\n")
    assert first.startswith("# `FAIL")
    assert rest == ["Task `toy`, one patch.", "`ab report summary` shows rates, costs and times.\n"]


def test_interrupted_grading_has_an_empty_summary(tmp_path: Path) -> None:
    text = write_verdict(run_dir(tmp_path / "run", [])).read_text(encoding="utf-8")
    assert text.startswith("# EMPTY: no finished attempts\n")
