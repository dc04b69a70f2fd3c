"""Each value of a configuration comes from the first source that gives one, and the manifest names the source."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.execution.conftest import Ab
from tests.execution.tasks import make_task
from tests.execution.test_artifacts import attempt_folder
from tests.models.conftest import Serve
from tests.models.service import answer_body, responds

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]


@pytest.mark.req("R-15")
def test_manifest_names_the_source_of_every_value(ab: Ab, tmp_path: Path, serve: Serve) -> None:
    server = serve(responds(answer_body("Done.")))
    task = make_task(tmp_path / "task", more="agent: {entrypoint: noop, max_steps: 9}\n")
    variant = tmp_path / "mine.yaml"
    variant.write_text(
        f"{{name: mine, agent: llm_v0, model: {{name: 'other@{server.url}', temperature: 0.9, top_p: 0.8}}}}"
    )
    ran = ab.run_task(task, "--variant", variant, "--temperature", "0.7", "--no-preflight")
    manifest = json.loads((attempt_folder(ran) / "manifest.json").read_text())
    configuration = manifest["protocol_manifest"]["planned"]["configuration"]
    assert {name: (setting["value"], setting["origin"]) for name, setting in configuration.items()} == {
        "agent": ("llm_v0", "variant"),
        "max_steps": (9, "task"),
        "model": (f"other@{server.url}", "variant"),
        "temperature": (0.7, "cli"),
        "top_p": (0.8, "variant"),
        "max_tokens": (2048, "default"),
        "send_seed": (True, "default"),
    }
    used = {"temperature": 0.7, "top_p": 0.8, "max_tokens": 2048}
    assert {name: ran.record["model"][name] for name in used} == used
    (request, *_) = server.seen
    assert {name: request[-1][name] for name in used} == used
