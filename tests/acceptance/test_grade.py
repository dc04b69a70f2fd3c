"""Grading from a patch to events: every step leaves its record, and every kind of trouble its own kind of outcome."""

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
from agentbench.core.errors import SandboxError
from agentbench.core.reasons import Assurance, Gate, Outcome
from agentbench.sandbox.protocol import Backend, Prepared, Sandbox, SandboxSpec
from agentbench.trace import events
from agentbench.trace.events import (
    AcceptanceCheck,
    BuildFinished,
    IntegrityFinding,
    PatchApplied,
    Payload,
    StaticFinished,
)
from tests.acceptance.toy import Bed, Changes, delta_of

P = TypeVar("P", bound=Payload)
REPO = {"app.sh": "echo old\n", "ci/check.sh": "grep -q new app.sh\n", "README.md": "x\n"}
PLAIN: dict[str, object] = {"id": "plain", "command": "sh ci/check.sh", "timeout_sec": 20}
NEW: Changes = {"app.sh": "echo new\n"}


def made(
    bed: Bed, folder: Path, oracle: dict[str, object] | None = None, policy: dict[str, object] | None = None
) -> GradingContext:
    """A contract without Python, which needs no setup."""
    checks = {"checks": [PLAIN], **(oracle or {})}
    return bed.context(folder, repo=REPO, hidden=None, setup=(), oracle=checks, policy=policy or {})


def of(context: GradingContext, kind: type[P]) -> list[P]:
    assert isinstance(context.log, Unlogged)
    return [payload for payload in context.log.payloads if isinstance(payload, kind)]


@pytest.mark.req("G-02", "E-06", "E-16")
def test_every_canonical_step_leaves_its_record(bed: Bed, tmp_path: Path) -> None:
    more = {"id": "more", "command": "echo out; echo err >&2; exit 3", "mandatory": False, "layer": "script"}
    context = made(
        bed, tmp_path, {"build": "echo built > made.txt", "static": ["cat made.txt"], "checks": [PLAIN, more]}
    )
    graded = grade(delta_of(context, NEW), context)
    assert [one.outcome for one in graded.checks] == [Outcome.PASS, Outcome.FAIL]
    assert graded.accepted  # the second is a diagnostic
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
    (applied,) = of(context, PatchApplied)
    assert (applied.call_id, applied.outcome, applied.files[0].path) == (None, Outcome.PASS, "app.sh")
    first, second = of(context, AcceptanceCheck)
    assert (first.check_id, first.mandatory, first.exit_code, first.ceiling_us) == ("plain", True, 0, 20_000_000)
    assert (second.layer, second.exit_code, second.why) == ("script", 3, "exit 3")
    assert second.assurance == Assurance.EXIT_CODE
    finished = of(context, events.TestsFinished)[1]
    assert (finished.stdout.text, finished.stderr.text) == ("out\n", "err\n")
    assert second.stdout_sha256 == finished.stdout.sha256


@pytest.mark.req("C-07")
def test_a_declared_no_op_build_passes_and_says_so(bed: Bed, tmp_path: Path) -> None:
    context = made(bed, tmp_path)
    grade(b"", context)
    (built,) = of(context, BuildFinished)
    assert (built.outcome, built.exit_code, built.why) == (Outcome.PASS, None, "declared no-op")


@pytest.mark.req("G-03", "G-15")
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
def test_a_patch_that_cannot_be_applied_fails_every_check(bed: Bed, tmp_path: Path, patch: bytes) -> None:
    context = made(bed, tmp_path)
    graded = grade(patch, context)
    assert graded.application.outcome is Outcome.FAIL
    (applied,) = of(context, PatchApplied)
    assert (applied.outcome, bool(applied.why)) == (Outcome.FAIL, True)
    (check,) = of(context, AcceptanceCheck)
    assert (check.outcome, check.why, check.not_run) == (Outcome.FAIL, "not run: G1 failed", Gate.G1)
    assert not of(context, events.TestsStarted)


