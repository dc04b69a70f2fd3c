"""list_files and read_file on untrusted trees."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.tools.read_files import MAX_LISTED, MAX_READ
from agentbench.tools.rules import Rules
from agentbench.trace.events import ToolCallFinished
from agentbench.tree.entry import Entry
from agentbench.tree.folder import FolderTree
from tests.tools.conftest import OpenSession
from tests.tools.recorded_session import fill

pytestmark = [pytest.mark.req("T-01", "T-02"), pytest.mark.component]


def test_files_are_listed_sorted(open_session: OpenSession, workspace: Path) -> None:
    fill(workspace, {"b.py": "", "a/x.py": "", "a/y.txt": "", ".git/config": "", ".hidden": ""})
    session = open_session().session
    assert session.list_files().stdout == ".hidden\na/x.py\na/y.txt\nb.py\n"
    assert session.list_files("a").stdout == "a/x.py\na/y.txt\n"
    assert session.list_files("./a/", "*.py").stdout == "a/x.py\n"
    assert session.list_files(glob="**/*.py").stdout == "a/x.py\nb.py\n"
    assert session.list_files("/workspace/a", "x.*").stdout == "a/x.py\n"
    assert session.list_files("b.py").stdout == "b.py\n"
    assert session.list_files("nothing").error_type == "not_found"
    assert session.list_files(glob="*.rs").stdout == ""


def test_listing_is_bounded(open_session: OpenSession, workspace: Path) -> None:
    for number in range(MAX_LISTED + 5):
        (workspace / f"f{number:05}").touch()
    result = open_session().session.list_files()
    assert result.stdout.count("\n") == MAX_LISTED
    assert result.truncated
    assert "5 more files" in result.note


def test_unchanged_workspace_is_scanned_once(open_session: OpenSession, monkeypatch: pytest.MonkeyPatch) -> None:
    session = open_session().session
    session.list_files()

    def walk(tree: FolderTree) -> Iterator[Entry]:
        raise AssertionError("the tree is walked again")

    monkeypatch.setattr(FolderTree, "entries", walk)
    assert session.list_files().ok


def test_file_is_read_whole_or_by_lines(open_session: OpenSession, workspace: Path) -> None:
    fill(workspace, {"a": "1\n2\n3\n4", "empty": ""})
    session = open_session().session
    assert session.read_file("a").stdout == "1\n2\n3\n4"
    middle = session.read_file("a", 2, 3)
    assert (middle.stdout, middle.note) == ("2\n3\n", "lines 2 to 3 of 4")
    assert session.read_file("a", 3).stdout == "3\n4"
    assert session.read_file("a", end_line=100).stdout == "1\n2\n3\n4"
    assert session.read_file("empty").stdout == ""
    assert session.read_file("a", 9).error_type == "invalid_arguments"
    assert session.read_file("a", 3, 2).error_type == "invalid_arguments"


@pytest.mark.parametrize(
    "path,kind",
    [
        ("missing", "not_found"),
        ("folder", "is_directory"),
        (".", "is_directory"),
        ("fifo", "not_a_file"),
        ("socket", "not_a_file"),
        ("binary", "binary_file"),
        ("passwd", "path_unsafe"),
        ("up", "path_unsafe"),
        ("loop", "path_unsafe"),
        ("outside/passwd", "path_unsafe"),
        ("../secret", "path_unsafe"),
        ("/etc/passwd", "path_unsafe"),
        (".git/config", "path_denied"),
        ("folder/x/y", "not_found"),
        ("dangling", "not_found"),
    ],
)
def test_unreadable_files_are_refused(
    open_session: OpenSession, workspace: Path, monkeypatch: pytest.MonkeyPatch, path: str, kind: str
) -> None:
    fill(workspace, {"folder/x": "", "binary": b"a\0b", ".git/config": "x", "../secret": "secret"})
    os.mkfifo(workspace / "fifo")
    monkeypatch.chdir(workspace)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        links = {"passwd": "/etc/passwd", "up": "../secret", "loop": "loop", "outside": "/etc", "dangling": "no"}
        for name, target in links.items():
            (workspace / name).symlink_to(target)
        result = open_session().session.read_file(path)
    assert result.error_type == kind
    assert result.stdout == ""
    assert "secret" not in result.stdout


def test_link_inside_workspace_is_read(open_session: OpenSession, workspace: Path) -> None:
    fill(workspace, {"docs/readme": "hello", "src/a.py": "x = 1"})
    (workspace / "README").symlink_to("docs/readme")
    (workspace / "lib").symlink_to("src")
    session = open_session().session
    assert session.read_file("README").stdout == "hello"
    assert session.read_file("lib/a.py").stdout == "x = 1"
    assert session.list_files("lib").stdout == "src/a.py\n"


def test_non_utf8_name_is_encoded_and_readable(open_session: OpenSession, workspace: Path) -> None:
    (workspace / os.fsdecode(b"caf\xe9\n.txt")).write_text("found")
    (workspace / "100%.txt").write_text("plain")
    session = open_session().session
    assert session.list_files().stdout == "100%.txt\ncaf%E9%0A.txt\n"
    assert session.read_file("caf%E9%0A.txt").stdout == "found"
    assert session.read_file("100%.txt").stdout == "plain"


def test_huge_file_is_refused_and_long_line_is_cut(open_session: OpenSession, workspace: Path) -> None:
    with (workspace / "huge").open("wb") as file:
        file.truncate(MAX_READ + 1)
    fill(workspace, {"line": "x" * 1_000_000, "many": "y\n" * 100_000})
    recorded = open_session()
    refused = recorded.session.read_file("huge")
    assert refused.error_type == "too_large"
    for name in ("line", "many"):
        result = recorded.session.read_file(name)
        assert result.truncated
        assert len(result.stdout) < 300_000
        assert "output is truncated" in result.note
    assert all(len(event.stdout.text) < 10_000 for event in recorded.of(ToolCallFinished))


def test_deep_directories_are_readable(open_session: OpenSession, workspace: Path) -> None:
    deep = workspace
    for _ in range(300):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "f").write_text("down here")
    session = open_session().session
    (path,) = session.list_files().stdout.splitlines()
    assert session.read_file(path).stdout == "down here"


@pytest.mark.req("C-08a")
def test_readable_globs_are_enforced(open_session: OpenSession, workspace: Path) -> None:
    fill(workspace, {"src/a": "x", "secrets/key": "y"})
    (workspace / "src/link").symlink_to("../secrets/key")
    session = open_session(Rules(readable_globs=("src/**",))).session
    assert session.list_files().stdout == "src/a\nsrc/link\n"
    assert session.read_file("secrets/key").error_type == "path_denied"
    assert session.read_file("src/link").error_type == "path_denied"
