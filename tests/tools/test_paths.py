"""Paths from agents never leave the workspace, and every name can be shown and read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.errors import ToolFault
from agentbench.tools.paths import follow, literal, relative, show
from agentbench.tree.entry import Entry, Kind
from agentbench.workspace.diff.events import path_text

pytestmark = [pytest.mark.req("T-02"), pytest.mark.component]


@pytest.mark.parametrize(
    "text,path",
    [
        ("a.py", b"a.py"),
        ("./a//b.py", b"a/b.py"),
        (".", b""),
        ("", b""),
        ("/workspace", b""),
        ("/workspace/", b""),
        ("/workspace/a/b", b"a/b"),
        ("...", b"..."),
        ("é/ü", "é/ü".encode()),
        ("-rf", b"-rf"),
    ],
)
def test_path_inside_becomes_relative(text: str, path: bytes) -> None:
    assert relative(text, "/workspace") == path


@pytest.mark.parametrize(
    "text",
    ["..", "../x", "a/../b", "/etc/passwd", "/workspace2/a", "/", "/workspace/../etc", "a\0b", "\ud800", "a" * 5000],
)
def test_path_outside_workspace_is_refused(text: str) -> None:
    with pytest.raises(ToolFault) as caught:
        relative(text, "/workspace")
    assert caught.value.kind == "path_unsafe"
    assert len(caught.value.message) < 400


@pytest.mark.parametrize("text", [".git", ".git/config", ".GIT/hooks/x", "/workspace/.git/HEAD"])
def test_git_directory_is_refused(text: str) -> None:
    with pytest.raises(ToolFault) as caught:
        relative(text, "/workspace")
    assert caught.value.kind == "path_denied"


@given(st.text(max_size=60))
def test_no_path_escapes_the_workspace(text: str) -> None:
    try:
        path = relative(text, "/workspace")
    except ToolFault:
        return
    assert not path.startswith(b"/")
    assert b".." not in path.split(b"/")


@given(st.binary(min_size=1, max_size=40).filter(lambda name: b"\0" not in name))
def test_shown_name_is_one_line_and_reversible(name: bytes) -> None:
    text, encoding = path_text(name)
    assert len(text.splitlines()) == 1
    assert "\x1b" not in text
    if encoding == "percent":
        assert literal(text.encode(), {name}) == name
    else:
        assert text.encode() == name


def link(path: bytes) -> Entry:
    return Entry(path, Kind.SYMLINK, False, 0, "")


def tree(targets: dict[bytes, bytes]) -> tuple[dict[bytes, Entry], dict[bytes, bytes]]:
    return {path: link(path) for path in targets}, targets


@pytest.mark.parametrize(
    "targets,asked,path",
    [
        ({b"a": b"b"}, b"a", b"b"),
        ({b"docs/a": b"../b"}, b"docs/a", b"b"),
        ({b"lib": b"src/lib"}, b"lib/x.py", b"src/lib/x.py"),
        ({b"a": b"/workspace/b"}, b"a", b"b"),
        ({b"a": b"b", b"b": b"c/./d"}, b"a", b"c/d"),
        ({}, b"x/y", b"x/y"),
        ({b"top": b"."}, b"top/x", b"x"),
    ],
)
def test_links_inside_workspace_are_followed(targets: dict[bytes, bytes], asked: bytes, path: bytes) -> None:
    entries, by_path = tree(targets)
    assert follow(asked, entries, by_path.__getitem__, "/workspace") == path


@pytest.mark.parametrize(
    "targets",
    [
        {b"a": b"/etc/passwd"},
        {b"a": b"../x"},
        {b"a": b"b/../../x"},
        {b"a": b"a"},
        {b"a": b"b", b"b": b"a"},
        {b"a": b"a/a"},
        {b"a": b"/workspacex"},
    ],
)
def test_escaping_and_circular_links_are_refused(targets: dict[bytes, bytes]) -> None:
    entries, by_path = tree(targets)
    with pytest.raises(ToolFault) as caught:
        follow(b"a", entries, by_path.__getitem__, "/workspace")
    assert caught.value.kind == "path_unsafe"


def test_newline_in_name_cannot_forge_another_name() -> None:
    assert show(b"a\nb") == "a%0Ab"
