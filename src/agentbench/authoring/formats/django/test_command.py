"""Run tests of a SWE-bench row with `tests/runtests.py`, the runner in Django's own repository.

Its ids are what unittest prints: `test_a (app.tests.Case)`, or the first line of a test's docstring. The check is the
program `runner/django_tests.py`, which becomes a hidden file, starts that runner and writes a JUnit report.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from agentbench.authoring.formats.row_ids import parse_unittest_id
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError

TESTS_FOLDER = "tests"
RUNTESTS = f"{TESTS_FOLDER}/runtests.py"
SETTINGS = "test_sqlite"
PROGRAM_FOLDER = ".agentbench"
"""Folder of our program in the graded tree."""
REPORT = f"{PROGRAM_FOLDER}/report.xml"
COMMAND = f"python -I -S {PROGRAM_FOLDER}/django_tests.py"
HINT = f"python {RUNTESTS}"
PROTECTED = (f"/{TESTS_FOLDER}/**", f"/{PROGRAM_FOLDER}/**")
"""Files that decide the verdict and that a patch must not change: tests, their runner and settings, our program."""
NOTE = (
    f"Tests are run by the repository's own {RUNTESTS}, in the same process as the graded code. A program in\n"
    f"hidden/{PROGRAM_FOLDER} collects the results there. The check's assurance is exit_code: see docs/explanation/assurance.md.\n"
)
_PROGRAM = Path(__file__).parent / "runner/django_tests.py"


@dataclass(frozen=True, slots=True)
class DjangoRun:
    """Labels to pass to `runtests.py`, and the ids to use in the report."""

    labels: tuple[str, ...]
    tests: tuple[str, ...]

    def files(self) -> dict[str, tuple[bytes, bool]]:
        """Return the hidden files of the run, as in a task draft."""
        job = {"folder": TESTS_FOLDER, "settings": SETTINGS, "labels": list(self.labels), "tests": list(self.tests)}
        return {
            f"{PROGRAM_FOLDER}/django_tests.py": (_PROGRAM.read_bytes(), False),
            f"{PROGRAM_FOLDER}/tests.json": (json.dumps(job, indent=1).encode() + b"\n", False),
        }


def is_runner_file(path: str) -> bool:
    """Return whether a hidden file comes from `DjangoRun.files` and not from the row's `test_patch`."""
    return path.startswith(f"{PROGRAM_FOLDER}/")


def has_django_runner(paths: Collection[str]) -> bool:
    return {RUNTESTS, f"{TESTS_FOLDER}/{SETTINGS}.py"} <= set(paths)


def plan_run(tests: Sequence[str], changed: Iterable[str], paths: Collection[str]) -> DjangoRun:
    """Choose the labels for a row. `changed` are the files of `test_patch`, `paths` those of the tree with it applied.

    Raises:
        InputError: nothing can be run, or an id names a module that does not exist.
    """
    labels = [label for path in changed if (label := _label(path))]
    apps = {label.split(".")[0] for label in labels}
    modules = {path.removesuffix(".py").replace("/", ".") for path in paths if path.endswith(".py")}
    others: dict[str, None] = {}
    for test in tests:
        parsed = parse_unittest_id(test)
        if parsed is None:
            continue
        module = _module(parsed.qualname, modules)
        if module is None:
            raise InputError(
                f"{test!r}: no module below {TESTS_FOLDER}/ has this test",
                remedy="correct the id, or remove it from the row",
            )
        # A test_patch with only data gives no labels, so take the app of the id. Docstring ids belong to the same apps.
        if module.split(".")[0] not in apps:
            others[module if labels else module.split(".")[0]] = None
    labels += others
    if not labels:
        raise InputError(
            f"test_patch has no test module below {TESTS_FOLDER}/",
            remedy="remove the row: nothing tells which tests to run",
        )
    return DjangoRun(tuple(dict.fromkeys(labels)), tuple(tests))


def _label(path: str) -> str | None:
    """Return `admin_views.tests` for `tests/admin_views/tests.py`, as SWE-bench does; None for other files."""
    folder, name = posixpath.split(path)
    if not folder.startswith(f"{TESTS_FOLDER}/") or not name.endswith(".py") or name == "__init__.py":
        return None
    return path.removeprefix(f"{TESTS_FOLDER}/").removesuffix(".py").replace("/", ".")


def _module(qualname: str, modules: Collection[str]) -> str | None:
    """Return the module or package of `app.tests.Case`."""
    parts = qualname.split(".")
    for split in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:split])
        if f"{TESTS_FOLDER}.{module}" in modules or f"{TESTS_FOLDER}.{module}.__init__" in modules:
            return module
    return None
