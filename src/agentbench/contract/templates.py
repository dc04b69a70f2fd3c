"""Write new suites and tasks for `ab init` and `ab task new`."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from agentbench.contract import probe_driver
from agentbench.contract.freeze_scenario import freeze_scenario
from agentbench.contract.json_schema import SCENARIO_MODELINE, TASK_MODELINE, write_suite_schemas
from agentbench.contract.load import TASK_NAME, LoadedTask, load_task
from agentbench.contract.schema import SLUG
from agentbench.contract.suite import DEMO
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError, InputError

FIRST_TASK = "median-even"


@dataclass(frozen=True, slots=True)
class NewTask:
    """Options of a new task. Without a source it becomes the example task, which brings a small package of its own."""

    url: str | None = None
    commit: str | None = None
    archive: str | None = None
    sha256: str | None = None
    path: str | None = None
    test_command: str = "python -m pytest -q"
    probe: bool = False
    """Add a probe with a driver to complete."""

    @property
    def has_source(self) -> bool:
        return any(value is not None for value in (self.url, self.archive, self.path, self.commit, self.sha256))


def new_suite(folder: Path) -> LoadedTask:
    """Create a suite with one valid task that can be run right away.

    Raises:
        InputError: the folder exists and is not empty, or its name is not a valid suite name.
    """
    name = folder.absolute().name
    if name == DEMO:
        raise InputError("`demo` is the bundled suite", remedy="choose another name")
    _check_name(name, "suite")
    existed = folder.exists()
    if existed and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not an empty folder", remedy="choose another name")
    texts = {"scenario.yaml": SCENARIO_MODELINE + _SCENARIO, "README.md": _README.replace("@SUITE@", name)}
    texts |= {f"{FIRST_TASK}/{file}": text for file, text in _example(FIRST_TASK, name).items()}
    loaded = _write(folder, texts, folder / FIRST_TASK, keep_folder=existed)
    write_suite_schemas(folder)
    return loaded


def new_task(folder: Path, options: NewTask) -> LoadedTask:
    """Create one task; its suite is the name of the parent folder.

    Raises:
        InputError: the folder exists, or a name is not valid.
        ContractError: the options do not make a valid task (nothing is left behind).
    """
    slug, suite = folder.absolute().name, folder.absolute().parent.name
    _check_name(slug, "task")
    _check_name(suite, "suite")
    # With `--repo-path repo` the task folder may already exist, because it contains the repository.
    contains_repo = folder.exists() and options.path is not None
    if folder.exists() and (not contains_repo or (folder / TASK_NAME).exists()):
        raise InputError(f"{folder} already exists", remedy="choose another name")
    texts = _from_source(slug, suite, options) if options.has_source else _example(slug, suite)
    if options.probe:
        texts |= _with_probe(texts[TASK_NAME], has_source=options.has_source)
    texts[TASK_NAME] = freeze_scenario(texts[TASK_NAME], folder.absolute().parent)
    loaded = _write(folder, texts, folder, keep_folder=contains_repo)
    write_suite_schemas(folder.absolute().parent)
    return loaded


def _check_name(name: str, kind: str) -> None:
    if not re.fullmatch(SLUG, name):
        raise InputError(f"invalid {kind} name {name!r}", remedy="use letters, digits, dots, dashes and underscores")


def _write(folder: Path, texts: Mapping[str, str], task: Path, *, keep_folder: bool = False) -> LoadedTask:
    try:
        for name, text in texts.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{error.filename or folder}: cannot write: {error.strerror}") from None
    try:
        return load_task(task)
    except ContractError:
        if not keep_folder:
            shutil.rmtree(folder)
        else:
            for name in texts:
                (folder / name).unlink(missing_ok=True)
        raise


def _from_source(slug: str, suite: str, options: NewTask) -> dict[str, str]:
    keys = ("url", "commit", "archive", "sha256", "path")
    source = [f"  {key}: {json.dumps(value)}" for key in keys if (value := getattr(options, key)) is not None]
    text = _SOURCE_TASK.replace("@ID@", json.dumps(slug)).replace("@SUITE@", json.dumps(suite))
    text = text.replace("@REPO@", "\n".join(source)).replace("@COMMAND@", json.dumps(options.test_command))
    return {
        TASK_NAME: TASK_MODELINE + text,
        "statement.md": "Describe the problem as an issue would: what happens, and what should happen instead.\n",
        "notes.md": _NOTES,
    }


def _with_probe(task: str, *, has_source: bool) -> dict[str, str]:
    """Return the files of a probe: `task.yaml` with one more check, the driver and, for the example, the program under test."""
    helper = Path(probe_driver.__file__).read_text(encoding="utf-8")
    if has_source:
        oracle = _PROBE_ORACLE + _PROBE_CHECK.replace("@CANDIDATE@", "python -m PACKAGE   # the program under test")
        return {TASK_NAME: re.sub(r"(?ms)^# The first command must fail.*?(?=\n# reference:)", oracle, task),
                "driver.py": helper + _SOURCE_DRIVER}  # fmt: skip
    check = _PROBE_CHECK.replace("@CANDIDATE@", "python -m tinystats")
    return {
        TASK_NAME: task.replace("      timeout_sec: 120\n", f"      timeout_sec: 120\n{check}", 1),
        "driver.py": helper + _EXAMPLE_DRIVER,
        "repo/tinystats/__main__.py": _PROGRAM,
    }


def _example(slug: str, suite: str) -> dict[str, str]:
    text = _EXAMPLE_TASK.replace("@ID@", json.dumps(slug)).replace("@SUITE@", json.dumps(suite))
    return {
        TASK_NAME: TASK_MODELINE + text,
        "notes.md": _NOTES,
        "repo/tinystats/__init__.py": _PACKAGE,
        "repo/tests/test_tinystats.py": _VISIBLE,
        "hidden/tests/test_tinystats_hidden.py": _HIDDEN,
        "reference.patch": _REFERENCE,
    }


_NOTES = "Notes for maintainers. Agents never see this file, and changing it does not change the task.\n"

_README = """\
# @SUITE@

