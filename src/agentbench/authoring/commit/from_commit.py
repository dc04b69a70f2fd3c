"""Create a task from a commit: read it, split it, prepare its environment, verify its tests, write the folder."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from agentbench.acceptance.prepare_grading import prepare_grading
from agentbench.authoring.commit import statement as statements
from agentbench.authoring.commit.base_texts import read_texts
from agentbench.authoring.commit.commit_reader import FixCommit, TaskRequest, read_commit, repository_name, task_id_of
from agentbench.authoring.commit.comparison import Verification
from agentbench.authoring.commit.demands import Demand, KnownTexts, find_demands
from agentbench.authoring.commit.split import UnsuitableCommit, text_of
from agentbench.authoring.commit.task_draft import NOTES_NAME, TaskDraft, write_task
from agentbench.authoring.commit.verification import MISSING_MODULE, FailureContext, verify, with_error_first
from agentbench.authoring.environment.dry_run import freeze
from agentbench.authoring.environment.requirements import lines_for_module
from agentbench.authoring.environment.resolver import (
    EnvironmentRequest,
    EnvironmentResolver,
    PreparedEnvironment,
    with_env,
    with_modules,
    with_skipped,
)
from agentbench.authoring.task_lock import TaskLocation, locked_draft, publish
from agentbench.contract.complexity import LABEL, measure
from agentbench.contract.load import LoadedTask, load_task
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError, InputError, SourceError, TaskError
from agentbench.execution.lab import Lab
from agentbench.workspace.source.history import Commit
from agentbench.workspace.source.location import is_local, resolve_url
from agentbench.workspace.source.origin import origin_of, remote_origin

_ENVIRONMENT_KINDS = frozenset({"fails with the fix", "tests cannot run", "dependency drift"})
"""Reasons that may disappear in another environment, for instance with today's dependencies."""
ROUNDS = 3
FIXED_HASH_SEED = {"PYTHONHASHSEED": "0"}
RUNS_AFTER_FLAKE = 5
"""Runs on either side once tests were flaky: in two, a test that passes every other time looks fixed once in 16 times."""
"""Keeps the order of sets of strings, from which some tests number their parameters."""
ENVELOPE = 10
"""Size of the envelope relative to the fix: `minimal` is 0.90 for a patch as large as the fix, 0.37 for one 10 times as large."""
APPROVE = "## A person must approve this task"
"""Heading in the notes; `find_created` reads the flags below it."""
NOT_PINNED = "NOT PINNED, so the environment can change: "
"""Start of the line in the notes that says why; `find_created` reads it."""
Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CreatedTask:
    """A finished task."""

    folder: Path
    draft: TaskDraft
    verification: Verification
    flags: tuple[str, ...]
    """What a person must approve."""
    suggestions: tuple[str, ...]
    """Sentences that would tell a solver what the hidden tests demand."""
    environment: PreparedEnvironment


def from_commit(
    request: TaskRequest,
    revision: str,
    lab: Lab,
    *,
    notify: Notify = lambda _line: None,
    environments: EnvironmentResolver | None = None,
) -> CreatedTask:
    """Create one task.

    Raises:
        UnsuitableCommit: the commit cannot become a task; with the reason.
        SourceError: the repository or the commit cannot be fetched.
        InputError: the task folder exists or cannot be written.
        SandboxError, WorkspaceError: harness errors.
    """
    notify(f"{repository_name(request.repo)}: reading commit {revision}")
    fix = read_commit(request, revision, lab)
    return _create_task(request, fix, lab, notify=notify, environments=environments or EnvironmentResolver())


