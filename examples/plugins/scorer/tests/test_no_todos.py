from types import SimpleNamespace

from agentbench_no_todos import no_todos


def workspace(before: bytes, after: bytes) -> SimpleNamespace:
    lines = {"before": tuple(before.splitlines(keepends=True)), "after": tuple(after.splitlines(keepends=True))}
    return SimpleNamespace(texts=[SimpleNamespace(after_path="a.py", **lines)])


def test_added_todo_fails_with_its_line() -> None:
    verdict = no_todos(workspace(b"x = 1\n", b"x = 1\ny = 2  # TODO: test\n"), {})
    assert verdict.verdict == "FAIL"
    assert "a.py: y = 2  # TODO: test" in verdict.detail


def test_old_todo_and_other_words_pass() -> None:
    assert no_todos(workspace(b"# TODO\n", b"# TODO\nx = 1\n"), {}).verdict == "PASS"
    assert no_todos(workspace(b"", b"# TODO\n"), {"words": ["HACK"]}).verdict == "PASS"
