from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentbench.acceptance.mutation.audit import audit
from agentbench.acceptance.mutation.line_mutations import text_changes
from agentbench.acceptance.mutation.python_mutations import enclosing, meaning, python_changes
from agentbench.acceptance.mutation.variants import variants
from agentbench.tree.entry import FileWrite
from agentbench.tree.folder import FolderTree
from tests.acceptance.toy import CORE, FIXED, Bed, delta_of, write

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
def test_every_operator_finds_a_place_and_leaves_valid_code_with_another_meaning() -> None:
    found = list(python_changes(CODE.encode()))
    assert {one.operator for one in found} == OPERATORS
    for one in found:
        assert ast.dump(ast.parse(one.content)) != ast.dump(ast.parse(CODE)), one
    texts = {one.what for one in found}
    assert {
        "return None",
        "3 → 4",
        "3 → 2",
        "width <= 0",
        "width < 0 and height < 0",
        "not (width < 0 or height < 0)",
    } <= texts
    assert "area swallows what it raises" in texts
    # Inside an f-string places are not true before Python 3.12, and a docstring is no behaviour.
    assert not any("width + 2" in one.content.decode() or "A module" in one.what for one in found)


def test_what_is_no_python_or_has_nothing_to_change_has_no_changes() -> None:
    assert list(python_changes(b"def (:")) == []
    assert list(python_changes(b"")) == []
    assert list(python_changes(b'"""Only words."""\n# and a comment 1\n')) == []


@given(st.text(max_size=60))
@example("\r0")
def test_any_text_can_be_offered(text: str) -> None:
    for one in python_changes(text.encode("utf-8", "replace")):
        assert meaning(one.content) is not None


def test_meaning_leaves_out_layout_comments_and_docstrings() -> None:
    plain = b"def f():\n    return 1\n"
    assert meaning(b'def f():\n    """Doc."""\n    # why\n    return (1)\n') == meaning(plain)
    assert meaning(b"def f():\n    return 2\n") != meaning(plain)


def test_lines_near_a_change_are_those_of_its_function() -> None:
    source = b"def f():\n    a = 1\n    return a\n\n\ndef g():\n    return 2\n"
    assert enclosing(source, frozenset({2})) == {1, 2, 3}


def test_code_of_other_languages_is_changed_by_its_lines() -> None:
    lines = [b"// 1\n", b"if (a <= 10) {\n", b"  return a && b;\n", b"}\n"]
    found = {(one.operator, one.line, one.what) for one in text_changes(lines)}
    assert ("off_by_one", 2, "if (a <= 11) {") in found
    assert ("off_by_one", 2, "if (a < 10) {") in found
    assert ("negated_condition", 2, "if (!(a <= 10)) {") in found
    assert ("constant_return", 3, "return 0;") in found
    assert ("swapped_operator", 3, "return a || b;") in found
    assert ("deleted_statement", 3, "(left out)") in found
    assert not any(line == 1 for _, line, _ in found)


def reference(folder: Path, files: dict[str, str]) -> tuple[FolderTree, list[FileWrite]]:
    return FolderTree.at(folder), [FileWrite(name.encode(), content=text.encode()) for name, text in files.items()]


@pytest.mark.req("C-19")
def test_twenty_variants_over_five_operators_come_of_a_small_reference_the_same_every_time(tmp_path: Path) -> None:
    write(tmp_path, {"src/toy/core.py": CORE})
    base, writes = reference(tmp_path, {"src/toy/core.py": FIXED})
    made = variants(base, writes)
    assert len(made) == 20
    operators = Counter(one.operator for one in made)
    assert len(operators) >= 5
    # No operator crowds out the others.
    assert max(operators.values()) <= 8
    assert made == variants(base, writes)
    contents = {one.writes[0].content for one in made}
    assert len(contents) == 20
    assert not contents & {CORE.encode(), FIXED.encode()}
    # What the reference itself changed comes before what stands around it.
    assert [one.tier for one in made] == sorted(one.tier for one in made)


