"""A pytest check on a candidate: the tests it requires, a run of them in a replica, and the decision."""

from __future__ import annotations

import copy
import dataclasses
import posixpath
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import cached_property

from pydantic import BaseModel, ConfigDict

from agentbench.acceptance.cache_keys import reference_key
from agentbench.acceptance.candidate import BuildFailed, Candidate
from agentbench.acceptance.checks.broken_check import BrokenCheck
from agentbench.acceptance.checks.build_integrity import build_changes, changed_file_findings
from agentbench.acceptance.checks.environment_integrity import changed_environment_findings, fingerprint
from agentbench.acceptance.checks.pytest.base_survey import (
    Survey,
    base_test_run,
    configuration_file,
    pins_of,
    survey,
)
from agentbench.acceptance.checks.pytest.decide import decide_run, run_findings
from agentbench.acceptance.checks.pytest.item_ids import IdMap, function_id
from agentbench.acceptance.checks.pytest.narrow_command import narrow_arguments, without_parameters
from agentbench.acceptance.checks.pytest.patient_run import run_patiently
from agentbench.acceptance.checks.pytest.run import Pins, PytestRun, interpreter_path, run_pytest, workspace_interpreter
from agentbench.acceptance.checks.pytest.runner_bundle import unpacked_bundle
from agentbench.acceptance.checks.pytest.time_limit import TimeLimit, more_time, time_limit
from agentbench.acceptance.checks.required_tests import Requirement, declared_requirement, requirement_from_base
from agentbench.acceptance.checks.startup import with_start_problem
from agentbench.acceptance.events import CheckStep
from agentbench.acceptance.grading_context import CheckOutcome, Finding, GradingContext
from agentbench.acceptance.inspection.known_behaviour import known_behaviour
from agentbench.acceptance.protected import GradedTree, top_level_names
from agentbench.acceptance.replica import declares_build
from agentbench.contract.pytest_command import PytestCommand, parse_pytest_command
from agentbench.contract.schema import Check
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentFault, ContractError, TaskError
from agentbench.tree.limits import TreeTooLarge

MAX_CLOSELY = 1000
"""Fail-to-pass tests around which the runner is always inspected; one inspection takes about a millisecond."""
FILE_EVENTS = frozenset({"open data", "load library", "load bytecode", "load package"})
"""Audit events that name a file. They are no finding if the reference causes them too."""
MAX_BEFORE = 32 * 1024 * 1024


def requirement_of(context: GradingContext, check: Check) -> Requirement:
    """Return the tests that a pytest check requires: those of the contract, or all tests of the base repository.

    Raises:
        BrokenCheck: there is no test to require.
        SandboxError: the sandbox failed.
    """
    declared = declared_requirement(check)
    if declared is not None:
        return declared
    command = parse_pytest_command(check.command or "")
    if check.parser != "pytest" or command is None:
        return Requirement()
    before = base_test_run(context, check, command)
    if before.problem and not before.outcomes:
        raise BrokenCheck(f"check {check.id} on the base repository: {before.problem}")
    requirement = requirement_from_base(before.outcomes, tuple(before.uncollected))
    if requirement.empty:
        raise BrokenCheck(f"check {check.id}: `{check.command}` finds no tests in the base repository")
    return requirement


def required_files(context: GradingContext, surveyed: Survey, requirement: Requirement) -> set[bytes]:
    """Files of the required tests, relative to the workspace."""
    root = posixpath.relpath(surveyed.rootdir, context.spec.workdir)
    return {posixpath.normpath(posixpath.join(root, file)).encode() for file in requirement.test_files}


@dataclass(frozen=True, slots=True)
class SelectedTests:
    """A variant of the tree and the tests to run in it."""

    tree: GradedTree
    only: tuple[str, ...] = ()
    """Test ids; empty for all."""
    mutated: bool = False
    """Whether tests of this tree may be decoys."""
    real_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Functions (`FILE::CLASS::test_x`), and the ids of their tests by position, as without decoys."""
    altered: frozenset[str] = frozenset()
    """Ids of tests to which pytest may give other ids, because this tree changes parameters of their functions. The
    functions must be in `real_ids`: results are mapped to these ids by position, all others by the id that pytest gives."""
    given: Mapping[str, str] | None = None
    """The ids that pytest gave to opaque ids when the reference was run in this variant; None to run the reference."""
    named: frozenset[str] = frozenset()
    """Functions whose tests keep their ids in the sandbox, because the reference passes them only with these."""
    reference_sec: float | None = None
    """Duration of the reference's run of all tests on this machine; None if it is not known."""


