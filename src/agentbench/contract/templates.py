"""New suites and tasks: the texts that `ab init` and `ab task new` write."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentbench.contract.load import TASK_NAME, LoadedTask, load_task
from agentbench.contract.suite import DEMO
from agentbench.core.errors import ContractError, InputError

FIRST_TASK = "median-even"
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class NewTask:
    """What the author of a new task already knows; without a source the task brings a small package of its own."""

    url: str | None = None
    commit: str | None = None
    archive: str | None = None
    sha256: str | None = None
    path: str | None = None
    test_command: str = "python -m pytest -q"

    @property
    def has_source(self) -> bool:
        return any(value is not None for value in (self.url, self.archive, self.path, self.commit, self.sha256))


def new_suite(folder: Path) -> LoadedTask:
    """Make a suite with one task that is valid and can be run at once.

    Raises:
        InputError: the folder is there already, or its name cannot be a suite's.
    """
    name = folder.absolute().name
    if name == DEMO:
        raise InputError("demo is the name of the bundled suite", remedy="choose another name")
    _fit(name, "suite")
    existed = folder.exists()
    if existed and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not an empty folder", remedy="choose another name")
    texts = {"scenario.yaml": _SCENARIO, "README.md": _README.replace("@SUITE@", name)}
    texts |= {f"{FIRST_TASK}/{file}": text for file, text in _example(FIRST_TASK, name).items()}
    return _write(folder, texts, folder / FIRST_TASK, keep_folder=existed)


def new_task(folder: Path, wanted: NewTask) -> LoadedTask:
    """Make one task; the suite is the name of the folder around it.

    Raises:
        InputError: the folder is there already, or a name cannot be used.
        ContractError: what was asked for does not make a valid task (nothing is left behind).
    """
    slug, suite = folder.absolute().name, folder.absolute().parent.name
    _fit(slug, "task")
    _fit(suite, "suite")
    # A folder that already holds R (`--repo-path repo`) is where its task belongs.
    filled = folder.exists() and wanted.path is not None
    if folder.exists() and (not filled or (folder / TASK_NAME).exists()):
        raise InputError(f"{folder} exists already", remedy="choose another name")
    texts = _of_source(slug, suite, wanted) if wanted.has_source else _example(slug, suite)
    return _write(folder, texts, folder, keep_folder=filled)


def _fit(name: str, what: str) -> None:
    if not _SLUG.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of a {what}", remedy="use letters, digits, dots, dashes and underscores"
        )


def _write(folder: Path, texts: Mapping[str, str], task: Path, *, keep_folder: bool = False) -> LoadedTask:
    try:
        for name, text in texts.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    try:
        return load_task(task)
    except ContractError:
        if not keep_folder:
            shutil.rmtree(folder)
        else:
            for name in texts:
                (folder / name).unlink(missing_ok=True)
        raise


def _of_source(slug: str, suite: str, wanted: NewTask) -> dict[str, str]:
    keys = ("url", "commit", "archive", "sha256", "path")
    source = [f"  {key}: {json.dumps(value)}" for key in keys if (value := getattr(wanted, key)) is not None]
    text = _SOURCE_TASK.replace("@ID@", json.dumps(slug)).replace("@SUITE@", json.dumps(suite))
    text = text.replace("@REPO@", "\n".join(source)).replace("@COMMAND@", json.dumps(wanted.test_command))
    return {
        TASK_NAME: text,
        "statement.md": "Describe here what is wrong, as the issue would: what happens, what should happen.\n",
        "notes.md": "Notes for people; no agent sees them and they are no part of the contract.\n",
    }


def _example(slug: str, suite: str) -> dict[str, str]:
    text = _EXAMPLE_TASK.replace("@ID@", json.dumps(slug)).replace("@SUITE@", json.dumps(suite))
    return {
        TASK_NAME: text,
        "notes.md": "Notes for people; no agent sees them and they are no part of the contract.\n",
        "repo/tinystats/__init__.py": _PACKAGE,
        "repo/tests/test_tinystats.py": _VISIBLE,
        "hidden/tests/test_tinystats_hidden.py": _HIDDEN,
        "reference.patch": _REFERENCE,
    }


_README = """\
# @SUITE@

One folder per task, each with a `task.yaml`. From the folder above this one:

    ab task check @SUITE@                               # schema and files; nothing runs
    ab validate-tasks --suite @SUITE@ --tasks-dir .     # the baseline fails, the reference passes, nothing flakes
    ab run --suite @SUITE@ --tasks-dir . --agent noop
"""

_SCENARIO = """\
# What holds for every task of this suite. `ab task lock` freezes scorers and judge into each task;
# editing them later changes nothing for a locked task.
scorers:
  - name: small change
    type: max_files_changed
    limit: 5
  - name: no secrets
    type: forbid_secrets
# Weights of the graded score among patches that pass every gate; they sum to 1.
weights: {minimal: 0.4, trace: 0.2, maintainability: 0.4}
"""

_EXAMPLE_TASK = """\
# One task = one executable contract. Everything here is checked: `ab task check` names what is wrong and where.
schema_version: 1
id: @ID@
suite: @SUITE@
title: median of an even number of values

