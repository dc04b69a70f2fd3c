"""Run pytest on the base repository: the survey that pins the runner, and the outcome of every test before a patch.

Both run in replicas of the base repository with the hidden files, without any candidate code, and are cached per
command and environment.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ConfigDict, Field

from agentbench.acceptance.build import run_base_build
from agentbench.acceptance.cache import load_or_make
from agentbench.acceptance.cache_keys import command_key
from agentbench.acceptance.checks.broken_check import BrokenCheck
from agentbench.acceptance.checks.environment_integrity import OPTIONAL_MODULES, Fingerprint, Interpreter, fingerprint
from agentbench.acceptance.checks.pytest.patient_run import run_patiently
from agentbench.acceptance.checks.pytest.records import failing_canaries_failed, passing_canary_passed
from agentbench.acceptance.checks.pytest.run import Pins, PytestRun, run_pytest
from agentbench.acceptance.checks.pytest.runner_bundle import RunnerBundle, unpacked_bundle
from agentbench.acceptance.checks.pytest.time_limit import TimeLimit, more_time
from agentbench.acceptance.checks.required_tests import files_of
from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.inspection.known_behaviour import monkeypatched_names
from agentbench.acceptance.protected import importable_test_files, top_level_names
from agentbench.acceptance.replica import base_entries, base_tree, open_replica
from agentbench.acceptance.runner.runner_monitor import is_test
from agentbench.contract.pytest_command import PytestCommand
from agentbench.contract.schema import Check
from agentbench.core.errors import SandboxError
from agentbench.sandbox.protocol import Sandbox
from agentbench.tree.entry import Entry

EMPTY_CONFIGURATION = ("pytest.ini", b"[pytest]\n")
MAX_CONFIGURATION = 4 * 1024 * 1024
MAX_TEST = 1024 * 1024
KEPT = 64 * 1024
_USES_NAMES = re.compile(
    rb"PYTEST_CURRENT_TEST|\bcallspec\b|\bnodeid\b|\bnode\s*\.\s*\w*name|\bitem\.name"
    rb"|\bsnapshot|_regression\b|cassette|\bvcr\b|approvaltests|mark\.dependency"
)
"""Words of tests that use their own names, directly or through plugins that store expected results by name."""
RUNNER_ERROR = "harness runner: "
"""Prefix of the record with which the runner reports an error of its own; see `runner/session.py`."""


class Survey(BaseModel):
    """The setup of pytest in the base repository: plugins, configuration, tests, interpreter."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    plugins: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    rootdir: str
    confcutdir: str
    inifile: str | None
    """Relative to the workspace."""
    items: tuple[str, ...]
    uncollected: dict[str, str]
    passing_canary: bool
    """False if the canary test that must pass does not, for example because of the project's fixtures."""
    behaviour: tuple[str, ...]
    """Runner changes and audit events that the base repository causes itself."""
    replaced: tuple[str, ...]
    """Names that the tests themselves replace while they run."""
    named: frozenset[str] = frozenset()
    """Test files whose text suggests that tests use their own names, so that they keep them unless a reference proves
    that they need not."""
    python: Interpreter
    fingerprint: Fingerprint
    """The environment after the base repository's own build; empty if no build is declared."""

    @property
    def test_files(self) -> frozenset[str]:
        """As the ids name them: relative to pytest's root folder."""
        return files_of(self.items) | frozenset(self.uncollected)


class BaseTestRun(BaseModel):
    """Every test on the base repository."""

    model_config = ConfigDict(frozen=True, ser_json_bytes="base64", val_json_bytes="base64", defer_build=True)
    status: int | None
    timed_out: bool
    duration_sec: float
    outcomes: dict[str, str]
    uncollected: dict[str, str] = Field(default_factory=dict)
    whys: dict[str, str] = Field(default_factory=dict)
    behaviour: tuple[str, ...] = ()
    problem: str = ""
    """Why pytest did not finish; empty if it did."""
    oom: bool = False
    stdout: bytes = b""
    stderr: bytes = b""
    """The start of the output."""


