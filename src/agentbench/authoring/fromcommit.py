"""A commit of a repository's history as a task: read, split, set up, proven, written."""

from __future__ import annotations

import ast
import dataclasses
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from agentbench.authoring import statement as statements
from agentbench.authoring.comparing import Proof
from agentbench.authoring.detection import Circumstances, Detected, brought, detect
from agentbench.authoring.drafting import NOTES_NAME, Draft, draft_folder, place_of, publish, remove_if_empty, write
from agentbench.authoring.environments import Environments, Ready, Wish, freeze, with_modules
from agentbench.authoring.proving import MISSING_MODULE, Circumstance, prove
from agentbench.authoring.requirements import distribution_of
from agentbench.authoring.splitting import MAX_HIDDEN_BYTES, Split, Unsuitable, split, text_of
from agentbench.contract.complexity import LABEL, measure
from agentbench.contract.load import load_task
from agentbench.core.canonical import Json, digest
from agentbench.core.errors import ContractError, InputError, SourceError
from agentbench.core.syntax import parse as parse_python
from agentbench.run.lab import Lab
from agentbench.sandbox.interpreter import installed
from agentbench.workspace.history import Commit, Histories, History
from agentbench.workspace.location import is_local, locate

_LFS = b"version https://git-lfs.github.com/spec/v1\n"
_PACKAGING = re.compile(
    r"(setup\.py|setup\.cfg|pyproject\.toml|tox\.ini|\.?pytest\.ini|[^/]*requirements[^/]*\.(txt|in)|requirements/[^/]*\.(txt|in))"
)
_PACKAGED = frozenset({"pyproject.toml", "setup.py", "setup.cfg"})
_ELSEWHERE = frozenset({"fails with the fix", "tests cannot run", "dependency drift"})
"""Refusals that another environment may turn: with today's dependencies, what fails with those of its day may pass."""
ROUNDS = 3
APPROVE = "## A person must approve this task"
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the author asked for."""

    repo: str
    suite_dir: Path
    statement: str | None = None
    task_id: str | None = None
    first_parent: bool = False
    timeout_sec: int = 300
    mem_limit_mb: int = 2048
    repeats: int = 2
    pin: bool = True
    all_tests: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """A finished task."""

    folder: Path
    draft: Draft
    proof: Proof
    flags: tuple[str, ...]
    plan: str
    remark: str
    """Of which day the dependencies are."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Everything read from the repository; its lock is free again."""

    commit: Commit
    parts: Split
    patch: bytes
    hidden: Mapping[str, tuple[bytes, bool]]
    detected: Detected
    known: frozenset[str] = field(repr=False)
    packaging: str = ""
    """A digest of the files that decide what is installed."""
    has_submodules: bool = False
    modules: frozenset[str] = frozenset()
    """Every name of R's files and folders that may be one of a module."""


def from_commit(
    wanted: Wanted,
    revision: str,
    lab: Lab,
    *,
    tell: Tell = lambda _line: None,
    environments: Environments | None = None,
) -> Made:
    """Make one task.

    Raises:
        Unsuitable: with the reason.
        SourceError: the repository or the commit cannot be had.
        InputError: the folder is there already or cannot be written.
        SandboxError, WorkspaceError: ours.
    """
    taken = take(wanted, revision, lab)
    return make(wanted, taken, lab, tell=tell, environments=environments or Environments())


