"""What untouched R says: the survey that pins the runner, and the outcome of every test before any change.

Both run in replicas of R with the hidden files, where no candidate code is, and are remembered per contract and
environment.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping

from pydantic import BaseModel, ConfigDict, Field

from agentbench.acceptance.cache import key_of, remembered
from agentbench.acceptance.checks.pytest.records import canaries_held, passing_canary_passed
from agentbench.acceptance.checks.pytest.run import OPTIONAL_MODULES, Configuration, Pins, PytestRun, run_pytest
from agentbench.acceptance.checks.pytest.runner_bundle import packed, programs
from agentbench.acceptance.checks.pytest.runner_integrity import Interpreter, fingerprint, remade
from agentbench.acceptance.checks.required_tests import files_of
from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.inspection.monkeypatched_names import monkeypatched_names
from agentbench.acceptance.protected import GradedTree, Protection, support_of, top_level_names
from agentbench.acceptance.replica import base_entries, base_tree, declares_build, open_replica, run_build
from agentbench.acceptance.runner.runner_monitor import is_test
from agentbench.contract.pytest_command import PytestCommand
from agentbench.contract.schema import Check
from agentbench.core.errors import PatchInvalid, TaskError
from agentbench.sandbox.protocol import Sandbox
from agentbench.tree.entry import Entry

EMPTY_CONFIGURATION = ("pytest.ini", b"[pytest]\n")
MAX_CONFIGURATION = 4 * 1024 * 1024
MAX_TEST = 1024 * 1024
OWN_TROUBLE = "harness runner: "
"""How the runner tells that it stumbled itself; see `runner/session.py`."""


class BrokenCheck(TaskError):
    """The check cannot be run even on untouched R: the task's own trouble."""


class Survey(BaseModel):
    """How pytest sees R in its environment."""

    model_config = ConfigDict(frozen=True)
    plugins: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    rootdir: str
    confcutdir: str
    inifile: str | None
    """Relative to the workspace."""
    items: tuple[str, ...]
    uncollected: dict[str, str]
    passing_canary: bool
    """Whether the canary that must pass does: fixtures of the project may get in its way."""
    usual: tuple[str, ...]
    """What the watch over the runner reports of R itself."""
    tests: dict[str, tuple[str, dict[str, str]]]
    """Modules of the tests: file, and a digest of each function."""
    replaced: tuple[str, ...]
    """Names that the tests themselves replace while they run."""
    python: Interpreter
    fingerprint: dict[str, str]
    """Of the runner after R's own build; empty where no build is declared."""

    @property
    def test_files(self) -> frozenset[str]:
        """As the ids name them: relative to the root folder of pytest."""
        return files_of(self.items) | frozenset(self.uncollected)


class Pristine(BaseModel):
    """Every test on untouched R."""

    model_config = ConfigDict(frozen=True)
    status: int | None
    timed_out: bool
    duration_sec: float
    outcomes: dict[str, str]
    uncollected: dict[str, str] = Field(default_factory=dict)
    whys: dict[str, str] = Field(default_factory=dict)
    usual: tuple[str, ...] = ()
    trouble: str = ""
    oom: bool = False
    """A process was killed for memory."""


def check_key(context: GradingContext, check: Check) -> str:
    return key_of(
        context.contract_id, context.prepared.digest, context.backend.name, check.model_dump(mode="json"), programs()
    )


def survey(context: GradingContext, check: Check, command: PytestCommand) -> Survey:
    """How pytest sees R, asked once.

    Raises:
        BrokenCheck: pytest is not there or cannot start.
        SandboxError: ours.
    """
    found, _ = remembered(context.cache, check_key(context, check), Survey, lambda: _survey(context, check, command))
    return found