# What the agent is told. The acceptance checks below are told apart from it.
statement: |
  `tinystats.median([1, 2, 3, 4])` returns 3. For an even number of values it should return
  the mean of the two middle ones, here 2.5. An odd number of values already works.
hints:
  test_command: python -m pytest -q
strata: {ecosystem: python, kind: bugfix, test_runtime: short, dependencies: small}

# R: the repository the agent starts from. Instead of a folder: `url` + `commit`, or `archive` + `sha256`.
repo:
  path: repo

# E: limits and network. Nothing of your own environment reaches the sandbox unless it is named here.
environment:
  # python: "3.11"               # quoted, or YAML reads 3.10 as 3.1; without it any Python 3 at hand
  network_policy: setup_only     # none | setup_only | always; the agent and the checks never have network here
  cpu_limit: 1
  mem_limit_mb: 1024
  timeout_sec: 900               # for the agent
  tool_timeout_sec: 60           # for one command of the agent

# Setup runs once; agents and checks start from what it left.
setup:
  commands:
    - python -m pip install --quiet pytest==8.4.2
  capture:
    - python -V
    - python -m pip freeze

# Oracle: when is it solved? Decided in a fresh sandbox on R + the agent's patch.
oracle:
  build: none                    # said, not forgotten: this package needs no build
  static:
    - python -m compileall -q tinystats
  hidden: hidden/                # laid over the tree for grading only
  protected: ["tests/**"]        # restored from R before grading
  checks:
    - id: unit
      layer: unit
      command: python -m pytest -q
      parser: pytest
      fail_to_pass:              # must fail on R, must pass on R + patch
        - tests/test_tinystats.py::test_median_of_an_even_number_of_values
        - tests/test_tinystats_hidden.py::test_median_of_two_values
        - tests/test_tinystats_hidden.py::test_median_does_not_depend_on_order
      pass_to_pass:              # must keep passing
        - tests/test_tinystats.py::test_mean
        - tests/test_tinystats.py::test_median_of_an_odd_number_of_values
        - tests/test_tinystats_hidden.py::test_the_argument_is_not_changed
      timeout_sec: 120

# A solution that shows the task can be solved. It never enters an agent's sandbox.
reference: reference.patch

# Policy: what the agent may touch. `severity: gate` fails the run, `penalty` only lowers the score.
policy:
  editable_globs: ["tinystats/**", "tests/**"]
  dependencies: {allow_new: false, severity: penalty}

budget: {usd: 1.00, wall_sec: 900, tool_calls: 30}
"""

_SOURCE_TASK = """\
schema_version: 1
id: @ID@
suite: @SUITE@
title: ""
statement_file: statement.md     # what the agent is told
strata: {ecosystem: python, kind: bugfix}

repo:
@REPO@

environment:
  network_policy: setup_only     # none | setup_only | always
  timeout_sec: 1800              # for the agent
  tool_timeout_sec: 120          # for one command of the agent

setup:
  commands:
    - python -m pip install --quiet pytest
    - python -m pip install --quiet -e .
  capture:
    - python -V
    - python -m pip freeze

# The short form of an oracle: the first must fail on R, the second must pass on R + patch.
# `ab task lock` collects the test ids that become required. Hidden tests, build and static checks,
# several checks: see docs/task-format.md.
validation:
  failing_command: @COMMAND@
  passing_command: @COMMAND@

# reference: reference.patch     # a solution, so that `ab validate-tasks` can show that there is one
"""

_PACKAGE = '''\
"""A very small statistics package."""


def mean(values):
    """The arithmetic mean."""
    return sum(values) / len(values)


def median(values):
    """The middle value."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle]
'''

_VISIBLE = """\
from tinystats import mean, median


def test_mean():
    assert mean([1, 2, 6]) == 3


def test_median_of_an_odd_number_of_values():
    assert median([9, 1, 5]) == 5


def test_median_of_an_even_number_of_values():
    assert median([1, 2, 3, 4]) == 2.5
"""

_HIDDEN = """\
from tinystats import median


def test_median_of_two_values():
    assert median([10, 20]) == 15


def test_median_does_not_depend_on_order():
    assert median([8, -2, 4, 0]) == median([0, 4, -2, 8]) == 2


def test_the_argument_is_not_changed():
    values = [3, 1, 2]
    median(values)
    assert values == [3, 1, 2]
"""

_REFERENCE = """\
diff --git a/tinystats/__init__.py b/tinystats/__init__.py
--- a/tinystats/__init__.py
+++ b/tinystats/__init__.py
@@ -10,4 +10,6 @@ def median(values):
     \"\"\"The middle value.\"\"\"
     ordered = sorted(values)
     middle = len(ordered) // 2
-    return ordered[middle]
+    if len(ordered) % 2:
+        return ordered[middle]
+    return (ordered[middle - 1] + ordered[middle]) / 2
"""
