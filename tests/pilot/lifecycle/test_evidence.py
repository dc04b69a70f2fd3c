"""Methods of a pilot keep what their variant says about text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.execution.conftest import Ab
from tests.pilot.studies import make_pilot

pytestmark = pytest.mark.end_to_end


@pytest.mark.req("L-01")
def test_method_that_keeps_digests_leaves_no_text(ab: Ab, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    make_pilot(folder, {"strata": [], "methods": [{"variant": "private"}]})
    (folder / "agent").mkdir()
    (folder / "agent" / "go.sh").write_text("echo words of the agent\n")
    variant = {"name": "private", "command": 'sh "$AB_AGENT_FILES/go.sh"', "files": "../agent"}
    (folder / "variants").mkdir()
    (folder / "variants" / "private.yaml").write_text(json.dumps({**variant, "evidence": {"text": "digest"}}))
    for command in ("plan", "freeze", "run"):
        done = ab("pilot", command, folder)
        assert done.code == 0, done.stdout + done.stderr
    kept = {}
    for run in (folder / "runs").iterdir():
        meta = json.loads((run / "run.json").read_text())
        kept[meta["variant"]] = meta["evidence"]["text"]
        logged = any(b"words of the agent" in path.read_bytes() for path in run.rglob("*") if path.is_file())
        assert not logged, meta["variant"]
    assert kept == {"private": "digest", "noop": "redacted", "reference": "redacted"}
    assert ab("verify", folder).code == 0
