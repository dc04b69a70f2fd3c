from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.requirements import Proofs, read_requirements

pytest_plugins = ["pytester"]


def test_requirement_ids_have_no_gaps() -> None:
    groups: dict[str, list[int]] = {}
    for requirement in read_requirements():
        letter, number = requirement.split("-")
        groups.setdefault(letter, []).append(int(number))
    assert list(groups) == ["C", "R", "E", "M", "T", "G", "A", "L", "U"]
    for letter, numbers in groups.items():
        assert numbers == list(range(1, len(numbers) + 1)), letter


def test_duplicate_requirement_is_rejected(tmp_path: Path) -> None:
    page = tmp_path / "protocol.md"
    page.write_text("- **C-01** One thing. Text.\n- **C-01** The same id again. Text.\n", encoding="utf-8")
    with pytest.raises(ValueError, match="C-01 twice"):
        read_requirements(page)


def test_page_without_requirements_is_rejected(tmp_path: Path) -> None:
    page = tmp_path / "protocol.md"
    page.write_text("# Nothing here\n", encoding="utf-8")
    with pytest.raises(ValueError, match="states no requirement"):
        read_requirements(page)


def test_failing_test_fails_its_requirement() -> None:
    proofs = Proofs()
    proofs.add("a", ["C-01"], "passed")
    proofs.add("b", ["C-01"], "failed")
    proofs.add("c", ["C-02"], "passed")
    proofs.add("c", ["C-02"], "failed")
    assert proofs.result_of("C-01") == "failed"
    assert proofs.result_of("C-02") == "failed"
    assert proofs.result_of("C-03") == "no test"


def test_table_counts_proved_and_untested_requirements() -> None:
    proofs = Proofs()
    proofs.add("tests/a.py::test_a", ["C-01"], "passed")
    table = proofs.as_table({"C-01": "One", "C-02": "Two"})
    assert table[-1] == "1 of 2 requirements proved, 1 without a test"
    assert any(line.startswith("C-02  no test") for line in table)


# --- hooks of tests/conftest.py in a separate project -----------------------------------------------------------------


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    tests = Path(__file__).parents[1]
    pytester.makeconftest((tests / "conftest.py").read_text(encoding="utf-8"))
    pytester.makeini(f"[pytest]\nmarkers = req: requirement\npythonpath = {tests.parent}\n")
    return pytester


def test_unknown_requirement_is_an_error(project: pytest.Pytester) -> None:
    project.makepyfile("import pytest\n@pytest.mark.req('Z-99')\ndef test_a(): pass\n")
    result = project.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "does not state" in result.stderr.str()
    assert "Z-99" in result.stderr.str()


SKIPPED = """
import pytest
def test_runs(): pass
def test_stays_away(): pytest.skip("sandbox: bwrap is not installed")
def test_other(): pytest.skip("needs docker")
"""


def test_skipped_sandbox_test_fails_in_ci(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    project.makepyfile(SKIPPED)
    monkeypatch.setenv("CI", "true")
    result = project.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*may not be skipped in CI*bwrap is not installed*"])


def test_skipped_sandbox_test_is_skipped_outside_ci(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    project.makepyfile(SKIPPED)
    monkeypatch.delenv("CI", raising=False)
    project.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1, skipped=2)


def test_skipped_sandbox_module_fails_in_ci(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    project.makepyfile("import pytest\npytest.skip('no sandbox here', allow_module_level=True)\n")
    monkeypatch.setenv("CI", "true")
    project.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(errors=1)


def test_conformance_table_lists_tests_and_results(project: pytest.Pytester) -> None:
    project.makepyfile("import pytest\n@pytest.mark.req('C-01', 'C-02')\ndef test_a(): pass\n")
    result = project.runpytest_subprocess("-p", "no:cacheprovider", "--conformance", "out/table.json", "-n", "1")
    result.stdout.fnmatch_lines(["C-01  passed * A task is a folder*", "*passed*::test_a", "C-03  no test*"])
    assert '"C-02"' in (project.path / "out" / "table.json").read_text(encoding="utf-8")
