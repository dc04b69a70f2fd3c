from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentbench.trace.events import EVENT_TYPES
from agentbench.trace.log import EventLog
from tests.trace.samples import EXAMPLES

pytestmark = pytest.mark.component

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "explanation/evidence.md").read_text(encoding="utf-8")
EVENTS = (DOCS / "reference/events.md").read_text(encoding="utf-8")


@pytest.mark.req("E-02", "U-03")
def test_event_reference_lists_every_event_and_field() -> None:
    for name, model in EVENT_TYPES.items():
        chapter = EVENTS.split(f"### `{name}`\n")[1].split("\n### ")[0]
        assert all(f"| `{field}` |" in chapter for field in model.model_fields), name


@pytest.mark.req("E-01")
def test_documented_verification_script_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    log = EventLog.create(tmp_path / "events.jsonl")
    for payload in EXAMPLES:
        log.append(payload)
    log.release()
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(code, names)  # noqa: S102
    head = names["head"]
    assert isinstance(head, bytes)
    assert log.head == "sha256:" + head.hex()
    path = tmp_path / "events.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"1 passed"', b'"2 passed"', 1))
    with pytest.raises(AssertionError):
        exec(code, {})  # noqa: S102
