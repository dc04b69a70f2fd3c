"""Grade patches: every step is logged, and every kind of error has its own outcome."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

import pytest

from agentbench.acceptance.collect import collect
from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import GradingContext, Unlogged
from agentbench.contract.lock import LockedCheck
from agentbench.core.command import Completed
from agentbench.core.errors import SandboxError, SandboxLost
from agentbench.core.host_evidence import HostEvidence
from agentbench.core.reasons import Assurance, Gate, Outcome
from agentbench.sandbox.protocol import Backend, Prepared, Sandbox, SandboxSpec
from agentbench.sandbox.served_sandbox import ServedSandbox
from agentbench.trace import events
from agentbench.trace.events import (
    AcceptanceCheck,
    BuildFinished,
    IntegrityFinding,
    PatchApplied,
    Payload,
    StaticFinished,
)
from tests.acceptance.toy import Changes, TaskFactory, patch_of

pytestmark = pytest.mark.component

P = TypeVar("P", bound=Payload)
REPO = {"app.sh": "echo old\n", "ci/check.sh": "grep -q new app.sh\n", "README.md": "x\n"}
PLAIN: dict[str, object] = {"id": "plain", "command": "sh ci/check.sh", "timeout_sec": 20}
NEW: Changes = {"app.sh": "echo new\n"}


def shell_task(
    tasks: TaskFactory, folder: Path, oracle: dict[str, object] | None = None, policy: dict[str, object] | None = None
) -> GradingContext:
    """A task without Python, which needs no setup."""
    checks = {"checks": [PLAIN], **(oracle or {})}
    return tasks.context(folder, repo=REPO, hidden=None, setup=(), oracle=checks, policy=policy or {})


def payloads(context: GradingContext, kind: type[P]) -> list[P]:
    assert isinstance(context.log, Unlogged)
    return [payload for payload in context.log.payloads if isinstance(payload, kind)]


@pytest.mark.req("G-02", "E-06", "E-16")
def test_every_step_is_logged(tasks: TaskFactory, tmp_path: Path) -> None:
    more = {"id": "more", "command": "echo out; echo err >&2; exit 3", "mandatory": False, "layer": "script"}
    context = shell_task(
        tasks, tmp_path, {"build": "echo built > made.txt", "static": ["cat made.txt"], "checks": [PLAIN, more]}
    )
    graded = grade(patch_of(context, NEW), context)
    assert [result.outcome for result in graded.checks] == [Outcome.PASS, Outcome.FAIL]
    assert graded.accepted  # the second check is not mandatory
    assert isinstance(context.log, Unlogged)
    assert [payload.type for payload in context.log.payloads] == [
        "patch_applied",
        "build_started",
        "build_finished",
        "static_started",
        "static_finished",
        "tests_started",
        "tests_finished",
        "acceptance_check",
        "tests_started",
        "tests_finished",
        "acceptance_check",
    ]
    (applied,) = payloads(context, PatchApplied)
    assert (applied.call_id, applied.outcome, applied.files[0].path) == (None, Outcome.PASS, "app.sh")
    first, second = payloads(context, AcceptanceCheck)
    assert (first.check_id, first.mandatory, first.exit_code, first.ceiling_us) == ("plain", True, 0, 20_000_000)
    assert (second.layer, second.exit_code, second.why) == ("script", 3, "exit 3")
    assert second.assurance == Assurance.EXIT_CODE
    finished = payloads(context, events.TestsFinished)[1]
    assert (finished.stdout.text, finished.stderr.text) == ("out\n", "err\n")
    assert second.stdout_sha256 == finished.stdout.sha256


@pytest.mark.req("C-07")
def test_no_op_build_passes_and_is_named_so(tasks: TaskFactory, tmp_path: Path) -> None:
    context = shell_task(tasks, tmp_path)
    grade(b"", context)
    (built,) = payloads(context, BuildFinished)
    assert (built.outcome, built.exit_code, built.why) == (Outcome.PASS, None, "declared no-op")


@pytest.mark.req("G-03a", "G-15")
@pytest.mark.parametrize(
    "patch",
    [
        b"no patch\n",
        b"--- a/app.sh\n+++ b/app.sh\n@@ -1 +1 @@\n-something else\n+new\n",
        b"--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n",
        b"diff --git a/.git/config b/.git/config\nnew file mode 100644\n--- /dev/null\n+++ b/.git/config\n@@ -0,0 +1 @@\n+x\n",
        b"--- a/app.sh\n+++ b/app.sh\n@@ -1 +1,6 @@\n echo old\n+<<<<<<< a\n+x\n+=======\n+y\n+>>>>>>> b\n",
    ],
    ids=["prose", "other content", "outside", "git", "conflict"],
)
def test_patch_that_does_not_apply_fails_every_check(tasks: TaskFactory, tmp_path: Path, patch: bytes) -> None:
    context = shell_task(tasks, tmp_path)
    graded = grade(patch, context)
    assert graded.application.outcome is Outcome.FAIL
    (applied,) = payloads(context, PatchApplied)
    assert (applied.outcome, bool(applied.why)) == (Outcome.FAIL, True)
    (check,) = payloads(context, AcceptanceCheck)
    assert (check.outcome, check.why, check.not_run) == (Outcome.FAIL, "not run: G1 failed", Gate.G1)
    assert not payloads(context, events.TestsStarted)


@pytest.mark.req("G-15")
def test_changes_that_are_not_a_patch_fail_every_check(tasks: TaskFactory, tmp_path: Path) -> None:
    context = shell_task(tasks, tmp_path)
    grade(b"", context, problem="the patch has 1000000 files")
    assert payloads(context, AcceptanceCheck)[0].why == "not run: G1 failed"


@pytest.mark.req("G-03a", "G-15")
@pytest.mark.parametrize("step", ["build", "static"])
def test_failing_build_or_static_command_fails_every_check(tasks: TaskFactory, tmp_path: Path, step: str) -> None:
    oracle: dict[str, object] = {"build": "sh app.sh | grep old"} if step == "build" else {"static": ["true", "exit 4"]}
    context = shell_task(tasks, tmp_path, oracle)
    graded = grade(patch_of(context, NEW), context)
    (check,) = payloads(context, AcceptanceCheck)
    assert (check.outcome, check.why, check.not_run) == (Outcome.FAIL, "not run: G2 failed", Gate.G2)
    assert [step.outcome for step in graded.steps if step.step != "build"] == (
        [] if step == "build" else [Outcome.PASS, Outcome.FAIL]
    )


def test_every_check_has_build_products_and_no_files_of_other_checks(tasks: TaskFactory, tmp_path: Path) -> None:
    checks = [
        {"id": "a", "command": "cat made.txt && echo x > leftover.txt"},
        {"id": "b", "command": "cat made.txt && ! test -e leftover.txt && ! test -e static.txt"},
    ]
    context = shell_task(
        tasks, tmp_path, {"build": "sh app.sh > made.txt", "static": ["touch static.txt"], "checks": checks}
    )
    assert grade(b"", context).accepted
    assert len(payloads(context, BuildFinished)) == 1


@pytest.mark.req("G-01", "G-14")
def test_missing_command_is_an_error_of_the_task(tasks: TaskFactory, tmp_path: Path) -> None:
    context = shell_task(tasks, tmp_path, {"checks": [{"id": "typo", "command": "A=1 no-such-program --x"}]})
    (check,) = grade(patch_of(context, NEW), context).checks
    assert check.outcome is Outcome.ERROR
    assert "`no-such-program` is not in the environment" in check.decided.why


@pytest.mark.parametrize("command", ["./gone.sh", "sh -c 'exit 127'", "exit 126"])
def test_candidate_cannot_fake_a_missing_command(tasks: TaskFactory, tmp_path: Path, command: str) -> None:
    context = shell_task(tasks, tmp_path, {"checks": [{"id": "c", "command": command}]})
    assert grade(b"", context).checks[0].outcome is Outcome.FAIL


@pytest.mark.req("G-01", "E-06")
def test_timed_out_check_fails_with_duration_and_limit(tasks: TaskFactory, tmp_path: Path) -> None:
    context = shell_task(tasks, tmp_path, {"checks": [{"id": "slow", "command": "sleep 60", "timeout_sec": 1}]})
    grade(b"", context)
    (check,) = payloads(context, AcceptanceCheck)
    assert (check.outcome, check.timed_out, check.ceiling_us) == (Outcome.FAIL, True, 1_000_000)
    assert check.duration_us >= 1_000_000
    assert check.why.startswith("timed out after")


@pytest.mark.req("G-01")
def test_exceeding_the_memory_limit_is_a_failure(tasks: TaskFactory, tmp_path: Path) -> None:
    context = shell_task(tasks, tmp_path, {"checks": [{"id": "m", "command": "python -c 'x = bytearray(2 << 30)'"}]})
    check = grade(b"", context).checks[0]
    assert check.outcome is Outcome.FAIL


class _Failing:
    """A backend whose sandboxes fail to open after a given number."""

    def __init__(self, context: GradingContext, after: int) -> None:
        self._backend = context.backend
        self._left = after

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)

    @contextmanager
    def open(self, spec: SandboxSpec, prepared: Prepared | None) -> Iterator[Sandbox]:
        self._left -= 1
        if self._left < 0:
            raise SandboxError("the sandbox did not start")
        with self._backend.open(spec, prepared) as sandbox:
            yield sandbox


def failing(context: GradingContext, *, after: int) -> GradingContext:
    return dataclasses.replace(context, backend=cast("Backend", _Failing(context, after)))


@pytest.mark.req("G-01", "G-14")
@pytest.mark.parametrize("oracle", [{}, {"static": ["true"]}], ids=["check", "static"])
def test_harness_error_is_never_a_failure(tasks: TaskFactory, tmp_path: Path, oracle: dict[str, object]) -> None:
    context = shell_task(tasks, tmp_path, oracle)
    broken = failing(context, after=0)
    (check,) = grade(b"", broken).checks
    assert check.outcome is Outcome.ERROR
    (event,) = payloads(context, AcceptanceCheck)
    assert event.outcome is Outcome.ERROR
    if oracle:
        assert payloads(context, StaticFinished)[0].outcome is Outcome.ERROR
        assert event.why == "not run: G2 undecided"
    else:
        assert "harness error: the sandbox did not start" in event.why


class _Losing(_Failing):
    """A backend whose sandboxes, after a given number, are lost as soon as a command runs in them."""

    def __init__(self, context: GradingContext, evidence: HostEvidence, *, after: int = 0, lost: int = 99) -> None:
        super().__init__(context, after)
        self._evidence = evidence
        self._lost = lost

    @contextmanager
    def open(self, spec: SandboxSpec, prepared: Prepared | None) -> Iterator[Sandbox]:
        self._left -= 1
        with self._backend.open(spec, prepared) as sandbox:
            if self._left < 0 < self._lost:
                self._lost -= 1

                def lose(*_: object, **__: object) -> Completed:
                    raise SandboxLost("the sandbox was lost", sandbox=sandbox.id, evidence=self._evidence)

                for name in ("run", "start"):
                    setattr(sandbox, name, lose)
            yield sandbox


def losing(context: GradingContext, evidence: HostEvidence, *, after: int = 0, lost: int = 99) -> GradingContext:
    return dataclasses.replace(context, backend=cast("Backend", _Losing(context, evidence, after=after, lost=lost)))


@pytest.mark.req("G-01", "G-14")
@pytest.mark.parametrize("oracle", [{}, {"build": "true"}, {"static": ["true"]}], ids=["check", "build", "static"])
def test_lost_sandbox_is_a_failure_unless_the_host_had_trouble(
    tasks: TaskFactory, tmp_path: Path, oracle: dict[str, object]
) -> None:
    context = shell_task(tasks, tmp_path, oracle)
    for evidence, outcome, blame in (
        (HostEvidence(), Outcome.FAIL, "candidate"),
        (HostEvidence(manager="gone"), Outcome.ERROR, "host"),
    ):
        logged = dataclasses.replace(context, log=Unlogged())
        graded = grade(patch_of(context, NEW), losing(logged, evidence))
        assert [result.outcome for result in graded.checks] == [outcome]
        assert {event.blame for event in payloads(logged, events.SandboxLost)} == {blame}
        why = graded.steps[-1].why if oracle else graded.checks[0].decided.why
        assert ("the host shows no trouble: memory unknown" in why) == (outcome is Outcome.FAIL)
        assert ("trouble of the host: the process that owns the sandbox is gone" in why) == (outcome is Outcome.ERROR)


@pytest.mark.req("G-01", "G-14")
def test_sandbox_lost_while_the_patch_is_written_is_a_failure(
    tasks: TaskFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A patch can make the command server busy or exceed a limit before any of its code runs."""

    def lose(sandbox: ServedSandbox, _: object) -> None:
        raise SandboxLost("the sandbox was lost", sandbox=sandbox.id, evidence=HostEvidence())

    context = shell_task(tasks, tmp_path)
    patch = patch_of(context, NEW)
    monkeypatch.setattr(ServedSandbox, "write_files", lose)
    graded = grade(patch, context)
    assert [result.outcome for result in graded.checks] == [Outcome.FAIL]
    assert graded.checks[0].decided.why.startswith("the code under test broke its sandbox")
    assert {event.blame for event in payloads(context, events.SandboxLost)} == {"candidate"}


