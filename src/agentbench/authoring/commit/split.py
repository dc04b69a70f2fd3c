"""A commit taken apart: what solves the problem, and what tests it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from agentbench.core.errors import TaskError
from agentbench.workspace.source.history import LINK, SYMLINK, Change, Commit

_TEST_FOLDERS = frozenset(
    {"test", "tests", "testing", "unit_tests", "unittests", "functional_tests", "integration_tests"}
)
_TEST_FILE = re.compile(r"test_.*\.py|.*_tests?\.py|tests?\.py|conftest\.py")
_AMBIGUOUS = frozenset({"test.py", "tests.py"})
"""Tests of a small project, or a module of the product, as `werkzeug/test.py` and `jinja2/tests.py` are."""
_RUNNER_FILES = frozenset({"pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "conftest.py"})
_PROSE = frozenset({".md", ".rst", ".txt", ".adoc"})
_ABOUT = frozenset({".md", ".rst"})
_PROSE_FOLDERS = frozenset({"doc", "docs", "changelog", "changes", "news", "newsfragments", "changelog.d", ".github"})
MAX_FILES = 60
MAX_HIDDEN_BYTES = 8 * 1024 * 1024


Kind = Literal[
    "dependency drift", "does not fail on parent", "empty commit", "fails with the fix", "flaky", "hangs on parent",
    "lfs", "merge commit", "missing module", "needs network", "no source change", "no test change", "out of memory",
    "patch", "python", "refused by the oracle", "root commit", "setup failed", "skipped", "submodule", "symlink",
    "tests cannot run", "timing-dependent", "too large", "too slow",
]  # fmt: skip


class Unsuitable(TaskError):
    """A commit that cannot become a task; `kind` groups the reasons in tables. The choice of the commit is the user's: exit 2."""

    exit_code = 2

    def __init__(self, kind: Kind, message: str, *, remedy: str = "", tests: Sequence[str] = ()) -> None:
        """`tests`: the ids it is about."""
        super().__init__(message, remedy=remedy)
        self.kind: Kind = kind
        self.tests = tuple(tests)
        self.skips: tuple[str, ...] = ()
        """Why tests are skipped here: what they miss may be had."""


@dataclass(frozen=True, slots=True)
class Split:
    """`runnable`: test files that pytest can be given, of those that the commit added or changed."""

    source: tuple[Change, ...]
    tests: tuple[Change, ...]
    runnable: tuple[str, ...]
    removed_tests: tuple[str, ...]
    used: tuple[str, ...] = ()
    """Where there are none: data and helpers of tests that the commit brings; test files that use them are looked for in R."""


