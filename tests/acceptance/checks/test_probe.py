"""Probe checks: the driver shares nothing with the code that it tests."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from agentbench.acceptance.checks.probe import read_driver_report
from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import CheckResult
from agentbench.core.command import Completed
from agentbench.core.errors import SandboxLost
from agentbench.core.host_evidence import HostEvidence
from agentbench.core.reasons import Assurance, Outcome
from agentbench.sandbox.protocol import Backend, Prepared, RunningCommand, Sandbox, SandboxSpec
from tests.acceptance.toy import TaskFactory, patch_of, plain

pytestmark = pytest.mark.component

SERVER = """\
    import sys

    for line in sys.stdin:
        print(int(line) * 2, flush=True)
    """
DRIVER = """\
    import json, os, sys

    channel = os.fdopen(int(os.environ["AB_RESULT_FD"]), "w")
    count = 0
    for number in (1, 2, 30):
        print(number, flush=True)
        answer = sys.stdin.readline().strip()
        outcome = "pass" if answer == str(number * 2) else "fail"
        channel.write(json.dumps({"id": f"double {number}", "outcome": outcome, "why": f"got {answer!r}"}) + "\\n")
        count += 1
    channel.write(json.dumps({"end": count}) + "\\n")
    """

QUOTING = DRIVER.replace("write(json", "write('{\"got\": ' + (answer or '0') + ', ' + json", 1).replace(
    '!r}"})', '!r}"})[1:]'
)
"""A driver that writes each answer into its line as it is, without parsing it."""

REFERENCE = "\n".join(
    [
        "--- a/serve.py",
        "+++ b/serve.py",
        f"@@ -1 +1,{len(plain(SERVER).splitlines())} @@",
        "-raise SystemExit(1)",
        *(f"+{line}" for line in plain(SERVER).splitlines()),
        "",
    ]
)


def probe(
    tasks: TaskFactory,
    folder: Path,
    server: str,
    *,
    driver: str = DRIVER,
    candidate: str = "python serve.py",
    timeout_sec: int = 20,
    lost: str = "",
    with_reference: bool = False,
) -> CheckResult:
    """`lost`: whose sandbox is lost, the `driver`'s or the `candidate`'s. The reference, if there is one, is `SERVER`."""
    check = {"id": "p", "kind": "probe", "candidate": candidate, "driver": "driver.py", "timeout_sec": timeout_sec}
    context = tasks.context(
        folder,
        repo={"serve.py": "raise SystemExit(1)\n"},
        hidden=None,
        setup=(),
        oracle={"checks": [check]},
        files={"driver.py": driver, "reference.patch": REFERENCE},
        **({"reference": "reference.patch"} if with_reference else {}),
    )
    patch = patch_of(context, {"serve.py": server})
    if lost:
        context = dataclasses.replace(context, backend=cast("Backend", _Losing(context.backend, lost)))
    (result,) = grade(patch, context).checks
    return result


class _Losing:
    """A backend that loses the sandbox of one side while its program runs."""

    def __init__(self, backend: Backend, lost: str) -> None:
        self._backend = backend
        self._lost = lost

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)

    @contextmanager
    def open(self, spec: SandboxSpec, prepared: Prepared | None) -> Iterator[Sandbox]:
        with self._backend.open(spec, prepared) as sandbox:
            if ("driver" if spec.mounts else "candidate") == self._lost:
                start = sandbox.start

                def lose() -> Completed:
                    raise SandboxLost("it ended", sandbox=sandbox.id, evidence=HostEvidence())

                def start_and_lose(*arguments: object, **options: object) -> RunningCommand:
                    running = start(*arguments, **options)  # type: ignore[arg-type]
                    running.kill()
                    running.wait = lose  # type: ignore[method-assign]
                    return running

                sandbox.start = start_and_lose  # type: ignore[method-assign]
            yield sandbox


@pytest.mark.req("G-14")
@pytest.mark.parametrize("lost, outcome", [("candidate", Outcome.FAIL), ("driver", Outcome.ERROR)])
def test_only_the_loss_of_its_own_sandbox_fails_a_candidate(
    tasks: TaskFactory, tmp_path: Path, lost: str, outcome: Outcome
) -> None:
    result = probe(tasks, tmp_path, SERVER, lost=lost)
    assert result.outcome is outcome
    assert ("the code under test broke its sandbox" in result.decided.why) == (lost == "candidate")


@pytest.mark.req("C-06", "G-01")
def test_correct_answers_pass_out_of_process(tasks: TaskFactory, tmp_path: Path) -> None:
    result = probe(tasks, tmp_path, SERVER)
    assert (result.outcome, result.decided.assurance) == (Outcome.PASS, Assurance.OUT_OF_PROCESS)
    assert result.decided.tests == {"double 1": "passed", "double 2": "passed", "double 30": "passed"}


def test_wrong_answers_fail_with_their_ids(tasks: TaskFactory, tmp_path: Path) -> None:
    result = probe(tasks, tmp_path, SERVER.replace("* 2", "+ 1"))
    assert result.outcome is Outcome.FAIL
    assert result.decided.failing == ("double 2", "double 30")
    assert "got '3'" in result.decided.diagnostics


@pytest.mark.parametrize(
    "server",
    [
        "raise SystemExit(0)",
        "import os; os.kill(1, 9); os.kill(-1, 9)",
        "import os; os.write(2, b'x' * 100); raise ValueError",
        "import sys\nwhile True:\n    sys.stdout.write('9' * 65536 + '\\n')",
        "import os\nfor fd in range(3, 99):\n    try:\n        os.write(fd, b'{\"end\": 0}')\n    except OSError:\n        pass",
    ],
    ids=["leaves", "kills", "crashes", "floods", "forges"],
)
def test_candidate_that_stops_answering_fails(tasks: TaskFactory, tmp_path: Path, server: str) -> None:
    assert probe(tasks, tmp_path, server).outcome is Outcome.FAIL


@pytest.mark.req("G-01", "G-14")
def test_candidate_that_crashes_the_driver_fails(tasks: TaskFactory, tmp_path: Path) -> None:
    trusting = DRIVER.replace(
        "answer = sys.stdin.readline().strip()", "answer = str(json.loads(sys.stdin.readline() or '0'))"
    )
    assert probe(tasks, tmp_path / "honest", SERVER, driver=trusting).outcome is Outcome.PASS
    result = probe(tasks, tmp_path / "evil", "print('{', flush=True); input()", driver=trusting)
    assert result.outcome is Outcome.FAIL
    assert "the driver finishes on the base repository" in result.decided.why


@pytest.mark.req("G-14")
@pytest.mark.parametrize(
    "answer, driver",
    [
        ("'9' * 9_000_000", DRIVER),
        ("'x'", DRIVER.replace('f"double {number}"', "answer or str(number)")),
        ("'[' * 100_000 + ']' * 100_000", QUOTING),
    ],
    ids=["floods the side channel", "repeats an id", "is nested too deeply for the host"],
)
def test_candidate_that_spoils_the_report_fails(tasks: TaskFactory, tmp_path: Path, answer: str, driver: str) -> None:
    spoils = f"import sys\n\nfor line in sys.stdin:\n    print({answer}, flush=True)\n"
    result = probe(tasks, tmp_path, spoils, driver=driver)
    assert result.outcome is Outcome.FAIL
    assert "the driver finishes on the base repository" in result.decided.why


@pytest.mark.req("G-14")
@pytest.mark.parametrize(
    "driver",
    [
        DRIVER.replace("answer =", "answer = sys.stdin.readline().strip() or sys.exit(0) or", 1),
        DRIVER.replace("for number in (1, 2, 30)", "for number in sys.stdin"),
    ],
    ids=["leaves early", "no results"],
)
def test_candidate_whose_exit_stops_the_driver_early_fails(tasks: TaskFactory, tmp_path: Path, driver: str) -> None:
    result = probe(tasks, tmp_path, "raise SystemExit(0)", driver=driver)
    assert result.outcome is Outcome.FAIL
    assert "exited with 0 during the probe" in result.decided.why


@pytest.mark.req("G-14")
@pytest.mark.parametrize("answer", ["{", "127"], ids=["crashes the driver", "driver seems not to start"])
def test_driver_that_finishes_with_the_reference_is_sound(tasks: TaskFactory, tmp_path: Path, answer: str) -> None:
    """The program of the base repository crashes, so that no probe of it can finish."""
    trusting = DRIVER.replace(
        "answer = sys.stdin.readline().strip()",
        "answer = str(json.loads(sys.stdin.readline()))\n        number < 2 and answer == '127' and os._exit(127)",
    )
    stays = f"print('{answer}', flush=True); input()"
    result = probe(tasks, tmp_path, stays, driver=trusting, with_reference=True)
    assert result.outcome is Outcome.FAIL
    assert "the driver finishes with the reference" in result.decided.why


@pytest.mark.req("E-06")
def test_hanging_candidate_fails_with_duration_and_limit(tasks: TaskFactory, tmp_path: Path) -> None:
    result = probe(tasks, tmp_path, "import time\ntime.sleep(100)\n", timeout_sec=1)
    assert (result.outcome, result.decided.timed_out) == (Outcome.FAIL, True)
    assert result.decided.why.endswith("(limit 1 s)")


BROKEN = {
    "crashes": "raise SystemExit(3)",
    "no results": "pass",
    "repeated id": DRIVER.replace('"double {number}"', '"same"'),
}
"""Drivers with problems that answers of a candidate can cause as well."""


@pytest.mark.req("G-14")
@pytest.mark.parametrize(
    "driver, with_reference",
    [
        *[pytest.param(driver, True, id=f"{name}, with reference") for name, driver in BROKEN.items()],
        pytest.param(DRIVER.replace('"end": count', '"end": 7'), False, id="wrong count"),
        pytest.param(DRIVER.replace('"pass" if', '"maybe" if'), False, id="unknown outcome"),
    ],
)
def test_broken_driver_is_an_error_of_the_task(
    tasks: TaskFactory, tmp_path: Path, driver: str, *, with_reference: bool
) -> None:
    result = probe(tasks, tmp_path, SERVER, driver=driver, with_reference=with_reference)
    assert result.outcome is Outcome.ERROR
    assert "driver" in result.decided.why


@pytest.mark.req("G-14")
@pytest.mark.parametrize("driver", BROKEN.values(), ids=BROKEN.keys())
def test_driver_without_evidence_that_it_works_blames_the_candidate(
    tasks: TaskFactory, tmp_path: Path, driver: str
) -> None:
    assert probe(tasks, tmp_path, SERVER, driver=driver).outcome is Outcome.FAIL


def test_driver_sees_nothing_of_the_candidate(tasks: TaskFactory, tmp_path: Path) -> None:
    looking = DRIVER.replace("count = 0", 'count = 0\n    assert "raise" in open("/workspace/serve.py").read()')
    assert probe(tasks, tmp_path, SERVER, driver=looking).outcome is Outcome.PASS


def test_incomplete_driver_report_is_a_problem() -> None:
    lines = [{"id": "a", "outcome": "pass"}, {"id": "b", "outcome": "fail", "why": "no"}, {"end": 2}]
    report = read_driver_report("\n".join(map(json.dumps, lines)).encode())
    assert (report.outcomes, report.problem) == ({"a": "passed", "b": "failed"}, "")
    for broken in (
        b"",
        b"x",
        b'{"end": 0}',
        b'{"id": "a", "outcome": "pass"}',
        b'{"id": 1, "outcome": "pass"}\n{"end": 1}',
        b"[]\n[]",
        b"{}\n{}",
    ):
        assert read_driver_report(broken).problem