@pytest.mark.req("G-14")
def test_check_is_retried_once_after_trouble_of_the_host(tasks: TaskFactory, tmp_path: Path) -> None:
    context = shell_task(tasks, tmp_path)
    graded = grade(patch_of(context, NEW), losing(context, HostEvidence(manager="gone"), lost=1))
    assert graded.accepted
    steps = payloads(context, events.TestsFinished)
    assert [(step.step, step.outcome) for step in steps] == [
        ("plain", Outcome.ERROR),
        ("plain-retried", Outcome.PASS),
    ]


@pytest.mark.req("G-08")
def test_reruns_are_bounded_and_one_failure_decides(tasks: TaskFactory, tmp_path: Path) -> None:
    flip = {"id": "flip", "command": "test $(od -An -N1 -tu1 /dev/urandom) -lt 64", "reruns": 15}
    context = shell_task(tasks, tmp_path, {"checks": [flip, {**PLAIN, "reruns": 2}]})
    flipped, plain = grade(patch_of(context, NEW), context).checks
    assert flipped.outcome is Outcome.FAIL
    assert flipped.runs <= 16
    assert (plain.outcome, plain.runs, plain.decided.why) == (Outcome.PASS, 3, "run 3 of 3")
    assert [event.run for event in payloads(context, AcceptanceCheck)] == [flipped.runs, 3]
    assert len(payloads(context, events.TestsFinished)) == flipped.runs + 3


