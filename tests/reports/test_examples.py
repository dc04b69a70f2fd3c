"""Examples in the documentation are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from agentbench.reports.gate import read_gate

pytestmark = pytest.mark.synthetic

ROOT = Path(__file__).parents[2]


@pytest.mark.req("A-03")
def test_documented_gate_file_is_valid(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "how-to/gate-ci.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```yaml\n(# gate\.yaml.*?)```", text, re.DOTALL)
    path = tmp_path / "gate.yaml"
    path.write_text(example, encoding="utf-8")
    assert read_gate(path).min_pairs == 20
    assert (ROOT / "docs" / "examples" / "gate.yaml").read_text(encoding="utf-8") == example


@pytest.mark.req("A-03")
def test_example_workflow_runs_the_gate(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "examples" / "github-actions.yml").read_text(encoding="utf-8")
    steps = yaml.safe_load(text)["jobs"]["compare"]["steps"]
    # A pull request needs the baseline that a push has cached.
    used = {step["uses"].split("@")[0]: step for step in steps if "uses" in step}
    save, restore = used["actions/cache/save"], used["actions/cache/restore"]
    assert save["with"]["path"] == restore["with"]["path"] == "baseline"
    assert save["with"]["key"].startswith(restore["with"]["restore-keys"])
    assert (save["if"], restore["if"]) == ("github.event_name == 'push'", "github.event_name == 'pull_request'")
    gate = "\n".join(line.removeprefix("#   ") for line in text.splitlines() if line.startswith("#   "))
    path = tmp_path / "gate.yaml"
    path.write_text(gate, encoding="utf-8")
    assert read_gate(path).no_new_safety