def _create_task(
    request: TaskRequest, fix: FixCommit, lab: Lab, *, notify: Notify, environments: EnvironmentResolver
) -> CreatedTask:
    draft = _first_draft(request, fix)
    location = TaskLocation(request.suite_dir, draft.id, remedy="remove it, or pass another --suite-dir or --id")
    with locked_draft(location, notify=notify, cancelled=lab.cancelled) as (target, folder):
        if fix.has_submodules:
            draft = _without_missing_submodules(draft, folder, lab)
        wanted_env = EnvironmentRequest(
            draft, fix.detected, fix.commit.date, fix.packaging, folder, request.pin, notify
        )
        try:
            environment, verification = _verify(wanted_env, fix, request, lab, environments, notify)
        except UnsuitableCommit as error:
            if error.kind in _ENVIRONMENT_KINDS and not draft.submodules:
                msg = f"submodules could not be fetched, and without them: {error.message}"
                raise UnsuitableCommit("submodule", msg, remedy="use a clone whose submodules can be fetched") from None
            if error.kind != "patch" or fix.code_patch == fix.patch:
                raise
            # Setup of some projects rewrites their README, so try the fix without documentation.
            draft = dataclasses.replace(draft, reference=fix.code_patch)
            wanted_env = dataclasses.replace(wanted_env, draft=draft)
            environment, verification = _verify(wanted_env, fix, request, lab, environments, notify)
        demands, flags = _review(draft, fix, environment, verification)
        draft = dataclasses.replace(
            environment.draft,
            command=" ".join([draft.command, *(_quoted(f"--deselect={test}") for test in verification.unsteady)]),
            fail_to_pass=verification.fail_to_pass,
            pass_to_pass=verification.pass_to_pass,
            flake_tolerance=verification.tolerance,
            strata=_strata(fix, environment, verification),
            notes=_notes(fix, environment, verification, flags),
        )
        notify(f"{draft.id}: proving {len(draft.fail_to_pass)} fail-to-pass tests with decoys")
        _prepare_grading(write_task(draft, folder), environment, lab)
        publish(folder, target)
    suggestions = tuple(demand.suggestion for demand in demands)
    return CreatedTask(target, draft, verification, flags, suggestions, environment)


def _review(
    draft: TaskDraft, fix: FixCommit, environment: PreparedEnvironment, verification: Verification
) -> tuple[tuple[Demand, ...], tuple[str, ...]]:
    """Return what hidden tests demand beyond the statement, and everything that a person must approve."""
    sources = fix.test_sources
    base = read_texts(environment.prepared.snapshot.folder)
    words = statements.words_of(text for path, text in base.items() if path.endswith(".py"))
    flags = statements.check_statement(draft.statement, draft.reference, sources, words)
    if draft.statement != statements.draft_statement(fix.commit.message):
        flags = dataclasses.replace(flags, subject_only=False)  # a person wrote it, in as few words as they like
    changed = "\n".join(base.get(text_of(change.path), "") for change in fix.parts.source)
    known = KnownTexts(draft.statement, "\n".join(base.values()), changed)
    demands = find_demands(sources, verification.fail_to_pass, draft.reference, known)
    return demands, (*flags.lines(), *(demand.line() for demand in demands[: statements.LISTED]))


def _prepare_grading(task: LoadedTask, environment: PreparedEnvironment, lab: Lab) -> None:
    """Prove the decoys of the finished task with its reference. The first grading then starts with a full cache."""
    context = lab.grading_context(dataclasses.replace(environment.prepared, task=task))
    try:
        prepare_grading(context)
    except TaskError as error:
        raise UnsuitableCommit("tests cannot run", f"with the fix: {with_error_first(error.message)}") from error


@dataclass(frozen=True, slots=True)
class FoundTask:
    """A task that an interrupted harvest created."""

    id: str
    strata: Mapping[str, str]
    flags: tuple[str, ...]
    unpinned: str


def find_created(request: TaskRequest, commit: Commit) -> FoundTask | None:
    """Return the task that an interrupted harvest created from this commit, or None."""
    folder = request.suite_dir.absolute() / task_id_of(request, commit)
    if not folder.is_dir():
        return None
    try:
        loaded = load_task(folder)
        notes = (folder / NOTES_NAME).read_text(encoding="utf-8")
    except (ContractError, InputError, OSError):
        return None
    strata = loaded.task.strata.model_dump(mode="json", exclude_none=True)
    if f"Made from commit {commit.id} " not in notes or not {"kind", "test_runtime"} <= strata.keys():
        return None
    flags = [line[2:] for line in notes.partition(APPROVE)[2].splitlines() if line.startswith("- ")]
    unpinned = notes.partition(NOT_PINNED)[2].partition("\n")[0]
    return FoundTask(loaded.id, strata, tuple(flags), unpinned)


def _without_missing_submodules(draft: TaskDraft, folder: Path, lab: Lab) -> TaskDraft:
    """Drop the submodules if they cannot be fetched. Tests that need them then fail before and after: not required."""
    try:
        lab.snapshots.materialize(write_task(draft, folder))
    except SourceError:
        draft = dataclasses.replace(draft, submodules=False)
        lab.snapshots.materialize(write_task(draft, folder))
    return draft