def survey(context: GradingContext, check: Check, command: PytestCommand) -> Survey:
    """Collect the tests of the base repository and note how pytest is set up; cached.

    Raises:
        BrokenCheck: pytest is not installed or cannot start.
        SandboxError: the sandbox failed.
    """
    key = command_key(context, check)
    return load_or_make(context.cache, key, Survey, lambda: _survey(context, check, command))[0]


def _survey(context: GradingContext, check: Check, command: PytestCommand) -> Survey:
    with unpacked_bundle(None) as bundle, open_replica(context, base_tree(context), [bundle.mount]) as sandbox:
        build = run_base_build(context, sandbox)  # a base repository that does not build is surveyed all the same
        run = _run_base(sandbox, context, check, command, bundle, pins=None)
        transcript = run.transcript
        problem = _survey_problem(run, check)
        if problem or transcript.python is None:
            raise BrokenCheck(f"check {check.id}: {problem}")
        behind, programs, folders = transcript.python
        python = Interpreter(
            behind=behind, programs=programs, folders=tuple(folders), runner=tuple(transcript.runner_modules)
        )
        built = Fingerprint()
        if build is not None:
            built = fingerprint(sandbox, bundle, python, transcript.declared_plugins)
            built = built.model_copy(update={"whole": build.ok})
        if build is not None and not built.runner:
            raise SandboxError("the test runner's files cannot be read after the build of the base repository")
    sources = dict(_test_sources(context))
    return Survey(
        plugins=tuple(transcript.declared_plugins),
        names=tuple(transcript.names),
        rootdir=transcript.rootdir,
        confcutdir=transcript.confcutdir,
        inifile=posixpath.relpath(transcript.inifile, context.spec.workdir) if transcript.inifile else None,
        items=tuple(item.id for item in transcript.items),
        uncollected=transcript.uncollected,
        passing_canary=passing_canary_passed(transcript, run.canaries),
        behaviour=transcript.behaviour(),
        replaced=monkeypatched_names(sources.values()),
        named=_named_files(context, transcript.rootdir, sources),
        python=python,
        fingerprint=built,
    )


def _run_base(
    sandbox: Sandbox,
    context: GradingContext,
    check: Check,
    command: PytestCommand,
    bundle: RunnerBundle,
    *,
    pins: Pins | None,
) -> PytestRun:
    """Run pytest on the base repository, with more than the declared time if the machine is busy."""
    return run_patiently(
        lambda limit: run_pytest(sandbox, context.spec, command, bundle, pins=pins, limit=limit),
        TimeLimit(check.timeout_sec),
        more_time(check.timeout_sec),
    )


def _test_sources(context: GradingContext) -> Iterator[tuple[bytes, bytes]]:
    """Path and content of the Python test files of the base repository and the hidden files, without huge ones."""
    hidden = context.loaded.hidden_files()
    yield from ((path, file.content) for path, file in hidden.items() if path.endswith(b".py"))
    for path, entry in base_entries(context).items():
        if path not in hidden and path.endswith(b".py") and is_test(_text(path)) and entry.size <= MAX_TEST:
            yield path, context.prepared.base_tree.read(path, max_bytes=MAX_TEST)


def _named_files(context: GradingContext, rootdir: str, sources: Mapping[bytes, bytes]) -> frozenset[str]:
    """Return the files, as test ids name them, whose tests use their names; all if a file for all tests uses them."""
    using = {path for path, source in sources.items() if _USES_NAMES.search(source)}
    names = (posixpath.basename(path) for path in using)
    files = using if all(name.startswith(b"test") or name.endswith(b"_test.py") for name in names) else sources
    return frozenset(posixpath.relpath(posixpath.join(context.spec.workdir, _text(path)), rootdir) for path in files)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _survey_problem(run: PytestRun, check: Check) -> str:
    """Return why a survey cannot be used; empty if it can."""
    transcript, completed = run.transcript, run.completed
    if transcript.no_pytest:
        return f"pytest is not installed in the environment ({transcript.no_pytest}); install it in setup.commands"
    if not transcript.started:
        exited = f"exit {completed.exit_code}"
        return f"the Python of `{check.command}` cannot be started ({exited}): {_tail(completed.stderr.kept)}"
    if completed.timed_out:
        return f"collecting the tests of the base repository took longer than {run.limit.sec:g} s"
    runner_error = next((name for name in transcript.changed if name.startswith(RUNNER_ERROR)), "")
    if runner_error:
        return f"the test runner does not work with the environment's pytest: {runner_error}"
    # A conftest that cannot be imported may be what the task is about; the runner is pinned without it.
    ran_canaries = transcript.conftest_failed or failing_canaries_failed(transcript, run.canaries)
    if not run.whole or not transcript.rootdir or not ran_canaries:
        cause = transcript.crash or _tail(completed.stderr.kept) or _tail(completed.stdout.kept)
        return f"pytest cannot run `{check.command}` on the base repository (exit {completed.exit_code}): {cause}"
    return ""


