"""An example of every event type, and small logs."""

from __future__ import annotations

from pathlib import Path

from agentbench.core.host_evidence import HostEvidence
from agentbench.core.reasons import Gate, Outcome, Reason, RunStatus, TerminationCode
from agentbench.trace.events import (
    AcceptanceCheck,
    AgentTurnStarted,
    AttemptBegun,
    AttemptClosed,
    AttemptOpened,
    AttemptSealed,
    Briefing,
    BuildFinished,
    BuildStarted,
    ComparisonDecided,
    Delegation,
    Excerpt,
    FileDigest,
    GateResult,
    GatesDecided,
    IdentityBound,
    IntegrityFinding,
    Intervention,
    JudgeResult,
    LlmRequest,
    LlmResponse,
    MonitorAlert,
    NetworkRequest,
    NetworkResponse,
    NetworkUsed,
    OperatorDecision,
    PatchApplied,
    PatchExtracted,
    Payload,
    ProcessFinished,
    ProcessStarted,
    ResourceSample,
    RunClosed,
    RunOpened,
    RunReduced,
    RunResumed,
    SandboxLost,
    ScorerResult,
    SetupCommandFinished,
    SetupCommandStarted,
    StageChanged,
    StaticFinished,
    StaticStarted,
    TaskFinished,
    TaskStarted,
    Termination,
    TestsFinished,
    TestsStarted,
    ToolCallFinished,
    ToolCallStarted,
    VaultAccess,
    WorkspaceMutated,
)
from agentbench.trace.log import EventLog

SHA = "ab" * 32
OUT = Excerpt(text="1 passed", total_bytes=8, sha256=SHA)
FILE = FileDigest(path="src/core.py", change="modified", before_sha256=SHA, after_sha256="cd" * 32, size=40)


def _started(kind: type[BuildStarted | StaticStarted | TestsStarted]) -> Payload:
    return kind(step="unit", command="pytest -q", ceiling_us=300_000_000)


def _finished(kind: type[BuildFinished | StaticFinished | TestsFinished]) -> Payload:
    return kind(
        step="unit",
        outcome=Outcome.PASS,
        exit_code=0,
        timed_out=False,
        duration_us=1_200_000,
        stdout=OUT,
        stderr=Excerpt(),
        why="",
    )


OPENED = AttemptOpened(
    attempt_id="01A",
    run_id="01R",
    study_id="01S",
    task_id="toy",
    contract_id="sha256:c",
    task_digest="sha256:t",
    harness_version="0.1.0",
    config_class="sha256:k",
    nonce="00",
)

