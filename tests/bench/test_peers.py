"""Tests of the peer comparison that need no peer: the rendered table, the goals, and peers that cannot be measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers import install
from bench.peers.__main__ import NotMeasuredError, merge, run_peer, summary
from bench.peers.install import NotInstalledError, Peer, ensure_installed
from bench.peers.table import goals, render_table
from bench.peers.work import CALLS, Measurements, Work


def measurements(call_ms: float, attempt_sec: float) -> Measurements:
    result = Measurements()
    result.calls = {name: [call_ms] * 50 for name in CALLS}
    result.attempts = {"2": {"count": 10, "seconds": attempt_sec * 10}, "1": {"count": 5, "seconds": attempt_sec * 10}}
    return result


OURS = {"ours, docker": measurements(2, 0.3), "ours, bubblewrap": measurements(1, 0.1)}


def verdicts(measured: dict[str, Measurements]) -> dict[str, object]:
    return {str(goal["what"]): goal["met"] for goal in goals(measured)}


def test_ratios_are_relative_to_our_docker_backend() -> None:
    table = render_table({**OURS, "Inspect AI": measurements(100, 2.4)}, {})
    assert "100.0 / 100.0 (50.0×)" in table
    assert "2.400 (8.0×)" in table


@pytest.mark.parametrize("theirs, met", [(0.95, True), (0.85, False)])
def test_inspect_goal_uses_attempts_at_two_workers(theirs: float, met: bool) -> None:
    table = verdicts({**OURS, "Inspect AI": measurements(100, theirs)})
    assert table["an attempt at two workers, Inspect AI over ours, docker"] is met


def test_goal_for_unmeasured_peer_is_undecided() -> None:
    table = render_table(OURS, {"Harbor": "needs Python 3.12"})
    assert verdicts(OURS)["an attempt at two workers, Harbor over ours, docker"] is None
    assert "not measured: Harbor: needs Python 3.12" in table


def test_grading_only_peer_has_no_attempts() -> None:
    grader = Measurements(gradings={"2": {"count": 2, "seconds": 4.0}})
    row = next(
        line
        for line in render_table({**OURS, "SWE-bench": grader}, {}).splitlines()
        if "SWE-bench" in line and "2.0" in line
    )
    assert row.split()[1:] == ["–", "–", "2.000", "–"]
    assert summary(grader)["calls"] == {}


def test_merge_adds_both_measurements() -> None:
    merged = merge(measurements(2, 0.3), measurements(4, 0.5))
    assert merged.attempts["2"] == {"count": 20, "seconds": pytest.approx(8.0)}
    assert len(merged.calls["true"]) == 100


def test_peer_that_cannot_be_installed_reports_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AB_PEERS_CACHE", str(tmp_path))
    with pytest.raises(NotInstalledError, match=r"needs Python 99\.0 .* AB_PEERS_PYTHON"):
        ensure_installed(Peer("missing", "run_missing", ("missing==1",), python=(99, 0)))
    assert list(tmp_path.iterdir()) == []


def test_incomplete_installation_is_redone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AB_PEERS_CACHE", str(tmp_path))
    peer = Peer("peer", "run_peer", ("peer==1",))
    commands: list[list[str]] = []
    folder = tmp_path / peer.folder
    (folder / "half").mkdir(parents=True)

    def run(argv: list[str], **_: object) -> None:
        assert not (folder / "half").exists()
        folder.mkdir(exist_ok=True)
        commands.append(argv)

    monkeypatch.setattr(install, "run_checked", run)
    for _ in range(2):  # the second call installs nothing
        assert ensure_installed(peer) == folder / "bin" / "python"
    assert [argv[-1] for argv in commands] == [str(folder), "peer==1"]


def test_failed_runner_is_not_measured_and_its_output_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.peers.__main__.ensure_installed", lambda _peer: Path(sys.executable))
    with pytest.raises(NotMeasuredError, match=r"exit 1: .*No module named bench.peers.run_missing"):
        run_peer(Peer("missing", "run_missing", ()), Work("image", 1, {}), {})


def test_runners_import_nothing_from_agentbench() -> None:
    """Runners use the peers' own Python, where this project is not installed."""
    program = "import json, sys; import bench.peers.work; print(json.dumps([m for m in sys.modules if m.startswith('agentbench')]))"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-S", "-c", program], cwd=root, capture_output=True, check=True)
    assert json.loads(done.stdout) == []
