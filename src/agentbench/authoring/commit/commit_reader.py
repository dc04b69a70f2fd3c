"""A commit read from its repository and taken apart: everything that is needed to make a task of it, with the lock free again."""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from agentbench.authoring.commit import statement as statements
from agentbench.authoring.commit.split import (
    MAX_HIDDEN_BYTES,
    Split,
    Unsuitable,
    is_prose,
    is_test,
    runs,
    split,
    text_of,
    users,
)
from agentbench.authoring.environment.detection import Circumstances, Detected, brought, detect, is_packaged, together
from agentbench.authoring.environment.requirements import distribution_of
from agentbench.core.canonical import Json, digest
from agentbench.core.python_syntax import parse as parse_python
from agentbench.run.lab import Lab
from agentbench.sandbox.environments.interpreter import installed
from agentbench.workspace.source.history import Commit, Histories, History

_LFS = b"version https://git-lfs.github.com/spec/v1\n"
_PACKAGING = re.compile(
    r"(setup\.py|setup\.cfg|(pyproject|tox|hatch)\.toml|tox\.ini|noxfile\.py|\.?pytest\.ini|[^/]*requirements[^/]*\.(txt|in)|requirements/[^/]*\.(txt|in))"
)
MAX_READ = 400
"""Files of R that are read at most, to find words in them."""
MAX_USERS = 12
"""Test files that are run for a fix that brings only their data: more of them would be the whole suite."""
_PACKAGED = frozenset({"pyproject.toml", "setup.py", "setup.cfg"})


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
    code: bytes = b""
    """The patch without prose: setup of some projects writes their README anew."""
    modules: frozenset[str] = frozenset()
    """Every name of R's files and folders that may be one of a module."""
    imported: frozenset[str] = frozenset()
    """Every module that the hidden tests import."""


def take(wanted: Wanted, revision: str, lab: Lab) -> Taken:
    """Read a commit and take it apart."""
    with Histories(lab.state / "snapshots").open(wanted.repo, Path.cwd()) as history:
        commit = history.commit(revision)
        parts = split(commit, first_parent=wanted.first_parent)
        parent = commit.parents[0]
        hidden = _hidden(history, parts)
        imported = _imported(hidden)
        patch, code = _patches(history, commit, parts)
        paths = history.paths(parent)
        parts = _with_users(history, parent, paths, parts)
        known = _known(history, parent, paths)
        pythons = list(dict.fromkeys(one.short for one in installed()))

        there, changed = frozenset(paths), {text_of(change.path) for change in commit.changes}

        def read_at(path: str, *, fixed: bool = False) -> str | None:
            at = commit.id if fixed and path in changed else parent
            if path not in hidden and at == parent and path not in there:
                return None
            # What configures the runner comes with the commit, so its plugins are needed too.
            found = hidden[path][0] if path in hidden else history.read(at, path)
            return None if found is None else found.decode("utf-8", "replace")

        projects = _project_folders(paths, parts, read_at)
        release = history.release_before(parent)

        def detected_in(project: str) -> Detected:
            def read(name: str, *, fixed: bool = False) -> str | None:
                return read_at(f"{project}/{name}" if project else name, fixed=fixed)

            around = Circumstances(
                date=commit.date,
                pythons=pythons,
                default_python=f"{sys.version_info[0]}.{sys.version_info[1]}",
                release=release,
                imports=_foreign(imported, paths),
                folder=project,
                brought=brought(read, lambda name: read(name, fixed=True)),
            )
            return detect(read, around)

        detected = together([detected_in(project) for project in projects])
        deciding: dict[str, Json] = {path: read_at(path) for path in _deciding(paths, projects)}
        packaging, linked = digest(deciding), ".gitmodules" in paths
        return Taken(
            commit=commit,
            parts=parts,
            patch=patch,
            hidden=hidden,
            detected=detected,
            known=known,
            packaging=packaging,
            has_submodules=linked,
            code=code,
            modules=_modules(paths),
            imported=imported,
        )


