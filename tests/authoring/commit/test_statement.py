"""Statements drafted from commit messages, and their checks for leaks and missing names."""

from __future__ import annotations

import pytest

from agentbench.authoring.commit.statement import check_statement, draft_statement, kind_of
from agentbench.authoring.commit.task_draft import dump_yaml

pytestmark = [pytest.mark.req("C-10", "C-18"), pytest.mark.component]

PATCH = b"--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n-x = 1\n+def fresh_name(value):\n+    return value.strip().lower()\n"


def test_trailers_and_references_are_removed() -> None:
    text = "Fix crash (#12)\n\nCloses #11.\nIt crashed.\n\nCo-authored-by: b <b@c>\n"
    assert draft_statement(text) == "Fix crash\n\nIt crashed.\n"
    assert draft_statement("Fix #12: handle nothing at all (#13)\n") == "handle nothing at all\n"


def test_solution_line_in_the_statement_is_a_leak() -> None:
    flags = check_statement("Names keep blanks: use `return value.strip().lower()` there.", PATCH, {}, ())
    assert flags.leaks == ("`return value.strip().lower()`",)
    assert check_statement("Names keep their blanks and capitals, they should not.", PATCH, {}, ()).leaks == ()


def test_diff_in_the_statement_is_a_leak() -> None:
    assert "it contains a diff" in check_statement("See\n\n@@ -1 +1 @@\n", PATCH, {}, ()).leaks


def test_statement_of_one_line_is_flagged() -> None:
    subject = "Fix the handling of unused alignment in fields with a width and a fill character"
    assert check_statement(f"{subject}\n", PATCH, {}, ()).subject_only
    assert not check_statement(f"{subject}\n\nIt is ignored.\n", PATCH, {}, ()).subject_only
    assert not check_statement(f"{subject}. {subject}.\n", PATCH, {}, ()).subject_only


def test_subjects_of_squashed_commits_are_no_description() -> None:
    message = "Add weeks (#7)\n\n* Add weeks\n\n* Fix linting\n\n---------\n\nCo-authored-by: b <b@c>\n"
    statement = draft_statement(message)
    assert statement == "Add weeks\n\n* Add weeks\n\n* Fix linting\n"
    assert check_statement(statement, PATCH, {}, ()).subject_only
    described = "Weeks are missing.\n", "* Add weeks, which\n  are missing\n", "* They are missing, " + "and more " * 9
    for text in described:
        assert not check_statement(f"{statement}\n{text}", PATCH, {}, ()).subject_only


def test_new_name_that_the_statement_lacks_is_flagged() -> None:
    hidden = {"tests/test_a.py": b"from a import fresh_name\n\n\ndef test_it():\n    assert fresh_name(' A') == 'a'\n"}
    assert check_statement("Names keep their blanks, they should not.", PATCH, hidden, {"value"}).missing == (
        "fresh_name",
    )
    assert check_statement("Give us a function fresh_name for this purpose.", PATCH, hidden, ()).missing == ()
    assert check_statement("Names keep their blanks, they should not.", PATCH, hidden, {"fresh_name"}).missing == ()


def test_standard_library_names_are_not_flagged() -> None:
    patch = b"--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n+mock.fresh = own = datetime.profile = patch\n"

    def missing(test: bytes) -> tuple[str, ...]:
        return check_statement(
            "Times are wrong when mocked, they should not.", patch, {"tests/test_a.py": test}, ()
        ).missing

    assert missing(b"import datetime\nfrom unittest import mock\nimport unittest\nunittest.mock.patch(a.fresh)\n") == (
        "fresh",
    )
    assert missing(b"import datetime as d\nfrom unittest.mock import patch\nd.fresh\n") == ()
    assert missing(b"from .json import own\nfrom a import mock\n") == ("mock", "own")
    assert missing(b"import a\na.profile()\n") == ("profile",)  # also a standard library module, but not imported


@pytest.mark.parametrize(
    "subject, kind",
    [
        ("Fix crash on empty input", "bugfix"),
        ("Add support for paths", "feature"),
        ("Refactor parser", "refactor"),
        ("x", "bugfix"),
        # Subjects of commits in public repositories.
        ("Drop stale align/valign keys when field_names are renamed", "bugfix"),
        ("Performance: deprecate and defer import of `TableHandler` (#460)", "refactor"),
        ("perf: make requirement parsing 3x faster (#1019)", "refactor"),
        ("Renaming and exports.", "refactor"),
        ("utils: Move pre defines together", "refactor"),
        ("Remove pytest, move to src layout (#163)", "bugfix"),
        ("docs: fix simple typo, argumemts -> arguments", "docs"),
        ("docs(readme): add API reference for parse()/unparse() kwargs", "docs"),
        ("feat:  add `PYTHON_DOTENV_DISABLED` flag to disable load_dotenv (fixes #510) (#569)", "feature"),
        ("fix(parser): allow empty lists", "bugfix"),
    ],
)
def test_kind_is_read_from_the_subject(subject: str, kind: str) -> None:
    assert kind_of(subject) == kind


@pytest.mark.parametrize("commit", ["0bca747c0121d558eba7c5322347bb291376e9cb", "0" * 40, "1e7", "0x1f", "3.1"])
def test_commit_ids_that_look_like_numbers_are_quoted(commit: str) -> None:
    assert f"commit: '{commit}'" in dump_yaml({"commit": commit})