def _survey(context: GradingContext, check: Check, command: PytestCommand) -> Survey:
    with packed(None) as kit, open_replica(context, base_tree(context), [kit.mount]) as sandbox:
        run_build(context, sandbox)  # R may be what does not build: then this tells less, which is fine
        run = run_pytest(sandbox, context.spec, command, kit, pins=None, timeout_sec=check.timeout_sec)
        told = run.transcript
        trouble = _trouble(run, check)
        if trouble or told.python is None:
            raise BrokenCheck(f"check {check.id}: {trouble}")
        behind, programs, folders = told.python
        python = Interpreter(
            behind=behind, programs=programs, folders=tuple(folders), runner=tuple(told.runner_modules)
        )
        made = fingerprint(sandbox, kit, python, told.declared_plugins) if declares_build(context) else {}
    return Survey(
        plugins=tuple(told.declared_plugins),
        names=tuple(told.names),
        rootdir=told.rootdir,
        confcutdir=told.confcutdir,
        inifile=posixpath.relpath(told.inifile, context.spec.workdir) if told.inifile else None,
        items=tuple(told.items),
        uncollected=told.uncollected,
        passing_canary=passing_canary_passed(told, run.canaries),
        usual=told.unusual(),
        tests=told.test_code,
        replaced=monkeypatched_names(_test_sources(context)),
        python=python,
        fingerprint=made,
    )


class Remade(BaseModel):
    """Files that R's own build changes or makes among those of the tests, by their paths; None where nobody can tell."""

    model_config = ConfigDict(frozen=True)
    paths: tuple[str, ...] | None


def remade_by_r(context: GradingContext) -> Remade:
    """What a build of the task does to its tests by itself, found out once.

    Raises:
        SandboxError: ours.
    """

    def make() -> Remade:
        with open_replica(context, base_tree(context)) as sandbox:
            built = run_build(context, sandbox)
            if built is not None and (built.exit_code != 0 or built.timed_out):
                return Remade(paths=None)
            try:
                return Remade(paths=remade(sandbox, base_tree(context), base_entries(context), _of_tests(context)))
            except PatchInvalid:
                return Remade(paths=None)

    key = key_of(context.contract_id, context.prepared.digest, context.backend.name)
    return remembered(context.cache, key, Remade, make)[0]


def remade_by_build(
    sandbox: Sandbox, context: GradingContext, tree: GradedTree, files: Collection[bytes] = ()
) -> tuple[str, ...]:
    """What the declared build of a candidate did to files that neither Δ nor what it runs may decide about.

    `files`: tests that are required.

    Raises:
        PatchInvalid: it left more than we are willing to look at, and R's own does not.
        SandboxError: ours.
    """
    if not declares_build(context):
        return ()
    base, tests = base_entries(context), frozenset({*files, *context.loaded.hidden_files()})
    oracle = context.loaded.task.oracle
    protection = Protection(oracle.protected or (), tests, oracle.generated)
    try:
        return remade(sandbox, tree, base, lambda path: protection.guards(path, there=path in base or path in tests))
    except PatchInvalid:
        if remade_by_r(context).paths is None:
            return ()
        raise


def _of_tests(context: GradingContext) -> Callable[[bytes], bool]:
    """Whatever may come to matter of what a build changes; which tests are required is not known yet."""
    protection = Protection(context.loaded.task.oracle.protected or (), frozenset(context.loaded.hidden_files()))
    return lambda path: protection.restores(path) or is_test(_text(path))


def _test_sources(context: GradingContext) -> Iterator[bytes]:
    """Python files of the tests as they are in R with the hidden files, as far as they are of a size that people write."""
    hidden = context.loaded.hidden_files()
    yield from (file.content for path, file in hidden.items() if path.endswith(b".py"))
    for path, entry in base_entries(context).items():
        if path not in hidden and path.endswith(b".py") and is_test(_text(path)) and entry.size <= MAX_TEST:
            yield context.prepared.base_tree.read(path, max_bytes=MAX_TEST)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _trouble(run: PytestRun, check: Check) -> str:
    """Why a survey is of no use; empty when it is."""
    told, completed = run.transcript, run.completed
    if told.no_pytest:
        return f"pytest is not installed in the environment ({told.no_pytest}); install it in setup.commands"
    if not told.started:
        return f"the Python of `{check.command}` cannot be started (exit {completed.exit_code}): {_tail(completed.stderr.kept)}"
    if completed.timed_out:
        return f"collecting the tests of R took longer than {check.timeout_sec} s"
    broken = next((name for name in told.changed if name.startswith(OWN_TROUBLE)), "")
    if broken:
        return f"the runner cannot work with the pytest of the environment: {broken}"
    # A conftest that cannot be imported may be what the task is about: what pins the runner is known before it.
    if not run.whole or not told.rootdir or not (told.conftest or canaries_held(told, run.canaries)):
        said = told.trouble or _tail(completed.stderr.kept) or _tail(completed.stdout.kept)
        return f"pytest cannot run `{check.command}` on R (exit {completed.exit_code}): {said}"
    return ""