EXAMPLES: tuple[Payload, ...] = (
    OPENED,
    TaskStarted(
        task_id="toy",
        suite="demo",
        variant="baseline",
        agent="noop",
        repeat=1,
        seed=20260307,
        started_at="2026-03-07T00:00:00.000+00:00",
    ),
    IdentityBound(
        snapshot="sha256:r",
        source={"commit": "a1"},
        base_tree="sha256:b",
        env_digest="sha256:e",
        backend="bwrap",
        manifest_sha256=SHA,
    ),
    SetupCommandStarted(index=0, command="pip install -r requirements.txt", capture=False, cached=False),
    SetupCommandFinished(
        index=0, exit_code=0, timed_out=False, duration_us=5, stdout=OUT, stderr=Excerpt(), cached=False
    ),
    Briefing(text="fix it", sha256=SHA, parts={"issue": "fix it"}),
    StageChanged(before="inspect", after="write", cause="first patch"),
    AgentTurnStarted(turn=1),
    LlmRequest(
        request_id="1",
        provider="p",
        model="m",
        parameters={"temperature": 0.2, "stop": None, "seed": 7},
        messages=OUT,
        conversation_index=0,
    ),
    LlmResponse(
        request_id="1",
        status="ok",
        content=OUT,
        prompt_tokens=1,
        completion_tokens=2,
        cached_tokens=0,
        cost_micro_usd=7,
        duration_us=9,
        conversation_index=1,
    ),
    ToolCallStarted(call_id="c1", tool="run", arguments={"command": "pytest -q", "timeout_sec": 1.5}),
    ToolCallFinished(call_id="c1", tool="run", ok=True, exit_code=0, duration_us=1000, stdout=OUT),
    ProcessStarted(
        call_id="h1",
        number=1,
        pid=7,
        parent=1,
        program="/bin/ls",
        argv=["ls", "-l"],
        cwd="/workspace",
        elapsed_us=900,
    ),
    ProcessFinished(call_id="h1", number=1, exit_code=0, elapsed_us=1200),
    WorkspaceMutated(call_id="c1", files=[FILE], diff=OUT),
    PatchApplied(call_id=None, files=[FILE], patch=OUT),
    Delegation(parent="router", child="patcher", role="patcher", task=OUT),
    NetworkRequest(
        request_id="n1",
        way="http",
        method="GET",
        host="pypi.org",
        port=80,
        target="http://pypi.org/simple/",
        head=OUT,
    ),
    NetworkResponse(
        request_id="n1",
        address="151.101.0.223",
        status=200,
        request_body=OUT,
        head=OUT,
        body=OUT,
        sent_bytes=1,
        sent_sha256=SHA,
        received_bytes=2,
        received_sha256=SHA,
        duration_us=3,
    ),
    NetworkUsed(requests=1, refused=0, turned_away=0, unrecorded=0, sent_bytes=1, received_bytes=2),
    MonitorAlert(monitor="policy", severity="gate", rule="deny", detail="curl", format="code", evidence=[11]),
    Intervention(action="deny", alert=16, detail="refused"),
    OperatorDecision(decision="continue", operator="eve", justification="a false alarm", alert=16),
    ResourceSample(phase="agent", cpu_us=1, memory_bytes=2, disk_bytes=3, processes=4),
    SandboxLost(phase="agent", sandbox="s1", why="it ended", host=HostEvidence(disk_free_mb=1), blame="candidate"),
    Termination(code=TerminationCode.AGENT_STOPPED, category=None, rationale="done", evidence=[12]),
    PatchExtracted(sha256=SHA, bytes=100, files=[FILE], added=1, removed=1, generated=0),
    _started(BuildStarted),
    _finished(BuildFinished),
    _started(StaticStarted),
    _finished(StaticFinished),
    _started(TestsStarted),
    _finished(TestsFinished),
    AcceptanceCheck(
        check_id="unit",
        layer="unit",
        mandatory=True,
        outcome=Outcome.FAIL,
        why="1 of 2 required tests failed",
        command="pytest -q",
        started_at="2026-03-07T00:00:00.000+00:00",
        failing_tests=["tests/test_core.py::test_x[ü-1]"],
    ),
    IntegrityFinding(rule="runner.internals", severity="gate", path="src/core.py", line=3, detail="touches the runner"),
    ScorerResult(name="tests", scorer_type="command", required=True, verdict="FAIL", score_ppm=0, detail=""),
    JudgeResult(verdict="PASS", scores={"efficiency": 4}, failure_mode=None, model="m", reasoning=OUT),
    GatesDecided(
        gates={gate: GateResult(outcome=Outcome.PASS, passed=True) for gate in Gate},
        run_status=RunStatus.FAILURE,
        invalid_cause=None,
        attribution=None,
        reason=Reason.TESTS_FAILED,
        passed=False,
    ),
    TaskFinished(ended_at="2026-03-07T00:00:01.000+00:00", passed=False, reason=Reason.TESTS_FAILED, duration_us=1),
    AttemptClosed(events=33, head="sha256:" + SHA, record_sha256=SHA),
    RunOpened(
        run_id="01R",
        study_id="01S",
        suite="demo",
        variant="baseline",
        harness_version="0.1.0",
        run_json_sha256=SHA,
        nonce="00",
    ),
    AttemptBegun(attempt_id="01A", task_id="toy", repeat=1, attempt=1, task_dir="tasks/toy"),
    AttemptSealed(
        attempt_id="01A",
        task_dir="tasks/toy",
        events=3,
        head="sha256:" + SHA,
        record_sha256=SHA,
        files_sha256=SHA,
    ),
    RunResumed(harness_version="0.1.0", resumed_at="2026-03-07T00:00:00.000+00:00", unfinished=["01A"]),
    ComparisonDecided(look=3, blocks=12, outcome="b_better", better="new"),
    RunReduced(approved_by="eve", reason="old", reduced_at="2026-03-08T00:00:00+00:00", files=3, bytes=100),
    RunClosed(
        status="completed", closed_at="2026-03-07T00:00:00.000+00:00", attempts=1, events=3, head="sha256:" + SHA
    ),
    VaultAccess(
        action="get",
        outcome="granted",
        who="eve",
        reason="incident 42",
        run_id="01R",
        at="2026-03-08T00:00:00+00:00",
        attempt_id="01A",
        place="event:3",
    ),
)


def small_log(path: Path, *, closed: bool = True) -> list[bytes]:
    """Write a log of six events and return its lines."""
    log = EventLog.create(path)
    log.append(OPENED)
    log.append(Briefing(text="fix it", sha256=SHA, parts={}))
    log.append(ToolCallStarted(call_id="c1", tool="run", arguments={"command": "true", "n": 1}), "agent")
    log.append(ToolCallFinished(call_id="c1", tool="run", ok=True, exit_code=0, duration_us=12, stdout=OUT))
    log.append(Termination(code=TerminationCode.AGENT_STOPPED, category=None, rationale="", evidence=[]))
    if closed:
        log.close(SHA)
    else:
        log.release()
    return path.read_bytes().splitlines(keepends=True)
