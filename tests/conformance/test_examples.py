"""Task files shown in the documentation are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentbench.contract.load import load_task

pytestmark = pytest.mark.component

ROOT = Path(__file__).parents[2]


def examples() -> list[tuple[str, str]]:
    found = []
    for page in (ROOT / "docs" / "how-to" / "write-a-task.md", ROOT / "docs" / "protocol.md"):
        blocks = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        whole = [text for text in blocks if text.startswith(("id:", "schema_version:"))]
        found += [(f"{page.name}-{number}", text) for number, text in enumerate(whole)]
    return found


@pytest.mark.req("C-01", "C-06")
@pytest.mark.parametrize("text", [text for _, text in examples()], ids=[name for name, _ in examples()])
def test_documented_task_is_valid(text: str, tmp_path: Path) -> None:
    suite = re.search(r"^suite: \"?([\w-]+)", text, re.MULTILINE)
    assert suite is not None
    folder = tmp_path / suite[1] / "example"
    folder.mkdir(parents=True)
    (folder / "task.yaml").write_text(text, encoding="utf-8")
    loaded = load_task(folder)
    assert loaded.statement
    assert [check.parser for check in loaded.checks] == ["pytest"]


def test_documentation_has_examples() -> None:
    assert {name.rpartition("-")[0] for name, _ in examples()} == {"write-a-task.md", "protocol.md"}
