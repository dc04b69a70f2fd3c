"""A pytest check on a tree: which tests it requires, one run of them in a replica, and what the run shows."""

from __future__ import annotations

import copy
import dataclasses
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from agentbench.acceptance.cache import key_of, remembered
from agentbench.acceptance.candidate import NotBuilt, Subject
from agentbench.acceptance.checks.pytest.base_survey import (
    OracleTrouble,
    Survey,
    check_key,
    configuration_file,
    pins_of,
    pristine,
    remade_by_build,
    remade_by_r,
    survey,
)
from agentbench.acceptance.checks.pytest.decide import DATA, decide, findings_of
from agentbench.acceptance.checks.pytest.invocation import Invocation, understand
from agentbench.acceptance.checks.pytest.run import PytestRun, run_pytest
from agentbench.acceptance.checks.pytest.runner_bundle import packed
from agentbench.acceptance.checks.pytest.runner_integrity import build_findings, fingerprint, remade_findings
from agentbench.acceptance.checks.required_tests import Requirement, declared, from_outcomes
from agentbench.acceptance.grading_context import Finding, GradingBench, Observation, Unlogged
from agentbench.acceptance.inspection.known_behaviour import habits
from agentbench.acceptance.protected import GradedTree
from agentbench.acceptance.replica import declares_build, open_replica
from agentbench.acceptance.steps import Builder
from agentbench.contract.schema import Check
from agentbench.contract.task_files import read_bytes
from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import AgentFault, ContractError, TaskError
from agentbench.core.reasons import Outcome
from agentbench.tree.limits import TreeTooLarge

MOST_CLOSELY = 1000
"""Tests that the watch over the runner looks at without exception; a look takes about a millisecond."""
MAX_BEFORE = 32 * 1024 * 1024


def requirement_of(bench: GradingBench, check: Check) -> Requirement:
    """The tests a pytest check requires: the contract's, or all that R has.

    Raises:
        OracleTrouble: there is nothing to require.
        SandboxError: ours.
    """
    found = declared(check)
    if found is not None:
        return found
    invocation = understand(check.command or "")
    if check.parser != "pytest" or invocation is None:
        return Requirement()
    before, _ = pristine(bench, check, invocation)
    if before.trouble and not before.outcomes:
        raise OracleTrouble(f"check {check.id} on untouched R: {before.trouble}")
    found = from_outcomes(before.outcomes, tuple(before.uncollected))
    if found.empty:
        raise OracleTrouble(f"check {check.id}: `{check.command}` finds no test on R that could be required")
    return found


def required_files(bench: GradingBench, found: Survey, requirement: Requirement) -> set[bytes]:
    """Files of the required tests, as paths of the workspace."""
    root = posixpath.relpath(found.rootdir, bench.spec.workdir)
    return {posixpath.normpath(posixpath.join(root, file)).encode() for file in requirement.test_files}


@dataclass(frozen=True, slots=True)
class Selected:
    """What is run, if not all tests as they are. `untold`: functions of test modules that may differ from those of R."""

    tree: GradedTree
    only: tuple[str, ...] = ()
    untold: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Taken:
    """One run, and what a declared build had left of the runner before it."""

    run: PytestRun
    built: Mapping[str, str] = field(default_factory=dict)
    remade: tuple[str, ...] = ()
    """Files of the tests that it had changed."""


class Lent(BaseModel):
    """Sights of the reference at work, of files that lie with the tests."""

    model_config = ConfigDict(frozen=True)
    sights: tuple[str, ...]