Each folder with a `task.yaml` is a task. Run these commands in the parent folder:

    ab task check @SUITE@                               # check schema and files without running anything
    ab validate-tasks --suite @SUITE@ --tasks-dir .     # baseline fails, reference passes, results are stable
    ab run --suite @SUITE@ --tasks-dir . --agent noop   # run an agent (this one does nothing)
"""

_SCENARIO = """\
# Settings for every task of this suite. `ab task new`, `from-commit`, `harvest` and `import` copy scorers and judge
# into each task they create, and `ab task lock` into the task's lock, so later edits do not affect these tasks.
# Scorers are rules for the workspace, beside the checks. Their verdict is compared with that of the checks and a difference is
# flagged for review, so add a scorer that fails when the task is not solved, such as a command, before rules that always hold.
# scorers:
#   - {name: tests pass, type: command, command: python -m pytest -q}
#   - {name: small change, type: max_files_changed, limit: 5}
#   - {name: no secrets, type: forbid_secrets}
# Weights of the score among patches that pass every gate. They must sum to 1.
weights: {minimal: 0.4, trace: 0.2, maintainability: 0.4}
"""

_EXAMPLE_TASK = """\
# `ab task check` reports every problem in this file with its line.
schema_version: 1
id: @ID@
suite: @SUITE@
title: median of an even number of values

# The text that the agent gets. It does not include the checks below.
statement: |
  `tinystats.median([1, 2, 3, 4])` returns 3. For an even number of values it should return
  the mean of the two middle ones, here 2.5. An odd number of values already works.
hints:
  test_command: python -m pytest -q
strata: {ecosystem: python, kind: bugfix, test_runtime: short, dependencies: small}

# The base repository: a folder, or `url` + `commit`, or `archive` + `sha256`.
repo:
  path: repo

# Limits and network of the sandbox. Environment variables of the host are passed on only if they are listed here.
environment:
  # python: "3.11"               # quote it, or YAML reads 3.10 as 3.1; default: any Python 3 of the host
  network_policy: setup_only     # none | setup_only | always; with setup_only, agents and checks have no network
  cpu_limit: 1
  mem_limit_mb: 1024
  timeout_sec: 900               # whole agent phase
  tool_timeout_sec: 60           # one command of the agent

# Setup runs once. Agents and checks start from the prepared environment.
setup:
  commands:
    - python -m pip install --quiet pytest==8.4.2
  capture:
    - python -V
    - python -m pip freeze