def take(wanted: Wanted, revision: str, lab: Lab) -> Taken:
    """Read a commit and take it apart."""
    with Histories(lab.state / "snapshots").open(wanted.repo, Path.cwd()) as history:
        commit = history.commit(revision)
        parts = split(commit, first_parent=wanted.first_parent)
        parent = commit.parents[0]
        hidden = _hidden(history, parts)
        patch = history.patch(parent, commit.id, [change.path for change in parts.source])
        paths = history.paths(parent)
        known = _known(history, parent, paths)
        project = _project_folder(paths, parts)
        pythons = list(dict.fromkeys(one.short for one in installed()))

        there, changed = frozenset(paths), {text_of(change.path) for change in commit.changes}

        def read(name: str, *, fixed: bool = False) -> str | None:
            path = f"{project}/{name}" if project else name
            at = commit.id if fixed and path in changed else parent
            if path not in hidden and at == parent and path not in there:
                return None
            # What configures the runner comes with the commit, so its plugins are needed too.
            found = hidden[path][0] if path in hidden else history.read(at, path)
            return None if found is None else found.decode("utf-8", "replace")

        around = Circumstances(
            date=commit.date,
            pythons=pythons,
            default_python=f"{sys.version_info[0]}.{sys.version_info[1]}",
            release=history.release_before(parent),
            imports=_imports(hidden, paths),
            folder=project,
            brought=brought(read, lambda name: read(name, fixed=True)),
        )
        own = [path.removeprefix(f"{project}/") for path in paths if path.startswith(f"{project}/" if project else "")]
        deciding: dict[str, Json] = {path: read(path) for path in own if _PACKAGING.fullmatch(path)}
        packaging, linked = digest(deciding), ".gitmodules" in paths
        return Taken(commit, parts, patch, hidden, detect(read, around), known, packaging, linked, _modules(paths))


