"""`--out` of report pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench.cli.report import command
from agentbench.core.errors import InputError
from tests.reports.runs import record, run_dir

pytestmark = pytest.mark.component


def test_page_is_a_folder_not_a_file(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("pass", "pass")])
    done = CliRunner().invoke(command, ["summary", str(run), "--format", "html", "--out", str(tmp_path / "a b.html")])
    assert isinstance(done.exception, InputError)
    assert done.exception.remedy == f"use --out '{tmp_path / 'a b'}'"
    assert not (tmp_path / "a b.html").exists()
