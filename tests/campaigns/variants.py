"""Creates honest variants of a reference solution: the fix, and what people do next to a fix. Pure except for the
formatter.

Each maker takes the task as an agent sees it and the files that the reference writes, and returns the writes of the
variant, or None if the repository has no place for it. Every variant must be accepted.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentbench.tree.entry import FileWrite, Tree

MAX_BYTES = 4 * 1024 * 1024
TEST_FOLDERS = (b"tests", b"test")
Writes = dict[bytes, FileWrite]

NEW_TEST = b'''"""Tests written along the way."""

import os
import sys
import unittest
from unittest import mock

import pytest


@pytest.mark.parametrize(("text", "size"), [("a b", 3), ("\xc3\xa4[1]", 4), ("", 0)], ids=["two words", "\xc3\xa4[1]", "nothing"])
def test_length(text, size):
    assert len(text) == size


@pytest.mark.skipif(sys.platform == "win32", reason="paths")
def test_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with mock.patch("os.getpid", return_value=7):
        assert os.getpid() == 7


class TestTwice(unittest.TestCase):
    def test_values(self):
        for value in (1, 2):
            with self.subTest(value=value):
                self.assertEqual(value * 2, value + value)
'''
CONFTEST = b"""import pytest


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    monkeypatch.setenv("EXTRA_CHECKS", "1")
    return {"checks": True}


def pytest_configure(config):
    config.addinivalue_line("markers", "extra: checks written along the way")
"""
USES_FIXTURE = b"def test_settings(settings):\n    assert settings['checks']\n"
APPENDED_FIXTURE = b"\n\n@__import__('pytest').fixture\ndef sample_for_new_tests():\n    return {'name': 'sample'}\n"
HELPER = b'''"""Helpers of the fix."""


class Span:
    """A half-open range."""

    def __init__(self, start, stop):
        self.start, self.stop = start, stop

    def __eq__(self, other):
        if not isinstance(other, Span):
            return NotImplemented
        return (self.start, self.stop) == (other.start, other.stop)

    def __hash__(self):
        return hash((self.start, self.stop))


def span_of(text):
    return Span(0, len(text))
'''
SCRATCH = b"""import sys


def main():
    print("reproduced")
    return 0


if __name__ == "__main__":
    sys.exit(main())
"""


@dataclass(frozen=True, slots=True)
class Work:
    """A task and its reference."""

    tree: Tree
    """The base repository after setup."""
    paths: frozenset[bytes]
    reference: Mapping[bytes, FileWrite]
    hidden: Mapping[bytes, tuple[bytes, bool]]

    def content_of(self, path: bytes) -> bytes:
        """Return a file as the reference leaves it."""
        write = self.reference.get(path)
        return write.content or b"" if write is not None else self.tree.read(path, max_bytes=MAX_BYTES)

    def exists(self, path: bytes) -> bool:
        write = self.reference.get(path)
        return path in self.paths if write is None else write.content is not None

    def sources(self) -> list[bytes]:
        """Return the Python files that the reference writes."""
        return sorted(path for path, write in self.reference.items() if path.endswith(b".py") and write.content)

    def test_folder(self) -> bytes:
        """Return the project's test folder."""
        folders = [posixpath.dirname(path) for path in sorted(self.hidden) if path.endswith(b".py")]
        known = [path for path in self.paths if path.endswith(b".py") and path.split(b"/")[0] in TEST_FOLDERS]
        return folders[0] if folders else posixpath.dirname(min(known)) if known else b"tests"

    def with_writes(self, *writes: FileWrite) -> Writes:
        return {**self.reference, **{write.path: write for write in writes}}


def _under(folder: bytes, name: bytes) -> bytes:
    return posixpath.join(folder, name) if folder else name


def unchanged(work: Work) -> Writes | None:
    return dict(work.reference)


def adds_test_file(work: Work) -> Writes | None:
    return work.with_writes(FileWrite(_under(work.test_folder(), b"test_written_along_the_way.py"), NEW_TEST))


