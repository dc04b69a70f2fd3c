"""Where the repository and the files of a task may lie, and whether they are there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from agentbench.contract.problem import KeyPath
from agentbench.contract.schema import Repo, Task
from agentbench.contract.task_files import FileTrouble, hidden_paths, inside, regular

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(://|::)")
_SCP = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:(?!//).+")
_PYPI = re.compile(r"pypi:[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9._+!-]*")
_GIT_SCHEMES = frozenset({"https", "http", "ssh", "git", "file"})
_ARCHIVE_SCHEMES = frozenset({"https", "http", "file"})

Found: TypeAlias = Iterator[tuple[KeyPath, str]]


def misplaced(task: Task, folder: Path) -> Found:
    """Every problem of where R comes from and lies."""
    yield from _source(task, folder)
    yield from _source_apart(task, folder)


def _source(task: Task, folder: Path) -> Found:
    repo = task.repo
    if not isinstance(repo, Repo):
        return
    given = [name for name in ("url", "archive", "path") if getattr(repo, name) is not None]
    if len(given) != 1:
        words = f"got {' and '.join(given)}" if given else "got none of them"
        yield ("repo",), f"expected exactly one of `url` + `commit`, `archive` + `sha256`, `path`; {words}"
        return
    for key, owner in (("commit", "url"), ("sha256", "archive")):
        value = getattr(repo, key)
        if given == [owner] and value is None:
            yield ("repo", owner), f"`{owner}` needs `{key}`: a source that can change is not a contract"
        if given != [owner] and value is not None:
            yield ("repo", key), f"`{key}` belongs to `{owner}`, which is not given"
    if repo.commit is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]*", repo.commit):
        yield ("repo", "commit"), "expected a commit id"
    if repo.subdir is not None and (repo.subdir.startswith("/") or ".." in Path(repo.subdir).parts):
        yield ("repo", "subdir"), "expected a path inside the repository"
    if repo.url is not None:
        yield from _location(folder, ("repo", "url"), repo.url, _GIT_SCHEMES)
    if repo.archive is not None and not _PYPI.fullmatch(repo.archive):
        yield from _location(folder, ("repo", "archive"), repo.archive, _ARCHIVE_SCHEMES)
    if repo.path is not None and not _exists(folder / repo.path, folder=True):
        yield ("repo", "path"), f"expected a folder; {repo.path} is not one (relative to the task file)"


def _location(folder: Path, key: KeyPath, source: str, schemes: frozenset[str]) -> Found:
    if source.startswith("-"):
        yield key, "may not start with a dash"
    elif source.startswith("pypi:"):
        yield key, "expected pypi:NAME==VERSION"
    elif match := _SCHEME.match(source):
        if match[2] == "::" or match[1].lower() not in schemes:
            yield key, f"expected a path or a URL of {', '.join(sorted(schemes))}; got {match[0]}"
    elif key[-1] == "url" and _SCP.fullmatch(source):
        return
    elif not _exists(folder / source, folder=key[-1] == "url"):
        yield key, f"{source} does not exist (relative to the task file)"


def _exists(path: Path, *, folder: bool) -> bool:
    try:
        return path.is_dir() if folder else path.is_file()
    except (OSError, ValueError):
        return False


def is_file(root: Path, path: str) -> bool:
    """Whether a folder has a file or a link under this path."""
    try:
        place = root / path
        return place.is_symlink() or place.is_file()
    except (OSError, ValueError):
        return False


def _source_apart(task: Task, folder: Path) -> Found:
    """R by folder must not hold the task's own secrets: everything in R reaches the agent (C-10)."""
    if not isinstance(task.repo, Repo) or task.repo.path is None or not _exists(folder / task.repo.path, folder=True):
        return
    root = (folder / task.repo.path).resolve()
    if _within(folder, root):
        yield ("repo", "path"), "holds the task's own folder: its hidden files and reference would reach the agent"
        return
    for key, name in _own_files(task):
        if name is not None and _within(folder / name, root):
            yield key, f"{name} lies inside `repo.path` and would reach the agent"


def _within(path: Path, root: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError, ValueError):
        # A link loop or an impossible name: said where the file itself is looked for.
        return False


def _own_files(task: Task) -> Iterator[tuple[KeyPath, str | None]]:
    yield ("oracle", "hidden"), task.oracle.hidden
    yield ("reference",), task.reference
    for index, check in enumerate(task.oracle.checks):
        yield ("oracle", "checks", index, "driver"), check.driver


def absent(task: Task, folder: Path) -> Found:
    """Every file that a task names and that is not there, or not where it may be."""
    wanted: list[tuple[KeyPath, str | None]] = [
        (("statement_file",), task.statement_file),
        (("environment", "dockerfile"), task.environment.dockerfile),
        (("reference",), task.reference),
    ]
    wanted += [(("oracle", "checks", index, "driver"), check.driver) for index, check in enumerate(task.oracle.checks)]
    for key, name in wanted:
        if name is None:
            continue
        try:
            regular(inside(folder, name), name)
        except FileTrouble as trouble:
            yield key, str(trouble)
    if task.oracle.hidden is not None:
        yield from _hidden(task.oracle.hidden, folder)


def _hidden(name: str, folder: Path) -> Found:
    key: KeyPath = ("oracle", "hidden")
    try:
        path = inside(folder, name)
        if not path.is_dir():
            yield key, f"{name} is not a folder"
        elif path.resolve() == folder.resolve():
            yield key, "expected a folder of its own beside task.yaml"
        elif not sum(1 for _ in hidden_paths(path)):
            yield key, f"{name} holds no files"
    except FileTrouble as trouble:
        yield key, str(trouble)