def task_id_of(wanted: Wanted, commit: Commit) -> str:
    return wanted.task_id or f"{repository_name(wanted.repo)}-{commit.id[:10]}"


def repository_name(repo: str) -> str:
    """What people call a repository: the last part of its address that says something."""
    parts = [part.removesuffix(".git") for part in re.split(r"[/:]+", repo.rstrip("/"))]
    telling = [part for part in parts if part and part not in {"repo", ".", "..", "src", "main"}]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", telling[-1] if telling else "repo").strip("-.") or "repo"


def _patches(history: History, commit: Commit, parts: Split) -> tuple[bytes, bytes]:
    """The fix, and the fix without prose."""
    source = [change.path for change in parts.source]
    code = [path for path in source if not is_prose(text_of(path))]
    whole = history.patch(commit.parents[0], commit.id, source)
    return whole, whole if code == source else history.patch(commit.parents[0], commit.id, code)


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


def _with_users(history: History, parent: str, paths: list[str], parts: Split) -> Split:
    """A fix that brings only data or helpers of tests: the test files of R that use them are run."""
    if parts.runnable:
        return parts
    files = [path for path in paths if is_test(path) and runs(path)][:MAX_READ]
    sources = {path: history.read(parent, path) or b"" for path in files}
    found = users(parts.used, sources)
    if not found or len(found) > MAX_USERS:
        why = "no test file mentions" if not found else f"{len(found)} test files mention, more than {MAX_USERS}"
        raise Unsuitable(
            "no test change",
            f"it changes no test file, only what {why} ({', '.join(parts.used[:3])})",
            remedy="give a commit that brings its test along, or write the task by hand: ab task new",
        )
    return dataclasses.replace(parts, runnable=found)


def _known(history: History, parent: str, paths: list[str]) -> frozenset[str]:
    """Every word of R's Python files (of a bounded number of them)."""
    sources = (
        history.read(parent, path) or b"" for path in [path for path in paths if path.endswith(".py")][:MAX_READ]
    )
    return frozenset(statements.words_of(sources))


def _project_folders(paths: list[str], parts: Split, read: Callable[[str], str | None]) -> list[str]:
    """Where the packaging is: the root, else every folder with one that is the nearest above some file that the commit changes."""
    packaged = {str(PurePosixPath(path).parent) for path in paths if PurePosixPath(path).name in _PACKAGED}
    if "." in packaged and is_packaged(read):
        return [""]

    def is_project(folder: str) -> bool:
        # A project that lies among tests is their data.
        return (
            folder in packaged - {"."}
            and not is_test(f"{folder}/x")
            and is_packaged(lambda name: read(f"{folder}/{name}"))
        )

    names = [text_of(change.path) for change in (*parts.source, *parts.tests)]
    changed = [PurePosixPath(name) for name in names if not is_prose(name)]
    found = [next((str(above) for above in path.parents if is_project(str(above))), "") for path in changed]
    return list(dict.fromkeys(folder for folder in found if folder)) or [""]


def _deciding(paths: list[str], projects: list[str]) -> list[str]:
    """Files that decide what is installed."""
    inside = [(path, path.removeprefix(f"{project}/")) for project in projects for path in paths
              if path.startswith(f"{project}/" if project else "")]  # fmt: skip
    return [path for path, name in inside if _PACKAGING.fullmatch(name)]


def _modules(paths: list[str]) -> frozenset[str]:
    return frozenset(part for path in paths for part in (*PurePosixPath(path).parts[:-1], PurePosixPath(path).stem))


def _imported(hidden: Mapping[str, tuple[bytes, bool]]) -> frozenset[str]:
    """Modules that the hidden tests import, by their first names."""
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
    return frozenset(names)


def _foreign(imported: frozenset[str], paths: list[str]) -> tuple[str, ...]:
    """Distributions of what is imported and R does not hold, as far as names tell."""
    foreign = sorted(
        name for name in imported - _modules(paths) - set(sys.stdlib_module_names) if not name.startswith("_")
    )
    return tuple(package for name in foreign if (package := distribution_of(name)) and package != "pytest")
