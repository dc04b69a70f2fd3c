"""Create small tasks. They install no package, so an attempt takes a fraction of a second."""

from __future__ import annotations

import textwrap
from pathlib import Path

TASK = """
id: {id}
suite: tiny
statement: The file answer.txt must say 42.
repo: {{path: repo}}
environment: {{timeout_sec: 120, tool_timeout_sec: 60, mem_limit_mb: 256, disk_limit_mb: 64, pids_limit: 64}}
oracle:
  checks:
    - {{id: answer, layer: script, command: "grep -qx 42 answer.txt", parser: exit_code, timeout_sec: 120}}
reference: reference.patch
"""

PATCH = """\
diff --git a/answer.txt b/answer.txt
--- a/answer.txt
+++ b/answer.txt
@@ -1 +1 @@
-41
+42
"""

ASKS = """
steps:
  - run: {command: sudo make-it-42}
  - apply_patch:
      unified_diff: |
        --- a/answer.txt
        +++ b/answer.txt
        @@ -1 +1 @@
        -41
        +42
"""
"""A script whose first command needs the decision of an operator."""


def make_task(folder: Path, *, task_id: str = "answer", text: str | None = None, more: str = "") -> Path:
    """Create a task whose file says 41 instead of 42. `text` replaces `task.yaml`, `more` is appended to it."""
    (folder / "repo" / "src").mkdir(parents=True)
    (folder / "repo" / "answer.txt").write_text("41\n")
    (folder / "repo" / "src" / "mod.py").write_text("VALUE = 41\n")
    (folder / "reference.patch").write_text(PATCH)
    content = (text or TASK.format(id=task_id)) + textwrap.dedent(more)
    (folder / "task.yaml").write_text(content)
    return folder


def make_suite(tasks_dir: Path, *names: str) -> Path:
    """Create a suite `tiny` with one task per name."""
    for name in names:
        make_task(tasks_dir / "tiny" / name, task_id=name)
    return tasks_dir
