"""Small tasks made on the fly: no package is installed, so an attempt takes a fraction of a second."""

from __future__ import annotations

import textwrap
from pathlib import Path

TASK = """
id: {id}
suite: tiny
statement: The file answer.txt must say 42.
repo: {{path: repo}}
environment: {{timeout_sec: 20, tool_timeout_sec: 10, mem_limit_mb: 256, disk_limit_mb: 64, pids_limit: 64}}
oracle:
  checks:
    - {{id: answer, layer: script, command: "grep -qx 42 answer.txt", parser: exit_code, timeout_sec: 20}}
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


def make_task(folder: Path, *, task_id: str = "answer", text: str | None = None, more: str = "") -> Path:
    """A task whose file says 41 where it should say 42. `text` replaces `task.yaml`, `more` is added to it."""
    (folder / "repo" / "src").mkdir(parents=True)
    (folder / "repo" / "answer.txt").write_text("41\n")
    (folder / "repo" / "src" / "mod.py").write_text("VALUE = 41\n")
    (folder / "reference.patch").write_text(PATCH)
    whole = (text or TASK.format(id=task_id)) + textwrap.dedent(more)
    (folder / "task.yaml").write_text(whole)
    return folder


def make_suite(tasks_dir: Path, *names: str) -> Path:
    """A suite `tiny` with one task per name."""
    for name in names:
        make_task(tasks_dir / "tiny" / name, task_id=name)
    return tasks_dir
