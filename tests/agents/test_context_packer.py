"""The context packer: never over its budget, most relevant files first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.agents.context_packer import Project, imported, pack
from agentbench.agents.conversation import CHARS_PER_TOKEN
from agentbench.agents.visible_tests import Failures, read_failures

pytestmark = [pytest.mark.req("T-07"), pytest.mark.component]

PATHS = ["a.py", "b.py", "pkg/a.py", "pkg/__init__.py", "src/lib/core.py", "tests/test_a.py"]
TEXTS = st.lists(
    st.sampled_from(["import a\n", "from . import a\n", "from pkg import a\n", "``````\n", "x" * 50, "é\n"])
)


@given(
    st.dictionaries(st.sampled_from(PATHS), TEXTS.map("".join)),
    st.lists(st.sampled_from([*PATHS, "missing.py", "/workspace/pkg/a.py"])),
    st.integers(min_value=1, max_value=400),
)
def test_context_never_exceeds_its_budget(files: dict[str, str], named: list[str], tokens: int) -> None:
    text = pack(Failures((), tuple(named), ""), Project(frozenset(files), files.get), tokens)
    assert len(text) <= tokens * CHARS_PER_TOKEN


@given(st.dictionaries(st.sampled_from(PATHS), TEXTS.map("".join), min_size=1), st.lists(st.sampled_from(PATHS)))
def test_each_existing_file_is_read_at_most_once(files: dict[str, str], named: list[str]) -> None:
    paths: list[str] = []

    def read(path: str) -> str | None:
        paths.append(path)
        return files[path]

    pack(Failures((), tuple(named), ""), Project(frozenset(files), read), 10_000)
    assert len(paths) == len(set(paths))


def test_named_files_come_before_their_imports() -> None:
    files = {
        "tests/test_a.py": "from pkg import thing\nimport other\n",
        "pkg/__init__.py": "from .thing import f\n",
        "pkg/thing.py": "def f(): ...\n",
        "unrelated.py": "",
    }
    failures = read_failures("FAILED tests/test_a.py::test_f[a b] - assert 1 == 2\n")
    assert failures.tests == ("tests/test_a.py::test_f[a b]",)
    text = pack(failures, Project(frozenset(files), files.get), 1000)
    order = [text.index(f"### {path}\n") for path in ("tests/test_a.py", "pkg/__init__.py", "pkg/thing.py")]
    assert order == sorted(order)
    assert "unrelated" not in text


def test_file_content_cannot_close_its_fence() -> None:
    files = {"a.py": "x = '''\n```\n'''\n"}
    text = pack(Failures((), ("a.py",), ""), Project(frozenset(files), files.get), 1000)
    assert "````\nx = " in text


@pytest.mark.parametrize(
    "path, source, expected",
    [
        ("pkg/sub/a.py", "from . import b", "pkg/sub/b.py"),
        ("pkg/sub/a.py", "from .. import b", "pkg/b.py"),
        ("pkg/a.py", "from ....x import y", "x.py"),
        ("pkg/a.py", "import b", "pkg/b.py"),
        ("a.py", "import lib.core", "src/lib/core.py"),
        ("a.py", "from lib import core", "src/lib/core.py"),
    ],
)
def test_imports_are_resolved_to_paths(path: str, source: str, expected: str) -> None:
    assert expected in imported(path, source)


@given(st.text())
def test_any_text_can_be_parsed_for_imports(text: str) -> None:
    imported("a.py", text)
    read_failures(text)


def test_absolute_traceback_paths_are_found() -> None:
    project = Project(frozenset({"toy/stats.py", "stats.py"}), lambda _path: "x = 1\n")
    (named,) = read_failures('File "/workspace/toy/stats.py", line 3, in f\n').files
    assert project.find(named) == "toy/stats.py"