@pytest.mark.req("G-15")
def test_a_delta_that_is_no_patch_fails_every_check(bed: Bed, tmp_path: Path) -> None:
    context = made(bed, tmp_path)
    grade(b"", context, problem="Δ has 1000000 files")
    assert of(context, AcceptanceCheck)[0].why == "not run: G1 failed"


@pytest.mark.req("G-03", "G-15")
@pytest.mark.parametrize("step", ["build", "static"])
def test_a_failing_build_or_static_command_fails_every_check(bed: Bed, tmp_path: Path, step: str) -> None:
    oracle: dict[str, object] = {"build": "sh app.sh | grep old"} if step == "build" else {"static": ["true", "exit 4"]}
    context = made(bed, tmp_path, oracle)
    graded = grade(delta_of(context, NEW), context)
    (check,) = of(context, AcceptanceCheck)
    assert (check.outcome, check.why, check.not_run) == (Outcome.FAIL, "not run: G2 failed", Gate.G2)
    assert [one.outcome for one in graded.steps if one.step != "build"] == (
        [] if step == "build" else [Outcome.PASS, Outcome.FAIL]
    )


def test_what_a_build_makes_is_there_in_every_check_and_nothing_of_other_checks(bed: Bed, tmp_path: Path) -> None:
    checks = [
        {"id": "a", "command": "cat made.txt && echo x > dropping.txt"},
        {"id": "b", "command": "cat made.txt && ! test -e dropping.txt && ! test -e seen.txt"},
    ]
    context = made(bed, tmp_path, {"build": "sh app.sh > made.txt", "static": ["touch seen.txt"], "checks": checks})
    assert grade(b"", context).accepted
    assert len(of(context, BuildFinished)) == 1


@pytest.mark.req("G-01", "G-14")
def test_a_command_that_does_not_exist_is_the_tasks_error(bed: Bed, tmp_path: Path) -> None:
    context = made(bed, tmp_path, {"checks": [{"id": "typo", "command": "A=1 no-such-program --x"}]})
    (check,) = grade(delta_of(context, NEW), context).checks
    assert check.outcome is Outcome.ERROR
    assert "`no-such-program` is not in the environment" in check.decided.why


@pytest.mark.parametrize("command", ["./gone.sh", "sh -c 'exit 127'", "exit 126"])
def test_a_candidate_cannot_pretend_that_the_command_does_not_exist(bed: Bed, tmp_path: Path, command: str) -> None:
    context = made(bed, tmp_path, {"checks": [{"id": "c", "command": command}]})
    assert grade(b"", context).checks[0].outcome is Outcome.FAIL


@pytest.mark.req("G-01", "E-06")
def test_a_check_that_runs_out_of_time_fails_with_both_times(bed: Bed, tmp_path: Path) -> None:
    context = made(bed, tmp_path, {"checks": [{"id": "slow", "command": "sleep 60", "timeout_sec": 1}]})
    grade(b"", context)
    (check,) = of(context, AcceptanceCheck)
    assert (check.outcome, check.timed_out, check.ceiling_us) == (Outcome.FAIL, True, 1_000_000)
    assert check.duration_us >= 1_000_000
    assert check.why.startswith("timed out after")


@pytest.mark.req("G-01")
def test_memory_beyond_the_candidates_own_limit_is_a_failure(bed: Bed, tmp_path: Path) -> None:
    context = made(bed, tmp_path, {"checks": [{"id": "m", "command": "python -c 'x = bytearray(2 << 30)'"}]})
    check = grade(b"", context).checks[0]
    assert check.outcome is Outcome.FAIL


class _Failing:
    """A backend whose sandboxes do not come up, after a number that do."""

    def __init__(self, context: GradingContext, after: int) -> None:
        self._backend = context.backend
        self._left = after

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)

    @contextmanager
    def open(self, spec: SandboxSpec, prepared: Prepared | None) -> Iterator[Sandbox]:
        self._left -= 1
        if self._left < 0:
            raise SandboxError("the sandbox did not come up")
        with self._backend.open(spec, prepared) as sandbox:
            yield sandbox