def make(wanted: Wanted, taken: Taken, lab: Lab, *, tell: Tell, environments: Environments) -> Made:
    """Set up, prove and write what was taken."""
    draft = _first_draft(wanted, taken)
    place = place_of(wanted.suite_dir, draft.id)
    folder = draft_folder(wanted.suite_dir.absolute(), draft.id)
    try:
        tell(f"{draft.id}: setup")
        if taken.has_submodules:
            draft = _within_reach(draft, folder, lab)
        wish = Wish(draft, taken.detected, taken.commit.date, taken.packaging, folder, wanted.pin)
        ready, proof = _proven(wish, taken, wanted, lab, environments, tell)
        sources = {name: content for name, (content, _) in taken.hidden.items() if name.endswith(".py")}
        flags = tuple(statements.check(draft.statement, draft.reference, sources, taken.known).lines())
        draft = dataclasses.replace(
            ready.draft,
            command=" ".join([draft.command, *(_quoted(f"--deselect={test}") for test in proof.unsteady)]),
            fail_to_pass=proof.fail_to_pass,
            pass_to_pass=proof.pass_to_pass,
            flake_tolerance=proof.tolerance,
            strata=_strata(taken, ready, proof),
            notes=_notes(taken, ready, proof, flags),
        )
        write(draft, folder)
        publish(folder, place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        remove_if_empty(folder.parent)
    return Made(place, draft, proof, flags, ready.plan, ready.remark)


def finished(wanted: Wanted, commit: Commit) -> tuple[str, Mapping[str, str], tuple[str, ...]] | None:
    """Id, strata and flags of a task that was made of a commit before, by who was stopped before saying so; else None."""
    folder = wanted.suite_dir.absolute() / task_id_of(wanted, commit)
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
    return loaded.id, strata, tuple(flags)


def _within_reach(draft: Draft, folder: Path, lab: Lab) -> Draft:
    """With its submodules, or without where they cannot be had: what needs them then fails before and after, and is not required."""
    try:
        lab.snapshots.materialise(write(draft, folder))
    except SourceError:
        draft = dataclasses.replace(draft, submodules=False)
        lab.snapshots.materialise(write(draft, folder))
    return draft


def _proven(
    wish: Wish, taken: Taken, wanted: Wanted, lab: Lab, environments: Environments, tell: Tell
) -> tuple[Ready, Proof]:
    """The first environment in which the tests tell the fix from its parent.

    A module that tests import and nobody declared is installed by its name; what it is called may take some rounds to know.
    """
    lacking: Unsuitable | None = None
    for _ in range(ROUNDS):
        try:
            return _proven_so(wish, taken, wanted, lab, environments, tell)
        except Unsuitable as error:
            # R's own modules are never taken from a release.
            foreign = [name for name in error.tests if name not in taken.modules]
            more = with_modules(wish, foreign) if error.kind == MISSING_MODULE else wish
            if more is wish:
                raise lacking if lacking is not None and error.kind == "setup failed" else error from None
            lacking, wish = error, more
            tell(f"{wish.draft.id}: once more, with modules that no requirement names ({', '.join(error.tests)})")
    raise lacking or AssertionError


def _proven_so(
    wish: Wish, taken: Taken, wanted: Wanted, lab: Lab, environments: Environments, tell: Tell
) -> tuple[Ready, Proof]:
    sources = {name: content for name, (content, _) in taken.hidden.items() if name.endswith(".py")}
    first: Unsuitable | None = None
    for ready in environments.of(wish, lab):
        if first is None:
            tell(f"{wish.draft.id}: the tests on the parent and with the fix, {max(2, wanted.repeats)} times each")
        else:
            tell(f"{wish.draft.id}: once more, with other versions of its dependencies ({first.kind})")
        try:
            known = Circumstance(sources, ready.newer, ready.undated)
            return ready, prove(ready.ground, lab, repeats=wanted.repeats, known=known)
        except Unsuitable as error:
            first = first or error
            if error.kind not in _ELSEWHERE:
                break
    if first is None:
        raise AssertionError
    raise first


# --- reading -----------------------------------------------------------------------------------------------------


def _hidden(history: History, parts: Split) -> dict[str, tuple[bytes, bool]]:
    found: dict[str, tuple[bytes, bool]] = {}
    for change in parts.tests:
        if change.status == "D":
            continue
        content = history.blob(change.blob)
        name = text_of(change.path)
        if content.startswith(_LFS):
            raise Unsuitable("lfs", f"{name} is only a pointer to content in Git LFS, which is not fetched")
        found[name] = (content, change.new_mode == "100755")
    size = sum(len(content) for content, _ in found.values())
    if size > MAX_HIDDEN_BYTES:
        raise Unsuitable("too large", f"its test files have {size} bytes, more than {MAX_HIDDEN_BYTES}")
    return found


def _known(history: History, parent: str, paths: list[str]) -> frozenset[str]:
    """Every word of R's Python files (of a bounded number of them)."""
    sources = (history.read(parent, path) or b"" for path in [path for path in paths if path.endswith(".py")][:400])
    return frozenset(statements.words_of(sources))


def _project_folder(paths: list[str], parts: Split) -> str:
    """Where the packaging is: the root, else the nearest folder above what the commit changes that has one."""
    packaged = {str(PurePosixPath(path).parent) for path in paths if PurePosixPath(path).name in _PACKAGED}
    if "." in packaged:
        return ""
    changed = [PurePosixPath(text_of(change.path)) for change in (*parts.source, *parts.tests)]
    return next((str(above) for path in changed for above in path.parents if str(above) in packaged), "")


def _modules(paths: list[str]) -> frozenset[str]:
    return frozenset(part for path in paths for part in (*PurePosixPath(path).parts[:-1], PurePosixPath(path).stem))


def _imports(hidden: Mapping[str, tuple[bytes, bool]], paths: list[str]) -> tuple[str, ...]:
    """Distributions that the hidden tests import and R does not hold, as far as names tell."""
    names: set[str] = set()
    for name, (content, _) in hidden.items():
        if not name.endswith(".py"):
            continue
        try:
            tree = parse_python(content)
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
    foreign = sorted(
        name for name in names - _modules(paths) - set(sys.stdlib_module_names) if not name.startswith("_")
    )
    return tuple(package for name in foreign if (package := distribution_of(name)) and package != "pytest")


# --- making ------------------------------------------------------------------------------------------------------


def _first_draft(wanted: Wanted, taken: Taken) -> Draft:
    commit, detected = taken.commit, taken.detected
    suite_dir = wanted.suite_dir.absolute()
    task_id = task_id_of(wanted, commit)
    words = [*detected.options, *(() if wanted.all_tests else taken.parts.runnable)]
    quoted = " ".join(_quoted(word) for word in words)
    text = wanted.statement if wanted.statement is not None else statements.draft(commit.message)
    lines = sum(line[:1] in {b"+", b"-"} and line[:3] not in {b"+++", b"---"} for line in taken.patch.splitlines())
    return Draft(
        id=task_id,
        suite=suite_dir.name,
        title=commit.subject[:120],
        statement=text if text.strip() else f"{commit.subject or 'Solve the problem that the tests show.'}\n",
        url=_url(wanted.repo, suite_dir / task_id),
        commit=commit.parents[0],
        python=detected.python,
        env=detected.plans[0].env,
        setup=detected.plans[0].commands,
        command=f"python -m pytest -q {quoted}".strip(),
        hidden=taken.hidden,
        reference=taken.patch,
        timeout_sec=wanted.timeout_sec,
        mem_limit_mb=wanted.mem_limit_mb,
        envelope={"files": max(1, len(taken.parts.source)), "lines": max(1, lines)},
    )


def task_id_of(wanted: Wanted, commit: Commit) -> str:
    return wanted.task_id or f"{repository_name(wanted.repo)}-{commit.id[:10]}"


def repository_name(repo: str) -> str:
    """What people call a repository: the last part of its address that says something."""
    parts = [part.removesuffix(".git") for part in re.split(r"[/:]+", repo.rstrip("/"))]
    telling = [part for part in parts if part and part not in {"repo", ".", "..", "src", "main"}]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", telling[-1] if telling else "repo").strip("-.") or "repo"


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[A-Za-z0-9_./=+-]+", word) else "'" + word.replace("'", "'\"'\"'") + "'"