def adds_conftest(work: Work) -> Writes | None:
    folder = _under(work.test_folder(), b"extra_checks")
    return work.with_writes(
        FileWrite(_under(folder, b"conftest.py"), CONFTEST),
        FileWrite(_under(folder, b"test_extra_settings.py"), USES_FIXTURE),
    )


def edits_conftest(work: Work) -> Writes | None:
    conftests = sorted((path for path in work.paths if posixpath.basename(path) == b"conftest.py"), key=len)
    if not conftests:
        return None
    return work.with_writes(
        FileWrite(conftests[0], work.content_of(conftests[0]).rstrip(b"\n") + b"\n" + APPENDED_FIXTURE)
    )


def adds_data(work: Work) -> Writes | None:
    folder = _under(work.test_folder(), b"data")
    return work.with_writes(
        FileWrite(_under(folder, b"sample.json"), b'{"name": "\xc3\xa4 b", "values": [1, 2]}\n'),
        FileWrite(_under(folder, b"sample.bin"), bytes(range(256))),
    )


def adds_module(work: Work) -> Writes | None:
    """Add a module and import it at the end of the fixed file."""
    for source in work.sources():
        folder, name = posixpath.split(source)
        # A file that is run as a script cannot import its own package.
        if not work.exists(_under(folder, b"__init__.py")) or b"__main__" in name + work.content_of(source):
            continue
        parts: list[bytes] = []
        while work.exists(_under(folder, b"__init__.py")):
            folder, last = posixpath.split(folder)
            parts.insert(0, last)
            if not folder and work.exists(b"__init__.py"):
                break
        package = b".".join(parts)
        line = b"\nfrom " + package + b"._span_helpers import span_of as _span_of  # noqa: E402, F401\n"
        helper = _under(posixpath.dirname(source), b"_span_helpers.py")
        return work.with_writes(
            FileWrite(helper, HELPER),
            FileWrite(
                source, work.content_of(source).rstrip(b"\n") + b"\n" + line, executable=_executable(work, source)
            ),
        )
    return None


def _executable(work: Work, path: bytes) -> bool:
    write = work.reference.get(path)
    return write.executable if write is not None else False


def adds_dependency(work: Work) -> Writes | None:
    if work.exists(b"pyproject.toml"):
        text = work.content_of(b"pyproject.toml")
        if b"[dependency-groups]" in text:
            added = text.replace(b"[dependency-groups]", b'[dependency-groups]\nextra-dev = ["ruff>=0.4"]', 1)
        else:
            added = text.rstrip(b"\n") + b'\n\n[dependency-groups]\nextra-dev = ["ruff>=0.4"]\n'
        return work.with_writes(FileWrite(b"pyproject.toml", added)) if _is_toml(added) else None
    requirements = sorted(
        path for path in work.paths if re.fullmatch(rb"(requirements/)?[\w-]*requirements[\w-]*\.(txt|in)", path)
    )
    if requirements:
        return work.with_writes(
            FileWrite(requirements[0], work.content_of(requirements[0]).rstrip(b"\n") + b"\nruff>=0.4\n")
        )
    return work.with_writes(FileWrite(b"requirements-dev.txt", b"ruff>=0.4\n"))


def edits_configuration(work: Work) -> Writes | None:
    """Add tool settings and a marker for the new tests."""
    if work.exists(b"pyproject.toml"):
        text = work.content_of(b"pyproject.toml")
        section = b"[tool.pytest.ini_options]\n"
        if section in text and b"markers" not in text:
            text = text.replace(section, section + b'markers = ["extra: checks written along the way"]\n', 1)
        if b"[tool.ruff" not in text:
            text = text.rstrip(b"\n") + b"\n\n[tool.ruff]\nline-length = 100\n"
        text = text.rstrip(b"\n") + b"\n\n[tool.extra-checks]\nverbose = true\n"
        return work.with_writes(FileWrite(b"pyproject.toml", text)) if _is_toml(text) else None
    if work.exists(b"setup.cfg"):
        text = work.content_of(b"setup.cfg").rstrip(b"\n") + b"\n\n[extra-checks]\nverbose = true\n"
        return work.with_writes(FileWrite(b"setup.cfg", text))
    if work.exists(b"tox.ini"):
        text = work.content_of(b"tox.ini").rstrip(b"\n") + b"\n\n[extra-checks]\nverbose = true\n"
        return work.with_writes(FileWrite(b"tox.ini", text))
    return work.with_writes(FileWrite(b"ruff.toml", b"line-length = 100\n"))