def test_failure_outweighs_error_and_error_outweighs_pass(tasks: TaskFactory, tmp_path: Path) -> None:
    context = shell_task(tasks, tmp_path, {"checks": [{**PLAIN, "reruns": 1}]})
    after_one = failing(context, after=1)
    assert grade(patch_of(context, NEW), after_one).checks[0].outcome is Outcome.ERROR
    after_one = failing(context, after=1)
    assert grade(b"", after_one).checks[0].outcome is Outcome.FAIL


@pytest.mark.req("C-08a")
def test_edit_outside_editable_globs_is_found(tasks: TaskFactory, tmp_path: Path) -> None:
    context = shell_task(tasks, tmp_path, policy={"editable_globs": ["*.sh"]})
    graded = grade(patch_of(context, {**NEW, "README.md": "y\n"}), context)
    assert graded.checks[0].outcome is Outcome.PASS
    assert not graded.accepted
    (finding,) = payloads(context, IntegrityFinding)
    assert (finding.rule, finding.severity, finding.path) == ("outside_editable", "gate", "README.md")


def test_protected_files_are_restored_and_reported(tasks: TaskFactory, tmp_path: Path) -> None:
    context = shell_task(tasks, tmp_path, {"protected": ["ci/**"]})
    graded = grade(patch_of(context, {"ci/check.sh": "true\n", "ci/extra.sh": "true\n"}), context)
    assert graded.checks[0].outcome is Outcome.FAIL
    assert (graded.restored, graded.dropped) == ((b"ci/check.sh",), (b"ci/extra.sh",))
    assert [(finding.rule, finding.severity) for finding in payloads(context, IntegrityFinding)] == [
        ("protected_restored", "note"),
        ("protected_dropped", "note"),
    ]