def _url(repo: str, folder: Path) -> str:
    located = locate(repo, Path.cwd())
    if not is_local(located) or located.startswith("file://"):
        return located
    return os.path.relpath(located, folder)


def _strata(taken: Taken, ready: Ready, proof: Proof) -> dict[str, str]:
    count = len([line for line in freeze(ready.ground) if "==" in line])
    return {
        "ecosystem": "python",
        "kind": statements.kind_of(taken.commit.message),
        "test_runtime": "short" if proof.duration_sec < 10 else "medium" if proof.duration_sec < 120 else "long",
        "dependencies": "none" if count <= 6 else "small" if count <= 15 else "medium" if count <= 50 else "large",
    }


def _notes(taken: Taken, ready: Ready, proof: Proof, flags: tuple[str, ...]) -> str:
    commit, measured = taken.commit, measure(ready.ground.snapshot.folder)
    pinned = any("--require-hashes" in one for one in ready.ground.task.task.setup.commands)
    how = "by version and digest" if pinned else "NOT pinned"
    counts = f"{len(proof.fail_to_pass)} tests fail before and pass after, {len(proof.pass_to_pass)} pass in both"
    sizes = f"{measured.files} files, {measured.lines} lines, about {measured.approx_tokens} tokens"
    modules = f"{measured.python_modules} Python modules with {measured.internal_imports} imports among them"
    parts = [
        "# Notes for people; no agent sees them",
        f"Made from commit {commit.id} of {commit.date}; R is its parent {commit.parents[0]}.",
        f"Setup: {ready.plan}, {how}. {ready.remark} {' '.join(taken.detected.notes)}".strip(),
        f"Proven by {proof.runs} runs: {counts}; {proof.duration_sec:.1f} s at most.",
        f"R: {sizes}, {modules} ({LABEL}).",
    ]
    if not ready.draft.submodules:
        parts.append("R is without its submodules: they could not be fetched.")
    if proof.unsteady:
        unsteady = "\n".join(f"- {test}" for test in proof.unsteady)
        parts.append(f"Left out, since they gave different outcomes:\n{unsteady}")
    if proof.tolerance:
        parts.append(
            "Some tests have names that change from run to run: they are not required, and a screen bears with them."
        )
    if taken.parts.removed_tests:
        parts.append("The commit removed these tests; they stay in R: " + ", ".join(taken.parts.removed_tests))
    if flags:
        parts.append(f"{APPROVE}\n" + "\n".join(f"- {flag}" for flag in flags))
    return "\n\n".join(parts) + "\n"