def _is_toml(text: bytes) -> bool:
    try:
        tomllib.loads(text.decode())
    except ValueError:
        return False
    return True


def edits_prose(work: Work) -> Writes | None:
    prose = re.compile(rb"(?i)(docs?/)?(changelog|changes|history|news|readme)(\.\w+)?")
    documents = sorted(path for path in work.paths if prose.fullmatch(path))
    writes = [FileWrite(b"docs/notes_on_the_fix.md", b"# Notes\n\nRun `pytest -p no:cacheprovider` to see it.\n")]
    if documents:
        text = (
            work.content_of(documents[0]).rstrip(b"\n")
            + b"\n\n* Fixed what the issue is about (see _pytest, f_back).\n"
        )
        writes.append(FileWrite(documents[0], text))
    return work.with_writes(*writes)


def reformats(work: Work) -> Writes | None:
    """Reformat whole files, so that every line may be a changed one."""
    writes = []
    for source in work.sources():
        formatted = _run_formatter(work.content_of(source), b"120")
        if formatted is not None and formatted != work.content_of(source):
            writes.append(FileWrite(source, formatted, executable=_executable(work, source)))
    return work.with_writes(*writes) if writes else None


def _run_formatter(source: bytes, width: bytes) -> bytes | None:
    ruff = Path(sys.executable).with_name("ruff")
    argv = [str(ruff), "format", "--isolated", "--line-length", width.decode(), "-"]
    completed = subprocess.run(argv, input=source, capture_output=True, check=False, timeout=60)
    return completed.stdout if completed.returncode == 0 else None


def changes_line_ends(work: Work) -> Writes | None:
    """Save with the line ends of Windows."""
    writes = []
    for source in work.sources():
        text = work.content_of(source)
        if b"\r" not in text:
            crlf = text.replace(b"\n", b"\r\n")
            writes.append(FileWrite(source, crlf, executable=_executable(work, source)))
    return work.with_writes(*writes) if writes else None


def leaves_no_newline(work: Work) -> Writes | None:
    sources = work.sources()
    if not sources:
        return None
    last = sources[-1]
    return work.with_writes(FileWrite(last, work.content_of(last).rstrip(b"\n"), executable=_executable(work, last)))


def brings_upstream_tests(work: Work) -> Writes | None:
    """Add the tests that the author of the fix wrote, as an agent would have."""
    if not work.hidden:
        return None
    return work.with_writes(*(FileWrite(path, content, executable=run) for path, (content, run) in work.hidden.items()))


def leaves_scratch(work: Work) -> Writes | None:
    writes = [FileWrite(b"reproduce_issue.py", SCRATCH), FileWrite(b"test_quick_check.py", USES_FIXTURE)]
    if work.exists(b".gitignore"):
        writes.append(FileWrite(b".gitignore", work.content_of(b".gitignore").rstrip(b"\n") + b"\n/scratch/\n"))
    return work.with_writes(*writes)


def does_it_all(work: Work) -> Writes | None:
    """Do everything at once, as after a long session."""
    writes: Writes = dict(work.reference)
    for make in (
        adds_test_file, adds_conftest, edits_conftest, adds_data, adds_dependency, edits_prose, brings_upstream_tests,
        leaves_scratch, adds_module,
    ):  # fmt: skip
        added = make(work)
        writes |= {path: write for path, write in (added or {}).items() if work.reference.get(path) != write}
    return writes


MAKERS: Mapping[str, Callable[[Work], Writes | None]] = {
    make.__name__: make
    for make in (
        unchanged, brings_upstream_tests, does_it_all, adds_test_file, adds_conftest, edits_conftest, adds_data, adds_module,
        adds_dependency, edits_configuration, edits_prose, reformats, changes_line_ends, leaves_no_newline, leaves_scratch,
    )
}  # fmt: skip
