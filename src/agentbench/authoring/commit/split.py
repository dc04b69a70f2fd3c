"""Split a commit into the solution and its tests. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import TaskError
from agentbench.workspace.source.history import SUBMODULE, SYMLINK, Commit, CommitChange

_TEST_FOLDERS = frozenset(
    {"test", "tests", "testing", "unit_tests", "unittests", "functional_tests", "integration_tests"}
)
_TEST_FILE = re.compile(r"test_.*\.py|.*_tests?\.py|tests?\.py|conftest\.py")
_AMBIGUOUS = frozenset({"test.py", "tests.py"})
"""Tests of a small project, or modules of the product such as `werkzeug/test.py` and `jinja2/tests.py`."""
_RUNNER_FILES = frozenset({"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "conftest.py"})
_PROSE = frozenset({".md", ".rst", ".txt", ".adoc"})
_DOCUMENTATION = frozenset({".md", ".rst"})
_PROSE_FOLDERS = frozenset({"doc", "docs", "changelog", "changes", "news", "newsfragments", "changelog.d", ".github"})
MAX_FILES = 60
MAX_HIDDEN_BYTES = 8 * 1024 * 1024
_NO_TEST_REMEDY = "choose a commit that changes its tests, or write the task by hand: ab task new"

Kind = Literal[
    "dependency drift", "does not fail on parent", "empty commit", "fails with the fix", "flaky", "hangs on parent",
    "language", "lfs", "merge commit", "missing module", "needs network", "no source change", "no test change", "out of memory",
    "patch", "python", "refused by the oracle", "root commit", "setup failed", "skipped", "submodule", "symlink",
    "tests cannot run", "timing-dependent", "too large", "too slow",
]  # fmt: skip


class UnsuitableCommit(TaskError):
    """A commit that cannot become a task. `kind` groups the reasons. Exit code 2, because the user chose the commit."""

    exit_code = 2

    def __init__(self, kind: Kind, message: str, *, remedy: str = "", tests: Sequence[str] = ()) -> None:
        """`tests` lists the test ids (or missing modules) that the message is about."""
        super().__init__(message, remedy=remedy)
        self.kind: Kind = kind
        self.tests = tuple(tests)
        self.skips: tuple[str, ...] = ()
        """Why tests are skipped; the environment may be able to provide what they need."""


@dataclass(frozen=True, slots=True)
class Split:
    """A commit's changes by role."""

    source: tuple[CommitChange, ...]
    tests: tuple[CommitChange, ...]
    runnable: tuple[str, ...]
    """Added or changed test files that pytest can run."""
    removed_tests: tuple[str, ...]
    test_data: tuple[str, ...] = ()
    """If nothing is runnable: changed data and helpers of tests, to find the existing test files that use them."""


