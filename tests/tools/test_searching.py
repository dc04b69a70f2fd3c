"""Words are looked for on the host, everything else by ripgrep: what is found must not depend on which of both it was."""

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
from agentbench.tools import host_search as nearby
from agentbench.tools.content_cache import Contents
from agentbench.tools.literal_search import Doubt, Effort, lines_of, understood
from agentbench.tools.search import _hits, _ripgrep
from agentbench.tools.search_hits import Hit
from agentbench.tools.search_prefilter import needed_text
from tests.tools.boxes import FILES, Boxes
from tests.tools.conftest import OpenPlace
from tests.tools.places import FolderSandbox, completed, fill

pytestmark = pytest.mark.req("T-01")

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


def by_ripgrep(query: str, content: bytes, folder: Path) -> list[Hit] | None:
    """None: ripgrep takes it for no pattern."""
    (folder / "f").write_bytes(content)
    done = subprocess.run(_ripgrep(query, b"./f\0", literal=False), cwd=folder, capture_output=True, check=False)
    return None if done.returncode == 2 and not done.stdout else list(_hits(done.stdout, 1000))


@needs_ripgrep
@given(query=QUERIES | ANY_QUERIES, content=TEXTS)
def test_what_is_understood_means_what_it_means_to_ripgrep(
    query: str, content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wanted = understood(query)
    if wanted is None or not content:
        return
    try:
        here = [Hit.of(b"f", number, line) for number, line in lines_of(content, wanted, Effort())]
    except Doubt:
        return
    assert here == by_ripgrep(query, content, tmp_path_factory.getbasetemp())


@needs_ripgrep
@given(query=ANY_QUERIES, content=TEXTS)
def test_every_line_that_matches_holds_the_text_that_is_needed(
    query: str, content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    needed = needed_text(query)
    found = by_ripgrep(query, content, tmp_path_factory.getbasetemp()) if needed and content else None
    assert not found or needed.encode() in content


@pytest.mark.parametrize(
    "pattern, needed",
    [
        (r"def function_3_[78]\(", "def function_3_"),
        (r"colou?r", "colo"),
        (r"ab+c", "ab"),
        (r"ab{0,2}cd", "cd"),
        (r"x\s*=\s*long_name\.\w+", "long_name."),
        (r"(foo|bar)", ""),
        (r"(?i)foo", ""),
        (r"foo*?bar", ""),
        (r"foo|bar", ""),
        (r"[[:alpha:]]foo", ""),
        (r"foo\x41", ""),
    ],
)
def test_needed_text_is_the_longest_that_is_certain(pattern: str, needed: str) -> None:
    assert needed_text(pattern) == needed


def test_a_program_is_asked_only_about_files_that_can_match(
    place: OpenPlace, folder_sandbox: FolderSandbox, workspace: Path
) -> None:
    fill(workspace, {"one.py": "def f_1(): ...\n", "two.py": "def g_2(): ...\n", "odd.py": r"f_\(z[z-a]"})
    asked: list[list[str]] = []

    def rg(command: Command) -> Completed:
        asked.append([name for name in command.argv if name.endswith(".py")])
        bad = r"f_\(z[z-a]" in command.argv and "--fixed-strings" not in command.argv
        return completed(exit_code=2 if bad else 1, stderr=b"error" if bad else b"")

    folder_sandbox.on_run = rg
    agent = place().session
    agent.search(r"f_[0-9]\(")
    agent.search("nowhere_[0-9]")
    agent.search(r"f_\(z[z-a]")
    assert asked[0] == ["./odd.py", "./one.py"]
    assert len(asked[1]) == 1  # whether it is a pattern at all is still asked
    assert asked[2:] == [["./odd.py"], ["./odd.py", "./one.py", "./two.py"]]


@given(st.text(alphabet=r"ab.*|^$\(){}[]?+-é", max_size=12))
def test_a_query_is_understood_or_left_to_ripgrep_whatever_it_is(query: str) -> None:
    wanted = understood(query)
    if wanted is not None:
        list(lines_of(b"ab.(\n-a\n", wanted, Effort()))


@given(st.text(alphabet="abcxyz_ é", min_size=1, max_size=20))
def test_every_plain_word_is_understood(word: str) -> None:
    assert understood(word) is not None
    assert [line for _, line in lines_of(f"x\n<{word}>\n".encode(), understood(word) or (), Effort())][-1:] == [
        f"<{word}>".encode()
    ]


@pytest.mark.parametrize(
    "query",
    ["", ".*", "a|", "^$", "(a)", "a+", "[ab]", r"\w", r"\d", "a.b", r"\.*", "{", "]", r"a\bb", r"\"", "a" * 300],
)
def test_what_needs_an_engine_is_left_to_one(query: str) -> None:
    assert understood(query) is None


@pytest.mark.parametrize(
    "query, content",
    [
        (r"\ba", "éa\n".encode()),
        (r"a.*b", b"a\xffb\n"),
        ("a", b"a\0b\n"),
        ("a.*x", b"a\n" * 30_000),
        (r"\ba", b"_a" * 30_000),
    ],
)
def test_what_is_not_certain_or_takes_long_is_a_doubt(query: str, content: bytes) -> None:
    wanted = understood(query)
    assert wanted is not None
    with pytest.raises(Doubt):
        list(lines_of(content, wanted, Effort()))


def test_hostile_text_costs_no_more_than_its_length() -> None:
    content = (b"a" * 200_000 + b"\n") * 5
    wanted = understood("|".join("aaaa.*aaaa.*" + "a" * n + "b" for n in range(1, 8)))
    assert wanted is not None
    assert list(lines_of(content, wanted, Effort())) == []  # an engine that goes back would need days


# --- the tool -----------------------------------------------------------------------------------------------------------


def test_words_are_found_without_a_program_and_changes_are_seen(
    place: OpenPlace, folder_sandbox: FolderSandbox, workspace: Path
) -> None:
    fill(workspace, {"a.py": "def one():\n    pass\n", "b.txt": "one\r\ntwo one\n", "empty": ""})
    session = place().session
    assert session.search("one").stdout == "a.py:1:def one():\nb.txt:1:one\nb.txt:2:two one\n"
    assert session.search(r"def one\(|^two", glob="*.py").stdout == "a.py:1:def one():\n"
    session.apply_patch("--- a/b.txt\n+++ b/b.txt\n@@ -2 +2 @@\n-two one\n+two\n")
    assert session.search("two").stdout == "b.txt:2:two\n"
    limited = session.search("o", max_results=1)
    assert (limited.stdout, limited.truncated) == ("a.py:1:def one():\n", True)
    assert folder_sandbox.commands == []


def test_many_small_files_cost_no_more_than_one_large_one(
    place: OpenPlace, folder_sandbox: FolderSandbox, workspace: Path
) -> None:
    fill(workspace, {f"f{number}": "a\n" * 300 for number in range(80)})
    folder_sandbox.on_run = lambda _command: completed(exit_code=1)
    assert place().session.search("a.*x").ok
    assert len(folder_sandbox.commands) == 1


@pytest.mark.parametrize("files, size", [(3, 300_000), (1200, 10)])
def test_in_a_large_project_a_program_is_asked(
    place: OpenPlace, folder_sandbox: FolderSandbox, workspace: Path, files: int, size: int
) -> None:
    fill(workspace, {f"f{number}": "x" * size for number in range(files)})
    asked: list[Command] = []

    def rg(command: Command) -> Completed:
        asked.append(command)
        return completed(exit_code=1)

    folder_sandbox.on_run = rg
    assert place().session.search("one").ok
    assert len(asked) == 1


@pytest.mark.parametrize(
    "query", ["median", "mean|median", "def.*values", r"return\b", "^def ", r"values\)$", "no such"]
)
def test_both_ways_answer_alike_in_a_sandbox(
    any_boxes: Boxes, tmp_path: Path, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert understood(query) is not None
    with any_boxes.open(tmp_path) as here:
        assert here.session.run("printf 'median\\r\\n' > dos.txt; printf 'd\\351f median' > latin").ok
        quick = here.session.search(query)
        with monkeypatch.context() as patched:
            patched.setattr(nearby, "understood", lambda _query: None)
            assert here.session.search(query) == quick
    found = [name for name, text in FILES.items() if re.search(query, text, re.MULTILINE)]
    assert {line.partition(":")[0] for line in quick.stdout.splitlines()} >= set(found)


def test_contents_are_kept_within_a_bound_oldest_out_first() -> None:
    kept = Contents(max_bytes=10)
    for text in (b"aaaa", b"bbbb"):
        kept.put(sha256_hex(text), text)
    assert kept.get(sha256_hex(b"aaaa")) == b"aaaa"
    kept.put(sha256_hex(b"cccc"), b"cccc")
    assert kept.get(sha256_hex(b"bbbb")) is None
    assert kept.get(sha256_hex(b"aaaa")) == b"aaaa"