def text_of(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def is_test(path: str) -> bool:
    """Whether a path belongs to the tests: by its folder, by its name, or as what configures the runner."""
    parts = PurePosixPath(path)
    if parts.name in _RUNNER_FILES:
        return True
    if _in_tests(parts):
        # A package may ship a module for its users' tests, as numpy.testing is: only what looks like tests counts there.
        return "testing" not in {part.lower() for part in parts.parts[:-1]} or bool(_TEST_FILE.fullmatch(parts.name))
    return bool(_TEST_FILE.fullmatch(parts.name))


def is_prose(path: str) -> bool:
    parts = PurePosixPath(path)
    return parts.suffix.lower() in _PROSE or any(part.lower() in _PROSE_FOLDERS for part in parts.parts[:-1])


def split(commit: Commit, *, first_parent: bool = False) -> Split:
    """Take a fix apart.

    Raises:
        Unsuitable: with the reason, when it cannot become a task.
    """
    short = commit.id[:12]
    if not commit.parents:
        raise Unsuitable("root commit", f"{short} is the first commit: there is nothing before it to solve it from")
    if len(commit.parents) > 1 and not first_parent:
        raise Unsuitable(
            "merge commit",
            f"{short} is a merge of {len(commit.parents)} parents",
            remedy="give the commit that was merged, or --first-parent to take the merge as one change",
        )
    if not commit.changes:
        raise Unsuitable("empty commit", f"{short} changes no file")
    links = [text_of(change.path) for change in commit.changes if LINK in {change.old_mode, change.new_mode}]
    if links:
        raise Unsuitable("submodule", f"{short} moves the submodule {links[0]}; a patch cannot carry that")
    if len(commit.changes) > MAX_FILES:
        raise Unsuitable("too large", f"{short} changes {len(commit.changes)} files, more than {MAX_FILES}")
    tests = _tests(commit.changes)
    source = tuple(change for change in commit.changes if change not in tests)
    _demand(short, source, tests)
    runnable = tuple(sorted(path for path in _kept(tests) if runs(path)))
    used = () if runnable else tuple(sorted(path for path in _kept(tests) if _is_used(path)))
    if not runnable and not used:
        raise Unsuitable(
            "no test change",
            f"{short} adds or changes no file that pytest collects (test_*.py, *_test.py), nor data of tests",
            remedy="give a commit that brings its test along, or write the task by hand: ab task new",
        )
    return Split(source, tests, runnable, tuple(text_of(one.path) for one in tests if one.status == "D"), used)


def _tests(changes: Sequence[Change]) -> tuple[Change, ...]:
    """What belongs to the tests. A name that may be a module's counts only where nothing else can be run."""
    found = tuple(change for change in changes if is_test(text_of(change.path)))
    sure = tuple(change for change in found if not _ambiguous(text_of(change.path)))
    return sure if any(runs(path) for path in _kept(sure)) else found


def _ambiguous(path: str) -> bool:
    parts = PurePosixPath(path)
    return parts.name in _AMBIGUOUS and not _in_tests(parts)


def _in_tests(path: PurePosixPath) -> bool:
    return any(part.lower() in _TEST_FOLDERS for part in path.parts[:-1])


def _demand(short: str, source: Sequence[Change], tests: Sequence[Change]) -> None:
    if not tests:
        raise Unsuitable(
            "no test change",
            f"{short} changes no test: nothing would tell a solution from an attempt",
            remedy="give a commit that brings its test along, or write the task by hand: ab task new",
        )
    if not [change for change in source if not is_prose(text_of(change.path))]:
        raise Unsuitable("no source change", f"{short} changes only tests and prose: there is nothing to solve")
    linked = [text_of(change.path) for change in tests if change.new_mode == SYMLINK]
    if linked:
        raise Unsuitable("symlink", f"{short}: the test file {linked[0]} is a symlink; hidden files are regular files")


def _kept(tests: Sequence[Change]) -> list[str]:
    return [text_of(change.path) for change in tests if change.status != "D"]


def runs(path: str) -> bool:
    """Whether pytest can be given a file."""
    name = PurePosixPath(path).name
    return bool(_TEST_FILE.fullmatch(name)) and name != "conftest.py"


def _is_used(path: str) -> bool:
    """Data or a helper of tests: in a folder of theirs, and neither about them nor for all of them."""
    parts = PurePosixPath(path)
    if parts.name in _RUNNER_FILES or parts.name.startswith("__init__.") or "requirements" in parts.name:
        return False
    return _in_tests(parts) and parts.suffix.lower() not in _ABOUT


def users(used: Sequence[str], sources: Mapping[str, bytes]) -> tuple[str, ...]:
    """Test files, of some, that speak of data or helpers by the name of the file or of the module. Pure."""
    found: list[str] = []
    for path in used:
        name = PurePosixPath(path)
        words = (
            rf"\b{re.escape(name.stem)}\b" if name.suffix == ".py" else rf"(?<![\w.-]){re.escape(name.name)}(?![\w-])"
        )
        found += [
            file for file, content in sources.items() if re.search(words.encode("utf-8", "surrogateescape"), content)
        ]
    return tuple(dict.fromkeys(sorted(found)))