def text_of(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def is_test(path: str) -> bool:
    """Return whether a path belongs to the tests, by its folder or name, or because it configures the test runner."""
    parts = PurePosixPath(path)
    if parts.name in _RUNNER_FILES:
        return True
    if _in_tests(parts):
        # A `testing` package may be for users of the product, like numpy.testing: only test files count there.
        return "testing" not in {part.lower() for part in parts.parts[:-1]} or bool(_TEST_FILE.fullmatch(parts.name))
    return bool(_TEST_FILE.fullmatch(parts.name))


def is_prose(path: str) -> bool:
    parts = PurePosixPath(path)
    return parts.suffix.lower() in _PROSE or any(part.lower() in _PROSE_FOLDERS for part in parts.parts[:-1])


def split(commit: Commit, *, first_parent: bool = False) -> Split:
    """Split a commit into the solution and its tests.

    Raises:
        UnsuitableCommit: the commit cannot become a task.
    """
    short = commit.id[:12]
    if not commit.parents:
        raise UnsuitableCommit("root commit", f"{short} is the first commit, so it has no base to start from")
    if len(commit.parents) > 1 and not first_parent:
        raise UnsuitableCommit(
            "merge commit",
            f"{short} is a merge of {len(commit.parents)} parents",
            remedy="pass the commit that was merged, or --first-parent to treat the merge as one change",
        )
    if not commit.changes:
        raise UnsuitableCommit("empty commit", f"{short} changes no files")
    links = [text_of(change.path) for change in commit.changes if SUBMODULE in {change.old_mode, change.new_mode}]
    if links:
        raise UnsuitableCommit("submodule", f"{short} updates the submodule {links[0]}, which a patch cannot express")
    if len(commit.changes) > MAX_FILES:
        raise UnsuitableCommit("too large", f"{short} changes {len(commit.changes)} files, more than {MAX_FILES}")
    tests = _tests(commit.changes)
    source = tuple(change for change in commit.changes if change not in tests)
    _check_split(short, source, tests)
    runnable = tuple(sorted(path for path in _remaining(tests) if is_runnable(path)))
    test_data = () if runnable else tuple(sorted(path for path in _remaining(tests) if _is_test_data(path)))
    if not runnable and not test_data:
        raise UnsuitableCommit(
            "no test change",
            f"{short} changes no test files (test_*.py, *_test.py) and no test data",
            remedy=_NO_TEST_REMEDY,
        )
    return Split(
        source, tests, runnable, tuple(text_of(change.path) for change in tests if change.status == "D"), test_data
    )


def _tests(changes: Sequence[CommitChange]) -> tuple[CommitChange, ...]:
    """Return the changes that belong to tests. Ambiguous names count only if nothing else can be run."""
    tests = tuple(change for change in changes if is_test(text_of(change.path)))
    certain = tuple(change for change in tests if not _is_ambiguous(text_of(change.path)))
    return certain if any(is_runnable(path) for path in _remaining(certain)) else tests


def _is_ambiguous(path: str) -> bool:
    parts = PurePosixPath(path)
    return parts.name in _AMBIGUOUS and not _in_tests(parts)


def _in_tests(path: PurePosixPath) -> bool:
    return any(part.lower() in _TEST_FOLDERS for part in path.parts[:-1])


def _check_split(short: str, source: Sequence[CommitChange], tests: Sequence[CommitChange]) -> None:
    if not tests:
        raise UnsuitableCommit(
            "no test change", f"{short} changes no tests, so nothing could verify a solution", remedy=_NO_TEST_REMEDY
        )
    if not [change for change in source if not is_prose(text_of(change.path))]:
        raise UnsuitableCommit(
            "no source change", f"{short} changes only tests and documentation, so there is nothing to solve"
        )
    symlinks = [text_of(change.path) for change in tests if change.new_mode == SYMLINK]
    if symlinks:
        raise UnsuitableCommit(
            "symlink", f"{short}: the test file {symlinks[0]} is a symlink; hidden files must be regular files"
        )


def _remaining(tests: Sequence[CommitChange]) -> list[str]:
    return [text_of(change.path) for change in tests if change.status != "D"]


def is_runnable(path: str) -> bool:
    """Return whether pytest can run a file."""
    name = PurePosixPath(path).name
    return bool(_TEST_FILE.fullmatch(name)) and name != "conftest.py"


def _is_test_data(path: str) -> bool:
    """Return whether a file in a test folder is data or a helper of some tests, not documentation or configuration."""
    parts = PurePosixPath(path)
    if parts.name in _RUNNER_FILES or parts.name.startswith("__init__.") or "requirements" in parts.name:
        return False
    return _in_tests(parts) and parts.suffix.lower() not in _DOCUMENTATION


def files_mentioning(test_data: Sequence[str], sources: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the test files that mention any of the data files by file name, or helpers by module name."""
    mentioning: list[str] = []
    for path in test_data:
        name = PurePosixPath(path)
        pattern = (
            rf"\b{re.escape(name.stem)}\b" if name.suffix == ".py" else rf"(?<![\w.-]){re.escape(name.name)}(?![\w-])"
        )
        mentioning += [
            file for file, content in sources.items() if re.search(pattern.encode("utf-8", "surrogateescape"), content)
        ]
    return tuple(dict.fromkeys(sorted(mentioning)))