def _verify(
    wanted_env: EnvironmentRequest,
    fix: FixCommit,
    request: TaskRequest,
    lab: Lab,
    environments: EnvironmentResolver,
    notify: Notify,
) -> tuple[PreparedEnvironment, Verification]:
    """Find an environment in which the tests fail on the parent and pass with the fix, adding what tests lack.

    Modules that no requirement names are installed by name, which may take several rounds. Flaky tests get one more
    try with a fixed hash seed and more runs.
    """
    previous: UnsuitableCommit | None = None
    for _ in range(ROUNDS + 1):
        try:
            return _verify_in_candidates(wanted_env, fix, request, lab, environments, notify)
        except UnsuitableCommit as error:
            task_id = wanted_env.draft.id
            if error.kind == "flaky" and not FIXED_HASH_SEED.items() <= wanted_env.detected.plans[0].env.items():
                wanted_env = with_env(wanted_env, FIXED_HASH_SEED)
                request = dataclasses.replace(request, repeats=max(request.repeats, RUNS_AFTER_FLAKE))
                notify(f"{task_id}: flaky; retrying with PYTHONHASHSEED=0 and {request.repeats} runs on either side")
                continue
            extended = with_skipped(wanted_env, error.skips)
            if extended is not wanted_env:
                notify(
                    f"{task_id}: retrying with the dependencies of skipped tests ({extended.detected.plans[0].name})"
                )
                previous, wanted_env = error, extended
                continue
            # The repository's own modules are not installed from a release, unless one of its extras names them
            # (an extra `bson` for its own bson.py).
            extras = wanted_env.detected.extras
            foreign = [name for name in error.tests if name not in fix.modules or lines_for_module(name, extras)]
            extended = with_modules(wanted_env, foreign, fix.imported) if error.kind == MISSING_MODULE else wanted_env
            if extended is wanted_env:
                raise previous if previous is not None and error.kind == "setup failed" else error from None
            previous, wanted_env = error, extended
            notify(f"{task_id}: retrying with undeclared modules ({', '.join(error.tests)})")
    raise previous or AssertionError


def _verify_in_candidates(
    wanted_env: EnvironmentRequest,
    fix: FixCommit,
    request: TaskRequest,
    lab: Lab,
    environments: EnvironmentResolver,
    notify: Notify,
) -> tuple[PreparedEnvironment, Verification]:
    first: UnsuitableCommit | None = None
    for environment in environments.candidates(wanted_env, lab):
        if first is not None:
            notify(f"{wanted_env.draft.id}: {first.kind}; retrying with other versions of the dependencies")
        try:
            context = FailureContext(fix.test_sources, environment.newer, environment.undated)
            verification = verify(
                environment.prepared, lab, repeats=request.repeats, failure_context=context, notify=wanted_env.step
            )
            return environment, verification
        except UnsuitableCommit as error:
            first = first or error
            if error.kind not in _ENVIRONMENT_KINDS:
                break
    if first is None:
        raise AssertionError
    raise first


# --- the task folder ---------------------------------------------------------------------------------------------


def _first_draft(request: TaskRequest, fix: FixCommit) -> TaskDraft:
    commit, detected = fix.commit, fix.detected
    suite_dir = request.suite_dir.absolute()
    task_id = task_id_of(request, commit)
    words = [*detected.options, *(() if request.all_tests else fix.parts.runnable)]
    quoted = " ".join(_quoted(word) for word in words)
    text = request.statement if request.statement is not None else statements.draft_statement(commit.message)
    lines = sum(line[:1] in {b"+", b"-"} and line[:3] not in {b"+++", b"---"} for line in fix.patch.splitlines())
    return TaskDraft(
        id=task_id,
        suite=suite_dir.name,
        title=commit.subject[:120],
        statement=text if text.strip() else f"{commit.subject or 'Solve the problem that the tests show.'}\n",
        url=url_from(request.repo, suite_dir / task_id),
        origin=origin_from(request.repo),
        commit=commit.parents[0],
        python=detected.python,
        env=detected.plans[0].env,
        setup=detected.plans[0].commands,
        command=f"python -m pytest -q {quoted}".strip(),
        hidden=fix.hidden,
        reference=fix.patch,
        timeout_sec=request.timeout_sec,
        mem_limit_mb=request.mem_limit_mb,
        envelope={"files": ENVELOPE * max(1, len(fix.parts.source)), "lines": ENVELOPE * max(1, lines)},
    )


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[A-Za-z0-9_./=+-]+", word) else "'" + word.replace("'", "'\"'\"'") + "'"


