"""`ab run --sign` signs the runs of real attempts, with a key that it loads before anything runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agentbench.record.run_directory import RunDirectory
from tests.execution.conftest import Ab, make_ab
from tests.execution.tasks import make_suite
from tests.session_state import shared_state

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]


@pytest.fixture
def ab(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Ab:
    made = make_ab(tmp_path, shared_state(tmp_path_factory, "ab-state"))
    return Ab(made.cwd, {**made.env, "AB_KEYS": str(tmp_path / "keys")})


def test_run_is_signed_and_resuming_makes_the_signature_stale(tmp_path: Path, ab: Ab) -> None:
    make_suite(tmp_path / "tasks", "one")
    run = ("run", "--suite", "tiny", "--agent", "noop", "--out", "runs", "--json")
    assert ab(*run, "--sign", "ci").code == 2
    assert not (tmp_path / "runs").exists()
    assert ab("keys", "new", "ci", "--no-passphrase").code == 0
    done = ab(*run, "--sign", env={"AB_SIGNING_KEY": (tmp_path / "keys/ci").read_text()})
    assert done.code == 0, done.stderr
    assert "Signed with AB_SIGNING_KEY" in done.stderr
    verify = ("verify", "runs/latest", "--signed-by", "ci")
    assert ab(*verify).stdout.splitlines()[0].endswith("signed by ci")
    assert ab("run", "--resume", "runs/latest").code == 0
    assert ab(*verify).code == 0  # nothing was left to do
    with RunDirectory.open(Path(json.loads(done.stdout)["run_dir"]), writable=True) as run_directory:
        run_directory.close("interrupted")
    stale = ab(*verify)
    assert stale.code == 1
    assert stale.stdout.startswith("STALE appended: events.jsonl: the run was continued after it was signed")
    witnessed = ("--witness", str(tmp_path / "witness"))
    again = ab("run", "--resume", "runs/latest", "--sign", "ci", *witnessed)
    assert again.code == 0, again.stderr
    assert "Entry 1 of the witness log" in again.stderr
    assert ab(*verify, *witnessed).code == 0
    assert ab(*run, *witnessed).code == 2  # no key
    assert ab(*run, *witnessed, env={"AB_SIGNING_KEY": "ci"}).code == 0
    assert ab("verify", "runs", "--signed-by", "ci", *witnessed).stdout.startswith("VERIFIED: 2 runs, 2 entries")
    (tmp_path / "witness/witness.jsonl").write_text("{}\n")
    broken = ab(*run, "--sign", "ci", *witnessed)
    assert (broken.code, "is broken" in broken.stderr) == (2, True)
    assert len(list((tmp_path / "runs").glob("*__tiny__*"))) == 2
