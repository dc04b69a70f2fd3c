"""Read a commit and everything else that a task needs from its repository."""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from agentbench.authoring.commit.language import require_python
from agentbench.authoring.commit.split import (
    MAX_HIDDEN_BYTES,
    Split,
    UnsuitableCommit,
    files_mentioning,
    is_prose,
    is_runnable,
    is_test,
    split,
    text_of,
)
from agentbench.authoring.environment.detection import (
    DetectedSetup,
    DetectionContext,
    added_requirements,
    combine,
    detect,
    is_packaged,
)
from agentbench.authoring.environment.requirements import distribution_of
from agentbench.core.canonical import Json, digest
from agentbench.core.dataclass import dataclass
from agentbench.core.python_syntax import parse_or_none
from agentbench.execution.lab import Lab
from agentbench.sandbox.environments.interpreter import installed
from agentbench.workspace.source.history import Commit, Histories, History

_LFS = b"version https://git-lfs.github.com/spec/v1\n"
_PACKAGING = re.compile(
    r"(setup\.py|setup\.cfg|(pyproject|tox|hatch)\.toml|tox\.ini|noxfile\.py|\.?pytest\.ini|[^/]*requirements[^/]*\.(txt|in)|requirements/[^/]*\.(txt|in))"
)
MAX_READ = 400
"""Test files that are searched for the names of changed test data."""
MAX_MENTIONING = 12
"""Test files that are run for a fix that changes only test data; more would be the whole suite."""
_PACKAGED = frozenset({"pyproject.toml", "setup.py", "setup.cfg"})


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """Options for creating a task from a commit."""

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
class FixCommit:
    """A commit that fixes something, split into solution and tests. Its repository is no longer locked."""

    commit: Commit
    parts: Split
    patch: bytes
    hidden: Mapping[str, tuple[bytes, bool]]
    detected: DetectedSetup
    packaging: str = ""
    """Digest of the files that decide what is installed."""
    has_submodules: bool = False
    code_patch: bytes = b""
    """The patch without documentation, because setup of some projects rewrites their README."""
    modules: frozenset[str] = frozenset()
    """Names of files and folders in the base repository, each possibly a module."""
    imported: frozenset[str] = frozenset()
    """Every module that the hidden tests import."""

    @property
    def test_sources(self) -> dict[str, bytes]:
        """The hidden Python files."""
        return {name: content for name, (content, _) in self.hidden.items() if name.endswith(".py")}


def read_commit(request: TaskRequest, revision: str, lab: Lab) -> FixCommit:
    """Read a commit, split it and detect its setup."""
    with Histories(lab.state / "snapshots").open(request.repo, Path.cwd()) as history:
        commit = history.commit(revision)
        require_python(history.paths(commit.id), repository_name(request.repo))
        parts = split(commit, first_parent=request.first_parent)
        parent = commit.parents[0]
        hidden = _hidden(history, parts)
        imported = _imported(hidden)
        patch, code = _patches(history, commit, parts)
        paths = history.paths(parent)
        parts = _with_mentioning_tests(history, parent, paths, parts)
        pythons = list(dict.fromkeys(interpreter.short for interpreter in installed()))

        existing, changed = frozenset(paths), {text_of(change.path) for change in commit.changes}

        def read_at(path: str, *, fixed: bool = False) -> str | None:
            revision = commit.id if fixed and path in changed else parent
            if path not in hidden and revision == parent and path not in existing:
                return None
            # The runner's configuration is part of the hidden files, so the plugins it names are needed too.
            content = hidden[path][0] if path in hidden else history.read(revision, path)
            return None if content is None else content.decode("utf-8", "replace")

        projects = _project_folders(paths, parts, read_at)
        release = history.release_before(parent)

        def detected_in(project: str) -> DetectedSetup:
            def read(name: str, *, fixed: bool = False) -> str | None:
                return read_at(f"{project}/{name}" if project else name, fixed=fixed)

            context = DetectionContext(
                date=commit.date,
                pythons=pythons,
                default_python=f"{sys.version_info[0]}.{sys.version_info[1]}",
                release=release,
                imports=_foreign_distributions(imported, paths),
                folder=project,
                added=added_requirements(read, lambda name: read(name, fixed=True)),
            )
            return detect(read, context)

        detected = combine([detected_in(project) for project in projects])
        packaging: dict[str, Json] = {path: read_at(path) for path in _packaging_files(paths, projects)}
        return FixCommit(
            commit=commit,
            parts=parts,
            patch=patch,
            hidden=hidden,
            detected=detected,
            packaging=digest(packaging),
            has_submodules=".gitmodules" in paths,
            code_patch=code,
            modules=_modules(paths),
            imported=imported,
        )


def task_id_of(request: TaskRequest, commit: Commit) -> str:
    return request.task_id or f"{repository_name(request.repo)}-{commit.id[:10]}"


