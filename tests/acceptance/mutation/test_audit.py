from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentbench.acceptance.mutation.audit import audit
from agentbench.acceptance.mutation.mutations import enclosing, meaning, python_changes, text_changes
from agentbench.acceptance.mutation.variants import variants
from agentbench.tree.entry import FileWrite
from agentbench.tree.folder import FolderTree
from tests.acceptance.toy import CORE, FIXED, TaskFactory, patch_of, write

pytestmark = pytest.mark.component

CODE = '''\
"""A module."""


def area(width, height, *, label="x"):
    """The area."""
    if width < 0 or height < 0:
        raise ValueError(f"negative: {width + 1}")
    total = 0
    for _ in range(3):
        total = total + width * height
    try:
        return total // 3
    except ZeroDivisionError:
        return 0 if label == "x" else 1
'''
OPERATORS = {
    "constant_return",
    "off_by_one",
    "negated_condition",
    "swapped_operator",
    "deleted_statement",
    "swallowed_exception",
}


@pytest.mark.req("C-19")
def test_every_operator_yields_valid_code_with_another_meaning() -> None:
    changes = list(python_changes(CODE.encode()))
    assert {change.operator for change in changes} == OPERATORS
    for change in changes:
        assert ast.dump(ast.parse(change.content)) != ast.dump(ast.parse(CODE)), change
    descriptions = {change.what for change in changes}
    assert {
        "return None",
        "3 → 4",
        "3 → 2",
        "width <= 0",
        "width < 0 and height < 0",
        "not (width < 0 or height < 0)",
    } <= descriptions
    assert "area swallows its exceptions" in descriptions
    # Positions inside an f-string are wrong before Python 3.12, and a docstring is not behaviour.
    assert not any("width + 2" in change.content.decode() or "A module" in change.what for change in changes)


def test_invalid_or_empty_code_has_no_mutations() -> None:
    assert list(python_changes(b"def (:")) == []
    assert list(python_changes(b"")) == []
    assert list(python_changes(b'"""Only words."""\n# and a comment 1\n')) == []


@given(st.text(max_size=60))
@example("\r0")
def test_any_text_can_be_mutated(text: str) -> None:
    for change in python_changes(text.encode("utf-8", "replace")):
        assert meaning(change.content) is not None


def test_meaning_ignores_layout_comments_and_docstrings() -> None:
    plain = b"def f():\n    return 1\n"
    assert meaning(b'def f():\n    """Doc."""\n    # why\n    return (1)\n') == meaning(plain)
    assert meaning(b"def f():\n    return 2\n") != meaning(plain)


def test_enclosing_returns_the_lines_of_the_function() -> None:
    source = b"def f():\n    a = 1\n    return a\n\n\ndef g():\n    return 2\n"
    assert enclosing(source, frozenset({2})) == {1, 2, 3}


def test_other_languages_are_mutated_line_by_line() -> None:
    lines = [b"// 1\n", b"if (a <= 10) {\n", b"  return a && b;\n", b"}\n"]
    changes = {(change.operator, change.line, change.what) for change in text_changes(lines)}
    assert ("off_by_one", 2, "if (a <= 11) {") in changes
    assert ("off_by_one", 2, "if (a < 10) {") in changes
    assert ("negated_condition", 2, "if (!(a <= 10)) {") in changes
    assert ("constant_return", 3, "return 0;") in changes
    assert ("swapped_operator", 3, "return a || b;") in changes
    assert ("deleted_statement", 3, "(left out)") in changes
    assert not any(line == 1 for _, line, _ in changes)


def reference(folder: Path, files: dict[str, str]) -> tuple[FolderTree, list[FileWrite]]:
    return FolderTree.at(folder), [FileWrite(name.encode(), content=text.encode()) for name, text in files.items()]


@pytest.mark.req("C-19")
def test_variants_are_diverse_and_deterministic(tmp_path: Path) -> None:
    write(tmp_path, {"src/toy/core.py": CORE})
    base, writes = reference(tmp_path, {"src/toy/core.py": FIXED})
    wrong_variants = variants(base, writes)
    assert len(wrong_variants) == 20
    operators = Counter(variant.operator for variant in wrong_variants)
    assert len(operators) >= 5
    # No operator dominates.
    assert max(operators.values()) <= 8
    assert wrong_variants == variants(base, writes)
    contents = {variant.writes[0].content for variant in wrong_variants}
    assert len(contents) == 20
    assert not contents & {CORE.encode(), FIXED.encode()}
    # Lines that the reference changed come before lines around them.
    assert [variant.tier for variant in wrong_variants] == sorted(variant.tier for variant in wrong_variants)


