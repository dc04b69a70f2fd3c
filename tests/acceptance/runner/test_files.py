"""Files that were written since the runner started are told from those that were only linked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentbench.acceptance.runner.files import Files

pytestmark = pytest.mark.component


def test_a_new_link_to_a_file_is_no_change_of_it(tmp_path: Path) -> None:
    """Preparing another task links files of the interpreter, which changes their time like a write."""
    file = tmp_path / "library.py"
    file.write_text("x = 1\n", encoding="utf-8")
    os.utime(file, (1, 1))
    files = Files()
    files.started = 2
    assert files.is_new(str(file))
    file.with_name("linked.py").hardlink_to(file)
    assert not files.is_new(str(file))
    file.write_text("x = 2\n", encoding="utf-8")
    assert files.is_new(str(file))