@pytest.mark.req("C-19")
def test_hunks_and_files_are_taken_back_and_tests_and_prose_left_alone(tmp_path: Path) -> None:
    before = {"a.py": "A = 1\n\n\n\n\nB = 1\n", "b.py": "C = 1\n", "README.md": "1\n", "tests/test_a.py": "assert 1\n"}
    after = {"a.py": "A = 2\n\n\n\n\nB = 2\n", "b.py": "C = 2\n", "README.md": "2\n", "tests/test_a.py": "assert 2\n"}
    write(tmp_path, before)
    base, writes = reference(tmp_path, after)
    made = variants(base, writes, wanted=500)
    assert {one.path for one in made} == {b"a.py", b"b.py"}
    reverted = {one.writes for one in made if one.operator == "reverted_hunk" and one.path == b"a.py"}
    texts = {next(one.content for one in writes if one.path == b"a.py") for writes in reverted}
    assert texts == {b"A = 1\n\n\n\n\nB = 2\n", b"A = 2\n\n\n\n\nB = 1\n"}
    without = next(one for one in made if one.operator == "reverted_file" and one.path == b"b.py")
    assert [one.path for one in without.writes] == [b"a.py", b"README.md", b"tests/test_a.py"]
    assert not variants(base, writes, protected=["*.py"], wanted=500) or all(
        one.path == b"README.md" for one in variants(base, writes, protected=["*.py"], wanted=500)
    )


def test_a_change_of_comments_alone_gives_no_variant_of_the_comment(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "# old\nA = 1\n\n\n\n\nB = 1\n"})
    base, writes = reference(tmp_path, {"a.py": "# new\nA = 1\n\n\n\n\nB = 2\n"})
    for one in variants(base, writes, wanted=100):
        assert meaning(one.writes[0].content or b"") not in {meaning(b"A = 1\nB = 1\n"), meaning(b"A = 1\nB = 2\n")}


@pytest.mark.req("C-19")
def test_an_empty_line_more_or_less_is_no_variant(tmp_path: Path) -> None:
    write(tmp_path, {"a.js": "let a = 1;\n"})
    base, writes = reference(tmp_path, {"a.js": "let a = 1;\n\nlet b = 2;\n\n"})
    texts = [one.writes[0].content or b"" for one in variants(base, writes, wanted=100)]
    assert b"let a = 1;\n" not in [text.replace(b"\n\n", b"\n") for text in texts]
    assert len({text.replace(b"\n", b"") for text in texts}) == len(texts)


@pytest.mark.req("C-19")
def test_only_as_much_of_a_long_file_is_looked_at_as_variants_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "".join(f"def f{number}(a):\n    return a + {number}\n\n\n" for number in range(300))
    write(tmp_path, {"a.py": long})
    base, writes = reference(tmp_path, {"a.py": long.replace("return a + 7\n", "return a - 7\n")})
    looked: list[bytes] = []

    def counted(source: bytes) -> str | None:
        looked.append(source)
        return meaning(source)

    monkeypatch.setattr("agentbench.acceptance.mutation.variants.meaning", counted)
    assert len(variants(base, writes, wanted=20)) == 20
    assert len(looked) < 60


@pytest.mark.req("C-19")
def test_a_weak_oracle_lets_a_wrong_variant_through_and_shows_it(bed: Bed, tmp_path: Path) -> None:
    check = {
        "id": "odd",
        "command": "python -c 'from toy import median; assert median([1, 2, 3, 4]) == 2.5'",
        "timeout_sec": 30,
    }
    context = bed.context(
        tmp_path, hidden=None, oracle={"checks": [check]}, reference="reference.patch", files={"reference.patch": ""}
    )
    (tmp_path / "reference.patch").write_bytes(delta_of(context, {"src/toy/core.py": FIXED}))
    found = audit(context, wanted=4)
    assert (found.noop, found.reference, found.sound) == ("fail", "pass", True)
    assert len(found.tried) == 4
    assert found.killed + len(found.survivors) == 4
    assert found.kill_rate == found.killed / 4
    assert found.killed
    assert any("a small audit" in note for note in found.notes)
    for one in found.survivors:
        assert one.diff.startswith("diff --git a/src/toy/core.py")
    assert sum(total for _, total in found.by_operator().values()) == 4