JUNIT = {
    "id": "j",
    "parser": "junit",
    "command": "sh ci/report.sh",
    "report": "out/*.xml",
    "fail_to_pass": ["app::new"],
    "pass_to_pass": ["app::runs"],
}
REPORTER = """\
    mkdir -p out
    if grep -q new app.sh; then body=''; else body='<failure message="old"/>'; fi
    echo "<testsuite><testcase classname='app' name='new'>$body</testcase></testsuite>" > out/a.xml
    echo "<testsuite><testcase classname='app' name='runs'/></testsuite>" > out/b.xml
    grep -q new app.sh
    """


def junit(tasks: TaskFactory, folder: Path, changes: Changes, reporter: str = REPORTER) -> tuple[Outcome, str]:
    repo = {**REPO, "ci/report.sh": reporter}
    context = tasks.context(
        folder, repo=repo, hidden=None, setup=(), oracle={"checks": [JUNIT], "protected": ["ci/**"]}
    )
    (check,) = grade(patch_of(context, changes), context).checks
    return check.outcome, check.decided.why


@pytest.mark.req("C-06")
def test_junit_reports_decide_by_their_tests(tasks: TaskFactory, tmp_path: Path) -> None:
    assert junit(tasks, tmp_path / "a", NEW) == (Outcome.PASS, "2 required tests passed")
    assert junit(tasks, tmp_path / "b", {}) == (Outcome.FAIL, "1 of 2 required tests failed")