def _tail(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()[-300:]


def pins_of(context: GradingContext, found: Survey, base: Mapping[bytes, Entry]) -> Pins:
    """What a run of a patch is held to: names that R itself provides are R's to provide."""
    hidden = context.loaded.hidden_files()
    own = top_level_names({*base, *hidden})
    guarded = {posixpath.join(found.rootdir, file) for file in found.test_files}
    guarded |= {posixpath.join(context.spec.workdir, path.decode("utf-8", "surrogateescape")) for path in hidden}
    names = frozenset(found.names)
    return Pins(
        plugins=found.plugins,
        names=tuple(sorted(names - own)),
        absent=tuple(name for name in OPTIONAL_MODULES if name not in names and name not in own),
        configuration=Configuration(
            rootdir=found.rootdir,
            confcutdir=found.confcutdir,
            inifile=None if found.inifile is None else posixpath.join(context.spec.workdir, found.inifile),
        ),
        tests=found.tests,
        support=support_of(
            {*base, *hidden},
            [path for path in {*base, *hidden} if path.endswith(b".py") and is_test(_text(path))],
            names,
        ),
        replaced=found.replaced,
        conftests=tuple(
            posixpath.join(context.spec.workdir, _text(path))
            for path in sorted({*base, *hidden})
            if posixpath.basename(path) == b"conftest.py" and path.isascii()
        ),
        guarded=tuple(sorted(path for path in guarded if path.isascii() or path.isprintable())),
    )


def configuration_file(context: GradingContext, found: Survey) -> tuple[str, bytes]:
    """Name and content of R's own configuration."""
    if found.inifile is None:
        return EMPTY_CONFIGURATION
    path = found.inifile.encode("utf-8", "surrogateescape")
    hidden = context.loaded.hidden_files().get(path)
    content = hidden.content if hidden else context.prepared.base_tree.read(path, max_bytes=MAX_CONFIGURATION)
    return posixpath.basename(found.inifile), content


def pristine(context: GradingContext, check: Check, command: PytestCommand) -> tuple[Pristine, bool]:
    """Every test on untouched R, run once; and whether that was known already.

    Raises:
        BrokenCheck, SandboxError: as `survey`.
    """
    return remembered(context.cache, check_key(context, check), Pristine, lambda: run_pristine(context, check, command))


def run_pristine(context: GradingContext, check: Check, command: PytestCommand) -> Pristine:
    """The same, run now."""
    found = survey(context, check, command)
    base = base_entries(context)
    with (
        packed(configuration_file(context, found)) as kit,
        open_replica(context, base_tree(context, base), [kit.mount]) as sandbox,
    ):
        run_build(context, sandbox)
        pins = pins_of(context, found, base)
        run = run_pytest(sandbox, context.spec, command, kit, pins=pins, timeout_sec=check.timeout_sec)
    told = run.transcript
    return Pristine(
        status=told.status,
        timed_out=run.completed.timed_out,
        duration_sec=run.completed.duration_sec,
        outcomes=told.outcomes(),
        uncollected=told.uncollected,
        whys={test: record.why for test, record in told.tests.items() if record.why and test not in told.canaries},
        usual=told.unusual(),
        trouble="" if run.whole else told.trouble or f"pytest ended with {run.completed.exit_code} before its end",
        oom=run.completed.oom,
    )