def failing(context: GradingContext, *, after: int) -> GradingContext:
    return dataclasses.replace(context, backend=cast("Backend", _Failing(context, after)))


@pytest.mark.req("G-01", "G-14")
@pytest.mark.parametrize("oracle", [{}, {"static": ["true"]}], ids=["check", "static"])
def test_our_own_trouble_is_an_error_and_never_a_failure(bed: Bed, tmp_path: Path, oracle: dict[str, object]) -> None:
    context = made(bed, tmp_path, oracle)
    broken = failing(context, after=0)
    (check,) = grade(b"", broken).checks
    assert check.outcome is Outcome.ERROR
    (event,) = of(context, AcceptanceCheck)
    assert event.outcome is Outcome.ERROR
    if oracle:
        assert of(context, StaticFinished)[0].outcome is Outcome.ERROR
        assert event.why == "not run: G2 undecided"
    else:
        assert "did not come up" in event.why


@pytest.mark.req("G-08")
def test_reruns_are_bounded_and_a_failure_dominates(bed: Bed, tmp_path: Path) -> None:
    flip = {"id": "flip", "command": "test $(od -An -N1 -tu1 /dev/urandom) -lt 64", "reruns": 15}
    context = made(bed, tmp_path, {"checks": [flip, {**PLAIN, "reruns": 2}]})
    flipped, plain = grade(delta_of(context, NEW), context).checks
    assert flipped.outcome is Outcome.FAIL
    assert flipped.runs <= 16
    assert (plain.outcome, plain.runs, plain.decided.why) == (Outcome.PASS, 3, "run 3 of 3")
    assert [one.run for one in of(context, AcceptanceCheck)] == [flipped.runs, 3]
    assert len(of(context, events.TestsFinished)) == flipped.runs + 3


def test_a_failure_outweighs_later_trouble_and_trouble_a_pass(bed: Bed, tmp_path: Path) -> None:
    context = made(bed, tmp_path, {"checks": [{**PLAIN, "reruns": 1}]})
    after_one = failing(context, after=1)
    assert grade(delta_of(context, NEW), after_one).checks[0].outcome is Outcome.ERROR
    after_one = failing(context, after=1)
    assert grade(b"", after_one).checks[0].outcome is Outcome.FAIL


@pytest.mark.req("C-08")
def test_an_edit_outside_the_allowed_files_is_found(bed: Bed, tmp_path: Path) -> None:
    context = made(bed, tmp_path, policy={"editable_globs": ["*.sh"]})
    graded = grade(delta_of(context, {**NEW, "README.md": "y\n"}), context)
    assert graded.checks[0].outcome is Outcome.PASS
    assert not graded.accepted
    (found,) = of(context, IntegrityFinding)
    assert (found.rule, found.severity, found.path) == ("outside_editable", "gate", "README.md")


