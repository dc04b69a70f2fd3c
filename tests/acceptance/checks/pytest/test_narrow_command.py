"""Narrow a pytest call to the files of required tests, and leave it alone in case of doubt."""

from __future__ import annotations

import shlex

import pytest

from agentbench.acceptance.checks.pytest.narrow_command import narrow_arguments, without_parameters

pytestmark = pytest.mark.component

COLLECTED = ("tests/test_a.py", "tests/test_b.py", "tests/sub/test_c.py")


@pytest.mark.parametrize(
    "arguments, narrowed",
    [
        ("", "tests/test_a.py tests/sub/test_c.py"),
        ("tests", "tests/test_a.py tests/sub/test_c.py"),
        ("-q tests -x tests/sub", "-q -x tests/test_a.py tests/sub/test_c.py"),
        (
            "-ra -k tests -p no:cacheprovider tests",
            "-ra -k tests -p no:cacheprovider tests/test_a.py tests/sub/test_c.py",
        ),
        (
            "--tb=short -W error --maxfail=1 --deselect=tests/test_a.py::test_x[1] .",
            "--tb=short -W error --maxfail=1 --deselect=tests/test_a.py::test_x[1] tests/test_a.py tests/sub/test_c.py",
        ),
    ],
)
def test_paths_are_replaced_and_options_stay(arguments: str, narrowed: str) -> None:
    files = ("tests/sub/test_c.py", "tests/test_a.py")
    assert narrow_arguments(shlex.split(arguments), files, COLLECTED) == tuple(shlex.split(narrowed))


@pytest.mark.parametrize(
    "arguments",
    [
        "--pyargs package",
        "--doctest-modules src",
        "--ignore tests/sub tests",
        "--ignore=tests/sub tests",
        "--my-option tests tests",
        "tests/test_a.py::test_x tests/test_b.py",
        "-c other.ini tests",
    ],
)
def test_unclear_calls_stay_as_they_are(arguments: str) -> None:
    assert narrow_arguments(shlex.split(arguments), ["tests/test_a.py"], COLLECTED) == tuple(shlex.split(arguments))


@pytest.mark.parametrize(
    "files, collected",
    [
        (["tests/new.py"], COLLECTED),
        (["tests/test_a.py", "tests/new.py"], COLLECTED),
        (COLLECTED, COLLECTED),
        ([], COLLECTED),
        (["tests/[1].py"], ["tests/[1].py", "tests/test_a.py"]),
        (["-k.py"], ["-k.py", "tests/test_a.py"]),
    ],
)
def test_calls_stay_as_they_are_for_unknown_or_unusual_files(files: list[str], collected: list[str]) -> None:
    assert narrow_arguments(["-q", "tests"], files, collected) == ("-q", "tests")


def test_selected_rows_become_their_functions() -> None:
    arguments = [
        "-k",
        "a::b[1]",
        "a[1]/t.py",
        "t.py::test_x[1-2]",
        "t.py::test_x[2-4]",
        "--deselect",
        "t.py::test_x[3]",
    ]
    expected = ("-k", "a::b[1]", "a[1]/t.py", "t.py::test_x", "--deselect", "t.py::test_x[3]")
    assert without_parameters(arguments) == expected