@pytest.mark.req("C-06", "G-14")
def test_lock_requires_tests_reported_with_the_reference(tasks: TaskFactory, tmp_path: Path) -> None:
    """A report lists the tests that ran: without required ids, a shorter report would require less."""
    body = "    echo \"<testsuite><testcase name='later'><skipped/></testcase></testsuite>\" > out/c.xml\n"
    repo = {**REPO, "ci/report.sh": REPORTER.replace("    grep -q new app.sh\n", body + "    grep -q new app.sh\n")}
    check = {key: value for key, value in JUNIT.items() if not key.endswith("_to_pass")}
    oracle: dict[str, object] = {"checks": [check], "protected": ["ci/**"]}

    def ids(reference: str | None) -> LockedCheck:
        context = tasks.context(tmp_path, repo=repo, hidden=None, setup=(), oracle=oracle, reference=reference)
        return collect(context).checks["j"]

    context = tasks.context(tmp_path, repo=repo, hidden=None, setup=(), oracle=oracle)
    (tmp_path / "reference.patch").write_bytes(patch_of(context, NEW))
    assert ids(None) == ids("reference.patch") == LockedCheck(fail_to_pass=("app::new",), pass_to_pass=("app::runs",))


@pytest.mark.req("C-06", "G-14")
@pytest.mark.parametrize("referenced", [True, False], ids=["with a reference", "without"])
def test_junit_check_without_ids_requires_tests_known_to_pass(
    tasks: TaskFactory, tmp_path: Path, *, referenced: bool
) -> None:
    """Otherwise a patch that keeps tests from running would fail nothing; new and skipped tests do not matter."""
    later = "    echo \"<testsuite><testcase name='later'><skipped/></testcase></testsuite>\" > out/c.xml\n"
    leaves = "    if grep -q leave app.sh; then rm out/b.xml; exit 0; fi\n"
    reporter = REPORTER.replace("    grep -q new app.sh\n", later + leaves + "    grep -q new app.sh\n")
    check = {key: value for key, value in JUNIT.items() if not key.endswith("_to_pass")}
    more: dict[str, object] = {"oracle": {"checks": [check], "protected": ["ci/**"]}}
    if referenced:
        bare = tasks.context(tmp_path / "bare", repo={**REPO, "ci/report.sh": reporter}, hidden=None, setup=(), **more)  # type: ignore[arg-type]
        more |= {"files": {"reference.patch": patch_of(bare, NEW).decode()}, "reference": "reference.patch"}
    context = tasks.context(tmp_path / "task", repo={**REPO, "ci/report.sh": reporter}, hidden=None, setup=(), **more)  # type: ignore[arg-type]

    def graded(changes: Changes) -> tuple[Outcome, tuple[str, ...]]:
        (decided,) = grade(patch_of(context, changes), context).checks
        return decided.outcome, decided.decided.failing

    assert graded(NEW) == (Outcome.PASS, ())
    assert graded({"app.sh": "echo new # leave\n"}) == (Outcome.FAIL, ("app::runs",))
    assert graded({}) == (Outcome.FAIL, ("app::new",))


def test_report_from_before_the_run_is_not_read(tasks: TaskFactory, tmp_path: Path) -> None:
    forged = {
        "out/a.xml": "<testsuite><testcase classname='app' name='new'/><testcase classname='app' name='runs'/></testsuite>"
    }
    assert junit(tasks, tmp_path, forged, "true\n") == (Outcome.FAIL, "the command wrote no report out/*.xml")


@pytest.mark.parametrize(
    "ending, why",
    [
        ("exit 0", ""),
        ("exit 1", "contradicts the report"),
        ("echo '<!DOCTYPE x>' > out/a.xml", "document type"),
        ("rm -r out; mkfifo out", "wrote no report"),
        ("rm out/*; echo '<testsuite/>' > out/a.xml", "contains no test"),
    ],
)
def test_report_and_exit_code_must_agree(tasks: TaskFactory, tmp_path: Path, ending: str, why: str) -> None:
    outcome, text = junit(tasks, tmp_path, NEW, REPORTER + f"    {ending}\n")
    assert outcome is (Outcome.FAIL if why else Outcome.PASS)
    assert why in text
