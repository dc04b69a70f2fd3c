"""Plain text is searched on the host, everything else by ripgrep. Both must find the same lines."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.canonical import sha256_hex
from agentbench.core.command import Command, Completed
from agentbench.tools import host_search
from agentbench.tools.host_search import ContentCache, Query, parse_query, search_on_host
from agentbench.tools.search import parse_matches, ripgrep_command
from agentbench.tools.workspace_tracker import WorkspaceTracker
from agentbench.tree.entry import Entry, Kind
from tests.tools.conftest import OpenSession
from tests.tools.project_sandboxes import FILES, ProjectSandboxes
from tests.tools.recorded_session import FolderSandbox, completed, fill

pytestmark = [pytest.mark.req("T-01"), pytest.mark.component]

needs_ripgrep = pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")

TOKENS = ("a", "b", "ab", "foo", "_", " ", "-", "é", "#", "/", r"\.", r"\(", r"\\", r"\b", r"\$", ".*", "|", "^", "$")
OTHERS = (".", "+", "(", ")", "[ab]", r"\w", r"\s", "{2}", "?")
QUERIES = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=6).map("".join)
ANY_QUERIES = st.lists(st.sampled_from(TOKENS + OTHERS), min_size=1, max_size=6).map("".join)
TEXTS = st.lists(
    st.sampled_from([b"a", b"b", b"ab", b"foo", b"_", b" ", b"-", "é".encode(), b"\xe9", b".", b"(", b"\\", b"$", b"#"])
    | st.sampled_from([b"\n", b"\r\n", b"\r", b"\0", b"/", b"|", b"^"]),
    max_size=25,
).map(b"".join)

Lines = list[tuple[int, bytes]]


def by_ripgrep(query: str, content: bytes, folder: Path) -> Lines | None:
    """Return number and text of matching lines, or None if ripgrep rejects the pattern."""
    (folder / "f").write_bytes(content)
    done = subprocess.run(ripgrep_command(query, b"./f\0", literal=False), cwd=folder, capture_output=True, check=False)
    if done.returncode == 2 and not done.stdout:
        return None
    return [(number, line.removesuffix(b"\n")) for _, number, line in parse_matches(done.stdout, 1000)]


class OneFile(WorkspaceTracker):
    """A tracker of a workspace with a single file."""

    def __init__(self, content: bytes) -> None:
        self.entry = Entry(b"f", Kind.FILE, executable=False, size=len(content), sha256=sha256_hex(content))
        self._content = content

    def content(self, entry: Entry) -> tuple[bytes | None, bool]:
        assert entry == self.entry
        return self._content, False


def on_host(query: str, content: bytes) -> Lines | None:
    """Return number and text of matching lines, or None if ripgrep must search."""
    tracker = OneFile(content)
    found, _ = search_on_host(tracker, query, [tracker.entry], 1000)
    return None if found is None else [(number, line) for _, number, line in found]


@needs_ripgrep
@given(query=QUERIES | ANY_QUERIES, content=TEXTS)
def test_host_search_finds_what_ripgrep_finds(
    query: str, content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    matches = on_host(query, content) if content else None
    if matches is not None:
        assert matches == by_ripgrep(query, content, tmp_path_factory.getbasetemp())


@needs_ripgrep
@given(query=ANY_QUERIES, content=TEXTS)
def test_every_match_contains_the_text_of_its_query(
    query: str, content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    parsed = parse_query(query)
    if parsed is not None and content and by_ripgrep(query, content, tmp_path_factory.getbasetemp()):
        assert parsed.may_match(content)


@pytest.mark.parametrize(
    "pattern, texts",
    [
        (r"def function_3_[78]\(", ["def function_3_"]),
        (r"colou?r", ["colo"]),
        (r"ab+c", ["ab"]),
        (r"ab{0,2}cd", ["cd"]),
        (r"x\s*=\s*long_name\.\w+", ["long_name."]),
        (r"foo.|bar\b", ["foo", "bar"]),
        (r"^def ", ["def "]),
        (r"a.*bc", ["bc"]),
    ],
)
def test_regular_expression_gives_its_longest_certain_text(pattern: str, texts: list[str]) -> None:
    assert parse_query(pattern) == Query(tuple(text.encode() for text in texts), exact=False)


@pytest.mark.parametrize("pattern, texts", [("foo", ["foo"]), (r"f\(x\)|é-#", ["f(x)", "é-#"]), ("a", ["a"])])
def test_plain_text_and_its_alternatives_are_exact(pattern: str, texts: list[str]) -> None:
    assert parse_query(pattern) == Query(tuple(text.encode() for text in texts), exact=True)


@pytest.mark.parametrize("pattern", ["foo*?bar", "[[:alpha:]]foo", r"foo\x41", "|".join("abcdefghi"), "foo|a?"])
def test_texts_of_complex_patterns_are_not_guessed(pattern: str) -> None:
    assert parse_query(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    ["", ".*", "a|", "^$", "(a)", "(foo|bar)", "a+", "[ab]", r"\w", r"\d", "a.b", r"\.*", "{", "]", r"\"", "(?i)foo"],
)
def test_uncertain_patterns_are_left_to_ripgrep(pattern: str) -> None:
    assert parse_query(pattern) is None


def test_ripgrep_gets_only_files_that_can_match(
    open_session: OpenSession, folder_sandbox: FolderSandbox, workspace: Path
) -> None:
    fill(workspace, {"one.py": "def f_1(): ...\n", "two.py": "def g_2(): ...\n", "odd.py": r"f_\(z[z-a]"})
    searched: list[list[str]] = []

    def rg(command: Command) -> Completed:
        searched.append([name for name in command.argv if name.endswith(".py")])
        invalid = r"f_\(z[z-a]" in command.argv and "--fixed-strings" not in command.argv
        return completed(exit_code=2 if invalid else 1, stderr=b"error" if invalid else b"")

    folder_sandbox.on_run = rg
    agent = open_session().session
    agent.search(r"f_[0-9]\(")
    agent.search("nowhere_[0-9]")
    agent.search(r"f_\(z[z-a]")
    assert searched[0] == ["./odd.py", "./one.py"]
    assert len(searched[1]) == 1  # ripgrep still decides whether the pattern is valid
    assert searched[2:] == [["./odd.py"], ["./odd.py", "./one.py", "./two.py"]]


@given(st.text(alphabet=r"ab.*|^$\(){}[]?+-é", max_size=12))
def test_every_query_is_parsed_or_left_to_ripgrep(query: str) -> None:
    on_host(query, b"ab.(\n-a\n")


@given(st.text(alphabet="abcxyz_ é", min_size=1, max_size=20))
def test_plain_words_are_searched_on_the_host(word: str) -> None:
    lines = on_host(word, f"x\n<{word}>\n".encode())
    assert lines is not None
    assert lines[-1:] == [(2, f"<{word}>".encode())]


def test_matching_binary_file_is_left_to_ripgrep() -> None:
    assert on_host("a", b"a\0b\n") is None
    assert on_host("c", b"a\0b\n") == []


def test_host_search_is_linear_on_hostile_text() -> None:
    content = (b"a" * 50_000 + b"\n") * 5
    query = "|".join("a" * 200 + "b" * n for n in range(1, 8))
    assert on_host(query, content) == []


# --- the tool -----------------------------------------------------------------------------------------------------------


def test_search_on_the_host_sees_changes(
    open_session: OpenSession, folder_sandbox: FolderSandbox, workspace: Path
) -> None:
    fill(workspace, {"a.py": "def one():\n    pass\n", "b.txt": "one\r\ntwo one\n", "empty": ""})
    session = open_session().session
    assert session.search("one").stdout == "a.py:1:def one():\nb.txt:1:one\nb.txt:2:two one\n"
    assert session.search(r"def one\(|two", glob="*.py").stdout == "a.py:1:def one():\n"
    session.apply_patch("--- a/b.txt\n+++ b/b.txt\n@@ -2 +2 @@\n-two one\n+two\n")
    assert session.search("two").stdout == "b.txt:2:two\n"
    limited = session.search("o", max_results=1)
    assert (limited.stdout, limited.truncated) == ("a.py:1:def one():\n", True)
    assert folder_sandbox.commands == []


@pytest.mark.parametrize("files, size", [(3, 300_000), (1200, 10)])
def test_large_workspace_is_searched_by_ripgrep(
    open_session: OpenSession, folder_sandbox: FolderSandbox, workspace: Path, files: int, size: int
) -> None:
    fill(workspace, {f"f{number}": "x" * size for number in range(files)})
    commands: list[Command] = []

    def rg(command: Command) -> Completed:
        commands.append(command)
        return completed(exit_code=1)

    folder_sandbox.on_run = rg
    assert open_session().session.search("one").ok
    assert len(commands) == 1


@pytest.mark.parametrize(
    "query", ["median", "mean|median", "def.*values", r"return\b", "^def ", r"values\)$", "no such"]
)
def test_host_and_sandbox_give_the_same_results(
    any_sandboxes: ProjectSandboxes, tmp_path: Path, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parse_query(query) is not None
    with any_sandboxes.open(tmp_path) as recorded:
        assert recorded.session.run("printf 'median\\r\\n' > dos.txt; printf 'd\\351f median' > latin").ok
        fast = recorded.session.search(query)
        with monkeypatch.context() as patched:
            patched.setattr(host_search, "parse_query", lambda _query: None)
            assert recorded.session.search(query) == fast
    expected = [name for name, text in FILES.items() if re.search(query, text, re.MULTILINE)]
    assert {line.partition(":")[0] for line in fast.stdout.splitlines()} >= set(expected)


def test_content_cache_drops_the_least_recently_used() -> None:
    cache = ContentCache(max_bytes=10)
    for text in (b"aaaa", b"bbbb"):
        cache.put(sha256_hex(text), text)
    assert cache.get(sha256_hex(b"aaaa")) == b"aaaa"
    cache.put(sha256_hex(b"cccc"), b"cccc")
    assert cache.get(sha256_hex(b"bbbb")) is None
    assert cache.get(sha256_hex(b"aaaa")) == b"aaaa"
