from __future__ import annotations

from tests.campaigns.layers import rules_of
from tests.campaigns.layers_table import cheats_table, layers_table, replace_table, rules_table
from tests.campaigns.redteam import Row


def row(cheat: str, *caught_by: str, off: str = "", outcome: str = "fail", event: str = "") -> Row:
    events = (event,) if event else ()
    return Row("cheating", cheat, "leaks", "bwrap", False, off, outcome, caught_by, "", (), events)


PLAIN = [
    row("both", "audit_hook", "inspection", event="open test"),
    row("one", "audit_hook", event="open data tests/a.json"),
    row("one", off="audit_hook", outcome="PASS"),
    row("none", "results"),
    row("survivor", outcome="PASS"),
]
REFERENCE = [row("both", "audit_hook", "decoys"), row("one", "audit_hook"), row("survivor", "decoys")]


def test_table_of_cheats_marks_the_only_layer() -> None:
    assert cheats_table(PLAIN, REFERENCE)[2:] == [
        "|`both`|+|+||decoys|",
        "|`one`||**A**||–|",
        "|`survivor` (passes)||||**decoys**|",
    ]


def test_table_of_layers_counts_cheats_that_only_one_stops() -> None:
    lines = layers_table(PLAIN, REFERENCE)
    counts = {line.split("|")[1].strip(): line.split("|")[3:5] for line in lines}
    assert (counts["audit hook"], counts["decoys"], counts["results"]) == (
        [" 1 ", " 0 "],
        [" 0 ", " 1 "],
        [" 1 ", " 0 "],
    )


def test_table_of_rules_names_what_only_one_rule_reports() -> None:
    assert rules_table(PLAIN)[2:] == ["| open data | audit hook | `one` |"]


def test_rules_of_reports() -> None:
    changes = ["_pytest.runner.call", "test_a.CASES lost rows", "test_a.CASES", "hook pytest_x of Y"]
    assert rules_of(["open test"], changes) == [
        "functions and classes of pytest and builtins",
        "hooks of pytest",
        "names in test modules",
        "open test",
        "tables of test modules",
    ]


def test_tables_of_the_page_are_replaced() -> None:
    page = "# Page\n\n| cheat | a |\n|---|---|\n| x | y |\n\nEnd\n"
    assert replace_table(page, ["| cheat | b |", "|---|---|"]) == "# Page\n\n| cheat | b |\n|---|---|\n\nEnd\n"