def repository_name(repo: str) -> str:
    """Return the last part of a repository's address that is not generic, such as `mylib` for `…/mylib/repo`."""
    parts = [part.removesuffix(".git") for part in re.split(r"[/:]+", repo.rstrip("/"))]
    specific = [part for part in parts if part and part not in {"repo", ".", "..", "src", "main"}]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", specific[-1] if specific else "repo").strip("-.") or "repo"


def _patches(history: History, commit: Commit, parts: Split) -> tuple[bytes, bytes]:
    """Return the fix, and the fix without documentation."""
    source = [change.path for change in parts.source]
    code = [path for path in source if not is_prose(text_of(path))]
    commit_patch = history.patch(commit.parents[0], commit.id, source)
    return commit_patch, commit_patch if code == source else history.patch(commit.parents[0], commit.id, code)


def _hidden(history: History, parts: Split) -> dict[str, tuple[bytes, bool]]:
    hidden: dict[str, tuple[bytes, bool]] = {}
    for change in parts.tests:
        if change.status == "D":
            continue
        content = history.blob(change.blob)
        name = text_of(change.path)
        if content.startswith(_LFS):
            raise UnsuitableCommit("lfs", f"{name} is a Git LFS pointer; LFS content is not fetched")
        hidden[name] = (content, change.new_mode == "100755")
    size = sum(len(content) for content, _ in hidden.values())
    if size > MAX_HIDDEN_BYTES:
        limit = MAX_HIDDEN_BYTES // 1024**2
        raise UnsuitableCommit(
            "too large", f"the commit's test files are {size / 1024**2:.1f} MiB; the limit is {limit} MiB"
        )
    return hidden


def _with_mentioning_tests(history: History, parent: str, paths: list[str], parts: Split) -> Split:
    """If a fix changes only test data or helpers, run the existing test files that mention them."""
    if parts.runnable:
        return parts
    test_files = [path for path in paths if is_test(path) and is_runnable(path)][:MAX_READ]
    sources = {path: history.read(parent, path) or b"" for path in test_files}
    mentioning = files_mentioning(parts.test_data, sources)
    if not mentioning or len(mentioning) > MAX_MENTIONING:
        count = (
            f"{len(mentioning)} test files mention it, more than {MAX_MENTIONING}"
            if mentioning
            else "no test file mentions it"
        )
        raise UnsuitableCommit(
            "no test change",
            f"the commit changes only test data ({', '.join(parts.test_data[:3])}), and {count}",
            remedy="choose a commit that changes its tests, or write the task by hand: ab task new",
        )
    return dataclasses.replace(parts, runnable=mentioning)


def _project_folders(paths: list[str], parts: Split, read: Callable[[str], str | None]) -> list[str]:
    """Return the folders to install: the root if it is a package, else the nearest package around each changed file."""
    packaged = {str(PurePosixPath(path).parent) for path in paths if PurePosixPath(path).name in _PACKAGED}
    if "." in packaged and is_packaged(read):
        return [""]

    def is_project(folder: str) -> bool:
        # A project inside a test folder is test data.
        return (
            folder in packaged - {"."}
            and not is_test(f"{folder}/x")
            and is_packaged(lambda name: read(f"{folder}/{name}"))
        )

    names = [text_of(change.path) for change in (*parts.source, *parts.tests)]
    changed = [PurePosixPath(name) for name in names if not is_prose(name)]
    folders = [next((str(parent) for parent in path.parents if is_project(str(parent))), "") for path in changed]
    return list(dict.fromkeys(folder for folder in folders if folder)) or [""]


def _packaging_files(paths: list[str], projects: list[str]) -> list[str]:
    """Return the files that decide what is installed."""
    inside = [(path, path.removeprefix(f"{project}/")) for project in projects for path in paths
              if path.startswith(f"{project}/" if project else "")]  # fmt: skip
    return [path for path, name in inside if _PACKAGING.fullmatch(name)]


def _modules(paths: list[str]) -> frozenset[str]:
    return frozenset(part for path in paths for part in (*PurePosixPath(path).parts[:-1], PurePosixPath(path).stem))


def _imported(hidden: Mapping[str, tuple[bytes, bool]]) -> frozenset[str]:
    """Return the top-level modules that the hidden tests import."""
    names: set[str] = set()
    for name, (content, _) in hidden.items():
        tree = parse_or_none(content) if name.endswith(".py") else None
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
    return frozenset(names)


def _foreign_distributions(imported: frozenset[str], paths: list[str]) -> tuple[str, ...]:
    """Return the distributions of imported modules that are not in the base repository, guessed from their names."""
    foreign = sorted(
        name for name in imported - _modules(paths) - set(sys.stdlib_module_names) if not name.startswith("_")
    )
    return tuple(package for name in foreign if (package := distribution_of(name)) and package != "pytest")