def _tail(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()[-300:]


def pins_of(context: GradingContext, surveyed: Survey, base: Mapping[bytes, Entry]) -> Pins:
    """Derive the pins for runs of a patch. Names that the repository provides itself are not pinned."""
    hidden, workdir = context.loaded.hidden_files(), context.spec.workdir
    paths = {*base, *hidden}
    project_names = top_level_names(paths)
    guarded = {posixpath.join(surveyed.rootdir, file) for file in surveyed.test_files}
    guarded |= {posixpath.join(workdir, _text(path)) for path in hidden}
    names = frozenset(surveyed.names)
    return Pins(
        plugins=surveyed.plugins,
        names=tuple(sorted(names - project_names)),
        absent=tuple(name for name in OPTIONAL_MODULES if name not in names and name not in project_names),
        rootdir=surveyed.rootdir,
        confcutdir=surveyed.confcutdir,
        inifile=None if surveyed.inifile is None else posixpath.join(workdir, surveyed.inifile),
        support=importable_test_files(
            paths, [path for path in paths if path.endswith(b".py") and is_test(_text(path))], names
        ),
        replaced=surveyed.replaced,
        guarded=tuple(sorted(path for path in guarded if path.isascii() or path.isprintable())),
    )


def configuration_file(context: GradingContext, surveyed: Survey) -> tuple[str, bytes]:
    """Name and content of the base repository's pytest configuration."""
    if surveyed.inifile is None:
        return EMPTY_CONFIGURATION
    path = surveyed.inifile.encode("utf-8", "surrogateescape")
    hidden = context.loaded.hidden_files().get(path)
    content = hidden.content if hidden else context.prepared.base_tree.read(path, max_bytes=MAX_CONFIGURATION)
    return posixpath.basename(surveyed.inifile), content


def base_test_run(context: GradingContext, check: Check, command: PytestCommand) -> BaseTestRun:
    """Run every test on the base repository; cached.

    Raises:
        BrokenCheck, SandboxError: as `survey`.
    """
    key = command_key(context, check)
    return load_or_make(context.cache, key, BaseTestRun, lambda: run_tests_on_base(context, check, command))[0]


def run_tests_on_base(context: GradingContext, check: Check, command: PytestCommand) -> BaseTestRun:
    """Run every test on the base repository now.

    Raises:
        BrokenCheck, SandboxError: as `survey`.
    """
    surveyed = survey(context, check, command)
    base = base_entries(context)
    with (
        unpacked_bundle(configuration_file(context, surveyed)) as bundle,
        open_replica(context, base_tree(context, base), [bundle.mount]) as sandbox,
    ):
        run_base_build(context, sandbox)
        pins = dataclasses.replace(pins_of(context, surveyed, base), named=surveyed.named)
        run = _run_base(sandbox, context, check, command, bundle, pins=pins)
    transcript, completed = run.transcript, run.completed
    return BaseTestRun(
        status=transcript.status,
        timed_out=completed.timed_out,
        duration_sec=completed.duration_sec,
        outcomes=transcript.outcomes(),
        uncollected=transcript.uncollected,
        whys={
            test: record.why
            for test, record in transcript.tests.items()
            if record.why and test not in transcript.canaries
        },
        behaviour=transcript.behaviour(),
        problem="" if run.whole else transcript.crash or f"pytest did not finish (exit {completed.exit_code})",
        oom=completed.oom,
        stdout=completed.stdout.kept[:KEPT],
        stderr=completed.stderr.kept[:KEPT],
    )