class PytestCheck:
    """A check that is a plain call of pytest, and what it is asked about.

    Raises:
        OracleTrouble: untouched R cannot be asked, or there is nothing to require.
        SandboxError: ours.
    """

    def __init__(self, subject: Subject, check: Check, invocation: Invocation) -> None:
        self.subject = subject
        self.check = check
        self.invocation = invocation
        self.survey = survey(subject.bench, check, invocation)
        self.requirement = requirement_of(subject.bench, check)

    def on(self, subject: Subject) -> PytestCheck:
        """The same of another tree on the same R."""
        other = copy.copy(self)
        other.subject = subject
        return other

    def of_reference(self) -> PytestCheck | None:
        """The same with the reference, outside of any attempt's log; None where there is none.

        Raises:
            ContractError, TaskError, PatchInvalid: it is none that can be put on R.
        """
        tree = self.subject.reference() if self.subject.reference is not None else None
        if tree is None:
            return None
        bench = dataclasses.replace(self.subject.bench, log=Unlogged(), blobs=None)
        return self.on(Subject(bench, tree, self.subject.base, Builder(bench)))

    def take(self, tests: Selected | None = None) -> Taken:
        """Run tests in a replica of their own.

        Raises:
            NotBuilt, TaskError, PatchInvalid: the replica could not be made.
            SandboxError: ours.
        """
        subject, bench, found = self.subject, self.subject.bench, self.survey
        tests = tests or Selected(subject.tree)
        pins = pins_of(bench, found, subject.base)
        pins = dataclasses.replace(
            pins,
            closely=self.requirement.fail_to_pass[:MOST_CLOSELY],
            written=_written(subject),
            only=tests.only,
            tests={
                name: (file, {key: code for key, code in functions.items() if key not in tests.untold})
                for name, (file, functions) in pins.tests.items()
            },
        )
        # Where some fail on purpose, long tracebacks are what takes pytest longest.
        brief = ("--tb=short",) if tests.untold else ()
        invocation = dataclasses.replace(self.invocation, arguments=(*self.invocation.arguments, *brief))
        with packed(configuration_file(bench, found)) as kit, open_replica(bench, tests.tree, [kit.mount]) as sandbox:
            made = subject.build(sandbox)
            if made.outcome is not Outcome.PASS:
                raise NotBuilt(made)
            built = fingerprint(sandbox, kit, found.python, found.plugins) if declares_build(bench) else {}
            anew = remade_by_build(sandbox, bench, tests.tree, required_files(bench, found, self.requirement))
            run = run_pytest(sandbox, bench.spec, invocation, kit, pins=pins, timeout_sec=self.check.timeout_sec)
        return Taken(run, built, anew)

    def decided(self, taken: Taken) -> Observation:
        """The decision that a run comes to, with all that it shows."""
        seen = decide(
            taken.run,
            self.requirement,
            ceiling_sec=self.check.timeout_sec,
            usual=self._usual(taken.run),
            passing_canary=self.survey.passing_canary,
        )
        return dataclasses.replace(seen, findings=(*seen.findings, *self._of_build(taken)))

    def findings(self, taken: Taken) -> tuple[Finding, ...]:
        """What a run shows beside the outcomes of its tests."""
        return (*findings_of(taken.run, self._usual(taken.run)), *self._of_build(taken))

    def _of_build(self, taken: Taken) -> tuple[Finding, ...]:
        usual = remade_by_r(self.subject.bench).paths if taken.remade else ()
        return (
            *build_findings(self.survey.fingerprint, taken.built),
            *remade_findings(usual, taken.remade),
        )

    def _usual(self, run: PytestRun) -> set[str]:
        """What the watch over the runner also sees on untouched R."""
        usual = set(self.survey.usual)
        if set(run.transcript.unusual()) - usual:
            # Tests of R may do the same when they are run, not only when they are collected.
            usual.update(pristine(self.subject.bench, self.check, self.invocation)[0].usual)
            usual.update(habits(run.transcript.seen, self._before))
        data = [sight for sight in run.transcript.seen if sight.what.startswith(DATA) and sight.key not in usual]
        if data:
            lent = self._lent()
            usual.update(sight.key for sight in data if sight.what in lent)
        return usual

    def _lent(self) -> frozenset[str]:
        """Files beside the tests that the right solution reads too: a test may hand them over in ways that are not seen."""
        file = self.subject.bench.loaded.reference_file
        if file is None:
            return frozenset()

        def make() -> Lent:
            try:
                reference = self.of_reference()
                seen = [] if reference is None else reference.take().run.transcript.seen
            except (TaskError, ContractError, AgentFault, NotBuilt):
                seen = []  # validation tells it
            return Lent(sights=tuple(sorted({sight.what for sight in seen if sight.what.startswith(DATA)})))

        key = key_of(check_key(self.subject.bench, self.check), sha256_hex(read_bytes(file)))
        return frozenset(remembered(self.subject.bench.cache, key, Lent, make)[0].sights)

    def _before(self, file: str) -> bytes:
        """A file as it is in R; empty where R has none that could be read."""
        path = file.encode("utf-8", "surrogateescape")
        subject = self.subject
        try:
            return subject.bench.prepared.base_tree.read(path, max_bytes=MAX_BEFORE) if path in subject.base else b""
        except (OSError, TreeTooLarge):
            return b""


def _written(subject: Subject) -> tuple[str, ...]:
    """Python files that the candidate wrote, as the runner names them."""
    hidden = subject.bench.loaded.hidden_files()
    paths = [write.path for write in subject.tree.writes if write.content is not None and write.path.endswith(b".py")]
    return tuple(path.decode("utf-8", "surrogateescape") for path in paths if path not in hidden)
