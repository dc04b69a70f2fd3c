"""The comparison with peers, without any of them: what is told of numbers, and of who could not be measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers import installing
from bench.peers.__main__ import NotMeasuredError, joined, run_peer, summary
from bench.peers.installing import NotInstalledError, Peer, installed
from bench.peers.table import goals, shown
from bench.peers.work import CALLS, Found, Work


def found(call_ms: float, attempt_sec: float) -> Found:
    made = Found()
    made.calls = {name: [call_ms] * 50 for name in CALLS}
    made.attempts = {"2": {"count": 10, "seconds": attempt_sec * 10}, "1": {"count": 5, "seconds": attempt_sec * 10}}
    return made


OURS = {"ours, docker": found(2, 0.3), "ours, bubblewrap": found(1, 0.1)}


def verdicts(measured: dict[str, Found]) -> dict[str, object]:
    return {str(one["what"]): one["met"] for one in goals(measured)}


def test_ratios_are_against_ours_in_the_same_run() -> None:
    told = shown({**OURS, "Inspect AI": found(100, 2.4)}, {})
    assert "100.0 / 100.0 (50.0×)" in told
    assert "2.400 (8.0×)" in told


@pytest.mark.parametrize("theirs, met", [(0.95, True), (0.85, False)])
def test_three_times_faster_than_inspect_is_judged_by_the_attempt_at_two_workers(theirs: float, met: bool) -> None:
    told = verdicts({**OURS, "Inspect AI": found(100, theirs)})
    assert told["an attempt at two workers, Inspect AI over ours, docker"] is met


def test_a_goal_about_a_peer_that_was_not_measured_is_neither_met_nor_missed() -> None:
    told = shown(OURS, {"Harbor": "needs Python 3.12"})
    assert verdicts(OURS)["an attempt at two workers, Harbor over ours, docker"] is None
    assert "not measured: Harbor: needs Python 3.12" in told


def test_a_peer_that_only_grades_has_no_attempts() -> None:
    grader = Found(gradings={"2": {"count": 2, "seconds": 4.0}})
    row = next(
        line for line in shown({**OURS, "SWE-bench": grader}, {}).splitlines() if "SWE-bench" in line and "2.0" in line
    )
    assert row.split()[1:] == ["–", "–", "2.000", "–"]
    assert summary(grader)["calls"] == {}


def test_two_turns_of_ours_count_together() -> None:
    both = joined(found(2, 0.3), found(4, 0.5))
    assert both.attempts["2"] == {"count": 20, "seconds": pytest.approx(8.0)}
    assert len(both.calls["true"]) == 100


def test_a_peer_that_cannot_be_installed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AB_PEERS_CACHE", str(tmp_path))
    with pytest.raises(NotInstalledError, match=r"needs Python 99\.0 .* AB_PEERS_PYTHON"):
        installed(Peer("nobody", "run_nobody", ("nobody==1",), python=(99, 0)))
    assert list(tmp_path.iterdir()) == []


def test_an_installation_that_was_cut_short_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AB_PEERS_CACHE", str(tmp_path))
    peer = Peer("someone", "run_someone", ("someone==1",))
    said: list[list[str]] = []
    folder = tmp_path / peer.folder
    (folder / "half").mkdir(parents=True)

    def run(argv: list[str], **_: object) -> None:
        assert not (folder / "half").exists()
        folder.mkdir(exist_ok=True)
        said.append(argv)

    monkeypatch.setattr(installing, "said", run)
    for _ in range(2):  # the second time it is there
        assert installed(peer) == folder / "bin" / "python"
    assert [argv[-1] for argv in said] == [str(folder), "someone==1"]


def test_a_runner_that_fails_is_not_measured_and_its_last_words_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.peers.__main__.installed", lambda _peer: Path(sys.executable))
    with pytest.raises(NotMeasuredError, match=r"exit 1: .*No module named bench.peers.run_nobody"):
        run_peer(Peer("nobody", "run_nobody", ()), Work("image", 1, {}), {})


def test_runners_need_nothing_of_ours() -> None:
    """They run with the peers' own Python, where no package of this project is."""
    program = "import json, sys; import bench.peers.work; print(json.dumps([m for m in sys.modules if m.startswith('agentbench')]))"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-S", "-c", program], cwd=root, capture_output=True, check=True)
    assert json.loads(done.stdout) == []