class ReferenceReads(BaseModel):
    """Audit events of the reference: the tests and the files beside them that it reads, and the code that it makes and loads."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    events: tuple[str, ...]


class PytestCheck:
    """A check that is a plain pytest call, on one candidate.

    Raises:
        BrokenCheck: pytest cannot be run on the base repository, or there is nothing to require.
        SandboxError: the sandbox failed.
    """

    def __init__(self, candidate: Candidate, check: Check, command: PytestCommand) -> None:
        self.candidate = candidate
        self.check = check
        self.command = command
        self.survey = survey(candidate.context, check, command)
        self.requirement = requirement_of(candidate.context, check)
        self._names_proven = candidate.decoys and candidate.reference_file is not None
        """Whether the plan of the decoys says which tests use their names. Otherwise the text of the tests does."""

    def on_reference(self) -> PytestCheck | None:
        """Return this check on the reference solution, or None if there is none.

        Raises:
            ContractError, TaskError, PatchInvalid: the reference cannot be read or applied.
        """
        reference = self.candidate.reference()
        if reference is None:
            return None
        other = copy.copy(self)
        other.candidate = reference
        return other

    def run(self, tests: SelectedTests | None = None, on_built: Callable[[], None] = lambda: None) -> PytestRun:
        """Run tests in a replica of their own; `on_built` is called between the build and pytest.

        A run that reached its limit while processes of this machine had to wait for a CPU is repeated with a longer one: the
        declared limit if the first derives from the reference, and more than that if no code of a candidate runs.

        Raises:
            BuildFailed, TaskError, PatchInvalid: the replica could not be built.
            SandboxError: the sandbox failed.
        """
        tests = tests or SelectedTests(self.candidate.tree)
        declared_sec = self.check.timeout_sec
        limit, longer = time_limit(declared_sec, tests.reference_sec), None
        if not self.candidate.is_under_test:
            longer = more_time(declared_sec)
        elif limit.sec < declared_sec:
            longer = TimeLimit(declared_sec)
        first = iter((on_built,))  # a repeated run is the same step of the log
        return run_patiently(lambda limit: self._run_once(tests, next(first, _do_nothing), limit), limit, longer)

    def _run_once(self, tests: SelectedTests, on_built: Callable[[], None], limit: TimeLimit) -> PytestRun:
        candidate, context = self.candidate, self.candidate.context
        with (
            unpacked_bundle(configuration_file(context, self.survey)) as bundle,
            candidate.replica(tests.tree, [bundle.mount]) as sandbox,
        ):
            on_built()
            built = (
                fingerprint(sandbox, bundle, self.survey.python, self.survey.plugins, self.survey.fingerprint)
                if declares_build(context)
                else self.survey.fingerprint
            )
            files = required_files(context, self.survey, self.requirement)
            interpreter = workspace_interpreter(context.spec, self.command)
            files |= {interpreter.encode()} if interpreter is not None else set()
            changed_files = build_changes(sandbox, context, tests.tree, files)
            is_measured = declares_build(context) or not candidate.is_under_test
            cpu_before = sandbox.usage().cpu_sec if is_measured else 0.0
            run = run_pytest(
                sandbox,
                context.spec,
                self._command(tests),
                bundle,
                pins=self._pins(tests),
                limit=limit,
            )
            is_measured = run.completed.timed_out or not candidate.is_under_test
            cpu_after = sandbox.usage().cpu_sec if is_measured and cpu_before is not None else None
        cpu_sec = None if cpu_before is None or cpu_after is None else cpu_after - cpu_before
        return dataclasses.replace(run, built=built, changed_files=changed_files, decoys=tests.mutated, cpu_sec=cpu_sec)

    def _command(self, tests: SelectedTests) -> PytestCommand:
        arguments = self.command.arguments
        if declared_requirement(self.check) is not None:
            arguments = without_parameters(arguments)
        arguments = narrow_arguments(
            arguments,
            self._paths(tests.only or (*self.requirement.ids, *self.requirement.files)),
            self._paths((*self.survey.items, *self.survey.uncollected)),
        )
        # Where tests fail on purpose, pytest would spend most of its time on tracebacks.
        brief = ("--tb=line",) if tests.mutated else ()
        return dataclasses.replace(self.command, arguments=(*arguments, *brief))

    def _paths(self, tests: Iterable[str]) -> list[str]:
        """Files of tests as paths from the folder of the command."""
        folder = posixpath.join(self.candidate.context.spec.workdir, self.command.folder)
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        return [posixpath.relpath(posixpath.join(self.survey.rootdir, file), folder) for file in files]

    @cached_property
    def _base_pins(self) -> Pins:
        return pins_of(self.candidate.context, self.survey, self.candidate.base)

    def _pins(self, tests: SelectedTests) -> Pins:
        pins = self._base_pins
        return dataclasses.replace(
            pins,
            closely=_functions(self.requirement.fail_to_pass, MAX_CLOSELY),
            written=self._written(),
            only=tests.only,
            id_map=IdMap(tests.real_ids, tests.altered, tests.given),
            named=tests.named if self._names_proven else self.survey.named,
        )

    def _written(self) -> tuple[str, ...]:
        """Python files that the patch wrote, as the runner names them."""
        hidden = self.candidate.context.loaded.hidden_files()
        writes = self.candidate.tree.writes
        paths = [write.path for write in writes if write.content is not None and write.path.endswith(b".py")]
        return tuple(path.decode("utf-8", "surrogateescape") for path in paths if path not in hidden)

    def decide(self, run: PytestRun) -> CheckOutcome:
        """Decide by one run, and add its findings."""
        outcome = decide_run(
            run,
            self.requirement,
            known=self._known_behaviour(run),
            passing_canary=self.survey.passing_canary,
        )
        outcome = dataclasses.replace(outcome, findings=(*outcome.findings, *self._build_findings(run)))
        python = shlex.quote(interpreter_path(self.candidate.context.spec, self.command))
        return with_start_problem(self.candidate, python, run.completed, outcome)

    def findings(self, run: PytestRun) -> tuple[Finding, ...]:
        """Tampering findings of a run and of the build before it."""
        return (*run_findings(run, self._known_behaviour(run)), *self._build_findings(run))

    def _build_findings(self, run: PytestRun) -> tuple[Finding, ...]:
        return (
            *changed_environment_findings(self.survey.fingerprint, run.built, self._own_modules),
            *changed_file_findings(self.candidate.context, run.changed_files),
        )

    @cached_property
    def _own_modules(self) -> frozenset[str]:
        return top_level_names({*self.candidate.base, *self.candidate.context.loaded.hidden_files()})

    def _known_behaviour(self, run: PytestRun) -> set[str]:
        """Behaviour that the base repository or the reference shows too, so that it is no sign of tampering."""
        known = set(self.survey.behaviour)
        transcript = run.transcript
        if set(transcript.behaviour()) - known:
            # Tests of the base repository may do the same when they run, not only when they are collected.
            known.update(base_test_run(self.candidate.context, self.check, self.command).behaviour)
            known.update(known_behaviour(transcript.audit_events, self.before))
        reads = [
            event
            for event in transcript.audit_events
            if event.key not in known and (event.kind in FILE_EVENTS or (event.kind == "open test" and run.decoys))
        ]
        if reads:
            allowed = self._reference_reads()
            known.update(event.key for event in reads if event.what in allowed)
        return known

    def _reference_reads(self) -> frozenset[str]:
        """Events of the reference: tests may pass files on unseen by the runner, and a solution may have to read sources."""
        file, context = self.candidate.reference_file, self.candidate.context
        evidence = context.reference_evidence
        if file is None and not evidence.is_recorded(self.check.id, ReferenceReads):
            return frozenset()

        def make() -> ReferenceReads:
            try:
                reference = self.on_reference()
                observed = [] if reference is None else reference.run().transcript.audit_events
            except (TaskError, ContractError, AgentFault, BuildFailed):
                observed = []  # validation reports it
            events = {event.what for event in observed if event.kind in FILE_EVENTS | {"open test"}}
            return ReferenceReads(events=tuple(sorted(events)))

        key = reference_key(context, self.check, file)
        return frozenset(evidence.result(context.cache, self.check.id, key, ReferenceReads, make).events)

    def before(self, file: str) -> bytes:
        """Return a file of the base repository; empty if there is none or it cannot be read."""
        path = file.encode("utf-8", "surrogateescape")
        tree = self.candidate.context.prepared.base_tree
        try:
            return tree.read(path, max_bytes=MAX_BEFORE) if path in self.candidate.base else b""
        except (OSError, TreeTooLarge):
            return b""


def _do_nothing() -> None:
    pass


def _functions(tests: Iterable[str], limit: int) -> tuple[str, ...]:
    """Return functions that together have at most `limit` of the tests."""
    counts = Counter(function_id(test) for test in tests)
    chosen = []
    for function, count in counts.items():
        if count <= limit:
            limit -= count
            chosen.append(function)
    return tuple(chosen)


def run_plain(tests: PytestCheck, step: CheckStep) -> CheckOutcome:
    """Run all tests once and decide.

    Raises:
        BuildFailed, TaskError, PatchInvalid: the replica could not be built.
        SandboxError: the sandbox failed.
    """
    return tests.decide(tests.run(on_built=step.start))
