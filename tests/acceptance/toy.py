"""A small project with a bug, its tests, and the contract that grades patches for it.

Everything that runs tests in a sandbox shares it: one repository and one setup mean one prepared environment.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from agentbench.acceptance.grading_context import GradingContext, Unlogged
from agentbench.contract.load import load_task
from agentbench.execution.lab import Lab
from agentbench.sandbox.protocol import Phase
from agentbench.trace.blobs import BlobStore
from agentbench.tree.entry import FileWrite
from agentbench.workspace.diff.apply import PatchedTree
from agentbench.workspace.diff.extract import extract

CORE = '''\
"""Statistics of a few numbers."""


def mean(values):
    return sum(values) / len(values)


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle]
'''

FIXED = CORE.replace(
    "    return ordered[middle]\n",
    "    if len(ordered) % 2:\n        return ordered[middle]\n    return (ordered[middle - 1] + ordered[middle]) / 2\n",
)

REPO = {
    "pyproject.toml": """\
        [project]
        name = "toy"
        version = "1.0"

        [tool.pytest.ini_options]
        addopts = "-ra"
        testpaths = ["tests"]
        """,
    "README.md": "A toy.\n",
    "src/toy/__init__.py": "from toy.core import mean, median\n",
    "src/toy/core.py": CORE,
    "tests/conftest.py": """\
        import pytest

        import toy


        @pytest.fixture
        def numbers():
            assert toy.mean
            return [1, 2, 3]
        """,
    "tests/helpers.py": """\
        def assert_close(left, right):
            assert abs(left - right) < 1e-9, (left, right)
        """,
    "tests/test_core.py": """\
        import unittest

        import pytest
        from helpers import assert_close

        from toy import mean, median


        def test_mean(numbers):
            assert_close(mean(numbers), 2)


        def test_median_odd(numbers):
            assert median(numbers) == 2


        @pytest.mark.parametrize("name", ["a b", "[x]", "é", "a::b", "-k"])
        def test_named(name):
            assert name


        @pytest.mark.skip(reason="never")
        def test_skipped():
            raise AssertionError


        @pytest.mark.xfail(reason="known")
        def test_known():
            raise AssertionError


        class TestSub(unittest.TestCase):
            def test_sub(self):
                for value in range(3):
                    with self.subTest(value=value):
                        self.assertEqual(median([value]), value)
        """,
}
HIDDEN = {
    "tests/test_median_hidden.py": """\
        import unittest

        from helpers import assert_close

        from toy import median


        def test_even():
            assert median([1, 2, 3, 4]) == 2.5


        def test_two():
            assert_close(median([10, 20]), 15)


        class TestMedian(unittest.TestCase):
            def test_unsorted(self):
                self.assertEqual(median([4, 1, 3, 2]), 2.5)

            def test_sub(self):
                for low in range(3):
                    with self.subTest(low=low):
                        self.assertEqual(median([low, low + 1]), low + 0.5)
        """,
}
FAIL_TO_PASS = (
    "tests/test_median_hidden.py::test_even",
    "tests/test_median_hidden.py::test_two",
    "tests/test_median_hidden.py::TestMedian::test_unsorted",
    "tests/test_median_hidden.py::TestMedian::test_sub",
)
PASS_TO_PASS = (
    "tests/test_core.py::test_mean",
    "tests/test_core.py::test_median_odd",
    "tests/test_core.py::test_named[a b]",
    "tests/test_core.py::test_named[[x]]",
    "tests/test_core.py::test_named[\\xe9]",
    "tests/test_core.py::test_named[a::b]",
    "tests/test_core.py::test_named[-k]",
    "tests/test_core.py::TestSub::test_sub",
)
# Like an editable install: the source folder of the workspace is on the path of every interpreter.
EDITABLE = (
    'python -c "import pathlib, sysconfig; '
    "pathlib.Path(sysconfig.get_path('purelib'), 'toy.pth').write_text('/workspace/src\\n')\""
)
# Compiles the modules that pytest imports. Pip would compile all of its dependency pygments for each project.
INSTALL_PYTEST = "pip install -q --no-compile pytest && python -m pytest --version"
SETUP = (INSTALL_PYTEST, EDITABLE)
UNIT: dict[str, object] = {
    "id": "unit",
    "command": "python -m pytest -q",
    "parser": "pytest",
    "fail_to_pass": list(FAIL_TO_PASS),
    "pass_to_pass": list(PASS_TO_PASS),
    "timeout_sec": 60,
}
ENVIRONMENT = {
    "network_policy": "setup_only",
    "mem_limit_mb": 256,
    "disk_limit_mb": 64,
    "pids_limit": 64,
    "cpu_limit": 2,
}

Changes = Mapping[str, str | bytes | None]


def plain(text: str) -> str:
    return textwrap.dedent(text)


@dataclass(frozen=True)
class TaskFactory:
    """Writes tasks and prepares them for grading."""

    lab: Lab

    def context(
        self,
        folder: Path,
        *,
        repo: Mapping[str, str] = REPO,
        hidden: Mapping[str, str] | None = HIDDEN,
        oracle: Mapping[str, object] | None = None,
        setup: tuple[str, ...] = SETUP,
        files: Mapping[str, str] | None = None,
        **sections: object,
    ) -> GradingContext:
        """Write a task into `folder`, load it and prepare its environment."""
        write(folder / "repo", repo)
        write(folder, files or {})
        task: dict[str, object] = {
            "id": "toy",
            "suite": "tests",
            "repo": {"path": "repo"},
            "environment": ENVIRONMENT,
            "setup": {"commands": list(setup)},
            **sections,
        }
        if "validation" not in sections:
            task["oracle"] = {"checks": [UNIT], **(oracle or {})}
        elif oracle:
            task["oracle"] = dict(oracle)
        if hidden:
            write(folder / "hidden", hidden)
            task.setdefault("oracle", {})
            section = task["oracle"]
            assert isinstance(section, dict)
            section["hidden"] = "hidden"
        (folder / "task.yaml").write_text(yaml.safe_dump(task, sort_keys=False), encoding="utf-8")
        loaded = load_task(folder)
        prepared = self.lab.prepare(loaded)
        return GradingContext(
            backend=prepared.backend,
            spec=prepared.spec(Phase.GRADING),
            prepared=prepared.environment,
            loaded=loaded,
            cache=self.lab.state / "oracle",
            log=Unlogged(),
            blobs=BlobStore(folder / "blobs"),
        )


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(plain(text), encoding="utf-8")


def patch_of(context: GradingContext, changes: Changes, links: Mapping[str, str] | None = None) -> bytes:
    """The patch that makes `changes` (None: delete) and `links` on the base repository."""
    writes = [
        FileWrite(os.fsencode(name), content=plain(text).encode() if isinstance(text, str) else text)
        for name, text in changes.items()
    ]
    writes += [FileWrite(os.fsencode(name), symlink=os.fsencode(target)) for name, target in (links or {}).items()]
    base = context.prepared.base_tree
    delta = extract(base, PatchedTree(base, writes))
    assert delta.problem is None, delta.problem
    return delta.patch