def url_from(repo: str, folder: Path) -> str:
    """Return the URL to write into a task in `folder`; local repositories become relative paths."""
    located = resolve_url(repo, Path.cwd())
    if not is_local(located) or located.startswith("file://"):
        return located
    return os.path.relpath(located, folder)


def origin_from(repo: str) -> str | None:
    """Return the URL that a local repository was cloned from; None if it has none or is a URL itself."""
    located = resolve_url(repo, Path.cwd())
    return origin_of(Path(located.removeprefix("file://"))) if is_local(located) else None


def why_not_portable(repo: str) -> str:
    """Return why tasks of a repository work only on this machine; empty if they work elsewhere."""
    located = resolve_url(repo, Path.cwd())
    folder = Path(located.removeprefix("file://"))
    if not is_local(located) or origin_of(folder):
        return ""
    origin = remote_origin(folder)
    problem = f"its remote `origin` is the local path {origin}" if origin else "it has no remote `origin`"
    return f"{repo} is a local path and {problem}, so the tasks work only on this machine"


def _strata(fix: FixCommit, environment: PreparedEnvironment, verification: Verification) -> dict[str, str]:
    count = len([line for line in freeze(environment.prepared.environment) if "==" in line])
    return {
        "ecosystem": "python",
        "kind": statements.kind_of(fix.commit.message),
        "test_runtime": "short"
        if verification.duration_sec < 10
        else "medium"
        if verification.duration_sec < 120
        else "long",
        "dependencies": "none" if count <= 6 else "small" if count <= 15 else "medium" if count <= 50 else "large",
    }


def _notes(fix: FixCommit, environment: PreparedEnvironment, verification: Verification, flags: tuple[str, ...]) -> str:
    commit, measured = fix.commit, measure(environment.prepared.snapshot.folder)
    how = "NOT pinned" if environment.unpinned else "pinned by version and digest"
    counts = f"{len(verification.fail_to_pass)} fail-to-pass and {len(verification.pass_to_pass)} pass-to-pass tests"
    sizes = f"{measured.files} files, {measured.lines} lines, about {measured.approx_tokens} tokens"
    modules = f"{measured.python_modules} Python modules with {measured.internal_imports} internal imports"
    parts = [
        "# Notes for maintainers (agents never see them)",
        f"Made from commit {commit.id} of {commit.date}. The base repository is its parent {commit.parents[0]}.",
        f"Setup: {environment.plan}, {how}. {environment.remark} {' '.join(fix.detected.notes)}".strip(),
        f"Verified by {verification.runs} runs of at most {verification.duration_sec:.1f} s: {counts}.",
        f"Base repository: {sizes}, {modules} ({LABEL}).",
    ]
    if environment.unpinned:
        parts.append(f"{NOT_PINNED}{environment.unpinned}")
    if environment.draft.reference != fix.patch:
        parts.append("The reference leaves out the fix's documentation, because setup rewrites it.")
    if FIXED_HASH_SEED.items() <= environment.draft.env.items():
        parts.append("PYTHONHASHSEED is fixed, because the tests were flaky without it, perhaps by the order of sets.")
    if not environment.draft.submodules:
        parts.append("Submodules are missing from the base repository, because they could not be fetched.")
    if verification.unsteady:
        unsteady = "\n".join(f"- {test}" for test in verification.unsteady)
        parts.append(f"Left out, because their outcomes differ between runs:\n{unsteady}")
    if verification.tolerance:
        parts.append("Some test names change from run to run. They are not required, and flake screens tolerate them.")
    if fix.parts.removed_tests:
        removed = ", ".join(fix.parts.removed_tests)
        parts.append(f"The commit removes these tests, which stay in the base repository: {removed}")
    if flags:
        parts.append(f"{APPROVE}\n" + "\n".join(f"- {flag}" for flag in flags))
        parts.append("When the task is fair, delete this section: `ab suite ls` counts the tasks that have it.")
    return "\n\n".join(parts) + "\n"
