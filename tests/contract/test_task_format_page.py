"""The pages about tasks match the schema."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from agentbench.contract.load import load_task
from agentbench.contract.schema import Check, DenyCommand, DependencyRules, Envelope, RequireLimits, Task, Validation
from agentbench.contract.schema_problems import keys_of, sections_of
from tests.contract.task_folders import write_task

pytestmark = pytest.mark.component

DOCS = Path(__file__).parents[2] / "docs"
KEYS = (DOCS / "reference/task-yaml.md").read_text(encoding="utf-8")
GUIDE = (DOCS / "how-to/write-a-task.md").read_text(encoding="utf-8")
MODELS: list[type[BaseModel]] = [Task, Validation, Check, DependencyRules, RequireLimits, Envelope, DenyCommand]
MODELS += [model for _, model in sections_of(Task)]


@pytest.mark.req("C-02")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.__name__))
def test_page_explains_every_key(model: type[BaseModel]) -> None:
    prose = re.sub(r"```.*?```", "", KEYS, flags=re.DOTALL)
    words = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`]+)`", prose))))
    assert set(keys_of(model)) <= words


@pytest.mark.req("C-02")
@pytest.mark.parametrize(
    "section, key",
    [(name, key) for name, model in sections_of(Task) for key in keys_of(model) if name in {"environment", "setup"}],
)
def test_page_shows_the_default_limits(section: str, key: str) -> None:
    default = getattr(Task.model_fields[section].default, key)
    if isinstance(default, int | float):
        text = KEYS.partition(f"## `{section}`\n")[2].partition("\n## ")[0]
        assert re.search(rf"`{key}` \| [a-z]+ \| `{default:g}` \|", text)


def test_shortest_task_on_the_page_loads(tmp_path: Path) -> None:
    example = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)[0]
    assert load_task(write_task(tmp_path, example)).task.id == "parser-drops-last-row"
