"""Rows whose tests are run by the runner of Django's own repository, `tests/runtests.py`. Pure but for a file of ours.

Its ids are what unittest prints: `test_a (app.tests.Case)`, or the first line of a test's docstring. The check is a
program of ours among the hidden files (`runner/django_tests.py`), which starts that runner and writes a JUnit report.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentbench.authoring.formats.unittest_ids import understand
from agentbench.core.errors import InputError

FOLDER = "tests"
RUNNER = f"{FOLDER}/runtests.py"
SETTINGS = "test_sqlite"
HOME = ".agentbench"
"""Where our files are in the graded tree."""
REPORT = f"{HOME}/report.xml"
COMMAND = f"python -I -S {HOME}/django_tests.py"
HINT = f"python {RUNNER}"
PROTECTED = (f"/{FOLDER}/**", f"/{HOME}/**")
"""What the verdict goes through and Δ does not decide: tests, their runner and its settings, and our own program."""
NOTE = (
    f"Tests are run by the repository's own {RUNNER}, in the process of the code that is graded; a program of ours in\n"
    f"hidden/{HOME} reads the results there. The check's assurance is exit_code: see docs/assurance.md.\n"
)
_PROGRAM = Path(__file__).parent / "runner/django_tests.py"


@dataclass(frozen=True, slots=True)
class Job:
    """What is run: labels as `runtests.py` takes them, and the ids that the report is to use."""

    labels: tuple[str, ...]
    tests: tuple[str, ...]

    def files(self) -> dict[str, tuple[bytes, bool]]:
        """Hidden files, as a draft has them."""
        job = {"folder": FOLDER, "settings": SETTINGS, "labels": list(self.labels), "tests": list(self.tests)}
        return {
            f"{HOME}/django_tests.py": (_PROGRAM.read_bytes(), False),
            f"{HOME}/tests.json": (json.dumps(job, indent=1).encode() + b"\n", False),
        }


def is_ours(path: str) -> bool:
    """Whether a hidden file is one of those above, and none of a row's `test_patch`."""
    return path.startswith(f"{HOME}/")


def runs_here(paths: Collection[str]) -> bool:
    return {RUNNER, f"{FOLDER}/{SETTINGS}.py"} <= set(paths)


def job_for(tests: Sequence[str], changed: Iterable[str], paths: Collection[str]) -> Job:
    """What to run for a row. `changed`: files that `test_patch` leaves; `paths`: the tree with it applied.

    Raises:
        InputError: nothing can be run, or an id names a module that is not there.
    """
    labels = [label for path in changed if (label := _label(path))]
    apps = {label.split(".")[0] for label in labels}
    modules = {path.removesuffix(".py").replace("/", ".") for path in paths if path.endswith(".py")}
    others: dict[str, None] = {}
    for test in tests:
        named = understand(test)
        if named is None:
            continue
        module = _module(named.place, modules)
        if module is None:
            raise InputError(
                f"{test!r}: no module below {FOLDER}/ has this test",
                remedy="correct the id, or leave it out of the row",
            )
        # A test_patch of data alone says nothing of what to run. Sentences do not either, but they are of the same apps.
        if module.split(".")[0] not in apps:
            others[module if labels else module.split(".")[0]] = None
    labels += others
    if not labels:
        raise InputError(
            f"test_patch has no test module below {FOLDER}/",
            remedy="leave the row out: nothing says which tests to run",
        )
    return Job(tuple(dict.fromkeys(labels)), tuple(tests))


def _label(path: str) -> str | None:
    """`tests/admin_views/tests.py` → `admin_views.tests`, as SWE-bench does it; None for what holds no tests."""
    folder, name = posixpath.split(path)
    if not folder.startswith(f"{FOLDER}/") or not name.endswith(".py") or name == "__init__.py":
        return None
    return path.removeprefix(f"{FOLDER}/").removesuffix(".py").replace("/", ".")


def _module(place: str, modules: Collection[str]) -> str | None:
    """The module of `app.tests.Case`, which may be a package."""
    parts = place.split(".")
    for at in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:at])
        if f"{FOLDER}.{module}" in modules or f"{FOLDER}.{module}.__init__" in modules:
            return module
    return None