@pytest.mark.req("C-19")
def test_hunks_and_files_are_reverted_but_not_tests_and_prose(tmp_path: Path) -> None:
    before = {"a.py": "A = 1\n\n\n\n\nB = 1\n", "b.py": "C = 1\n", "README.md": "1\n", "tests/test_a.py": "assert 1\n"}
    after = {"a.py": "A = 2\n\n\n\n\nB = 2\n", "b.py": "C = 2\n", "README.md": "2\n", "tests/test_a.py": "assert 2\n"}
    write(tmp_path, before)
    base, writes = reference(tmp_path, after)
    wrong_variants = variants(base, writes, wanted=500)
    assert {one.path for one in wrong_variants} == {b"a.py", b"b.py"}
    reverted = {one.writes for one in wrong_variants if one.operator == "reverted_hunk" and one.path == b"a.py"}
    texts = {next(one.content for one in writes if one.path == b"a.py") for writes in reverted}
    assert texts == {b"A = 1\n\n\n\n\nB = 2\n", b"A = 2\n\n\n\n\nB = 1\n"}
    without = next(one for one in wrong_variants if one.operator == "reverted_file" and one.path == b"b.py")
    assert [one.path for one in without.writes] == [b"a.py", b"README.md", b"tests/test_a.py"]
    assert not variants(base, writes, protected=["*.py"], wanted=500) or all(
        one.path == b"README.md" for one in variants(base, writes, protected=["*.py"], wanted=500)
    )


def test_comments_yield_no_variant(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "# old\nA = 1\n\n\n\n\nB = 1\n"})
    base, writes = reference(tmp_path, {"a.py": "# new\nA = 1\n\n\n\n\nB = 2\n"})
    for variant in variants(base, writes, wanted=100):
        assert meaning(variant.writes[0].content or b"") not in {meaning(b"A = 1\nB = 1\n"), meaning(b"A = 1\nB = 2\n")}


@pytest.mark.req("C-19")
def test_blank_lines_yield_no_variant(tmp_path: Path) -> None:
    write(tmp_path, {"a.js": "let a = 1;\n"})
    base, writes = reference(tmp_path, {"a.js": "let a = 1;\n\nlet b = 2;\n\n"})
    texts = [variant.writes[0].content or b"" for variant in variants(base, writes, wanted=100)]
    assert b"let a = 1;\n" not in [text.replace(b"\n\n", b"\n") for text in texts]
    assert len({text.replace(b"\n", b"") for text in texts}) == len(texts)


@pytest.mark.req("C-19")
def test_few_variants_of_a_long_file_are_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "".join(f"def f{number}(a):\n    return a + {number}\n\n\n" for number in range(300))
    write(tmp_path, {"a.py": long})
    base, writes = reference(tmp_path, {"a.py": long.replace("return a + 7\n", "return a - 7\n")})
    examined: list[bytes] = []

    def counted(source: bytes) -> str | None:
        examined.append(source)
        return meaning(source)

    monkeypatch.setattr("agentbench.acceptance.mutation.variants.meaning", counted)
    assert len(variants(base, writes, wanted=20)) == 20
    assert len(examined) < 60


@pytest.mark.req("C-19")
def test_audit_shows_variants_that_weak_checks_accept(tasks: TaskFactory, tmp_path: Path) -> None:
    check = {
        "id": "odd",
        "command": "python -c 'from toy import median; assert median([1, 2, 3, 4]) == 2.5'",
        "timeout_sec": 30,
    }
    context = tasks.context(
        tmp_path, hidden=None, oracle={"checks": [check]}, reference="reference.patch", files={"reference.patch": ""}
    )
    (tmp_path / "reference.patch").write_bytes(patch_of(context, {"src/toy/core.py": FIXED}))
    result = audit(context, wanted=4)
    assert (result.noop, result.reference, result.sound) == ("fail", "pass", True)
    assert len(result.tried) == 4
    assert result.killed + len(result.survivors) == 4
    assert result.kill_rate == result.killed / 4
    assert result.killed
    assert any("small audit" in note for note in result.notes)
    for survivor in result.survivors:
        assert survivor.diff.startswith("diff --git a/src/toy/core.py")
    assert sum(total for _, total in result.by_operator().values()) == 4
