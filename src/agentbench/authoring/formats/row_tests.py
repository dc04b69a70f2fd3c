"""What a row's test ids come to in its repository: ids of pytest, or a run of the repository's own runner; and the way back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.authoring.commit.task_draft import Draft
from agentbench.authoring.formats.django import test_command as django_runner
from agentbench.authoring.formats.test_ids import tied, whole
from agentbench.authoring.formats.unittest_ids import for_pytest, understand
from agentbench.contract.load import LoadedTask
from agentbench.contract.schema import Check
from agentbench.core.errors import InputError
from agentbench.tree.entry import Tree

ROW_NAME = "swebench.json"
"""Beside task.yaml: what of the row it does not hold."""
MAX_SOURCE = 8 * 1024 * 1024
Hidden = Mapping[str, tuple[bytes, bool]]
_Tie = Callable[[Sequence[str], str], dict[str, str]]


@dataclass(frozen=True, slots=True)
class RowTests:
    """The tests of a row. Both lists: the id in the task, with the row's own."""

    fail_to_pass: Mapping[str, str]
    pass_to_pass: Mapping[str, str]
    job: django_runner.Job | None = None
    """Where Django's own runner runs them."""

    def completed(self, draft: Draft, hidden: Hidden) -> Draft:
        """The draft with its check and the files of it."""
        wanted, kept = tuple(self.fail_to_pass), tuple(self.pass_to_pass)
        draft = dataclasses.replace(draft, fail_to_pass=wanted, pass_to_pass=kept)
        if self.job is None:
            named = dict.fromkeys(test.split("::")[0] for test in (*wanted, *kept))
            return dataclasses.replace(draft, hidden=hidden, command=f"{draft.command} {quoted(named)}")
        return dataclasses.replace(
            draft,
            hidden={**hidden, **self.job.files()},
            command=django_runner.COMMAND,
            report=django_runner.REPORT,
            protected=django_runner.PROTECTED,
            hint=django_runner.HINT,
            notes=f"{draft.notes}\n{django_runner.NOTE}",
        )

    def remember(self, repo: str, folder: Path) -> None:
        """Keep what a task does not say: the repository's name, and the row's ids where the task's are others."""
        renamed = {test: row for test, row in {**self.fail_to_pass, **self.pass_to_pass}.items() if test != row}
        text = json.dumps({"schema_version": 1, "repo": repo, "ids": renamed}, indent=1, ensure_ascii=False)
        (folder / ROW_NAME).write_text(text + "\n", encoding="utf-8")


def quoted(words: Iterable[str]) -> str:
    return " ".join("'" + word.replace("'", "'\"'\"'") + "'" for word in words)


@dataclass(frozen=True, slots=True)
class Lists:
    """FAIL_TO_PASS and PASS_TO_PASS as the row has them."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    all: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "all", (*self.fail_to_pass, *self.pass_to_pass))

    def by(self, tie: _Tie, job: django_runner.Job | None = None) -> RowTests:
        return RowTests(tie(self.fail_to_pass, "FAIL_TO_PASS"), tie(self.pass_to_pass, "PASS_TO_PASS"), job)


def row_tests(lists: Lists, hidden: Hidden, after: Tree) -> RowTests:
    """How the tests of a row are run. `after`: R with `test_patch` applied, of which `hidden` is what it writes.

    Raises:
        InputError: ids that cannot be run here, with what to do.
    """
    if all(whole(test) for test in lists.all):
        return lists.by(_as_they_are)
    paths = [entry.path.decode("utf-8", "surrogateescape") for entry in after.entries()]
    if django_runner.runs_here(paths):
        return lists.by(_as_they_are, django_runner.job_for(lists.all, hidden, paths))
    if not any(understand(test) for test in lists.all):
        files = {path: content for path, (content, _) in hidden.items()}
        return lists.by(lambda tests, key: tied(tests, files, key))

    def read(path: str) -> str:
        return after.read(path.encode("utf-8", "surrogateescape"), max_bytes=MAX_SOURCE).decode("utf-8", "replace")

    return lists.by(lambda tests, key: for_pytest(tests, paths, read, key))


def _as_they_are(tests: Sequence[str], _key: str) -> dict[str, str]:
    return {test: test for test in tests}


# --- the way back ------------------------------------------------------------------------------------------------


def says_tests(check: Check) -> bool:
    """Whether a row can say what a check asks for."""
    ours = check.parser == "junit" and check.command == django_runner.COMMAND
    return bool(check.fail_to_pass) and (check.parser == "pytest" or ours)


@dataclass(frozen=True, slots=True)
class Origin:
    """The row that a task was made from, as far as the task itself does not tell."""

    repo: str | None = None
    ids: Mapping[str, str] = field(default_factory=dict)

    def of(self, tests: Sequence[str]) -> list[str]:
        """What the row called them."""
        return [self.ids.get(test, test) for test in tests]


def origin(task: LoadedTask) -> Origin:
    """
    Raises:
        InputError: the file that tells cannot be read.
    """
    file = task.folder / ROW_NAME
    if not file.exists():
        return Origin()
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return Origin(str(found["repo"]), {str(test): str(row) for test, row in found["ids"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{file} cannot be read: {error}", remedy="remove it: the row then has the task's own ids"
        ) from None