# Checks that decide whether a patch solves the task. They run in a fresh sandbox on the patched repository.
oracle:
  build: none                    # no build step
  static:
    - python -m compileall -q tinystats
  hidden: hidden/                # files added for grading only; agents never see them
  protected: ["tests/**"]        # restored from the base repository before grading
  checks:
    - id: unit
      layer: unit
      command: python -m pytest -q
      parser: pytest
      fail_to_pass:              # must fail before the patch and pass after it
        - tests/test_tinystats.py::test_median_of_an_even_number_of_values
        - tests/test_tinystats_hidden.py::test_median_of_two_values
        - tests/test_tinystats_hidden.py::test_median_does_not_depend_on_order
      pass_to_pass:              # must pass before and after the patch
        - tests/test_tinystats.py::test_mean
        - tests/test_tinystats.py::test_median_of_an_odd_number_of_values
        - tests/test_tinystats_hidden.py::test_the_argument_is_not_changed
      timeout_sec: 120

# A known solution, which proves that the task can be solved. Agents never see it.
reference: reference.patch

# Files and dependencies that the agent may change. `severity: gate` fails the attempt, `penalty` lowers its score.
policy:
  editable_globs: ["tinystats/**", "tests/**"]
  dependencies: {allow_new: false, severity: penalty}

budget: {usd: 1.00, wall_sec: 900, tool_calls: 30}
"""

_PROBE_ORACLE = """\
# A patch passes if every result of the driver is a pass. `ab task check-probe` tries the driver.
oracle:
  checks:
"""

_PROBE_CHECK = """\
    - id: behaviour
      layer: integration
      kind: probe                # the driver runs in a sandbox of its own, so the patch cannot forge its results
      candidate: @CANDIDATE@
      driver: driver.py
      timeout_sec: 60
"""

_EXAMPLE_DRIVER = """

# --- the questions of this task -----------------------------------------------------------------------------------

import random  # noqa: E402 - the code above is copied as it is

with Probe() as probe:
    probe.expect("even", "median 1 2 3 4", "2.5")
    probe.expect("odd", "median 9 1 5", "5")
    # Unpredictable ones, so that no list of answers can have been written down beforehand.
    for number in range(4):
        low = random.SystemRandom().randrange(-1000, 1000)
        probe.expect(f"random-{number}", f"median {low + 3} {low} {low + 2} {low + 9}", str(low + 2.5))
"""

_SOURCE_DRIVER = """

# --- the questions of this task -----------------------------------------------------------------------------------

with Probe() as probe:
    probe.expect("example", "a question on one line", "the expected answer on one line")
"""

_PROGRAM = '''\
"""Answer questions such as `median 1 2 3`, one per line."""

import sys

import tinystats

for line in sys.stdin:
    name, *values = line.split()
    print(getattr(tinystats, name)([int(value) for value in values]), flush=True)
'''

_SOURCE_TASK = """\
schema_version: 1
id: @ID@
suite: @SUITE@
title: ""
statement_file: statement.md     # the text that the agent gets
strata: {ecosystem: python, kind: bugfix}

repo:
@REPO@

environment:
  network_policy: setup_only     # none | setup_only | always
  timeout_sec: 1800              # whole agent phase
  tool_timeout_sec: 120          # one command of the agent

setup:
  commands:
    - python -m pip install --quiet pytest
    - python -m pip install --quiet -e .
  capture:
    - python -V
    - python -m pip freeze

# The first command must fail on the base repository, the second must pass with the patch.
# `ab task lock` collects the required test ids. For hidden tests, build and static checks or
# several checks, use `oracle` instead: see docs/how-to/write-a-task.md.
validation:
  failing_command: @COMMAND@
  passing_command: @COMMAND@

# reference: reference.patch     # a known solution; `ab validate-tasks` checks that it passes
"""

_PACKAGE = '''\
"""A very small statistics package."""


def mean(values):
    """Return the arithmetic mean."""
    return sum(values) / len(values)


def median(values):
    """Return the middle value."""
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
     \"\"\"Return the middle value.\"\"\"
     ordered = sorted(values)
     middle = len(ordered) // 2
-    return ordered[middle]
+    if len(ordered) % 2:
+        return ordered[middle]
+    return (ordered[middle - 1] + ordered[middle]) / 2
"""
