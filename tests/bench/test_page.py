from __future__ import annotations

import json
from pathlib import Path

from bench.page import PAGE, RESULTS, drawn

MACHINE = {
    "cpu": "cpu",
    "cores": 2,
    "memory_mb": 2048,
    "kernel": "6",
    "system": "Linux",
    "versions": {"python": "3.11", "commit": "abc"},
}
TAKEN = {"taken_at": "2026-01-01T00:00:00+00:00", "machine": MACHINE, "load_before": [0.1], "load_after": [0.2]}
MARKS = "before\n<!-- drawn: ours -->\nold\n<!-- end -->\nafter\n"


def page(tmp_path: Path, *found: dict[str, object]) -> str:
    whole = {"benches": {"calls": {**TAKEN, "results": list(found)}}}
    (tmp_path / "ours.json").write_text(json.dumps(whole), encoding="utf-8")
    return drawn(MARKS, tmp_path)


def test_the_page_says_what_the_results_say() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert drawn(text, RESULTS) == text, "python -m bench.page"


def test_what_was_missed_is_shown_as_missed(tmp_path: Path) -> None:
    missed = {
        "name": "x",
        "backend": "docker",
        "unit": "ms",
        "p50": 5.0,
        "p99": 9.25,
        "wanted": {"p50": 4},
        "met": False,
    }
    text = page(tmp_path, missed, {"note": "said"})
    assert "| docker | x | 5 ms | 9.25 ms | p50 ≤ 4 | **no** |" in text
    assert "- said\n" in text


def test_what_stands_around_the_marks_stays_and_drawing_again_changes_nothing(tmp_path: Path) -> None:
    text = page(tmp_path, {"name": "x", "unit": "s", "value": 0.1234})
    assert text.startswith("before\n<!-- drawn: ours -->\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert "| 0.123 s |" in text
    assert drawn(text, tmp_path) == text
