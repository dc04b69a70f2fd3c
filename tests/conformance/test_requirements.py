from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.requirements import KNOWN_GAPS, Level, Proofs, Requirement, read_requirements
from tests.conftest import CLAIMS, COLLECTED

pytest_plugins = ["pytester"]


TESTS = Path(__file__).parents[1]


def test_requirement_ids_have_no_gaps() -> None:
    groups: dict[str, list[int]] = {}
    for requirement in read_requirements():
        letter, number = requirement.split("-")
        groups.setdefault(letter, []).append(int(number))
    assert list(groups) == ["C", "R", "E", "M", "T", "G", "A", "L", "U"]
    for letter, numbers in groups.items():
        assert numbers == list(range(1, len(numbers) + 1)), letter


def test_no_requirement_falls_back(request: pytest.FixtureRequest) -> None:
    """Compare the claims of all tests with the known gaps. `make conformance` adds the results of the tests."""
    if not request.config.stash[COLLECTED].issuperset(TESTS.rglob("test_*.py")):
        pytest.skip("only part of the tests was collected")
    gaps = request.config.stash[CLAIMS].gaps(read_requirements())
    known = json.loads(KNOWN_GAPS.read_text(encoding="utf-8"))
    new = ", ".join(f"{leaf} is {status}" for leaf, status in gaps.items() if known.get(leaf) != status)
    closed = ", ".join(known.keys() - gaps.keys())
    assert not new, f"requirements that need a test which shows more: {new}"
    assert not closed, f"gaps that were closed, remove them from {KNOWN_GAPS.name}: {closed}"


@pytest.mark.parametrize(
    "lines",
    [
        ("- **C-01** One thing. Text.", "- **C-01** The same id again. Text."),
        ("- **C-01** One thing. Text.", "    - **C-01b** The second part first. Text."),
        ("    - **C-01a** A part of nothing. Text.",),
    ],
)
def test_requirements_out_of_order_are_rejected(tmp_path: Path, lines: tuple[str, ...]) -> None:
    page = tmp_path / "protocol.md"
    page.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ValueError, match="twice or out of order"):
        read_requirements(page)


def test_page_without_requirements_is_rejected(tmp_path: Path) -> None:
    page = tmp_path / "protocol.md"
    page.write_text("# Nothing here\n", encoding="utf-8")
    with pytest.raises(ValueError, match="states no requirement"):
        read_requirements(page)


def proofs(*tests: tuple[str, Level, str]) -> Proofs:
    collected = Proofs()
    for number, (requirement, level, outcome) in enumerate(tests):
        collected.add(f"tests/a.py::test_{number}", [requirement], level, outcome)
    return collected


@pytest.mark.parametrize(
    "level, outcome, about_runs, about_tasks",
    [
        ("end_to_end", "passed", "whole", "whole"),
        ("component", "passed", "partly", "whole"),
        ("synthetic", "passed", "partly", "partly"),
        ("end_to_end", "skipped", "partly", "partly"),
        ("end_to_end", "failed", "partly", "partly"),
    ],
)
def test_status_needs_a_passing_test_that_shows_enough(
    level: Level, outcome: str, about_runs: str, about_tasks: str
) -> None:
    claims = proofs(("R-01", level, outcome), ("C-01", level, outcome))
    assert claims.status_of("R-01") == about_runs
    assert claims.status_of("C-01") == about_tasks
    assert claims.status_of("C-02") == "missing"


def test_failing_test_outweighs_passing_ones() -> None:
    claims = proofs(("C-01", "end_to_end", "passed"), ("C-01", "component", "failed"))
    assert claims.status_of("C-01") == "partly"


def test_requirement_is_as_complete_as_its_parts() -> None:
    compound = Requirement("Two things", {"C-01a": "One", "C-01b": "Two"})
    assert proofs().overall("C-01", compound) == "missing"
    assert proofs(("C-01a", "component", "passed")).overall("C-01", compound) == "partly"
    both = proofs(("C-01a", "component", "passed"), ("C-01b", "component", "passed"))
    assert both.overall("C-01", compound) == "whole"


def test_table_counts_requirements_by_status() -> None:
    table = proofs(("C-01", "component", "passed")).as_table({"C-01": Requirement("One"), "C-02": Requirement("Two")})
    assert table[-1] == "2 requirements: 1 whole, 0 partly, 1 missing"
    assert "C-02   missing  Two" in table


# --- hooks of tests/conftest.py in a separate project -----------------------------------------------------------------


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    tests = Path(__file__).parents[1]
    pytester.makeconftest((tests / "conftest.py").read_text(encoding="utf-8"))
    pytester.makeini(f"[pytest]\nmarkers =\n  req: requirement\n  component: one part\npythonpath = {tests.parent}\n")
    return pytester


def test_unknown_requirement_is_an_error(project: pytest.Pytester) -> None:
    project.makepyfile("import pytest\n@pytest.mark.component\n@pytest.mark.req('Z-99', 'R-02')\ndef test_a(): pass\n")
    result = project.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "unknown requirement 'Z-99'" in result.stderr.str()
    assert "'R-02' has parts, claim one of R-02a, R-02b" in result.stderr.str()


def test_claim_without_a_level_is_an_error(project: pytest.Pytester) -> None:
    project.makepyfile("import pytest\n@pytest.mark.req('C-01')\ndef test_a(): pass\n")
    result = project.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "add the mark end_to_end, component or synthetic" in result.stderr.str()


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
    project.makepyfile("import pytest\n@pytest.mark.component\n@pytest.mark.req('C-01', 'C-02')\ndef test_a(): pass\n")
    result = project.runpytest_subprocess("-p", "no:cacheprovider", "--conformance", "out/table.json", "-n", "1")
    result.stdout.fnmatch_lines(["C-01 *whole *A task is a folder*", "*passed *component *::test_a", "C-03 *missing*"])
    assert '"C-02"' in (project.path / "out" / "table.json").read_text(encoding="utf-8")
