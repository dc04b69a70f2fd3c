"""Map a SWE-bench row's tests to a task's check and back: pytest ids, or a run of Django's own test runner."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from agentbench.authoring.commit.task_draft import TaskDraft
from agentbench.authoring.formats.django import test_command as django_runner
from agentbench.authoring.formats.row_ids import is_pytest_id, parse_unittest_id, pytest_ids, resolve_bare_names
from agentbench.contract.load import LoadedTask
from agentbench.contract.schema import Check
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.tree.entry import Tree

ROW_NAME = "swebench.json"
"""File beside task.yaml with values of the row that the task itself does not contain."""
MAX_SOURCE = 8 * 1024 * 1024
Hidden = Mapping[str, tuple[bytes, bool]]
_MapIds = Callable[[Sequence[str], str], dict[str, str]]


@dataclass(frozen=True, slots=True)
class RowTests:
    """The tests of a row: ids in the task mapped to ids in the row."""

    fail_to_pass: Mapping[str, str]
    pass_to_pass: Mapping[str, str]
    django_run: django_runner.DjangoRun | None = None
    """Set if Django's own runner runs them."""

    def complete(self, draft: TaskDraft, hidden: Hidden) -> TaskDraft:
        """Add the check and its files to a draft."""
        fail_to_pass, pass_to_pass = tuple(self.fail_to_pass), tuple(self.pass_to_pass)
        draft = dataclasses.replace(draft, fail_to_pass=fail_to_pass, pass_to_pass=pass_to_pass)
        if self.django_run is None:
            files = dict.fromkeys(test.split("::")[0] for test in (*fail_to_pass, *pass_to_pass))
            return dataclasses.replace(draft, hidden=hidden, command=f"{draft.command} {quoted(files)}")
        return dataclasses.replace(
            draft,
            hidden={**hidden, **self.django_run.files()},
            command=django_runner.COMMAND,
            report=django_runner.REPORT,
            protected=django_runner.PROTECTED,
            hint=django_runner.HINT,
            notes=f"{draft.notes}\n{django_runner.NOTE}",
        )

    def write_origin(self, repo: str, folder: Path) -> None:
        """Record the row's repository name, and its test ids where they differ from the task's."""
        renamed = {test: row for test, row in {**self.fail_to_pass, **self.pass_to_pass}.items() if test != row}
        text = json.dumps({"schema_version": 1, "repo": repo, "ids": renamed}, indent=1, ensure_ascii=False)
        (folder / ROW_NAME).write_text(text + "\n", encoding="utf-8")


def quoted(words: Iterable[str]) -> str:
    return " ".join("'" + word.replace("'", "'\"'\"'") + "'" for word in words)


def row_tests(fail_to_pass: Sequence[str], pass_to_pass: Sequence[str], hidden: Hidden, patched: Tree) -> RowTests:
    """Decide how to run the tests of a row. `patched` is the base repository with `test_patch`, which wrote `hidden`.

    Raises:
        InputError: the ids cannot be run; with a remedy.
    """

    def mapped(map_ids: _MapIds, django_run: django_runner.DjangoRun | None = None) -> RowTests:
        return RowTests(map_ids(fail_to_pass, "FAIL_TO_PASS"), map_ids(pass_to_pass, "PASS_TO_PASS"), django_run)

    ids = (*fail_to_pass, *pass_to_pass)
    if all(is_pytest_id(test) for test in ids):
        return mapped(_unchanged)
    paths = [entry.path.decode("utf-8", "surrogateescape") for entry in patched.entries()]
    if django_runner.has_django_runner(paths):
        return mapped(_unchanged, django_runner.plan_run(ids, hidden, paths))
    if not any(parse_unittest_id(test) for test in ids):
        files = {path: content for path, (content, _) in hidden.items()}
        return mapped(lambda tests, key: resolve_bare_names(tests, files, key))

    def read(path: str) -> str:
        return patched.read(path.encode("utf-8", "surrogateescape"), max_bytes=MAX_SOURCE).decode("utf-8", "replace")

    return mapped(lambda tests, key: pytest_ids(tests, paths, read, key))


def _unchanged(tests: Sequence[str], _key: str) -> dict[str, str]:
    return {test: test for test in tests}


# --- from a task to a row ----------------------------------------------------------------------------------------


def is_exportable(check: Check) -> bool:
    """Return whether a row can express a check."""
    django = check.parser == "junit" and check.command == django_runner.COMMAND
    return bool(check.fail_to_pass) and (check.parser == "pytest" or django)


@dataclass(frozen=True, slots=True)
class Origin:
    """Values of the row from which a task was imported."""

    repo: str | None = None
    ids: Mapping[str, str] = field(default_factory=dict)

    def row_ids(self, tests: Sequence[str]) -> list[str]:
        """Return the row's ids of some tests."""
        return [self.ids.get(test, test) for test in tests]


def read_origin(task: LoadedTask) -> Origin:
    """Read the row's values beside a task; empty for tasks that were not imported.

    Raises:
        InputError: the file exists and cannot be read.
    """
    file = task.folder / ROW_NAME
    if not file.exists():
        return Origin()
    try:
        origin = json.loads(file.read_text(encoding="utf-8"))
        return Origin(str(origin["repo"]), {str(test): str(row) for test, row in origin["ids"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{file}: cannot read: {error}", remedy="remove it to export the task's own test ids"
        ) from None