def test_protected_files_are_restored_and_that_is_told(bed: Bed, tmp_path: Path) -> None:
    context = made(bed, tmp_path, {"protected": ["ci/**"]})
    graded = grade(delta_of(context, {"ci/check.sh": "true\n", "ci/extra.sh": "true\n"}), context)
    assert graded.checks[0].outcome is Outcome.FAIL
    assert (graded.restored, graded.dropped) == ((b"ci/check.sh",), (b"ci/extra.sh",))
    assert [(one.rule, one.severity) for one in of(context, IntegrityFinding)] == [
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


def junit(bed: Bed, folder: Path, changes: Changes, reporter: str = REPORTER) -> tuple[Outcome, str]:
    repo = {**REPO, "ci/report.sh": reporter}
    context = bed.context(folder, repo=repo, hidden=None, setup=(), oracle={"checks": [JUNIT], "protected": ["ci/**"]})
    (check,) = grade(delta_of(context, changes), context).checks
    return check.outcome, check.decided.why


@pytest.mark.req("C-06")
def test_junit_reports_decide_by_their_tests(bed: Bed, tmp_path: Path) -> None:
    assert junit(bed, tmp_path / "a", NEW) == (Outcome.PASS, "2 required tests passed")
    assert junit(bed, tmp_path / "b", {}) == (Outcome.FAIL, "1 of 2 required tests failed")


@pytest.mark.req("C-06", "G-14")
def test_the_lock_requires_what_a_report_lists_with_the_reference(bed: Bed, tmp_path: Path) -> None:
    """A report lists what was run: without ids one that lists less would ask for less."""
    body = "    echo \"<testsuite><testcase name='later'><skipped/></testcase></testsuite>\" > out/c.xml\n"
    repo = {**REPO, "ci/report.sh": REPORTER.replace("    grep -q new app.sh\n", body + "    grep -q new app.sh\n")}
    check = {key: value for key, value in JUNIT.items() if not key.endswith("_to_pass")}
    oracle: dict[str, object] = {"checks": [check], "protected": ["ci/**"]}

    def ids(reference: str | None) -> LockedCheck:
        found = collect(bed.context(tmp_path, repo=repo, hidden=None, setup=(), oracle=oracle, reference=reference))
        return found.checks["j"]

    context = bed.context(tmp_path, repo=repo, hidden=None, setup=(), oracle=oracle)
    (tmp_path / "reference.patch").write_bytes(delta_of(context, NEW))
    assert ids(None) == ids("reference.patch") == LockedCheck(fail_to_pass=("app::new",), pass_to_pass=("app::runs",))


@pytest.mark.req("C-06", "G-14")
@pytest.mark.parametrize("referenced", [True, False], ids=["with a reference", "without"])
def test_a_report_without_required_ids_has_to_list_what_is_known_to_pass(
    bed: Bed, tmp_path: Path, *, referenced: bool
) -> None:
    """Otherwise whoever keeps tests from running is asked for nothing; what is new or skipped is no matter."""
    later = "    echo \"<testsuite><testcase name='later'><skipped/></testcase></testsuite>\" > out/c.xml\n"
    leaves = "    if grep -q leave app.sh; then rm out/b.xml; exit 0; fi\n"
    reporter = REPORTER.replace("    grep -q new app.sh\n", later + leaves + "    grep -q new app.sh\n")
    check = {key: value for key, value in JUNIT.items() if not key.endswith("_to_pass")}
    more: dict[str, object] = {"oracle": {"checks": [check], "protected": ["ci/**"]}}
    if referenced:
        bare = bed.context(tmp_path / "bare", repo={**REPO, "ci/report.sh": reporter}, hidden=None, setup=(), **more)  # type: ignore[arg-type]
        more |= {"files": {"reference.patch": delta_of(bare, NEW).decode()}, "reference": "reference.patch"}
    context = bed.context(tmp_path / "task", repo={**REPO, "ci/report.sh": reporter}, hidden=None, setup=(), **more)  # type: ignore[arg-type]

    def graded(changes: Changes) -> tuple[Outcome, tuple[str, ...]]:
        (decided,) = grade(delta_of(context, changes), context).checks
        return decided.outcome, decided.decided.failing

    assert graded(NEW) == (Outcome.PASS, ())
    assert graded({"app.sh": "echo new # leave\n"}) == (Outcome.FAIL, ("app::runs",))
    assert graded({}) == (Outcome.FAIL, ("app::new",))


def test_a_report_that_was_there_before_is_not_read(bed: Bed, tmp_path: Path) -> None:
    forged = {
        "out/a.xml": "<testsuite><testcase classname='app' name='new'/><testcase classname='app' name='runs'/></testsuite>"
    }
    assert junit(bed, tmp_path, forged, "true\n") == (Outcome.FAIL, "the command wrote no report out/*.xml")


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
def test_report_and_exit_code_must_agree(bed: Bed, tmp_path: Path, ending: str, why: str) -> None:
    outcome, said = junit(bed, tmp_path, NEW, REPORTER + f"    {ending}\n")
    assert outcome is (Outcome.FAIL if why else Outcome.PASS)
    assert why in said
